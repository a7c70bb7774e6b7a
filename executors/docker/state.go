package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/sotabuild/sotabuild/executors"
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

func (r ref) path() string { return filepath.Join(r.dir, ".docker", "task.json") }

func (r ref) log() string { return filepath.Join(r.dir, "logs", "runner.out") }

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
	box *container.InspectResponse // nil: the daemon does not know it (any more)
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
		if l.box, err = e.look(ctx, r.id); err != nil {
			return life{}, err
		}
	}
	known := l.Task == h.Task && l.Container == r.id
	if l.box != nil {
		known = ours(l.box, h.Task) && l.box.Config.Labels[labelDir] == r.dir
	}
	if !known {
		return life{}, fmt.Errorf("finding task %s: neither its container nor the folder %s is of that task", h.Task, r.dir)
	}
	return l, nil
}

// ours says whether a container is that of a task: by our labels and by the
// name that goes with them, for an image may bear any label.
func ours(box *container.InspectResponse, id executors.TaskID) bool {
	return box.Config != nil && box.Config.Labels[executors.LabelTask] == string(id) && strings.TrimPrefix(box.Name, "/") == containerName(id)
}

// awayPatience is how long a daemon may be away before a call fails. A restart
// takes some seconds, and up to its containers' grace more.
const awayPatience = 60 * time.Second

// away says whether an error is about the connection and not the daemon's
// word.
func away(err error) bool {
	if err == nil || errdefs.IsNotFound(err) || errdefs.IsConflict(err) || errdefs.IsInvalidArgument(err) ||
		errdefs.IsInternal(err) || errdefs.IsPermissionDenied(err) || errdefs.IsUnauthorized(err) || errdefs.IsNotImplemented(err) {
		return false
	}
	return true
}

// look inspects a container; nil if the daemon has none. While the daemon is
// away it looks again.
func (e *Executor) look(ctx context.Context, id string) (*container.InspectResponse, error) {
	pause := 50 * time.Millisecond
	for late := time.Now().Add(awayPatience); ; pause = min(2*pause, time.Second) {
		box, err := e.cli.ContainerInspect(ctx, id)
		switch {
		case err == nil:
			return &box, nil
		case errdefs.IsNotFound(err):
			return nil, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !away(err) || time.Now().After(late):
			return nil, fmt.Errorf("looking at container %.12s: %w", id, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// running says whether the container may still do something.
func running(box *container.InspectResponse) bool {
	return box != nil && box.State != nil && (box.State.Running || box.State.Paused || box.State.Restarting)
}

// started is when it was started; zero if never.
func started(box *container.InspectResponse) time.Time {
	if box == nil || box.State == nil {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, box.State.StartedAt)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}

func duration(box *container.InspectResponse, label string) time.Duration {
	if box == nil || box.Config == nil {
		return 0
	}
	n, err := strconv.ParseInt(box.Config.Labels[label], 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(n)
}
