package conformance

import (
	"strings"
	"testing"
)

// TestSamplesThatAgeDuringAnApply: what an apply has measured is its result also
// where quality.max_age is over before the apply is; the next one measures it
// anew, and until then its rows rank nobody.
func TestSamplesThatAgeDuringAnApply(t *testing.T) {
	blocks := `sla {
  min_success_rate = 1
}
quality {
  max_age = "1ms"
}
workload {
  concurrency = [1]
  warmup      = 1
}
scenario "chat" {
  input_len   = 8
  output_len  = 2
  num_prompts = 3
}
`
	s := simSite(t, simCampaign(blocks, simulated{"one", "", `prefill = "1ms", step = "1ms"`}, simulated{"two", "", `prefill = "100ms", step = "1ms"`}))
	if out := s.must(0, "apply").out; !strings.Contains(out, "chat: one (baseline, concurrency 1) wins; gap of one: 0.0 %") {
		t.Errorf("the apply that measured it names no winner:\n%s", out)
	}
	if out := s.must(0, "show").out; !strings.Contains(out, "chat: no winner yet: 2 of 2 cells to be measured (one: 1 stale, two: 1 stale)\n") {
		t.Errorf("what is too old ranks somebody:\n%s", out)
	}
}
