package work

import (
	"fmt"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// Left is the reason of a job that has no result because its step never began.
const Left = "left to the next apply"

// drain asks the task to end after its running step, and says what that means.
// goesOn is false if none of its steps has begun, nor will one: the task has
// nothing to finish and may be stopped. A task that cannot be asked runs all of
// its steps.
func (e *errand) drain() (goesOn bool) {
	copied, err := false, runner.AskDrain(e.dir)
	if to, ok := e.exec.(executors.Sender); ok && err == nil {
		copied, err = to.Send(e.Killed, e.handle, runner.DrainFile)
	}
	said := event.Event{Type: event.TaskDraining, Task: string(e.sheet.Task)}
	if err != nil {
		if e.Killed.Err() == nil {
			said.Text = fmt.Sprintf("all that it has to do runs, because it cannot be asked to end earlier: %v", err)
			e.say(said)
		}
		return true
	}
	e.asked = true
	if copied {
		said.Text = "what runs finishes; what has not begun is left"
		e.say(said)
		return true
	}
	begun, left := false, 0
	for i := range e.sheet.Jobs {
		w := &e.sheet.Jobs[i]
		r, err := e.step(w)
		switch {
		case r != nil || err != nil:
			begun = true
		case runner.Begun(e.stepDir(w)):
			begun, said.Node = true, w.Node
		default:
			left++
		}
	}
	if left > 0 || said.Node != "" {
		said.Counts = map[string]int{"left": left}
		e.say(said)
	}
	return begun
}

// leave ends every pending job whose step never began. Nothing of it is
// recorded: it is as stale as it was.
func (f *folder) leave(pass func(Done)) error {
	rest := f.pending[:0]
	defer func() { f.pending = rest }()
	for at, i := range f.pending {
		w := &f.sheet.Jobs[i]
		if runner.Begun(f.stepDir(w)) {
			rest = append(rest, i)
			continue
		}
		d, err := f.collect(i, compile.StepResult{TaskDir: f.dir, Class: string(executors.ClassInterrupted), Reason: Left},
			cache.Span{Started: f.clerk.Now().UTC()})
		if err != nil {
			rest = append(rest, f.pending[at:]...)
			return err
		}
		pass(d)
	}
	return nil
}
