package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/internal/trial"
	"github.com/sotabuild/sotabuild/executors/slurm/job"
)

// A fake Slurm is a folder with our test binary under the names of Slurm's
// programs. What they say is recorded from 22.05:
//
//	sbatch.plan  a line a call: "ok ID", "late ID" (queued, and an error), or an
//	             error text; calls beyond the last line are as the last
//	queue        ID|STATE|REASON|NAME|COMMENT|FOLDER, a line a job
//	show-ID      what scontrol says of a job
//	down         nobody answers
//	calls        what was called, a line each; env: the last one's environment

// fakeMain is a program of Slurm, if we were called as one.
func fakeMain() {
	name := filepath.Base(os.Args[0])
	programs := map[string]func(dir string, args []string) int{
		"sbatch": fakeSbatch, "squeue": fakeSqueue, "scontrol": fakeScontrol, "scancel": fakeScancel, "sinfo": fakeSinfo,
	}
	do, ok := programs[name]
	if !ok {
		return
	}
	dir := filepath.Dir(os.Args[0])
	note(dir, name+" "+strings.Join(os.Args[1:], " "))
	os.WriteFile(filepath.Join(dir, "env"), []byte(strings.Join(os.Environ(), "\n")), 0o600)
	if _, err := os.Stat(filepath.Join(dir, "down")); err == nil {
		fmt.Fprintf(os.Stderr, "%s: error: Unable to contact slurm controller (connect failure)\n", name)
		os.Exit(1)
	}
	os.Exit(do(dir, os.Args[1:]))
}

func note(dir, line string) {
	f, err := os.OpenFile(filepath.Join(dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(f, line)
		f.Close()
	}
}

func flagOf(args []string, name string) string {
	for _, a := range args {
		if value, ok := strings.CutPrefix(a, name+"="); ok {
			return value
		}
	}
	return ""
}

func lines(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func fakeSbatch(dir string, args []string) int {
	called := 0
	for _, line := range lines(filepath.Join(dir, "calls")) {
		if strings.HasPrefix(line, "sbatch ") {
			called++
		}
	}
	plan := lines(filepath.Join(dir, "sbatch.plan"))
	say := plan[min(called, len(plan))-1]
	verb, id, _ := strings.Cut(say, " ")
	if verb != "ok" && verb != "late" {
		fmt.Fprintln(os.Stderr, "sbatch: error: "+say)
		return 1
	}
	f, err := os.OpenFile(filepath.Join(dir, "queue"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 98
	}
	fmt.Fprintf(f, "%s|PENDING|None|%s|%s|%s\n", id, flagOf(args, "--job-name"), flagOf(args, "--comment"), flagOf(args, "--chdir"))
	f.Close()
	if verb == "late" {
		fmt.Fprintln(os.Stderr, "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation")
		return 1
	}
	fmt.Println(id)
	return 0
}

func fakeSqueue(dir string, args []string) int {
	ids := strings.Split(flagOf(args, "--jobs"), ",")
	shown := 0
	for _, line := range lines(filepath.Join(dir, "queue")) {
		f := strings.Split(line, "|")
		if len(f) != 6 || ids[0] != "" && !slices.Contains(ids, f[0]) || flagOf(args, "--name") != "" && flagOf(args, "--name") != f[3] {
			continue
		}
		shown++
		if ids[0] != "" {
			fmt.Println(strings.Join(f[:3], "|"))
		} else {
			fmt.Println(strings.Join([]string{f[0], f[1], f[3], f[4], f[5]}, "|"))
		}
	}
	if shown == 0 && len(ids) == 1 && ids[0] != "" {
		fmt.Fprintln(os.Stderr, "slurm_load_jobs error: Invalid job id specified")
		return 1
	}
	return 0
}

func fakeScontrol(dir string, args []string) int {
	if slices.Equal(args, []string{"show", "config"}) {
		fmt.Println("KillOnBadExit           = 0\nKillWait                = 30 sec\nLaunchParameters        = (null)")
		return 0
	}
	text, err := os.ReadFile(filepath.Join(dir, "show-"+args[len(args)-1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "slurm_load_jobs error: Invalid job id specified")
		return 1
	}
	os.Stdout.Write(text)
	return 0
}

func fakeScancel(string, []string) int { return 0 }

func fakeSinfo(string, []string) int {
	fmt.Println("4 4096\n16 65536")
	return 0
}

// fake is a fake Slurm with an executor on it.
type fake struct {
	t   *testing.T
	dir string
	e   *Executor
}

func newFake(t *testing.T, set map[string]string) fake {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"sbatch", "squeue", "scontrol", "scancel", "sinfo"} {
		if err := os.Symlink(trial.Self(), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if set == nil {
		set = map[string]string{}
	}
	set["bin"] = dir
	e, err := New(Config{Self: trial.Self(), Options: set, FileGrace: 200 * time.Millisecond, LostGrace: 500 * time.Millisecond, StartPatience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	f := fake{t, dir, e}
	f.write("sbatch.plan", "ok 17")
	return f
}

// write makes a file at once: a program of Slurm may read it at this moment.
func (f fake) write(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		f.t.Fatal(err)
	}
}

// says makes the queue say this of job 17, and scontrol the same with an exit
// code.
func (f fake) says(state, reason, exit string) {
	f.t.Helper()
	f.write("queue", fmt.Sprintf("17|%s|%s|n|c|/d\n", state, reason))
	f.write("show-17", fmt.Sprintf("JobId=17 JobName=n UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=1 Nice=0 Account=(null) QOS=(null) "+
		"JobState=%s Reason=%s Dependency=(null) Requeue=0 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=%s RunTime=00:00:02 "+
		"ReqNodeList=(null) ExcNodeList=(null) NodeList=node1 BatchHost=node1 NumNodes=1 WorkDir=/d JobState=X\n", state, reason, exit))
}

func (f fake) calls(name string) (found []string) {
	for _, line := range lines(filepath.Join(f.dir, "calls")) {
		if strings.HasPrefix(line, name+" ") {
			found = append(found, line)
		}
	}
	return found
}

func (f fake) task() executors.Task {
	return executors.Task{ID: "task-1", Dir: f.t.TempDir(), Process: specs.Process{Args: []string{"/bin/true"}}, Labels: map[string]string{executors.LabelRun: "r"}}
}

func (f fake) start(task executors.Task) executors.Handle {
	f.t.Helper()
	h, err := f.e.Start(context.Background(), task)
	if err != nil {
		f.t.Fatal(err)
	}
	return h
}

// begun makes the task's folder look as after the job's first moment.
func begun(t *testing.T, task executors.Task, id string) {
	t.Helper()
	folder := filepath.Join(task.Dir, job.Folder)
	if ok, err := job.Claim(folder); !ok || err != nil {
		t.Fatal(ok, err)
	}
	record(t, folder, "begin.json", job.Begin{Job: id, Node: "node1"})
}

func record(t *testing.T, folder, name string, v any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".new"), text, 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(folder, name+".new"), filepath.Join(folder, name))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestSlurmsWordAboutATaskWithoutRecord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state, reason, exit string
		begun               bool
		want                executors.Reason
		says                string
	}{
		{"TIMEOUT", "TimeLimit", "0:15", true, executors.TimedOut, "time limit"},
		{"DEADLINE", "DeadLine", "0:0", true, executors.TimedOut, "time limit"},
		{"OUT_OF_MEMORY", "OutOfMemory", "0:125", true, executors.OOM, "mem"},
		{"CANCELLED", "None", "0:15", true, executors.Stopped, "somebody cancelled"},
		{"PREEMPTED", "None", "0:15", true, executors.Preempted, "higher priority"},
		{"FAILED", "JobLaunchFailure", "0:9", true, executors.Signaled, "no record"},
		{"NODE_FAIL", "NodeDown", "0:0", true, executors.Lost, "node node1 is lost"},
		{"COMPLETED", "None", "0:0", true, executors.Lost, "no sign of life"},
		{"FAILED", "NonZeroExitCode", "75:0", true, executors.Lost, "no sign of life"},
		{"CANCELLED", "None", "0:15", false, executors.Stopped, "before it began"},
		{"CANCELLED", "DependencyNeverSatisfied", "0:0", false, executors.NotStarted, "before it began"},
		{"BOOT_FAIL", "None", "0:0", false, executors.NotStarted, "before it began"},
		{"NODE_FAIL", "NodeDown", "0:0", false, executors.NotStarted, "before it began"},
		{"FAILED", "JobLaunchFailure", "0:53", false, executors.NotStarted, "share"},
		{"FAILED", "NonZeroExitCode", "66:0", false, executors.NotStarted, "does not see"},
		{"FAILED", "NonZeroExitCode", "74:0", false, executors.NotStarted, "cannot write"},
		{"FAILED", "NonZeroExitCode", "127:0", false, executors.NotStarted, "cannot execute"},
		{"PENDING", "PartitionTimeLimit", "0:0", false, executors.NotStarted, "write options = { time"},
	} {
		t.Run(fmt.Sprintf("%s_%s_%t", c.state, c.exit, c.begun), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, nil)
			task := f.task()
			h := f.start(task)
			if c.begun {
				begun(t, task, "17")
			}
			f.says(c.state, c.reason, c.exit)
			o := trial.Wait(t, f.e, h)
			if o.Reason != c.want || !strings.Contains(o.Detail, c.says) {
				t.Errorf("outcome %+v, want %s and %q", o, c.want, c.says)
			}
			signal := map[bool]string{true: "killed"}[c.want == executors.Signaled]
			if o.Signal != signal || o.Code != 0 {
				t.Errorf("outcome %+v, want signal %q and no code", o, signal)
			}
			// After this nothing may begin any more.
			if mine, err := job.Claim(filepath.Join(task.Dir, job.Folder)); mine || err != nil {
				t.Errorf("a job could still begin (%t, %v)", mine, err)
			}
			if c.state == "PENDING" && len(f.calls("scancel")) != 1 {
				t.Errorf("calls of scancel: %q", f.calls("scancel"))
			}
		})
	}
}

func TestForgottenJob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		begun bool
		want  executors.Reason
	}{{true, executors.Lost}, {false, executors.NotStarted}} {
		t.Run(fmt.Sprint(c.begun), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, nil)
			task := f.task()
			h := f.start(task)
			if c.begun {
				begun(t, task, "17")
			}
			f.write("queue", "")
			if o := trial.Wait(t, f.e, h); o.Reason != c.want || !strings.Contains(o.Detail, "forgotten") {
				t.Errorf("outcome %+v, want %s", o, c.want)
			}
		})
	}
}

// TestForgottenJobThatLives: as long as the job shows signs of life its task is
// not lost, and its record is believed.
func TestForgottenJobThatLives(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	f.e.LostGrace = 2 * time.Second
	task := f.task()
	h := f.start(task)
	begun(t, task, "17")
	f.write("queue", "")
	folder := filepath.Join(task.Dir, job.Folder)
	ctx, stop := context.WithCancel(context.Background())
	var beats sync.WaitGroup
	beats.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			os.WriteFile(filepath.Join(folder, "beat"), []byte(fmt.Sprint(i)), 0o600)
			pause(ctx, 50*time.Millisecond)
		}
	})
	ended := make(chan executors.Outcome, 1)
	go func() { o, _ := f.e.Wait(context.Background(), h); ended <- o }()
	// Three answers are more than LostGrace.
	trial.Until(t, 30*time.Second, "three questions", func() bool { return len(f.calls("squeue")) >= 3 })
	select {
	case o := <-ended:
		t.Errorf("it was given up: %+v", o)
	default:
		record(t, folder, "end.json", job.End{Task: task.ID, Outcome: executors.Outcome{Reason: executors.Exited, Code: 3}})
		if o := <-ended; o.Reason != executors.Exited || o.Code != 3 {
			t.Errorf("outcome %+v", o)
		}
	}
	stop()
	beats.Wait()
}

// TestStopOfAForgottenJob: Slurm tells it nothing, and it heeds the order in its
// folder.
func TestStopOfAForgottenJob(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	f.e.LostGrace = time.Minute
	task := f.task()
	h := f.start(task)
	begun(t, task, "17")
	f.write("queue", "")
	folder := filepath.Join(task.Dir, job.Folder)
	stopped := make(chan error, 1)
	go func() { stopped <- f.e.Stop(context.Background(), h, time.Second) }()
	trial.Until(t, 30*time.Second, "the order to stop", func() bool { _, err := os.Stat(filepath.Join(folder, "stop.json")); return err == nil })
	select {
	case err := <-stopped:
		t.Errorf("the stop ended (%v), and nobody knows whether the job lives", err)
	default:
	}
	record(t, folder, "end.json", job.End{Task: task.ID, Told: true, Outcome: executors.Outcome{Reason: executors.Exited}})
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if o := trial.Wait(t, f.e, h); o.Reason != executors.Stopped || o.Detail != "exited 0" {
		t.Errorf("outcome %+v", o)
	}
}

// TestStatesThatAreNoEnd: also those that this version does not know.
func TestStatesThatAreNoEnd(t *testing.T) {
	t.Parallel()
	for _, state := range append(slices.Clone(goesOn), "A_STATE_OF_TOMORROW") {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, nil)
			h := f.start(f.task())
			f.says(state, "BeginTime", "0:0")
			ctx, done := context.WithCancel(context.Background())
			defer done()
			go func() {
				trial.Until(t, 30*time.Second, "two questions", func() bool { return len(f.calls("squeue")) >= 2 })
				done()
			}()
			if o, err := f.e.Wait(ctx, h); !errors.Is(err, context.Canceled) {
				t.Errorf("it ended: %+v, %v", o, err)
			}
		})
	}
}

// TestRecordComesLate: Slurm says at once that the job has ended; its record
// takes its time through the network.
func TestRecordComesLate(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	f.e.FileGrace = 20 * time.Second
	task := f.task()
	h := f.start(task)
	begun(t, task, "17")
	f.says("COMPLETED", "None", "0:0")
	go func() {
		trial.Until(t, 30*time.Second, "two answers", func() bool { return len(f.calls("squeue")) >= 2 })
		record(t, filepath.Join(task.Dir, job.Folder), "end.json", job.End{Task: task.ID, Outcome: executors.Outcome{Reason: executors.Exited, Code: 4}})
	}()
	if o := trial.Wait(t, f.e, h); o.Reason != executors.Exited || o.Code != 4 {
		t.Errorf("outcome %+v", o)
	}
}

// TestTermFromSlurm: the job left a record, and what ended it only Slurm knows.
func TestTermFromSlurm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state string
		told  bool
		o     executors.Outcome
		want  executors.Reason
	}{
		{"PREEMPTED", true, executors.Outcome{Reason: executors.Exited}, executors.Preempted},
		{"NODE_FAIL", true, executors.Outcome{Reason: executors.Exited, Code: 3}, executors.Preempted},
		{"NODE_FAIL", false, executors.Outcome{Reason: executors.Exited}, executors.Exited}, // it was done before
		{"TIMEOUT", true, executors.Outcome{Reason: executors.Signaled, Signal: "terminated"}, executors.TimedOut},
		{"OUT_OF_MEMORY", false, executors.Outcome{Reason: executors.Signaled, Signal: "killed"}, executors.OOM},
		{"FAILED", false, executors.Outcome{Reason: executors.Signaled, Signal: "killed"}, executors.Signaled},
		{"FAILED", true, executors.Outcome{Reason: executors.Exited, Code: 12}, executors.Stopped},
		{"CANCELLED", false, executors.Outcome{Reason: executors.Exited, Code: 5}, executors.Exited}, // it was done before
	} {
		t.Run(c.state+"_"+string(c.want), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, nil)
			task := f.task()
			h := f.start(task)
			begun(t, task, "17")
			f.says(c.state, "None", "0:15")
			record(t, filepath.Join(task.Dir, job.Folder), "end.json", job.End{Begin: job.Begin{Job: "17"}, Task: task.ID, Told: c.told, Outcome: c.o})
			if o := trial.Wait(t, f.e, h); o.Reason != c.want {
				t.Errorf("outcome %+v, want %s", o, c.want)
			}
		})
	}
}

func TestControllerAwayInMidTask(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	task := f.task()
	h := f.start(task)
	begun(t, task, "17")
	f.write("down", "")
	go func() {
		trial.Until(t, 30*time.Second, "a question", func() bool { return len(f.calls("squeue")) >= 1 })
		record(t, filepath.Join(task.Dir, job.Folder), "end.json", job.End{Task: task.ID, Outcome: executors.Outcome{Reason: executors.Exited, Code: 6}})
	}()
	if o := trial.Wait(t, f.e, h); o.Reason != executors.Exited || o.Code != 6 {
		t.Errorf("outcome %+v", o)
	}
}

func TestControllerAwayAtTheStart(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	f.write("sbatch.plan", "Batch job submission failed: Unable to contact slurm controller (connect failure)\nok 18")
	if h := f.start(f.task()); !strings.HasPrefix(h.Ref, "18:") {
		t.Errorf("handle %+v", h)
	}
	f.write("down", "")
	f.e.StartPatience = time.Nanosecond
	if h, err := f.e.Start(context.Background(), f.task()); err == nil || !away(err) {
		t.Errorf("started %+v, %v", h, err)
	}
	next := newFake(t, nil)
	next.write("down", "")
	if err := next.e.Check(next.task()); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("check says %v", err)
	}
}

// TestSbatchThatFailedTooLate: the controller has queued the job, and sbatch
// says that it timed out.
func TestSbatchThatFailedTooLate(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	f.write("sbatch.plan", "late 23\nok 24")
	if h := f.start(f.task()); !strings.HasPrefix(h.Ref, "23:") {
		t.Errorf("handle %+v", h)
	}
	if calls := f.calls("sbatch"); len(calls) != 1 {
		t.Errorf("it was submitted %d times", len(calls))
	}
}

func TestManyWaitsAreOneQuestion(t *testing.T) {
	t.Parallel()
	const n = 60
	f := newFake(t, nil)
	var plan, queue strings.Builder
	for i := range n {
		fmt.Fprintf(&plan, "ok %d\n", 100+i)
	}
	f.write("sbatch.plan", plan.String())
	ctx, done := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range n {
		task := f.task()
		task.ID = executors.TaskID(fmt.Sprintf("task-%d", i))
		h := f.start(task)
		all.Go(func() {
			if _, err := f.e.Wait(ctx, h); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		fmt.Fprintf(&queue, "%d|RUNNING|None|n|c|/d\n", 100+i)
	}
	f.write("queue", queue.String())
	pauses := func() time.Duration {
		f.e.queue.mu.Lock()
		defer f.e.queue.mu.Unlock()
		return f.e.queue.pause
	}
	trial.Until(t, 60*time.Second, "longer pauses while nothing changes", func() bool { return pauses() > 2*time.Second })
	done()
	all.Wait()
	calls := f.calls("squeue")
	last := calls[len(calls)-1]
	if ids := strings.Split(flagOf(strings.Fields(last), "--jobs"), ","); len(ids) != n || ids[0] != "100" {
		t.Errorf("the last question is about %d jobs: %s", len(ids), last)
	}
	if jobs := f.e.queue.jobs; len(jobs) > 0 {
		t.Errorf("nobody waits any more, and the queue has %v", jobs)
	}
}

func TestEnvironmentOfOurCalls(t *testing.T) {
	for _, v := range []string{"SBATCH_PARTITION", "SQUEUE_FORMAT", "SLURM_TIME_FORMAT", "SLURM_JOB_ID", "SCANCEL_BATCH", "HF_TOKEN"} {
		t.Setenv(v, "poison")
	}
	t.Setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
	for set, conf := range map[string]string{"": "/etc/slurm/slurm.conf", "/other/slurm.conf": "/other/slurm.conf"} {
		options := map[string]string{}
		if set != "" {
			options["conf"] = set
		}
		f := newFake(t, options)
		f.start(f.task())
		env := lines(filepath.Join(f.dir, "env"))
		if !slices.Contains(env, "SLURM_CONF="+conf) || strings.Contains(strings.Join(env, "\n"), "poison") {
			t.Errorf("sbatch got %q", env)
		}
	}
}

func TestCommandLineOfSbatch(t *testing.T) {
	t.Parallel()
	f := newFake(t, map[string]string{
		"partition": "gpu,long", "account": "a", "qos": "q", "reservation": "r", "constraint": "h200&nvlink", "nodelist": "gpu[01-04]",
		"exclude": "gpu02", "exclusive": "true", "gres": "gpu:h200", "cpus": "3", "mem": "7G", "extra": "--licenses=x --nice=10", "poll": "60s",
	})
	task := f.task()
	task.Labels[executors.LabelRun] = "run one|two"
	task.Resources = executors.Resources{GPUs: []string{"0", "1"}, CPUs: 8, Memory: 10<<20 + 1}
	task.Deadline, task.StopGrace = 90*time.Second, 10*time.Second
	f.start(task)
	s, err := place(task.Dir).read()
	if err != nil || !strings.HasPrefix(s.Name, "sotabuild-task-1-") {
		t.Fatalf("%+v, %v", s, err)
	}
	want := "sbatch --parsable --no-requeue --kill-on-invalid-dep=yes --export=ALL --job-name=" + s.Name + " --comment=sotabuild run=run+one%7Ctwo" +
		" --chdir=" + task.Dir + " --input=/dev/null --output=" + task.Dir + "/.slurm/job.out --open-mode=append --nodes=1 --ntasks=1" +
		" --partition=gpu,long --account=a --qos=q --reservation=r --constraint=h200&nvlink --nodelist=gpu[01-04] --exclude=gpu02" +
		" --exclusive --gres=gpu:h200:2 --cpus-per-task=8 --mem=11M --time=4 --licenses=x --nice=10"
	if got := f.calls("sbatch"); !slices.Equal(got, []string{want}) {
		t.Errorf("called\n%q, want\n%q", got, want)
	}
	plain := newFake(t, map[string]string{"cpus": "3", "mem": "7G", "time": "1-00:00:00"})
	task = plain.task()
	task.Deadline = time.Hour
	plain.start(task)
	if got := plain.calls("sbatch")[0]; !strings.HasSuffix(got, " --ntasks=1 --cpus-per-task=3 --mem=7G --time=1-00:00:00") {
		t.Errorf("called %q", got)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, want string }{
		{"partitions", "gpu", "there are partition, account"},
		{"partition", "a b", "write names"},
		{"constraint", "a;b", "write features"},
		{"exclusive", "yes", "true"},
		{"gres", "gpu:2", "without a count"},
		{"time", "1h", "D-H:MM:SS"},
		{"cpus", "0", "number of CPUs"},
		{"mem", "64 GB", "64G"},
		{"extra", "-p gpu", "long flags"},
		{"extra", "--nice=1 --wrap=x", "--wrap"},
		{"extra", "--job-name=x", "--job-name"},
		{"poll", "1m", "60s"},
		{"bin", "slurm/bin", "absolute"},
		{"bin", "/no/such", "holds no program sbatch"},
		{"conf", "slurm.conf", "absolute"},
	} {
		_, err := New(Config{Self: trial.Self(), Options: map[string]string{c.name: c.value}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %q: %v, want %q", c.name, c.value, err, c.want)
		}
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	if got, want := quote(`/a b/it's $x`), `'/a b/it'\''s $x'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
