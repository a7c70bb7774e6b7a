package redact

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors/proc"
)

// Sink is where a child's output goes: straight into a file, or through a pipe
// where secrets have to be taken out.
type Sink struct {
	Child *os.File // given to the child
	read  *os.File // our end of the pipe; nil without secrets
	done  chan struct{}
	lost  error // what could not be written; set when done is closed
}

// Open makes a sink that appends to path.
func (s Secrets) Open(path string) (*Sink, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil || len(s) == 0 {
		return &Sink{Child: file}, err
	}
	read, write, err := proc.Pipe()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	k := &Sink{Child: write, read: read, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		k.lost = errors.Join(s.Copy(file, read), file.Close())
	}()
	return k, nil
}

// Handed is called when the child has the file: our copy is closed.
func (k *Sink) Handed() { k.Child.Close() }

// Finish waits until everything is written. A grandchild may hold the pipe, so
// after patience reading ends. It may be called again.
func (k *Sink) Finish(patience time.Duration) error {
	if k == nil || k.read == nil {
		return nil
	}
	k.read.SetReadDeadline(time.Now().Add(patience))
	<-k.done
	k.read.Close()
	return k.lost
}

// Tail returns the end of a log from the offset on, at most 64 KiB, and nothing
// when it cannot be read.
func Tail(path string, from int64) []byte {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil
	}
	at := max(from, info.Size()-64<<10)
	text, err := io.ReadAll(io.NewSectionReader(file, at, info.Size()-at))
	if err != nil {
		return nil
	}
	return text
}
