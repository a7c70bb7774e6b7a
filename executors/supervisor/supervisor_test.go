package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/internal/puppet"
	"github.com/sotabuild/sotabuild/executors/proc"
	"github.com/sotabuild/sotabuild/executors/runner"
)

func TestMain(m *testing.M) {
	puppet.Main()
	if len(os.Args) == 3 && os.Args[1] == "runner" {
		os.Exit(Main(os.Args[2]))
	}
	os.Exit(m.Run())
}

// job is one run of the supervisor as a real process.
type job struct {
	*testing.T
	dir    string
	spec   runner.Spec
	env    []string // the runner's own
	cmd    *exec.Cmd
	stderr bytes.Buffer
	life   *os.File // our end of the lifeline
}

// newJob makes a task folder. At the end of the test nothing of the task lives.
func newJob(t *testing.T, processes []runner.Process, steps ...runner.Step) *job {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	id := executors.TaskID(strings.ToLower(strings.ReplaceAll(filepath.Base(filepath.Dir(dir)), "_", "-")))
	id = id[max(0, len(id)-50):] + executors.TaskID(fmt.Sprintf("-%x", time.Now().UnixNano()&0xffffff))
	j := &job{T: t, dir: dir, spec: runner.Spec{Version: 1, Task: id, Processes: processes, Steps: steps}}
	if len(processes) > 0 {
		j.spec.Endpoint.Role = processes[0].Role
	}
	t.Cleanup(func() {
		if left := j.alive(); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		// The control group holds also what has no mark.
		if tree, err := runner.ReadTree(dir); err == nil && tree.Cgroup != "" {
			if _, err := os.Stat(tree.Cgroup); err == nil {
				t.Errorf("left behind: %s", tree.Cgroup)
			}
		}
	})
	return j
}

// serve is a puppet server that gets the time that it needs to go down.
func serve(role string, flags ...string) runner.Process {
	return runner.Process{
		Role: role, Count: 1, Argv: puppet.Self("server", append([]string{"-port", "{port}"}, flags...)...),
		Health: runner.Health{Path: "/health", Every: 10 * time.Millisecond},
		Stop:   runner.Stop{First: 20 * time.Second, Second: 20 * time.Second},
	}
}

// deaf makes a server ignore SIGTERM, and lets nobody wait long for it.
func deaf(p runner.Process) runner.Process {
	p.Argv = append(p.Argv, "-deaf")
	p.Stop = runner.Stop{First: 200 * time.Millisecond, Second: 100 * time.Millisecond}
	return p
}

func client(id string, flags ...string) runner.Step {
	return runner.Step{ID: id, Deadline: 30 * time.Second, Argv: puppet.Self("client", flags...)}
}

// alive returns what of the task lives, the runner included.
func (j *job) alive() []proc.Process {
	all, err := proc.List()
	if err != nil {
		j.Fatal(err)
	}
	return proc.Marked(all, executors.EnvTask+"="+string(j.spec.Task))
}

func (j *job) start() {
	j.Helper()
	if err := runner.WriteSpec(j.dir, j.spec); err != nil {
		j.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		j.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		j.Fatal(err)
	}
	j.life = write
	j.cmd = exec.Command(self, "runner", filepath.Join(j.dir, "spec.json"))
	j.cmd.Env = append(j.env, executors.EnvTask+"="+string(j.spec.Task), runner.EnvLifeline+"=3")
	j.cmd.Stderr, j.cmd.ExtraFiles = &j.stderr, []*os.File{read}
	if err := j.cmd.Start(); err != nil {
		j.Fatal(err)
	}
	read.Close()
}

// end waits for the runner, whose exit record it returns. At that moment
// nothing of the task lives.
func (j *job) end() runner.ExitRecord {
	j.Helper()
	err := j.cmd.Wait()
	if left := j.alive(); len(left) > 0 {
		j.Errorf("left behind: %v", left)
	}
	if err != nil {
		j.Fatalf("the runner failed: %v\n%s", err, j.stderr.String())
	}
	record, err := runner.ReadExit(j.dir)
	if err != nil {
		j.Fatal(err)
	}
	if !record.Alone {
		j.Error("its last word does not say that it was alone")
	}
	j.Logf("outcome %+v", record.Outcome)
	return record
}

func (j *job) run() runner.ExitRecord {
	j.Helper()
	j.start()
	return j.end()
}

func (j *job) step(id string) runner.StepRecord {
	j.Helper()
	r, err := runner.ReadStep(filepath.Join(j.dir, "steps", id))
	if err != nil {
		j.Fatal(err)
	}
	j.Logf("step %s: %+v", id, r.Outcome)
	return r
}

func (j *job) noStep(id string) {
	j.Helper()
	if _, err := runner.ReadStep(filepath.Join(j.dir, "steps", id)); !errors.Is(err, os.ErrNotExist) {
		j.Errorf("step %s has a record (%v); it did not finish", id, err)
	}
}

func (j *job) read(name string) string {
	j.Helper()
	text, err := os.ReadFile(filepath.Join(j.dir, name))
	if err != nil {
		j.Fatal(err)
	}
	return string(text)
}

// wait polls for a file that a puppet makes.
func (j *job) wait(name string) {
	j.Helper()
	j.until("file "+name, func() bool { _, err := os.Stat(filepath.Join(j.dir, name)); return err == nil })
}

// letGo lets the steps end that wait for it.
func (j *job) letGo() {
	j.Helper()
	if err := os.WriteFile(filepath.Join(j.dir, "go"), nil, 0o600); err != nil {
		j.Fatal(err)
	}
}

func (j *job) until(what string, ok func() bool) {
	j.Helper()
	for late := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(late) {
			j.Fatalf("no %s within a minute", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (j *job) outcome(got runner.StepOutcome, class executors.Class, words ...string) {
	j.Helper()
	if got.Class != class {
		j.Errorf("class %q, want %q: %s", got.Class, class, got.Reason)
	}
	for _, w := range words {
		if !strings.Contains(got.Reason, w) {
			j.Errorf("the reason does not say %q: %s", w, got.Reason)
		}
	}
}

func actions(p runner.ProcessRecord) string {
	var out []string
	for _, a := range p.Stops {
		out = append(out, a.Action)
	}
	return strings.Join(out, " ")
}

// TestGPUsThatTheExecutorChose: they take the place of the spec's, and a spec
// that declares what is visible is left alone.
func TestGPUsThatTheExecutorChose(t *testing.T) {
	chosen := client("chosen", "-env", "{step}/env")
	chosen.Env = []string{"CARDS={gpus}"}
	declared := client("declared", "-env", "{step}/env")
	declared.Env = []string{"CUDA_VISIBLE_DEVICES=7"}
	j := newJob(t, nil, chosen, declared)
	j.spec.GPUs = []string{"GPU-of-nobody"}
	j.env = []string{runner.EnvGPUs + "=3,5"}
	j.run()
	task := "SOTABUILD_TASK=" + string(j.spec.Task)
	for step, want := range map[string]string{
		"chosen":   "CARDS=3,5\nCUDA_VISIBLE_DEVICES=3,5\n" + task,
		"declared": "CUDA_VISIBLE_DEVICES=7\n" + task,
	} {
		if got := j.read("steps/" + step + "/env"); got != want {
			t.Errorf("%s: environment %q, want %q", step, got, want)
		}
	}
}

func TestServersAreStartedProvenUsedAndStopped(t *testing.T) {
	router := serve("router", "-needs", "{port:worker.1}")
	router.After = []string{"worker"}
	worker := serve("worker")
	worker.Count = 2
	ask := client("ask", "-get", "{url}/a", "-out", "{step}/answer", "-env", "{step}/env")
	ask.Env = []string{"A=1", "PLACE={out}", "CARDS={gpus}"}
	ask.Outputs = []string{"answer", "env"}
	j := newJob(t, []runner.Process{router, worker}, ask, client("two"))
	j.spec.GPUs = []string{"GPU-a", "GPU-b"}
	j.env = []string{"HOST_ONLY=1"}
	record := j.run()

	j.outcome(record.Outcome, "")
	j.outcome(j.step("ask").Outcome, "")
	j.outcome(j.step("two").Outcome, "")
	if got := j.read("steps/ask/answer"); got != "hello from /a" {
		t.Errorf("the client got %q", got)
	}
	want := []string{"A=1", "PLACE=" + j.dir, "CARDS=GPU-a,GPU-b", "SOTABUILD_TASK=" + string(j.spec.Task)}
	if got := strings.Split(j.read("steps/ask/env"), "\n"); !slices.Equal(got, want) {
		t.Errorf("environment %q, want exactly %q", got, want)
	}
	var names []string
	ports := map[int]bool{}
	for _, p := range record.Processes {
		names = append(names, p.Name)
		ports[p.Port] = true
		if p.Port < 20000 || p.Port > 65535 || p.Port >= 32768 && p.Port <= 60999 {
			t.Errorf("%s: port %d is in the ephemeral range", p.Name, p.Port)
		}
		if p.Exit == nil || *p.Exit != 0 || p.Early || actions(p) != "TERM" {
			t.Errorf("%s: %+v, want an exit with 0 after one TERM", p.Name, p)
		}
		if l, h := p.Phases["listen"], p.Phases["healthy"]; l <= 0 || h < l {
			t.Errorf("%s: phases %v", p.Name, p.Phases)
		}
	}
	if !slices.Equal(names, []string{"worker.0", "worker.1", "router.0"}) || len(ports) != 3 {
		t.Errorf("processes %v on ports %v", names, ports)
	}
	if w := record.Processes[1]; record.Processes[2].Started.Before(w.Healthy) {
		t.Error("the router started before a worker was healthy")
	}
	if len(record.Left)+len(record.Removed) > 0 || record.Before.Processes == 0 {
		t.Errorf("record %+v", record)
	}
}

func TestDeafTreeIsKilledAndAStrangerOfTheSameNameLives(t *testing.T) {
	j := newJob(t, []runner.Process{deaf(serve("server", "-fork", "{out}/orphan", "-bare"))}, client("one", "-started", "{step}/started", "-until", "{out}/go"))
	argv := puppet.Self("sleeper", "-pid", filepath.Join(j.dir, "stranger"))
	stranger := exec.Command(argv[0], argv[1:]...)
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stranger.Process.Kill()
		stranger.Wait()
	}()
	j.start()
	j.wait("orphan")
	var pid int
	fmt.Sscan(j.read("orphan"), &pid)
	orphan, err := proc.Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	j.letGo()
	record := j.end()
	j.outcome(record.Outcome, "")
	p := record.Processes[0]
	if actions(p) != "TERM TERM KILL" || p.Signal != "killed" {
		t.Errorf("server: %+v", p)
	}
	if gap := p.Stops[1].At.Sub(p.Stops[0].At); gap < 200*time.Millisecond || gap > 20*time.Second {
		t.Errorf("the second TERM came %s after the first, want 200 ms", gap)
	}
	if orphan.Alive() {
		t.Error("the orphan in a session of its own, with an empty environment, lives")
	}
	if !(proc.ID{Pid: stranger.Process.Pid, Start: start(t, stranger.Process.Pid)}).Alive() {
		t.Error("a stranger was killed")
	}
}

func start(t *testing.T, pid int) uint64 {
	p, err := proc.Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	return p.Start
}

func TestSlowServerHasTimeToClose(t *testing.T) {
	slow := serve("server", "-slow", "300ms")
	slow.Stop = runner.Stop{First: 10 * time.Second}
	j := newJob(t, []runner.Process{slow})
	p := j.run().Processes[0]
	if took := p.Stops[0].At; actions(p) != "TERM" || p.Exit == nil || *p.Exit != 0 || took.IsZero() {
		t.Errorf("server: %+v, want one TERM and exit 0", p)
	}
}

func TestServerThatDiesTakesItsStepWithIt(t *testing.T) {
	dying := serve("server", "-say", "CUDA error 700 somewhere", "-die-at", "2", "-code", "0")
	j := newJob(t, []runner.Process{dying}, client("first", "-get", "{url}/x"), client("second", "-get", "{url}/y"), client("third"))
	record := j.run()
	j.outcome(j.step("first").Outcome, "")
	j.outcome(j.step("second").Outcome, executors.ClassServerDied, "server.0 was ended by SIGSEGV", "CUDA error 700")
	j.noStep("third")
	j.outcome(record.Outcome, executors.ClassServerDied, "SIGSEGV")
	if p := record.Processes[0]; !p.Early || p.Signal != "segmentation fault" || p.Exit != nil {
		t.Errorf("server: %+v", p)
	}
}

func TestServerThatDiesEndsAClientThatDoesNotNotice(t *testing.T) {
	dying := serve("server", "-die-at", "1", "-code", "3", "-say", "torch.OutOfMemoryError: CUDA out of memory")
	dying.Failures = []runner.Failure{{Match: "no such text", Class: "other"}, {Match: `CUDA out of memory`, Class: executors.ClassOOM}}
	j := newJob(t, []runner.Process{dying}, client("ask", "-started", "{step}/started", "-deaf"))
	j.start()
	j.wait("steps/ask/started")
	var port int
	for line := range strings.Lines(j.read("logs/runner.log")) {
		if _, after, ok := strings.Cut(line, "on port "); ok {
			fmt.Sscan(after, &port)
		}
	}
	poke := exec.Command(puppet.Self("client")[0], puppet.Self("client", "-get", fmt.Sprintf("http://127.0.0.1:%d/x", port))[1:]...)
	if err := poke.Run(); err == nil {
		t.Fatal("the server answered instead of dying")
	}
	record := j.end()
	j.outcome(j.step("ask").Outcome, executors.ClassOOM, "exited with code 3")
	j.outcome(record.Outcome, executors.ClassOOM)
	if r := j.step("ask"); r.Signal != "killed" {
		t.Errorf("the client ended by %q, want killed", r.Signal)
	}
}

func TestServerThatIsNeverHealthy(t *testing.T) {
	j := newJob(t, []runner.Process{serve("server", "-status", "503", "-say", "Loading model")}, client("one"))
	j.spec.Deadlines.Start = 5 * time.Second // so that it has long listened by then
	j.outcome(j.run().Outcome, executors.ClassUnhealthy, "answers 503, not 200", "5s", "Loading model")
	j.noStep("one")
}

func TestServerThatCannotBeExecuted(t *testing.T) {
	bad := serve("server")
	bad.Argv = []string{"/no/such/server"}
	j := newJob(t, []runner.Process{bad}, client("one"))
	j.outcome(j.run().Outcome, executors.ClassStartFailed, "/no/such/server", "no such file")

	t.Run("without_a_declared_path", func(t *testing.T) {
		bad.Argv = []string{"sh"}
		j := newJob(t, []runner.Process{bad}, client("one"))
		j.env = []string{"PATH=/bin"}
		j.outcome(j.run().Outcome, executors.ClassStartFailed, "declares no PATH")
	})
}

func TestServerWhosePortIsLostStartsAgain(t *testing.T) {
	j := newJob(t, []runner.Process{serve("server", "-once", "{out}/once")}, client("one", "-get", "{url}/"))
	record := j.run()
	j.outcome(record.Outcome, "")
	j.outcome(j.step("one").Outcome, "")
	if log := j.read("logs/runner.log"); strings.Count(log, "started as pid") != 2 || !strings.Contains(log, "try 1") {
		t.Errorf("it was not started twice:\n%s", log)
	}
	if len(record.Processes) != 1 || record.Processes[0].Early {
		t.Errorf("processes %+v, want the last life only", record.Processes)
	}
}

func TestIdentityThatDoesNotMatch(t *testing.T) {
	s := serve("server")
	s.Health.Identity = runner.Identity{Path: "/id", Contains: "my-model"}
	j := newJob(t, []runner.Process{s}, client("one"))
	j.outcome(j.run().Outcome, executors.ClassNotOurs, "my-model", "hello from /id")
}

// TestARecordThatCannotBeWrittenLeavesNoServer: a folder stands where up.json
// has to go, so the rename fails after the servers are up.
func TestARecordThatCannotBeWrittenLeavesNoServer(t *testing.T) {
	j := newJob(t, []runner.Process{serve("server")}, client("one", "-get", "{url}/a"))
	if err := os.MkdirAll(filepath.Join(j.dir, "up.json", "taken"), 0o755); err != nil {
		t.Fatal(err)
	}
	j.start()
	if err := j.cmd.Wait(); err == nil {
		t.Error("the runner says that all was written")
	}
	if left := j.alive(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if !strings.Contains(j.stderr.String(), "up.json") {
		t.Errorf("the message does not name the file: %s", j.stderr.String())
	}
}
