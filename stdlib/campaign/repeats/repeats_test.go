package repeats

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	sampled "github.com/sotabuild/sotabuild/stdlib/campaign/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/search"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

func bytesOf(t *testing.T, row result.Row) []byte {
	t.Helper()
	b, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func failed(class result.Class) result.Row {
	var r result.Row
	r.Fail(class, "as told")
	return r
}

// TestEveryClassIsASampleOrNot: rejected runs are no samples, lasting failures
// put a side out, passing ones decide nothing.
func TestEveryClassIsASampleOrNot(t *testing.T) {
	for _, c := range result.Classes {
		s, err := sample(bytesOf(t, failed(c.Class)), winners.SLA{})
		switch {
		case c.Reject:
			if err != nil || !strings.HasPrefix(s.Rejected, string(c.Class)) || s.Broken != "" {
				t.Errorf("%s: %+v, %v; want a rejected sample", c.Class, s, err)
			}
		case c.Keep:
			if err != nil || !strings.HasPrefix(s.Broken, string(c.Class)) || s.Rejected != "" {
				t.Errorf("%s: %+v, %v; want a side that is out", c.Class, s, err)
			}
		case err == nil || !strings.Contains(err.Error(), string(c.Class)):
			t.Errorf("%s: %+v, %v; want no verdict", c.Class, s, err)
		}
	}
	limit := 0.1
	row := result.Row{Status: result.OK, Metrics: []result.Metric{{ID: "request_throughput", Value: 7}, {ID: "ttft/send:p50", Value: 0.2}},
		Workload: result.Workload{NumPrompts: 1}, Requests: result.Requests{OK: 1}}
	s, err := sample(bytesOf(t, row), winners.SLA{MaxP50TTFT: &limit})
	if err != nil || s.Value != 7 || !strings.Contains(s.Failing, "200 ms is above 100 ms") {
		t.Errorf("%+v, %v; want 7, and the limit that is not kept", s, err)
	}
}

// TestRejectedRepeatsAreKept: a throttled repeat is a lasting record, and is not
// tried again under its number; a failure that passes is not kept.
func TestRejectedRepeatsAreKept(t *testing.T) {
	c := sampled.Load(t, sampled.Text)
	spec := Spec{campaign.NewBenchSpec(c, campaign.Facts{}, c.Frameworks[0], search.Candidate{Name: "baseline"}, c.Load.Scenarios[0], nil), 1, key.Digest{}}
	for class, keep := range map[result.Class]bool{result.Throttled: true, result.ClientLimited: true, "oom": true, "unhealthy": false} {
		got := Kind.Collect(compile.Job{Spec: spec}, compile.StepResult{Class: string(class), Reason: "as told"})
		_, kept := Kind.Policy(string(class))
		if kept != keep || got.Outcome.State != cache.Failed {
			t.Errorf("%s: kept %v, outcome %+v; want %v", class, kept, got.Outcome, keep)
		}
	}
	if retries, _ := Kind.Policy(string(result.ClientLimited)); retries != 0 {
		t.Errorf("a rejected repeat is tried %d times more", retries)
	}
}

// TestAContestIsItsSides: whoever stands first, it is the same contest; with
// another flag of one side, or another side, it is not.
func TestAContestIsItsSides(t *testing.T) {
	c := sampled.Load(t, sampled.Text)
	of := func(fw int, flags ...lang.Flag) campaign.BenchSpec {
		return campaign.NewBenchSpec(c, campaign.Facts{}, c.Frameworks[fw], search.Candidate{Flags: flags}, c.Load.Scenarios[0], nil)
	}
	a, b := of(0, c.Frameworks[0].Flags...), of(1, c.Frameworks[1].Flags...)
	same := among([]campaign.BenchSpec{a, b})
	if among([]campaign.BenchSpec{b, a}) != same {
		t.Error("the order of the sides makes another contest")
	}
	for name, sides := range map[string][]campaign.BenchSpec{"other_flags": {a, of(1)}, "a_third": {a, b, of(1)}, "one": {a}} {
		if among(sides) == same {
			t.Errorf("%s: the same contest", name)
		}
	}
}

// TestReach: a finer threshold than the default one leaves out nobody that the
// default one repeats.
func TestReach(t *testing.T) {
	for threshold, want := range map[float64]float64{0.0001: 0.1, 0.01: 0.1, 0.05: 0.5} {
		if got := reach(threshold); math.Abs(got-want) > 1e-12 {
			t.Errorf("reach(%v) = %v, want %v", threshold, got, want)
		}
	}
}
