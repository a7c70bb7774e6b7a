package slurm

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	"github.com/sotabuild/sotabuild/executors/slurm/job"
	"github.com/sotabuild/sotabuild/executors/supervisor"
)

func TestMain(m *testing.M) {
	fakeMain()
	flag.Parse()
	flag.Set("test.parallel", "12") // the tests wait for Slurm, not for the processor
	puppet.Main()
	if len(os.Args) == 3 {
		switch os.Args[1] {
		case "runner":
			os.Exit(supervisor.Main(os.Args[2]))
		case "slurm-job":
			os.Exit(job.Main(os.Args[2]))
		case "engine":
			e, err := New(Config{Self: trial.Self()})
			if err != nil {
				panic(err)
			}
			os.Exit(trial.Engine(e, os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

// cluster skips where there is no Slurm.
func cluster(t *testing.T) {
	t.Helper()
	t.Parallel()
	if os.Getenv("SLURM_CONF") == "" {
		absent(t, "SLURM_CONF is not set: eval \"$(.ci/start-slurm)\"")
	}
	if _, err := (client{}).run(context.Background(), "", "squeue", "--noheader"); err != nil {
		absent(t, err.Error())
	}
}

func absent(t *testing.T, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("SOTABUILD_REQUIRE"), ","), "slurm") {
		t.Fatalf("slurm is required here: %s", why)
	}
	t.Skip(why)
}

func newExecutor(t *testing.T, set map[string]string, roots ...string) *Executor {
	t.Helper()
	e, err := New(Config{Self: trial.Self(), Options: set, Roots: roots, FileGrace: time.Second, LostGrace: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var counter struct {
	sync.Mutex
	n int
}

// newTask makes a task that runs a program. At the end of the test no job of it
// is left.
func newTask(t *testing.T, argv ...string) executors.Task {
	t.Helper()
	counter.Lock()
	counter.n++
	id := fmt.Sprintf("slurm-test-%d-%d", time.Now().UnixNano()%1e12, counter.n)
	counter.Unlock()
	task := executors.Task{
		ID: executors.TaskID(id), Dir: filepath.Join(t.TempDir(), "a%j 'task'"),
		Process: specs.Process{Args: argv}, StopGrace: 5 * time.Second,
		Labels: map[string]string{executors.LabelRun: "run " + id},
	}
	if err := os.Mkdir(task.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return task
}

// gone asserts that no job of a task is left and no process of it lives.
func gone(t *testing.T, e *Executor, task executors.Task) {
	t.Helper()
	trial.Until(t, time.Minute, "the end of every job", func() bool {
		list, err := e.client.named(context.Background(), "", os.Getuid())
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(list, func(f found) bool {
			id, ok := taskOf(f.name)
			return ok && id == task.ID && !(word{state: f.state}).over()
		})
	})
	all, err := proc.List()
	if err != nil {
		t.Fatal(err)
	}
	if left := proc.Marked(all, executors.EnvTask+"="+string(task.ID)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func start(t *testing.T, e *Executor, task executors.Task) executors.Handle {
	t.Helper()
	h, err := e.Start(context.Background(), task)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Reap(context.Background(), h); err != nil {
			t.Errorf("reaping: %v", err)
		}
		gone(t, e, task)
	})
	return h
}

func TestEndsOfAProgram(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags  []string
		reason executors.Reason
		code   int
		signal string
	}{
		{[]string{"-code", "0"}, executors.Exited, 0, ""},
		{[]string{"-code", "7"}, executors.Exited, 7, ""},
		{[]string{"-code", "66"}, executors.Exited, 66, ""}, // one of our own codes
		{[]string{"-code", "127"}, executors.Exited, 127, ""},
		{[]string{"-signal", "9"}, executors.Signaled, 0, "killed"},
		{[]string{"-signal", "15"}, executors.Signaled, 0, "terminated"},
	} {
		t.Run(strings.Join(c.flags, "")[1:], func(t *testing.T) {
			cluster(t)
			e := newExecutor(t, nil)
			task := newTask(t, puppet.Self("client", append(c.flags, "-env", "env")...)...)
			task.Process.Env = []string{"A=1", "B= two\nlines '\"$HOME ", "TOKEN=very-secret"}
			h := start(t, e, task)
			for range 2 { // it may be asked again
				if o := trial.Wait(t, e, h); o.Reason != c.reason || o.Code != c.code || o.Signal != c.signal {
					t.Errorf("outcome %+v, want %s %d %q", o, c.reason, c.code, c.signal)
				}
			}
			want := strings.Join(task.Process.Env, "\n") + "\n" + runner.EnvLifeline + "=3"
			if got := trial.File(t, task, "env"); got != want {
				t.Errorf("environment %q, want %q", got, want)
			}
			if _, err := os.Stat(filepath.Join(task.Dir, job.Folder, "env")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the file of the environment: %v, want that it is gone", err)
			}
			if err := e.Stop(context.Background(), h, time.Second); err != nil {
				t.Errorf("stopping an ended task: %v", err)
			}
		})
	}
}

// TestNoSecretInSlurm: neither the script nor what Slurm shows of a job holds a
// value of the environment.
func TestNoSecretInSlurm(t *testing.T) {
	cluster(t)
	e := newExecutor(t, nil)
	task := newTask(t, puppet.Self("client", "-started", "here")...)
	task.Process.Env = []string{"TOKEN=very-secret"}
	h := start(t, e, task)
	trial.File(t, task, "here")
	id, _, _ := strings.Cut(h.Ref, ":")
	for _, args := range [][]string{{"scontrol", "--details", "show", "job", id}, {"scontrol", "write", "batch_script", id, "-"}} {
		text, err := e.client.run(context.Background(), "", args[0], args[1:]...)
		if err != nil || !strings.Contains(text, "slurm-job") && !strings.Contains(text, string(task.ID)) {
			t.Fatalf("%q, %v", text, err)
		}
		if strings.Contains(text, "very-secret") {
			t.Errorf("%s shows the secret: %s", args[0], text)
		}
	}
	script, err := exec.Command("grep", "-rl", "very-secret", task.Dir).Output()
	if len(script) > 0 {
		t.Errorf("the secret stands in %s (%v)", script, err)
	}
}

func TestStartingTwiceIsOneStart(t *testing.T) {
	cluster(t)
	task := newTask(t, puppet.Self("client", "-count", "count")...)
	var all sync.WaitGroup
	handles := make([]executors.Handle, 4)
	for i := range handles {
		all.Go(func() {
			h, err := newExecutor(t, nil).Start(context.Background(), task) // as another engine would
			if err != nil {
				t.Error(err)
			}
			handles[i] = h
		})
	}
	all.Wait()
	e := newExecutor(t, nil)
	if h := start(t, e, task); h != handles[0] || h != handles[3] || trial.Wait(t, e, h).Reason != executors.Exited {
		t.Errorf("handles %v, then %v", handles, h)
	}
	if again := start(t, e, task); again != handles[0] {
		t.Errorf("after its end: handle %v, want %v", again, handles[0])
	}
	if got := strings.Count(trial.File(t, task, "count"), "\n"); got != 1 {
		t.Errorf("it ran %d times", got)
	}
	other := task
	other.ID += "-other"
	if _, err := e.Start(context.Background(), other); err == nil {
		t.Error("another task was started in the same folder")
	}
}

// TestStartThatBrokeHalfWay: sbatch has queued the job, and nobody lived to
// write its id down.
func TestStartThatBrokeHalfWay(t *testing.T) {
	cluster(t)
	task := newTask(t, puppet.Self("client", "-count", "count")...)
	e := newExecutor(t, nil, filepath.Dir(task.Dir))
	first := start(t, e, task)
	p := place(task.Dir)
	if err := p.update(context.Background(), func(s *state) error { s.Job = ""; return nil }); err != nil {
		t.Fatal(err)
	}
	if list, err := e.List(context.Background(), task.Labels[executors.LabelRun]); err != nil || !slices.Contains(list, first) {
		t.Errorf("listed %v, %v; want %v", list, err, first)
	}
	if err := p.update(context.Background(), func(s *state) error { s.Job = ""; return nil }); err != nil {
		t.Fatal(err)
	}
	if again := start(t, e, task); again != first {
		t.Errorf("handle %v, want %v", again, first)
	}
	if o := trial.Wait(t, e, first); o.Reason != executors.Exited {
		t.Errorf("outcome %+v", o)
	}
	if got := strings.Count(trial.File(t, task, "count"), "\n"); got != 1 {
		t.Errorf("it ran %d times", got)
	}
}

// TestSecondJobDoesNotBegin: Slurm runs two jobs of one task; the one that we
// hold is the one that came too late.
func TestSecondJobDoesNotBegin(t *testing.T) {
	cluster(t)
	task := newTask(t, puppet.Self("client", "-count", "count", "-started", "here")...)
	e := newExecutor(t, nil)
	h := start(t, e, task)
	trial.File(t, task, "here")
	p := place(task.Dir)
	err := p.update(context.Background(), func(s *state) error {
		id, err := e.sbatch(context.Background(), p, s, task)
		s.Job = id
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, done := context.WithCancel(context.Background())
	ended := make(chan executors.Outcome, 1)
	go func() { o, _ := e.Wait(ctx, h); ended <- o }()
	trial.Until(t, 30*time.Second, "that the first job is found", func() bool {
		s, err := p.read()
		return err == nil && s.Job+":"+task.Dir == h.Ref
	})
	select {
	case o := <-ended:
		t.Errorf("it ended: %+v", o)
	default:
	}
	done()
	<-ended
	if err := e.Stop(context.Background(), h, time.Second); err != nil {
		t.Fatal(err)
	}
	if o := trial.Wait(t, e, h); o.Reason != executors.Stopped {
		t.Errorf("outcome %+v", o)
	}
	if got := strings.Count(trial.File(t, task, "count"), "\n"); got != 1 {
		t.Errorf("it ran %d times", got)
	}
}

func TestLogsComeWhole(t *testing.T) {
	cluster(t)
	task := newTask(t, puppet.Self("client", "-lines", "200000")...)
	e := newExecutor(t, nil)
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
}

// serving makes a task that trial.Serve describes.
func serving(t *testing.T) executors.Task {
	t.Helper()
	task := newTask(t)
	trial.Serve(t, task)
	return task
}

func TestStopIsGracefulThenHard(t *testing.T) {
	t.Parallel()
	t.Run("graceful", func(t *testing.T) {
		cluster(t)
		task := serving(t)
		task.Resources.GPUs = []string{"7"} // Slurm chooses
		e := newExecutor(t, nil)
		h := start(t, e, task)
		old := trial.Orphan(t, task)
		if err := e.Stop(context.Background(), h, 20*time.Second); err != nil {
			t.Fatal(err)
		}
		if old.Alive() {
			t.Error("the orphan lives")
		}
		if o := trial.Wait(t, e, h); o.Reason != executors.Stopped || o.Detail != "exited 0" {
			t.Errorf("outcome %+v", o)
		}
		if x, err := runner.ReadExit(task.Dir); err != nil || x.Outcome.Class != executors.ClassInterrupted {
			t.Errorf("exit record %+v, %v", x, err)
		}
		end, err := job.ReadEnd(filepath.Join(task.Dir, job.Folder))
		if err != nil || end.GPUs == "" || end.NodeGPUs == "" {
			t.Fatalf("the record says GPUs %q, of the node %q (%v)", end.GPUs, end.NodeGPUs, err)
		}
		want := fmt.Sprintf("CARDS=%s\nCUDA_VISIBLE_DEVICES=%s\nSOTABUILD_TASK=%s", end.GPUs, end.GPUs, task.ID)
		if got := trial.File(t, task, "steps/done/env"); got != want {
			t.Errorf("the step's environment is %q, want %q", got, want)
		}
	})
	t.Run("hard", func(t *testing.T) {
		cluster(t)
		task := newTask(t, puppet.Self("server", "-deaf", "-fork", "orphan")...)
		e := newExecutor(t, nil)
		h := start(t, e, task)
		var pid int
		fmt.Sscan(trial.File(t, task, "orphan"), &pid)
		old, err := proc.Read(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Stop(context.Background(), h, 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if old.Alive() {
			t.Error("the orphan lives")
		}
		if o := trial.Wait(t, e, h); o.Reason != executors.Stopped || !strings.Contains(o.Detail, "killed") {
			t.Errorf("outcome %+v", o)
		}
	})
	t.Run("pending", func(t *testing.T) {
		cluster(t)
		task := newTask(t, puppet.Self("client", "-count", "count")...)
		e := newExecutor(t, map[string]string{"extra": "--begin=now+1hour"})
		h := start(t, e, task)
		if err := e.Stop(context.Background(), h, time.Minute); err != nil {
			t.Fatal(err)
		}
		if o := trial.Wait(t, e, h); o.Reason != executors.Stopped || !strings.Contains(o.Detail, "had not begun") {
			t.Errorf("outcome %+v", o)
		}
	})
}

func TestDeadlineOfATask(t *testing.T) {
	cluster(t)
	task := newTask(t, puppet.Self("sleeper")...)
	task.Deadline, task.StopGrace = 300*time.Millisecond, 50*time.Millisecond
	e := newExecutor(t, nil)
	if o := trial.Wait(t, e, start(t, e, task)); o.Reason != executors.TimedOut {
		t.Errorf("outcome %+v", o)
	}
}

// TestSlurmsTimeLimit takes 60 to 90 s: Slurm's limits are whole minutes.
func TestSlurmsTimeLimit(t *testing.T) {
	cluster(t)
	task := serving(t)
	e := newExecutor(t, map[string]string{"partition": "short", "time": "1"})
	if o := trial.Wait(t, e, start(t, e, task)); o.Reason != executors.TimedOut || !strings.Contains(o.Detail, "TIMEOUT") {
		t.Errorf("outcome %+v", o)
	}
	if _, err := runner.ReadStep(filepath.Join(task.Dir, "steps/done")); err != nil {
		t.Errorf("the finished step: %v", err)
	}
	if _, err := runner.ReadStep(filepath.Join(task.Dir, "steps/ask")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the step that was cut off has a record: %v", err)
	}
}

func TestCancelledBySomebodyElse(t *testing.T) {
	t.Parallel()
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprint(deaf), func(t *testing.T) {
			cluster(t)
			task := newTask(t, puppet.Self("client", "-started", "here", fmt.Sprintf("-deaf=%t", deaf))...)
			e := newExecutor(t, nil)
			h := start(t, e, task)
			trial.File(t, task, "here")
			id, _, _ := strings.Cut(h.Ref, ":")
			if _, err := e.client.run(context.Background(), "", "scancel", id); err != nil {
				t.Fatal(err)
			}
			// A job that ends by itself at the TERM is COMPLETED to some Slurms.
			if o := trial.Wait(t, e, h); o.Reason != executors.Stopped || !strings.Contains(o.Detail, "somebody cancelled it") && !strings.Contains(o.Detail, "somebody sent it a TERM") {
				t.Errorf("outcome %+v", o)
			}
		})
	}
}

func TestJobKilledHardLeavesNothing(t *testing.T) {
	cluster(t)
	task := serving(t)
	e := newExecutor(t, nil)
	h := start(t, e, task)
	old := trial.Orphan(t, task)
	id, _, _ := strings.Cut(h.Ref, ":")
	if _, err := e.client.run(context.Background(), "", "scancel", "--signal=KILL", "--full", id); err != nil {
		t.Fatal(err)
	}
	if o := trial.Wait(t, e, h); o.Reason != executors.Signaled && o.Reason != executors.Stopped {
		t.Errorf("outcome %+v", o)
	}
	trial.Until(t, 5*time.Second, "the orphan's end", func() bool { return !old.Alive() })
}

func TestOutOfMemory(t *testing.T) {
	cluster(t)
	task := newTask(t, "/bin/sh", "-c", "x=$(head -c 200000000 /dev/zero | tr '\\0' a); exit 0")
	task.Process.Env = []string{"PATH=/usr/bin:/bin"}
	task.Resources.Memory = 64 << 20
	e := newExecutor(t, nil)
	if text, err := e.client.run(context.Background(), "", "scontrol", "show", "config"); err != nil || !strings.Contains(text, "task/cgroup") {
		t.Logf("the cluster confines no memory (%v): the task may use it", err)
		return
	}
	if o := trial.Wait(t, e, start(t, e, task)); o.Reason != executors.OOM {
		t.Errorf("outcome %+v", o)
	}
}

func TestRefusedAndHopeless(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		set     map[string]string
		gpus    int
		program string
		want    string
	}{
		{"partition", map[string]string{"partition": "nope"}, 0, "", "partition = "},
		{"gpus", nil, 5, "", "no node has as many GPUs"},
		{"gres", map[string]string{"gres": "gpu:h200"}, 1, "", "node"},
		{"mem", map[string]string{"mem": "900G"}, 0, "", "no node has as much memory"},
		{"time", map[string]string{"partition": "short", "time": "10"}, 0, "", "would wait for good"},
		{"program", nil, 0, "/no/such/program", "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster(t)
			task := newTask(t, puppet.Self("client")...)
			if c.program != "" {
				task.Process.Args = []string{c.program}
			}
			for i := range c.gpus {
				task.Resources.GPUs = append(task.Resources.GPUs, fmt.Sprint(i))
			}
			e := newExecutor(t, c.set)
			if err := e.Check(task); err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("check says %v", err)
				}
				return
			}
			if o := trial.Wait(t, e, start(t, e, task)); o.Reason != executors.NotStarted || !strings.Contains(o.Detail, c.want) {
				t.Errorf("outcome %+v, want not started and %q", o, c.want)
			}
		})
	}
}

// TestFolderThatNoNodeSees: the folder is moved away before the job begins, so
// the node does not find it; and a node has another folder at its path.
func TestFolderThatNoNodeSees(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		hide func(dir string) error
		want string
	}{
		{"gone", func(dir string) error { return os.Rename(dir, dir+"x") }, "share"},
		{"another", func(dir string) error { return os.Remove(filepath.Join(dir, job.Folder, "order.json")) }, "share"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster(t)
			task := newTask(t, puppet.Self("client")...)
			e := newExecutor(t, map[string]string{"extra": "--hold"})
			h := start(t, e, task)
			if err := c.hide(task.Dir); err != nil {
				t.Fatal(err)
			}
			id, _, _ := strings.Cut(h.Ref, ":")
			if _, err := e.client.run(context.Background(), "", "scontrol", "release", id); err != nil {
				t.Fatal(err)
			}
			trial.Until(t, time.Minute, "the job's end", func() bool {
				d, err := e.client.show(context.Background(), id)
				return err == nil && d.over()
			})
			os.Rename(task.Dir+"x", task.Dir)
			if o := trial.Wait(t, e, h); o.Reason != executors.NotStarted || !strings.Contains(o.Detail, c.want) {
				t.Errorf("outcome %+v", o)
			}
		})
	}
}

// TestTaskOutlivesItsEngine: another engine finds it by its label and gets its
// outcome.
func TestTaskOutlivesItsEngine(t *testing.T) {
	cluster(t)
	task := newTask(t, "/bin/sh", "-c", "echo begun; while ! test -e go; do sleep 0.1; done; exit 5")
	task.Process.Env = []string{"PATH=/usr/bin:/bin"}
	cmd, h := trial.StartEngine(t, task)
	trial.File(t, task, "logs/runner.out")
	if err := cmd.Process.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()

	next := newExecutor(t, nil, filepath.Dir(task.Dir))
	run := task.Labels[executors.LabelRun]
	if list, err := next.List(context.Background(), run); err != nil || len(list) != 1 || list[0] != h {
		t.Fatalf("listed %v, %v; want %v", list, err, h)
	}
	if list, err := next.List(context.Background(), "another run"); err != nil || len(list) > 0 {
		t.Errorf("another run lists %v, %v", list, err)
	}
	if err := os.WriteFile(filepath.Join(task.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if err := next.Logs(context.Background(), h, &log); err != nil || log.String() != "begun\n" {
		t.Errorf("its log is %q, %v", log.String(), err)
	}
	if o := trial.Wait(t, next, h); o.Reason != executors.Exited || o.Code != 5 {
		t.Errorf("outcome %+v", o)
	}
	if err := next.Reap(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	if list, err := next.List(context.Background(), run); err != nil || len(list) > 0 {
		t.Errorf("after reaping: %v, %v", list, err)
	}
}

// TestOrphanIsEnded: the folder is gone, the job runs; it is found by its label
// and ended, and a job of somebody else is not.
func TestOrphanIsEnded(t *testing.T) {
	cluster(t)
	task := newTask(t, puppet.Self("sleeper", "-pid", "pid")...)
	e := newExecutor(t, nil)
	h, err := e.Start(context.Background(), task)
	if err != nil {
		t.Fatal(err)
	}
	trial.File(t, task, "pid")
	id, err := e.client.run(context.Background(), "#!/bin/sh\nsleep 300\n", "sbatch", "--parsable", "--output=/dev/null", "--job-name=sotabuild-of-somebody")
	if err != nil {
		t.Fatal(err)
	}
	id = strings.TrimSpace(id)
	defer e.client.run(context.Background(), "", "scancel", id)
	if err := os.RemoveAll(task.Dir); err != nil {
		t.Fatal(err)
	}
	list, err := e.List(context.Background(), task.Labels[executors.LabelRun])
	if err != nil || len(list) != 1 || list[0] != h {
		t.Fatalf("listed %v, %v; want %v", list, err, h)
	}
	forged := executors.Handle{Task: task.ID, Ref: id + ":" + task.Dir}
	for _, handle := range []executors.Handle{forged, h} {
		if err := e.Reap(context.Background(), handle); err != nil {
			t.Errorf("reaping %v: %v", handle, err)
		}
	}
	gone(t, e, task)
	if d, err := e.client.show(context.Background(), id); err != nil || d.over() {
		t.Errorf("somebody else's job is %s (%v)", d.state, err)
	}
}
