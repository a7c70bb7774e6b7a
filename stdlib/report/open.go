package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/report/markdown"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// Open is a cell that has no result as the campaign stands now. What it once came
// to ranks nobody.
type Open struct {
	Framework   string    `json:"framework"`
	Candidate   string    `json:"candidate"`
	Concurrency string    `json:"concurrency"`
	State       OpenState `json:"state"`
	Why         string    `json:"why"` // the plan's word on it
}

// OpenState is what an open cell is.
type OpenState string

// The states.
const (
	Stale OpenState = "stale"        // measured before, otherwise than the campaign stands now
	Never OpenState = "not measured" // at its address
)

// undecided is the ranking of what is measured while cells are open: it has no
// winner, and a gap only where a cell of it is whole. ahead are the best so far.
func (s Scenario) undecided() (r winners.Ranking, ahead []key.Digest) {
	r = s.Ranking
	none := winners.Gap{None: "not every cell is measured as the campaign stands now"}
	r.Cells = slices.Clone(r.Cells)
	for i := range r.Cells {
		c := &r.Cells[i]
		if slices.ContainsFunc(s.Open, func(o Open) bool { return o.Concurrency == Concurrency(c.Workload) }) {
			c.Gap = none
		}
	}
	ahead, r.Best, r.Cell = r.Best, nil, nil
	if s.Lane == "" {
		r.Gap = none
	}
	return r, ahead
}

// toMeasure is how many of the scenario's cells are open.
func (s Scenario) toMeasure() string {
	return fmt.Sprintf("%d of %s to be measured", len(s.Open), result.Count(len(s.Open)+len(s.Cells), "cell"))
}

// soFar says what is open, by framework and state, and who is ahead.
func (s Scenario) soFar() string {
	type part struct {
		framework string
		state     OpenState
	}
	n := map[part]int{}
	var parts []part
	for _, o := range s.Open {
		p := part{o.Framework, o.State}
		if n[p]++; n[p] == 1 {
			parts = append(parts, p)
		}
	}
	var open []string
	for _, p := range parts {
		open = append(open, fmt.Sprintf("%s: %d %s", p.framework, n[p], p.state))
	}
	text := fmt.Sprintf("no winner yet: %s (%s)", s.toMeasure(), strings.Join(open, ", "))
	if s.Ahead != nil {
		text += "; ahead so far: " + strings.Join(s.names(s.Ahead), " and ")
	}
	return text
}

// openOf is how many cells of a framework are open.
func (s Scenario) openOf(framework string) (n int) {
	for _, o := range s.Open {
		if o.Framework == framework {
			n++
		}
	}
	return n
}

// open lists what is open.
func (s Scenario) open(b *strings.Builder) {
	if s.Open == nil {
		return
	}
	b.WriteString("To be measured as the campaign stands now:\n\n")
	for _, o := range s.Open {
		fmt.Fprintf(b, "- %s %s, concurrency %s: %s: %s\n", markdown.Code(o.Framework), markdown.Code(o.Candidate), o.Concurrency, o.State, markdown.Text(o.Why))
	}
	b.WriteByte('\n')
}
