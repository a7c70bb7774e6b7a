// Package weights has the files of one pinned revision of a model's hub
// repository on this host: it fetches what is missing once, checks every file
// against the hub's own digests and every shard against its header, and keeps a
// reserve of the disk free. Servers then start from the folder with the hub's
// access off, so that nothing is fetched, and nothing changes, while GPUs wait.
//
// A folder is whole when its list (ListFile) is there and every file has the
// size and time that stand in it. A file appears under its name only when its
// digest was right; a broken transfer goes on where it ended. Files that the
// hub's own cache on this host has already are linked, never moved or changed
// (R080).
package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// ListFile is written last, beside the files.
const ListFile = "sotabuild-weights.json"

const listVersion = 1

// File is one file of a revision.
type File struct {
	Name   string    `json:"name"` // slash-separated, inside the folder
	Size   int64     `json:"size"`
	SHA256 string    `json:"sha256,omitempty"` // of large files
	Git    string    `json:"git_blob,omitempty"`
	Mtime  time.Time `json:"mtime,omitzero"` // as it lies on this host
}

// List is what a revision holds: the part that a server needs.
type List struct {
	Version  int    `json:"version"`
	Model    string `json:"model"`
	Revision string `json:"revision"`
	Files    []File `json:"files"`
}

// Bytes is the size of all files.
func (l List) Bytes() int64 {
	var n int64
	for _, f := range l.Files {
		n += f.Size
	}
	return n
}

// Portable is the list without what holds for this host alone, as bytes: the
// same for everybody.
func (l List) Portable() []byte {
	l.Files = slices.Clone(l.Files)
	for i := range l.Files {
		l.Files[i].Mtime = time.Time{}
	}
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		panic("weights: a list cannot be written as JSON: " + err.Error())
	}
	return append(b, '\n')
}

// maxID bounds a model's id, by the hub's own rule of 96 characters a part.
const maxID = 2*96 + 1

var (
	idForm       = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$`)
	revisionForm = lazyregexp.New(`^[0-9a-f]+$`)
)

// Folder is where a revision lies under root. The id is the hub's
// (ORGANISATION/NAME), the revision a commit.
func Folder(root, id, revision string) (string, error) {
	if len(id) > maxID || !idForm.MatchString(id) || strings.Contains(id, "..") {
		return "", fmt.Errorf("%q is no model of a hub: write ORGANISATION/NAME, or give the folder of its files as path", id)
	}
	if len(revision) != 40 || !revisionForm.MatchString(revision) {
		return "", fmt.Errorf("revision %q: write the commit, 40 hexadecimal digits", revision)
	}
	return filepath.Join(root, strings.ReplaceAll(id, "/", "--"), revision), nil
}

// Whole reports whether dir holds a whole revision, by the list, sizes and
// times; the reason says what is missing.
func Whole(dir string) (l List, reason string, err error) {
	b, err := os.ReadFile(filepath.Join(dir, ListFile))
	if errors.Is(err, fs.ErrNotExist) {
		return l, "it is not on this host", nil
	}
	if err != nil {
		return l, "", fmt.Errorf("reading the list of weights: %w", err)
	}
	if err := json.Unmarshal(b, &l); err != nil || l.Version != listVersion {
		return List{}, "its list cannot be read", nil
	}
	for _, f := range l.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) {
			return List{}, "its list cannot be read", nil
		}
		st, err := os.Stat(filepath.Join(dir, filepath.FromSlash(f.Name)))
		switch {
		case err != nil:
			return l, f.Name + " is missing", nil
		case st.Size() != f.Size || !st.ModTime().Equal(f.Mtime):
			return l, f.Name + " is not the file that was fetched", nil
		}
	}
	return l, "", nil
}

// unneeded are files that a server does not read where safetensors are there:
// the same weights in other forms, and pictures.
var unneeded = []string{"*.bin", "*.pt", "*.pth", "*.h5", "*.msgpack", "*.ot", "*.onnx", "*.onnx_data", "*.gguf", "*.tflite", "*.mlmodel"}

var never = []string{"*.png", "*.jpg", "*.jpeg", "*.gif", "*.mp4", "*.pdf", ".gitattributes", ".gitignore"}

// needed are the files of a repository that a server reads: everything, without
// pictures, and without other forms of the weights and the folder "original"
// where safetensors are there.
func needed(files []File) []File {
	match := func(patterns []string, name string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { ok, err := path.Match(p, path.Base(name)); return ok && err == nil })
	}
	safe := slices.ContainsFunc(files, func(f File) bool {
		return path.Ext(f.Name) == ".safetensors" && !strings.HasPrefix(f.Name, "original/")
	})
	return slices.DeleteFunc(slices.Clone(files), func(f File) bool {
		return match(never, f.Name) || safe && (match(unneeded, f.Name) || strings.HasPrefix(f.Name, "original/"))
	})
}
