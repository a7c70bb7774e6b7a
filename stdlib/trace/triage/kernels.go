package triage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/trace/bounds"
	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
	"github.com/sotabuild/sotabuild/stdlib/trace/layers"
	"github.com/sotabuild/sotabuild/stdlib/trace/mapping"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// KernelRow is one kernel of a stage, by canonical name.
type KernelRow struct {
	Kernel string        `json:"kernel"`
	Symbol string        `json:"family_symbol"`
	Class  kernel.Class  `json:"class"`
	Time   int64         `json:"time_ns"`
	Share  float64       `json:"share"`        // of the stage's GPU time
	OfAll  float64       `json:"kernel_share"` // of all kernel time of the file
	Count  int           `json:"launches"`
	Each   Each          `json:"each"`
	Sites  []Site        `json:"sites"` // by time, largest first
	Place  string        `json:"place"` // in the layers
	Bound  *bounds.Bound `json:"bound,omitempty"`
}

// Each is the durations of single launches in nanoseconds.
type Each struct {
	Min    int64 `json:"min_ns"`
	Median int64 `json:"median_ns"`
	P95    int64 `json:"p95_ns"`
	Max    int64 `json:"max_ns"`
}

// Site is a place that launches a kernel.
type Site struct {
	Location string  `json:"location"` // "" when unresolved
	Op       string  `json:"op"`
	Share    float64 `json:"share"`                      // of the kernel's time
	Weak     bool    `json:"joined_by_family,omitempty"` // joined to the mapping by family only
}

// FamilyRow sums a family, rows under the cut-off included: a kernel gate asks
// for the family when no single kernel reaches one percent (R162, R163).
type FamilyRow struct {
	Family  kernel.Family `json:"family"`
	Time    int64         `json:"time_ns"`
	Share   float64       `json:"share"`
	Count   int           `json:"launches"`
	Kernels int           `json:"kernels"` // different names
	Symbols []SymbolRow   `json:"symbols"` // by time: tight families of one implementation
}

// SymbolRow sums the builds of one implementation.
type SymbolRow struct {
	Symbol string  `json:"family_symbol"`
	Time   int64   `json:"time_ns"`
	Share  float64 `json:"share"`
}

type group struct {
	row    KernelRow
	each   []int64
	sites  map[Site]int64
	class  map[kernel.Class]int64
	events []int32
}

// kernels makes the rows of a stage, largest first; of equals by name.
func (w *work) kernels(events []int32, sum int64) []KernelRow {
	groups := map[string]*group{}
	var all int64
	for i, g := range w.p.Trace.GPU {
		if w.p.Trace.GPU[i].Kind == read.Kernel {
			all += g.Dur
		}
	}
	for _, e := range events {
		g := w.p.Trace.GPU[e]
		s := w.p.Symbol(e)
		r := groups[s.Canonical]
		if r == nil {
			r = &group{row: KernelRow{Kernel: s.Canonical, Symbol: s.Family}, sites: map[Site]int64{}, class: map[kernel.Class]int64{}}
			groups[s.Canonical] = r
		}
		r.row.Time += g.Dur
		r.row.Count++
		r.each = append(r.each, g.Dur)
		r.class[w.p.Classes[e]] += g.Dur + 1
		src := w.source(e)
		r.sites[Site{Location: src.Location, Op: src.Op, Weak: w.mapped(e) && w.join.How[e] == mapping.ByFamily}] += g.Dur
		r.events = append(r.events, e)
	}
	rows := make([]KernelRow, 0, len(groups))
	for _, g := range groups {
		g.row.Share, g.row.OfAll = ratio(g.row.Time, sum), ratio(g.row.Time, all)
		g.row.Each = each(g.each)
		g.row.Class = largest(g.class)
		g.row.Sites = sites(g.sites, g.row.Time)
		g.row.Place = w.place(g.events)
		g.row.Bound = w.bound(g.row.Class, g.events)
		rows = append(rows, g.row)
	}
	slices.SortFunc(rows, func(a, b KernelRow) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Kernel, b.Kernel))
	})
	return rows
}

func each(d []int64) Each {
	slices.Sort(d)
	n := len(d)
	return Each{Min: d[0], Median: d[n/2], P95: d[min(n-1, n*95/100)], Max: d[n-1]}
}

// largest is the class with most time: one kernel name can serve two ends.
func largest(m map[kernel.Class]int64) kernel.Class {
	var best kernel.Class
	for c, t := range m {
		if t > m[best] || t == m[best] && c.Rule < best.Rule {
			best = c
		}
	}
	return best
}

func sites(m map[Site]int64, time int64) []Site {
	out := make([]Site, 0, len(m))
	for s, t := range m {
		s.Share = ratio(t, time)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Site) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Location, b.Location), cmp.Compare(a.Op, b.Op))
	})
	return out
}

func families(rows []KernelRow, sum int64) []FamilyRow {
	byFamily := map[kernel.Family]*FamilyRow{}
	symbols := map[kernel.Family]map[string]int64{}
	for _, r := range rows {
		f := byFamily[r.Class.Family]
		if f == nil {
			f = &FamilyRow{Family: r.Class.Family}
			byFamily[r.Class.Family] = f
			symbols[r.Class.Family] = map[string]int64{}
		}
		f.Time += r.Time
		f.Count += r.Count
		f.Kernels++
		symbols[r.Class.Family][r.Symbol] += r.Time
	}
	var out []FamilyRow
	for name, f := range byFamily {
		f.Share = ratio(f.Time, sum)
		for s, t := range symbols[name] {
			f.Symbols = append(f.Symbols, SymbolRow{s, t, ratio(t, sum)})
		}
		slices.SortFunc(f.Symbols, func(a, b SymbolRow) int {
			return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Symbol, b.Symbol))
		})
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b FamilyRow) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Family, b.Family))
	})
	return out
}

// place is where an event stands: in which layer, as which of its kernels.
type place struct {
	layer  int32 // -1 prologue, -2 epilogue, -3 outside every pass
	number int32 // from 1 inside the layer
	of     int32
}

const (
	inPrologue = -1
	inEpilogue = -2
	outside    = -3
)

func placesOf(p *profile.Profile, l *layers.Result) []place {
	out := make([]place, len(p.Trace.GPU))
	for i := range out {
		out[i].layer = outside
	}
	if !l.Known() {
		return out
	}
	for _, pass := range l.Passes {
		for _, e := range pass.Prologue {
			out[e].layer = inPrologue
		}
		for _, e := range pass.Epilogue {
			out[e].layer = inEpilogue
		}
		for i, layer := range pass.Layers {
			for n, e := range layer.Events {
				out[e] = place{int32(i), int32(n + 1), int32(len(layer.Events))}
			}
		}
	}
	return out
}

// place says where the launches of one kernel stand: "layers 0–35: kernel 2,
// 7, 9 and 11 of 14". Positions of fewer than a tenth of them are left out.
func (w *work) place(events []int32) string {
	if !w.layers.Known() {
		return ""
	}
	type position struct{ number, of int32 }
	positions := map[position]int{}
	rest := map[int32]int{}
	inside, low, high := 0, int32(0), int32(0)
	for _, e := range events {
		p := w.places[e]
		if p.layer < 0 {
			rest[p.layer]++
			continue
		}
		if inside == 0 || p.layer < low {
			low = p.layer
		}
		high = max(high, p.layer)
		inside++
		positions[position{p.number, p.of}]++
	}
	var parts []string
	if inside > 0 {
		var list []position
		for p, n := range positions {
			if n*10 >= inside {
				list = append(list, p)
			}
		}
		slices.SortFunc(list, func(a, b position) int { return cmp.Or(cmp.Compare(a.of, b.of), cmp.Compare(a.number, b.number)) })
		var numbers []string
		for i, p := range list {
			s := fmt.Sprint(p.number)
			if i == len(list)-1 || list[i+1].of != p.of {
				s += fmt.Sprintf(" of %d", p.of)
			}
			numbers = append(numbers, s)
		}
		where := fmt.Sprintf("layers %d–%d", low, high)
		if low == high {
			where = fmt.Sprintf("layer %d", low)
		}
		if len(numbers) > 0 {
			where += ": kernel " + strings.Join(numbers, ", ")
		}
		parts = append(parts, where)
	}
	for _, r := range []struct {
		layer int32
		name  string
	}{{inPrologue, "before the layers"}, {inEpilogue, "after the layers"}, {outside, "outside passes"}} {
		if n := rest[r.layer]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s (%d)", r.name, n))
		}
	}
	return strings.Join(parts, "; ")
}

// bound judges matrix products, attention, MoE, norms and collectives whose
// shapes are known; nil for other families.
func (w *work) bound(c kernel.Class, events []int32) *bounds.Bound {
	switch {
	case c.Rule == "gemm", c.Rule == "moe-grouped-gemm", c.Family == kernel.Norm, c.Anchor():
	case c.Family == kernel.Comm:
		return w.collectiveBound(events)
	default:
		return nil
	}
	var total bounds.Work
	var known, all int64
	why := ""
	claimed := map[int32]bool{}
	for _, e := range events {
		d := w.p.Trace.GPU[e].Dur
		all += d
		src := w.source(e)
		one, reason := bounds.Of(src.Op, src.Dims, src.Types)
		if reason != "" {
			why = reason
			continue
		}
		known += d
		// A call that launches several kernels does its work once.
		if op := w.p.Links.Events[e].Op; op >= 0 && !w.mapped(e) {
			if claimed[op] {
				continue
			}
			claimed[op] = true
		}
		total = total.Add(one)
	}
	b := bounds.Judge(total, float64(known)/1e9, deviceOf(w.p))
	b.Known = ratio(known, all)
	if b.WhyUnknown == "" {
		b.WhyUnknown = why
	}
	return &b
}

// elementSize is the size of NCCL's names of data types.
var elementSize = map[string]float64{
	"BFloat16": 2, "Half": 2, "Float": 4, "float": 4, "Int": 4, "Long": 8, "Double": 8, "Byte": 1, "Char": 1, "Float8_e4m3fn": 1,
}

// collectiveBound is bytes over time, with the factor of the algorithm: an
// all-reduce moves 2(n−1)/n of its message over each rank's links.
func (w *work) collectiveBound(events []int32) *bounds.Bound {
	b := bounds.Bound{WhyUnknown: "the file does not say the message size"}
	var known, all int64
	for _, e := range events {
		g := w.p.Trace.GPU[e]
		all += g.Dur
		if g.Collective < 0 {
			continue
		}
		c := w.p.Trace.Collectives[g.Collective]
		size := elementSize[w.p.Trace.Name(c.DType)]
		if size == 0 || c.Size < 2 {
			continue
		}
		n := float64(c.Size)
		factor := (n - 1) / n
		if strings.Contains(strings.ToLower(w.p.Trace.Name(c.Name)), "allreduce") {
			factor *= 2
		}
		b.Work.Bytes += size * float64(max(c.In, c.Out)) * factor
		known += g.Dur
	}
	b.Known, b.Seconds = ratio(known, all), float64(known)/1e9
	if known > 0 {
		b.ByteRate = b.Work.Bytes / b.Seconds
		b.WhyUnknown = "bus bandwidth; the peak of the links is not known"
	}
	return &b
}
