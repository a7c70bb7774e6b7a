package report

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/report/markdown"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// aboutMedians says below a table what its rows with repeats show.
const aboutMedians = "A row with repeats shows for each metric the median of its repeats, which are what decided, and the requests of all of them; every other row shows its one run. " +
	"The run that a repeated candidate was chosen by stands in `benchmark/summary.csv` and `benchmark/candidates.jsonl`."

// samples are the repeats that decided, in the order they were taken.
func (r Repeated) samples() []*result.Row {
	var out []*result.Row
	for i := range r.Repeats {
		row := &r.Repeats[i].Row
		if v, ok := row.Metric("request_throughput"); row.Status == result.OK && ok && v > 0 && len(out) < r.Said.Samples {
			out = append(out, row)
		}
	}
	return out
}

// medians are the metrics of the samples in the order of their definitions: of
// each its median over the samples that have it, which N counts.
func (r Repeated) medians() []result.Metric {
	samples := r.samples()
	var out []result.Metric
	for _, d := range result.Definitions {
		var values []float64
		for _, row := range samples {
			if v, ok := row.Metric(d.ID); ok {
				values = append(values, v)
			}
		}
		if values != nil {
			out = append(out, result.Metric{ID: d.ID, Value: median(values), Unit: d.Unit, N: len(values)})
		}
	}
	return out
}

// median is the middle value, or the mean of the two in the middle; values are
// at least one.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// side is what repeats that are over say of a row; nil where there are none, and
// while cells are open, since then they decide nothing.
func (s Scenario) side(d key.Digest) *Repeated {
	if s.Repeats == nil || !s.Repeats.Over || s.Open != nil {
		return nil
	}
	i := slices.IndexFunc(s.Repeats.Sides, func(r Repeated) bool { return r.Row == d })
	if i < 0 {
		return nil
	}
	return &s.Repeats.Sides[i]
}

// Decided is the cell by what decided of it: with repeats that are over, the
// medians of its samples, the requests of all of them and the time of the first,
// and no numbers where none was a sample; else its one run, as it is.
func (s Scenario) Decided(c Cell) Cell {
	side := s.side(c.Digest)
	if side == nil {
		return c
	}
	samples := side.samples()
	row := *c.Row
	row.Metrics, row.Parts, row.Requests, row.Time = side.medians(), nil, result.Requests{}, result.Times{}
	var accept, cached []float64
	for i, x := range samples {
		if i == 0 {
			row.Time.Started = x.Time.Started
			c.Cached = later(c.Cached, x.Time.Started.Sub(c.Row.Time.Started))
		}
		row.Requests.OK += x.Requests.OK
		row.Requests.Failed += x.Requests.Failed
		row.Requests.Cancelled += x.Requests.Cancelled
		row.Requests.CutOff += x.Requests.CutOff
		accept, cached = add(accept, x.Facts.SpecAccept), add(cached, x.Facts.CacheHitShare)
	}
	row.Facts = result.Facts{SpecAccept: middle(accept), CacheHitShare: middle(cached)}
	n := len(samples)
	c.Row, c.Repeats = &row, &n
	return c
}

// later is the age of what was measured by so much after what has an age; nil of
// nil.
func later(age *time.Duration, by time.Duration) *time.Duration {
	if age == nil {
		return nil
	}
	d := max(0, *age-by)
	return &d
}

func add(values []float64, v *float64) []float64 {
	if v == nil {
		return values
	}
	return append(values, *v)
}

// middle is the median; nil of nothing.
func middle(values []float64) *float64 {
	if values == nil {
		return nil
	}
	m := median(values)
	return &m
}

// repeated reports whether some scenario has rows with repeats that are over.
func (v View) repeated() bool {
	return slices.ContainsFunc(v.Scenarios, func(s Scenario) bool {
		return slices.ContainsFunc(s.Cells, func(c Cell) bool { return s.side(c.Digest) != nil })
	})
}

// repeatsColumn adds the column behind the numbers' and names' own that says how
// many repeats a row shows, where some do.
func (v View) repeatsColumn(g *markdown.Table) {
	if v.repeated() {
		g.Head = slices.Insert(slices.Clone(g.Head), g.First, repeatsHead)
		g.Right++
	}
}

// repeatsHead is the heading of that column.
const repeatsHead = "Repeats"

// withRepeats puts a cell's number of repeats into a line of a table that has
// the column.
func (v View) withRepeats(g markdown.Table, line []string, c Cell) []string {
	if !slices.Contains(g.Head, repeatsHead) {
		return line
	}
	return slices.Insert(line, g.First, c.repeats())
}

// repeats is how many of them the cell shows; a dash is one run.
func (c Cell) repeats() string {
	if c.Repeats == nil {
		return missing
	}
	return strconv.Itoa(*c.Repeats)
}

// medianNote says what rows with repeats show, where there are some.
func (v View) medianNote(b *strings.Builder) {
	if v.repeated() {
		b.WriteString(aboutMedians + "\n\n")
	}
}

// Judge is the verdict on a cell: on one that repeats decided theirs, else that
// on its run.
func (s Scenario) Judge(c Cell, sla winners.SLA) winners.Verdict {
	switch side := s.side(c.Digest); {
	case c.Repeats == nil || side == nil:
		return winners.Judge(c.Row, sla)
	case side.Said.Verdict == winners.Out:
		return winners.Verdict{Reasons: []string{side.Said.Why}}
	}
	return winners.Verdict{Passed: true}
}

// slaIn is whether a row passes: by its repeats where they are over.
func (v View) slaIn(s Scenario, c Cell) string {
	switch side := s.side(c.Digest); {
	case side == nil:
		return v.sla(c)
	case side.Said.Verdict == winners.Out:
		return "out by repeats"
	}
	return "pass"
}

// byRank is the order of a contest whose places repeats have settled: ranked
// rows by rank, then the others.
func (s Scenario) byRank(a, b key.Digest) int {
	x, y := s.Rank(a), s.Rank(b)
	if x == 0 || y == 0 {
		return cmp.Compare(y, x)
	}
	return cmp.Compare(x, y)
}
