// Package folder is what the rooms of docker agree on about a task's folder: where
// their own notes and the task's log stand in it, and how the folder travels to
// a daemon that does not see this host's files, as a tar.
//
// It knows no daemon. What comes back was written by a task, and is not
// believed: nothing is written outside the folder, nor over the notes. An error
// leaves a folder of which a part has arrived.
package folder

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Notes is the name, in a task's folder, of the folder that holds what docker's
// rooms write down of the task. It stays on this host.
const Notes = ".docker"

// Log is where the output of the task's first process stands.
func Log(dir string) string { return filepath.Join(dir, "logs", "runner.out") }

// Pack writes the folder dir without our notes, under the name prefix and as
// owned by uid and gid. Only folders, files and links travel. A file that grows
// meanwhile is cut off where it ended when it was looked at.
func Pack(w *tar.Writer, dir, prefix string, uid, gid int) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == Notes {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = root.Readlink(name); err != nil {
				return err
			}
		}
		if !info.IsDir() && !info.Mode().IsRegular() && link == "" {
			return nil // a socket, a pipe: of no use elsewhere
		}
		h, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		h.Name, h.Uid, h.Gid, h.Uname, h.Gname = path.Join(prefix, name), uid, gid, "", ""
		if info.IsDir() {
			h.Name += "/"
		}
		if err := w.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		file, err := root.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = io.Copy(w, io.LimitReader(file, h.Size))
		return err
	})
}

// Unpack writes a tar of one folder into dir, which is there. The first part of
// each name is the folder's own. What is in dir by the same name is replaced;
// files are on the disk when it returns.
func Unpack(r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	modes := map[string]fs.FileMode{} // of folders, set when all is in them
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := below(h.Name)
		if name == "" || name == Notes || strings.HasPrefix(name, Notes+"/") {
			continue
		}
		if err := entry(root, in, h, name); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		if h.Typeflag == tar.TypeDir {
			modes[name] = h.FileInfo().Mode().Perm()
		}
	}
	for name, mode := range modes {
		if err := root.Chmod(name, mode); err != nil {
			return err
		}
	}
	return nil
}

// below is a name without its first part; "" for the folder itself.
func below(name string) string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(path.Clean("/"+name), "/"), "/")
	return rest
}

func entry(root *os.Root, in io.Reader, h *tar.Header, name string) error {
	mode := h.FileInfo().Mode().Perm()
	if h.Typeflag == tar.TypeDir {
		if info, err := root.Lstat(name); err == nil && info.IsDir() {
			return nil
		}
	}
	if err := root.RemoveAll(name); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return root.Mkdir(name, 0o700)
	case tar.TypeReg:
		file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, in)
		return errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(below(h.Linkname), name)
	}
	return nil // a device, a pipe: no output
}
