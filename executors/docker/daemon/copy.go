package daemon

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/docker/folder"
)

// CopyIn brings the task's folder and our own program into its container, which
// has not started.
func (d *Daemon) CopyIn(ctx context.Context, id string, t executors.Task) error {
	var uid, gid int
	if _, err := fmt.Sscanf(d.user(t), "%d:%d", &uid, &gid); err != nil {
		return err
	}
	err := d.send(ctx, id, t.Dir, func(w *tar.Writer, prefix string) error {
		return folder.Pack(w, t.Dir, prefix, uid, gid)
	})
	if err != nil || !d.usesSelf(t) {
		return err
	}
	return d.send(ctx, id, d.self, func(w *tar.Writer, prefix string) error {
		file, err := os.Open(d.self)
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

// CopyFile brings a small file of this host to the same path of a container,
// where everybody may read it.
func (d *Daemon) CopyFile(ctx context.Context, id, file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return d.send(ctx, id, file, func(w *tar.Writer, prefix string) error {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: prefix, Mode: 0o644, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err := w.Write(content)
		return err
	})
}

// send writes a tar into the container, in the deepest folder above target that
// is there: folders that exist keep their modes. write gets target's name below
// that folder.
func (d *Daemon) send(ctx context.Context, id, target string, write func(w *tar.Writer, prefix string) error) error {
	at := path.Dir(target)
	for ; at != "/"; at = path.Dir(at) {
		_, err := d.cli.ContainerStatPath(ctx, id, at)
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
	err := d.cli.CopyToContainer(ctx, id, at, read, container.CopyToContainerOptions{})
	read.CloseWithError(errors.New("the daemon stopped reading"))
	if packErr := <-packed; err == nil {
		err = packErr
	}
	if err != nil {
		return fmt.Errorf("copying %s into the container: %w", target, err)
	}
	return nil
}

// CopyOut brings a container's folder dir back to the same path of this host, as
// folder.Unpack does.
func (d *Daemon) CopyOut(ctx context.Context, id, dir string) error {
	body, _, err := d.cli.CopyFromContainer(ctx, id, dir)
	if err != nil {
		return err
	}
	defer body.Close()
	return folder.Unpack(body, dir)
}
