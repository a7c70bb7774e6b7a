package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/docker/daemon"
	"github.com/sotabuild/sotabuild/executors/docker/folder"
	"github.com/sotabuild/sotabuild/executors/ledger"
	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// state is what Dir/.docker/task.json says.
type state struct {
	Task      executors.TaskID   `json:"task"`
	Container string             `json:"container"`
	Asked     executors.Reason   `json:"asked,omitempty"` // why we ended it
	Refused   string             `json:"refused,omitempty"`
	Outcome   *executors.Outcome `json:"outcome,omitempty"`
}

// ref is a Handle's Ref: CONTAINER:DIR. A container that was never made, as
// its image is missing, has the id 0.
type ref struct{ id, dir string }

func (r ref) String() string { return r.id + ":" + r.dir }

func (r ref) path() string { return filepath.Join(r.dir, folder.Notes, "task.json") }

// gone says that the task's folder is no longer there.
func (r ref) gone() bool {
	_, err := os.Stat(r.dir)
	return errors.Is(err, os.ErrNotExist)
}

// none is the id of a container that was never made.
const none = "0"

var wordID = lazyregexp.New(`^([0-9a-f]{64}|0)$`)

func parse(h executors.Handle) (ref, error) {
	id, dir, _ := strings.Cut(h.Ref, ":")
	if !wordID.MatchString(id) || !filepath.IsAbs(dir) || !h.Task.Valid() {
		return ref{}, fmt.Errorf("reading the handle of task %q: the reference %q is not CONTAINER:DIR", h.Task, h.Ref)
	}
	return ref{id, dir}, nil
}

// life is a task with its container as the daemon knows it.
type life struct {
	ref
	state
	box *daemon.Container // nil: the daemon does not know it (any more)
}

// open looks a handle's task up. It fails when neither the container's labels
// nor the folder say that this is the task: a handle never reaches a stranger.
func (e *Executor) open(ctx context.Context, h executors.Handle) (life, error) {
	r, err := parse(h)
	if err != nil {
		return life{}, err
	}
	l := life{ref: r}
	if l.state, err = ledger.Read[state](r.path()); err != nil {
		return life{}, err
	}
	if r.id != none {
		if l.box, err = e.d.Look(ctx, r.id); err != nil {
			return life{}, err
		}
	}
	known := l.Task == h.Task && l.Container == r.id
	if l.box != nil {
		known = l.box.Task == h.Task && l.box.Dir == r.dir
	}
	if !known {
		return life{}, fmt.Errorf("finding task %s: neither its container nor the folder %s is of that task", h.Task, r.dir)
	}
	return l, nil
}
