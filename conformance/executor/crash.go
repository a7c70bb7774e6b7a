package executor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sotabuild/sotabuild/executors"
)

// release lets a task end that waits for its file "go".
func (b *bench) release(j job) {
	b.t.Helper()
	if b.Put != nil {
		b.Put(b.t, j.ID, j.Dir, "go")
		return
	}
	b.must(os.WriteFile(filepath.Join(j.Dir, "go"), nil, 0o644))
}

// ranOnce says that the task's program ran exactly once.
func (b *bench) ranOnce(j job) {
	b.t.Helper()
	if got := b.read(j, "count"); got != "ran\n" {
		b.t.Errorf("it ran %d times", strings.Count(got, "\n"))
	}
}

func startAgain(b *bench) {
	e, j := b.fresh(), b.job("count", "count")
	h := b.start(e, j)
	if again := b.start(e, j); again != h {
		b.t.Errorf("at once: handle %v, want %v", again, h)
	}
	b.want(b.wait(e, h), executors.Exited, 0, "")
	if again := b.start(b.fresh(), j); again != h {
		b.t.Errorf("after its end: handle %v, want %v", again, h)
	}
	b.want(b.wait(e, h), executors.Exited, 0, "")
	b.must(e.Reap(b.bg(), h))
	if again, err := b.fresh().Start(b.bg(), j.Task); err == nil {
		b.wait(e, again) // if it is a second run it has to be over before it is counted
	}
	b.ranOnce(j)
	other := j.Task
	other.ID += "-other"
	if _, err := e.Start(b.bg(), other); err == nil {
		b.t.Error("another task was started in the same folder")
	}
}

func startInTwoProcesses(b *bench) {
	j := b.job("count", "count")
	first, second := b.engine(j), b.engine(j)
	h := first.start()
	if again := second.start(); again != h {
		b.t.Errorf("the second process: handle %v, want %v", again, h)
	}
	e := b.fresh()
	if again := b.start(e, j); again != h {
		b.t.Errorf("the third: handle %v, want %v", again, h)
	}
	b.until("its end", func() bool { return len(living(j.mark)) == 0 })
	b.wait(e, h)
	b.ranOnce(j)
}

func startAtOnce(b *bench) {
	j := b.job("count", "count")
	engines := make([]*other, 4)
	for i := range engines {
		engines[i] = b.engine(j)
	}
	handles := make([]executors.Handle, len(engines))
	var all sync.WaitGroup
	for i, o := range engines { // each one waits for a word, and all get it now
		all.Go(func() { handles[i] = o.start() })
	}
	all.Wait()
	for _, h := range handles {
		if h != handles[0] || h.Ref == "" {
			b.t.Errorf("handles %v and %v", h, handles[0])
		}
	}
	b.wait(b.fresh(), handles[0])
	b.ranOnce(j)
}

func engineKilled(b *bench) {
	j := b.job("tick", "3", "10ms", "7", "go")
	first := b.engine(j)
	h := first.start()
	e := b.fresh()
	l := b.follow(e, h)
	b.says(l, "tick 2")
	first.kill()
	list, err := b.fresh().List(b.bg(), j.run())
	if err != nil || !slices.Equal(list, []executors.Handle{h}) {
		b.t.Fatalf("the next engine lists %v, %v; want %v", list, err, h)
	}
	b.release(j)
	o := b.wait(b.fresh(), h)
	if b.Lifeline { // nobody is there who could have seen the code
		if o.Reason == executors.Exited && o.Code == 0 {
			b.t.Errorf("outcome %+v looks like a success", o)
		}
		return
	}
	b.want(o, executors.Exited, 7, "")
	b.must(<-l.done)
	const want = "ready\ntick 0\ntick 1\ntick 2\nend\n"
	b.same(l.String(), want)
	b.same(b.all(b.fresh(), h), want)
}

func daemonRestart(b *bench) {
	e, restart := b.Restart(b.t, b.tasks)
	j := b.job("tick", "3", "10ms", "7", "go")
	h := b.start(e, j)
	b.t.Cleanup(func() { // it is not known to the daemon of the others
		list, err := e.List(b.bg(), j.run())
		b.must(err)
		for _, h := range list {
			b.must(e.Reap(b.bg(), h))
		}
	})
	l := b.follow(e, h)
	b.says(l, "tick 2")
	ended := make(chan executors.Outcome, 1)
	ctx := b.bg()
	go func() {
		o, err := e.Wait(ctx, h)
		if err != nil {
			o.Detail = err.Error()
		}
		ended <- o
	}()
	restart()
	b.release(j)
	b.want(<-ended, executors.Exited, 7, "")
	b.must(<-l.done)
	b.same(l.String(), "ready\ntick 0\ntick 1\ntick 2\nend\n")
}

func staleReaped(b *bench) {
	mine, theirs := b.job("deaf"), b.job("tick", "1", "1ms", "7", "go")
	first := b.engine(mine)
	h := first.start()
	e := b.fresh()
	b.says(b.follow(e, h), "ready")
	o := b.start(e, theirs)
	b.says(b.follow(e, o), "ready")
	first.kill()

	next := b.fresh()
	list, err := next.List(b.bg(), mine.run())
	if err != nil || !slices.Equal(list, []executors.Handle{h}) {
		b.t.Fatalf("listed %v, %v; want %v", list, err, h)
	}
	b.must(next.Reap(b.bg(), h))
	if left := living(mine.mark); len(left) > 0 {
		b.t.Errorf("left: %v", left)
	}
	if list, err := next.List(b.bg(), mine.run()); err != nil || len(list) > 0 {
		b.t.Errorf("after reaping: %v, %v", list, err)
	}
	if b.Left != nil {
		if left := b.Left(b.t, mine.ID); len(left) > 0 {
			b.t.Errorf("left at %s: %v", b.Name, left)
		}
	}
	b.must(next.Reap(b.bg(), h)) // again, as after a crash in between
	b.release(theirs)
	b.want(b.wait(e, o), executors.Exited, 7, "")
}

func strangersUntouched(b *bench) {
	lives := b.Stranger(b.t)
	e, theirs, ours := b.fresh(), b.job("tick", "1", "1ms", "7", "go"), b.job("deaf")
	o := b.start(e, theirs)
	h := b.start(e, ours)
	b.says(b.follow(e, h), "ready")
	b.says(b.follow(e, o), "ready")
	for _, run := range []string{ours.run(), "run-of-nobody", ""} {
		list, err := b.fresh().List(b.bg(), run)
		if run == ours.run() && err == nil && slices.Equal(list, []executors.Handle{h}) || run != ours.run() && len(list) == 0 {
			continue
		}
		b.t.Errorf("run %q lists %v, %v", run, list, err)
	}
	b.must(e.Stop(b.bg(), h, 100*time.Millisecond))
	b.must(e.Reap(b.bg(), h))
	if !lives() {
		b.t.Error("the stranger is gone")
	}
	if len(living(theirs.mark)) == 0 {
		b.t.Error("the other run's task is gone")
	}
	b.release(theirs)
	b.want(b.wait(e, o), executors.Exited, 7, "")
}

func foreignHandle(b *bench) {
	e, j := b.fresh(), b.job("tick", "1", "1ms", "7", "go")
	h := b.start(e, j)
	b.says(b.follow(e, h), "ready")
	forged := []executors.Handle{
		{Executor: h.Executor, Task: "another-task", Ref: h.Ref},
		{Executor: h.Executor, Task: h.Task, Ref: ""},
		{Executor: h.Executor, Task: h.Task, Ref: "../../etc"},
		{Executor: h.Executor, Task: "../x", Ref: "-rf"},
	}
	for _, f := range forged {
		if err := e.Stop(b.bg(), f, time.Second); err == nil {
			b.t.Errorf("stopping %+v was no error", f)
		}
		if err := e.Reap(b.bg(), f); err == nil {
			b.t.Errorf("reaping %+v was no error", f)
		}
		if o, err := e.Wait(b.bg(), f); err == nil {
			b.t.Errorf("waiting for %+v gave %+v", f, o)
		}
	}
	if len(living(j.mark)) == 0 {
		b.t.Fatal("the task is gone")
	}
	b.release(j)
	b.want(b.wait(e, h), executors.Exited, 7, "")
}

func badTask(b *bench) {
	e := b.fresh()
	// Where the task's folder is elsewhere, the mounts are too, and nobody here
	// sees them.
	for what, change := range map[string]func(*executors.Task){
		"an id with a slash":     func(t *executors.Task) { t.ID = "A/b" },
		"no id":                  func(t *executors.Task) { t.ID = "" },
		"a relative folder":      func(t *executors.Task) { t.Dir = "x" },
		"a folder that is gone":  func(t *executors.Task) { t.Dir = filepath.Join(b.tasks, "no such") },
		"a mount that is gone":   func(t *executors.Task) { t.Mounts[0].Source, t.Mounts[0].Destination = "/no/such", "/no/such" },
		"a terminal":             func(t *executors.Task) { t.Process.Terminal = true },
		"more CPUs than exist":   func(t *executors.Task) { t.Resources.CPUs = 1 << 20 },
		"a limit nobody has":     func(t *executors.Task) { t.Resources.Ulimits = map[string]uint64{"no-such-limit": 1} },
		"a program without path": func(t *executors.Task) { t.Process.Args[0] = "actor" },
	} {
		j := b.job("exit", "0")
		b.must(e.Check(j.Task))
		change(&j.Task)
		if err := e.Check(j.Task); err == nil && !(b.Put != nil && strings.Contains(what, "mount")) {
			b.t.Errorf("%s was accepted", what)
		}
		if len(living(j.mark)) > 0 {
			b.t.Errorf("%s: the check started something", what)
		}
	}
}
