// Package logfile keeps a log that other processes append to within a bound on
// the disk: its beginning and its end stay, what is between goes, and nobody who
// writes it waits or notices.
//
// While it is written the middle of the file becomes a hole, so that offsets
// stay what they are; when nobody writes any more Close takes the hole out, puts
// a line in its place that says how many bytes are missing, and says so to the
// caller. Where the file system makes no holes nothing is left out and Keep says
// why.
//
// The package knows no task. A Bound belongs to one goroutine.
package logfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// block is what holes are made of, a multiple of file systems' blocks.
const block = 64 << 10

// Bound is one log and its bound.
type Bound struct {
	path       string
	head, tail int64 // bytes that stay at least, of the beginning and of the end
	limit      int64
	end        int64 // of the hole; 0 is no hole
}

// New bounds the log at a path, which need not be there yet, to limit bytes, at
// least 1 MiB. A quarter is for its beginning, half for its end.
func New(path string, limit int64) *Bound {
	limit = max(limit, 1<<20)
	return &Bound{path: path, limit: limit, head: limit / 4 / block * block, tail: limit / 2 / block * block}
}

// Keep makes room if the log holds more than its bound. It is called again and
// again while the log is written: in between it may grow beyond.
func (b *Bound) Keep() error {
	info, err := os.Stat(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("bounding a log: %w", err)
	}
	hole := max(0, b.end-b.head)
	if info.Size()-hole <= b.limit {
		return nil
	}
	file, err := os.OpenFile(b.path, os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("bounding a log: %w", err)
	}
	defer file.Close()
	from, to := max(b.head, b.end), (info.Size()-b.tail)/block*block
	if to <= from {
		return nil
	}
	if err := unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from); err != nil {
		return fmt.Errorf("bounding the log %s to %d bytes: its file system makes no holes: %w", b.path, b.limit, err)
	}
	b.end = to
	return nil
}

// Close takes the hole out, if there is one, and returns how many bytes of the
// log are missing. Nobody may write any more.
func (b *Bound) Close() (missing int64, err error) {
	if b.end <= b.head {
		return 0, nil
	}
	file, err := os.OpenFile(b.path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, fmt.Errorf("closing a log: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, fmt.Errorf("closing a log: %w", err)
	}
	missing = b.end - b.head
	line := fmt.Appendf(nil, "\n[%d bytes of this log are left out here: it was longer than %d]\n", missing, b.limit)
	// What follows moves down into the hole, front first: a hole is longer than
	// the line, or moving it would not be worth the while.
	if int64(len(line)) > missing {
		return missing, nil
	}
	if _, err := file.WriteAt(line, b.head); err != nil {
		return missing, fmt.Errorf("closing the log %s: %w", b.path, err)
	}
	to := io.NewOffsetWriter(file, b.head+int64(len(line)))
	n, err := io.Copy(to, io.NewSectionReader(file, b.end, info.Size()-b.end))
	if err == nil {
		err = file.Truncate(b.head + int64(len(line)) + n)
	}
	if err != nil {
		return missing, fmt.Errorf("closing the log %s: %w", b.path, err)
	}
	return missing, nil
}
