package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/docker/folder"
	"github.com/sotabuild/sotabuild/executors/ledger"
	"github.com/sotabuild/sotabuild/executors/slurm/job"
)

// open looks a handle's task up. It fails where the folder says otherwise.
func open(h executors.Handle) (dir string, s state, err error) {
	word, dir, _ := strings.Cut(h.Ref, ":")
	id, ok := strings.CutPrefix(word, "exec=")
	if !ok || !filepath.IsAbs(dir) || !h.Task.Valid() {
		return "", s, fmt.Errorf("reading the handle of task %q: the reference %q is not exec=ID:DIR, as it is with the option container", h.Task, h.Ref)
	}
	if s, err = ledger.Read[state](statePath(dir)); err != nil {
		return "", s, err
	}
	if s.Task != h.Task || s.Exec != id {
		return "", s, fmt.Errorf("finding task %s: the folder %s is not of that task", h.Task, dir)
	}
	return dir, s, nil
}

// lifeless is for how long a task of which the daemon knows nothing gives no
// sign of life before it counts as dead.
const lifeless = 5 * job.BeatEvery

// pulse tells whether the program inside lives.
type pulse struct {
	beat time.Time
	at   time.Time // when it was new to us
}

func (p *pulse) silent(dir string) time.Duration {
	if beat := job.Beat(jobFolder(dir)); p.at.IsZero() || !beat.Equal(p.beat) {
		p.beat, p.at = beat, time.Now()
	}
	return time.Since(p.at)
}

// over says whether the program inside has ended, and with which exit code; -1
// is none that anybody knows. A daemon that was started again knows nothing of
// its execs.
func (in *Executor) over(ctx context.Context, dir string, s state, p *pulse) (bool, int, error) {
	if s.Outcome != nil {
		return true, -1, nil
	}
	if _, err := job.ReadEnd(jobFolder(dir)); err == nil {
		return true, 0, nil
	}
	seen, err := in.d.LookExec(ctx, s.Exec)
	silent := p.silent(dir)
	switch {
	case seen != nil:
		return !seen.Running, seen.Code, nil
	case ctx.Err() != nil:
		return false, -1, ctx.Err()
	case err != nil:
		return false, -1, fmt.Errorf("looking at the exec of task %s: %w", s.Task, err)
	}
	box, err := in.d.Look(ctx, s.Container)
	if err != nil {
		return false, -1, err
	}
	return !box.Alive() || silent > lifeless, -1, nil
}

// untilOver blocks until the program inside has ended, or ctx is done.
func (in *Executor) untilOver(ctx context.Context, dir string, s state) (int, error) {
	p := &pulse{}
	for wait := 20 * time.Millisecond; ; wait = min(wait*3/2, 500*time.Millisecond) {
		if over, code, err := in.over(ctx, dir, s, p); over || err != nil {
			return code, err
		}
		select {
		case <-ctx.Done():
			return -1, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// Wait blocks until the task has ended. Its deadline is kept inside.
func (in *Executor) Wait(ctx context.Context, h executors.Handle) (executors.Outcome, error) {
	dir, s, err := open(h)
	if err != nil {
		return executors.Outcome{}, err
	}
	code, err := in.untilOver(ctx, dir, s)
	if err != nil {
		return executors.Outcome{}, err
	}
	return conclude(ctx, dir, code)
}

// conclude is the outcome of an ended task, which stays the same from then on.
func conclude(ctx context.Context, dir string, code int) (out executors.Outcome, err error) {
	err = ledger.Update(ctx, statePath(dir), func(s *state) error {
		if s.Outcome == nil {
			if err := s.conclude(dir, code); err != nil {
				return err
			}
		}
		out = *s.Outcome
		return nil
	})
	return out, err
}

func (s *state) conclude(dir string, code int) error {
	at := jobFolder(dir)
	end, err := job.ReadEnd(at)
	if errors.Is(err, os.ErrNotExist) {
		never, err := job.Claim(at)
		if err != nil {
			return err
		}
		if never {
			return s.never(dir, executors.NotStarted, fmt.Sprintf("the program inside the container ended with %d before it began the task; does the container see %s?", code, dir))
		}
		begun, err := job.ReadBegin(at)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		end.Outcome = executors.Outcome{Reason: executors.Lost, Detail: "it left no record: the container, or what supervised it there, was killed", Started: begun.At, Ended: time.Now().UTC()}
		if code > 128 {
			end.Outcome.Reason, end.Outcome.Signal = executors.Signaled, syscall.Signal(code-128).String()
		}
		end.Told = s.Asked != ""
	} else if err != nil {
		return err
	}
	o := end.Outcome
	if s.Asked != "" && end.Told && o.Reason != executors.NotStarted {
		what := fmt.Sprint(o.Reason, " ", o.Signal)
		if o.Reason == executors.Exited {
			what = fmt.Sprint(o.Reason, " ", o.Code)
		}
		o.Detail = strings.TrimSpace(what + " " + o.Detail)
		o.Reason, o.Code, o.Signal = s.Asked, 0, ""
	}
	if len(end.Left) > 0 {
		o.Detail = strings.TrimSpace(o.Detail + " left: " + strings.Join(end.Left, "; "))
	}
	s.Outcome = &o
	return nil
}

// Logs copies logs/runner.out until the task has ended.
func (in *Executor) Logs(ctx context.Context, h executors.Handle, w io.Writer) error {
	dir, s, err := open(h)
	if err != nil {
		return err
	}
	var file *os.File
	defer func() {
		if file != nil {
			file.Close() // only read
		}
	}()
	for p := (&pulse{}); ; {
		// Whether it is over is asked before the copy: what it wrote up to its
		// end is then read.
		over, _, err := in.over(ctx, dir, s, p)
		if err != nil {
			return err
		}
		if file == nil {
			file, err = os.OpenFile(folder.Log(dir), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("reading the log of task %s: %w", h.Task, err)
			}
		}
		if err == nil {
			if _, err := io.Copy(w, file); err != nil {
				return fmt.Errorf("copying the log of task %s: %w", h.Task, err)
			}
		}
		if over {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// stopPatience is how much longer than its grace a task may take to stop.
const stopPatience = time.Minute

// Stop orders the task to end. The program inside sends TERM, waits grace, sends
// KILL to all that the task has started, and heeds the order within seconds.
func (in *Executor) Stop(ctx context.Context, h executors.Handle, grace time.Duration) error {
	dir, s, err := open(h)
	if err != nil {
		return err
	}
	code, patience := -1, &pulse{}
	over, code, err := in.over(ctx, dir, s, patience)
	if err != nil {
		return err
	}
	if over {
		_, err := conclude(ctx, dir, code)
		return err
	}
	err = ledger.Update(ctx, statePath(dir), func(s *state) error {
		never, err := job.Claim(jobFolder(dir))
		switch {
		case err != nil || s.Outcome != nil:
			return err
		case never:
			return s.never(dir, executors.Stopped, "it had not begun")
		}
		s.Asked = executors.Stopped
		return job.WriteStop(jobFolder(dir), job.Stop{Grace: grace})
	})
	if err != nil {
		return fmt.Errorf("stopping task %s: %w", h.Task, err)
	}
	if _, s, err = open(h); err != nil {
		return err
	}
	bounded, done := context.WithTimeout(ctx, grace+stopPatience)
	defer done()
	code, err = in.untilOver(bounded, dir, s)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("stopping task %s: what supervises it in container %.12s does not heed the order: %w", h.Task, s.Container, err)
	}
	_, err = conclude(ctx, dir, code)
	return err
}

// List finds the tasks of a run by their folders: an exec has no labels.
func (in *Executor) List(_ context.Context, run string) ([]executors.Handle, error) {
	var out []executors.Handle
	for _, root := range in.roots {
		entries, err := os.ReadDir(root)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
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
			s, err := ledger.Read[state](statePath(dir))
			if err != nil {
				return nil, err
			}
			if s.Task != "" && !s.Reaped && run != "" && s.Labels[executors.LabelRun] == run {
				out = append(out, handleOf(s, dir))
			}
		}
	}
	return out, nil
}

// Reap ends the task and forgets it. The container goes on.
func (in *Executor) Reap(ctx context.Context, h executors.Handle) error {
	dir, s, err := open(h)
	if err != nil {
		return err
	}
	grace := s.Grace
	if grace == 0 {
		grace = 5 * time.Second
	}
	if s.Outcome == nil {
		if err := in.Stop(ctx, h, grace); err != nil {
			return err
		}
	}
	return ledger.Update(ctx, statePath(dir), func(s *state) error { s.Reaped = true; return nil })
}
