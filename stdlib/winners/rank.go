package winners

import (
	"slices"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Ranking is the outcome of all frameworks in one scenario.
type Ranking struct {
	Version int       `json:"v"`
	Cells   []Contest `json:"cells"` // by concurrency, unlimited last
	// Best are the scenario's winners, as in Selection; Cell is the index of
	// the cell they won in, the first of them if they are tied across cells.
	Best []key.Digest `json:"best,omitempty"`
	Cell *int         `json:"cell,omitempty"`
	// Gap is that of the winner's cell.
	Gap
}

// Contest is one cell with the best row of each framework.
type Contest struct {
	Workload result.Workload `json:"workload"`
	Places   []Place         `json:"places"` // best first, ties in the order of digests
	Gap
}

// Place is a row's rank in its cell, from 1; tied rows share one and the next
// rank follows without a hole. Zero is no rank: the row does not pass, or has no
// request throughput.
type Place struct {
	Rank int `json:"rank,omitempty"`
	Judged
}

// Gap is how far the target is behind the best: (best − target) / best on
// request throughput, among the rows that pass. It is 0 if the target is the
// best, and never negative. Share is nil where it is not defined, and None says
// why.
type Gap struct {
	Share *float64 `json:"gap,omitempty"`
	None  string   `json:"no_gap,omitempty"`
}

// SelectionInput is a selection and the digest of its bytes.
type SelectionInput struct {
	Digest    key.Digest
	Selection Selection
}

// Rank compares the selections of all frameworks of one scenario; target is the
// digest of the one whose gap is asked for. A framework is in a cell only if it
// has a row there, passing or not. A target that is not among the selections is
// a bug of the caller and panics.
func Rank(target key.Digest, frameworks []SelectionInput) Ranking {
	if !slices.ContainsFunc(frameworks, func(s SelectionInput) bool { return s.Digest == target }) {
		panic("winners: the target is not among the selections")
	}
	r := Ranking{Version: Version}
	at := map[string]int{}
	own := map[int][]Judged{} // the target's best rows, by cell
	var contests []Contest
	for _, s := range frameworks {
		for _, c := range s.Selection.Cells {
			id := cellKey(c.Workload)
			n, ok := at[id]
			if !ok {
				n = len(contests)
				at[id] = n
				contests = append(contests, Contest{Workload: c.Workload})
			}
			head := first(c.Rows)
			if s.Digest == target {
				own[n] = head
			}
			for _, j := range head {
				contests[n].add(j)
			}
		}
	}
	var all []Judged
	for n := range contests {
		contests[n].finish(own[n])
		for _, p := range contests[n].Places {
			all = append(all, p.Judged)
		}
	}
	slices.SortFunc(contests, func(a, b Contest) int { return cellOrder(a.Workload, b.Workload) })
	r.Cells, r.Best = contests, best(all)
	r.Gap = Gap{None: "no row of the scenario passes the SLA"}
	if r.Best != nil {
		n := slices.IndexFunc(contests, func(c Contest) bool {
			return slices.ContainsFunc(c.Places, func(p Place) bool { return slices.Contains(r.Best, p.Row) })
		})
		r.Cell, r.Gap = &n, contests[n].Gap
	}
	return r
}

// add puts a row into the contest once: two frameworks that are the same
// program with the same flags share one measurement.
func (c *Contest) add(j Judged) {
	if !slices.ContainsFunc(c.Places, func(p Place) bool { return p.Row == j.Row }) {
		c.Places = append(c.Places, Place{Judged: j})
	}
}

func (c *Contest) finish(target []Judged) {
	slices.SortFunc(c.Places, func(a, b Place) int { return ordered(a.Judged, b.Judged) })
	rank := 0
	for i := range c.Places {
		p := &c.Places[i]
		if !p.ranked() {
			break // Rows that cannot win stand behind all that can.
		}
		if i == 0 || compare(c.Places[i-1].Judged, p.Judged) != 0 {
			rank++
		}
		p.Rank = rank
	}
	c.Gap = gap(c.Places, target)
}

func gap(places []Place, target []Judged) Gap {
	switch {
	case len(places) == 0 || !places[0].ranked():
		return Gap{None: "no row of the cell passes the SLA"}
	case len(target) == 0:
		return Gap{None: "the target has no row in the cell"}
	case !target[0].ranked():
		return Gap{None: "the target has no row in the cell that passes the SLA"}
	}
	top := *places[0].Score.RequestThroughput
	if top <= 0 {
		return Gap{None: "the best request throughput is not above zero"}
	}
	share := (top - *target[0].Score.RequestThroughput) / top
	return Gap{Share: &share}
}
