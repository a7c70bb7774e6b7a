package work

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/executors"
)

const (
	harvestEvery = 200 * time.Millisecond
	// defaultGrace is what a task gets to take itself down when its kind does
	// not say.
	defaultGrace = 10 * time.Second
	// intentTask is the kind of an intent about a task.
	intentTask = "task"
)

// pauses are the waits between attempts to reach an executor.
var pauses = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}

// note is what an intent says of a task: its handle, flat, and where to look
// for it. Ref is empty until the task was handed over.
type note struct {
	executors.Handle
	Run   string `json:"run"`
	Block string `json:"block"`
}

// Report is what a worker tells. One of the fields is set.
type Report struct {
	Event *event.Event // to be passed on
	Done  *Done
	Ended *Ended // nothing comes after it
}

// Ended is how a unit's work came to its end.
type Ended struct {
	Lost bool  // its task may still run
	Err  error // of the machine
}

// Worker does units of work. It has no state of the run: what it finds out it
// tells. Drained ends when no further step of a task should begin, Killed when
// what runs has to be stopped, Left when nobody listens any more.
type Worker struct {
	Place
	Drained, Killed, Left context.Context
}

// Run does the jobs of a sheet, which are of one kind: one function, or the
// steps of one task. It returns after it told of the end.
func (w *Worker) Run(b *Sheet, tell func(Report)) {
	var end Ended
	if b.Jobs[0].kind.Func != nil {
		end.Err = w.function(b, tell)
	} else {
		end.Lost, end.Err = w.task(b, tell)
	}
	tell(Report{Ended: &end})
}

func (w *Worker) records() clerk { return clerk{w.Left, w.Place} }

// function runs a node inside this process.
func (w *Worker) function(b *Sheet, tell func(Report)) error {
	j, ctx := &b.Jobs[0], w.Killed
	if j.timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, j.timeout)
		defer cancel()
		ctx = limited
	}
	started := w.Now()
	res := j.kind.Func(ctx, j.job)
	span := cache.Span{Started: started.UTC(), Seconds: w.Now().Sub(started).Seconds()}
	switch {
	case res.Outcome.State == cache.OK:
	case w.Killed.Err() != nil:
		res.Outcome = interrupted("")
	case ctx.Err() != nil:
		res.Outcome.Class, res.Outcome.Reason = string(executors.ClassTimeout), fmt.Sprintf("not done within %s", j.timeout)
	}
	d, err := w.records().record(b, j, res, span)
	if err != nil {
		return err
	}
	tell(Report{Done: &d})
	return nil
}

// errand is one task on its way.
type errand struct {
	*Worker
	folder
	tell   func(Report)
	exec   executors.Executor
	handle executors.Handle
	grace  time.Duration
	bad    bool // a job did not end well
	asked  bool // the task was asked to end after its running step
	up     bool // that its servers are up was said
}

// task runs the unit's jobs in one task and passes each on as soon as its step
// has ended. lost means that the task may still run.
func (w *Worker) task(b *Sheet, tell func(Report)) (lost bool, err error) {
	e := &errand{Worker: w, tell: tell, handle: executors.Handle{Task: b.Task}}
	dir, err := filepath.Abs(filepath.Join(w.Dir, string(b.Task)))
	if err != nil {
		return false, fmt.Errorf("finding the folder of task %s: %w", b.Task, err)
	}
	e.folder = openFolder(dir, b, w.records())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, fmt.Errorf("making the folder of task %s: %w", b.Task, err)
	}
	t, err := e.prepare()
	if err != nil {
		return false, e.giveUp(executors.ClassStartFailed, err.Error(), e.pass)
	}
	if err := e.write(); err != nil {
		return false, fmt.Errorf("writing the jobs of task %s: %w", b.Task, err)
	}
	if err := e.intend(); err != nil {
		return false, err
	}
	class, reason, lost, err := e.life(t)
	if err != nil || w.Left.Err() != nil {
		return lost, err
	}
	if err := e.harvest(e.pass); err != nil {
		return lost, err
	}
	if e.asked {
		if err := e.leave(e.pass); err != nil {
			return lost, err
		}
	}
	if err := e.giveUp(class, reason, e.pass); err != nil {
		return lost, err
	}
	if lost {
		return true, nil
	}
	return e.settle()
}

// pass hands a job's end to the owner.
func (e *errand) pass(d Done) {
	e.bad = e.bad || d.Outcome.State != cache.OK
	e.tell(Report{Done: &d})
}

// prepare asks the kind for the task, completes it and checks that it can run.
func (e *errand) prepare() (executors.Task, error) {
	if e.Executor != nil {
		e.exec = e.Executor(e.sheet.Block)
	}
	if e.exec == nil {
		return executors.Task{}, fmt.Errorf("no executor for %q", e.sheet.Block)
	}
	e.handle.Executor = e.exec.Name()
	var jobs []compile.Job
	var bound time.Duration
	for i := range e.sheet.Jobs {
		jobs = append(jobs, e.sheet.Jobs[i].job)
		if t := e.sheet.Jobs[i].timeout; t > 0 && bound >= 0 {
			bound += t
		} else {
			bound = -1 // One without a bound leaves the task to its kind's.
		}
	}
	t, err := e.sheet.Jobs[0].kind.Task(jobs, e.dir)
	if err != nil {
		return t, fmt.Errorf("describing the task: %w", err)
	}
	if t.ID != "" && t.ID != e.sheet.Task {
		panic(fmt.Sprintf("work: kind %s named a task %s, which is %s", e.sheet.Jobs[0].kind.Name, t.ID, e.sheet.Task))
	}
	t.ID, t.Dir = e.sheet.Task, e.dir
	if t.Deadline == 0 && bound > 0 {
		t.Deadline = bound
	}
	t.Labels = maps.Clone(t.Labels)
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	t.Labels[executors.LabelRun], t.Labels[executors.LabelTask] = e.sheet.Run, string(t.ID)
	if e.grace = t.StopGrace; e.grace == 0 {
		e.grace = defaultGrace
	}
	if err := e.exec.Check(t); err != nil {
		return t, err
	}
	return t, nil
}

// intend writes down what is known of the task.
func (e *errand) intend() error {
	b, err := json.Marshal(note{e.handle, e.sheet.Run, e.sheet.Block})
	if err != nil {
		return fmt.Errorf("encoding the intent of task %s: %w", e.sheet.Task, err)
	}
	err = e.Store.Intend(cache.Intent{ID: string(e.sheet.Task), Kind: intentTask, Note: string(b), At: e.Now().UTC()})
	if err != nil {
		return fmt.Errorf("writing the intent of task %s: %w", e.sheet.Task, err)
	}
	return nil
}

// life starts the task and follows it to its end. class and reason are those of
// the jobs whose steps never ran. It returns early when the run is left.
func (e *errand) life(t executors.Task) (class executors.Class, reason string, lost bool, err error) {
	if e.Drained.Err() != nil {
		return executors.ClassInterrupted, Left, false, nil
	}
	h, err := e.start(t)
	if err != nil {
		class, reason = executors.ClassStartFailed, fmt.Sprintf("executor %s: %v", e.exec.Name(), err)
		if e.Killed.Err() != nil {
			class, reason = executors.ClassInterrupted, ""
		}
		if e.handle, err = end(e.Left, e.exec, e.handle, e.sheet.Run, e.grace); err != nil {
			e.warn(fmt.Sprintf("task %s may be running: %v", e.sheet.Task, err))
			return class, reason, true, nil
		}
		return class, reason, false, nil
	}
	e.handle = h
	ended := make(chan executors.Outcome, 1)
	watching, stop := context.WithCancel(e.Left)
	defer stop()
	go func() { ended <- e.wait(watching) }() // Ends with this function's context.
	if err := e.intend(); err != nil {
		return "", "", true, e.abort(err)
	}
	e.say(event.Event{
		Type: event.TaskStarted, Task: string(t.ID), Executor: e.exec.Name(), Node: e.sheet.Jobs[0].Node, Log: e.logs(),
	})
	return e.follow(ended)
}

// start hands the task over; it is idempotent, so an executor that does not
// answer is asked again.
func (e *errand) start(t executors.Task) (executors.Handle, error) {
	for try := 0; ; try++ {
		h, err := e.exec.Start(e.Killed, t)
		if err == nil || try == len(pauses) || e.Killed.Err() != nil {
			return h, err
		}
		e.warn(fmt.Sprintf("starting task %s: %v; trying again in %s", t.ID, err, pauses[try]))
		if !pause(e.Killed, pauses[try]) {
			return h, err
		}
	}
}

// wait asks for the task's end until the executor answers, or long enough.
func (e *errand) wait(ctx context.Context) executors.Outcome {
	for try := 0; ; try++ {
		out, err := e.exec.Wait(ctx, e.handle)
		if err == nil && out.Reason != executors.Unreachable {
			return out
		}
		if err != nil {
			out = executors.Outcome{Reason: executors.Unreachable, Detail: err.Error()}
		}
		if try == len(pauses) || !pause(ctx, pauses[try]) {
			return out
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// follow harvests until the task has ended. At a drain it asks the task to end
// after its running step, after a kill it stops the task.
func (e *errand) follow(ended <-chan executors.Outcome) (class executors.Class, reason string, lost bool, err error) {
	tick := time.NewTicker(harvestEvery)
	defer tick.Stop()
	killed, drained := e.Killed.Done(), e.Drained.Done()
	stop := func() error {
		err := e.exec.Stop(e.Left, e.handle, e.grace)
		if err != nil {
			e.warn(fmt.Sprintf("stopping task %s: %v", e.sheet.Task, err))
		}
		return err
	}
	for {
		select {
		case out := <-ended:
			class, reason = e.classify(out)
			if out.Reason == executors.Lost || out.Reason == executors.Unreachable {
				// Neither failed nor running: known to be dead only after a stop.
				if err := e.exec.Stop(e.Left, e.handle, e.grace); err != nil {
					e.warn(fmt.Sprintf("task %s is out of sight and may be running: %v", e.sheet.Task, err))
					lost = true
				}
			}
			e.tellUp()
			return class, reason, lost, nil
		case <-tick.C:
			e.tellUp()
			if err := e.harvest(e.pass); err != nil {
				return "", "", true, e.abort(err)
			}
		case <-drained:
			drained = nil
			if e.Killed.Err() != nil || e.drain() {
				continue
			}
			if stop() != nil {
				return executors.ClassInterrupted, "", true, nil
			}
		case <-killed:
			killed = nil
			if stop() != nil {
				return executors.ClassInterrupted, "", true, nil
			}
		case <-e.Left.Done():
			return "", "", true, nil
		}
	}
}

// tellUp says once that the task's servers are up.
func (e *errand) tellUp() {
	if e.up {
		return
	}
	if took := e.setup(); took > 0 {
		e.up = true
		e.say(event.Event{Type: event.TaskUp, Task: string(e.sheet.Task), Node: e.sheet.Jobs[0].Node, Seconds: took.Seconds()})
	}
}

func (e *errand) say(v event.Event) { e.tell(Report{Event: &v}) }

func (e *errand) warn(text string) { e.say(event.Event{Type: event.Warning, Text: text}) }
