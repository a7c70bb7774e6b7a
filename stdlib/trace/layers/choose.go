package layers

import (
	"cmp"
	"fmt"
	"slices"
)

// choose picks the pass that stands for the rest: among passes of one shape,
// in a steady state. The shape with the most time counts.
func (r *Result) choose() {
	shapes := map[string][]int{}
	time := map[string]int64{}
	var order []string
	for i, p := range r.Passes {
		if p.Partial || len(p.Layers) == 0 {
			continue
		}
		if shapes[p.Shape] == nil {
			order = append(order, p.Shape)
		}
		shapes[p.Shape] = append(shapes[p.Shape], i)
		time[p.Shape] += p.Times.Wall()
	}
	if len(order) == 0 {
		r.Chosen, r.Reason = 0, "every pass is cut by the recording; the first is shown"
		return
	}
	best := order[0]
	for _, s := range order {
		if time[s] > time[best] {
			best = s
		}
	}
	list := shapes[best]
	if len(list) == 1 {
		r.Chosen = list[0]
		r.Reason = "only pass of its shape (" + best + ")"
		if len(r.Passes) == 1 {
			r.Reason = "only pass"
		}
		return
	}
	r.Chosen, r.Reason = r.steady(list, best)
}

// steady drops a cold first pass, takes the longest run of passes within 5 %
// of its median wall time, and of that the pass nearest the median; of equals
// the earlier.
func (r *Result) steady(list []int, shape string) (int, string) {
	wall := func(i int) int64 { return r.Passes[i].Times.Wall() }
	cold := ""
	if m := median(list, wall); wall(list[0])*2 > m*3 {
		cold = fmt.Sprintf("; pass %d is a cold start (%.2f × median) and left out", list[0], float64(wall(list[0]))/float64(m))
		list = list[1:]
	}
	var run []int
	for from := range list {
		for to := len(list); to-from > len(run); to-- {
			part := list[from:to]
			m := median(part, wall)
			if !slices.ContainsFunc(part, func(i int) bool { d := wall(i) - m; return d*20 > m || -d*20 > m }) {
				run = part
				break
			}
		}
	}
	m := median(run, wall)
	pick := run[0]
	for _, i := range run {
		if abs(wall(i)-m) < abs(wall(pick)-m) {
			pick = i
		}
	}
	if len(run) == 1 && len(list) > 1 {
		return pick, fmt.Sprintf("no two passes of shape %s are within 5 %%: not steady%s", shape, cold)
	}
	return pick, fmt.Sprintf("nearest the median wall time of %d steady passes of shape %s%s", len(run), shape, cold)
}

// median of an even number is the mean of the middle two.
func median(list []int, of func(int) int64) int64 {
	v := make([]int64, len(list))
	for i, x := range list {
		v[i] = of(x)
	}
	slices.SortFunc(v, func(a, b int64) int { return cmp.Compare(a, b) })
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func abs(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}

// Choose takes another pass for the chosen one and clusters its layers anew.
func (r *Result) Choose(pass int) error {
	if pass < 0 || pass >= len(r.Passes) {
		return fmt.Errorf("there is no pass %d: the trace has passes 0 to %d", pass, len(r.Passes)-1)
	}
	if len(r.Passes[pass].Layers) == 0 {
		return fmt.Errorf("no layers were found in pass %d", pass)
	}
	for i := range r.Passes[r.Chosen].Layers {
		r.Passes[r.Chosen].Layers[i].Cluster = -1
	}
	r.Chosen, r.Reason, r.Clusters = pass, "asked for", nil
	r.cluster()
	return nil
}
