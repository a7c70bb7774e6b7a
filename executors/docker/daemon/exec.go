package daemon

import (
	"context"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/sotabuild/sotabuild/executors"
)

// Exec is what a daemon knows of a program that it started in a container which
// ran already.
type Exec struct {
	Running bool
	Code    int // of one that does not run
}

// MakeExec makes an exec for a task, in its folder and as its user, which does
// not run yet. The daemon forgets one that never ran.
func (d *Daemon) MakeExec(ctx context.Context, box string, t executors.Task, argv, env []string) (id string, err error) {
	made, err := d.cli.ContainerExecCreate(ctx, box, container.ExecOptions{User: d.user(t), WorkingDir: t.Dir, Cmd: argv, Env: env})
	if err != nil {
		return "", err
	}
	return made.ID, nil
}

// StartExec starts an exec. The daemon refuses to start it twice: that is a
// Conflict, as it is where the container does not run.
func (d *Daemon) StartExec(ctx context.Context, id string) error {
	return d.cli.ContainerExecStart(ctx, id, container.ExecStartOptions{Detach: true})
}

// LookExec looks at an exec once; nil if the daemon knows nothing of it, or is
// away. A daemon that was started again knows nothing of its execs.
func (d *Daemon) LookExec(ctx context.Context, id string) (*Exec, error) {
	seen, err := d.cli.ContainerExecInspect(ctx, id)
	switch {
	case err == nil:
		return &Exec{Running: seen.Running, Code: seen.ExitCode}, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errdefs.IsNotFound(err) || errdefs.IsConflict(err) || Away(err):
		return nil, nil
	}
	return nil, err
}
