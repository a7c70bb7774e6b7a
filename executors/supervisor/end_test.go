package supervisor

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/internal/puppet"
	"github.com/sotabuild/sotabuild/executors/runner"
)

func TestPortThatSomebodyElseHolds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := serve("server", "-touch", "{out}/ran")
	s.Port = l.Addr().(*net.TCPAddr).Port
	j := newJob(t, []runner.Process{s}, client("one"))
	record := j.run()
	j.outcome(record.Outcome, executors.ClassPortInUse, fmt.Sprintf("port %d is held by pid %d", s.Port, os.Getpid()))
	if _, err := os.Stat(filepath.Join(j.dir, "ran")); err == nil || len(record.Processes) > 0 {
		t.Error("the server was started all the same")
	}
}

func TestStrangerThatAnswersForTheServer(t *testing.T) {
	port := puppet.Port()
	s := serve("server", "-touch", "{out}/started")
	s.Argv = puppet.Self("server", "-touch", "{out}/started") // it never listens
	s.Port = port
	j := newJob(t, []runner.Process{s}, client("one"))
	j.start()
	j.wait("started")
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	stranger := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {})}
	go stranger.Serve(l)
	defer stranger.Close()
	j.outcome(j.end().Outcome, executors.ClassNotOurs, fmt.Sprintf("pid %d", os.Getpid()))
	j.noStep("one")
}

func TestStepsAreJudged(t *testing.T) {
	steps := []struct {
		step  runner.Step
		class executors.Class
		words string
	}{
		{client("code", "-code", "3"), executors.ClassClientFailed, "exited with code 3"},
		{client("signal", "-signal", "9"), executors.ClassClientFailed, "killed"},
		{client("any", "-code", "3"), "", ""},
		{client("verdict", "-text", "{step}/outcome.json={\"class\":\"sla_failed\",\"reason\":\"too slow\"}"), "sla_failed", "too slow"},
		{client("lies", "-text", "{step}/outcome.json={}", "-code", "1"), executors.ClassClientFailed, "verdict is ok, but it exited with code 1"},
		{client("strange", "-text", "{step}/outcome.json={\"klass\":\"x\"}"), executors.ClassClientFailed, "klass"},
		{client("missing"), executors.ClassNoOutput, "row.json is missing"},
		{client("empty", "-text", "{step}/row.json="), executors.ClassNoOutput, "row.json is empty"},
		{client("link", "-link", "{step}/row.json"), executors.ClassNoOutput, "no regular file"},
		{client("late", "-started", "{step}/started", "-deaf"), executors.ClassTimeout, "deadline of 300ms"},
		{client("good", "-text", "{step}/row.json=1"), "", ""},
	}
	var list []runner.Step
	for i := range steps {
		s := &steps[i].step
		switch s.ID {
		case "any":
			s.AnyExit = true
		case "late":
			s.Deadline = 300 * time.Millisecond
		case "missing", "empty", "link", "good":
			s.Outputs = []string{"row.json"}
		}
		list = append(list, *s)
	}
	j := newJob(t, []runner.Process{serve("server")}, list...)
	record := j.run()
	j.outcome(record.Outcome, "")
	for _, s := range steps {
		r := j.step(s.step.ID)
		j.outcome(r.Outcome, s.class, s.words)
		if r.Ended.Before(r.Started) || r.Task != j.spec.Task {
			t.Errorf("step %s: %+v", s.step.ID, r)
		}
	}
	if r := j.step("any"); r.Exit == nil || *r.Exit != 3 {
		t.Errorf("exit of any: %v, want 3", r.Exit)
	}
}

func TestTaskWithoutServers(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("elsewhere")) }))
	defer elsewhere.Close()
	help := client("help", "-get", "{url}/x", "-out", "{step}/answer", "-print", "TEXT")
	help.Env, help.Outputs, help.Stdout, help.Stderr = []string{"TEXT=usage: x"}, []string{"answer", "help.txt"}, "help.txt", "help.txt"
	j := newJob(t, nil, help)
	j.spec.Endpoint.URL = elsewhere.URL + "/"
	j.outcome(j.run().Outcome, "")
	j.outcome(j.step("help").Outcome, "")
	if got := j.read("steps/help/answer") + " " + j.read("steps/help/help.txt"); got != "elsewhere usage: x\n" {
		t.Errorf("got %q", got)
	}
}

func TestSecretsAreInNothingWritten(t *testing.T) {
	const value = "hf_aBcDeFgHiJkLmN"
	s := serve("server", "-split", "HF_TOKEN", "-say", "argv has "+value)
	one := client("one", "-print", "HF_TOKEN", "-get", "{url}/"+value)
	one.Stdout = "printed"
	j := newJob(t, []runner.Process{s}, one, client("two", "-print", "HF_TOKEN", "-code", "1"))
	j.spec.Secrets = []string{"HF_TOKEN"}
	j.spec.Probes = []runner.Probe{{Name: "echo", Argv: []string{"echo", value}}}
	j.env = []string{"HF_TOKEN=" + value}
	j.outcome(j.run().Outcome, "")
	if got := j.read("logs/server.0.log"); !strings.Contains(got, "token [HF_TOKEN redacted] end\n") {
		t.Errorf("the server's log is %q", got)
	}
	if got := j.read("steps/one/printed"); got != "[HF_TOKEN redacted]\n" {
		t.Errorf("the step printed %q", got)
	}
	os.Remove(filepath.Join(j.dir, "spec.json")) // the test put the value into argv there
	fs.WalkDir(os.DirFS(j.dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(j.read(path), value) {
			t.Errorf("the secret stands in %s", path)
		}
		return err
	})

	t.Run("missing", func(t *testing.T) {
		j := newJob(t, []runner.Process{serve("server")})
		j.spec.Secrets = []string{"HF_TOKEN"}
		j.outcome(j.run().Outcome, executors.ClassStartFailed, "HF_TOKEN is not set")
	})
}

func TestLongLogsAreNotKeptInMemory(t *testing.T) {
	for _, secrets := range [][]string{nil, {"HF_TOKEN"}} {
		t.Run(fmt.Sprint(len(secrets)), func(t *testing.T) {
			j := newJob(t, []runner.Process{serve("server", "-spew", "80")})
			j.spec.Secrets, j.env = secrets, []string{"HF_TOKEN=abcdefgh"}
			j.outcome(j.run().Outcome, "")
			info, err := os.Stat(filepath.Join(j.dir, "logs/server.0.log"))
			if err != nil || info.Size() != 80<<20 {
				t.Errorf("log %v, %v; want all 80 MiB", info, err)
			}
			if kib := j.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; kib > 70<<10 {
				t.Errorf("the runner needed %d KiB", kib)
			}
		})
	}
}

func TestSharedMemoryIsSwept(t *testing.T) {
	mine := fmt.Sprintf("/dev/shm/sotabuild-test-%d", time.Now().UnixNano())
	foreign := mine + "-foreign"
	j := newJob(t, []runner.Process{deaf(serve("server", "-shm", mine, "-touch", "{out}/up"))}, client("one"))
	j.start()
	j.wait("up")
	if err := os.WriteFile(foreign, []byte("x"), 0o600); err != nil { // also made during the task
		t.Fatal(err)
	}
	defer os.Remove(foreign)
	record := j.end()
	if fmt.Sprint(record.Removed) != "["+mine+"]" {
		t.Errorf("removed %v, want %s", record.Removed, mine)
	}
	if _, err := os.Stat(mine); err == nil {
		t.Error("its shared memory is left")
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error("a stranger's shared memory was removed")
	}
}

func TestEndsFromOutside(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   func(*job)
		words string
	}{
		{"signal", func(j *job) { j.cmd.Process.Signal(syscall.SIGTERM) }, "SIGTERM"},
		{"lifeline", func(j *job) { j.life.Close() }, "engine is gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := deaf(serve("server", "-fork", "{out}/orphan", "-bare"))
			if c.name == "lifeline" {
				s.Stop = runner.Stop{First: time.Minute, Second: time.Minute}
			}
			j := newJob(t, []runner.Process{s}, client("done"), client("ask", "-started", "{step}/started", "-deaf"), client("never"))
			j.start()
			j.wait("steps/ask/started")
			at := time.Now()
			j.cmd.Process.Signal(syscall.SIGINT) // the engine's business: ignored
			c.end(j)
			record := j.end()
			if took := time.Since(at); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
			j.outcome(record.Outcome, executors.ClassInterrupted, c.words)
			j.outcome(j.step("done").Outcome, "")
			j.noStep("never")
			j.noStep("ask") // it looks unfinished, because it is
		})
	}
}

func TestTotalDeadline(t *testing.T) {
	j := newJob(t, nil, client("ask", "-started", "{step}/started", "-deaf"), client("never"))
	j.spec.Deadlines.Total = 5 * time.Second // so that the step has long begun by then
	j.outcome(j.run().Outcome, executors.ClassTimeout, "total deadline of 5s")
	j.outcome(j.step("ask").Outcome, executors.ClassTimeout, "total deadline of 5s")
	j.noStep("never")
}

func TestStopDuringTheStart(t *testing.T) {
	j := newJob(t, []runner.Process{serve("server", "-status", "503", "-touch", "{out}/up")}, client("one"))
	j.start()
	j.wait("up")
	j.cmd.Process.Signal(syscall.SIGTERM)
	j.outcome(j.end().Outcome, executors.ClassInterrupted)
	j.noStep("one")
}

func TestGPUsAreDrained(t *testing.T) {
	j := newJob(t, []runner.Process{deaf(serve("server", "-fork", "{out}/pid"))}, client("one"))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(j.dir, "nvidia-smi")); err != nil {
		t.Fatal(err)
	}
	j.env = []string{"PATH=" + j.dir}
	record := j.run()
	j.outcome(record.Outcome, "")
	if record.Before.GPUs == nil || len(record.Before.GPUs)+len(record.After.GPUs) != 0 {
		t.Errorf("GPUs before %q, after %q, want both empty and known", record.Before.GPUs, record.After.GPUs)
	}
	// Three times the memory was still there after the process's end.
	if calls := j.read("calls"); calls != "...." {
		t.Errorf("nvidia-smi was asked %d times, want 4", len(calls))
	}
}

func TestProbesAreSampled(t *testing.T) {
	j := newJob(t, nil, client("one"))
	j.spec.Probes = []runner.Probe{{Name: "twice", Argv: []string{"/bin/echo", "sampled"}}, {Name: "broken", Argv: []string{"/bin/false"}}}
	j.outcome(j.run().Outcome, "")
	if got := j.read("probes/twice.log"); strings.Count(got, "sampled\n") != 2 {
		t.Errorf("the probe's log is %q, want a sample before and one after", got)
	}
	if got := j.read("probes/broken.log"); !strings.Contains(got, "probe failed: /bin/false exited with code 1") {
		t.Errorf("the broken probe's log is %q", got)
	}
}

func TestFolderRunsOneTaskOnce(t *testing.T) {
	j := newJob(t, nil, client("one", "-count", "{out}/count"))
	j.run()
	j.start()
	if err := j.cmd.Wait(); err == nil || !strings.Contains(j.stderr.String(), "has been started") {
		t.Errorf("the second run ended with %v: %s", err, j.stderr.String())
	}
	if got := strings.Count(j.read("count"), "\n"); got != 1 {
		t.Errorf("the step ran %d times", got)
	}
}

func TestWrongSpecIsRefused(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"field", `{"version":1,"task":"x","steps":[],"dedlines":{}}`, "dedlines"},
		{"json", `{"version":1`, "unexpected EOF"},
		{"version", `{"version":7,"task":"x","steps":[]}`, "version is 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "spec.json"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if code := Main(filepath.Join(dir, "spec.json")); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if _, err := runner.ReadSpec(filepath.Join(dir, "spec.json")); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q in it", err, c.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "exit.json")); err == nil {
				t.Error("there is an exit record")
			}
		})
	}
}

func TestRecordsAreReadableByOthers(t *testing.T) {
	j := newJob(t, nil, client("one"))
	j.run()
	var exit, step map[string]any
	for name, v := range map[string]*map[string]any{"exit.json": &exit, "steps/one/step.json": &step} {
		if err := json.Unmarshal([]byte(j.read(name)), v); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(j.dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want it private", name, info.Mode(), err)
		}
	}
	if exit["task"] != string(j.spec.Task) || step["id"] != "one" || step["exit"] != 0.0 {
		t.Errorf("exit %v, step %v", exit, step)
	}
}

func TestATaskAskedToEndFinishesItsStep(t *testing.T) {
	j := newJob(t, []runner.Process{serve("server")},
		client("first", "-get", "{url}/x", "-started", "{step}/started", "-until", "{out}/go"), client("second"), client("third"))
	j.start()
	j.wait("steps/first/started")
	for range 2 { // asking again changes nothing
		if err := runner.AskDrain(j.dir); err != nil {
			t.Fatal(err)
		}
	}
	j.letGo()
	record := j.end()
	j.outcome(j.step("first").Outcome, "")
	for id, begun := range map[string]bool{"first": true, "second": false, "third": false} {
		if got := runner.Begun(filepath.Join(j.dir, "steps", id)); got != begun {
			t.Errorf("step %s has begun: %t", id, got)
		}
	}
	j.noStep("second")
	j.noStep("third")
	j.outcome(record.Outcome, executors.ClassInterrupted, "asked to end; 2 of its 3 steps never began")
	if p := record.Processes[0]; actions(p) != "TERM" || p.Early || len(record.Left) > 0 {
		t.Errorf("the server: %+v, left %v", p, record.Left)
	}
}

func TestATaskAskedToEndInItsLastStepIsWhole(t *testing.T) {
	j := newJob(t, nil, client("first"), client("last", "-started", "{step}/started", "-until", "{out}/go"))
	j.start()
	j.wait("steps/last/started")
	if err := runner.AskDrain(j.dir); err != nil {
		t.Fatal(err)
	}
	j.letGo()
	record := j.end()
	j.outcome(record.Outcome, "")
	j.outcome(j.step("last").Outcome, "")
}

func TestATaskAskedToEndBeforeItsServersAreUp(t *testing.T) {
	j := newJob(t, []runner.Process{serve("server", "-status", "503", "-touch", "{out}/serves")}, client("one"))
	j.start()
	j.wait("serves")
	if err := runner.AskDrain(j.dir); err != nil {
		t.Fatal(err)
	}
	record := j.end()
	j.outcome(record.Outcome, executors.ClassInterrupted, "before its first step")
	j.noStep("one")
	if runner.Begun(filepath.Join(j.dir, "steps", "one")) {
		t.Error("the step has begun")
	}
}
