package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/executors/creation"
)

// Images that a daemon keeps stand in the registry of what was created. All else
// that is made beside the store's records lies below Setup.Folder, in folders
// whose names say what they are (R078).

func (s Setup) registry() creation.Registry {
	return creation.Registry(filepath.Join(s.Folder, "created.json"))
}

// temps is where processes have their temporary folders.
func (s Setup) temps() string { return filepath.Join(s.Folder, "tmp") }

// Temp makes and returns this process's temporary folder, and removes those of
// processes that are gone. RemoveTemp removes it.
func (s Setup) Temp() (string, error) { return creation.Temp(s.temps()) }

// RemoveTemp removes this process's temporary folder, if it has one.
func (s Setup) RemoveTemp() error { return creation.Drop(s.temps()) }

// creating is what a daemon's executor calls before it makes an image. reach
// are the options by which the daemon is found again.
func (s Setup) creating(kind string, reach map[string]string) func(daemon, name string) (func(string) error, error) {
	return func(daemon, name string) (func(string) error, error) {
		t := creation.Thing{Kind: kind, Name: name, Keeper: daemon, Reach: reach, At: time.Now().UTC()}
		return func(id string) error { return s.registry().Made(t, id) }, s.registry().Intend(t)
	}
}

// Leftover is something of ours that nobody uses, or that could not be removed.
type Leftover struct {
	Kind   string // image, root or temporary
	Name   string // what the daemon calls it, or a path
	Age    time.Duration
	Bytes  int64 // 0: not known
	Reason string
	remove func(context.Context) error
}

// Remove removes it. One that is in use stays, and that is the error.
func (l Leftover) Remove(ctx context.Context) error { return l.remove(ctx) }

// Used is what must stay.
type Used struct {
	Names map[string]bool // KIND NAME of images of daemons
	Roots map[string]bool // identities of images whose files are unpacked
}

// Name is the entry of an image in Used.Names.
func Name(kind, name string) string { return kind + " " + name }

// settled is how long a daemon may still be making what a killed process has
// asked it for.
const settled = time.Hour

// Leftovers lists what was created and is not used: images in daemons, unpacked
// images, and the temporary files of processes that are gone. The caller holds
// the store's lock, and no task runs.
func Leftovers(table []Kind, s Setup, used Used, now time.Time) ([]Leftover, error) {
	list, err := s.registry().Things()
	if err != nil {
		return nil, err
	}
	var out []Leftover
	for _, t := range list {
		k, ok := Named(table, t.Kind)
		if !ok || k.Remove == nil || used.Names[Name(t.Kind, t.Name)] {
			continue
		}
		out = append(out, Leftover{Kind: "image", Name: t.Kind + ": " + t.Name, Age: now.Sub(t.At), Reason: "no framework of the campaign uses it",
			remove: func(ctx context.Context) error {
				err := k.Remove(ctx, s, t)
				if errors.Is(err, ErrAbsent) {
					if t.ID == "" && now.Sub(t.At) < settled {
						return nil // it stays written down
					}
					err = nil
				}
				if err != nil && !errors.Is(err, ErrNotOurs) {
					return err
				}
				return errors.Join(err, s.registry().Forget(t))
			}})
	}
	roots, err := s.unusedRoots(used, now)
	if err != nil {
		return nil, err
	}
	temp, err := s.orphans(now)
	return append(append(out, roots...), temp...), err
}

// unusedRoots are unpacked images, and those that a killed process has not
// finished.
func (s Setup) unusedRoots(used Used, now time.Time) ([]Leftover, error) {
	entries, err := os.ReadDir(s.roots())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing unpacked images: %w", err)
	}
	var out []Leftover
	for _, e := range entries {
		id, _, _ := strings.Cut(strings.TrimPrefix(e.Name(), "."), ".")
		if !e.IsDir() || len(id) != 64 || used.Roots["sha256:"+id] && !strings.HasPrefix(e.Name(), ".") {
			continue
		}
		out = append(out, s.folder("root", filepath.Join(s.roots(), e.Name()), "no framework of the campaign uses it", now))
	}
	return out, nil
}

// orphans are the temporary folders of processes that are gone.
func (s Setup) orphans(now time.Time) ([]Leftover, error) {
	paths, err := creation.Orphans(s.temps())
	var out []Leftover
	for _, p := range paths {
		out = append(out, s.folder("temporary", p, "its process is gone", now))
	}
	return out, err
}

func (s Setup) folder(kind, path, reason string, now time.Time) Leftover {
	l := Leftover{Kind: kind, Name: path, Reason: reason, remove: func(context.Context) error { return os.RemoveAll(path) }}
	if info, err := os.Lstat(path); err == nil {
		l.Age = now.Sub(info.ModTime())
	}
	// A file that cannot be looked at counts for nothing; removing says why.
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			l.Bytes += info.Size()
		}
		return nil
	})
	return l
}

// RemoveOrphans removes what processes that are gone have left on its way to or
// from a daemon. It may be called at any time.
func RemoveOrphans(ctx context.Context, s Setup) error {
	left, err := s.orphans(time.Now())
	errs := []error{err}
	for _, l := range left {
		errs = append(errs, l.Remove(ctx))
	}
	return errors.Join(errs...)
}
