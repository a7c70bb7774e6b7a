package conformance

import (
	"path/filepath"
	"strings"
	"testing"

	definitions "github.com/sotabuild/sotabuild/stdlib/result"
)

// production replaces the quickstart's workload: no flow check, sessions of two
// turns at a gamma rate, in a lane of its own.
func production(t *testing.T) *site {
	t.Helper()
	s := example(t, "quickstart")
	s.edit("campaign.hcl", "  smoke   = true\n", "")
	s.edit("campaign.hcl", "scenario \"summarization\" {\n  input_len   = 256\n  output_len  = 32\n  num_prompts = 8\n}\n", "")
	s.edit("campaign.hcl", "input_len   = 64\n  output_len  = 64\n  num_prompts = 16", "input_len   = 16\n  output_len  = 8\n  num_prompts = 7")
	s.edit("campaign.hcl", "  arrival     = \"inf\"\n  concurrency = [4]\n", `  production = true
  reason     = "users talk in turns"
  dataset    = "sessions"
  turns      = 2
  think_time = "10ms"
  arrival    = "gamma"
  burstiness = 2
  rate       = 5
  lane       = "agentic"
  adapters   = ["tiny"]
`)
	return s
}

// measured applies until every cell is measured, at most twenty times: where
// neighbours take the processor a client that has a schedule is late, which is no
// result, and the next apply measures that cell again.
func (s *site) measured() {
	s.t.Helper()
	for range 20 {
		r := s.run("apply")
		plan := s.must(0, "plan").out
		if !strings.Contains(plan, "client_limited: ") {
			if r.code != 0 {
				s.t.Fatalf("apply: exit code %d\n%s\n%s", r.code, r.out, r.err)
			}
			return
		}
	}
	s.t.Fatal("in twenty applies the client of some cell was always limited")
}

// TestProductionWorkload: the client is calibrated first and that is recorded
// with every cell; three sessions of two turns are six requests, not seven; and
// the lane has a table and no winner (R073).
func TestProductionWorkload(t *testing.T) {
	s := production(t)
	if out := s.must(0, "plan").out; !strings.Contains(out, "not calibrated on this machine") || !strings.Contains(out, "calibrate.client") {
		t.Errorf("plan says nothing of the calibration:\n%s", out)
	}
	s.measured()
	cell := s.must(0, "explain", `bench.blocked["baseline"].chat`, "--json").out
	for _, want := range []string{"client.good_events_per_s", "client.events_per_s_per_core", "client.at_1000_events_per_s"} {
		if !strings.Contains(cell, want) {
			t.Errorf("the record of a cell does not hold %q:\n%s", want, cell)
		}
	}
	report := s.must(0, "report", "--format", "md").out
	for _, want := range []string{"none: lane `agentic` has a table of its own", "The client was calibrated on this machine", "| 6 of 6 |"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report does not say %q:\n%s", want, report)
		}
	}
	// Three sessions of two turns, all of one adapter: by hand 3, 3 and 6.
	for _, want := range []string{"| adapter | `tiny` | 6 | 0 |", "| turn | `1` | 3 | 0 |", "| turn | `2` | 3 | 0 |"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report does not say %q:\n%s", want, report)
		}
	}
	files, err := filepath.Glob(filepath.Join(runDir(t, s), "benchmark", "raw", "*.parts.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v; want the parts of every cell in the run directory", files, err)
	}
	for _, f := range files {
		var parts []definitions.Part
		readJSON(t, f, &parts)
		if len(parts) != 3 || parts[0].OK != 6 || parts[1].Name != "1" || parts[1].OK != 3 || parts[2].OK != 3 || len(parts[2].Metrics) == 0 {
			t.Errorf("%s: %+v", f, parts)
		}
	}
	if out := s.must(0, "apply").out; !strings.Contains(out, "Applied: 0 nodes run") {
		t.Errorf("a second apply ran something:\n%s", out)
	}
}

// TestAccuracyGate: both kernels of tinyserve answer as their own baseline
// does, so that every row passes and carries the agreement; graded prompts that
// a server with random weights cannot know take the rows' numbers away.
func TestAccuracyGate(t *testing.T) {
	s := example(t, "quickstart")
	s.edit("campaign.hcl", "scenario \"summarization\" {\n  input_len   = 256\n  output_len  = 32\n  num_prompts = 8\n}\n", "accuracy {\n  prompts       = 2\n  min_agreement = 0.98\n}\n")
	s.edit("campaign.hcl", "input_len   = 64\n  output_len  = 64\n  num_prompts = 16", "input_len   = 16\n  output_len  = 8\n  num_prompts = 4")
	s.must(0, "apply")
	if out := s.must(0, "report", "--json").out; strings.Count(out, `"accuracy": 1`) != 6 {
		t.Errorf("not all 6 rows carry their agreement:\n%s", out)
	}
	if out := s.must(0, "apply").out; !strings.Contains(out, "Applied: 0 nodes run") {
		t.Errorf("a second apply ran something:\n%s", out)
	}
	s.write("graded.jsonl", `{"prompt":"capital of France?","answer":"Paris"}`+"\n"+`{"prompt":"2 + 2 =","answer":"4"}`+"\n")
	s.edit("campaign.hcl", "min_agreement = 0.98", "min_agreement = 0.98\n  path          = \"graded.jsonl\"\n  min_score     = 0.5")
	out := s.must(5, "apply")
	if !strings.Contains(out.err, "quality_failed") || !strings.Contains(out.err, "0 of 2 graded answers are right") {
		t.Errorf("the reason is not told:\n%s\n%s", out.out, out.err)
	}
	if strings.Contains(out.out, `bench.blocked["baseline"].chat.c4  started`) {
		t.Errorf("other prompts of the gate made the cells stale:\n%s", out.out)
	}
}
