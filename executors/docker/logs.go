package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/docker/daemon"
	"github.com/sotabuild/sotabuild/executors/docker/folder"
)

// Logs copies what the container printed, stdout and stderr as they came, until
// it has ended. After a broken connection it reads on where it was. The output
// of a reaped task is read from its folder.
func (e *Executor) Logs(ctx context.Context, h executors.Handle, w io.Writer) error {
	l, err := e.open(ctx, h)
	if err != nil {
		return err
	}
	if l.box == nil {
		return readLog(l, w, 0)
	}
	return e.copyLog(ctx, l, w)
}

// copyLog follows the container, which is there. Where it is removed meanwhile,
// the rest is what was kept of it.
func (e *Executor) copyLog(ctx context.Context, l life, w io.Writer) error {
	n, err := e.d.Log(ctx, l.box, w)
	if errors.Is(err, daemon.ErrGone) {
		return readLog(l, w, n)
	}
	return err
}

// keepLog writes the output of an ended container to the task's folder.
func (e *Executor) keepLog(ctx context.Context, l life) error {
	log := folder.Log(l.dir)
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		return err
	}
	new := log + ".new"
	file, err := os.OpenFile(new, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	err = e.copyLog(ctx, l, file)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(new))
	}
	return os.Rename(new, log)
}

// readLog copies the output that was kept, from a byte on; a container that was
// never made printed nothing.
func readLog(l life, w io.Writer, from int64) error {
	file, err := os.OpenFile(folder.Log(l.dir), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the log of task %s: %w", l.Task, err)
	}
	defer file.Close()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return fmt.Errorf("reading the log of task %s: %w", l.Task, err)
	}
	if _, err := io.Copy(w, file); err != nil {
		return fmt.Errorf("copying the log of task %s: %w", l.Task, err)
	}
	return nil
}
