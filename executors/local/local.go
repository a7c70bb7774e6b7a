// Package local runs tasks as process trees on the engine's own host.
//
// A task is one process, usually the supervisor (`sotabuild runner SPEC`), in a
// session of its own, with stdin from /dev/null and its output in
// logs/runner.out. What the package knows of a task stands in Task.Dir/.local,
// so that a later engine can wait for, stop and reap it; a lock there makes two
// starts of one id one start. The runner holds the read end of a pipe whose
// write end only this process has: it ends with us (DESIGN 11.4).
//
// Only what a task itself started is ever ended: the runner by pid, start time
// and boot; what it left by its control group, by the list that it wrote down,
// and by the mark in the environment (executors.EnvTask). Nothing is found by
// its name.
//
// Exit codes are known to the process that started a task. After its death
// exit.json says that the runner came to its end; without it the outcome is
// Lost, and it is certain that nothing of the task runs.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/proc"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// Executor implements executors.Executor. Its lifelines end with it: a process
// keeps one Executor as long as it wants its tasks to live.
type Executor struct {
	name  string
	self  string
	roots []string
	mu    sync.Mutex // guards tasks
	tasks map[executors.TaskID]*started
}

// started is a task that this process started.
type started struct {
	cmd        *exec.Cmd
	supervisor bool // the program is our own, not one that the task names
	lifeline   *os.File
	once       sync.Once // of waiting: a child is waited for once
}

var _ executors.Executor = (*Executor)(nil)

// New returns an executor. self is the path of the sotabuild program: a task
// whose Process has no Args is `self runner spec.json`. Roots are folders that
// List looks into; each holds task folders.
func New(self string, roots ...string) *Executor { return Named("local", self, roots...) }

// Named returns an executor that bears another name, for one that is built on
// this one. Its notes are in Dir/.NAME, so that tasks of both can lie in the
// same folders.
func Named(name, self string, roots ...string) *Executor {
	return &Executor{name: name, self: self, roots: roots, tasks: map[executors.TaskID]*started{}}
}

// Name is "local", or what Named was told.
func (e *Executor) Name() string { return e.name }

// Check says why a task cannot run here.
func (e *Executor) Check(t executors.Task) error {
	if err := check(t); err != nil {
		return err
	}
	program := e.args(t)[0]
	if info, err := os.Stat(program); err != nil || !info.Mode().IsRegular() || unix.Access(program, unix.X_OK) != nil {
		return fmt.Errorf("task %s: its program %s is missing or cannot be executed", t.ID, program)
	}
	return enough(t)
}

// check is about what can never work here.
func check(t executors.Task) error {
	if err := t.Check(); err != nil {
		return err
	}
	if t.Image != "" {
		return fmt.Errorf("task %s: local runs no images; choose another executor, or leave out the image %s", t.ID, t.Image)
	}
	for _, m := range t.Mounts {
		if m.Source != m.Destination || !filepath.IsAbs(m.Source) {
			return fmt.Errorf("task %s: local mounts nothing, so %s cannot appear as %s; use the same absolute path", t.ID, m.Source, m.Destination)
		}
		if _, err := os.Stat(m.Source); err != nil {
			return fmt.Errorf("task %s: its mount is missing: %w", t.ID, err)
		}
	}
	return nil
}

// enough says whether this host has what the task needs. Local sets no limits:
// a need that the host meets is met.
func enough(t executors.Task) error {
	lacks := func(what string, want, have uint64) error {
		return fmt.Errorf("task %s needs %s %d; this host has %d, and local cannot raise it", t.ID, what, want, have)
	}
	r := t.Resources
	if r.CPUs > runtime.NumCPU() {
		return lacks("CPUs", uint64(r.CPUs), uint64(runtime.NumCPU()))
	}
	var host unix.Sysinfo_t
	if err := unix.Sysinfo(&host); err != nil {
		return fmt.Errorf("reading the host's memory: %w", err)
	}
	if total := host.Totalram * uint64(host.Unit); r.Memory > 0 && uint64(r.Memory) > total {
		return lacks("bytes of memory", uint64(r.Memory), total)
	}
	if r.ShmSize > 0 {
		var fs unix.Statfs_t
		if err := unix.Statfs("/dev/shm", &fs); err != nil {
			return fmt.Errorf("reading the size of /dev/shm: %w", err)
		}
		if size := fs.Blocks * uint64(fs.Bsize); uint64(r.ShmSize) > size {
			return lacks("bytes of /dev/shm", uint64(r.ShmSize), size)
		}
	}
	for name, want := range r.Ulimits {
		number, ok := ulimits[name]
		if !ok {
			return fmt.Errorf("task %s: the ulimit %q is unknown to local", t.ID, name)
		}
		var now unix.Rlimit
		if err := unix.Getrlimit(number, &now); err != nil {
			return fmt.Errorf("reading the ulimit %s: %w", name, err)
		}
		if now.Cur < want {
			return lacks("ulimit "+name, want, now.Cur)
		}
	}
	return nil
}

var ulimits = map[string]int{
	"core": unix.RLIMIT_CORE, "memlock": unix.RLIMIT_MEMLOCK, "nofile": unix.RLIMIT_NOFILE,
	"nproc": unix.RLIMIT_NPROC, "stack": unix.RLIMIT_STACK,
}

func (e *Executor) args(t executors.Task) []string {
	if len(t.Process.Args) > 0 {
		return t.Process.Args
	}
	return []string{e.self, "runner", runner.SpecFile}
}

// Start starts the task once. A program that cannot be executed is an outcome,
// not an error.
func (e *Executor) Start(ctx context.Context, t executors.Task) (executors.Handle, error) {
	if err := check(t); err != nil {
		return executors.Handle{}, err
	}
	boot, err := proc.BootID()
	if err != nil {
		return executors.Handle{}, err
	}
	r := ref{note: e.name, boot: boot, dir: t.Dir}
	err = r.update(ctx, func(s *state) error {
		switch {
		case s.Task != "" && s.Task != t.ID:
			return fmt.Errorf("starting task %s: its folder %s is that of task %s", t.ID, t.Dir, s.Task)
		case s.Ref != "":
			return nil // started before
		case s.Task != "":
			return recoverStart(r, s)
		}
		*s = state{Task: t.ID, Labels: t.Labels, Started: time.Now().UTC(), Deadline: t.Deadline, Grace: t.StopGrace}
		name := executors.CgroupName(t.ID)
		if s.Cgroup, err = proc.CgroupPath(name); err != nil {
			s.Cgroup = "" // the host does not let us; the supervisor's list must do
		}
		// The intent comes to the disk before the group and the process do: a
		// crash in between never leads to a second start, and leaves no group
		// that nobody knows of.
		if err := r.write(*s); err != nil {
			return err
		}
		var group *proc.Cgroup
		if s.Cgroup != "" {
			if group, err = proc.MakeCgroup(name); err != nil {
				group, s.Cgroup = nil, "" // as above
			}
		}
		id, err := e.spawn(t, group)
		if err != nil {
			if group != nil {
				err = errors.Join(err, group.Remove())
			}
			s.Outcome = &executors.Outcome{Reason: executors.NotStarted, Detail: err.Error(), Started: s.Started, Ended: time.Now().UTC()}
		}
		r.id = id
		s.Ref = r.String()
		return nil
	})
	if err != nil {
		return executors.Handle{}, err
	}
	return e.handle(t.Dir)
}

// recoverStart completes a start that broke between intent and process id: the
// process is found by its mark, or it never came to be, or has ended again.
func recoverStart(r ref, s *state) error {
	all, err := proc.List()
	if err != nil {
		return err
	}
	mine := proc.Marked(all, mark(s.Task))
	if len(mine) > 0 {
		r.id = slices.MinFunc(mine, func(a, b proc.Process) int { return int(a.Start) - int(b.Start) }).ID
	}
	s.Ref = r.String()
	return nil
}

// spawn executes the task's program, in the group if there is one.
func (e *Executor) spawn(t executors.Task, group *proc.Cgroup) (proc.ID, error) {
	if err := os.MkdirAll(filepath.Join(t.Dir, "logs"), 0o700); err != nil {
		return proc.ID{}, err
	}
	out, err := os.OpenFile(outPath(t.Dir), os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return proc.ID{}, err
	}
	defer out.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return proc.ID{}, err
	}
	defer read.Close()
	args := e.args(t)
	cmd := &exec.Cmd{
		Path: args[0], Args: args, Dir: t.Dir,
		Env:    append(slices.Clone(t.Process.Env), mark(t.ID), runner.EnvLifeline+"=3"),
		Stdout: out, Stderr: out, ExtraFiles: []*os.File{read},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if group != nil {
		folder, err := group.Open()
		if err != nil {
			return proc.ID{}, errors.Join(err, write.Close())
		}
		defer folder.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(folder.Fd())
	}
	if err := cmd.Start(); err != nil {
		return proc.ID{}, errors.Join(err, write.Close())
	}
	e.mu.Lock()
	e.tasks[t.ID] = &started{cmd: cmd, supervisor: len(t.Process.Args) == 0, lifeline: write}
	e.mu.Unlock()
	id, err := proc.Identify(cmd.Process.Pid)
	if err != nil {
		return proc.ID{}, err
	}
	return id, nil
}

// Wait blocks until the task has ended; then nothing of it is left.
func (e *Executor) Wait(ctx context.Context, h executors.Handle) (executors.Outcome, error) {
	r, s, err := e.open(h)
	if err != nil {
		return executors.Outcome{}, err
	}
	if s.Outcome != nil {
		return *s.Outcome, nil
	}
	bounded, done := ctx, context.CancelFunc(func() {})
	if s.Deadline > 0 {
		bounded, done = context.WithDeadline(ctx, s.Started.Add(s.Deadline))
	}
	defer done()
	if err := r.id.Wait(bounded); err != nil {
		if ctx.Err() != nil || bounded.Err() == nil {
			return executors.Outcome{}, err
		}
		if err := e.end(ctx, h, executors.TimedOut, s.Grace); err != nil {
			return executors.Outcome{}, err
		}
	}
	return e.collect(ctx, h, nil)
}

// Logs copies logs/runner.out until the task has ended.
func (e *Executor) Logs(ctx context.Context, h executors.Handle, w io.Writer) error {
	r, _, err := e.open(h)
	if err != nil {
		return err
	}
	file, err := os.Open(outPath(r.dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil // never started: it printed nothing
	}
	if err != nil {
		return fmt.Errorf("reading the log of task %s: %w", h.Task, err)
	}
	defer file.Close()
	for {
		// Whether it lives is asked before the copy: what it wrote up to its
		// end is then read.
		alive := r.id.Alive()
		if _, err := io.Copy(w, file); err != nil {
			return fmt.Errorf("copying the log of task %s: %w", h.Task, err)
		}
		if !alive {
			return nil
		}
		pause, done := context.WithTimeout(ctx, 100*time.Millisecond)
		err := r.id.Wait(pause)
		done()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

// Stop ends the task: TERM to its supervisor, grace, then KILL to all of it.
func (e *Executor) Stop(ctx context.Context, h executors.Handle, grace time.Duration) error {
	return e.end(ctx, h, executors.Stopped, grace)
}

func (e *Executor) end(ctx context.Context, h executors.Handle, why executors.Reason, grace time.Duration) error {
	r, _, err := e.open(h)
	if err != nil {
		return err
	}
	if !r.id.Alive() {
		_, err := e.collect(ctx, h, nil)
		return err
	}
	if err := r.update(ctx, func(s *state) error { s.Asked = why; return nil }); err != nil {
		return err
	}
	if err := r.id.Signal(unix.SIGTERM); err != nil {
		return err
	}
	patience, done := context.WithTimeout(ctx, grace)
	defer done()
	err = r.id.Wait(patience)
	if ctx.Err() != nil {
		return fmt.Errorf("stopping task %s: %w", h.Task, ctx.Err())
	}
	var tree []proc.Process
	if err != nil {
		// Once the supervisor is dead nobody knows any more who its
		// descendants were: they are listed while it lives.
		all, err := proc.List()
		if err != nil {
			return err
		}
		tree = proc.Under(all, r.id.Pid)
		if err := r.id.Signal(unix.SIGKILL); err != nil {
			return err
		}
		if err := r.id.Wait(ctx); err != nil {
			return fmt.Errorf("killing task %s: %w", h.Task, err)
		}
	}
	_, err = e.collect(ctx, h, tree)
	return err
}

// Reap ends what is left of the task and forgets it: List no longer shows it.
// Its folder remembers that it ran, so that it never starts again.
func (e *Executor) Reap(ctx context.Context, h executors.Handle) error {
	r, s, err := e.open(h)
	if err != nil {
		return err
	}
	grace := s.Grace
	if grace == 0 {
		grace = 5 * time.Second
	}
	if err := e.end(ctx, h, executors.Stopped, grace); err != nil {
		return err
	}
	e.mu.Lock()
	delete(e.tasks, h.Task)
	e.mu.Unlock()
	return r.update(ctx, func(s *state) error { s.Reaped = true; return nil })
}
