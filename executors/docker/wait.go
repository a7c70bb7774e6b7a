package docker

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/ledger"
)

// Wait blocks until the container has ended. A daemon that is away for longer
// than a restart takes is an error.
func (e *Executor) Wait(ctx context.Context, h executors.Handle) (executors.Outcome, error) {
	l, err := e.open(ctx, h)
	if err != nil {
		return executors.Outcome{}, err
	}
	if l.box.Alive() {
		bounded, done := ctx, context.CancelFunc(func() {})
		if d := l.box.Deadline; d > 0 {
			bounded, done = context.WithDeadline(ctx, l.box.Started.Add(d))
		}
		err := e.d.UntilEnd(bounded, l.id)
		done()
		switch {
		case ctx.Err() != nil:
			return executors.Outcome{}, ctx.Err()
		case bounded.Err() != nil:
			if err := e.end(ctx, h, executors.TimedOut, l.box.Grace); err != nil {
				return executors.Outcome{}, err
			}
		case err != nil:
			return executors.Outcome{}, fmt.Errorf("waiting for task %s: %w", h.Task, err)
		}
	}
	return e.collect(ctx, h)
}

// collect is the outcome of an ended task. It stays the same from then on, also
// when the container is gone. Copied files come back before it is written.
func (e *Executor) collect(ctx context.Context, h executors.Handle) (executors.Outcome, error) {
	l, err := e.open(ctx, h)
	if err != nil {
		return executors.Outcome{}, err
	}
	if l.gone() {
		return l.outcome(), nil // nowhere to write it
	}
	var out executors.Outcome
	err = ledger.Update(ctx, l.path(), func(s *state) error {
		if s.Outcome == nil {
			l.state = *s
			if l.box != nil && l.Asked == "" {
				settled, err := e.d.Settled(ctx, *l.box)
				if err != nil {
					return err
				}
				l.box = &settled
			}
			if l.box != nil && l.box.Copied && !l.box.Started.IsZero() {
				if err := e.d.CopyOut(ctx, l.id, l.dir); err != nil {
					return fmt.Errorf("copying the files of task %s back: %w", h.Task, err)
				}
			}
			found := l.outcome()
			s.Task, s.Container, s.Outcome = h.Task, l.id, &found
		}
		out = *s.Outcome
		return nil
	})
	return out, err
}

// outcome reads what the daemon says of a container that does not run.
func (l life) outcome() executors.Outcome {
	now := time.Now().UTC()
	o := executors.Outcome{Reason: executors.Lost, Started: now, Ended: now}
	if l.box != nil && !l.box.Started.IsZero() {
		o.Started = l.box.Started
	}
	switch {
	case l.Outcome != nil:
		return *l.Outcome
	case l.Refused != "":
		o.Reason, o.Detail = executors.NotStarted, l.Refused
		return o
	case l.box == nil:
		o.Detail = "its container was removed, and not by us"
	case l.box.Started.IsZero():
		o.Reason, o.Detail = executors.NotStarted, "its container was made and never started"
	case l.box.OOMKilled:
		o.Reason, o.Detail = executors.OOM, fmt.Sprintf("memory ran out in the container, whose exit code is %d", l.box.ExitCode)
	case l.box.ExitCode > 128 && l.box.ExitCode <= 128+64:
		o.Reason, o.Signal = executors.Signaled, syscall.Signal(l.box.ExitCode-128).String()
	default:
		o.Reason, o.Code = executors.Exited, l.box.ExitCode
	}
	if l.box != nil && l.box.Finished.After(o.Started) {
		o.Ended = l.box.Finished
	}
	if l.Asked != "" && o.Reason != executors.NotStarted {
		o.Detail = strings.TrimSpace(string(o.Reason) + " " + o.Signal + " " + o.Detail)
		o.Reason, o.Code, o.Signal = l.Asked, 0, ""
	}
	return o
}

// Stop sends TERM, waits grace, then sends KILL; the end of the container's
// first process is the end of all of them.
func (e *Executor) Stop(ctx context.Context, h executors.Handle, grace time.Duration) error {
	return e.end(ctx, h, executors.Stopped, grace)
}

func (e *Executor) end(ctx context.Context, h executors.Handle, why executors.Reason, grace time.Duration) error {
	l, err := e.open(ctx, h)
	if err != nil {
		return err
	}
	if l.box.Alive() && !l.gone() {
		ask := func(s *state) error { s.Task, s.Container, s.Asked = h.Task, l.id, why; return nil }
		if err := ledger.Update(ctx, l.path(), ask); err != nil {
			return err
		}
	}
	if l.box.Alive() {
		if err := e.d.End(ctx, l.id, grace); err != nil {
			return fmt.Errorf("stopping task %s: %w", h.Task, err)
		}
	}
	_, err = e.collect(ctx, h)
	return err
}

// Send copies a file of the task's folder into the container, where the daemon
// does not see this host's files.
func (e *Executor) Send(ctx context.Context, h executors.Handle, name string) (copied bool, err error) {
	l, err := e.open(ctx, h)
	if err != nil || l.box == nil || !l.box.Copied {
		return false, err
	}
	if !l.box.Alive() {
		return true, nil
	}
	return true, e.d.CopyFile(ctx, l.id, filepath.Join(l.dir, name))
}

// List finds the containers of a run by label. One whose name does not belong
// to its labels is not ours: an image may bear labels too.
func (e *Executor) List(ctx context.Context, run string) ([]executors.Handle, error) {
	if run == "" {
		return nil, nil
	}
	list, err := e.d.List(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("listing the tasks of run %s: %w", run, err)
	}
	var out []executors.Handle
	for _, m := range list {
		out = append(out, executors.Handle{Executor: e.Name(), Task: m.Task, Ref: ref{m.ID, m.Dir}.String()})
	}
	return out, nil
}

// Reap ends the task, keeps its outcome and its output in its folder, and
// removes the container with the volumes that the image made it have.
func (e *Executor) Reap(ctx context.Context, h executors.Handle) error {
	l, err := e.open(ctx, h)
	if err != nil {
		return err
	}
	grace := 5 * time.Second
	if l.box != nil && l.box.Grace > 0 {
		grace = l.box.Grace
	}
	if err := e.end(ctx, h, executors.Stopped, grace); err != nil || l.box == nil {
		return err
	}
	if !l.gone() {
		if err := e.keepLog(ctx, l); err != nil {
			return fmt.Errorf("keeping the output of task %s: %w", h.Task, err)
		}
	}
	if err := e.d.Remove(ctx, l.id); err != nil {
		return fmt.Errorf("removing the container of task %s: %w", h.Task, err)
	}
	return nil
}
