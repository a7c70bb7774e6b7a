package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/sotabuild/sotabuild/executors"
)

// copyIn brings the task's folder and our own program into a container that
// has not started.
func (e *Executor) copyIn(ctx context.Context, t executors.Task, id string) error {
	var uid, gid int
	if _, err := fmt.Sscanf(e.user(t), "%d:%d", &uid, &gid); err != nil {
		return err
	}
	err := e.send(ctx, id, t.Dir, func(w *tar.Writer, prefix string) error {
		return pack(w, t.Dir, prefix, uid, gid)
	})
	if err != nil || !e.usesSelf(t) {
		return err
	}
	return e.send(ctx, id, e.o.Self, func(w *tar.Writer, prefix string) error {
		file, err := os.Open(e.o.Self)
		if err != nil {
			return err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: prefix, Mode: 0o755, Size: info.Size()}); err != nil {
			return err
		}
		_, err = io.Copy(w, file)
		return err
	})
}

// send writes a tar into the container, in the deepest folder above target that
// is there: folders that exist keep their modes. write gets target's name below
// that folder.
func (e *Executor) send(ctx context.Context, id, target string, write func(w *tar.Writer, prefix string) error) error {
	at := path.Dir(target)
	for ; at != "/"; at = path.Dir(at) {
		_, err := e.cli.ContainerStatPath(ctx, id, at)
		if err == nil {
			break
		}
		if !errdefs.IsNotFound(err) {
			return fmt.Errorf("looking at %s in the container: %w", at, err)
		}
	}
	prefix := strings.TrimPrefix(strings.TrimPrefix(target, at), "/")
	read, out := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		w := tar.NewWriter(out)
		var err error
		for i, c := range prefix {
			if c == '/' && err == nil {
				err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: prefix[:i] + "/", Mode: 0o755})
			}
		}
		if err == nil {
			err = write(w, prefix)
		}
		err = errors.Join(err, w.Close())
		out.CloseWithError(err)
		packed <- err
	}()
	err := e.cli.CopyToContainer(ctx, id, at, read, container.CopyToContainerOptions{})
	read.CloseWithError(errors.New("the daemon stopped reading"))
	if packErr := <-packed; err == nil {
		err = packErr
	}
	if err != nil {
		return fmt.Errorf("copying %s into the container: %w", target, err)
	}
	return nil
}

// pack writes a folder without our own notes.
func pack(w *tar.Writer, dir, prefix string, uid, gid int) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == ".docker" {
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

// copyOut brings the task's folder back. What the container holds is not
// believed: nothing is written outside the folder, nor over our own notes.
func (e *Executor) copyOut(ctx context.Context, l life) error {
	body, _, err := e.cli.CopyFromContainer(ctx, l.id, l.dir)
	if err != nil {
		return err
	}
	defer body.Close()
	return unpack(body, l.dir)
}

// unpack writes a tar of one folder into dir. The first part of each name is
// the folder's own.
func unpack(r io.Reader, dir string) error {
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
		if name == "" || name == ".docker" || strings.HasPrefix(name, ".docker/") {
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
