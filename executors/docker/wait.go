package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

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
	if running(l.box) {
		bounded, done := ctx, context.CancelFunc(func() {})
		if d := duration(l.box, labelDeadline); d > 0 {
			bounded, done = context.WithDeadline(ctx, started(l.box).Add(d))
		}
		err := e.untilEnd(bounded, l.id)
		done()
		switch {
		case ctx.Err() != nil:
			return executors.Outcome{}, ctx.Err()
		case bounded.Err() != nil:
			if err := e.end(ctx, h, executors.TimedOut, duration(l.box, labelGrace)); err != nil {
				return executors.Outcome{}, err
			}
		case err != nil:
			return executors.Outcome{}, fmt.Errorf("waiting for task %s: %w", h.Task, err)
		}
	}
	return e.collect(ctx, h)
}

// untilEnd blocks until the container no longer runs.
func (e *Executor) untilEnd(ctx context.Context, id string) error {
	for {
		ended, failed := e.cli.ContainerWait(ctx, id, container.WaitConditionNotRunning)
		select {
		case <-ended:
		case <-failed:
		case <-ctx.Done():
			return ctx.Err()
		}
		// Neither answer is believed: an ended connection is no end.
		box, err := e.look(ctx, id)
		if err != nil || !running(box) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
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
			if err := e.lateOOM(ctx, &l); err != nil {
				return err
			}
			if l.box != nil && l.box.Config.Labels[labelFiles] == string(Copied) && !started(l.box).IsZero() {
				if err := e.copyOut(ctx, l); err != nil {
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

// oomPatience is how long after a container's end its OOM event may come, on a
// busy host; shorter where nothing but the event would speak for it.
const oomPatience, oomBrief = 5 * time.Second, time.Second

// lateOOM looks for the event of an OOM kill where a limit was set and the
// state says nothing: a daemon that hears of the end first never sets the flag.
func (e *Executor) lateOOM(ctx context.Context, l *life) error {
	if l.box == nil || running(l.box) || started(l.box).IsZero() || l.box.State.OOMKilled || l.Asked != "" ||
		l.box.HostConfig == nil || l.box.HostConfig.Memory == 0 {
		return nil
	}
	finished, err := time.Parse(time.RFC3339Nano, l.box.State.FinishedAt)
	if err != nil {
		return nil // it has not ended after all
	}
	patience := oomBrief
	if l.box.State.ExitCode == 128+int(syscall.SIGKILL) {
		patience = oomPatience
	}
	stamp := func(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	said, failed := e.cli.Events(ctx, events.ListOptions{
		Since: stamp(started(l.box)), Until: stamp(finished.Add(patience)),
		Filters: filters.NewArgs(filters.Arg("container", l.id), filters.Arg("event", "oom")),
	})
	select {
	case <-said:
		l.box.State.OOMKilled = true
		return nil
	case err := <-failed:
		if err == nil || errors.Is(err, io.EOF) {
			box, err := e.look(ctx, l.id)
			if err == nil && box != nil {
				l.box = box
			}
			return err
		}
		return fmt.Errorf("asking whether memory ran out in container %.12s: %w", l.id, err)
	}
}

// outcome reads what the daemon says of a container that does not run.
func (l life) outcome() executors.Outcome {
	now := time.Now().UTC()
	o := executors.Outcome{Reason: executors.Lost, Started: started(l.box), Ended: now}
	if o.Started.IsZero() {
		o.Started = now
	}
	switch {
	case l.Outcome != nil:
		return *l.Outcome
	case l.Refused != "":
		o.Reason, o.Detail = executors.NotStarted, l.Refused
		return o
	case l.box == nil:
		o.Detail = "its container was removed, and not by us"
	case started(l.box).IsZero():
		o.Reason, o.Detail = executors.NotStarted, "its container was made and never started"
	case l.box.State.OOMKilled:
		o.Reason, o.Detail = executors.OOM, fmt.Sprintf("memory ran out in the container, whose exit code is %d", l.box.State.ExitCode)
	case l.box.State.ExitCode > 128 && l.box.State.ExitCode <= 128+64:
		o.Reason, o.Signal = executors.Signaled, syscall.Signal(l.box.State.ExitCode-128).String()
	default:
		o.Reason, o.Code = executors.Exited, l.box.State.ExitCode
	}
	if l.box != nil {
		if t, err := time.Parse(time.RFC3339Nano, l.box.State.FinishedAt); err == nil && t.After(o.Started) {
			o.Ended = t
		}
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
	if running(l.box) && !l.gone() {
		ask := func(s *state) error { s.Task, s.Container, s.Asked = h.Task, l.id, why; return nil }
		if err := ledger.Update(ctx, l.path(), ask); err != nil {
			return err
		}
	}
	if running(l.box) {
		if err := e.kill(ctx, l.id, grace); err != nil {
			return fmt.Errorf("stopping task %s: %w", h.Task, err)
		}
	}
	_, err = e.collect(ctx, h)
	return err
}

func (e *Executor) kill(ctx context.Context, id string, grace time.Duration) error {
	patience, done := context.WithTimeout(ctx, grace)
	defer done()
	if err := e.signal(patience, id, "TERM"); err == nil {
		if err := e.untilEnd(patience, id); err == nil {
			return nil
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for { // a daemon that dies between two calls may have lost the signal
		if err := e.signal(ctx, id, "KILL"); err != nil {
			return err
		}
		soon, done := context.WithTimeout(ctx, 10*time.Second)
		err := e.untilEnd(soon, id)
		done()
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}

// signal is no error where the container does not run any more.
func (e *Executor) signal(ctx context.Context, id, name string) error {
	for {
		err := e.cli.ContainerKill(ctx, id, name)
		if err == nil || errdefs.IsConflict(err) || errdefs.IsNotFound(err) {
			return nil
		}
		if !away(err) || ctx.Err() != nil {
			return err
		}
		if box, err := e.look(ctx, id); err != nil || !running(box) {
			return err
		}
	}
}

// List finds the containers of a run by label. One whose name does not belong
// to its labels is not ours: an image may bear labels too.
func (e *Executor) List(ctx context.Context, run string) ([]executors.Handle, error) {
	if run == "" {
		return nil, nil
	}
	list, err := e.cli.ContainerList(ctx, container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", executors.LabelRun+"="+run)),
	})
	if err != nil {
		return nil, fmt.Errorf("listing the tasks of run %s: %w", run, err)
	}
	var out []executors.Handle
	for _, c := range list {
		id := executors.TaskID(c.Labels[executors.LabelTask])
		if !id.Valid() || len(c.Names) == 0 || strings.TrimPrefix(c.Names[0], "/") != containerName(id) || c.Labels[labelDir] == "" {
			continue
		}
		out = append(out, executors.Handle{Executor: e.Name(), Task: id, Ref: ref{c.ID, c.Labels[labelDir]}.String()})
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
	grace := duration(l.box, labelGrace)
	if grace == 0 {
		grace = 5 * time.Second
	}
	if err := e.end(ctx, h, executors.Stopped, grace); err != nil || l.box == nil {
		return err
	}
	if !l.gone() {
		if err := e.keepLog(ctx, l); err != nil {
			return fmt.Errorf("keeping the output of task %s: %w", h.Task, err)
		}
	}
	err = e.cli.ContainerRemove(ctx, l.id, container.RemoveOptions{RemoveVolumes: true, Force: true})
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) { // a conflict: it is being removed
		return fmt.Errorf("removing the container of task %s: %w", h.Task, err)
	}
	return nil
}
