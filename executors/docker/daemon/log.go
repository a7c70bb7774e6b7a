package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// Log copies what a container printed, stdout and stderr as they came, until it
// has ended, and returns how many bytes w was given. After a broken connection
// it reads on where it was. It reads once more after the end: a stream that
// follows may end with the container and not with the log (seen with Docker
// 20.10 on a busy host). A container that is removed meanwhile is ErrGone.
func (d *Daemon) Log(ctx context.Context, c *Container, w io.Writer) (int64, error) {
	rest := &rest{w: w}
	for {
		alive := c.Alive()
		err := d.stream(ctx, c.ID, alive, rest)
		switch {
		case ctx.Err() != nil:
			return rest.done, ctx.Err()
		case rest.err != nil:
			return rest.done, fmt.Errorf("copying the log of container %.12s: %w", c.ID, rest.err)
		case errdefs.IsNotFound(err):
			return rest.done, ErrGone
		case err == nil && !alive:
			return rest.done, nil
		}
		now, lookErr := d.Look(ctx, c.ID)
		switch {
		case lookErr != nil:
			return rest.done, errors.Join(err, lookErr)
		case now == nil:
			return rest.done, ErrGone
		case err != nil && !Away(err):
			return rest.done, fmt.Errorf("reading the log of container %.12s: %w", c.ID, err)
		}
		c = now
		if c.Alive() { // the connection ended, not the container
			select {
			case <-ctx.Done():
				return rest.done, ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// stream copies the whole log once.
func (d *Daemon) stream(ctx context.Context, id string, follow bool, rest *rest) error {
	rest.seen = 0
	body, err := d.cli.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Follow: follow})
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
