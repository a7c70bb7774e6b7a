package page

import (
	"cmp"
	_ "embed"
	"html/template"
	"math"
	"slices"

	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
)

// uPlot is the chart library (MIT, see uplot/LICENSE), as its authors publish
// it; our own script hands it the figures.
var (
	//go:embed uplot/uPlot.iife.min.js
	uPlot string
	//go:embed uplot/uPlot.min.css
	uPlotStyle string
	//go:embed page.js
	script string
)

// Figure is one picture, drawn by the library from these numbers. X ascends;
// a value that is nil is not drawn.
type Figure struct {
	Title  string   `json:"-"`
	Note   string   `json:"-"`
	Unit   string   `json:"unit"` // of X
	Y      string   `json:"y"`
	X      []number `json:"x"`
	Series []Series `json:"series"`
	Names  []string `json:"names,omitempty"` // of the points
}

// Series is one line of a Figure. Form is line, step, bars, points or joined
// (points with a line through those that are there).
type Series struct {
	Label  string    `json:"label"`
	Form   string    `json:"form"`
	Values []*number `json:"values"`
}

// number is written with five digits: a page is for eyes.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) { return appendNumber(float64(n)), nil }

func some(v float64) *number { n := number(v); return &n }

// bars are how many values lie in each of 40 equal parts.
func bars(title string, v []float64) Figure {
	const parts = 40
	low, high := slices.Min(v), slices.Max(v)
	if high == low {
		high = low + math.Max(1e-9, math.Abs(low)*.01)
	}
	var counts [parts]int
	for _, x := range v {
		counts[min(parts-1, int((x-low)/(high-low)*parts))]++
	}
	f := Figure{Title: title, Unit: "ms", Y: "requests", Series: []Series{{Label: "requests", Form: "bars"}}}
	for i, n := range counts {
		f.X = append(f.X, number(low+(float64(i)+.5)*(high-low)/parts))
		f.Series[0].Values = append(f.Series[0].Values, some(float64(n)))
	}
	return f
}

// maxPoints bounds a figure; more requests are evenly picked.
const maxPoints = 2000

// timeline shows each request at the time it was sent; failed ones on the
// bottom line.
func timeline(all []judge.Request) Figure {
	f := Figure{Title: "Requests over time", Unit: "s from the start", Y: "ms", Series: []Series{
		{Label: "time to the first token", Form: "points"}, {Label: "failed", Form: "points"}, {Label: "end to end", Form: "points"}}}
	picked := slices.Clone(all)
	if every := (len(all) + maxPoints - 1) / maxPoints; every > 1 {
		picked = picked[:0]
		for i := 0; i < len(all); i += every {
			picked = append(picked, all[i])
		}
	}
	slices.SortStableFunc(picked, func(a, b judge.Request) int { return cmp.Compare(a.Sent, b.Sent) })
	for _, q := range picked {
		f.X = append(f.X, number(q.Sent))
		f.Names = append(f.Names, label(q))
		var v [3]*number
		switch {
		case q.CutOff:
		case q.Failed():
			v[1] = some(0)
		case q.First != nil && q.Last != nil:
			v[0], v[2] = some((*q.First-q.Sent)*1e3), some((*q.Last-q.Sent)*1e3)
		}
		for i := range v {
			f.Series[i].Values = append(f.Series[i].Values, v[i])
		}
	}
	return f
}

// inFlight is how many requests were open, from the start to the end.
func inFlight(all []judge.Request) Figure {
	type change struct {
		at float64
		by int
	}
	var changes []change
	for _, q := range all {
		if q.End != nil {
			changes = append(changes, change{q.Sent, 1}, change{*q.End, -1})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	f := Figure{Title: "Requests in flight", Unit: "s from the start", Y: "requests", Series: []Series{{Label: "in flight", Form: "step"}}}
	every := (len(changes) + maxPoints - 1) / maxPoints
	open := 0
	for i, c := range changes {
		open += c.by
		if i%max(1, every) == 0 || i == len(changes)-1 {
			f.X = append(f.X, number(c.at))
			f.Series[0].Values = append(f.Series[0].Values, some(float64(open)))
		}
	}
	return f
}

// times are the successes' times in ms.
func times(all []judge.Request) (ttft, tpot, e2e []float64) {
	for _, q := range all {
		if q.Class != "" || q.Cancelled || q.First == nil || q.Last == nil {
			continue
		}
		ttft = append(ttft, (*q.First-q.Sent)*1e3)
		e2e = append(e2e, (*q.Last-q.Sent)*1e3)
		if q.Output != nil && *q.Output > 1 {
			tpot = append(tpot, (*q.Last-*q.First)*1e3/float64(*q.Output-1))
		}
	}
	return ttft, tpot, e2e
}

// curves draws, for each of several sets of values, the value that a share of
// them does not exceed.
func curves(title string, names []string, sets [][]float64) Figure {
	f := Figure{Title: title, Unit: "percentile", Y: "ms"}
	for p := range 101 {
		f.X = append(f.X, number(p))
	}
	for i, v := range sets {
		if len(v) == 0 {
			continue
		}
		v = slices.Sorted(slices.Values(v))
		s := Series{Label: names[i], Form: "line"}
		for p := range 101 {
			at := float64(p) / 100 * float64(len(v)-1)
			low := int(at)
			s.Values = append(s.Values, some(v[low]+(at-float64(low))*(v[min(low+1, len(v)-1)]-v[low])))
		}
		f.Series = append(f.Series, s)
	}
	return f
}

// style and code are the library's and our own; both are parts of the binary.
func assets() map[string]any {
	return map[string]any{"Style": template.CSS(uPlotStyle), "Library": template.JS(uPlot), "Script": template.JS(script)}
}
