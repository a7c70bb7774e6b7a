// Package stats decides between two systems from repeated runs: which is
// ahead, whether they are tied, or that nobody can say. It knows numbers and
// directions, but no metric, no server and no campaign.
//
// A run is one value (the throughput of one server life, say). Runs of the two
// systems are interleaved (Order), looked at after 3, 5, 10 and 20 repeats, and
// the error is spent over the looks, so that looking early does not make
// winners out of noise. Plan.Judge is the whole procedure; its verdict is that
// of the first look that decides.
//
// Functions are pure and safe for concurrent use. An error means that the
// numbers are no measurements (not positive, not finite, unequal in count).
package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Verdict is what a comparison of A with B came to.
type Verdict string

// The verdicts.
const (
	Ahead      Verdict = "ahead"      // A is better by more than the band
	Behind     Verdict = "behind"     // B is better by more than the band
	Tied       Verdict = "tied"       // the difference is within the band
	Unresolved Verdict = "unresolved" // all repeats are used up and none of the above is shown
	Open       Verdict = "open"       // not yet: more repeats are needed
)

// Rule is how a comparison is decided. Standard is the design's.
type Rule struct {
	Band  float64 // half width of "equal" as a share: 0.01
	Error float64 // probability of a wrong winner, and of a wrong tie, over all looks: 0.05
	Looks []int   // repeats a system after which is looked, ascending, the first at least 2
}

// Standard is the rule with at most max repeats: looks at 3, 5, 10 and 20, as
// far as they lie below max, and at max.
func Standard(max int) Rule { return Within(0.01, 3, max) }

// Within is the standard rule with another band and no look before min repeats.
func Within(band float64, min, max int) Rule {
	r := Rule{Band: band, Error: 0.05}
	for _, n := range []int{3, 5, 10, 20} {
		if n >= min && n < max {
			r.Looks = append(r.Looks, n)
		}
	}
	r.Looks = append(r.Looks, max)
	return r
}

func (r Rule) check() error {
	switch {
	case !(r.Band > 0 && r.Band < 1):
		return fmt.Errorf("band is %v; write a share such as 0.01", r.Band)
	case !(r.Error > 0 && r.Error < 0.5):
		return fmt.Errorf("error is %v; write a share such as 0.05", r.Error)
	case len(r.Looks) == 0 || r.Looks[0] < 2:
		return fmt.Errorf("looks are %v; the first look needs at least 2 repeats", r.Looks)
	}
	for i := 1; i < len(r.Looks); i++ {
		if r.Looks[i] <= r.Looks[i-1] {
			return fmt.Errorf("looks are %v; they must ascend", r.Looks)
		}
	}
	return nil
}

// Order returns the ABBA order of n repeats of both systems: 0 is A, 1 is B.
// A drift that is linear in time falls on both alike in each block of four.
func Order(n int) []int {
	out := make([]int, 0, 2*n)
	for i := range n {
		out = append(out, i%2, 1-i%2)
	}
	return out
}

// Comparison is a verdict with its evidence.
type Comparison struct {
	Verdict Verdict `json:"verdict"`
	Repeats int     `json:"repeats"`          // of each system, at the look that the numbers are from
	Ratio   float64 `json:"ratio"`            // A / B: the median of all ratios of a run of A to one of B
	Low     float64 `json:"low"`              // of the ratio's interval at this look
	High    float64 `json:"high"`             // of the same
	SpreadA float64 `json:"spread_a"`         // run-to-run standard deviation as a share
	SpreadB float64 `json:"spread_b"`         // the same of B
	Next    int     `json:"next,omitempty"`   // repeats at the next look, while the verdict is open
	Level   float64 `json:"interval_level"`   // 1 − the error spent at this look alone
	Band    float64 `json:"band"`             // of the rule
	Higher  bool    `json:"higher_is_better"` // direction
}

// String says the verdict in a line.
func (c Comparison) String() string {
	s := fmt.Sprintf("%s: ratio %.4f, interval %.4f to %.4f after %d repeats", c.Verdict, c.Ratio, c.Low, c.High, c.Repeats)
	if c.Verdict == Open && c.Next > 0 {
		s += fmt.Sprintf("; next look at %d", c.Next)
	}
	return s
}

// Plan is a rule with the bounds of its looks.
type Plan struct {
	rule     Rule
	win, tie []float64 // two-sided normal bounds of each look
}

// NewPlan computes the bounds of a rule, which takes some 20 ms. The errors of
// winners are spent as t², t being the share of all repeats seen, so that a gap
// of 10 % can be called after three repeats at 1 % noise; those of ties as t⁴,
// because a tie needs many repeats anyway.
func NewPlan(r Rule) (Plan, error) {
	if err := r.check(); err != nil {
		return Plan{}, fmt.Errorf("planning a comparison: %w", err)
	}
	// Two one-sided tests of 5 % are the two-sided interval of 90 %.
	return Plan{r, bounds(r.Looks, r.Error, 2), bounds(r.Looks, 2*r.Error, 4)}, nil
}

// Judge compares A with B by their runs so far, in the order they were made.
// Each look sees only the runs up to it, as it did when they were fresh; runs
// after the deciding look change nothing. Before the first look the verdict is
// Open without numbers.
func (p Plan) Judge(a, b []float64, higherIsBetter bool) (Comparison, error) {
	c := Comparison{Verdict: Open, Band: p.rule.Band, Higher: higherIsBetter}
	if err := errors.Join(measurements("A", a), measurements("B", b)); err != nil {
		return c, fmt.Errorf("judging runs: %w", err)
	}
	have := min(len(a), len(b))
	for i, n := range p.rule.Looks {
		c.Next = n
		if n > have {
			return c, nil
		}
		c = shift(a[:n], b[:n]).look(c, p.win[i], p.tie[i])
		c.Repeats, c.Next = n, 0
		if c.Verdict != Open {
			return c, nil
		}
	}
	c.Verdict = Unresolved
	return c, nil
}

// look judges one look: a winner when the interval of the ratio lies wholly
// beyond the band, a tie when the interval of two one-sided tests lies wholly
// inside it.
func (s estimate) look(c Comparison, win, tie float64) Comparison {
	band := math.Log1p(c.Band)
	half, inner := s.half(win), s.half(tie)
	low, high := s.log-half, s.log+half
	c.Ratio, c.Low, c.High = math.Exp(s.log), math.Exp(low), math.Exp(high)
	c.SpreadA, c.SpreadB, c.Level = s.a, s.b, 1-tail(win)
	up, down := Ahead, Behind
	if !c.Higher {
		up, down = Behind, Ahead
	}
	switch {
	case low > band:
		c.Verdict = up
	case high < -band:
		c.Verdict = down
	case math.Abs(s.log)+inner < band:
		c.Verdict = Tied
	}
	return c
}

func measurements(name string, v []float64) error {
	if i := slices.IndexFunc(v, func(x float64) bool { return !(x > 0) || math.IsInf(x, 0) }); i >= 0 {
		return fmt.Errorf("run %d of %s is %v; a measurement is a positive number", i+1, name, v[i])
	}
	return nil
}
