package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/internal/puppet"
	"github.com/sotabuild/sotabuild/executors/internal/trial"
	"github.com/sotabuild/sotabuild/executors/proc"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/executors/supervisor"
)

func TestMain(m *testing.M) {
	puppet.Main()
	if len(os.Args) == 3 && os.Args[1] == "runner" {
		os.Exit(supervisor.Main(os.Args[2]))
	}
	if len(os.Args) == 3 && os.Args[1] == "engine" {
		os.Exit(trial.Engine(New(trial.Self()), os.Args[2]))
	}
	os.Exit(m.Run())
}

// newTask makes a task that runs a program. At the end of the test nothing of
// it lives.
func newTask(t *testing.T, argv ...string) executors.Task {
	t.Helper()
	t.Parallel()
	root := t.TempDir()
	task := executors.Task{
		ID: executors.TaskID(fmt.Sprintf("local-test-%d", time.Now().UnixNano())), Dir: filepath.Join(root, "task"),
		Process: specs.Process{Args: argv}, StopGrace: 5 * time.Second,
		Labels: map[string]string{executors.LabelRun: "run-1"},
	}
	if err := os.Mkdir(task.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The control group holds also what has no mark.
		if tree, err := runner.ReadTree(task.Dir); err == nil && tree.Cgroup != "" {
			if _, err := os.Stat(tree.Cgroup); err == nil {
				t.Errorf("left behind: %s", tree.Cgroup)
			}
		}
		if left := alive(t, task); len(left) > 0 {
			t.Errorf("left behind: %v", left)
			for _, p := range left {
				p.Signal(unix.SIGKILL)
			}
		}
	})
	return task
}

func alive(t *testing.T, task executors.Task) []proc.Process {
	t.Helper()
	all, err := proc.List()
	if err != nil {
		t.Fatal(err)
	}
	return proc.Marked(all, mark(task.ID))
}

// serving makes a task that trial.Serve describes.
func serving(t *testing.T) executors.Task {
	t.Helper()
	task := newTask(t)
	trial.Serve(t, task)
	return task
}

func start(t *testing.T, e *Executor, task executors.Task) executors.Handle {
	t.Helper()
	h, err := e.Start(context.Background(), task)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func supervisorOf(t *testing.T, h executors.Handle) proc.ID {
	t.Helper()
	r, err := parse(h.Ref)
	if err != nil {
		t.Fatal(err)
	}
	return r.id
}

func TestEndsOfAProgram(t *testing.T) {
	for _, c := range []struct {
		flags  []string
		reason executors.Reason
		code   int
		signal string
	}{
		{[]string{"-code", "0"}, executors.Exited, 0, ""},
		{[]string{"-code", "1"}, executors.Exited, 1, ""},
		{[]string{"-code", "7"}, executors.Exited, 7, ""},
		{[]string{"-code", "126"}, executors.Exited, 126, ""},
		{[]string{"-code", "127"}, executors.Exited, 127, ""},
		{[]string{"-signal", "9"}, executors.Signaled, 0, "killed"},
		{[]string{"-signal", "15"}, executors.Signaled, 0, "terminated"},
	} {
		t.Run(strings.Join(c.flags, "")[1:], func(t *testing.T) {
			task := newTask(t, puppet.Self("client", append(c.flags, "-env", "env")...)...)
			task.Process.Env = []string{"A=1"}
			e := New(trial.Self())
			h := start(t, e, task)
			for range 2 { // it may be asked again
				if o := trial.Wait(t, e, h); o.Reason != c.reason || o.Code != c.code || o.Signal != c.signal {
					t.Errorf("outcome %+v, want %s %d %q", o, c.reason, c.code, c.signal)
				}
			}
			if got, want := trial.File(t, task, "env"), "A=1\n"+mark(task.ID)+"\nSOTABUILD_LIFELINE=3"; got != want {
				t.Errorf("environment %q, want %q", got, want)
			}
			if err := e.Stop(context.Background(), h, time.Second); err != nil {
				t.Errorf("stopping an ended task: %v", err)
			}
		})
	}
}

func TestProgramThatCannotBeExecuted(t *testing.T) {
	task := newTask(t, "/etc/passwd")
	e := New(trial.Self())
	if err := e.Check(task); err == nil || !strings.Contains(err.Error(), "cannot be executed") {
		t.Errorf("check says %v", err)
	}
	h := start(t, e, task)
	if o := trial.Wait(t, e, h); o.Reason != executors.NotStarted || !strings.Contains(o.Detail, "permission denied") {
		t.Errorf("outcome %+v, want not started", o)
	}
	if err := e.Logs(context.Background(), h, io.Discard); err != nil {
		t.Errorf("its logs: %v", err)
	}
	if err := e.Reap(context.Background(), h); err != nil {
		t.Errorf("reaping it: %v", err)
	}
}

func TestStartingTwiceIsOneStart(t *testing.T) {
	task := newTask(t, puppet.Self("client", "-count", "count")...)
	var all sync.WaitGroup
	handles := make([]executors.Handle, 8)
	for i := range handles {
		all.Go(func() {
			h, err := New(trial.Self()).Start(context.Background(), task) // as another process would
			if err != nil {
				t.Error(err)
			}
			handles[i] = h
		})
	}
	all.Wait()
	for _, h := range handles {
		if h != handles[0] {
			t.Errorf("handles %v and %v", h, handles[0])
		}
	}
	trial.Until(t, time.Minute, "its end", func() bool { return len(alive(t, task)) == 0 })
	if again := start(t, New(trial.Self()), task); again != handles[0] {
		t.Errorf("after its end: handle %v, want %v", again, handles[0])
	}
	if got := strings.Count(trial.File(t, task, "count"), "\n"); got != 1 {
		t.Errorf("it ran %d times", got)
	}
	other := task
	other.ID += "-other"
	if _, err := New(trial.Self()).Start(context.Background(), other); err == nil {
		t.Error("another task was started in the same folder")
	}
}

func TestStartThatBrokeHalfWay(t *testing.T) {
	task := newTask(t, puppet.Self("client", "-count", "count")...)
	r := ref{note: "local", dir: task.Dir}
	intent := func(s *state) error { *s = state{Task: task.ID, Labels: task.Labels}; return nil }
	if err := r.update(context.Background(), intent); err != nil {
		t.Fatal(err)
	}
	e := New(trial.Self(), filepath.Dir(task.Dir))
	if list, err := e.List(context.Background(), "run-1"); err != nil || len(list) != 1 {
		t.Errorf("listed %v, %v; want the task", list, err)
	}
	if o := trial.Wait(t, e, start(t, e, task)); o.Reason != executors.Lost {
		t.Errorf("outcome %+v, want lost: nobody knows whether it ran", o)
	}
	if _, err := os.Stat(filepath.Join(task.Dir, "count")); err == nil {
		t.Error("it was started a second time")
	}
}

func TestLogsComeWhole(t *testing.T) {
	task := newTask(t, puppet.Self("client", "-lines", "200000")...)
	e := New(trial.Self())
	h := start(t, e, task)
	var got, want bytes.Buffer
	if err := e.Logs(context.Background(), h, &got); err != nil {
		t.Fatal(err)
	}
	for i := range 200000 {
		fmt.Fprintln(&want, "line", i)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes came, want %d", got.Len(), want.Len())
	}
	trial.Wait(t, e, h)
}

func TestStopIsGracefulThenHard(t *testing.T) {
	t.Run("graceful", func(t *testing.T) {
		task := serving(t)
		e := New(trial.Self())
		h := start(t, e, task)
		old := trial.Orphan(t, task)
		if err := e.Stop(context.Background(), h, 20*time.Second); err != nil {
			t.Fatal(err)
		}
		if left := alive(t, task); len(left) > 0 || old.Alive() {
			t.Errorf("after the stop: %v, orphan %t", left, old.Alive())
		}
		if o := trial.Wait(t, e, h); o.Reason != executors.Stopped {
			t.Errorf("outcome %+v", o)
		}
		if x, err := runner.ReadExit(task.Dir); err != nil || x.Outcome.Class != executors.ClassInterrupted {
			t.Errorf("exit record %+v, %v", x, err)
		}
	})
	t.Run("hard", func(t *testing.T) {
		task := newTask(t, puppet.Self("server", "-deaf", "-fork", "orphan")...)
		e := New(trial.Self())
		h := start(t, e, task)
		trial.File(t, task, "orphan")
		if err := e.Stop(context.Background(), h, 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if left := alive(t, task); len(left) > 0 {
			t.Errorf("after the stop: %v", left)
		}
		if o := trial.Wait(t, e, h); o.Reason != executors.Stopped || !strings.Contains(o.Detail, "killed") {
			t.Errorf("outcome %+v", o)
		}
	})
}

func TestDeadlineOfATask(t *testing.T) {
	task := newTask(t, puppet.Self("sleeper")...)
	task.Deadline, task.StopGrace = 200*time.Millisecond, 50*time.Millisecond
	e := New(trial.Self())
	if o := trial.Wait(t, e, start(t, e, task)); o.Reason != executors.TimedOut {
		t.Errorf("outcome %+v", o)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	task := newTask(t, puppet.Self("sleeper")...)
	e := New(trial.Self())
	h := start(t, e, task)
	ctx, done := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer done()
	if _, err := e.Wait(ctx, h); !errors.Is(err, context.DeadlineExceeded) || !supervisorOf(t, h).Alive() {
		t.Errorf("the error is %v; the task must live on", err)
	}
	if err := e.Stop(context.Background(), h, 0); err != nil {
		t.Fatal(err)
	}
}

func TestKilledRunnerLeavesNothing(t *testing.T) {
	task := serving(t)
	e := New(trial.Self())
	h := start(t, e, task)
	old := trial.Orphan(t, task)
	at := time.Now()
	if err := supervisorOf(t, h).Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	o := trial.Wait(t, e, h)
	if took := time.Since(at); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	if left := alive(t, task); len(left) > 0 || old.Alive() {
		t.Errorf("left: %v, orphan %t", left, old.Alive())
	}
	if o.Reason != executors.Signaled || o.Signal != "killed" {
		t.Errorf("outcome %+v", o)
	}
	nothingLooksFinished(t, task)
	if _, err := runner.ReadExit(task.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is an exit record: %v", err)
	}
}

// TestOnlyOneThatEndedAloneIsBelieved: a supervisor's good end alone does not
// spare the look for what it has left.
func TestOnlyOneThatEndedAloneIsBelieved(t *testing.T) {
	task := newTask(t)
	program := filepath.Join(task.Dir, "careless")
	text := "#!/bin/sh\nsetsid sleep 1000 & echo '{\"task\": \"" + string(task.ID) + "\"}' >exit.json\n"
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	e := New(program)
	if o := trial.Wait(t, e, start(t, e, task)); o.Reason != executors.Exited || o.Code != 0 {
		t.Errorf("outcome %+v", o)
	}
	if left := alive(t, task); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestWhoIsBelieved is about the word that spares the look at all processes,
// which a control group would hide.
func TestWhoIsBelieved(t *testing.T) {
	ran := func(argv ...string) *exec.Cmd {
		cmd := exec.Command(argv[0], argv[1:]...)
		_ = cmd.Run() // how it ended is what is asked
		return cmd
	}
	good, bad := ran("true"), ran("false")
	for _, c := range []struct {
		name       string
		cmd        *exec.Cmd
		supervisor bool
		exit       string
		want       bool
	}{
		{"alone", good, true, `{"task": "a", "alone": true}`, true},
		{"notsaid", good, true, `{"task": "a"}`, false},
		{"othertask", good, true, `{"task": "b", "alone": true}`, false},
		{"norecord", good, true, ``, false},
		{"failed", bad, true, `{"task": "a", "alone": true}`, false},
		{"anyprogram", good, false, `{"task": "a", "alone": true}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "exit.json"), []byte(c.exit), 0o600); err != nil {
				t.Fatal(err)
			}
			s := &started{cmd: c.cmd, supervisor: c.supervisor}
			if got := s.alone("a", dir); got != c.want {
				t.Errorf("believed: %t, want %t", got, c.want)
			}
		})
	}
}

// nothingLooksFinished says that the first step is kept and the second is not.
func nothingLooksFinished(t *testing.T, task executors.Task) {
	t.Helper()
	if _, err := runner.ReadStep(filepath.Join(task.Dir, "steps/done")); err != nil {
		t.Errorf("the finished step: %v", err)
	}
	if _, err := runner.ReadStep(filepath.Join(task.Dir, "steps/ask")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the step that was cut off has a record: %v", err)
	}
}

func TestKilledEngineLeavesNothing(t *testing.T) {
	task := serving(t)
	cmd, h := trial.StartEngine(t, task)
	old := trial.Orphan(t, task)
	cmd.Process.Kill()
	cmd.Wait()
	trial.Until(t, 5*time.Second, "the end of its tree", func() bool { return len(alive(t, task)) == 0 && !old.Alive() })
	nothingLooksFinished(t, task)

	next := New(trial.Self(), filepath.Dir(task.Dir))
	list, err := next.List(context.Background(), "run-1")
	if err != nil || len(list) != 1 || list[0] != h {
		t.Fatalf("listed %v, %v; want %v", list, err, h)
	}
	if o := trial.Wait(t, next, h); o.Reason != executors.Exited || o.Code != 0 {
		t.Errorf("outcome %+v, want an exit that its record proves", o)
	}
	if x, err := runner.ReadExit(task.Dir); err != nil || x.Outcome.Class != executors.ClassInterrupted {
		t.Errorf("exit record %+v, %v", x, err)
	}
	if err := next.Reap(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	if list, err := next.List(context.Background(), "run-1"); err != nil || len(list) > 0 {
		t.Errorf("after reaping: %v, %v", list, err)
	}
	if list, err := next.List(context.Background(), "run-2"); err != nil || len(list) > 0 {
		t.Errorf("another run lists %v, %v", list, err)
	}
}

func TestBothKilledIsReapedByTheNext(t *testing.T) {
	task := serving(t)
	cmd, h := trial.StartEngine(t, task)
	old := trial.Orphan(t, task)
	// A stopped runner cannot act on its lifeline before it is killed too.
	runner := supervisorOf(t, h)
	for _, kill := range []func() error{
		func() error { return runner.Signal(unix.SIGSTOP) }, cmd.Process.Kill,
		func() error { return runner.Signal(unix.SIGKILL) },
	} {
		if err := kill(); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Wait()
	trial.Until(t, 5*time.Second, "the end of the runner", func() bool { return !runner.Alive() })
	if len(alive(t, task)) == 0 || !old.Alive() {
		t.Fatal("nothing was left to be reaped")
	}
	argv := puppet.Self("sleeper")
	stranger := exec.Command(argv[0], argv[1:]...)
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stranger.Process.Kill()
		stranger.Wait()
	}()

	next := New(trial.Self(), filepath.Dir(task.Dir))
	if err := next.Reap(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	if left := alive(t, task); len(left) > 0 || old.Alive() {
		t.Errorf("left: %v, orphan %t", left, old.Alive())
	}
	nothingLooksFinished(t, task)
	if o := trial.Wait(t, next, h); o.Reason != executors.Lost {
		t.Errorf("outcome %+v, want lost", o)
	}
	if _, err := proc.Read(stranger.Process.Pid); err != nil {
		t.Errorf("a stranger of the same name: %v", err)
	}
}

func TestCheckRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*executors.Task)
		want   string
	}{
		{"image", func(t *executors.Task) { t.Image = "vllm:1" }, "local runs no images"},
		{"id", func(t *executors.Task) { t.ID = "A/b" }, "a-z, 0-9 and -"},
		{"mount", func(t *executors.Task) { t.Mounts = []specs.Mount{{Source: "/etc", Destination: "/models"}} }, "same absolute path"},
		{"missing", func(t *executors.Task) { t.Mounts = []specs.Mount{{Source: "/no/such", Destination: "/no/such"}} }, "mount is missing"},
		{"program", func(t *executors.Task) { t.Process.Args = []string{"/no/such"} }, "missing or cannot be executed"},
		{"relative", func(t *executors.Task) { t.Process.Args = []string{"sh"} }, "no absolute path"},
		{"folder", func(t *executors.Task) { t.Dir = "/no/such" }, "folder"},
		{"terminal", func(t *executors.Task) { t.Process.Terminal = true }, "terminal"},
		{"cpus", func(t *executors.Task) { t.Resources.CPUs = 1 << 20 }, "CPUs"},
		{"memory", func(t *executors.Task) { t.Resources.Memory = 1 << 60 }, "bytes of memory"},
		{"ulimit", func(t *executors.Task) { t.Resources.Ulimits = map[string]uint64{"nofile": 1 << 40} }, "nofile"},
	} {
		t.Run(c.name, func(t *testing.T) {
			task := newTask(t, puppet.Self("client")...)
			if err := New(trial.Self()).Check(task); err != nil {
				t.Fatalf("the good task: %v", err)
			}
			c.change(&task)
			if err := New(trial.Self()).Check(task); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("check says %v, want %q", err, c.want)
			}
		})
	}
}

func TestHandleOfAStrangerIsRefused(t *testing.T) {
	e := New(trial.Self())
	for _, text := range []string{"", "1:2:3", "x:y:z:/tmp", "1:2:boot:relative"} {
		if err := e.Stop(context.Background(), executors.Handle{Task: "x", Ref: text}, 0); err == nil {
			t.Errorf("the reference %q was accepted", text)
		}
	}
	p, err := proc.Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	boot, err := proc.BootID()
	if err != nil {
		t.Fatal(err)
	}
	forged := ref{id: p.ID, boot: boot, dir: t.TempDir()}.String()
	if err := e.Stop(context.Background(), executors.Handle{Task: "x", Ref: forged}, 0); err == nil {
		t.Error("a process that is no task of the folder was to be stopped")
	}
}
