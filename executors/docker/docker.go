// Package docker runs tasks as containers of a Docker daemon: this host's, or
// another's by tcp with TLS or by ssh.
//
// A task is one container with a fixed name and labels of ours; what the
// package knows beside the daemon's own word stands in Task.Dir/.docker. Paths
// inside are the same as outside. Where the daemon does not see this host's
// files, the task's folder and the supervisor are copied in before the start,
// and the folder is copied back when the task has ended; other mounts are then
// paths of the daemon's host.
//
// Whether a task was started is known by the kind of error and by the
// container's state, never by a code or a text. The daemon reports 128+n both
// for a process that signal n ended and for one that exited with that code: it
// is taken for the signal. An ended connection is no end of a task: the
// container is looked at again, for a while also when the daemon is away.
//
// There is no lifeline: a task outlives the engine and its daemon's death (with
// live-restore), runs to its deadline, and is found by the next engine. Only
// containers that have our labels, and the name that belongs to them, are ever
// touched.
//
// How the daemon is spoken to is package daemon's, how images get there is
// package images', and tasks in a container that runs already are package
// inside's: here it is decided when a task is started, what its end means, and
// what is written down of it.
package docker

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/docker/daemon"
	"github.com/sotabuild/sotabuild/executors/docker/images"
	"github.com/sotabuild/sotabuild/executors/image"
)

// Options say how a daemon runs tasks. The zero value asks for nothing special.
type Options struct {
	// Files says whether the daemon sees this host's files.
	Files Files
	// Network and CDI are those of daemon.Request.
	Network string
	CDI     bool
	// Say gets a line where something is not as usual (files are copied). nil
	// hears nothing. It may be called by many goroutines.
	Say func(string)
}

// Files says how a container gets at the task's folder.
type Files string

// The ways. Auto finds out with the first task.
const (
	Auto   Files = ""
	Shared Files = "shared"
	Copied Files = "copied"
)

// Executor implements executors.Executor.
type Executor struct {
	d      *daemon.Daemon
	images *images.Store
	o      Options

	mu    sync.Mutex // guards files
	files Files      // how, once it is known
}

var (
	_ executors.Executor = (*Executor)(nil)
	_ executors.Sender   = (*Executor)(nil)
)

// New returns an executor over a daemon, which it closes, and the daemon's
// images. It asks nobody.
func New(d *daemon.Daemon, i *images.Store, o Options) *Executor {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	return &Executor{d: d, images: i, o: o, files: o.Files}
}

// Close ends the connections. Tasks go on.
func (e *Executor) Close() error { return e.d.Close() }

// Name is "docker".
func (e *Executor) Name() string { return "docker" }

// Check says why a task cannot run here. It asks the daemon for the image and
// pulls nothing.
func (e *Executor) Check(t executors.Task) error {
	if err := t.Check(); err != nil {
		return err
	}
	if t.Image == "" {
		return fmt.Errorf("task %s: docker needs an image; write image in its framework, or choose executor \"local\"", t.ID)
	}
	if err := e.d.Enough(t); err != nil {
		return err
	}
	files := e.filesNow()
	if files != Copied {
		for _, m := range t.Mounts {
			if _, err := os.Stat(m.Source); err != nil {
				return fmt.Errorf("task %s: its mount is missing: %w", t.ID, err)
			}
		}
	}
	if err := e.d.Check(e.request(t, nil, files)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return e.images.Check(ctx, t.Image)
}

func (e *Executor) request(t executors.Task, img *image.Image, files Files) daemon.Request {
	return daemon.Request{Task: t, Image: img, Network: e.o.Network, CDI: e.o.CDI, Copied: files == Copied}
}

func (e *Executor) filesNow() Files {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.files
}

func (e *Executor) setFiles(f Files) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.files = f
}
