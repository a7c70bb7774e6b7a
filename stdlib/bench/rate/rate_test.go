package rate

import (
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/result"
)

var rule = Rule{Start: 4, Limits: []Limit{{"ttft/send:p99", .2}}, Rounds: 5, Within: .05}

// row is a server whose TTFT breaks the limit above 13 requests/s.
func row(rate float64) result.Row {
	ttft := .1
	if rate > 13 {
		ttft = .3
	}
	return result.Row{Status: result.OK, Metrics: []result.Metric{{ID: "ttft/send:p99", Value: ttft, N: 200}}}
}

// TestBisectionByHand: 4 and 8 are kept, 16 breaks, 12 is kept, 14 breaks.
func TestBisectionByHand(t *testing.T) {
	var s State
	var rates []float64
	for {
		step := rule.Next(s)
		if step.Rate == 0 {
			if step.Best != 12 || !strings.Contains(step.Why, "after 5 rounds, between 12 and 14") {
				t.Errorf("the end is %+v", step)
			}
			break
		}
		rates = append(rates, step.Rate)
		p, err := rule.Outcome(step.Rate, row(step.Rate))
		if err != nil {
			t.Fatal(err)
		}
		s.Points = append(s.Points, p)
	}
	if !slices.Equal(rates, []float64{4, 8, 16, 12, 14}) {
		t.Errorf("rates are %v", rates)
	}
}

func TestEndsOfASearch(t *testing.T) {
	for _, c := range []struct {
		points []Point
		best   float64
		why    string
	}{
		{[]Point{{4, true, ""}, {4.1, false, ""}}, 4, "between 4 and 4.1"},
		{[]Point{{4, false, ""}, {2, true, ""}, {3, false, ""}, {8, true, ""}}, 2, "not monotone: 3 requests/s broke the SLA and 8 kept it"},
		{[]Point{{1, true, ""}, {2, true, ""}, {4, true, ""}, {8, true, ""}, {16, true, ""}}, 16, "no upper end found"},
		{[]Point{{16, false, ""}, {8, false, ""}, {4, false, ""}, {2, false, ""}, {1, false, ""}}, 0, "between 0 and 1"},
	} {
		if got := rule.Next(State{c.points}); got.Rate != 0 || got.Best != c.best || !strings.Contains(got.Why, c.why) {
			t.Errorf("%+v: %+v, want %v, %q", c.points, got, c.best, c.why)
		}
	}
}

func TestRoundsWithoutAVerdict(t *testing.T) {
	if p, err := rule.Outcome(9, result.Row{Status: result.Failed, Class: result.Saturated, Reason: "the queue grows"}); err != nil || p.Kept || p.Why != "the queue grows" {
		t.Errorf("%+v, %v: saturated is over the SLA", p, err)
	}
	half := result.Requests{OK: 40, Failed: 40}
	if p, err := rule.Outcome(9, result.Row{Status: result.Failed, Class: result.HTTPStatus, Reason: "HTTP 503", Requests: half}); err != nil || p.Kept || p.Why != "http_status: HTTP 503" {
		t.Errorf("%+v, %v: requests that fail at a rate break the SLA", p, err)
	}
	few := row(1)
	few.Metrics[0].N = 80
	for want, r := range map[string]result.Row{
		"no verdict: client_limited": {Status: result.Failed, Class: result.ClientLimited},
		"no verdict: http_status":    {Status: result.Failed, Class: result.HTTPStatus, Reason: "warm-up request 0: HTTP 400"},
		"it needs 100":               few,
		"has no ttft/send:p99":       {Status: result.OK},
	} {
		if _, err := rule.Outcome(9, r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
