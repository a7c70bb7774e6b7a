// Package kind is the table of the kinds of executors: how each is made,
// whether it answers on this host, and where it keeps images. It is the one
// place that imports them all.
//
// It knows no campaign and no language. Nothing here starts a task; only Pull
// brings something to this host, and it says so in the registry of what was
// created (package creation) before it does.
package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/creation"
	"github.com/sotabuild/sotabuild/executors/image"
)

// Setup is what an executor is made with.
type Setup struct {
	Self    string            // the sotabuild binary
	Tasks   string            // folder of task folders
	Folder  string            // for images, and what containers need beside them
	Options map[string]string // of the executor block, as text
	Say     func(string)      // gets a line where something takes long; nil hears nothing
}

// roots is the folder of unpacked root file systems, which the oci executor
// shares.
func (s Setup) roots() string { return filepath.Join(s.Folder, "images") }

// Image is what is known of an image where a kind keeps it.
type Image struct {
	Identity string   // image.Image.Identity
	Env      []string // of its config
	// Ref is what a task is given: the reference, with its digest where a
	// registry may move it.
	Ref string
	// Root unpacks its files below Setup.Folder, once for an identity, and
	// returns the folder.
	Root func(context.Context) (string, error)
}

// Kind is one kind of executor.
type Kind struct {
	Name string
	// Images: its tasks run in a container image. The others run programs of
	// the host.
	Images bool
	Help   string // what makes one answer
	New    func(Setup) (executors.Executor, error)
	// Answers says why nothing can run now; nil if something can, with what
	// answers and its version, for people.
	Answers func(context.Context, Setup) (string, error)
	// Probe runs something empty and says why a task could not run; nil where
	// Answers says it all.
	Probe func(context.Context, Setup) error
	// Open reads what is known of an image without bringing it here. An error
	// that is ErrAbsent means that it is not here. nil of a kind without images.
	Open func(ctx context.Context, s Setup, ref string) (Image, error)
	// Pull brings an image here and says how far it is. nil of a kind without
	// images, or that reads its images where they are.
	Pull func(ctx context.Context, s Setup, ref string, say func(string)) error
	// Holds is what the kind calls the image of a reference, as it is noted when
	// it is created, and Remove removes it; an error that is ErrNotOurs says that
	// it stays for good, ErrAbsent that there is none. nil of a kind that keeps its images below Setup.Folder.
	Holds  func(ctx context.Context, ref string) (string, error)
	Remove func(ctx context.Context, s Setup, t creation.Thing) error
	// Disk is the folder of this host that its images fill beside
	// Setup.Folder; nil or "" is none.
	Disk func(context.Context, Setup) (string, error)
}

// patience bounds how long a daemon is waited for.
const patience = 10 * time.Second

// ErrNotOurs marks what bears the name of something that was made, and may be
// somebody else's.
var ErrNotOurs = errors.New("it is not removed")

// ErrAbsent marks an image that is not here and could be pulled.
var ErrAbsent = errors.New("the image is not here")

// Kinds is the table, in the order in which auto tries those with images.
var Kinds = []Kind{local, docker, oci, slurm}

// Named finds a kind in a table; false if it has none of that name.
func Named(table []Kind, name string) (Kind, bool) {
	i := slices.IndexFunc(table, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return table[i], true
}

// Auto chooses a kind for a framework: the first of table that runs images and
// answers, and where the image is or can be pulled, if it has an image; else
// local, if it has a program. note is what must be said aloud: the framework has
// an image, and it is not run in it. An image that is a file and is missing, or
// cannot be read by what answers, is an error also where there is a program. An
// error says what to do.
func Auto(ctx context.Context, table []Kind, s Setup, ref, program string) (name, note string, err error) {
	if ref == "" {
		return "local", "", nil
	}
	path, file := filePath(ref)
	if _, err := os.Stat(path); file && errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("its image %s is not there; write the path of an archive or layout that is, make that one first, or leave image out to run a program of this host", ref)
	}
	var why []string
	unread := false
	for _, k := range table {
		if !k.Images {
			continue
		}
		_, err := k.Answers(ctx, s)
		if err == nil {
			if _, err = k.Open(ctx, s, ref); err == nil || errors.Is(err, ErrAbsent) {
				return k.Name, "", nil
			}
			unread = true
		}
		why = append(why, k.Name+": "+err.Error())
	}
	if file && unread {
		return "", "", fmt.Errorf("its image %s cannot be read (%s); make it again, or leave image out to run a program of this host", ref, strings.Join(why, "; "))
	}
	if program == "" {
		return "", "", fmt.Errorf("it has an image, and nothing here can run it (%s); start a Docker daemon, install runc, or give the framework a program for this host", strings.Join(why, "; "))
	}
	return "local", fmt.Sprintf("a program of this host is run, outside its image %s, because nothing answers that could run it (%s)", ref, strings.Join(why, "; ")), nil
}

// filePath is the path of an image that is a file or folder; false for one with
// a name.
func filePath(ref string) (string, bool) {
	for _, k := range []image.Kind{image.Archive, image.Layout} {
		if path, ok := strings.CutPrefix(ref, string(k)+":"); ok {
			return path, true
		}
	}
	return "", false
}

// fileImage reads an image that is a file or folder; false for one with a name.
func fileImage(ctx context.Context, s Setup, ref string) (Image, bool, error) {
	if _, ok := filePath(ref); !ok {
		return Image{}, false, nil
	}
	img, err := image.Open(ctx, ref, image.Platform{})
	if err != nil {
		return Image{}, true, err
	}
	return opened(img, s), true, nil
}

func opened(img *image.Image, s Setup) Image {
	return Image{Identity: img.Identity(), Env: img.Config.Env, Ref: img.Pinned(),
		Root: func(ctx context.Context) (string, error) { return img.Extract(ctx, s.roots()) }}
}
