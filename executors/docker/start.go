package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/sotabuild/sotabuild/executors"
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
		if ctx.Err() != nil || away(err) && !errors.Is(err, image.ErrUnusable) {
			return fmt.Errorf("starting task %s: %w", t.ID, err)
		}
		s.Refused = err.Error()
		if s.Container == "" {
			s.Container = none
		}
		return nil
	}
	f, err := e.resolve(ctx, t.Image)
	if err != nil {
		return refuse(err)
	}
	id, files, err := e.create(ctx, t, f)
	if errdefs.IsConflict(err) { // made by an engine that died before it wrote that down
		box, lookErr := e.look(ctx, containerName(t.ID))
		switch {
		case lookErr != nil:
			return lookErr
		case box == nil:
			return fmt.Errorf("starting task %s: %w", t.ID, err) // gone again: ask again
		case !ours(box, t.ID) || box.Config.Labels[labelDir] != t.Dir:
			return fmt.Errorf("starting task %s: a container called %s is there, and it is not of this task", t.ID, containerName(t.ID))
		}
		id, files, err = box.ID, Files(box.Config.Labels[labelFiles]), nil
	}
	if err != nil {
		return refuse(err)
	}
	s.Container = id
	if files == Copied {
		if err := e.copyIn(ctx, t, id); err != nil {
			return refuse(err)
		}
	}
	return nil
}

// create makes the container. Where it is not known yet whether the daemon
// sees our files, a folder that only we have tells: the mount of the task's is
// refused, and the same container without it is not.
func (e *Executor) create(ctx context.Context, t executors.Task, f *found) (id string, files Files, err error) {
	files = e.filesNow()
	if files == Auto {
		files = Shared
	}
	id, err = e.createWith(ctx, t, f, files)
	if err == nil && e.filesNow() == Auto {
		e.setFiles(Shared)
	}
	if e.filesNow() == Auto && errdefs.IsInvalidArgument(err) {
		if copied, again := e.createWith(ctx, t, f, Copied); again == nil {
			e.setFiles(Copied)
			e.o.Say(fmt.Sprintf("the Docker daemon at %s does not see this host's files: tasks' folders are copied", e.cli.DaemonHost()))
			return copied, Copied, nil
		}
	}
	return id, files, err
}

func (e *Executor) setFiles(f Files) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.files = f
}

func (e *Executor) createWith(ctx context.Context, t executors.Task, f *found, files Files) (string, error) {
	host, err := hostOf(e, t, files)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errdefs.ErrInvalidArgument, err)
	}
	made, err := e.cli.ContainerCreate(ctx, configOf(e, t, files, f.id, f.img.Config.Env), host, nil, nil, containerName(t.ID))
	if err != nil {
		return "", err
	}
	return made.ID, nil
}

// run starts the container, unless it was started before.
func (e *Executor) run(ctx context.Context, t executors.Task, s *state) error {
	box, err := e.look(ctx, s.Container)
	if err != nil {
		return fmt.Errorf("starting task %s: %w", t.ID, err)
	}
	if box == nil || !started(box).IsZero() || running(box) {
		return nil // Wait says what became of it
	}
	if why, err := e.cannotExec(ctx, s.Container, e.args(t)[0]); err != nil {
		return fmt.Errorf("starting task %s: %w", t.ID, err)
	} else if why != "" {
		s.Refused = why
		return nil
	}
	err = e.cli.ContainerStart(ctx, s.Container, container.StartOptions{})
	if err == nil {
		return nil
	}
	// The answer may have got lost while it was started.
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*awayPatience)
	defer cancel()
	box, lookErr := e.look(look, s.Container)
	switch {
	case lookErr != nil:
		return errors.Join(fmt.Errorf("starting task %s: %w", t.ID, err), lookErr)
	case box == nil || !started(box).IsZero() || running(box):
		return nil
	case ctx.Err() != nil || away(err):
		return fmt.Errorf("starting task %s: %w", t.ID, err)
	}
	now := time.Now().UTC()
	s.Outcome = &executors.Outcome{Reason: executors.NotStarted, Detail: err.Error(), Started: now, Ended: now}
	return nil
}

// cannotExec says why a program cannot be executed in a container that has not
// started; "" if it can, as far as one sees. It is asked first because it is
// Docker's init that executes the program: its own failure to do so looks like
// an exit of the program with 126 or 127.
func (e *Executor) cannotExec(ctx context.Context, id, program string) (string, error) {
	for at, hops := program, 0; ; hops++ {
		info, err := e.cli.ContainerStatPath(ctx, id, at)
		switch {
		case errdefs.IsNotFound(err):
			return fmt.Sprintf("the program %s is not there, neither in the image nor by a mount", program), nil
		case err != nil:
			return "", fmt.Errorf("looking for %s: %w", at, err)
		case info.Mode&os.ModeSymlink != 0 && hops < 40:
			at = info.LinkTarget
		case !info.Mode.IsRegular() || info.Mode.Perm()&0o111 == 0:
			return fmt.Sprintf("the program %s is no file that can be executed: %s", program, info.Mode), nil
		default:
			return "", nil
		}
	}
}
