package page

import (
	"fmt"
	"slices"

	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Campaign is a campaign's report as a page.
type Campaign struct {
	Title     string
	Banner    []string // what must not be overlooked
	Lines     []string // paragraphs in front
	Scenarios []Scenario
}

// Scenario is one request shape with all its cells.
type Scenario struct {
	Title  string
	Winner string // who won, in a sentence
	Cells  []Cell
	// Repeats are the runs that decided; nil where none did.
	Repeats *Grid
}

// Grid is a table of plain text with a note below it.
type Grid struct {
	Title, Note string
	Head        []string
	Rows        [][]string
}

// Cell is one row with its names. Requests may be nil.
type Cell struct {
	Name     string
	Rank     string // "" is none
	Row      result.Row
	Repeats  *int // Row has the medians of so many; nil is one run
	Requests []judge.Request
}

// section is what the layout shows of a scenario.
type section struct {
	Title, Winner string
	Points        table
	Repeats       *Grid
	Figures       []Figure
}

// mostCurves bounds the lines of one picture: the ranked cells come first.
const mostCurves = 12

// HTML is the page: for each scenario the frontier over all cells, the
// distributions of the first twelve, the best cell's requests over time; and
// what failed.
func (c Campaign) HTML() []byte {
	var sections []section
	var failed []failure
	for _, s := range c.Scenarios {
		var names, ranks []string
		var rows []result.Row
		repeated := false
		for _, cell := range s.Cells {
			names, ranks, rows = append(names, cell.Name), append(ranks, cell.Rank), append(rows, cell.Row)
			repeated = repeated || cell.Repeats != nil
			if cell.Row.Status != result.OK {
				failed = append(failed, failure{s.Title + ", " + cell.Name, cell.Row.Reason, cell.Row.Class})
			}
			failed = append(failed, failures(s.Title+", "+cell.Name+", ", cell.Requests, 5)...)
		}
		x := section{Title: s.Title, Winner: s.Winner, Repeats: s.Repeats}
		x.Points, x.Figures = compare("Cell", names, ranks, rows)
		if repeated {
			x.Points.repeats(s.Cells)
		}
		x.Figures = append(x.Figures, s.distributions()...)
		sections = append(sections, x)
	}
	return render("campaign", c.Title, map[string]any{"Banner": c.Banner, "Lines": c.Lines, "Scenarios": sections, "Failures": failed})
}

// distributions are the curves of the cells with numbers, in the order given,
// and the first one's requests over time.
func (s Scenario) distributions() (out []Figure) {
	var names []string
	var sets [3][][]float64
	left := 0
	for _, c := range s.Cells {
		ttft, tpot, e2e := times(c.Requests)
		if c.Row.Status != result.OK || len(ttft) < 2 {
			continue
		}
		if len(names) == mostCurves {
			left++
			continue
		}
		if len(names) == 0 {
			t := timeline(c.Requests)
			t.Title, t.Note = "Requests over time of "+c.Name, "A request stands where it was sent; failed ones on the bottom line."
			f := inFlight(c.Requests)
			f.Title = "Requests in flight of " + c.Name
			out = append(out, t, f)
		}
		names = append(names, c.Name)
		for i, v := range [][]float64{ttft, tpot, e2e} {
			sets[i] = append(sets[i], v)
		}
	}
	if len(names) == 0 {
		return nil
	}
	of := ""
	if slices.ContainsFunc(s.Cells, func(c Cell) bool { return c.Repeats != nil }) {
		of = " Of the run that a candidate was chosen by, not of its repeats."
		for i := range out {
			out[i].Note += of
		}
	}
	var curvesOf []Figure
	for i, title := range []string{"Time to the first token", "Time per output token", "End to end"} {
		f := curves(title, names, sets[i])
		f.Note = "The value that a share of the requests does not exceed." + of
		if left > 0 {
			f.Note += fmt.Sprintf(" Not drawn: %s.", result.Count(left, "further cell"))
		}
		if len(f.Series) > 0 {
			curvesOf = append(curvesOf, f)
		}
	}
	return append(curvesOf, out...)
}
