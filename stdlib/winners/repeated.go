package winners

import (
	"cmp"
	"slices"

	"github.com/sotabuild/sotabuild/engine/key"
)

// Repeated is what repeated runs say of a row's candidate against the one that
// nobody is shown to be ahead of.
type Repeated struct {
	Verdict RepeatedWord `json:"verdict"`
	// Against is the row of the candidate that it is compared with; zero for the
	// first itself and for one that is out.
	Against key.Digest `json:"against,omitzero"`
	// Ratio is its request throughput over the other's, Low and High are the
	// bounds of that; 0 where there was no look.
	Ratio   float64 `json:"ratio,omitempty"`
	Low     float64 `json:"low,omitempty"`
	High    float64 `json:"high,omitempty"`
	Samples int     `json:"samples"` // of its own, at the deciding look
	Why     string  `json:"why,omitempty"`
}

// RepeatedWord is a verdict of repeated runs.
type RepeatedWord string

// The words.
const (
	First      RepeatedWord = "first"      // no other is shown to be ahead of it
	Tied       RepeatedWord = "tied"       // with the first, within the noise threshold
	Unresolved RepeatedWord = "unresolved" // whether it is ahead of the first, tied or behind
	Behind     RepeatedWord = "behind"     // by more than the noise threshold
	Out        RepeatedWord = "out"        // it broke, or does not pass in most repeats
)

// group is the order of verdicts in a ranking.
func (w RepeatedWord) group() int {
	return slices.Index([]RepeatedWord{First, Tied, Unresolved, Behind, "", Out}, w)
}

// Settle is the ranking with the verdicts of repeated runs on rows of the
// winner's cell, which then decide in place of the single runs: first, tied and
// unresolved rows share the first rank, those behind follow by their ratio, rows
// that were not repeated by their single run. Best are the first and what is
// tied with it; nil where some row is unresolved, which Unresolved then names
// with the first. The gap is by the repeats where the target has a verdict; a
// ranking without a winner's cell is returned as it is.
func (r Ranking) Settle(said map[key.Digest]Repeated, target func(key.Digest) bool) Ranking {
	if r.Cell == nil || len(said) == 0 {
		return r
	}
	r.Cells = slices.Clone(r.Cells)
	c := &r.Cells[*r.Cell]
	c.Places = slices.Clone(c.Places)
	verdict := func(p Place) RepeatedWord {
		if p.Repeated == nil {
			return ""
		}
		return p.Repeated.Verdict
	}
	for i := range c.Places {
		if x, ok := said[c.Places[i].Row]; ok {
			c.Places[i].Repeated, c.Places[i].Near = &x, false
		}
	}
	slices.SortStableFunc(c.Places, func(a, b Place) int {
		if a.Rank == 0 || b.Rank == 0 { // the same as before: rows without a rank stand last
			return cmp.Compare(b.Rank, a.Rank)
		}
		x, y := verdict(a), verdict(b)
		if x == Behind && y == Behind {
			return cmp.Compare(b.Repeated.Ratio, a.Repeated.Ratio)
		}
		return cmp.Compare(x.group(), y.group())
	})
	r.Best, r.Unresolved = nil, nil
	open, rank, last := false, 0, 0
	for i := range c.Places {
		p := &c.Places[i]
		switch old := p.Rank; verdict(*p) {
		case First, Tied, Unresolved:
			open = open || verdict(*p) == Unresolved
			r.Best = append(r.Best, p.Row)
			rank, p.Rank = 1, 1
		case Behind:
			rank++
			p.Rank = rank
		case Out:
			p.Rank = 0
		default:
			if old == 0 {
				continue
			}
			if old != last {
				rank++
			}
			p.Rank, last = rank, old
		}
	}
	if open {
		r.Best, r.Unresolved = nil, r.Best
	}
	r.settleGap(c, target)
	return r
}

// settleGap takes the gap of the winner's cell from the repeats, where they say
// something of the target.
func (r *Ranking) settleGap(c *Contest, target func(key.Digest) bool) {
	for _, p := range c.Places {
		if p.Repeated == nil || !target(p.Row) {
			continue
		}
		share := 0.
		switch x := p.Repeated; {
		case x.Verdict == First:
		case x.Verdict == Out:
			c.Gap = Gap{None: "the target is out: " + x.Why}
			r.Gap = c.Gap
			return
		case x.Ratio == 0:
			return
		default:
			share = max(0, 1-x.Ratio)
		}
		c.Gap = Gap{Share: &share}
		r.Gap = c.Gap
		return
	}
}
