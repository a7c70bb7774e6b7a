package layers

import (
	"cmp"
	"fmt"
	"slices"
)

// Count is how many layers a pass has, by three independent witnesses. 0 is a
// witness that could not speak.
type Count struct {
	N         int
	Attention int    // main attention kernels
	Vote      int    // how often kernels recur
	Config    int    // the model's configuration
	Certain   bool   // two witnesses agree
	Note      string // how it was decided
}

// count hears the witnesses. Two that agree decide; without agreement the
// number is still given, and said to be uncertain.
func (r *Result) count(c chain, attention int) Count {
	n := Count{Attention: attention, Vote: c.vote(), Config: r.Config.Layers}
	switch {
	case n.Config > 0 && attention > 0 && attention%n.Config == 0:
		n.N, n.Certain, n.Note = n.Config, true, "configuration and attention kernels agree"
	case n.Config > 0 && n.Vote == n.Config:
		n.N, n.Certain, n.Note = n.Config, true, "configuration and recurring kernels agree"
	case attention > 0 && attention == n.Vote:
		n.N, n.Certain, n.Note = attention, true, "attention kernels and recurring kernels agree"
	default:
		n.N = cmp.Or(attention, n.Vote)
		n.Note = fmt.Sprintf("uncertain: %d by attention kernels, %d by recurring kernels, %d by configuration (0: unknown)",
			attention, n.Vote, n.Config)
	}
	return n
}

// vote lets every kernel that occurs at least four times speak for the layer
// counts it fits: once a layer (one point), twice to four times (half a point),
// each ± 1 since the first and last layer often differ. Ties go to the count
// that occurs exactly most often.
func (c chain) vote() int {
	const least, most = 4, 128
	counts := map[string]int{}
	for _, s := range c.symbols {
		counts[s]++
	}
	points, exact := [most + 1]int{}, [most + 1]int{}
	for _, k := range counts {
		if k < 4 {
			continue
		}
		for n := least; n <= most; n++ {
			switch {
			case k >= n-1 && k <= n+1:
				points[n] += 2
				if k == n {
					exact[n]++
				}
			case near(k, 2*n) || near(k, 3*n) || near(k, 4*n):
				points[n]++
			}
		}
	}
	best := 0
	for n := least; n <= most; n++ {
		if points[n] > points[best] || points[n] == points[best] && points[n] > 0 && exact[n] > exact[best] {
			best = n
		}
	}
	return best
}

func near(k, n int) bool { return k >= n-1 && k <= n+1 }

// bag counts the family symbols of events.
func (r *Result) bag(events []int32) map[string]int {
	out := map[string]int{}
	for _, e := range events {
		out[r.Profile.Symbol(e).Family]++
	}
	return out
}

// similarity is the weighted Jaccard index of two bags: 1 for equal, 0 for
// nothing in common.
func similarity(a, b map[string]int) float64 {
	common, all := 0, 0
	for s, n := range a {
		common += min(n, b[s])
		all += max(n, b[s])
	}
	for s, n := range b {
		if a[s] == 0 {
			all += n
		}
	}
	if all == 0 {
		return 1
	}
	return float64(common) / float64(all)
}

// medoid is the bag of the commonest size: the usual layer.
func medoid(bags []map[string]int) int {
	size := func(i int) int {
		n := 0
		for _, k := range bags[i] {
			n += k
		}
		return n
	}
	order := make([]int, len(bags))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size(a), size(b)) })
	return order[len(order)/2]
}
