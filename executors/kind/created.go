package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/executors/ledger"
	"github.com/sotabuild/sotabuild/executors/proc"
)

// What is made on a host beside the store's records is written down before it
// is made, so that clean-up removes what is written down and nothing else
// (R078). There are two places: images that a daemon keeps stand in
// created.json; everything else lies below Setup.Folder, in folders whose names
// say what they are.

// Created is something that a daemon was given.
type Created struct {
	Kind string    `json:"kind"` // whose daemon
	Name string    `json:"name"` // as it calls it
	At   time.Time `json:"at"`
}

func (s Setup) createdFile() string { return filepath.Join(s.Folder, "created.json") }

// creating is what a daemon's executor calls before it makes an image.
func (s Setup) creating(kind string) func(name string) error {
	return func(name string) error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return ledger.Update(ctx, s.createdFile(), func(list *[]Created) error {
			if !slices.ContainsFunc(*list, func(c Created) bool { return c.Kind == kind && c.Name == name }) {
				*list = append(*list, Created{kind, name, time.Now().UTC()})
			}
			return nil
		})
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

// Leftovers lists what was created and is not used: images in daemons, unpacked
// images, and the temporary files of processes that are gone. The caller holds
// the store's lock, and no task runs.
func Leftovers(table []Kind, s Setup, used Used, now time.Time) ([]Leftover, error) {
	list, err := ledger.Read[[]Created](s.createdFile())
	if err != nil {
		return nil, err
	}
	var out []Leftover
	for _, c := range list {
		k, ok := Named(table, c.Kind)
		if !ok || k.Remove == nil || used.Names[Name(c.Kind, c.Name)] {
			continue
		}
		out = append(out, Leftover{Kind: "image", Name: c.Kind + ": " + c.Name, Age: now.Sub(c.At), Reason: "no framework of the campaign uses it",
			remove: func(ctx context.Context) error {
				if err := k.Remove(ctx, s, c.Name); err != nil {
					return err
				}
				return ledger.Update(ctx, s.createdFile(), func(list *[]Created) error {
					*list = slices.DeleteFunc(*list, func(o Created) bool { return o.Kind == c.Kind && o.Name == c.Name })
					return nil
				})
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
	entries, err := os.ReadDir(filepath.Join(s.Folder, "tmp"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing temporary files of images: %w", err)
	}
	var out []Leftover
	for _, e := range entries {
		if alive, ours := owner(e.Name()); ours && !alive {
			out = append(out, s.folder("temporary", filepath.Join(s.Folder, "tmp", e.Name()), "its process is gone", now))
		}
	}
	return out, nil
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

// temp is the folder of this process for images on their way.
func (s Setup) temp() (string, error) {
	boot, err := proc.BootID()
	if err != nil {
		return "", err
	}
	self, err := proc.Read(os.Getpid())
	if err != nil {
		return "", fmt.Errorf("finding our own process: %w", err)
	}
	dir := filepath.Join(s.Folder, "tmp", fmt.Sprintf("%d.%d.%s", self.Pid, self.Start, boot))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making a temporary folder: %w", err)
	}
	return dir, nil
}

// owner reports whether the process of a temporary folder's name lives; ours is
// false of a name that is none of these.
func owner(name string) (alive, ours bool) {
	parts := strings.SplitN(name, ".", 3)
	if len(parts) != 3 {
		return false, false
	}
	pid, err1 := strconv.Atoi(parts[0])
	start, err2 := strconv.ParseUint(parts[1], 10, 64)
	if err1 != nil || err2 != nil {
		return false, false
	}
	boot, err := proc.BootID()
	if err != nil {
		return true, true // It cannot be told, so it stays.
	}
	return boot == parts[2] && proc.ID{Pid: pid, Start: start}.Alive(), true
}
