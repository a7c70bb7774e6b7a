package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/image"
	"github.com/sotabuild/sotabuild/executors/ledger"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/executors/slurm/job"
)

// Inside runs tasks in one container that runs already, by the daemon's exec
// (R021). The container is somebody's: it is never made, stopped or removed. It
// must see the tasks' folders and our program at the paths that they have here.
//
// An exec has no log and no stop. The program that is started is therefore the
// one that also runs inside a Slurm job: it begins a task once, keeps its
// deadline and its log, heeds an order to stop, leaves its record, and ends what
// the task has started. Its folder is Task.Dir/.docker/exec.
type Inside struct {
	e     *Executor
	name  string
	roots []string
}

var _ executors.Executor = (*Inside)(nil)

// Enter connects to a daemon of this host, like Dial. name is the container's
// name or id, roots are the folders of task folders that List looks into.
func Enter(ctx context.Context, o Options, name string, roots ...string) (*Inside, error) {
	e, err := Dial(ctx, o)
	if err != nil {
		return nil, err
	}
	if !e.Local() {
		return nil, errors.Join(fmt.Errorf("using container %s: the daemon at %s is not on this host, and its containers see no files of it; leave out container or host", name, e.cli.DaemonHost()), e.Close())
	}
	return &Inside{e, name, roots}, nil
}

// Close ends the connections. Tasks go on.
func (in *Inside) Close() error { return in.e.Close() }

// Name is "docker".
func (in *Inside) Name() string { return in.e.Name() }

// Check says why a task cannot run in the container.
func (in *Inside) Check(t executors.Task) error {
	if err := t.Check(); err != nil {
		return err
	}
	if err := in.e.enough(t); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	box, err := in.box(ctx, t)
	if err != nil {
		return fmt.Errorf("task %s: %w", t.ID, err)
	}
	paths := []string{t.Dir, in.e.o.Self}
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
func (in *Inside) box(ctx context.Context, t executors.Task) (*container.InspectResponse, error) {
	box, err := in.e.look(ctx, in.name)
	switch {
	case err != nil:
		return nil, err
	case box == nil:
		return nil, fmt.Errorf("there is no container %s; start one: docker run --detach --init --name %s --volume %s:%s --volume %s:%s:ro --entrypoint sleep IMAGE infinity",
			in.name, in.name, filepath.Dir(t.Dir), filepath.Dir(t.Dir), in.e.o.Self, in.e.o.Self)
	case box.State.Paused:
		return nil, fmt.Errorf("container %s is paused; write docker unpause %s", in.name, in.name)
	case !box.State.Running || box.State.Restarting:
		return nil, fmt.Errorf("container %s does not run (it is %s); write docker start %s", in.name, box.State.Status, in.name)
	}
	return box, nil
}

// sees says whether a path of this host is the same path in the container.
func sees(box *container.InspectResponse, path string, write bool) bool {
	deepest, ok := "", false
	for _, m := range box.Mounts {
		rest, below := strings.CutPrefix(path, strings.TrimSuffix(m.Destination, "/"))
		if below && (rest == "" || rest[0] == '/') && len(m.Destination) >= len(deepest) {
			deepest, ok = m.Destination, m.Type == "bind" && filepath.Join(m.Source, rest) == path && (m.RW || !write)
		}
	}
	return ok
}

// meets says what the container was not given that the task needs. Nobody can
// give it more.
func meets(box *container.InspectResponse, t executors.Task) error {
	r, host := t.Resources, box.HostConfig
	switch {
	case r.ShmSize > host.ShmSize && !host.IpcMode.IsHost():
		return fmt.Errorf("has %d bytes of /dev/shm, and the task needs %d; start it with --shm-size %d", host.ShmSize, r.ShmSize, r.ShmSize)
	case r.IPCHost && !host.IpcMode.IsHost():
		return errors.New("has an ipc of its own, and the task needs the host's; start it with --ipc host")
	case r.NetHost && !host.NetworkMode.IsHost():
		return errors.New("has a network of its own, and the task needs the host's; start it with --network host")
	case host.Memory > 0 && r.Memory > host.Memory:
		return fmt.Errorf("may use %d bytes of memory, and the task needs %d; start it with --memory %d", host.Memory, r.Memory, r.Memory)
	case host.NanoCPUs > 0 && int64(r.CPUs)*1e9 > host.NanoCPUs:
		return fmt.Errorf("may use %.1f CPUs, and the task needs %d; start it with --cpus %d", float64(host.NanoCPUs)/1e9, r.CPUs, r.CPUs)
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
func (in *Inside) sameImage(ctx context.Context, t executors.Task, box *container.InspectResponse) error {
	if t.Image == "" {
		return nil
	}
	has, err := in.e.inspect(ctx, box.Image, box.Image)
	if err != nil {
		return err
	}
	var want *image.Image
	if kind, _, err := image.Split(t.Image); err == nil && kind != image.Registry {
		want, err = image.Open(ctx, t.Image, in.e.platform())
		if err != nil {
			return err
		}
	} else if want, err = in.e.Present(ctx, t.Image); err != nil {
		return fmt.Errorf("task %s: container %s was made of image %s; write this as image: %w", t.ID, in.name, box.Config.Image, err)
	}
	if has.img.Identity() != want.Identity() {
		return fmt.Errorf("task %s: container %s was made of image %s, and image says %s; write the former, or start a container of the latter", t.ID, in.name, box.Config.Image, t.Image)
	}
	return nil
}

// inside is what Dir/.docker/exec.json says.
type inside struct {
	Task      executors.TaskID   `json:"task"`
	Labels    map[string]string  `json:"labels,omitempty"`
	Container string             `json:"container"` // its id
	Exec      string             `json:"exec"`
	Grace     time.Duration      `json:"grace_ns"`
	Asked     executors.Reason   `json:"asked,omitempty"` // why we ended it
	Outcome   *executors.Outcome `json:"outcome,omitempty"`
	Reaped    bool               `json:"reaped,omitempty"`
}

// execFolder is the folder of the program inside.
func execFolder(dir string) string { return filepath.Join(dir, ".docker", "exec") }

func execPath(dir string) string { return filepath.Join(dir, ".docker", "exec.json") }

// Start starts the task once: an exec that has run is not started again.
func (in *Inside) Start(ctx context.Context, t executors.Task) (executors.Handle, error) {
	if err := t.Check(); err != nil {
		return executors.Handle{}, err
	}
	err := ledger.Update(ctx, execPath(t.Dir), func(s *inside) error {
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
			if err := ledger.Write(execPath(t.Dir), *s); err != nil {
				return err
			}
		}
		return in.begin(ctx, t, s)
	})
	if err != nil {
		return executors.Handle{}, err
	}
	s, err := ledger.Read[inside](execPath(t.Dir))
	return handleInside(s, t.Dir), err
}

func handleInside(s inside, dir string) executors.Handle {
	return executors.Handle{Executor: "docker", Task: s.Task, Ref: "exec=" + s.Exec + ":" + dir}
}

// make writes the order and makes an exec, which does not run yet. One that a
// dead engine has made and not written down never runs.
func (in *Inside) make(ctx context.Context, t executors.Task, s *inside) error {
	box, err := in.box(ctx, t)
	if err != nil {
		return err
	}
	folder := execFolder(t.Dir)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := job.DropEnv(folder); err != nil {
		return err
	}
	o := job.Order{
		Version: job.OrderVersion, Task: t.ID, Name: containerName(t.ID), Args: in.e.args(t), Dir: t.Dir,
		Ulimits: t.Resources.Ulimits, Deadline: t.Deadline, Grace: t.StopGrace,
	}
	for _, m := range t.Mounts {
		o.Needs = append(o.Needs, m.Source)
	}
	env := t.Process.Env
	if g := t.Resources.GPUs; len(g) > 0 { // the container may have more
		env = append(env[:len(env):len(env)], runner.EnvGPUs+"="+strings.Join(g, ","))
	}
	if err := job.WriteOrder(folder, o, env); err != nil {
		return err
	}
	made, err := in.e.cli.ContainerExecCreate(ctx, box.ID, container.ExecOptions{
		User: in.e.user(t), WorkingDir: t.Dir, Cmd: []string{in.e.o.Self, "slurm-job", folder},
		Env: []string{"SLURM_JOB_NAME=" + o.Name, "SLURMD_NODENAME=" + in.name},
	})
	if err != nil {
		return err
	}
	*s = inside{Task: t.ID, Labels: t.Labels, Container: box.ID, Exec: made.ID, Grace: t.StopGrace}
	return nil
}

// begin starts the exec. The daemon refuses to start it twice.
func (in *Inside) begin(ctx context.Context, t executors.Task, s *inside) error {
	err := in.e.cli.ContainerExecStart(ctx, s.Exec, container.ExecStartOptions{Detach: true})
	if err == nil || errdefs.IsConflict(err) && in.ran(ctx, s) {
		return nil
	}
	if ctx.Err() != nil || away(err) {
		return fmt.Errorf("starting task %s: %w", t.ID, err)
	}
	never, claimErr := job.Claim(execFolder(t.Dir))
	if claimErr != nil || !never {
		return claimErr // it has begun: Wait says what became of it
	}
	return s.never(t.Dir, executors.NotStarted, err.Error())
}

// ran says whether a conflict is about an exec that was started, and not about a
// container that does not run.
func (in *Inside) ran(ctx context.Context, s *inside) bool {
	box, err := in.e.look(ctx, s.Container)
	return err == nil && box != nil && box.State.Running && !box.State.Paused
}

// never notes the outcome of a task that nobody can begin any more.
func (s *inside) never(dir string, why executors.Reason, detail string) error {
	now := time.Now().UTC()
	s.Outcome = &executors.Outcome{Reason: why, Detail: detail, Started: now, Ended: now}
	return job.DropEnv(execFolder(dir))
}
