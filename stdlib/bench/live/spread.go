package live

import (
	"math/bits"
	"time"
)

// Durations are counted in buckets of 1/64 of their power of two, so that a
// value of any size is known to 1 % and adding one costs a few instructions.
const (
	mantissa = 6
	octaves  = 42 // 2⁴² ns are 73 minutes; what took longer counts as that
)

// spread counts durations.
type spread struct {
	n      int64
	counts [octaves << mantissa]uint32
}

func (s *spread) add(d time.Duration) {
	s.n++
	s.counts[bucket(d)]++
}

// bucket is the number of the bucket of a duration: the power of two above its
// leading bits. The first ones, below 64 ns, are exact.
func bucket(d time.Duration) int {
	v := uint64(max(0, d))
	if v < 1<<mantissa {
		return int(v)
	}
	up := bits.Len64(v) - mantissa - 1
	return min(octaves<<mantissa-1, (up+1)<<mantissa|int(v>>up)&(1<<mantissa-1))
}

// middle is the middle of a bucket in seconds.
func middle(b int) float64 {
	if b < 1<<mantissa {
		return float64(b) / 1e9
	}
	up := b>>mantissa - 1
	low := float64(uint64(1<<mantissa|b&(1<<mantissa-1)) << up)
	return (low + float64(uint64(1)<<up)/2) / 1e9
}

// spread reads the percentiles, by the nearest rank.
func (s *spread) spread() Spread {
	out := Spread{N: s.n}
	for _, q := range []struct {
		to      *float64
		percent int64
	}{{&out.P50, 50}, {&out.P99, 99}} {
		rank, seen := (s.n*q.percent+99)/100, int64(0)
		for b, n := range s.counts {
			if seen += int64(n); n > 0 && seen >= rank {
				*q.to = middle(b)
				break
			}
		}
	}
	return out
}
