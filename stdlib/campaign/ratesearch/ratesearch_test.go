package ratesearch

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/engine/loop"
	"github.com/sotabuild/sotabuild/stdlib/bench/rate"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// round decides of a row, from a state; the next state is returned.
func round(t *testing.T, s state, row result.Row) (state, loop.Decision, error) {
	t.Helper()
	from, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	d, err := decide(from, len(s.Points)+1, []loop.Got{{Name: "row", Addr: "rate.a.b.round[1].bench", Bytes: b, Failed: row.Status != result.OK}})
	var next state
	if err == nil {
		err = json.Unmarshal(d.State, &next)
	}
	return next, d, err
}

func failed(class result.Class) result.Row {
	var r result.Row
	r.Fail(class, "as told")
	return r
}

func measured(n int, ttft float64) result.Row {
	return result.Row{Status: result.OK, Metrics: []result.Metric{{ID: "ttft/send:p50", Value: ttft, N: n}}}
}

var rule = rate.Rule{Start: 8, Rounds: 4, Within: 0.1, Limits: []rate.Limit{{ID: "ttft/send:p50", Max: 0.2}}}

// A saturated round is over the SLA: 8 kept, 16 saturated, 12 kept, 14 too slow
// are four rounds, and the answer is 12.
func TestSaturatedIsOverTheSLA(t *testing.T) {
	s := state{Rule: rule}
	rows := []result.Row{measured(10, 0.1), failed(result.Saturated), measured(10, 0.15), measured(10, 0.25)}
	for i, want := range []float64{8, 16, 12, 14} {
		if got := s.next().Rate; got != want {
			t.Fatalf("round %d asks %g requests/s, want %g", i+1, got, want)
		}
		var d loop.Decision
		var err error
		if s, d, err = round(t, s, rows[i]); err != nil || d.Stop != (i == 3) {
			t.Fatalf("round %d: %+v, %v", i+1, d, err)
		}
	}
	if step := s.next(); step.Best != 12 || step.Rate != 0 {
		t.Errorf("%+v, want 12 and the end", step)
	}
}

// What has no verdict decides nothing: no rate is called broken by it.
func TestNoVerdictIsNoDecision(t *testing.T) {
	for class, row := range map[string]result.Row{
		"client_limited": failed(result.ClientLimited), "throttled": failed(result.Throttled), "samples": measured(1, 0.1), "ttft/send:p50": {Status: result.OK},
	} {
		if _, d, err := round(t, state{Rule: rule}, row); err == nil || !strings.Contains(err.Error(), class) {
			t.Errorf("%s: %+v, %v; want an error that says so", class, d, err)
		}
	}
}
