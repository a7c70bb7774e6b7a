// Package arrival says when the requests of a run are due: all at once, at
// equal or random gaps, along a ramp, or at the times of a recorded trace.
//
// Times are absolute, so that a late request does not push back the ones after
// it, and the same Load gives the same times on every machine. The package
// sends nothing and reads no clock; functions are pure.
package arrival

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// The arrivals: how send times are spread.
const (
	Inf      = "inf"      // all at once, or as the concurrency cap lets them
	Constant = "constant" // equal gaps
	Poisson  = "poisson"  // exponential gaps
	Gamma    = "gamma"    // gaps of a gamma distribution with shape Burstiness
	Trace    = "trace"    // the times in the dataset
)

// Load is when requests are sent.
type Load struct {
	Arrival     string   `json:"arrival"`               // one of the constants
	Rate        *float64 `json:"rate,omitempty"`        // requests/s
	Concurrency *int     `json:"concurrency,omitempty"` // in flight at most; absent is unlimited
	Warmup      int      `json:"warmup"`                // the dataset's warm-up prompts to send first, never counted
	Seed        int64    `json:"seed"`
	// Burstiness is the shape of Gamma: 1 is Poisson, less is more bursty.
	Burstiness *float64 `json:"burstiness,omitempty"`
	Ramp       *Ramp    `json:"ramp,omitempty"` // instead of one Rate; gaps are still those of Arrival
}

// Ramp changes the rate with the share of requests sent.
type Ramp struct {
	Form string  `json:"form"` // linear | exponential
	From float64 `json:"from"` // requests/s
	To   float64 `json:"to"`
}

// The forms of a ramp.
const (
	Linear      = "linear"
	Exponential = "exponential"
)

// Check returns all that is wrong with the Load.
func (l Load) Check() (errs []error) {
	arrivals := []string{Inf, Constant, Poisson, Gamma, Trace}
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	rated := l.Arrival == Constant || l.Arrival == Poisson || l.Arrival == Gamma
	positive := func(v float64) bool { return v > 0 && v <= 1e6 }
	switch {
	case !slices.Contains(arrivals, l.Arrival):
		wrong(true, "arrival is %q; write one of %q", l.Arrival, arrivals)
	case !rated:
		wrong(l.Rate != nil || l.Ramp != nil, "arrival %q has no rate; leave rate out or write %q", l.Arrival, Constant)
	default:
		wrong(l.Rate == nil && l.Ramp == nil, "arrival %q needs a rate in requests per second", l.Arrival)
		wrong(l.Rate != nil && l.Ramp != nil, "rate and ramp are both given; leave out one")
		wrong(l.Rate != nil && !positive(*l.Rate), "rate is %v; write requests per second, above 0 and at most 1000000", value(l.Rate))
	}
	if r := l.Ramp; r != nil {
		wrong(r.Form != Linear && r.Form != Exponential, "ramp is %q; write %q or %q", r.Form, Linear, Exponential)
		wrong(!positive(r.From) || !positive(r.To), "ramp from %v to %v; write requests per second, above 0 and at most 1000000", r.From, r.To)
	}
	wrong((l.Arrival == Gamma) != (l.Burstiness != nil), "burstiness belongs to arrival %q and is needed there", Gamma)
	wrong(l.Burstiness != nil && !(*l.Burstiness > 0 && *l.Burstiness <= 1e6), "burstiness is %v; write a number above 0", value(l.Burstiness))
	wrong(l.Concurrency != nil && *l.Concurrency < 1, "concurrency is %d; write at least 1 or leave it out for no limit", value(l.Concurrency))
	wrong(l.Warmup < 0, "warmup is %d; write 0 for none", l.Warmup)
	return errs
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Times returns the n send times from the start of the run, ascending, the
// first 0; nil where there is no schedule (Inf). Of a Trace, at has the
// recorded times, ascending.
func (l Load) Times(n int, at []time.Duration) ([]time.Duration, error) {
	switch {
	case l.Arrival == Inf:
		return nil, nil
	case l.Arrival == Trace:
		return replay(n, at)
	}
	src := l.source()
	out := make([]time.Duration, n)
	now := 0.0
	for i := 1; i < n; i++ {
		if l.Arrival == Constant && l.Ramp == nil {
			now = float64(i) / *l.Rate // no sum of rounded gaps
		} else {
			now += l.gap(src) / l.rate(i-1, n)
		}
		out[i] = time.Duration(math.Round(now * 1e9))
	}
	return out, nil
}

func replay(n int, at []time.Duration) ([]time.Duration, error) {
	if len(at) != n {
		return nil, fmt.Errorf("arrival %q needs a time for each prompt; %d of %d have one", Trace, len(at), n)
	}
	if !slices.IsSorted(at) {
		return nil, errors.New("the times of the dataset do not ascend")
	}
	out := make([]time.Duration, n)
	for i := range at {
		out[i] = at[i] - at[0]
	}
	return out, nil
}

// rate is the one that holds after i of n requests.
func (l Load) rate(i, n int) float64 {
	if l.Ramp == nil {
		return *l.Rate
	}
	share := float64(i) / float64(max(n-1, 1))
	if l.Ramp.Form == Exponential {
		return l.Ramp.From * math.Pow(l.Ramp.To/l.Ramp.From, share)
	}
	return l.Ramp.From + (l.Ramp.To-l.Ramp.From)*share
}

// gap draws a gap of mean 1.
func (l Load) gap(src *rand.ChaCha8) float64 {
	switch l.Arrival {
	case Poisson:
		return -math.Log(uniform(src))
	case Gamma:
		return gamma(src, *l.Burstiness) / *l.Burstiness
	}
	return 1
}

// source gives random numbers of our own making: ChaCha8's output is specified,
// while the derived draws of math/rand/v2 are not promised to stay as they are.
func (l Load) source() *rand.ChaCha8 {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(l.Seed))
	copy(seed[8:], "sotabuild arrival 1")
	return rand.NewChaCha8(seed)
}

// uniform draws from 53 random bits in (0, 1]: the logarithm is finite.
func uniform(src *rand.ChaCha8) float64 { return float64(src.Uint64()>>11+1) / (1 << 53) }

// gamma draws from the gamma distribution of this shape and scale 1 (Marsaglia
// and Tsang; a shape below 1 is drawn from shape + 1 and taken down).
func gamma(src *rand.ChaCha8, shape float64) float64 {
	if shape < 1 {
		return gamma(src, shape+1) * math.Pow(uniform(src), 1/shape)
	}
	d := shape - 1./3
	c := 1 / math.Sqrt(9*d)
	for {
		// Box–Muller; the second normal number is not kept.
		x := math.Sqrt(-2*math.Log(uniform(src))) * math.Cos(2*math.Pi*uniform(src))
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(uniform(src)) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
