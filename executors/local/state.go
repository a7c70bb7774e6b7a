package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/ledger"
	"github.com/sotabuild/sotabuild/executors/proc"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// state is what is kept of a task, in Dir/.local/task.json. It is changed under
// the lock only, and replaced by rename.
type state struct {
	Task     executors.TaskID   `json:"task"`
	Labels   map[string]string  `json:"labels,omitempty"`
	Ref      string             `json:"ref,omitempty"` // "" while it is being started
	Started  time.Time          `json:"started"`
	Deadline time.Duration      `json:"deadline_ns,omitempty"`
	Grace    time.Duration      `json:"grace_ns,omitempty"`
	Asked    executors.Reason   `json:"asked,omitempty"` // why we ended it
	Outcome  *executors.Outcome `json:"outcome,omitempty"`
	Reaped   bool               `json:"reaped,omitempty"`
	// Cgroup is the control group that the task was started in, where this
	// host lets us make one. Its supervisor's own is inside it.
	Cgroup string `json:"cgroup,omitempty"`
}

// ref is a Handle's Ref: PID:START:BOOT:DIR. Pid 0 is a task whose process
// never was, or was never seen.
type ref struct {
	note string // the executor's name
	id   proc.ID
	boot string
	dir  string
}

func (r ref) String() string { return fmt.Sprintf("%d:%d:%s:%s", r.id.Pid, r.id.Start, r.boot, r.dir) }

// parse reads a Ref. A process of another boot has ended.
func parse(text string) (ref, error) {
	var r ref
	parts := strings.SplitN(text, ":", 4)
	if len(parts) != 4 || !filepath.IsAbs(parts[3]) {
		return ref{}, fmt.Errorf("reading the reference %q: it is not PID:START:BOOT:DIR", text)
	}
	if _, err := fmt.Sscanf(parts[0]+" "+parts[1], "%d %d", &r.id.Pid, &r.id.Start); err != nil {
		return ref{}, fmt.Errorf("reading the reference %q: %w", text, err)
	}
	r.boot, r.dir = parts[2], parts[3]
	now, err := proc.BootID()
	if err != nil {
		return ref{}, err
	}
	if r.boot != now {
		r.id = proc.ID{}
	}
	return r, nil
}

// open finds a handle's task. It fails when the folder knows another task, or
// none: a handle never reaches a stranger.
func (e *Executor) open(h executors.Handle) (ref, state, error) {
	r, err := parse(h.Ref)
	if err != nil {
		return ref{}, state{}, err
	}
	r.note = e.name
	s, err := r.read()
	if err == nil && s.Task != h.Task {
		err = fmt.Errorf("finding task %s: the folder %s knows task %q", h.Task, r.dir, s.Task)
	}
	return r, s, err
}

// handle returns the handle of the task of a folder.
func (e *Executor) handle(dir string) (executors.Handle, error) {
	s, err := ref{note: e.name, dir: dir}.read()
	return executors.Handle{Executor: e.name, Task: s.Task, Ref: s.Ref}, err
}

// Find returns the handle of the task that was started in a folder; ok is false
// where none was, or where a start is not complete.
func (e *Executor) Find(dir string) (h executors.Handle, ok bool, err error) {
	h, err = e.handle(dir)
	return h, err == nil && h.Ref != "", err
}

// Folder returns a task's folder.
func (e *Executor) Folder(h executors.Handle) (string, error) {
	r, _, err := e.open(h)
	return r.dir, err
}

func (r ref) path() string { return filepath.Join(r.dir, "."+r.note, "task.json") }

func outPath(dir string) string { return filepath.Join(dir, "logs", "runner.out") }

func mark(id executors.TaskID) string { return executors.EnvTask + "=" + string(id) }

// read returns what is known; the zero state where nothing is.
func (r ref) read() (state, error) { return ledger.Read[state](r.path()) }

// write notes the state. No task of this host outlives a power cut, so neither
// must this.
func (r ref) write(s state) error { return ledger.Note(r.path(), s) }

// update changes the state under its lock.
func (r ref) update(ctx context.Context, change func(*state) error) error {
	return ledger.Change(ctx, r.path(), change)
}

// List finds the tasks with this run label that were not reaped, by folder.
func (e *Executor) List(ctx context.Context, run string) ([]executors.Handle, error) {
	if len(e.roots) == 0 {
		return nil, errors.New("listing tasks: this executor was made without a folder of tasks")
	}
	var out []executors.Handle
	for _, root := range e.roots {
		entries, err := os.ReadDir(root)
		if errors.Is(err, os.ErrNotExist) {
			continue // nothing was ever started in it
		}
		if err != nil {
			return nil, fmt.Errorf("listing tasks: %w", err)
		}
		for _, entry := range entries {
			if !entry.IsDir() {
				continue
			}
			dir, err := filepath.Abs(filepath.Join(root, entry.Name()))
			if err != nil {
				return nil, fmt.Errorf("listing tasks: %w", err)
			}
			h, ok, err := e.listed(ctx, dir, run)
			if err != nil {
				return nil, err
			}
			if ok {
				out = append(out, h)
			}
		}
	}
	return out, nil
}

// listed returns the handle of a folder's task, if it is to be listed. A start
// that broke is completed first: what it may have started has to be found.
func (e *Executor) listed(ctx context.Context, dir, run string) (executors.Handle, bool, error) {
	s, err := ref{note: e.name, dir: dir}.read()
	if err != nil || s.Task == "" || s.Reaped || s.Labels[executors.LabelRun] != run {
		return executors.Handle{}, false, err
	}
	if s.Ref == "" {
		boot, err := proc.BootID()
		if err != nil {
			return executors.Handle{}, false, err
		}
		r := ref{note: e.name, boot: boot, dir: dir}
		err = r.update(ctx, func(s *state) error {
			if s.Ref != "" {
				return nil
			}
			return recoverStart(r, s)
		})
		if err != nil {
			return executors.Handle{}, false, err
		}
	}
	h, err := e.handle(dir)
	return h, err == nil, err
}

// collect makes sure that nothing of an ended task is left, and returns its
// outcome, which stays the same from then on. tree is what was seen below its
// supervisor before it was killed.
func (e *Executor) collect(ctx context.Context, h executors.Handle, tree []proc.Process) (executors.Outcome, error) {
	r, s, err := e.open(h)
	if err != nil || s.Outcome != nil && len(tree) == 0 {
		return outcome(s), err
	}
	e.mu.Lock()
	mine := e.tasks[h.Task]
	e.mu.Unlock()
	found := executors.Outcome{Reason: executors.Lost, Started: s.Started, Ended: time.Now().UTC(),
		Detail: "it ended without exit.json, and nobody who could see its exit code was there"}
	if mine != nil {
		found = mine.wait(found)
	} else if _, err := runner.ReadExit(r.dir); err == nil {
		found.Reason, found.Detail = executors.Exited, "seen by its exit.json"
	}
	left := remains
	if mine != nil && mine.alone(h.Task, r.dir) {
		left = nothing
	}
	if err := sweep(ctx, h.Task, r, s.Cgroup, tree, left); err != nil {
		return executors.Outcome{}, err
	}
	err = r.update(ctx, func(now *state) error {
		if now.Outcome == nil {
			if now.Asked != "" {
				found.Detail = strings.TrimSpace(string(found.Reason) + " " + found.Signal + " " + found.Detail)
				found.Reason, found.Code, found.Signal = now.Asked, 0, ""
			}
			now.Outcome = &found
		}
		s = *now
		return nil
	})
	return outcome(s), err
}

func outcome(s state) executors.Outcome {
	if s.Outcome == nil {
		return executors.Outcome{}
	}
	return *s.Outcome
}

// wait reaps our child, which has ended, and fills in how.
func (s *started) wait(found executors.Outcome) executors.Outcome {
	s.once.Do(func() {
		// The error says what ProcessState says.
		_ = s.cmd.Wait()
		s.lifeline.Close()
	})
	found.Detail = ""
	status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		found.Reason, found.Signal = executors.Signaled, status.Signal().String()
		return found
	}
	found.Reason, found.Code = executors.Exited, s.cmd.ProcessState.ExitCode()
	return found
}

// alone says whether our child, which was waited for, was a supervisor that came
// to its end with nothing below it. Then the table of all processes of the host,
// which may be long, need not be read.
func (s *started) alone(task executors.TaskID, dir string) bool {
	if !s.supervisor || s.cmd.ProcessState.ExitCode() != 0 {
		return false
	}
	record, err := runner.ReadExit(dir)
	return err == nil && record.Task == task && record.Alone
}

// sweepPatience bounds the end of what a supervisor left behind (DESIGN 11.4).
const sweepPatience = 5 * time.Second

// sweep ends everything that a task whose supervisor is dead has left. outer is
// the control group that it was started in; "" is none. find looks at the table
// of processes: remains, or nothing where that is known to find none.
func sweep(ctx context.Context, task executors.TaskID, r ref, outer string, seen []proc.Process, find finder) error {
	tree, err := runner.ReadTree(r.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if boot, err := proc.BootID(); err != nil || tree.Boot != boot {
		tree = runner.Tree{}
	}
	var groups []*proc.Cgroup // the inner one first
	for _, path := range []string{tree.Cgroup, outer} {
		if path == "" {
			continue
		}
		group, err := proc.FindCgroup(path, executors.CgroupName(task))
		if err != nil {
			return err
		}
		if group != nil {
			groups = append(groups, group)
		}
	}
	known := tree.Processes
	for _, p := range seen {
		known = append(known, p.ID)
	}
	for late := time.Now().Add(sweepPatience); ; {
		left, err := find(task, r.id, known)
		if err != nil {
			return err
		}
		full := slices.DeleteFunc(slices.Clone(groups), (*proc.Cgroup).Empty)
		if len(left)+len(full) == 0 {
			break
		}
		if time.Now().After(late) {
			return fmt.Errorf("ending task %s: %d processes would not go within %s: %v", task, len(left), sweepPatience, left)
		}
		for _, group := range full {
			err = errors.Join(err, group.Kill())
		}
		for _, p := range left {
			err = errors.Join(err, p.Signal(unix.SIGKILL))
		}
		if err != nil {
			return fmt.Errorf("ending task %s: %w", task, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	for _, group := range groups {
		if err := group.Remove(); err != nil {
			return err
		}
	}
	shm := proc.Shm{Held: tree.Shm}
	if _, left := shm.Sweep(); len(left) > 0 {
		return fmt.Errorf("ending task %s: left in /dev/shm: %s", task, strings.Join(left, "; "))
	}
	return nil
}

type finder func(task executors.TaskID, supervisor proc.ID, known []proc.ID) ([]proc.Process, error)

func nothing(executors.TaskID, proc.ID, []proc.ID) ([]proc.Process, error) { return nil, nil }

// remains returns what lives of a task: what bears its mark and is not older
// than its supervisor, what was written down, and what descends from those.
func remains(task executors.TaskID, supervisor proc.ID, known []proc.ID) ([]proc.Process, error) {
	all, err := proc.List()
	if err != nil {
		return nil, err
	}
	// Most processes are older: their environments need not be read.
	younger := slices.DeleteFunc(slices.Clone(all), func(p proc.Process) bool {
		return p.Pid == os.Getpid() || p.Start < supervisor.Start
	})
	roots := proc.Marked(younger, mark(task))
	for _, p := range all {
		if slices.Contains(known, p.ID) && !slices.Contains(roots, p) {
			roots = append(roots, p)
		}
	}
	var pids []int
	for _, p := range roots {
		pids = append(pids, p.Pid)
	}
	return append(roots, proc.Under(all, pids...)...), nil
}
