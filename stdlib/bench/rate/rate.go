// Package rate finds the highest request rate that keeps an SLA: doubling until
// it breaks, then bisection, at most so many rounds. It measures nothing: the
// caller gives the outcome of each rate and gets the next one.
//
// A search is a value; Next is pure, so that its state can be stored between
// rounds. A cell without a verdict (client_limited, throttled, or one that sent
// no request) decides nothing and ends the search; a saturated one is over the
// SLA.
package rate

import (
	"fmt"
	"slices"

	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Limit is a limit of the SLA on one metric of a row; seconds for latencies.
type Limit struct {
	ID  string  `json:"id"` // such as ttft/send:p99
	Max float64 `json:"max"`
}

// Rule is what is searched for.
type Rule struct {
	Start  float64 // requests/s of the first round
	Limits []Limit
	Rounds int     // at most; the usual number is 5
	Within float64 // stop when the bracket is narrower than this share of its upper end
}

// Point is one round.
type Point struct {
	Rate float64 `json:"rate"`
	Kept bool    `json:"kept"`
	Why  string  `json:"why,omitempty"` // what broke
}

// State is a search so far. The zero value has not begun.
type State struct {
	Points []Point `json:"points"`
}

// Step is what follows: a rate to measure, or the end with a reason.
type Step struct {
	Rate float64 `json:"rate,omitempty"` // of the next round; 0 when it is over
	Best float64 `json:"best"`           // highest rate that kept the SLA; 0 if none did
	Why  string  `json:"why,omitempty"`  // why it is over
}

// Outcome judges one round's row by the limits.
func (r Rule) Outcome(rate float64, row result.Row) (Point, error) {
	p := Point{Rate: rate}
	c, known := result.Lookup(row.Class)
	switch {
	case row.Class == result.Saturated:
		p.Why = row.Reason
		return p, nil
	case known && c.Reject, row.Status != result.OK && (!c.Keep || row.Requests.Sent() == 0):
		return p, fmt.Errorf("the round at %.4g requests/s has no verdict: %s: %s", rate, row.Class, row.Reason)
	case row.Status != result.OK:
		p.Why = fmt.Sprintf("%s: %s", row.Class, row.Reason)
		return p, nil
	}
	for _, l := range r.Limits {
		i := slices.IndexFunc(row.Metrics, func(m result.Metric) bool { return m.ID == l.ID })
		if i < 0 {
			return p, fmt.Errorf("the round at %.4g requests/s has no %s", rate, l.ID)
		}
		m := row.Metrics[i]
		if need := judge.Needs(l.ID); m.N < need {
			return p, fmt.Errorf("%s of %d samples decides nothing, it needs %d: ask for more prompts", l.ID, m.N, need)
		}
		if m.Value > l.Max {
			p.Why = fmt.Sprintf("%s of %.4g is above %.4g", l.ID, m.Value, l.Max)
			return p, nil
		}
	}
	p.Kept = true
	return p, nil
}

// Next says what to measure after these rounds.
func (r Rule) Next(s State) Step {
	low, high := 0., 0.
	for _, p := range s.Points {
		if p.Kept {
			low = max(low, p.Rate)
		} else if high == 0 || p.Rate < high {
			high = p.Rate
		}
	}
	best := Step{Best: low}
	switch {
	case len(s.Points) == 0:
		return Step{Rate: r.Start}
	case high > 0 && low > high:
		// The SLA was kept above a rate that broke it: the runs are too noisy for a
		// bracket, and the lower answer is the one that holds.
		best.Best = 0
		for _, p := range s.Points {
			if p.Kept && p.Rate < high {
				best.Best = max(best.Best, p.Rate)
			}
		}
		best.Why = fmt.Sprintf("not monotone: %.4g requests/s broke the SLA and %.4g kept it; repeat, or ask for more prompts", high, low)
		return best
	case high > 0 && high-low <= r.Within*high:
		best.Why = fmt.Sprintf("between %.4g and %.4g requests/s", low, high)
		return best
	case len(s.Points) >= r.Rounds:
		best.Why = fmt.Sprintf("after %s, between %.4g and %s", result.Count(r.Rounds, "round"), low, upper(high))
		return best
	case high == 0:
		best.Rate = 2 * low
	default:
		best.Rate = (low + high) / 2
	}
	return best
}

func upper(high float64) string {
	if high == 0 {
		return "no upper end found"
	}
	return fmt.Sprintf("%.4g requests/s", high)
}
