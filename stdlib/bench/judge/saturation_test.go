package judge

import (
	"math/rand/v2"
	"testing"
)

// queue simulates a server of one slot by hand: Lindley's recursion.
func queue(src *rand.Rand, n int, load float64) []Point {
	var out []Point
	now, free := 0.0, 0.0
	var ends []float64
	for range n {
		now += src.ExpFloat64() / load
		start := max(now, free)
		free = start + .9 + .2*src.Float64()
		ends = append(ends, free)
		in := 0
		for _, e := range ends {
			if e > now {
				in++
			}
		}
		out = append(out, Point{Sent: now, InFlight: float64(in), TTFT: free - now})
	}
	return out
}

// TestSaturationHasFewFalseAlarms: 100 queues at a load of 0.85 are stable, 100
// at 1.2 are not.
func TestSaturationHasFewFalseAlarms(t *testing.T) {
	src := rand.New(rand.NewPCG(3, 4))
	stable, growing := 0, 0
	for range 100 {
		// As in a run: a look after every 50 requests.
		calm, busy := queue(src, 1000, .85), queue(src, 1000, 1.2)
		for n := 50; n <= 1000; n += 50 {
			if Saturated(calm[:n]) {
				stable++
				break
			}
		}
		if Saturated(busy) {
			growing++
		}
	}
	if stable > 3 || growing < 97 {
		t.Errorf("%d of 100 stable and %d of 100 growing queues are called saturated", stable, growing)
	}
	// A short run is called so where it is far beyond what the server takes, and a
	// stable one is not, even near its limit.
	stable, growing = 0, 0
	for range 200 {
		calm, busy := queue(src, 400, .95), queue(src, 400, 2)
		for n := 50; n <= 400; n += 50 {
			if Saturated(calm[:n]) {
				stable++
				break
			}
		}
		if Saturated(busy[:350]) {
			growing++
		}
	}
	if stable > 2 || growing < 195 {
		t.Errorf("of short runs %d of 200 stable and %d of 200 growing queues are called saturated", stable, growing)
	}
	if Saturated(queue(src, 40, 10)) {
		t.Error("40 points are too few")
	}
}
