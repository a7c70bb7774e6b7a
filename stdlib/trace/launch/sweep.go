package launch

import (
	"cmp"
	"slices"

	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// span is an interval of one track, probe a moment of it.
type span struct {
	track      uint32
	id         int32
	start, end int64
}

type probe struct {
	track uint32
	id    int32
	at    int64
}

// probesOf is the starts of the calls that are used, sorted.
func probesOf(t *read.Trace, used []bool) []probe {
	var out []probe
	for i, u := range used {
		if u {
			out = append(out, probe{t.Calls[i].Track, int32(i), t.Calls[i].Start})
		}
	}
	sortProbes(out)
	return out
}

func sortProbes(p []probe) {
	slices.SortFunc(p, func(a, b probe) int {
		return cmp.Or(cmp.Compare(a.track, b.track), cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id))
	})
}

// sweep calls visit for every probe that some span of its track contains, with
// the spans around it, outermost (earliest) first. Spans may overlap without
// nesting, as Python frames do. Probes are sorted; spans get sorted. Of more
// than deepest spans at once the outermost are left out, which bounds the cost;
// sweep returns how often.
func sweep(spans []span, probes []probe, visit func(id int32, around []span)) (left int) {
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.track, b.track), cmp.Compare(a.start, b.start),
			cmp.Compare(b.end, a.end), cmp.Compare(a.id, b.id))
	})
	var active []span
	next := 0
	for _, p := range probes {
		for ; next < len(spans) && (spans[next].track < p.track || spans[next].track == p.track && spans[next].start <= p.at); next++ {
			if spans[next].track == p.track {
				active = append(active, spans[next])
			}
		}
		kept := active[:0]
		for _, s := range active {
			if s.track == p.track && s.end >= p.at {
				kept = append(kept, s)
			}
		}
		if active = kept; len(active) > deepest {
			left += len(active) - deepest
			active = active[len(active)-deepest:]
		}
		if len(active) > 0 {
			visit(p.id, active)
		}
	}
	return left
}

// deepest is how many intervals may hold at once: twice what Python's own limit
// of calls allows.
const deepest = 2000
