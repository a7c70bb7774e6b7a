package winners

import (
	"fmt"
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
	// Unresolved are the rows among which repeated runs found no winner; Best is
	// nil then.
	Unresolved []key.Digest `json:"unresolved,omitempty"`
	Cell       *int         `json:"cell,omitempty"`
	// Gap is that of the winner's cell.
	Gap
}

// Contest is one cell with the best row of each framework.
type Contest struct {
	Workload result.Workload `json:"workload"`
	Places   []Place         `json:"places"` // best first, ties in the order of digests
	// CacheNotShown says that some places expose their cached share and others
	// do not, so that it is not shown that the caches were alike.
	CacheNotShown bool `json:"cache_not_shown,omitempty"`
	Gap
}

// Place is a row's rank in its cell, from 1; tied rows share one and the next
// rank follows without a hole. Zero is no rank: the row does not pass, or has no
// request throughput.
type Place struct {
	Rank int `json:"rank,omitempty"`
	// Near says that the row is within the noise threshold of the cell's best:
	// one run of each does not tell them apart (R122).
	Near bool `json:"near,omitempty"`
	// Repeated is what repeated runs say; nil where there are none.
	Repeated *Repeated `json:"repeated,omitempty"`
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

// Rules are how selections are compared. The zero value compares strictly.
type Rules struct {
	CachedShare *float64 // as in SLA
	Noise       float64  // share of request throughput within which rows are near each other
}

// Rank compares the selections of all frameworks of one scenario; target is the
// digest of the one whose gap is asked for. A framework is in a cell only if it
// has a row there, passing or not. A target that is not among the selections is
// a bug of the caller and panics. A lane beside the main one has contests and no
// winner (R073).
func Rank(target key.Digest, frameworks []SelectionInput, rules Rules) Ranking {
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
				own[n] = slices.Clone(head)
			}
			for _, j := range head {
				contests[n].add(j)
			}
		}
	}
	var all []Judged
	for n := range contests {
		contests[n].finish(own[n], rules)
		for _, p := range contests[n].Places {
			all = append(all, p.Judged)
		}
	}
	slices.SortFunc(contests, func(a, b Contest) int { return cellOrder(a.Workload, b.Workload) })
	r.Cells, r.Best = contests, best(all)
	r.Gap = Gap{None: "no row of the scenario passes the SLA"}
	if !slices.ContainsFunc(all, Judged.ok) {
		r.Gap = Gap{None: "no row of the scenario has a result"}
	}
	if i := slices.IndexFunc(contests, func(c Contest) bool { return c.Workload.Lane != "" }); i >= 0 {
		r.Best = nil
		r.Gap = Gap{None: fmt.Sprintf("the lane %q has a table of its own and no winner", contests[i].Workload.Lane)}
	}
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

func (c *Contest) finish(target []Judged, rules Rules) {
	equalCaches(pointers(c.Places, func(p *Place) *Judged { return &p.Judged }), rules.CachedShare)
	for i, t := range target {
		if n := slices.IndexFunc(c.Places, func(p Place) bool { return p.Row == t.Row }); n >= 0 {
			target[i] = c.Places[n].Judged
		}
	}
	c.CacheNotShown = unknownCaches(c.Places)
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
		top := *c.Places[0].Score.RequestThroughput
		p.Near = i > 0 && rules.Noise > 0 && top-*p.Score.RequestThroughput <= rules.Noise*top
	}
	c.Gap = gap(c.Places, target)
}

func gap(places []Place, target []Judged) Gap {
	switch {
	case !slices.ContainsFunc(places, func(p Place) bool { return p.ok() }):
		return Gap{None: "no row of the cell has a result"}
	case !places[0].ranked():
		return Gap{None: "no row of the cell passes the SLA"}
	case len(target) == 0:
		return Gap{None: "the target has no row in the cell"}
	case !target[0].ok():
		return Gap{None: "the target has no result in the cell"}
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
