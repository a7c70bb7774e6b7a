package work

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/sotabuild/sotabuild/executors"
)

// abort stops a task whose results cannot be stored. Its intent stays, so the
// next run adopts what it has finished.
func (e *errand) abort(cause error) error {
	if err := e.exec.Stop(e.Left, e.handle, e.grace); err != nil {
		return fmt.Errorf("%w; stopping task %s: %w", cause, e.sheet.Task, err)
	}
	return cause
}

// classify says why steps that never ran did not. The supervisor's own word
// comes first: the executor knows only how the supervisor ended.
func (e *errand) classify(out executors.Outcome) (executors.Class, string) {
	if e.Killed.Err() != nil {
		return executors.ClassInterrupted, ""
	}
	exit, err := e.exit()
	switch {
	case err != nil:
		return executors.ClassLost, fmt.Sprintf("the task's last word cannot be read: %v", err)
	case exit != nil && exit.Outcome.Class == executors.ClassInterrupted && out.Reason == executors.Preempted:
		// The supervisor knows that it was told to stop, the executor by whom.
	case exit != nil && exit.Outcome.Class != "":
		return exit.Outcome.Class, exit.Outcome.Reason
	}
	switch out.Reason {
	case executors.OOM:
		return executors.ClassOOM, out.Detail
	case executors.TimedOut:
		return executors.ClassTimeout, out.Detail
	case executors.NotStarted:
		return executors.ClassStartFailed, out.Detail
	case executors.Stopped:
		return executors.ClassInterrupted, out.Detail
	case executors.Preempted:
		return executors.ClassPreempted, out.Detail
	case executors.Exited:
		reason := "the supervisor exited with code " + strconv.Itoa(out.Code)
		if exit != nil {
			reason = "the supervisor left no record of this step"
		}
		return executors.ClassLost, reason
	case executors.Signaled:
		return executors.ClassLost, "the supervisor was ended by signal " + out.Signal
	}
	return executors.ClassLost, out.Detail
}

// settle forgets an ended task and removes its steps' files if all of them are
// in the store.
func (e *errand) settle() (lost bool, err error) {
	if e.handle.Ref != "" {
		if err := e.exec.Reap(e.Left, e.handle); err != nil {
			e.warn(fmt.Sprintf("something of task %s may be left: %v", e.sheet.Task, err))
			return true, nil
		}
	}
	if err := e.Store.Settle(string(e.sheet.Task)); err != nil {
		return false, fmt.Errorf("settling task %s: %w", e.sheet.Task, err)
	}
	if e.bad {
		return false, nil
	}
	if err := os.RemoveAll(filepath.Join(e.dir, "steps")); err != nil {
		e.warn(fmt.Sprintf("removing the steps of task %s: %v", e.sheet.Task, err))
	}
	return false, nil
}

// end makes sure that a task does not run. A handle without Ref is looked for
// first, because who started the task may not have lived to write it down; it
// comes back without Ref if the executor knows no such task.
func end(ctx context.Context, ex executors.Executor, h executors.Handle, run string, grace time.Duration) (executors.Handle, error) {
	if h.Ref == "" {
		list, err := ex.List(ctx, run)
		if err != nil {
			return h, fmt.Errorf("listing the tasks of run %s: %w", run, err)
		}
		at := slices.IndexFunc(list, func(l executors.Handle) bool { return l.Task == h.Task })
		if at < 0 {
			return h, nil
		}
		h = list[at]
	}
	if err := ex.Stop(ctx, h, grace); err != nil {
		return h, fmt.Errorf("stopping task %s: %w", h.Task, err)
	}
	return h, nil
}
