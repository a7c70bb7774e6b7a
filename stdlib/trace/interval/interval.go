// Package interval is the arithmetic of time spans on devices: unions,
// intersections, and how much of each event runs alone. It knows nothing of
// traces. All times are integer nanoseconds, spans are half-open, and every
// function is pure.
package interval

import (
	"cmp"
	"slices"
)

// Span is [Start, End). End < Start does not occur.
type Span struct{ Start, End int64 }

// Len is the span's length.
func (s Span) Len() int64 { return s.End - s.Start }

// Merge returns the union of spans as disjoint spans in order. The argument is
// not changed. Empty spans vanish.
func Merge(spans []Span) []Span {
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
	var out []Span
	for _, s := range sorted {
		if s.End <= s.Start {
			continue
		}
		if n := len(out); n > 0 && s.Start <= out[n-1].End {
			out[n-1].End = max(out[n-1].End, s.End)
			continue
		}
		out = append(out, s)
	}
	return out
}

// Total is the summed length of spans that are disjoint.
func Total(disjoint []Span) int64 {
	var sum int64
	for _, s := range disjoint {
		sum += s.Len()
	}
	return sum
}

// Union is the time that at least one span covers.
func Union(spans []Span) int64 { return Total(Merge(spans)) }

// Intersect is the time that both unions cover; a and b are merged spans.
func Intersect(a, b []Span) int64 {
	var sum int64
	for i, j := 0, 0; i < len(a) && j < len(b); {
		lo, hi := max(a[i].Start, b[j].Start), min(a[i].End, b[j].End)
		if hi > lo {
			sum += hi - lo
		}
		if a[i].End < b[j].End {
			i++
		} else {
			j++
		}
	}
	return sum
}

// Event is one piece of device work for Hidden. Lane is its stream; events of
// one lane can overlap too (programmatic dependent launch).
type Event struct {
	Span
	Lane    int32
	Compute bool
}

// Share is how an event's time divides. Exclusive + Hidden = its length;
// OtherLane and ByCompute are parts of Hidden.
type Share struct {
	Exclusive int64 // nothing else ran
	Hidden    int64 // something else ran too
	OtherLane int64 // … on another stream
	ByCompute int64 // … and some other event was compute
}

// Hidden divides the time of each event, in the order given, in O(n log n): it
// keeps running totals of "two or more active" over time and takes differences,
// rather than looking at the active set again for each event.
func Hidden(events []Event) []Share {
	type edge struct {
		at    int64
		event int
		open  bool
	}
	edges := make([]edge, 0, 2*len(events))
	for i, e := range events {
		if e.Len() > 0 {
			edges = append(edges, edge{e.Start, i, true}, edge{e.End, i, false})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		c := cmp.Compare(a.at, b.at)
		if c == 0 && a.open != b.open {
			if a.open {
				return 1
			}
			return -1
		}
		return cmp.Or(c, cmp.Compare(a.event, b.event))
	})
	out := make([]Share, len(events))
	perLane := map[int32]int{}
	active, lanes, compute := 0, 0, 0
	var crowded, apart, one, two, last int64 // totals up to last
	for _, e := range edges {
		d := e.at - last
		last = e.at
		if active >= 2 {
			crowded += d
		}
		if lanes >= 2 {
			apart += d
		}
		if compute >= 1 {
			one += d
		}
		if compute >= 2 {
			two += d
		}
		ev := events[e.event]
		by := one
		if ev.Compute {
			by = two
		}
		step, s := 1, &out[e.event]
		if !e.open {
			step = -1
			s.Hidden, s.OtherLane, s.ByCompute = s.Hidden+crowded, s.OtherLane+apart, s.ByCompute+by
			s.Exclusive = ev.Len() - s.Hidden
		} else {
			s.Hidden, s.OtherLane, s.ByCompute = -crowded, -apart, -by
		}
		active += step
		if ev.Compute {
			compute += step
		}
		before := perLane[ev.Lane]
		perLane[ev.Lane] = before + step
		if before == 0 {
			lanes++
		} else if before+step == 0 {
			lanes--
		}
	}
	return out
}
