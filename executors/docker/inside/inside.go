// Package inside runs tasks in one container that runs already, by the exec of
// this host's Docker daemon (R021). The container is somebody's: it is never
// made, stopped or removed, and nobody can give it more than it has. It must see
// the tasks' folders and our program at the paths that they have here.
//
// An exec has no log and no stop. The program that is started is therefore the
// one that also runs inside a Slurm job: it begins a task once, keeps its
// deadline and its log, heeds an order to stop, leaves its record, and ends what
// the task has started. Its folder is Task.Dir/.docker/exec; what this package
// knows of a task stands in Task.Dir/.docker/exec.json.
package inside

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/docker/daemon"
	"github.com/sotabuild/sotabuild/executors/docker/folder"
	"github.com/sotabuild/sotabuild/executors/image"
	"github.com/sotabuild/sotabuild/executors/ledger"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/executors/slurm/job"
)

// Executor implements executors.Executor.
type Executor struct {
	d     *daemon.Daemon
	name  string
	roots []string
}

var _ executors.Executor = (*Executor)(nil)

// Enter returns an executor over a container of a daemon, which it closes. The
// daemon has to be one of this host. name is the container's name or id, roots
// are the folders of task folders that List looks into. It asks nobody: Check
// and Start say what is wrong with the container.
func Enter(d *daemon.Daemon, name string, roots ...string) (*Executor, error) {
	if !d.Local() {
		return nil, fmt.Errorf("using container %s: the daemon at %s is not on this host, and its containers see no files of it; leave out container or host", name, d.Host())
	}
	return &Executor{d, name, roots}, nil
}

// Close ends the connections. Tasks go on.
func (in *Executor) Close() error { return in.d.Close() }

// Name is "docker".
func (in *Executor) Name() string { return "docker" }

// Check says why a task cannot run in the container.
func (in *Executor) Check(t executors.Task) error {
	if err := t.Check(); err != nil {
		return err
	}
	if err := in.d.Enough(t); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	box, err := in.box(ctx, t)
	if err != nil {
		return fmt.Errorf("task %s: %w", t.ID, err)
	}
	paths := []string{t.Dir, in.d.Self()}
	for _, m := range t.Mounts {
		if _, err := os.Stat(m.Source); err != nil {
			return fmt.Errorf("task %s: its mount is missing: %w", t.ID, err)
		}
		if m.Source != m.Destination {
			return fmt.Errorf("task %s: nothing can be mounted in a container that runs, so %s cannot appear as %s; use the same path", t.ID, m.Source, m.Destination)
		}
		paths = append(paths, m.Source)
	}
	for _, path := range paths {
		if !sees(box, path, path == t.Dir) {
			return fmt.Errorf("task %s: container %s does not see %s; start it with --volume %s:%s", t.ID, in.name, path, path, path)
		}
	}
	if err := meets(box, t); err != nil {
		return fmt.Errorf("task %s: container %s %w", t.ID, in.name, err)
	}
	return in.sameImage(ctx, t, box)
}

// box is the container, which must run.
func (in *Executor) box(ctx context.Context, t executors.Task) (*daemon.Container, error) {
	box, err := in.d.Look(ctx, in.name)
	switch {
	case err != nil:
		return nil, err
	case box == nil:
		return nil, fmt.Errorf("there is no container %s; start one: docker run --detach --init --name %s --volume %s:%s --volume %s:%s:ro --entrypoint sleep IMAGE infinity",
			in.name, in.name, filepath.Dir(t.Dir), filepath.Dir(t.Dir), in.d.Self(), in.d.Self())
	case box.Paused:
		return nil, fmt.Errorf("container %s is paused; write docker unpause %s", in.name, in.name)
	case !box.Running || box.Restarting:
		return nil, fmt.Errorf("container %s does not run (it is %s); write docker start %s", in.name, box.Status, in.name)
	}
	return box, nil
}

// sees says whether a path of this host is the same path in the container.
func sees(box *daemon.Container, path string, write bool) bool {
	deepest, ok := "", false
	for _, m := range box.Mounts {
		rest, below := strings.CutPrefix(path, strings.TrimSuffix(m.Destination, "/"))
		if below && (rest == "" || rest[0] == '/') && len(m.Destination) >= len(deepest) {
			deepest, ok = m.Destination, m.Bind && filepath.Join(m.Source, rest) == path && (m.Writable || !write)
		}
	}
	return ok
}

// meets says what the container was not given that the task needs. Nobody can
// give it more.
func meets(box *daemon.Container, t executors.Task) error {
	r, has := t.Resources, box.Limits
	switch {
	case r.ShmSize > has.ShmSize && !has.HostIPC:
		return fmt.Errorf("has %d bytes of /dev/shm, and the task needs %d; start it with --shm-size %d", has.ShmSize, r.ShmSize, r.ShmSize)
	case r.IPCHost && !has.HostIPC:
		return errors.New("has an ipc of its own, and the task needs the host's; start it with --ipc host")
	case r.NetHost && !has.HostNetwork:
		return errors.New("has a network of its own, and the task needs the host's; start it with --network host")
	case has.Memory > 0 && r.Memory > has.Memory:
		return fmt.Errorf("may use %d bytes of memory, and the task needs %d; start it with --memory %d", has.Memory, r.Memory, r.Memory)
	case has.NanoCPUs > 0 && int64(r.CPUs)*1e9 > has.NanoCPUs:
		return fmt.Errorf("may use %.1f CPUs, and the task needs %d; start it with --cpus %d", float64(has.NanoCPUs)/1e9, r.CPUs, r.CPUs)
	}
	for name := range r.Ulimits {
		if _, ok := job.Ulimits[name]; !ok {
			return fmt.Errorf("cannot get the ulimit %q in a task of its own; start it with --ulimit %s=…", name, name)
		}
	}
	return nil
}

// sameImage refuses a container of another image than the task's, by which its
// software is known. No image says nothing.
func (in *Executor) sameImage(ctx context.Context, t executors.Task, box *daemon.Container) error {
	if t.Image == "" {
		return nil
	}
	has, err := in.d.Image(ctx, box.Image)
	if err != nil {
		return err
	}
	var want *image.Image
	if kind, _, err := image.Split(t.Image); err == nil && kind != image.Registry {
		want, err = image.Open(ctx, t.Image, in.d.Platform())
		if err != nil {
			return err
		}
	} else if want, err = in.d.Image(ctx, t.Image); err != nil {
		return fmt.Errorf("task %s: container %s was made of image %s; write this as image: %w", t.ID, in.name, box.ImageName, err)
	}
	if has.Identity() != want.Identity() {
		return fmt.Errorf("task %s: container %s was made of image %s, and image says %s; write the former, or start a container of the latter", t.ID, in.name, box.ImageName, t.Image)
	}
	return nil
}

// state is what Dir/.docker/exec.json says.
type state struct {
	Task      executors.TaskID   `json:"task"`
	Labels    map[string]string  `json:"labels,omitempty"`
	Container string             `json:"container"` // its id
	Exec      string             `json:"exec"`
	Grace     time.Duration      `json:"grace_ns"`
	Asked     executors.Reason   `json:"asked,omitempty"` // why we ended it
	Outcome   *executors.Outcome `json:"outcome,omitempty"`
	Reaped    bool               `json:"reaped,omitempty"`
}

// jobFolder is the folder of the program inside.
func jobFolder(dir string) string { return filepath.Join(dir, folder.Notes, "exec") }

func statePath(dir string) string { return filepath.Join(dir, folder.Notes, "exec.json") }

// Start starts the task once: an exec that has run is not started again.
func (in *Executor) Start(ctx context.Context, t executors.Task) (executors.Handle, error) {
	if err := t.Check(); err != nil {
		return executors.Handle{}, err
	}
	err := ledger.Update(ctx, statePath(t.Dir), func(s *state) error {
		switch {
		case s.Task != "" && s.Task != t.ID:
			return fmt.Errorf("starting task %s: its folder %s is that of task %s", t.ID, t.Dir, s.Task)
		case s.Outcome != nil || s.Reaped:
			return nil
		case s.Exec == "":
			if err := in.make(ctx, t, s); err != nil {
				return fmt.Errorf("starting task %s: %w", t.ID, err)
			}
			// The exec's id comes to the disk before it is started.
			if err := ledger.Write(statePath(t.Dir), *s); err != nil {
				return err
			}
		}
		return in.begin(ctx, t, s)
	})
	if err != nil {
		return executors.Handle{}, err
	}
	s, err := ledger.Read[state](statePath(t.Dir))
	return handleOf(s, t.Dir), err
}

func handleOf(s state, dir string) executors.Handle {
	return executors.Handle{Executor: "docker", Task: s.Task, Ref: "exec=" + s.Exec + ":" + dir}
}

// make writes the order and makes an exec, which does not run yet. One that a
// dead engine has made and not written down never runs.
func (in *Executor) make(ctx context.Context, t executors.Task, s *state) error {
	box, err := in.box(ctx, t)
	if err != nil {
		return err
	}
	at := jobFolder(t.Dir)
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	if err := job.DropEnv(at); err != nil {
		return err
	}
	o := job.Order{
		Version: job.OrderVersion, Task: t.ID, Name: daemon.Name(t.ID), Args: in.d.Args(t), Dir: t.Dir,
		Ulimits: t.Resources.Ulimits, Deadline: t.Deadline, Grace: t.StopGrace,
	}
	for _, m := range t.Mounts {
		o.Needs = append(o.Needs, m.Source)
	}
	env := t.Process.Env
	if g := t.Resources.GPUs; len(g) > 0 { // the container may have more
		env = append(env[:len(env):len(env)], runner.EnvGPUs+"="+strings.Join(g, ","))
	}
	if err := job.WriteOrder(at, o, env); err != nil {
		return err
	}
	exec, err := in.d.MakeExec(ctx, box.ID, t, []string{in.d.Self(), "slurm-job", at},
		[]string{"SLURM_JOB_NAME=" + o.Name, "SLURMD_NODENAME=" + in.name})
	if err != nil {
		return err
	}
	*s = state{Task: t.ID, Labels: t.Labels, Container: box.ID, Exec: exec, Grace: t.StopGrace}
	return nil
}

// begin starts the exec. The daemon refuses to start it twice.
func (in *Executor) begin(ctx context.Context, t executors.Task, s *state) error {
	err := in.d.StartExec(ctx, s.Exec)
	if err == nil || daemon.Conflict(err) && in.ran(ctx, s) {
		return nil
	}
	if ctx.Err() != nil || daemon.Away(err) {
		return fmt.Errorf("starting task %s: %w", t.ID, err)
	}
	never, claimErr := job.Claim(jobFolder(t.Dir))
	if claimErr != nil || !never {
		return claimErr // it has begun: Wait says what became of it
	}
	return s.never(t.Dir, executors.NotStarted, err.Error())
}

// ran says whether a conflict is about an exec that was started, and not about a
// container that does not run.
func (in *Executor) ran(ctx context.Context, s *state) bool {
	box, err := in.d.Look(ctx, s.Container)
	return err == nil && box != nil && box.Running && !box.Paused
}

// never notes the outcome of a task that nobody can begin any more.
func (s *state) never(dir string, why executors.Reason, detail string) error {
	now := time.Now().UTC()
	s.Outcome = &executors.Outcome{Reason: why, Detail: detail, Started: now, Ended: now}
	return job.DropEnv(jobFolder(dir))
}
