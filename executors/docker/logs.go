package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors"
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
		return readLog(l, w)
	}
	return e.copyLog(ctx, l, w)
}

// copyLog follows until the container has ended, and then reads once more: a
// stream that follows may end with the container and not with the log (seen
// with Docker 20.10 on a busy host).
func (e *Executor) copyLog(ctx context.Context, l life, w io.Writer) error {
	rest := &rest{w: w}
	for {
		alive := running(l.box)
		err := e.stream(ctx, l.id, alive, rest)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case rest.err != nil:
			return fmt.Errorf("copying the log of container %.12s: %w", l.id, rest.err)
		case errdefs.IsNotFound(err): // removed while we read
			return readLog(l, rest.again())
		case err == nil && !alive:
			return nil
		}
		box, lookErr := e.look(ctx, l.id)
		switch {
		case lookErr != nil:
			return errors.Join(err, lookErr)
		case box == nil:
			return readLog(l, rest.again())
		case err != nil && !away(err):
			return fmt.Errorf("reading the log of container %.12s: %w", l.id, err)
		}
		l.box = box
		if running(box) { // the connection ended, not the container
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// stream copies the whole log once.
func (e *Executor) stream(ctx context.Context, id string, follow bool, rest *rest) error {
	rest.again()
	body, err := e.cli.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Follow: follow})
	if err != nil {
		return err
	}
	defer body.Close()
	return demux(rest, body)
}

// chunk is the size of the pieces in which the daemon logs a line that is
// longer.
const chunk = 16 << 10

// demux copies the payloads of a log stream: each is one line, or a piece of a
// long one. The driver local of older daemons forgets the newline after the
// last piece, which is put back: a piece that is not full ends its line. Only
// the end of the whole output cannot be told from that: a last line without a
// newline that is longer than a piece gets one.
func demux(w io.Writer, r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var head [8]byte
	inside := map[byte]bool{} // by stream: within a long line
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		size := binary.BigEndian.Uint32(head[4:])
		if head[0] > 2 || size > 1<<20 {
			return fmt.Errorf("reading the log: the daemon sends a frame of stream %d with %d bytes, which is none", head[0], size)
		}
		text := make([]byte, size, size+1)
		if _, err := io.ReadFull(in, text); err != nil {
			return err
		}
		ends := bytes.HasSuffix(text, []byte("\n"))
		full := size == chunk && !ends
		if inside[head[0]] && !full && !ends {
			text = append(text, '\n')
		}
		inside[head[0]] = full
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
}

// rest passes on what it has not passed on before: a log is read again from
// its start, and its order does not change.
type rest struct {
	w          io.Writer
	seen, done int64 // bytes in this reading, and passed on in all
	err        error // of w
}

func (r *rest) again() *rest { r.seen = 0; return r }

func (r *rest) Write(p []byte) (int, error) {
	skip := min(max(r.done-r.seen, 0), int64(len(p)))
	r.seen += int64(len(p))
	if skip == int64(len(p)) {
		return len(p), nil
	}
	n, err := r.w.Write(p[skip:])
	r.done += int64(n)
	r.err = err
	return int(skip) + n, err
}

// keepLog writes the output of an ended container to logs/runner.out.
func (e *Executor) keepLog(ctx context.Context, l life) error {
	if err := os.MkdirAll(filepath.Dir(l.log()), 0o700); err != nil {
		return err
	}
	new := l.log() + ".new"
	file, err := os.OpenFile(new, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	err = e.copyLog(ctx, l, file)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(new))
	}
	return os.Rename(new, l.log())
}

// readLog copies the output that was kept; a container that was never made
// printed nothing.
func readLog(l life, w io.Writer) error {
	file, err := os.OpenFile(l.log(), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the log of task %s: %w", l.Task, err)
	}
	defer file.Close()
	if _, err := io.Copy(w, file); err != nil {
		return fmt.Errorf("copying the log of task %s: %w", l.Task, err)
	}
	return nil
}
