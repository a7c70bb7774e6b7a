package conformance

import (
	"strings"
	"testing"
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

// TestProductionWorkload: the client is calibrated first and that is recorded
// with every cell; three sessions of two turns are six requests, not seven; and
// the lane has a table and no winner (R073).
func TestProductionWorkload(t *testing.T) {
	s := production(t)
	if out := s.must(0, "plan").out; !strings.Contains(out, "not calibrated on this machine") || !strings.Contains(out, "calibrate.client") {
		t.Errorf("plan says nothing of the calibration:\n%s", out)
	}
	s.must(0, "apply")
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
	if out := s.must(0, "apply").out; !strings.Contains(out, "Applied: 0 nodes run") {
		t.Errorf("a second apply ran something:\n%s", out)
	}
}
