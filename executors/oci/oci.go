// Package oci runs tasks in containers by an OCI runtime, runc or crun, with no
// daemon.
//
// A container is watched by a small process of our own (Watch), which is a task
// of package local: so its start is idempotent, it has a lifeline, and a later
// engine finds it. The watcher puts a writable layer over the image's files in
// a mount namespace of its own, lets the runtime create and start the container
// as two steps, is the sub-reaper to which the container's processes come, and
// writes how the container ended into Dir/.oci/exit.json by rename. The
// container starts with our own program (Enter), which executes the task's and
// says so when it cannot: "not started" is never a guess from a code.
//
// What a container gets: the image's files, whose changes are dropped at its
// end; the task's folder, its mounts and our program under the same absolute
// paths as on the host; a network with nothing but loopback, unless NetHost; the
// host's process ids, because the tools of GPUs name processes by them; the
// capabilities that are usual for containers, no seccomp filter. It runs as the
// user of Task.Process, not the image's: the task's folder is ours. Its
// environment is the image's, then what CDI adds, then Process.Env. Variables
// stand in no file.
//
// It needs root. The runtime's state, images and writable layers are below one
// folder (Options.Folder); what the executor knows of a task is in Dir/.oci.
package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/image"
	"github.com/sotabuild/sotabuild/executors/ledger"
	"github.com/sotabuild/sotabuild/executors/local"
)

// Options say where things are. Self and Folder are needed.
type Options struct {
	// Self is the sotabuild program: a static executable, mounted into every
	// container. `Self oci-watch DIR` must call Watch and `Self oci-enter …`
	// Enter.
	Self string
	// Folder keeps images, writable layers and the runtime's state.
	Folder string
	// Runtime is runc, crun, or the path of one; "" is the first of them that
	// is installed.
	Runtime string
	// CDI are the folders of CDI specifications; nil is /etc/cdi and
	// /var/run/cdi.
	CDI []string
	// Temp makes the folder for Probe's files; nil is one of the system's.
	Temp func() (string, error) `json:"-"`
	// Roots are the folders that List looks into; each holds task folders.
	Roots []string
}

// Executor implements executors.Executor. Its lifelines end with it.
type Executor struct {
	opts   Options
	local  *local.Executor
	mu     sync.Mutex // guards images
	images map[string]image.Files
}

var _ executors.Executor = (*Executor)(nil)

// New returns an executor. It starts nothing and makes nothing.
func New(o Options) *Executor {
	return &Executor{opts: o, local: local.Named("oci", o.Self, o.Roots...), images: map[string]image.Files{}}
}

// Name is "oci".
func (e *Executor) Name() string { return "oci" }

// runtime returns the path of the runtime.
func (e *Executor) runtime() (string, error) {
	names := []string{e.opts.Runtime}
	if e.opts.Runtime == "" {
		names = []string{"runc", "crun"}
	}
	for _, n := range names {
		if path, err := exec.LookPath(n); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", fmt.Errorf("no OCI runtime is installed: none of %q is in PATH; install runc, or use executor = \"docker\" or \"local\"", names)
}

// Start starts the task once. It unpacks the image first, which is slow the
// first time. An image that cannot be used, or a program that cannot be
// executed, is an outcome; a registry that does not answer is an error.
func (e *Executor) Start(ctx context.Context, t executors.Task) (executors.Handle, error) {
	if h, ok, err := e.local.Find(t.Dir); err != nil || ok && h.Task == t.ID {
		return h, err
	}
	if err := check(t); err != nil {
		return executors.Handle{}, err
	}
	p, err := e.plan(t)
	if err != nil {
		return executors.Handle{}, err
	}
	env, err := e.prepare(ctx, t, &p)
	if errors.Is(err, image.ErrUnusable) {
		p.Refusal, err = err.Error(), nil
	}
	if err != nil {
		return executors.Handle{}, fmt.Errorf("starting task %s: %w", t.ID, err)
	}
	if err := os.MkdirAll(filepath.Dir(planFile(t.Dir)), 0o700); err != nil {
		return executors.Handle{}, fmt.Errorf("starting task %s: %w", t.ID, err)
	}
	if err := ledger.Write(planFile(t.Dir), p); err != nil {
		return executors.Handle{}, err
	}
	inner := executors.Task{ID: t.ID, Dir: t.Dir, Labels: t.Labels, Deadline: t.Deadline, StopGrace: t.StopGrace}
	inner.Process.Args = []string{e.opts.Self, WatchCommand, t.Dir}
	inner.Process.Env = env
	return e.local.Start(ctx, inner)
}

// Wait blocks until the container has ended; then nothing of it is left.
func (e *Executor) Wait(ctx context.Context, h executors.Handle) (executors.Outcome, error) {
	out, err := e.local.Wait(ctx, h)
	if err != nil {
		return out, err
	}
	dir, err := e.local.Folder(h)
	if err != nil {
		return executors.Outcome{}, err
	}
	if err := e.release(ctx, h.Task); err != nil {
		return executors.Outcome{}, err
	}
	if out.Reason == executors.Stopped || out.Reason == executors.TimedOut {
		return out, nil
	}
	record, err := ledger.Read[executors.Outcome](exitFile(dir))
	switch {
	case err != nil:
		return executors.Outcome{}, err
	case record.Reason != "":
		return record, nil
	case out.Reason == executors.NotStarted:
		return out, nil
	}
	out.Detail = fmt.Sprintf("its watcher ended without a record (%s %s %s); whatever the container ran was ended", out.Reason, out.Signal, out.Detail)
	out.Reason, out.Code, out.Signal = executors.Lost, 0, ""
	return out, nil
}

// Logs copies what the container printed until it has ended.
func (e *Executor) Logs(ctx context.Context, h executors.Handle, w io.Writer) error {
	return e.local.Logs(ctx, h, w)
}

// Stop sends TERM to the container's first process, waits grace, then kills
// everything in it.
func (e *Executor) Stop(ctx context.Context, h executors.Handle, grace time.Duration) error {
	if err := e.local.Stop(ctx, h, grace); err != nil {
		return err
	}
	return e.release(ctx, h.Task)
}

// List finds the containers with this run label that were not reaped.
func (e *Executor) List(ctx context.Context, run string) ([]executors.Handle, error) {
	return e.local.List(ctx, run)
}

// Reap ends what is left of the container and forgets it.
func (e *Executor) Reap(ctx context.Context, h executors.Handle) error {
	if err := e.local.Reap(ctx, h); err != nil {
		return err
	}
	return e.release(ctx, h.Task)
}

// release removes what a container whose watcher has ended may have left: its
// processes, the runtime's state, its writable layer.
func (e *Executor) release(ctx context.Context, id executors.TaskID) error {
	p, err := e.plan(executors.Task{ID: id})
	if err != nil {
		return err
	}
	return p.remove(ctx)
}

// Probe runs an empty container and says why the runtime cannot, in its own
// words; nil when it can.
func (e *Executor) Probe(ctx context.Context) error {
	runtime, err := e.ready()
	if err != nil {
		return err
	}
	temp := ""
	if e.opts.Temp != nil {
		if temp, err = e.opts.Temp(); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(temp, "sotabuild-probe-")
	if err != nil {
		return fmt.Errorf("trying %s: %w", runtime, err)
	}
	id := executors.TaskID(fmt.Sprintf("probe-%d-%d", os.Getpid(), time.Now().UnixNano()))
	p := plan{ID: id, Runtime: runtime, State: filepath.Join(dir, "state"), Bundle: filepath.Join(dir, "bundle")}
	err = probe(ctx, p, e.opts.Self)
	return errors.Join(err, p.remove(ctx), os.RemoveAll(dir))
}
