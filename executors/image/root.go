package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Root is an unpacked root file system, looked at as a process inside it would:
// links lead where they lead there, never out of it.
type Root struct {
	dir  string
	root *os.Root
}

// OpenRoot opens a folder that Extract returned. Close it.
func OpenRoot(dir string) (*Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening an image's files: %w", err)
	}
	return &Root{dir, root}, nil
}

// Close ends the use of the root.
func (r *Root) Close() error { return r.root.Close() }

// Found is a file or folder of an image.
type Found struct {
	// Path is its absolute path inside the image, as it was looked for; Real
	// is that path with all links followed.
	Path, Real string
	// Host is where its bytes lie on this host. No part of it below the root
	// is a link, so that reading it reads the image's file: its digest is that
	// of the same file anywhere else.
	Host string
}

// Lookup follows an absolute path of the image. An error that is
// fs.ErrNotExist means that the image does not have it.
func (r *Root) Lookup(name string) (Found, error) {
	if !path.IsAbs(name) {
		return Found{}, fmt.Errorf("looking for %q in an image: the path is not absolute", name)
	}
	real, err := resolve(r.root, strings.TrimLeft(name, "/"), true)
	if err != nil {
		return Found{}, fmt.Errorf("looking for %s in the image: %w", name, err)
	}
	return Found{Path: path.Clean(name), Real: path.Join("/", real), Host: filepath.Join(r.dir, filepath.FromSlash(real))}, nil
}

// Program finds an executable file: an absolute path, or a name in the folders
// of PATH, as execvp would inside the image. search is the value of the
// image's PATH.
func (r *Root) Program(name, search string) (Found, error) {
	if strings.Contains(name, "/") {
		f, err := r.Lookup(name)
		if err != nil {
			return Found{}, err
		}
		return f, executable(f)
	}
	for dir := range strings.SplitSeq(search, ":") {
		if !path.IsAbs(dir) {
			continue // relative to a working folder that is not known here
		}
		f, err := r.Lookup(path.Join(dir, name))
		if err == nil && executable(f) == nil {
			return f, nil
		}
	}
	return Found{}, fmt.Errorf("looking for the program %q in the image: it is in no folder of its PATH %q: %w", name, search, fs.ErrNotExist)
}

func executable(f Found) error {
	info, err := os.Lstat(f.Host)
	if err != nil {
		return fmt.Errorf("looking for %s in the image: %w", f.Path, err)
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s in the image is not an executable file", f.Path)
	}
	return nil
}

// PathOf returns the value of PATH in an environment; "" where it has none.
func PathOf(env []string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], "PATH="); ok {
			return value
		}
	}
	return ""
}

// maxLinks bounds how many links a path may go through, as the kernel does.
const maxLinks = 40

// resolve follows all links of a path below root as if root were "/": absolute
// texts start at it, and ".." above it stays at it. The result is relative and
// has no link in it. Without whole, parts that are missing are taken as they
// are.
func resolve(root *os.Root, name string, whole bool) (string, error) {
	at := "."
	links := 0
	for todo := strings.Split(name, "/"); len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at) // of "." it is "."
			continue
		}
		next := path.Join(at, part)
		info, err := root.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) && !whole {
			at = next
			continue
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", unusable("%q goes through more than %d links", name, maxLinks)
		}
		text, err := root.Readlink(next)
		if err != nil {
			return "", err
		}
		if path.IsAbs(text) {
			at = "."
		}
		todo = append(strings.Split(text, "/"), todo...)
	}
	return at, nil
}
