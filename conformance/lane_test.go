package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	definitions "github.com/sotabuild/sotabuild/stdlib/result"
)

// TestLaneBesideMain: in one file the lane's scenario is sent as the lane says, has a
// table of its own and no winner, and leaves the main scenario's table, winner and
// keys as they are (R073, R074). A third of its requests has other lengths.
func TestLaneBesideMain(t *testing.T) {
	s := steadySite(t, "one", "slow")
	s.edit("campaign.hcl", "noise {\n  threshold   = 0.2\n  max_repeats = 3\n}\n", "")
	s.must(0, "apply")
	main := cells(t, s.must(0, "report", "--json").out)["chat"]
	s.write("agentic.campaign.hcl", `scenario "agent" {
  input_len   = 8
  output_len  = 2
  num_prompts = 6
  lane        = "agentic"
}
scenario "mixed" {
  input_len   = 8
  output_len  = 2
  num_prompts = 6
  lane        = "short"
  mix "documents" {
    share      = 0.3333333333
    input_len  = 20
    output_len = 4
  }
}
lane "agentic" {
  dataset = "sessions"
  turns   = 3
}
lane "short" {
  warmup = 0
}
`)
	out := s.must(0, "apply").out
	if strings.Contains(out, "].chat  ") || !strings.Contains(out, `✓ bench.slow["baseline"].agent`) {
		t.Errorf("a lane makes the main lane stale, or is not measured:\n%s", out)
	}
	for _, want := range []string{"chat: one (baseline, concurrency unlimited) wins", "agent: lane agentic: a table of its own, without a winner"} {
		if !strings.Contains(out, want) {
			t.Errorf("the table does not say %q:\n%s", want, out)
		}
	}
	after := cells(t, s.must(0, "report", "--json").out)
	if len(after["chat"]) != len(main) || after["chat"][0].Digest != main[0].Digest {
		t.Errorf("the main rows were %+v and are %+v", main, after["chat"])
	}
	// Two sessions of three turns: 8, 8 + 2 + 8 and 8 + 2 + 8 + 2 + 8 tokens in. Of six requests two have 20 in and 4 out.
	if w := after["agent"][0].Row; w.Workload.Lane != "agentic" || w.Workload.Kind != "sessions" || w.Requests.OK != 6 || w.Requests.Input != 2*(8+18+28) {
		t.Errorf("the lane's row: %+v", w)
	}
	if w := after["mixed"][0].Row; w.Requests.OK != 6 || w.Requests.Input != 4*8+2*20 || w.Requests.Output != 4*2+2*4 || w.Requests.Lengths.InputP95 != 20 || w.Requests.Lengths.InputP50 != 8 {
		t.Errorf("the mixture's row: %+v, %+v", w.Requests, w.Requests.Lengths)
	}
	md := s.must(0, "report", "--format", "md").out
	winners, _, _ := strings.Cut(md[strings.Index(md, "## Winners"):], "\n## ")
	if !strings.Contains(winners, "| `chat` |") || strings.Contains(winners, "| `agent` |") || !strings.Contains(winners, "`agent`: none: lane `agentic` has a table of its own") {
		t.Errorf("the winner table:\n%s", winners)
	}
	if !strings.Contains(md, "mixed with 0.333333 of 20 in, 4 out") {
		t.Errorf("the report does not say the mixture:\n%s", md)
	}
	summary := s.summary()
	common, lane, ok := strings.Cut(summary, "## Lane `agentic`, beside the common comparison")
	if !ok || strings.Contains(common[strings.Index(common, "## Cross-Framework"):], "| agent |") || !strings.Contains(lane, "| agent | unlimited | 1 |") {
		t.Errorf("the lane has no table of its own:\n%s", summary)
	}
	s.idle()
}

// summary is benchmark/summary.md of the run directory.
func (s *site) summary() string {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(runDir(s.t, s), "benchmark", "summary.md"))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// measuredCell is a cell of a report's JSON.
type measuredCell struct {
	Digest string
	Row    definitions.Row
}

// cells are the cells of a report by scenario.
func cells(t *testing.T, report string) map[string][]measuredCell {
	t.Helper()
	var v struct {
		Scenarios []struct {
			Name  string
			Cells []measuredCell
		}
	}
	if err := json.Unmarshal([]byte(report), &v); err != nil {
		t.Fatal(err)
	}
	out := map[string][]measuredCell{}
	for _, s := range v.Scenarios {
		out[s.Name] = s.Cells
	}
	return out
}
