package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/executors"
)

func good() Spec {
	return Spec{
		Version: 1, Task: "bench-1", Endpoint: Endpoint{Role: "server"}, Secrets: []string{"HF_TOKEN"},
		Processes: []Process{
			{Role: "router", Count: 1, After: []string{"server"}, Argv: []string{"/r", "{port:server.1}"}, Health: Health{Path: "/health"}},
			{Role: "server", Count: 2, Argv: []string{"/s"}, Env: []string{"A=1"}, Health: Health{Path: "/health"}},
		},
		Steps:     []Step{{ID: "chat", Argv: []string{"/c", "{url}"}, Deadline: time.Minute, Outputs: []string{"row.json", "sub/x"}}},
		Deadlines: Deadlines{Start: time.Minute},
	}
}

func TestSpecSurvivesItsFile(t *testing.T) {
	dir := t.TempDir()
	if err := WriteSpec(dir, good()); err != nil {
		t.Fatal(err)
	}
	got, err := ReadSpec(filepath.Join(dir, "spec.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(good(), got); diff != "" {
		t.Error(diff)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("the folder holds %v, want spec.json only", entries)
	}
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Spec)
		want   string
	}{
		{"version", func(s *Spec) { s.Version = 2 }, "version is 2"},
		{"task", func(s *Spec) { s.Task = "../x" }, `task "../x"`},
		{"empty", func(s *Spec) { s.Processes, s.Steps = nil, nil }, "nothing to do"},
		{"role", func(s *Spec) { s.Processes[1].Role = "router" }, "stands twice"},
		{"rolepath", func(s *Spec) { s.Processes[0].Role = "../r" }, "lower-case word"},
		{"count", func(s *Spec) { s.Processes[1].Count = 0 }, "count is 0"},
		{"port", func(s *Spec) { s.Processes[1].Port = 8000 }, "fixed for more than one"},
		{"health", func(s *Spec) { s.Processes[0].Health.Path = "" }, "write for example /health"},
		{"identity", func(s *Spec) { s.Processes[0].Health.Identity.Path = "/v1/models" }, "both path and contains"},
		{"failure", func(s *Spec) { s.Processes[0].Failures = []Failure{{Match: "(", Class: "oom"}} }, "regular expression"},
		{"cycle", func(s *Spec) { s.Processes[1].After = []string{"router"} }, "starts after something unknown, or after itself"},
		{"after", func(s *Spec) { s.Processes[0].After = []string{"sever"} }, "sever"},
		{"portname", func(s *Spec) { s.Processes[0].Argv[1] = "{port:server.2}" }, "{port:server.2} names no instance"},
		{"endpoint", func(s *Spec) { s.Endpoint.Role = "x" }, `role "x" is no process`},
		{"both", func(s *Spec) { s.Endpoint.URL = "http://x" }, "write one"},
		{"url", func(s *Spec) { s.Endpoint = Endpoint{} }, "there is no endpoint"},
		{"scheme", func(s *Spec) { s.Endpoint = Endpoint{URL: "x:80"} }, "http://"},
		{"step", func(s *Spec) { s.Steps[0].ID = "a/b" }, `step "a/b"`},
		{"runnerlog", func(s *Spec) { s.Steps[0].ID = "runner" }, "is called runner"},
		{"deadline", func(s *Spec) { s.Steps[0].Deadline = 0 }, "write deadline_ns"},
		{"negative", func(s *Spec) { s.Deadlines.Stop = -1 }, "negative"},
		{"output", func(s *Spec) { s.Steps[0].Outputs = []string{"../row.json"} }, "inside the step's folder"},
		{"absolute", func(s *Spec) { s.Steps[0].Outputs = []string{"/etc/passwd"} }, "inside the step's folder"},
		{"capture", func(s *Spec) { s.Steps[0].Stdout = "step.json" }, "cannot be captured"},
		{"argv", func(s *Spec) { s.Steps[0].Argv = nil }, "has no argv"},
		{"dir", func(s *Spec) { s.Steps[0].Dir = "x" }, "not absolute"},
		{"env", func(s *Spec) { s.Steps[0].Env = []string{"A=1", "A=2"} }, `"A" is not NAME=value, stands twice`},
		{"secret", func(s *Spec) { s.Steps[0].Env = []string{"HF_TOKEN=x"} }, "set by the runner itself"},
		{"mark", func(s *Spec) { s.Steps[0].Env = []string{"SOTABUILD_TASK=x"} }, "set by the runner itself"},
		{"zero", func(s *Spec) { s.Steps[0].Argv = []string{"/c", "a\x00b"} }, "zero byte"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := good()
			if err := s.Check(); err != nil {
				t.Fatalf("the good spec: %v", err)
			}
			c.change(&s)
			dir := t.TempDir()
			err := WriteSpec(dir, s)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q in it", err, c.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "spec.json")); err == nil {
				t.Error("it was written all the same")
			}
		})
	}
}

func TestWavesFollowAfter(t *testing.T) {
	list, err := Waves(good().Processes)
	if err != nil || len(list) != 2 || list[0][0].Role != "server" || list[1][0].Role != "router" {
		t.Errorf("waves %v, %v; want the server, then the router", list, err)
	}
}

func TestRecordThatIsNotThereIsNotFinished(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadStep(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reading no step: %v", err)
	}
	if err := WriteStep(dir, StepRecord{ID: "chat", Outcome: StepOutcome{Class: executors.ClassTimeout}}); err != nil {
		t.Fatal(err)
	}
	if r, err := ReadStep(dir); err != nil || r.Outcome.Class != "timeout" || r.Exit != nil {
		t.Errorf("the step is %+v, %v", r, err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "outcome.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadOutcome(dir); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("a link was followed: %v", err)
	}
}

// TestEmptyLastWordIsNone: a power cut may leave a file that was not synced
// empty; a client's verdict that is empty is wrong all the same.
func TestEmptyLastWordIsNone(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"exit.json", "up.json", "outcome.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ReadExit(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("exit.json: %v", err)
	}
	if _, err := ReadUp(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("up.json: %v", err)
	}
	if _, err := ReadOutcome(dir); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty verdict: %v", err)
	}
}
