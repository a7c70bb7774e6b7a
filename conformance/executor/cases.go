package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sotabuild/sotabuild/executors"
)

// testCase is one row: what the contract promises, and the test of it.
type testCase struct {
	name, wants string
	run         func(*bench)
}

// cases are all of them, in the order of the table.
var cases = []testCase{
	{"ExitCodes", "0, 1, 7, 126 and 127 are exits with that code", exitCodes},
	{"ExitAbove128", "code 137 is an exit, told apart from a KILL", exitAbove128},
	{"Signals", "a task ended by KILL or TERM says so", signals},
	{"NotStarted", "a program that is missing, or cannot be executed, is not started: no exit 127 or 126", notStarted},
	{"OutOfMemory", "above its memory limit it ends as OOM", outOfMemory},
	{"OutOfMemoryInside", "OOM also where only a child was killed and the code is 0", outOfMemoryInside},
	{"Deadline", "a task past its deadline ends as timeout, with all of its processes", deadline},
	{"DeadlineUnseen", "also when its engine is dead at that time: the next one ends it", deadlineUnseen},
	{"StopGraceful", "TERM first; the task ends in its own way", stopGraceful},
	{"StopHard", "after the grace nothing of it runs, whatever it ignored or forked", stopHard},
	{"StopOfEnded", "stopping what has ended is no error and changes no outcome", stopOfEnded},
	{"Drain", "asked to end in its first of three steps, a task finishes that one, begins no other, and its server is down", drain},
	{"WaitIsNoStop", "ending a wait leaves the task alone; a wait may be repeated", waitIsNoStop},
	{"LogLines", "200,000 lines come whole and in order", logLines},
	{"LogLine", "a line of 200 kB comes whole", logLine},
	{"LogBytes", "every byte value comes as it was written", logBytes},
	{"LogTwice", "logs of an ended task can be read again, from the start, by another engine", logTwice},
	{"Environment", "the environment is the declared one", environment},
	{"Arguments", "arguments come as they are: empty, spaces, quotes, $, newlines, Unicode", arguments},
	{"WorkingFolder", "the task starts in its folder, with an empty stdin", workingFolder},
	{"OwnFiles", "what it writes belongs to the engine's user", ownFiles},
	{"Mounts", "host paths appear in the task, at the same path", mounts},
	{"MountReadOnly", "a mount with ro cannot be written", mountReadOnly},
	{"Outputs", "files, modes, links, empty folders and odd names appear in the task's folder", outputs},
	{"Ulimits", "a limit of open files is what the task sees", ulimits},
	{"ShmSize", "/dev/shm has the size asked for", shmSize},
	{"StartAgain", "a second start of an id is the first one's handle, also after its end and after it was reaped", startAgain},
	{"StartInTwoProcesses", "also from another process", startInTwoProcesses},
	{"StartAtOnce", "two engines that start one id at once start one task", startAtOnce},
	{"EngineKilled", "after kill -9 of the engine the next one finds the task and learns its end", engineKilled},
	{"DaemonRestart", "a daemon or controller killed and started again in mid-task loses nothing", daemonRestart},
	{"StaleReaped", "what a dead engine left is listed by its run and reaped", staleReaped},
	{"StrangersUntouched", "other people's containers, jobs and processes, and other runs' tasks, live on", strangersUntouched},
	{"ForeignHandle", "a handle that names nothing of ours is refused and harms nobody", foreignHandle},
	{"BadTask", "a task that can never run is refused before anything starts", badTask},
	{"GPUPool", "50 tasks on two GPUs: never two on one", gpuPool},
}

func exitCodes(b *bench) {
	e := b.fresh()
	var all sync.WaitGroup
	for _, code := range []int{0, 1, 7, 126, 127} {
		h := b.start(e, b.job("exit", fmt.Sprint(code)))
		all.Go(func() {
			for range 2 {
				if o, err := e.Wait(b.bg(), h); err != nil || o.Reason != executors.Exited || o.Code != code || o.Signal != "" {
					b.t.Errorf("outcome %+v, %v; want exited %d", o, err, code)
				}
			}
		})
	}
	all.Wait()
}

func exitAbove128(b *bench) { b.want(b.do(b.job("exit", "137")), executors.Exited, 137, "") }

func signals(b *bench) {
	b.want(b.do(b.job("signal", "9")), executors.Signaled, 0, "killed")
	b.want(b.do(b.job("signal", "15")), executors.Signaled, 0, "terminated")
}

func notStarted(b *bench) {
	e := b.fresh()
	missing := b.job("exit", "0")
	missing.Process.Args[0] = "/no/such/program"
	folder := b.job("exit", "0")
	folder.Process.Args[0] = folder.Dir
	for _, j := range []job{missing, folder} {
		h, err := e.Start(b.bg(), j.Task)
		b.must(err)
		if o := b.wait(e, h); o.Reason != executors.NotStarted || o.Detail == "" || o.Code != 0 {
			b.t.Errorf("%s: outcome %+v, want not started, with a reason", j.Process.Args[0], o)
		}
		again, err := b.fresh().Start(b.bg(), j.Task)
		b.must(err)
		if again != h {
			b.t.Errorf("a second start: %v, want %v", again, h)
		}
		if o := b.wait(b.fresh(), h); o.Reason != executors.NotStarted {
			b.t.Errorf("another engine says %+v", o)
		}
	}
}

func outOfMemory(b *bench) {
	j := b.job("eat", "256")
	j.Resources.Memory = 64 << 20
	if o := b.do(j); o.Reason != executors.OOM {
		b.t.Errorf("outcome %+v, want OOM", o)
	}
}

func outOfMemoryInside(b *bench) {
	j := b.job("spare", "256")
	j.Resources.Memory = 64 << 20
	if o := b.do(j); o.Reason != executors.OOM {
		b.t.Errorf("outcome %+v, want OOM although its code was 0", o)
	}
}

func deadline(b *bench) {
	j := b.job("deaf")
	j.Deadline, j.StopGrace = 3*time.Second, 100*time.Millisecond
	if o := b.do(j); o.Reason != executors.TimedOut {
		b.t.Errorf("outcome %+v, want a timeout", o)
	}
	if left := living(j.mark); len(left) > 0 {
		b.t.Errorf("still running: %v", left)
	}
}

func deadlineUnseen(b *bench) {
	j := b.job("deaf")
	j.Deadline, j.StopGrace = time.Second, 100*time.Millisecond
	first := b.engine(j)
	h := first.start()
	first.kill()
	if o := b.wait(b.fresh(), h); o.Reason != executors.TimedOut && !b.Lifeline {
		b.t.Errorf("outcome %+v, want a timeout", o)
	}
	if left := living(j.mark); len(left) > 0 {
		b.t.Errorf("still running: %v", left)
	}
}

func stopGraceful(b *bench) {
	e, j := b.fresh(), b.job("trap", "12")
	h := b.start(e, j)
	b.says(b.follow(e, h), "ready")
	b.must(e.Stop(b.bg(), h, time.Minute))
	if got := b.read(j, "trapped"); got != "TERM" {
		b.t.Errorf("its last word is %q", got)
	}
	if o := b.wait(e, h); o.Reason != executors.Stopped {
		b.t.Errorf("outcome %+v, want stopped", o)
	}
}

func stopHard(b *bench) {
	e, j := b.fresh(), b.job("deaf")
	h := b.start(e, j)
	b.says(b.follow(e, h), "ready")
	if n := len(living(j.mark)); n < 2 {
		b.t.Fatalf("%d processes are there to be stopped, want the task and its orphan", n)
	}
	b.must(e.Stop(b.bg(), h, 200*time.Millisecond))
	if left := living(j.mark); len(left) > 0 {
		b.t.Errorf("still running: %v", left)
	}
	if o := b.wait(e, h); o.Reason != executors.Stopped {
		b.t.Errorf("outcome %+v, want stopped", o)
	}
}

func stopOfEnded(b *bench) {
	e := b.fresh()
	h := b.start(e, b.job("exit", "7"))
	b.want(b.wait(e, h), executors.Exited, 7, "")
	b.must(e.Stop(b.bg(), h, time.Second))
	b.want(b.wait(e, h), executors.Exited, 7, "")
}

func waitIsNoStop(b *bench) {
	e, j := b.fresh(), b.job("tick", "1", "1ms", "7", "go")
	h := b.start(e, j)
	b.says(b.follow(e, h), "ready")
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if o, err := e.Wait(ctx, h); !errors.Is(err, context.DeadlineExceeded) {
		b.t.Errorf("the wait ended with %+v, %v", o, err)
	}
	b.release(j)
	b.want(b.wait(e, h), executors.Exited, 7, "")
}

func logLines(b *bench) {
	e := b.fresh()
	h := b.start(e, b.job("lines", "200000"))
	var want strings.Builder
	for i := range 200000 {
		fmt.Fprintf(&want, "line %d of the task's output\n", i)
	}
	b.same(b.all(e, h), want.String())
	b.wait(e, h)
}

func logLine(b *bench) {
	e := b.fresh()
	h := b.start(e, b.job("line", "200000"))
	b.same(b.all(e, h), "before\n"+strings.Repeat("0123456789", 20000)+"\nafter\n")
	b.wait(e, h)
}

func logBytes(b *bench) {
	e := b.fresh()
	h := b.start(e, b.job("bytes", "1000"))
	var one [256]byte
	for i := range one {
		one[i] = byte(i)
	}
	b.same(b.all(e, h), string(bytes.Repeat(one[:], 1000)))
	b.wait(e, h)
}

func logTwice(b *bench) {
	e := b.fresh()
	h := b.start(e, b.job("lines", "100"))
	first := b.all(e, h)
	b.wait(e, h)
	if strings.Count(first, "\n") != 100 {
		b.t.Errorf("the first reading has %d lines", strings.Count(first, "\n"))
	}
	b.same(b.all(b.fresh(), h), first)
}

// same compares long texts.
func (b *bench) same(got, want string) {
	b.t.Helper()
	if got == want {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	b.t.Errorf("%d bytes came, want %d; they differ from byte %d on: %q, want %q", len(got), len(want), i,
		got[i:min(i+60, len(got))], want[i:min(i+60, len(want))])
}
