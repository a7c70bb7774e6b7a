package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/slurm/job"
	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

func signalName(number int) string { return unix.Signal(number).String() }

// Stop ends the task: TERM to its program, grace, then KILL to all of it. It
// returns when Slurm says that the job has ended. A job that has not begun is
// cancelled.
func (e *Executor) Stop(ctx context.Context, h executors.Handle, grace time.Duration) error {
	p, s, err := open(h)
	if err != nil {
		return e.stopOrphan(ctx, h, err)
	}
	if s.Outcome != nil {
		return nil
	}
	if s.Job == "" {
		if err := e.lookAgain(ctx, p); err != nil {
			return fmt.Errorf("stopping task %s: %w", h.Task, err)
		}
		if s, err = p.read(); err != nil {
			return err
		}
	}
	if end, err := job.ReadEnd(p.folder()); err == nil {
		_, err := e.conclude(ctx, p, h, &end)
		return err
	}
	if err := p.update(ctx, func(s *state) error { s.Asked = executors.Stopped; return nil }); err != nil {
		return err
	}
	never, err := job.Claim(p.folder())
	if err == nil && !never {
		err = job.WriteStop(p.folder(), job.Stop{Grace: grace})
	}
	if err != nil {
		return fmt.Errorf("stopping task %s: %w", h.Task, err)
	}
	patience := e.FileGrace
	if s.Job != "" {
		known, err := e.kill(ctx, p, s.Job, never, grace)
		if err != nil {
			return fmt.Errorf("stopping task %s: %w", h.Task, err)
		}
		if !known {
			patience = max(patience, e.LostGrace)
		}
	}
	return e.stopped(ctx, p, h, never, patience)
}

// stopped writes down how a task ended that we have stopped. A job that was
// killed leaves no record. One that Slurm lost sight of may be running still,
// and heeds the order to stop: it has ended when it gives no sign of life for
// as long as patience.
func (e *Executor) stopped(ctx context.Context, p place, h executors.Handle, never bool, patience time.Duration) error {
	if never {
		if err := job.DropEnv(p.folder()); err != nil {
			return err
		}
		_, err := e.keep(ctx, p, executors.Outcome{Reason: executors.Stopped, Detail: "its job had not begun"})
		return err
	}
	pulse := pulse{folder: p.folder()}
	begun := time.Now()
	for {
		end, err := job.ReadEnd(p.folder())
		if err == nil {
			_, err := e.conclude(ctx, p, h, &end)
			return err
		}
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if pulse.silent() > max(patience, 2*job.BeatEvery) {
			out := executors.Outcome{Reason: executors.Signaled, Signal: signalName(int(unix.SIGKILL)), Detail: "its job left no record"}
			_, err := e.keep(ctx, p, out)
			return err
		}
		if time.Since(begun) > stopPatience {
			return fmt.Errorf("stopping task %s: Slurm says that its job has ended, and it still gives signs of life", h.Task)
		}
		if !pause(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// lookAgain finds the job of a start that broke.
func (e *Executor) lookAgain(ctx context.Context, p place) error {
	return p.update(ctx, func(s *state) error {
		if s.Job != "" {
			return nil
		}
		id, err := e.find(ctx, p, s)
		s.Job = id
		return err
	})
}

// stopPatience is how long a stop waits for a controller that does not answer,
// and for a job that was killed.
const stopPatience = 2 * time.Minute

// lifeless is for how long a job that was told to stop gives no sign of life
// before it is killed: a node may be busy.
const lifeless = 5 * job.BeatEvery

// kill brings a job down and waits until Slurm says that it has ended, or, as
// known tells, that it does not know it. A job that gives signs of life ends by
// itself, in bounded time, and is not killed: where Slurm has no control groups,
// what its program has started would live on.
func (e *Executor) kill(ctx context.Context, p place, id string, never bool, grace time.Duration) (known bool, err error) {
	begun := time.Now()
	// The job ends what its program has started: it gets a moment for that.
	hard, hopeless := begun.Add(grace+6*time.Second), begun.Add(grace+stopPatience)
	pulse := pulse{folder: p.folder()}
	var asked time.Time
	for wait := 100 * time.Millisecond; ; wait = min(wait*3/2, time.Second) {
		list, err := e.client.list(ctx, []string{id})
		w, dead := list[id], pulse.silent() > lifeless
		switch {
		case err == nil && (!w.known() || w.over()):
			return w.known(), nil
		case err != nil && !away(err):
			return false, err
		case err != nil:
			// The job heeds its order to stop also where Slurm tells it nothing.
			if _, ended := job.ReadEnd(p.folder()); ended == nil {
				return false, nil
			}
			err = fmt.Errorf("job %s may be running: %w", id, err)
		default:
			err = fmt.Errorf("job %s is still %s (%s)", id, w.state, w.reason)
			if time.Since(asked) < 3*time.Second {
				break
			}
			asked = time.Now()
			args := []string{"--signal=TERM", "--batch", id}
			if never || w.state == "PENDING" {
				args = []string{id}
			} else if dead && time.Now().After(hard) {
				args = []string{"--signal=KILL", "--full", id}
			}
			// Whatever it says, the state will show.
			if _, said := e.client.run(ctx, "", "scancel", args...); said != nil {
				err = fmt.Errorf("%w: %w", err, said)
			}
		}
		if time.Now().After(hopeless) {
			return false, err
		}
		if !pause(ctx, wait) {
			return false, ctx.Err()
		}
	}
}

// stopOrphan ends a job whose task's folder is gone. It must be ours by its
// name and by its folder.
func (e *Executor) stopOrphan(ctx context.Context, h executors.Handle, why error) error {
	id, p, err := parse(h)
	if err != nil {
		return why
	}
	if _, err := os.Stat(p.folder()); !errors.Is(err, os.ErrNotExist) {
		return why
	}
	list, err := e.client.named(ctx, "", os.Getuid())
	if err != nil {
		return err
	}
	for _, f := range list {
		w := word{state: f.state}
		if task, ok := taskOf(f.name); f.job == id && ok && task == h.Task && f.dir == string(p) && !w.over() {
			if _, err := e.client.run(ctx, "", "scancel", id); err != nil {
				return err
			}
			_, err := e.kill(ctx, p, id, true, 0)
			return err
		}
	}
	return nil // Slurm knows it as ended, or not at all, and nothing else of it is there
}

var nameForm = lazyregexp.New(`^` + jobPrefix + `([a-z0-9-]{1,63})-[0-9a-f]{8}$`)

// taskOf reads the task's id from a job's name.
func taskOf(name string) (executors.TaskID, bool) {
	m := nameForm.FindStringSubmatch(name)
	if m == nil {
		return "", false
	}
	return executors.TaskID(m[1]), true
}

// List finds the tasks with this run label that were not reaped: by folder, and
// by Slurm's word the jobs whose folder is gone.
func (e *Executor) List(ctx context.Context, run string) ([]executors.Handle, error) {
	var out []executors.Handle
	for _, root := range e.Roots {
		entries, err := os.ReadDir(root)
		if errors.Is(err, os.ErrNotExist) {
			continue // nothing was ever started in it
		}
		if err != nil {
			return nil, fmt.Errorf("listing tasks: %w", err)
		}
		for _, entry := range entries {
			dir, err := filepath.Abs(filepath.Join(root, entry.Name()))
			if err != nil {
				return nil, fmt.Errorf("listing tasks: %w", err)
			}
			if !entry.IsDir() {
				continue
			}
			p := place(dir)
			s, err := p.read()
			if err != nil {
				return nil, err
			}
			if s.Task == "" || s.Reaped || s.Labels[executors.LabelRun] != run {
				continue
			}
			if s.Job == "" && s.Outcome == nil {
				if err := e.lookAgain(ctx, p); err != nil {
					return nil, fmt.Errorf("listing task %s: %w", s.Task, err)
				}
				if s, err = p.read(); err != nil {
					return nil, err
				}
			}
			out = append(out, executors.Handle{Executor: e.Name(), Task: s.Task, Ref: p.ref(s)})
		}
	}
	jobs, err := e.client.named(ctx, "", os.Getuid())
	if err != nil {
		return nil, fmt.Errorf("listing tasks: %w", err)
	}
	for _, f := range jobs {
		task, ok := taskOf(f.name)
		w := word{state: f.state}
		if !ok || w.over() || strings.TrimSpace(f.comment) != comment(run) || !filepath.IsAbs(f.dir) {
			continue
		}
		h := executors.Handle{Executor: e.Name(), Task: task, Ref: f.job + ":" + f.dir}
		known := slices.ContainsFunc(out, func(o executors.Handle) bool { return o.Task == task })
		if s, err := place(f.dir).read(); err == nil && s.Task == task && s.Reaped {
			known = true
		}
		if !known {
			out = append(out, h)
		}
	}
	return out, nil
}

// Reap ends what is left of the task and forgets it: List no longer shows it.
// Its folder remembers that it ran, so that it never starts again.
func (e *Executor) Reap(ctx context.Context, h executors.Handle) error {
	p, s, err := open(h)
	if err != nil {
		return e.stopOrphan(ctx, h, err)
	}
	if s.Outcome == nil {
		grace := s.Grace
		if grace == 0 {
			grace = 5 * time.Second
		}
		if err := e.Stop(ctx, h, grace); err != nil {
			return err
		}
	}
	if err := job.DropEnv(p.folder()); err != nil {
		return err
	}
	return p.update(ctx, func(s *state) error { s.Reaped = true; return nil })
}
