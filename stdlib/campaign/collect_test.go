package campaign

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/stdlib/campaign/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/search"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// store is a real store in a folder of the test.
func store(t *testing.T) *cache.Local {
	t.Helper()
	s, err := cache.OpenLocal(filepath.Join(t.TempDir(), "store"), cache.Options{Command: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// cellJob is the first cell of the test campaign as the engine would hand it
// over.
func cellJob(t *testing.T, s *cache.Local) compile.Job {
	t.Helper()
	c := sample.Load(t, sample.Text)
	fw := Compared(c)[0]
	spec := NewBenchSpec(c, facts(c), fw, search.Expand(fw.Flags, fw.Search)[0], c.Load.Scenarios[0], nil)
	put := func(content string) key.Digest {
		d, _, err := s.Object(strings.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	return compile.Job{Addr: "bench", Spec: spec, Key: key.Key{1}, Objects: s, Inputs: []compile.InputValue{
		{Name: "prompts", Digest: put("prompts\n")},
		{Name: "check", Digest: put(`{"validated":["--kernel"]}`)},
	}}
}

func rowOf(t *testing.T, r compile.Result) result.Row {
	t.Helper()
	for _, v := range r.Outputs {
		if v.Name == "row" {
			var row result.Row
			if err := json.Unmarshal(v.Bytes, &row); err != nil {
				t.Fatal(err)
			}
			return row
		}
	}
	t.Fatal("no row")
	return result.Row{}
}

// TestTheNameThatNobodyPasses: a server that names its model by itself is told
// as what its definition lacks.
func TestTheNameThatNobodyPasses(t *testing.T) {
	j := cellJob(t, store(t))
	for _, c := range []struct{ word, want string }{{"{served_name}", "why"}, {"sim", "why; the definition's server command has no word {served_name}, which gives the model that name"}} {
		spec := j.Spec.(BenchSpec)
		spec.Serve = []string{"{program}", "--name", c.word}
		j.Spec = spec
		r := collectBench(j, compile.StepResult{Class: string(result.WrongModel), Reason: "why"})
		if row := rowOf(t, r); row.Reason != c.want || r.Outcome.Reason != c.want {
			t.Errorf("%s: reason %q of the row, %q of the node; want %q", c.word, row.Reason, r.Outcome.Reason, c.want)
		}
	}
}

// TestACellThatNeverRanHasARowWithoutNumbers covers every class of the table:
// a row always, a number never (R075, R076).
func TestACellThatNeverRanHasARowWithoutNumbers(t *testing.T) {
	s := store(t)
	for _, class := range result.Classes {
		r := collectBench(cellJob(t, s), compile.StepResult{Class: string(class.Class), Reason: "why"})
		row := rowOf(t, r)
		if row.Status != class.Status || row.Class != class.Class || row.Reason != "why" || len(row.Metrics) != 0 {
			t.Errorf("%s: row %s %s %q with %d metrics", class.Class, row.Status, row.Class, row.Reason, len(row.Metrics))
		}
		if err := row.Validate(); err != nil {
			t.Errorf("%s: %v", class.Class, err)
		}
		wantState := cache.Failed
		if class.Reject {
			wantState = cache.Rejected
		}
		if r.Outcome.State != wantState || r.Outcome.Keep != class.Keep {
			t.Errorf("%s: outcome %+v", class.Class, r.Outcome)
		}
		for _, v := range r.Outputs {
			if len(v.Bytes) == 0 {
				t.Errorf("%s: output %s is empty", class.Class, v.Name)
			}
		}
	}
}

// TestNoNumberIsASelection: a framework whose rows all failed has a selection
// without a best row, so that nothing is tried again at the next apply.
func TestNoNumberIsASelection(t *testing.T) {
	s := store(t)
	j := cellJob(t, s)
	failed := collectBench(j, compile.StepResult{Class: "oom", Reason: "why"})
	row, _, err := s.Object(bytes.NewReader(failed.Outputs[0].Bytes))
	if err != nil {
		t.Fatal(err)
	}
	r := selectBest(t.Context(), compile.Job{Spec: SelectSpec{}, Objects: s, Inputs: []compile.InputValue{{Name: "row", Digest: row, Failed: true}}})
	var sel winners.Selection
	if err := json.Unmarshal(r.Outputs[0].Bytes, &sel); err != nil {
		t.Fatal(err)
	}
	if r.Outcome.State != cache.OK || sel.Best != nil {
		t.Errorf("outcome %+v, best %v", r.Outcome, sel.Best)
	}
}

// TestAMeasuredCellIsCompleted: the client's row gets subject, workload, flags
// and the exact command with the port it had (R086).
func TestAMeasuredCellIsCompleted(t *testing.T) {
	s := store(t)
	task := filepath.Join(t.TempDir(), "task-1")
	step := filepath.Join(task, "steps", "s")
	if err := os.MkdirAll(step, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(step, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("row.json", `{"v":1,"status":"ok","subject":{"software":"","model":"","flags":null,"hardware":{}},
		"workload":{"kind":"","dataset":"","input_len":0,"output_len":0,"num_prompts":0,"arrival":"","endpoint":""},
		"requests":{"ok":3,"failed":0,"input_tokens":24,"output_tokens":12},
		"metrics":[{"id":"request_throughput","value":1.5,"unit":"1/s","n":3}],
		"server":{"command":null,"client":null},"facts":{},"time":{"started":"2026-01-02T03:04:05Z","seconds":2}}`)
	write("requests.jsonl", "{}\n")
	argv := []string{"/x/server", "--port", "20001"}
	if err := runner.WriteUp(task, []runner.ProcessRecord{{Name: "server.0", Argv: argv, Phases: map[string]float64{"healthy": 0.5}}}); err != nil {
		t.Fatal(err)
	}
	zero := 0
	if err := runner.WriteStep(step, runner.StepRecord{ID: "s", Task: "task-1", Exit: &zero, Argv: []string{"sotabuild", "client"}}); err != nil {
		t.Fatal(err)
	}
	r := collectBench(cellJob(t, s), compile.StepResult{Dir: step, TaskDir: task})
	row := rowOf(t, r)
	if r.Outcome.State != cache.OK || row.Status != result.OK {
		t.Fatalf("outcome %+v, status %s %s", r.Outcome, row.Status, row.Reason)
	}
	if got := strings.Join(row.Server.Command, " "); got != strings.Join(argv, " ") {
		t.Errorf("command %q: not the one that ran", got)
	}
	if row.Server.Life != "task-1" || row.Server.Phases["healthy"] != 0.5 || len(row.Server.Client) != 2 || row.Server.Validated[0] != "--kernel" {
		t.Errorf("server %+v", row.Server)
	}
	if row.Workload.InputLen != 8 || row.Workload.NumPrompts != 3 || !row.Workload.Smoke || row.Workload.Dataset != key.Sum([]byte("prompts\n")).String() {
		t.Errorf("workload %+v", row.Workload)
	}
	if len(row.Subject.Flags) != 2 || row.Subject.Flags[0].Name != "--kernel" || row.Subject.Flags[0].Value != "blocked" {
		t.Errorf("flags %+v", row.Subject.Flags)
	}
}

// TestABrokenRowIsNoResult: a success of the step does not make a result of a
// row that cannot be read.
func TestABrokenRowIsNoResult(t *testing.T) {
	s := store(t)
	step := t.TempDir()
	if err := os.WriteFile(filepath.Join(step, "row.json"), []byte(`{"status":"ok"`), 0o644); err != nil {
		t.Fatal(err)
	}
	r := collectBench(cellJob(t, s), compile.StepResult{Dir: step, TaskDir: step})
	if row := rowOf(t, r); row.Class != executors.ClassNoOutput || r.Outcome.State != cache.Failed {
		t.Errorf("row %s %s, outcome %+v", row.Status, row.Class, r.Outcome)
	}
}

// TestHelpThatIsNone: what a program prints instead of its help is no snapshot
// (R056).
func TestHelpThatIsNone(t *testing.T) {
	for name, out := range map[string]string{"empty": "", "shell": "sh: 1: serve: command not found\n"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "stdout.txt"), []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
		r := collectHelp(compile.Job{Spec: AskSpec{Command: []string{"{program}", "--help"}}}, compile.StepResult{Dir: dir})
		if r.Outcome.State != cache.Failed || r.Outcome.Class != string(result.NoHelp) || r.Outcome.Keep {
			t.Errorf("%s: %+v", name, r.Outcome)
		}
	}
}

// TestAProgramThatCannotBeAsked: a program that the kernel refuses, or that dies
// of a signal, is not called a broken client.
func TestAProgramThatCannotBeAsked(t *testing.T) {
	for class, rec := range map[result.Class]runner.StepRecord{
		executors.ClassStartFailed: {ID: "s", Task: "task-1"},
		result.NoHelp:              {ID: "s", Task: "task-1", Signal: "SIGKILL"},
	} {
		dir := t.TempDir()
		if err := runner.WriteStep(dir, rec); err != nil {
			t.Fatal(err)
		}
		r := collectHelp(compile.Job{Spec: AskSpec{Command: []string{"{program}", "--help"}}}, compile.StepResult{Dir: dir, Class: string(executors.ClassClientFailed), Reason: "why"})
		if r.Outcome.State != cache.Failed || r.Outcome.Class != string(class) || r.Outcome.Reason != "why" {
			t.Errorf("%+v, want class %s", r.Outcome, class)
		}
	}
}

// TestVersionOnEitherStream: llama-server prints its version on stderr.
func TestVersionOnEitherStream(t *testing.T) {
	for _, stream := range []string{"stdout.txt", "stderr.txt"} {
		dir := t.TempDir()
		for _, name := range []string{"stdout.txt", "stderr.txt"} {
			content := ""
			if name == stream {
				content = "version: 0.6.0-dev (build 11434)\nbuilt with GNU\n"
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		r := collectVersion(compile.Job{Spec: AskSpec{Pattern: `version: (.+)`}}, compile.StepResult{Dir: dir})
		if r.Outcome.State != cache.OK || string(r.Outputs[0].Bytes) != "0.6.0-dev (build 11434)" {
			t.Errorf("%s: %+v", stream, r)
		}
	}
}

// TestTheTaskOfALife: one server, one step a cell in declared order, and no
// value of a secret in the spec (R031).
func TestTheTaskOfALife(t *testing.T) {
	t.Setenv("HF_TOKEN", "hf_TESTvalue")
	s := store(t)
	a, b := cellJob(t, s), cellJob(t, s)
	b.Key = key.Key{2}
	for _, j := range []*compile.Job{&a, &b} {
		spec := j.Spec.(BenchSpec)
		spec.Life.Host.Secrets = []string{"HF_TOKEN"}
		spec.Life.Host.Self, spec.Life.Host.Program = "/bin/sotabuild", "/bin/server"
		j.Spec = spec
	}
	dir := filepath.Join(t.TempDir(), "task-1")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	task, err := benchTask([]compile.Job{a, b}, dir)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := runner.ReadSpec(filepath.Join(dir, runner.SpecFile))
	if err != nil {
		t.Fatal(err)
	}
	if len(spec.Processes) != 1 || len(spec.Steps) != 2 || spec.Steps[0].ID == spec.Steps[1].ID {
		t.Errorf("spec %+v", spec)
	}
	if got := strings.Join(spec.Processes[0].Argv, " "); !strings.HasPrefix(got, "/bin/server --model ") || !strings.Contains(got, "--port {port}") || !strings.HasSuffix(got, "--kernel blocked --max-model-len 64") {
		t.Errorf("argv %s", got)
	}
	raw, err := os.ReadFile(filepath.Join(dir, runner.SpecFile))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "hf_TESTvalue") {
		t.Error("the value of a secret is in the spec")
	}
	if len(task.Process.Env) != 1 || task.Process.Env[0] != "HF_TOKEN=hf_TESTvalue" {
		t.Errorf("environment of the task %v: the runner gets the secret by inheritance alone", task.Process.Env)
	}
}
