// Package takedown ends the processes of a task: one child with all that it has
// started, or whatever lives below us.
//
// It asks the process table who belongs to a child, each time again, and knows
// no server, no step and no record but the actions that it took. Nothing is
// sent to a process that is neither below us nor in the control group that the
// caller names. It blocks its caller and starts no goroutine; calls may run at
// the same time, for different children.
package takedown

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors/proc"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// Patience is how long processes that got a KILL are waited for. Longer means
// that they hang in the kernel.
const Patience = 2 * time.Second

// Ender ends processes.
type Ender struct {
	// Say gets a line about what could not be looked at or signalled. It may be
	// called by many goroutines.
	Say func(form string, args ...any)
	// Hurry is closed when there is no time for graceful waits any more (DESIGN
	// 11.4): one that goes on ends, and later ones are short.
	Hurry <-chan struct{}
}

// Hurried says whether Hurry is closed.
func (e Ender) Hurried() bool {
	select {
	case <-e.Hurry:
		return true
	default:
		return false
	}
}

// Stop ends a child and all its members: TERM to its group before each wait,
// then KILL to all. The waits end at until, and early in a hurry.
// It returns the actions that it took; none when nothing was left.
func (e Ender) Stop(c *proc.Child, until time.Time, waits ...time.Duration) (acts []runner.StopAction) {
	for _, wait := range waits {
		list := e.members(c)
		group := slices.DeleteFunc(list, func(p proc.Process) bool { return p.Group != c.Pid })
		if len(group) == 0 {
			break
		}
		acts = append(acts, e.signal("TERM", unix.SIGTERM, group))
		if e.gone(c, min(wait, time.Until(until))) {
			break
		}
	}
	for late := time.Now().Add(Patience); time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
		list := e.members(c)
		if len(list) == 0 {
			break
		}
		if act := e.signal("KILL", unix.SIGKILL, list); len(acts) == 0 || acts[len(acts)-1].Action != "KILL" {
			acts = append(acts, act)
		}
	}
	select { // its status comes a moment after it is gone
	case <-c.Done:
	case <-time.After(Patience):
	}
	return acts
}

// KillAll ends everything that still lives below us, whoever's child it was,
// and returns what would not go. group is the control group that holds what the
// task has started; nil where there is none.
func (e Ender) KillAll(group *proc.Cgroup) []proc.Process {
	for late := time.Now().Add(Patience); ; time.Sleep(10 * time.Millisecond) {
		left, err := proc.Below()
		if err != nil {
			e.Say("looking at our processes: %v", err)
		}
		if err == nil && len(left) == 0 && (group == nil || group.Empty()) || time.Now().After(late) {
			return left
		}
		e.signal("KILL", unix.SIGKILL, left)
		if group != nil {
			if err := group.Kill(); err != nil {
				e.Say("%v", err)
			}
		}
	}
}

func (e Ender) signal(name string, sig unix.Signal, list []proc.Process) runner.StopAction {
	act := runner.StopAction{Action: name, At: time.Now().UTC()}
	for _, p := range list {
		if err := p.Signal(sig); err != nil {
			e.Say("%v", err)
		}
	}
	return act
}

// gone waits until nothing of the child lives, at most for wait.
func (e Ender) gone(c *proc.Child, wait time.Duration) bool {
	hurry := e.Hurry
	if e.Hurried() {
		hurry, wait = nil, min(wait, 500*time.Millisecond)
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	// The child itself announces its end; for the others we have to look.
	done := c.Done
	for {
		select {
		case <-late.C:
			return false
		case <-hurry:
			return false
		case <-done:
			done = nil
		case <-time.After(25 * time.Millisecond):
			if done != nil {
				continue
			}
		}
		if len(e.members(c)) == 0 {
			return true
		}
	}
}

// members returns what belongs to a child and lives. A table that cannot be
// read shows as the child alone: it then counts as alive, and is ended.
func (e Ender) members(c *proc.Child) []proc.Process {
	list, err := proc.Members(c)
	if err == nil {
		return list
	}
	e.Say("looking at what belongs to process %d: %v", c.Pid, err)
	if p, err := proc.Read(c.Pid); err == nil {
		list = append(list, p)
	}
	return list
}
