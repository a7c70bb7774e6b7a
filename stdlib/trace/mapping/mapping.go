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
	asked, joined := 0, 0
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
			asked++
			stage := p.Links.Events[e].Stage
			list, byFamily := of(m.byName, stage, s.Canonical), of(m.byFamily, stage, s.Family)
			switch {
			case len(list) > 0 && len(list) == count[s.Canonical]:
				j.Sources[e], j.How[e] = list[i], ByOrder
				joined++
			case len(list) > 0 && same(list):
				j.Sources[e], j.How[e] = list[0], ByName
				joined++
			case len(list) > 0 && len(list)%count[s.Canonical] == 0 && repeats(list, count[s.Canonical]):
				j.Sources[e], j.How[e] = list[i], ByOrder
				joined++
			case len(byFamily) == family[s.Family] || len(byFamily) > 0 && same(byFamily):
				j.Sources[e], j.How[e] = byFamily[min(k, len(byFamily)-1)], ByFamily
			}
		}
	}
	if asked > 0 {
		j.Joined = float64(joined) / float64(asked)
	}
	return j
}

// of is the launches of a name in a stage, or, where the mapping has none
// there, in all.
func of(m map[name][]Source, stage launch.Stage, text string) []Source {
	if list := m[name{stage, text}]; len(list) > 0 && stage != launch.None {
		return list
	}
	return m[name{"", text}]
}

func same(list []Source) bool { return repeats(list, 1) }

// repeats reports whether the list says the same every n sources: a mapping of
// several equal passes.
func repeats(list []Source, n int) bool {
	for i := n; i < len(list); i++ {
		if list[i] != list[i-n] {
			return false
		}
	}
	return true
}
