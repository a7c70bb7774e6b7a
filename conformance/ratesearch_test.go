package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/stdlib/bench/arrival"
)

// The simulated server of TestRateSearch serves one request at a time: 16 ms to
// the first token and 1 ms for each of four more are 20 ms, so that its
// capacity is 50 requests/s.
const (
	simPrefill = 16 * time.Millisecond
	simService = 20 * time.Millisecond
	simLimit   = 100 * time.Millisecond
	simPrompts = 100
	simSeed    = 1
)

// capacityCampaign searches the rate that the one server keeps.
func capacityCampaign() string {
	return simCampaign(fmt.Sprintf(`sla {
  max_p50_ttft_ms  = 100
  min_success_rate = 1
}
rate_search {
  start       = 40
  within      = 0.35
  num_prompts = %d
}
workload {
  concurrency = [1]
  warmup      = 1
  seed        = %d
}
scenario "chat" {
  input_len   = 8
  output_len  = 5
  num_prompts = 4
}
`, simPrompts, simSeed), simulated{"one", "", `prefill = "16ms", step = "1ms", max_num_seqs = 1`})
}

// queued is the median time to the first token by Lindley's recursion: who
// arrives waits until all before are served.
func queued(t *testing.T, rate float64) time.Duration {
	t.Helper()
	due, err := arrival.Load{Arrival: arrival.Poisson, Rate: &rate, Seed: simSeed}.Times(simPrompts, nil)
	if err != nil {
		t.Fatal(err)
	}
	var free time.Duration
	var ttft []time.Duration
	for _, at := range due {
		free = max(free, at)
		ttft = append(ttft, free-at+simPrefill)
		free += simService
	}
	slices.Sort(ttft)
	return ttft[len(ttft)/2]
}

type searched struct {
	Best   float64  `json:"best"`
	Broke  *float64 `json:"broke"`
	Over   bool     `json:"over"`
	Rounds []struct {
		Address string  `json:"address"`
		Rate    float64 `json:"rate"`
		Kept    bool    `json:"kept"`
		Row     struct {
			Status, Class string
			Workload      struct {
				Arrival string  `json:"arrival"`
				Rate    float64 `json:"request_rate"`
			}
		} `json:"row"`
	} `json:"rounds"`
}

// decided applies until no round is without a verdict, at most twenty times: where
// neighbours take the processor the client is limited, which decides nothing,
// and the next apply measures that round again. Slower schedules do not help: with
// two busy loops on the two cores requests of 8, 20 and 40 a second were all 13 to
// 20 ms late.
func (s *site) decided() string {
	s.t.Helper()
	all := ""
	for range 20 {
		r := s.run("apply")
		all += r.out
		if r.code == 0 {
			return all
		}
		if r.code != 5 || !strings.Contains(r.err, "has no verdict") {
			s.t.Fatalf("apply: exit code %d\n%s\n%s", r.code, r.out, r.err)
		}
	}
	s.t.Fatalf("no verdict in twenty applies:\n%s", all)
	return ""
}

// TestRateSearch: a server of 50 requests/s keeps 40, breaks 80 and 60, so
// that the bracket is 40 to 60; the rounds are nodes that the plan shows and
// a second apply replays.
func TestRateSearch(t *testing.T) {
	for rate, kept := range map[float64]bool{40: true, 80: false, 60: false} {
		if m := queued(t, rate); kept && m > simLimit*3/4 || !kept && m < simLimit*5/4 {
			t.Fatalf("by hand the median at %g requests/s is %s: too near the limit for a test", rate, m)
		}
	}
	s := simSite(t, capacityCampaign())
	if out := s.must(0, "plan").out; !strings.Contains(out, "? rate.one.chat.round[1…5]  possible; select.one.chat decides of which candidate") {
		t.Errorf("the plan does not show the search:\n%s", out)
	}
	out := s.decided()
	for _, want := range []string{"rate.one.chat.round[1].bench", "rate.one.chat.round[3].bench"} {
		if !strings.Contains(out, want) {
			t.Errorf("apply does not name %s:\n%s", want, out)
		}
	}
	var report struct {
		Rates []searched `json:"rate_search"`
	}
	if err := json.Unmarshal([]byte(s.must(0, "report", "--json").out), &report); err != nil {
		t.Fatal(err)
	}
	r := report.Rates[0]
	if r.Best != 40 || r.Broke == nil || *r.Broke != 60 || !r.Over || len(r.Rounds) != 3 {
		t.Errorf("%+v; want 40 kept, 60 broken, after 3 rounds", r)
	}
	for i, want := range []float64{40, 80, 60} {
		x := r.Rounds[i]
		if x.Rate != want || x.Kept != (want < 50) || x.Row.Workload.Rate != want || x.Row.Workload.Arrival != "poisson" {
			t.Errorf("round %d: %+v", i+1, x)
		}
	}
	if text := s.must(0, "report", "--format", "md").out; !strings.Contains(text, "| `one` | `chat` | `baseline` | 40 | 60 | 3 |") {
		t.Errorf("the report does not say the bracket:\n%s", text)
	}
	lines, err := os.ReadFile(filepath.Join(runDir(t, s), "benchmark", "rate_search.jsonl"))
	if n := strings.Count(string(lines), "\n"); err != nil || n != 3 {
		t.Errorf("%d rows of rounds in the run directory, want 3 (%v)", n, err)
	}
	if out := s.must(0, "apply").out; !strings.Contains(out, "Applied: 0 nodes run") {
		t.Errorf("a second apply ran something:\n%s", out)
	}
	if out := s.must(0, "plan", "--detailed-exitcode").out; !strings.Contains(out, "Loop rate.one.chat is over after 3 of at most 5 rounds") {
		t.Errorf("the plan does not show the end:\n%s", out)
	}
	if out := s.must(0, "explain", "rate.one.chat.round[2].bench").out; !strings.Contains(out, "poisson") || !strings.Contains(out, "80") {
		t.Errorf("explaining a round:\n%s", out)
	}
	s.must(7, "explain", "rate.one.chat.round[5].bench")
	// Rounds hang on the winning configuration, not on the numbers that it won with.
	if out := s.must(0, "apply", "--replace", `bench.one["baseline"].chat.c1`).out; !strings.Contains(out, "✓ winners.chat") || strings.Contains(out, "✓ rate.") {
		t.Errorf("a cell that was measured again:\n%s", out)
	}
	// The run directory has rounds for a store that never saw them.
	before := s.must(0, "report", "--json").out
	if err := os.RemoveAll(filepath.Join(s.dir, ".sotabuild")); err != nil {
		t.Fatal(err)
	}
	s.must(0, "cache", "import", runDir(t, s))
	if out := s.must(0, "apply").out; !strings.Contains(out, "Applied: 0 nodes run") {
		t.Errorf("after an import something ran:\n%s", out)
	}
	if after := s.must(0, "report", "--json").out; after != before {
		t.Errorf("after an import the report is another:\n%s\n%s", before, after)
	}
	// A decision whose bytes are others is made again of what was measured.
	store := filepath.Join(s.dir, ".sotabuild")
	reader, err := cache.OpenReader(store)
	if err != nil {
		t.Fatal(err)
	}
	decision := reader.History("rate.one.chat.round[2].decision")
	if err := reader.Close(); err != nil || len(decision) != 1 {
		t.Fatalf("%d decisions of the second round, %v", len(decision), err)
	}
	flip(t, store, decision[0].Outputs[0].Digest)
	s.must(0, "plan")
	if out := s.must(0, "apply").out; strings.Contains(out, ".bench  ") {
		t.Errorf("a round was measured again:\n%s", out)
	}
	// A looser bracket is decided anew from the same rounds; nothing is measured.
	s.edit("campaign.hcl", "within      = 0.35", "within      = 0.6")
	out = s.must(0, "apply").out
	if strings.Contains(out, ".bench  ") || !strings.Contains(s.must(0, "report", "--json").out, `"broke": 80`) {
		t.Errorf("a wider bracket:\n%s", out)
	}
	if out := s.must(2, "plan", "--detailed-exitcode", "--replace", "rate.one.chat.round[2].bench").out; !strings.Contains(out, "rate.one.chat.round[2].bench") {
		t.Errorf("replacing a round:\n%s", out)
	}
	// Names of no round, and rounds where none runs, are told before anything runs.
	for _, name := range []string{"rate.one.chat.round[99]", "rate.one.chat.round[2].bnch", "rate.one.chat.round", "rate.no.chat.round[1]"} {
		s.must(7, "plan", "--replace", name)
		s.must(7, "apply", "--replace", name)
	}
	for _, more := range [][]string{{"--target", "winners"}, {"--deadline", "1h"}} {
		for _, command := range []string{"plan", "apply"} {
			if r := s.must(7, append([]string{command, "--replace", "rate.one.chat.round[2]"}, more...)...); !strings.Contains(r.err, "cannot be replaced here") {
				t.Errorf("%s %v: %s", command, more, r.err)
			}
		}
	}
	s.must(7, "plan", "--replace", "rate.one.chat.round[2]", "--out", "p")

	// A Ctrl-C in a round that is replaced ends the apply, though its old decision
	// is there: no later round begins.
	a := s.start("--replace", "rate.one.chat.round[1]", "--replace", "rate.one.chat.round[2]")
	a.until("task_started", "rate.one.chat.round[1].bench")
	if err := a.proc.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if r := a.wait(); r.code != 130 || strings.Contains(r.out, "round[2]") || !strings.Contains(r.err, "needs --replace again") {
		t.Errorf("interrupted in round 1: exit code %d, %s\n%s", r.code, r.err, r.out)
	}
}
