package bench

import (
	"encoding/binary"
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
)

func (l Load) check() (errs []error) {
	arrivals := []string{Inf, Constant, Poisson}
	switch {
	case !slices.Contains(arrivals, l.Arrival):
		errs = append(errs, fmt.Errorf("arrival is %q; write one of %q", l.Arrival, arrivals))
	case l.Arrival == Inf && l.Rate != nil:
		errs = append(errs, fmt.Errorf("arrival %q has no rate; leave rate out or write %q", l.Arrival, Constant))
	case l.Arrival != Inf && l.Rate == nil:
		errs = append(errs, fmt.Errorf("arrival %q needs a rate in requests per second", l.Arrival))
	case l.Rate != nil && !(*l.Rate > 0 && *l.Rate <= 1e6):
		errs = append(errs, fmt.Errorf("rate is %v; write requests per second, above 0 and at most 1000000", *l.Rate))
	}
	if l.Concurrency != nil && *l.Concurrency < 1 {
		errs = append(errs, fmt.Errorf("concurrency is %d; write at least 1 or leave it out for no limit", *l.Concurrency))
	}
	if l.Warmup < 0 {
		errs = append(errs, fmt.Errorf("warmup is %d; write 0 for none", l.Warmup))
	}
	return errs
}

// schedule returns the n send times from the start of the run, ascending, the
// first 0; nil where there is no schedule (Inf). Times are absolute: a late
// request does not push back the ones after it. The same Load gives the same
// times on every machine.
func (l Load) schedule(n int) []time.Duration {
	if l.Arrival == Inf {
		return nil
	}
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(l.Seed))
	copy(seed[8:], "sotabuild arrival 1")
	src := rand.NewChaCha8(seed)
	out := make([]time.Duration, n)
	at := 0.0
	for i := 1; i < n; i++ {
		if l.Arrival == Constant {
			at = float64(i) / *l.Rate
		} else {
			// 53 random bits in (0, 1]: the logarithm is finite.
			at -= math.Log(float64(src.Uint64()>>11+1)/(1<<53)) / *l.Rate
		}
		out[i] = time.Duration(math.Round(at * 1e9))
	}
	return out
}
