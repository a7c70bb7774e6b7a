package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// served runs the simulated server; the remark makes it another program.
const served = "#!/bin/sh\n# %s\nexec %q \"$@\"\n"

// TestShowAfterAChange: after a program has changed its rows rank nobody, and who
// is left is ahead so far and no winner, wherever a winner could be named; a
// framework that is new is not measured, where the changed one is stale.
func TestShowAfterAChange(t *testing.T) {
	blocks := `sla {
  min_success_rate = 1
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
	one, two := simulated{"one", "one.sh", `prefill = "1ms", step = "1ms"`}, simulated{"two", "", `prefill = "100ms", step = "1ms"`}
	s := simSite(t, simCampaign(blocks, one, two))
	program := func(remark string) {
		s.write("one.sh", fmt.Sprintf(served, remark, filepath.Join(bin, "sotabuild")))
		if err := os.Chmod(filepath.Join(s.dir, "one.sh"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	says := func(want ...string) {
		t.Helper()
		out := s.must(0, "show").out
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("show does not say %q:\n%s", w, out)
			}
		}
	}
	program("old")
	if r := s.must(0, "apply", "--target", `bench.two["baseline"].chat.c1`); !strings.Contains(r.out, "chat: no winner yet: 1 of 2 cells to be measured (one: 1 not measured); ahead so far: two (baseline, concurrency 1)\n") {
		t.Errorf("one of two cells is measured:\n%s", r.out)
	}
	s.must(0, "apply")
	says("chat: one (baseline, concurrency 1) wins; gap of one: 0.0 %")
	program("new")
	says("chat: no winner yet: 1 of 2 cells to be measured (one: 1 stale); ahead so far: two (baseline, concurrency 1)\n")
	var report struct {
		Scenarios []struct {
			Open    []struct{ Framework, Candidate, State, Why string }
			Ranking struct {
				Best  []string
				Gap   *float64
				Cells []struct{ Gap *float64 }
			}
		}
	}
	if err := json.Unmarshal([]byte(s.must(0, "report", "--json").out), &report); err != nil {
		t.Fatal(err)
	}
	x := report.Scenarios[0]
	if x.Ranking.Best != nil || x.Ranking.Gap != nil || x.Ranking.Cells[0].Gap != nil || len(x.Open) != 1 || x.Open[0].Framework != "one" || x.Open[0].State != "stale" || x.Open[0].Why != "waits for help.one.server" {
		t.Errorf("the report's JSON: %+v", x)
	}
	md := s.must(0, "report", "--format", "md").out
	for _, want := range []string{"| `chat` | – | none yet: 1 of 2 cells to be measured |", "| not defined (not every cell is measured as the campaign stands now) |", "- `one` `baseline`, concurrency 1: stale: waits for help.one.server\n"} {
		if !strings.Contains(md, want) {
			t.Errorf("the report does not say %q:\n%s", want, md)
		}
	}
	s.must(0, "apply", "--target", "help.one.server")
	page := s.must(0, "report", "--format", "html").out
	if !strings.Contains(page, "no winner yet: 1 of 2 cells to be measured (one: 1 stale)") {
		t.Error("the page names a winner")
	}
	if text := s.summary(); !strings.Contains(text, "To be measured as the campaign stands now: `chat` (1 cell).") || strings.Contains(text, "No candidate passes") {
		t.Errorf("the summary takes a stale row for one that fails:\n%s", text)
	}
	s.write("campaign.hcl", simCampaign(blocks, one, two, simulated{"three", "", `prefill = "50ms", step = "1ms"`}))
	says("chat: no winner yet: 2 of 3 cells to be measured (one: 1 stale, three: 1 not measured); ahead so far: two (")
	if out := s.must(0, "apply").out; !strings.Contains(out, "chat: one (baseline, concurrency 1) wins; gap of one: 0.0 %") {
		t.Errorf("all is measured, and nobody wins:\n%s", out)
	}
}
