package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/docker/daemon"
	"github.com/sotabuild/sotabuild/executors/image"
	"github.com/sotabuild/sotabuild/executors/ledger"
)

// Start starts the task once. An image that cannot be used and a program that
// cannot be executed are outcomes, not errors. It blocks for as long as an
// image is pulled or loaded, and files are copied.
func (e *Executor) Start(ctx context.Context, t executors.Task) (executors.Handle, error) {
	if err := t.Check(); err != nil {
		return executors.Handle{}, err
	}
	r := ref{dir: t.Dir}
	err := ledger.Update(ctx, r.path(), func(s *state) error {
		switch {
		case s.Task != "" && s.Task != t.ID:
			return fmt.Errorf("starting task %s: its folder %s is that of task %s", t.ID, t.Dir, s.Task)
		case s.Outcome != nil || s.Refused != "":
			return nil
		case s.Container == "":
			s.Task = t.ID
			if err := e.make(ctx, t, s); err != nil || s.Refused != "" {
				return err
			}
			// The container's id comes to the disk before it is started.
			if err := ledger.Write(r.path(), *s); err != nil {
				return err
			}
		}
		return e.run(ctx, t, s)
	})
	if err != nil {
		return executors.Handle{}, err
	}
	s, err := ledger.Read[state](r.path())
	if err != nil {
		return executors.Handle{}, err
	}
	r.id = s.Container
	return executors.Handle{Executor: e.Name(), Task: t.ID, Ref: r.String()}, nil
}

// make finds or makes the task's container, which does not run yet. A refusal
// that asking again cannot change is noted in s.
func (e *Executor) make(ctx context.Context, t executors.Task, s *state) error {
	refuse := func(err error) error {
		if ctx.Err() != nil || daemon.Away(err) && !errors.Is(err, image.ErrUnusable) {
			return fmt.Errorf("starting task %s: %w", t.ID, err)
		}
		s.Refused = err.Error()
		if s.Container == "" {
			s.Container = none
		}
		return nil
	}
	img, err := e.images.Get(ctx, t.Image)
	if err != nil {
		return refuse(err)
	}
	id, copied, err := e.create(ctx, t, img)
	for late := time.Now().Add(daemon.Patience); daemon.Conflict(err); {
		// Made for an engine that died before it wrote that down, or being made
		// for one: then the name is taken and nobody bears it yet.
		box, lookErr := e.d.Look(ctx, daemon.Name(t.ID))
		if lookErr != nil {
			return lookErr
		}
		if box != nil {
			if box.Task != t.ID || box.Dir != t.Dir {
				return fmt.Errorf("starting task %s: a container called %s is there, and it is not of this task", t.ID, daemon.Name(t.ID))
			}
			id, copied, err = box.ID, box.Copied, nil
			break
		}
		if time.Now().After(late) {
			return fmt.Errorf("starting task %s: %w", t.ID, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("starting task %s: %w", t.ID, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
		id, copied, err = e.create(ctx, t, img)
	}
	if err != nil {
		return refuse(err)
	}
	s.Container = id
	if copied {
		if err := e.d.CopyIn(ctx, id, t); err != nil {
			return refuse(err)
		}
	}
	return nil
}

// create makes the container. Where it is not known yet whether the daemon
// sees our files, a folder that only we have tells: the mount of the task's is
// refused, and the same container without it is not.
func (e *Executor) create(ctx context.Context, t executors.Task, img *image.Image) (id string, copied bool, err error) {
	files := e.filesNow()
	id, err = e.d.Create(ctx, e.request(t, img, files))
	if files != Auto {
		return id, files == Copied, err
	}
	if err == nil {
		e.setFiles(Shared)
	}
	if daemon.Invalid(err) {
		if far, again := e.d.Create(ctx, e.request(t, img, Copied)); again == nil {
			e.setFiles(Copied)
			e.o.Say(fmt.Sprintf("the Docker daemon at %s does not see this host's files: tasks' folders are copied", e.d.Host()))
			return far, true, nil
		}
	}
	return id, false, err
}

// run starts the container, unless it was started before.
func (e *Executor) run(ctx context.Context, t executors.Task, s *state) error {
	box, err := e.d.Look(ctx, s.Container)
	if err != nil {
		return fmt.Errorf("starting task %s: %w", t.ID, err)
	}
	if box == nil || box.WasStarted() {
		return nil // Wait says what became of it
	}
	if why, err := e.d.CannotExec(ctx, s.Container, e.d.Args(t)[0]); err != nil {
		return fmt.Errorf("starting task %s: %w", t.ID, err)
	} else if why != "" {
		s.Refused = why
		return nil
	}
	err = e.d.Start(ctx, s.Container)
	if err == nil {
		return nil
	}
	// The answer may have got lost while it was started.
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*daemon.Patience)
	defer cancel()
	box, lookErr := e.d.Look(look, s.Container)
	switch {
	case lookErr != nil:
		return errors.Join(fmt.Errorf("starting task %s: %w", t.ID, err), lookErr)
	case box == nil || box.WasStarted():
		return nil
	case ctx.Err() != nil || daemon.Away(err):
		return fmt.Errorf("starting task %s: %w", t.ID, err)
	}
	now := time.Now().UTC()
	s.Outcome = &executors.Outcome{Reason: executors.NotStarted, Detail: err.Error(), Started: now, Ended: now}
	return nil
}
