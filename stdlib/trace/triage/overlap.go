package triage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/trace/interval"
	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
)

// OverlapRow is one kernel and what it could run beside.
type OverlapRow struct {
	Priority  string       `json:"priority"` // P1 … P5
	Verdict   string       `json:"verdict"`  // headroom | low-roi-hidden | idle
	Kernel    string       `json:"kernel"`
	Class     kernel.Class `json:"class"`
	Location  string       `json:"location,omitempty"`
	Time      int64        `json:"time_ns"`
	Share     float64      `json:"share"` // of the stage's busy time; of an idle row, of the passes' windows
	Exclusive int64        `json:"exclusive_ns"`
	Hidden    int64        `json:"hidden_ns"`
	Gain      int64        `json:"gain_at_most_ns"`
	Risk      string       `json:"dependency_risk"` // low | high | unclear
	Advice    string       `json:"advice"`
}

// hidden divides every event's time, device by device.
func hidden(p *profile.Profile) []interval.Share {
	byDevice := map[int32][]int32{}
	for i, g := range p.Trace.GPU {
		byDevice[g.Device] = append(byDevice[g.Device], int32(i))
	}
	out := make([]interval.Share, len(p.Trace.GPU))
	for _, list := range byDevice {
		events := make([]interval.Event, len(list))
		for i, e := range list {
			g := p.Trace.GPU[e]
			events[i] = interval.Event{
				Span: interval.Span{Start: g.Start, End: g.End()}, Lane: g.Stream,
				Compute: p.Classes[e].Group == kernel.Compute,
			}
		}
		for i, s := range interval.Hidden(events) {
			out[list[i]] = s
		}
	}
	return out
}

type overlapGroup struct {
	row       OverlapRow
	byCompute int64
	sameLane  int64
	risky     int
	unclear   int
	count     int
	sites     map[string]int64
}

const (
	leastTime     = 5_000 // ns; below this a row is noise
	leastOpen     = 0.45  // exclusive share of a headroom row
	leastHidden   = 0.65  // hidden share of a low-roi-hidden row
	rowsOfVerdict = 5
)

// overlap makes the rows of a stage: kernels that run alone and could be
// covered, and small ones that are covered already and not worth fusing.
func (w *work) overlap(events []int32, busy int64) []OverlapRow {
	groups := map[string]*overlapGroup{}
	before, after := w.neighbours(events)
	for i, e := range events {
		s := w.p.Symbol(e)
		g := groups[s.Canonical]
		if g == nil {
			g = &overlapGroup{row: OverlapRow{Kernel: s.Canonical, Class: w.p.Classes[e]}, sites: map[string]int64{}}
			groups[s.Canonical] = g
		}
		h := w.hidden[e]
		d := w.p.Trace.GPU[e].Dur
		g.row.Time += d
		g.row.Exclusive += h.Exclusive
		g.row.Hidden += h.Hidden
		g.byCompute += h.ByCompute
		g.sameLane += h.Hidden - h.OtherLane
		g.count++
		g.sites[w.source(e).Location] += d
		risk := w.risk(e, before[i], after[i])
		if risk == "high" {
			g.risky++
		} else if risk == "unclear" {
			g.unclear++
		}
		g.row.Gain += min(h.Exclusive, max(w.computeTime(before[i]), w.computeTime(after[i])))
	}
	var open, covered []*overlapGroup
	for _, g := range groups {
		g.row.Share = ratio(g.row.Time, busy)
		if g.row.Time < leastTime || g.row.Share < w.opt.Cutoff {
			continue
		}
		g.finish()
		small := g.row.Class.Group == kernel.Elementwise || g.row.Class.Group == kernel.Memory
		switch {
		case ratio(g.row.Exclusive, g.row.Time) >= leastOpen:
			open = append(open, g)
		case small && ratio(g.row.Hidden, g.row.Time) >= leastHidden:
			covered = append(covered, g)
		}
	}
	slices.SortFunc(open, func(a, b *overlapGroup) int {
		return cmp.Or(cmp.Compare(b.weight(), a.weight()), cmp.Compare(a.row.Kernel, b.row.Kernel))
	})
	slices.SortFunc(covered, func(a, b *overlapGroup) int {
		return cmp.Or(cmp.Compare(b.row.Hidden+b.byCompute, a.row.Hidden+a.byCompute), cmp.Compare(a.row.Kernel, b.row.Kernel))
	})
	var out []OverlapRow
	for _, g := range open[:min(rowsOfVerdict, len(open))] {
		out = append(out, g.headroom())
	}
	for _, g := range covered[:min(rowsOfVerdict, len(covered))] {
		g.row.Verdict, g.row.Priority, g.row.Advice = "low-roi-hidden", "P4", "skip: it runs under other work"
		out = append(out, g.row)
	}
	return out
}

// weights prefer what hides well: communication most, compute least.
var weights = map[kernel.Group]float64{
	kernel.Communication: 1.3, kernel.Memory: 1.15, kernel.Elementwise: 1, kernel.Unknown: 0.8, kernel.Compute: 0.35,
}

func (g *overlapGroup) weight() float64 {
	w := float64(g.row.Exclusive) * weights[g.row.Class.Group]
	if g.row.Class.Group == kernel.Compute {
		return w / 1e6 // after everything that is not compute
	}
	return w
}

// finish turns counts over all launches into one risk and one location.
func (g *overlapGroup) finish() {
	switch {
	case g.risky*10 >= g.count*9:
		g.row.Risk = "high"
	case (g.risky+g.unclear)*10 >= g.count:
		g.row.Risk = "unclear"
	default:
		g.row.Risk = "low"
	}
	var best int64 = -1
	for s, t := range g.sites {
		if t > best || t == best && s < g.row.Location {
			g.row.Location, best = s, t
		}
	}
}

func (g *overlapGroup) headroom() OverlapRow {
	r := g.row
	r.Verdict = "headroom"
	switch {
	case r.Class.Group == kernel.Compute:
		r.Priority, r.Advice = "P3", "defer: compute alone is no waste; see its bound"
	case r.Risk == "low" && r.Class.Group == kernel.Communication:
		r.Priority, r.Advice = "P1", "try overlap"
	case r.Risk == "low":
		r.Priority, r.Advice = "P1", "try fusion"
	default:
		r.Priority, r.Advice = "P2", "check dependencies"
	}
	if g.sameLane*2 > r.Hidden && r.Hidden > 0 {
		r.Advice += " (hidden part: same stream, dependent launch)"
	}
	return r
}

// neighbours is the previous and next event on each event's own stream, -1 at
// the ends.
func (w *work) neighbours(events []int32) (before, after []int32) {
	before, after = make([]int32, len(events)), make([]int32, len(events))
	last := map[[2]int32]int{}
	for i, e := range events {
		g := w.p.Trace.GPU[e]
		k := [2]int32{g.Device, g.Stream}
		before[i], after[i] = -1, -1
		if j, ok := last[k]; ok {
			before[i], after[j] = events[j], e
		}
		last[k] = i
	}
	return before, after
}

func (w *work) computeTime(e int32) int64 {
	if e < 0 || w.p.Classes[e].Group != kernel.Compute {
		return 0
	}
	return w.p.Trace.GPU[e].Dur
}

// risk judges whether moving e would break an order: a neighbour that follows
// at once from the same source, or of a kind that feeds it, is a dependency.
func (w *work) risk(e, before, after int32) string {
	out := "low"
	for _, n := range []int32{before, after} {
		if n < 0 || !w.tight(e, n) {
			continue
		}
		a, b := w.source(e), w.source(n)
		fileA, lineA, _ := strings.Cut(a.Location, ":")
		fileB, _, _ := strings.Cut(b.Location, ":")
		// Only a line of source is evidence: that both were replayed is none.
		if lineA != "" && fileA == fileB || a.Op != "" && a.Op == b.Op || feeds(w.p.Classes[e].Group, w.p.Classes[n].Group) {
			return "high"
		}
		if a.Location == "" || b.Location == "" {
			out = "unclear"
		}
	}
	return out
}

// tight reports whether n follows or precedes e with hardly a pause.
func (w *work) tight(e, n int32) bool {
	a, b := w.p.Trace.GPU[e], w.p.Trace.GPU[n]
	gap := max(0, b.Start-a.End(), a.Start-b.End())
	return gap <= max(2_000, min(20_000, a.Dur*15/100))
}

func feeds(a, b kernel.Group) bool {
	switch a {
	case kernel.Communication:
		return b != kernel.Communication
	case kernel.Elementwise, kernel.Memory:
		return b == kernel.Compute || b == kernel.Communication || b == kernel.Elementwise || b == kernel.Memory
	}
	return false
}

// idleRows puts idle time first: no kernel can gain what the host loses.
func (w *work) idleRows(idle Idle) []OverlapRow {
	var out []OverlapRow
	for _, c := range idle.Causes {
		if share := ratio(c.Time, idle.Window); share >= w.opt.Cutoff {
			out = append(out, OverlapRow{
				Priority: "P1", Verdict: "idle", Kernel: fmt.Sprintf("(no kernel: %s)", c.Cause), Time: c.Time, Share: share,
				Exclusive: c.Time, Gain: c.Time, Risk: "low", Advice: c.Advice,
			})
		}
	}
	return out
}
