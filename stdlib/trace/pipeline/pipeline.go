// Package pipeline makes the layer report of a trace, in nine parts: what was
// read, the architecture, the passes, the chosen pass and why, every layer,
// the clusters of layers, the compute flow of representative layers, ranges
// for Perfetto, and one line of conclusion (R150–R156). It computes values and
// prints nothing.
package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
	"github.com/sotabuild/sotabuild/stdlib/trace/layers"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// Report is the nine parts. Times are nanoseconds.
type Report struct {
	Metadata     Metadata  `json:"metadata"`
	Architecture Arch      `json:"architecture"`
	Passes       []Pass    `json:"passes"`
	Chosen       Choice    `json:"chosen"`
	Layers       []Layer   `json:"layers"`
	Clusters     []Cluster `json:"clusters"`
	Flows        []Flow    `json:"compute_flow"`
	Differences  []Diff    `json:"layer_differences,omitempty"`
	Ranges       []Range   `json:"perfetto_ranges"`
	Conclusion   string    `json:"conclusion"`
	Notes        []string  `json:"notes,omitempty"`
}

// Metadata names the inputs.
type Metadata struct {
	Input     read.Meta `json:"input"`
	Framework string    `json:"framework"`
	Rank      int       `json:"rank"`
	Config    string    `json:"config_sha256,omitempty"` // of the model's configuration (R155)
}

// Arch is the architecture as far as it is known.
type Arch struct {
	Model  string       `json:"model,omitempty"`
	Layers layers.Count `json:"layers"`
	Types  []string     `json:"types"`  // with the number of layers of each
	Source string       `json:"source"` // configuration or kernels
}

// Pass is one row of the pass table.
type Pass struct {
	Index    int    `json:"index"`
	Name     string `json:"name"`
	Stage    string `json:"stage"`
	Evidence string `json:"evidence"`
	Start    int64  `json:"start_ns"` // from the trace's first time
	Wall     int64  `json:"wall_ns"`
	Busy     int64  `json:"busy_ns"`
	Layers   int    `json:"layers"`
	Mean     int64  `json:"mean_layer_ns"` // wall
	Note     string `json:"note,omitempty"`
}

// Choice is the pass that stands for the rest.
type Choice struct {
	Index  int    `json:"index"`
	Reason string `json:"reason"`
}

// Layer is one row of the layer table.
type Layer struct {
	Index       int                     `json:"index"`
	Type        string                  `json:"type"`
	Wall        int64                   `json:"wall_ns"`
	Busy        int64                   `json:"busy_ns"`
	Sum         int64                   `json:"sum_ns"` // can exceed wall
	ByFamily    map[kernel.Family]int64 `json:"by_family_ns"`
	Collectives int                     `json:"collectives"`
	Kernels     int                     `json:"kernels"`
}

// Cluster is one row of the cluster table.
type Cluster struct {
	Type           string                    `json:"type"`
	Source         string                    `json:"source"`
	Layers         []int                     `json:"layers"`
	Wall           int64                     `json:"mean_wall_ns"`
	Sum            int64                     `json:"mean_sum_ns"`
	Shares         map[kernel.Family]float64 `json:"family_shares"`
	Representative int                       `json:"representative"`
	Slowest        int                       `json:"slowest"`
	Hot            []Hot                     `json:"hot_kernels"`
}

// Hot is one of the kernels with most time in a representative layer.
type Hot struct {
	Kernel string  `json:"kernel"`
	Time   int64   `json:"time_ns"`
	Share  float64 `json:"share"` // of the layer's summed time
}

// Flow is the compute flow of one layer.
type Flow struct {
	Layer int    `json:"layer"`
	Type  string `json:"type"`
	Why   string `json:"why"` // representative or slowest
	Steps []Step `json:"steps"`
}

// Step is one row: # | Half | Category | Simplified Name | dur(us) | % | ts_rel(ms) | Input Dims.
type Step struct {
	Number int           `json:"number"` // from 1
	Half   string        `json:"half"`   // attention | ffn
	Family kernel.Family `json:"category"`
	Name   string        `json:"simplified_name"`
	Kernel string        `json:"kernel"`
	Dur    int64         `json:"dur_ns"`
	Share  float64       `json:"share"` // of the layer's summed time
	At     int64         `json:"at_ns"` // from the trace's first time
	Dims   string        `json:"input_dims,omitempty"`
}

// Diff is how the representative layers of two clusters differ.
type Diff struct {
	A     int      `json:"layer_a"`
	B     int      `json:"layer_b"`
	OnlyA []string `json:"only_a"`
	OnlyB []string `json:"only_b"`
	Wall  int64    `json:"wall_difference_ns"` // B − A
}

// Range is a stretch of time for Perfetto, whose zero is the trace's first time.
type Range struct {
	What  string `json:"what"`
	From  int64  `json:"from_ns"` // relative
	To    int64  `json:"to_ns"`
	Start int64  `json:"start_ns"` // absolute
	Query string `json:"query"`
}

// Build makes the report. configSum names the configuration, "" when none was
// given.
func Build(r *layers.Result, configSum string) Report {
	b := builder{r: r, pass: &r.Passes[r.Chosen], origin: r.Profile.Trace.Meta.First}
	t := r.Profile.Trace
	out := Report{
		Metadata: Metadata{Input: t.Meta, Framework: r.Profile.Framework, Rank: r.Profile.Rank, Config: configSum},
		Passes:   b.passes(),
		Chosen:   Choice{r.Chosen, r.Reason},
		Layers:   b.layers(),
		Clusters: b.clusters(),
		Notes:    slices.Clone(r.Notes),
	}
	out.Architecture = b.architecture()
	out.Flows = b.flows()
	out.Differences = b.differences()
	out.Ranges = b.ranges(out.Flows)
	out.Conclusion = conclude(out)
	if !t.Meta.WithShapes {
		out.Notes = append(out.Notes, "Shapes were not recorded: Input Dims are unknown (profile with record_shapes).")
	}
	for _, e := range b.pass.Events {
		if r.Profile.Links.Events[e].Graph {
			out.Notes = append(out.Notes, "The pass replays a graph: its kernels have no Python line or shape of their own.")
			break
		}
	}
	return out
}

type builder struct {
	r      *layers.Result
	pass   *layers.Pass
	origin int64
}

func (b builder) architecture() Arch {
	a := Arch{Model: b.r.Config.Model, Layers: b.pass.Count, Source: "kernels"}
	for _, c := range b.r.Clusters {
		a.Source = c.Source
		a.Types = append(a.Types, fmt.Sprintf("%d × %s", len(c.Layers), c.Label))
	}
	return a
}

func (b builder) passes() []Pass {
	var out []Pass
	for i, p := range b.r.Passes {
		row := Pass{
			Index: i, Name: p.Name, Stage: string(p.Stage), Evidence: p.Evidence,
			Start: p.Times.Start - b.origin, Wall: p.Times.Wall(), Busy: p.Times.Busy, Layers: len(p.Layers),
		}
		for _, l := range p.Layers {
			row.Mean += l.Times.Wall() / int64(len(p.Layers))
		}
		switch {
		case p.Partial:
			row.Note = "cut by the recording"
		case i == b.r.Chosen:
			row.Note = "chosen"
		}
		out = append(out, row)
	}
	return out
}

func (b builder) families(events []int32) (map[kernel.Family]int64, int) {
	out := map[kernel.Family]int64{}
	collectives := 0
	for _, e := range events {
		f := b.r.Profile.Classes[e].Family
		out[f] += b.r.Profile.Trace.GPU[e].Dur
		if f == kernel.Comm {
			collectives++
		}
	}
	return out, collectives
}

func (b builder) layers() []Layer {
	var out []Layer
	for i, l := range b.pass.Layers {
		row := Layer{
			Index: i, Type: b.r.Clusters[l.Cluster].Label,
			Wall: l.Times.Wall(), Busy: l.Times.Busy, Sum: l.Times.Sum, Kernels: len(l.Events),
		}
		row.ByFamily, row.Collectives = b.families(l.Events)
		out = append(out, row)
	}
	return out
}

func (b builder) clusters() []Cluster {
	var out []Cluster
	for _, c := range b.r.Clusters {
		row := Cluster{
			Type: c.Label, Source: c.Source, Layers: c.Layers, Wall: c.Mean.End, Sum: c.Mean.Sum,
			Shares: map[kernel.Family]float64{}, Representative: c.Representative, Slowest: c.Slowest,
		}
		var sum int64
		for _, i := range c.Layers {
			by, _ := b.families(b.pass.Layers[i].Events)
			for f, t := range by {
				row.Shares[f] += float64(t)
				sum += t
			}
		}
		for f := range row.Shares {
			row.Shares[f] /= max(1, float64(sum))
		}
		row.Hot = b.hot(b.pass.Layers[c.Representative])
		out = append(out, row)
	}
	return out
}

// hot is the five kernels with most time in a layer (R153).
func (b builder) hot(l layers.Layer) []Hot {
	time := map[string]int64{}
	for _, e := range l.Events {
		time[b.r.Profile.Symbol(e).Canonical] += b.r.Profile.Trace.GPU[e].Dur
	}
	var out []Hot
	for name, t := range time {
		out = append(out, Hot{name, t, float64(t) / max(1, float64(l.Times.Sum))})
	}
	slices.SortFunc(out, func(a, b Hot) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Kernel, b.Kernel))
	})
	return out[:min(5, len(out))]
}

// flows is the representative layer of each cluster, and of the slowest
// cluster its slowest layer too.
func (b builder) flows() []Flow {
	var out []Flow
	slow := 0
	for i, c := range b.r.Clusters {
		if c.Mean.End > b.r.Clusters[slow].Mean.End {
			slow = i
		}
		out = append(out, b.flow(c.Representative, c.Label, "representative"))
	}
	if c := b.r.Clusters[slow]; c.Slowest != c.Representative {
		out = append(out, b.flow(c.Slowest, c.Label, "slowest layer of the slowest kind"))
	}
	return out
}

func (b builder) flow(layer int, label, why string) Flow {
	l := b.pass.Layers[layer]
	f := Flow{Layer: layer, Type: label, Why: why}
	half := b.r.FFN(l)
	p := b.r.Profile
	for i, e := range l.Events {
		g := p.Trace.GPU[e]
		s := Step{
			Number: i + 1, Half: "attention", Family: p.Classes[e].Family, Name: simplify(p.Symbol(e).Family),
			Kernel: p.Symbol(e).Canonical, Dur: g.Dur, Share: float64(g.Dur) / max(1, float64(l.Times.Sum)), At: g.Start - b.origin,
		}
		if i >= half {
			s.Half = "ffn"
		}
		if op := p.Links.Events[e].Op; op >= 0 {
			s.Dims = p.Trace.Name(p.Trace.Ops[op].Dims)
		}
		f.Steps = append(f.Steps, s)
	}
	return f
}

// simplify shortens a family symbol for reading: no namespaces but the last.
func simplify(symbol string) string {
	parts := strings.Split(symbol, "::")
	if len(parts) > 2 {
		parts = parts[len(parts)-2:]
	}
	s := strings.Join(parts, "::")
	if len(s) > 80 {
		s = s[:79] + "…"
	}
	return s
}

func (b builder) differences() []Diff {
	var out []Diff
	for i := 1; i < len(b.r.Clusters); i++ {
		x, y := b.r.Clusters[0].Representative, b.r.Clusters[i].Representative
		lx, ly := b.pass.Layers[x], b.pass.Layers[y]
		nx, ny := b.names(lx), b.names(ly)
		out = append(out, Diff{A: x, B: y, OnlyA: missing(nx, ny), OnlyB: missing(ny, nx), Wall: ly.Times.Wall() - lx.Times.Wall()})
	}
	return out
}

func (b builder) names(l layers.Layer) map[string]bool {
	out := map[string]bool{}
	for _, e := range l.Events {
		out[b.r.Profile.Symbol(e).Family] = true
	}
	return out
}

func missing(a, b map[string]bool) []string {
	var out []string
	for n := range a {
		if !b[n] {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

func (b builder) ranges(flows []Flow) []Range {
	out := []Range{b.rangeOf(fmt.Sprintf("pass %d", b.r.Chosen), b.pass.Times)}
	for _, f := range flows {
		out = append(out, b.rangeOf(fmt.Sprintf("layer %d", f.Layer), b.pass.Layers[f.Layer].Times))
	}
	return out
}

func (b builder) rangeOf(what string, t layers.Times) Range {
	base := b.r.Profile.Trace.Meta.Base
	return Range{
		What: what, From: t.Start - b.origin, To: t.End - b.origin, Start: base + t.Start,
		Query: fmt.Sprintf("select * from slice where ts between %d and %d", base+t.Start, base+t.End),
	}
}

// conclude names the kind of layer that costs most and its hottest kernel.
func conclude(r Report) string {
	if len(r.Clusters) == 0 {
		return "No layers were found in the chosen pass."
	}
	best := slices.MaxFunc(r.Clusters, func(a, b Cluster) int {
		return cmp.Compare(a.Sum*int64(len(a.Layers)), b.Sum*int64(len(b.Layers)))
	})
	var all int64
	for _, c := range r.Clusters {
		all += c.Sum * int64(len(c.Layers))
	}
	if len(best.Hot) == 0 || all == 0 {
		return "The layers have no measurable time."
	}
	return fmt.Sprintf("Layers of kind “%s” take %.1f %% of the time in layers; the next target is %s, %.1f %% of layer %d.",
		best.Type, 100*float64(best.Sum*int64(len(best.Layers)))/float64(all), best.Hot[0].Kernel, 100*best.Hot[0].Share, best.Representative)
}
