package winners

import (
	"slices"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Selection is the outcome of one framework in one scenario: every row judged,
// none left out (R075).
type Selection struct {
	Version int    `json:"v"`
	Cells   []Cell `json:"cells"` // by concurrency, unlimited last
	// Best are the rows of the best cell that passes: one, or several that are
	// tied in everything that ranks, in the order of digests. Nil if none
	// passes.
	Best []key.Digest `json:"best,omitempty"`
}

// Cell is one workload with its rows, best first, ties in the order of digests.
type Cell struct {
	Workload result.Workload `json:"workload"`
	Rows     []Judged        `json:"rows"`
}

// Select judges the rows of one framework in one scenario, over all its
// candidates and cells. A digest that stands twice is one row.
func Select(rows []Input, sla SLA) Selection {
	at := map[string]int{}
	seen := map[key.Digest]bool{}
	s := Selection{Version: Version}
	for _, e := range rows {
		if seen[e.Digest] {
			continue
		}
		seen[e.Digest] = true
		id := cellKey(e.Row.Workload)
		i, ok := at[id]
		if !ok {
			i = len(s.Cells)
			at[id] = i
			s.Cells = append(s.Cells, Cell{Workload: e.Row.Workload})
		}
		s.Cells[i].Rows = append(s.Cells[i].Rows, Judged{
			Row: e.Digest, Status: e.Row.Status, Class: e.Row.Class,
			Verdict: Judge(&e.Row, sla), Score: score(&e.Row),
		})
	}
	slices.SortFunc(s.Cells, func(a, b Cell) int { return cellOrder(a.Workload, b.Workload) })
	var all []Judged
	for _, c := range s.Cells {
		equalCaches(pointers(c.Rows, func(j *Judged) *Judged { return j }), sla.CachedShare)
		slices.SortFunc(c.Rows, ordered)
		all = append(all, c.Rows...)
	}
	s.Best = best(all)
	return s
}

// Measured reports whether any row gave numbers, passing or not. Without Best
// it tells "too slow" from "no result".
func (s Selection) Measured() bool {
	return slices.ContainsFunc(s.Cells, func(c Cell) bool {
		return slices.ContainsFunc(c.Rows, Judged.ok)
	})
}

// best returns the rows that are first among those that can win.
func best(rows []Judged) []key.Digest {
	rows = slices.SortedFunc(slices.Values(rows), ordered)
	var out []key.Digest
	for _, j := range first(rows) {
		if j.ranked() {
			out = append(out, j.Row)
		}
	}
	return out
}

// first returns the head of sorted rows that are tied with the first.
func first(rows []Judged) []Judged {
	for i := range rows {
		if compare(rows[0], rows[i]) != 0 {
			return rows[:i]
		}
	}
	return rows
}

func pointers[T any](rows []T, of func(*T) *Judged) []*Judged {
	var out []*Judged
	for i := range rows {
		out = append(out, of(&rows[i]))
	}
	return out
}
