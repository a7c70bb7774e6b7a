package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
)

// UntilEnd blocks until the container no longer runs, or ctx is done. One that
// is not there does not run.
func (d *Daemon) UntilEnd(ctx context.Context, id string) error {
	for {
		ended, failed := d.cli.ContainerWait(ctx, id, container.WaitConditionNotRunning)
		select {
		case <-ended:
		case <-failed:
		case <-ctx.Done():
			return ctx.Err()
		}
		// Neither answer is believed: an ended connection is no end.
		box, err := d.Look(ctx, id)
		if err != nil || !box.Alive() {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// oomPatience is how long after a container's end its OOM event may come, on a
// busy host; shorter where nothing but the event would speak for it.
const oomPatience, oomBrief = 5 * time.Second, time.Second

// Settled is the ended container c once all is told of its end: it looks for the
// event of an OOM kill where a limit was set and the state says nothing. A
// daemon that hears of the end first never sets the flag. It blocks for some
// seconds after the end.
func (d *Daemon) Settled(ctx context.Context, c Container) (Container, error) {
	if c.Alive() || c.Started.IsZero() || c.Finished.IsZero() || c.OOMKilled || c.Memory == 0 {
		return c, nil
	}
	patience := oomBrief
	if c.ExitCode == 128+int(syscall.SIGKILL) {
		patience = oomPatience
	}
	stamp := func(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	said, failed := d.cli.Events(ctx, events.ListOptions{
		Since: stamp(c.Started), Until: stamp(c.Finished.Add(patience)),
		Filters: filters.NewArgs(filters.Arg("container", c.ID), filters.Arg("event", "oom")),
	})
	select {
	case <-said:
		c.OOMKilled = true
		return c, nil
	case err := <-failed:
		if err == nil || errors.Is(err, io.EOF) {
			box, err := d.Look(ctx, c.ID)
			if err == nil && box != nil {
				c = *box
			}
			return c, err
		}
		return c, fmt.Errorf("asking whether memory ran out in container %.12s: %w", c.ID, err)
	}
}

// End sends TERM, waits grace, then sends KILL; the end of the container's first
// process is the end of all of them. It returns when the container no longer
// runs.
func (d *Daemon) End(ctx context.Context, id string, grace time.Duration) error {
	patience, done := context.WithTimeout(ctx, grace)
	defer done()
	if err := d.signal(patience, id, "TERM"); err == nil {
		if err := d.UntilEnd(patience, id); err == nil {
			return nil
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for { // a daemon that dies between two calls may have lost the signal
		if err := d.signal(ctx, id, "KILL"); err != nil {
			return err
		}
		soon, done := context.WithTimeout(ctx, 10*time.Second)
		err := d.UntilEnd(soon, id)
		done()
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}

// signal is no error where the container does not run any more.
func (d *Daemon) signal(ctx context.Context, id, name string) error {
	for {
		err := d.cli.ContainerKill(ctx, id, name)
		if err == nil || errdefs.IsConflict(err) || errdefs.IsNotFound(err) {
			return nil
		}
		if !Away(err) || ctx.Err() != nil {
			return err
		}
		if box, err := d.Look(ctx, id); err != nil || !box.Alive() {
			return err
		}
	}
}

// Remove removes a container, whatever it does, with the volumes that the image
// made it have. One that is gone, or is being removed, is no error.
func (d *Daemon) Remove(ctx context.Context, id string) error {
	err := d.cli.ContainerRemove(ctx, id, container.RemoveOptions{RemoveVolumes: true, Force: true})
	if err == nil || errdefs.IsNotFound(err) || errdefs.IsConflict(err) { // a conflict: it is being removed
		return nil
	}
	return err
}
