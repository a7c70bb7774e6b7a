// Package mapping lends operators, Python lines and shapes of one trace to the
// kernels of another: a replayed graph has times but no source, an eager or a
// capture trace of the same model has sources but slow times. Kernels are
// joined by canonical name and order, never by parts of names; a weaker join
// is marked as such.
package mapping

import (
	"cmp"
	"slices"

	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
)

// Source is where a kernel was launched in the mapping trace.
type Source struct {
	Op, Location string
	Dims, Types  string // as the profiler wrote them, "" when not recorded
}

// How says how a kernel was joined.
type How uint8

// The joins, strongest first.
const (
	No       How = iota
	ByOrder      // the i-th kernel of a name in the pass is the i-th in the mapping
	ByName       // the name's launches have one source, so the order does not matter
	ByFamily     // only the family symbol and the place agree; shown with ~
)

// Map holds the sources of a mapping trace.
type Map struct {
	byName   map[name][]Source
	byFamily map[name][]Source
	Launches int
}

// name is a kernel's name in a stage: a server's prefill and decode launch some
// kernels alike, with other shapes. Launches of all stages are kept without one
// too, for a trace whose stages the mapping does not have.
type name struct {
	stage launch.Stage // "" is all
	text  string
}

// Build collects the launches of p: kernels that ran, and, in a capture trace,
// calls that name the kernel they would launch.
func Build(p *profile.Profile) *Map {
	m := &Map{byName: map[name][]Source{}, byFamily: map[name][]Source{}}
	type record struct {
		at    int64
		name  string
		stage launch.Stage
		src   Source
	}
	var all []record
	ran := make(map[int32]bool)
	for i, e := range p.Links.Events {
		if e.Call < 0 || e.Graph {
			continue
		}
		ran[e.Call] = true
		all = append(all, record{p.Trace.Calls[e.Call].Start, p.Trace.Name(p.Trace.GPU[i].Name), e.Stage, source(p, e.Op, e.Site)})
	}
	for i, c := range p.Trace.Calls {
		if c.Kernel != 0 && !ran[int32(i)] {
			all = append(all, record{c.Start, p.Trace.Name(c.Kernel), launch.None, source(p, p.Links.CallOps[i], p.Links.CallSite[i])})
		}
	}
	slices.SortStableFunc(all, func(a, b record) int { return cmp.Compare(a.at, b.at) })
	symbols := map[string]kernel.Symbol{}
	for _, r := range all {
		s, ok := symbols[r.name]
		if !ok {
			s = kernel.Parse(r.name)
			symbols[r.name] = s
		}
		for _, stage := range []launch.Stage{r.stage, ""} {
			n, f := name{stage, s.Canonical}, name{stage, s.Family}
			m.byName[n] = append(m.byName[n], r.src)
			m.byFamily[f] = append(m.byFamily[f], r.src)
		}
	}
	m.Launches = len(all)
	return m
}

func source(p *profile.Profile, op, site int32) Source {
	var s Source
	if op >= 0 {
		o := p.Trace.Ops[op]
		s.Op, s.Dims, s.Types = p.Trace.Name(o.Name), p.Trace.Name(o.Dims), p.Trace.Name(o.Types)
	}
	if site >= 0 {
		s.Location = p.Links.Sites[site].Location
	}
	return s
}

// Join is the sources of the events of one trace, by event index.
type Join struct {
	Sources []Source
	How     []How
	Joined  float64 // share of the kernels that were asked for and joined by order or name
}

// Apply joins the events of p, pass by pass; groups are the event indices of
// each pass (or graph launch) in order of time.
func (m *Map) Apply(p *profile.Profile, groups [][]int32) Join {
	j := Join{Sources: make([]Source, len(p.Trace.GPU)), How: make([]How, len(p.Trace.GPU))}
	type asked struct {
		name
		times int
	}
	byName, byFamily := map[asked][]Source{}, map[asked][]Source{}
	lend := func(known map[asked][]Source, launches map[name][]Source, n name, times int) []Source {
		a := asked{n, times}
		list, ok := known[a]
		if !ok {
			list = pass(of(launches, n.stage, n.text), times)
			known[a] = list
		}
		return list
	}
	all, joined := 0, 0
	for _, g := range groups {
		count, family := map[string]int{}, map[string]int{}
		for _, e := range g {
			s := p.Symbol(e)
			count[s.Canonical]++
			family[s.Family]++
		}
		seen, seenFamily := map[string]int{}, map[string]int{}
		for _, e := range g {
			s := p.Symbol(e)
			i, k := seen[s.Canonical], seenFamily[s.Family]
			seen[s.Canonical]++
			seenFamily[s.Family]++
			all++
			stage := p.Links.Events[e].Stage
			if list := lend(byName, m.byName, name{stage, s.Canonical}, count[s.Canonical]); len(list) == 1 {
				j.Sources[e], j.How[e] = list[0], ByName
				joined++
			} else if len(list) > 1 {
				j.Sources[e], j.How[e] = list[i], ByOrder
				joined++
			} else if list := lend(byFamily, m.byFamily, name{stage, s.Family}, family[s.Family]); len(list) > 0 {
				j.Sources[e], j.How[e] = list[min(k, len(list)-1)], ByFamily
			}
		}
	}
	if all > 0 {
		j.Joined = float64(joined) / float64(all)
	}
	return j
}

// pass is the sources of a pass with so many launches, by the launches of the
// mapping, which may be of several passes: one source where all are in one
// place, one for each launch where every pass has the same order, none
// otherwise. Batches differ from step to step: a shape or type that is not the
// same in every pass is of none.
func pass(list []Source, times int) []Source {
	switch {
	case len(list) == 0:
		return nil
	case len(list) == times:
		return list
	case repeats(list, 1):
		times = 1
	case len(list)%times != 0 || !repeats(list, times):
		return nil
	}
	out := slices.Clone(list[:times])
	for i, s := range list[times:] {
		o := &out[i%times]
		if s.Dims != o.Dims {
			o.Dims = ""
		}
		if s.Types != o.Types {
			o.Types = ""
		}
	}
	return out
}

// of is the launches of a name in a stage, or, where the mapping has none
// there, in all.
func of(m map[name][]Source, stage launch.Stage, text string) []Source {
	if list := m[name{stage, text}]; len(list) > 0 && stage != launch.None {
		return list
	}
	return m[name{"", text}]
}

// repeats reports whether the launches are in the same places every n.
func repeats(list []Source, n int) bool {
	for i := n; i < len(list); i++ {
		if a, b := list[i], list[i-n]; a.Op != b.Op || a.Location != b.Location {
			return false
		}
	}
	return true
}
