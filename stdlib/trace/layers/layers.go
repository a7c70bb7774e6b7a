// Package layers finds forward passes in a profile and the layers in each
// pass: how many, where they begin, which are alike, and which pass and layers
// stand for the rest. Every answer comes with the evidence it rests on, and
// what the trace cannot say is said, not guessed.
//
// It knows the order and the classes of kernels; it knows nothing of tables or
// of how kernels could be fused. Indices of events go into Profile.Trace.GPU.
// A Result is immutable. Time is integer nanoseconds.
package layers

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/sotabuild/sotabuild/stdlib/trace/interval"
	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// ErrNoPass is the error of a trace in which no forward pass shows.
var ErrNoPass = errors.New("no forward pass found")

// Result is all passes of a trace.
type Result struct {
	Profile  *profile.Profile
	Config   Config
	Passes   []Pass    // by start
	Clusters []Cluster // of the chosen pass, in order of their first layer
	Chosen   int       // index of the pass that stands for the rest
	Reason   string    // why it was chosen
	Notes    []string  // what could not be known
}

// Pass is one forward step.
type Pass struct {
	Name     string // of the step or graph
	Stage    launch.Stage
	Evidence string  // what made it a pass
	Shape    string  // passes of one shape are comparable
	Events   []int32 // all device work, by start
	Layers   []Layer
	Prologue []int32 // before layer 0: embedding, input copies
	Epilogue []int32 // after the last layer: final norm, head, sampler
	Count    Count
	Times    Times
	Partial  bool // cut by the recording
}

// Layer is the work of one layer.
type Layer struct {
	Events  []int32 // by start
	Anchor  int32   // event index of its main attention kernel, -1 without
	Cluster int     // index into Result.Clusters, -1 outside the chosen pass
	Times   Times
}

// Times of some events. Sum can exceed Busy and Wall: work overlaps.
type Times struct {
	Start, End int64
	Busy       int64 // union
	Sum        int64
}

// Wall is the time from first start to last end.
func (t Times) Wall() int64 { return t.End - t.Start }

func timesOf(t *read.Trace, events []int32) Times {
	var out Times
	spans := make([]interval.Span, 0, len(events))
	for i, e := range events {
		g := t.GPU[e]
		if i == 0 || g.Start < out.Start {
			out.Start = g.Start
		}
		if i == 0 || g.End() > out.End {
			out.End = g.End()
		}
		out.Sum += g.Dur
		spans = append(spans, interval.Span{Start: g.Start, End: g.End()})
	}
	out.Busy = interval.Union(spans)
	return out
}

// Build finds passes and layers. The zero Config is "not given".
func Build(p *profile.Profile, c Config) (*Result, error) {
	r := &Result{Profile: p, Config: c}
	if len(p.Trace.GPU) == 0 {
		return nil, fmt.Errorf("%w: the trace has no GPU work", ErrNoPass)
	}
	r.Passes = passes(p)
	for i := range r.Passes {
		r.Passes[i].Times = timesOf(p.Trace, r.Passes[i].Events)
		r.divide(&r.Passes[i])
	}
	r.Passes = r.splitUnannotated(r.Passes)
	if !slices.ContainsFunc(r.Passes, func(p Pass) bool { return len(p.Layers) > 0 }) {
		return nil, fmt.Errorf("%w: no kernel repeats as the layers of a model do", ErrNoPass)
	}
	r.markPartial()
	r.choose()
	r.cluster()
	return r, nil
}

// passes finds the windows, best evidence first: annotated steps, then graph
// launches outside any step, then calls of an outermost module, then the whole
// trace as one window.
func passes(p *profile.Profile) []Pass {
	root := roots(p.Links.Steps)
	events := map[int32][]int32{}
	var order []int32
	for i, e := range p.Links.Events {
		if e.Step < 0 {
			continue
		}
		s := root[e.Step]
		if step := p.Links.Steps[s]; step.Stage == launch.None {
			continue
		}
		if events[s] == nil {
			order = append(order, s)
		}
		events[s] = append(events[s], int32(i))
	}
	var out []Pass
	for _, s := range order {
		step := p.Links.Steps[s]
		out = append(out, Pass{
			Name: step.Name, Stage: step.Stage, Events: events[s],
			Evidence: "annotated step", Shape: shape(p, step.Shape(), events[s]),
		})
	}
	if len(out) == 0 {
		out = graphPasses(p)
	}
	if len(out) == 0 {
		out = modulePasses(p)
	}
	if len(out) == 0 {
		all := make([]int32, len(p.Trace.GPU))
		for i := range all {
			all[i] = int32(i)
		}
		out = []Pass{{Name: "whole trace", Stage: launch.None, Events: all, Evidence: "no step, graph or module: the whole trace", Shape: "all"}}
	}
	slices.SortStableFunc(out, func(a, b Pass) int {
		return cmp.Compare(p.Trace.GPU[a.Events[0]].Start, p.Trace.GPU[b.Events[0]].Start)
	})
	return out
}

// roots maps each step to the outermost step of the same stage around it:
// engines annotate one step twice, nested.
func roots(steps []launch.Step) []int32 {
	out := make([]int32, len(steps))
	for i, s := range steps {
		out[i] = int32(i)
		for j := i - 1; j >= 0; j-- {
			o := steps[j]
			if o.Track == s.Track && o.Stage == s.Stage && o.End >= s.End {
				out[i] = out[j]
				break
			}
			if o.Track == s.Track && o.End < s.Start {
				break
			}
		}
	}
	return out
}

const minGraph = 50 // kernels of a graph that is a pass and not a helper

func graphPasses(p *profile.Profile) []Pass {
	byCall := map[int32][]int32{}
	for i, e := range p.Links.Events {
		if e.Graph {
			byCall[e.Call] = append(byCall[e.Call], int32(i))
		}
	}
	var out []Pass
	for _, g := range p.Links.Graphs {
		if list := byCall[g.Call]; len(list) >= minGraph {
			out = append(out, Pass{
				Name:     fmt.Sprintf("graph launch of %d kernels", len(list)),
				Stage:    p.Links.Events[list[0]].Stage,
				Evidence: "graph launch",
				Events:   list,
				Shape:    shape(p, "graph", list),
			})
		}
	}
	return out
}

// modulePasses takes each call of an outermost module for a pass.
func modulePasses(p *profile.Profile) []Pass {
	byRoot := map[int32][]int32{}
	for i, e := range p.Links.Events {
		if e.Call >= 0 && p.Links.CallRoot[e.Call] >= 0 {
			r := p.Links.CallRoot[e.Call]
			byRoot[r] = append(byRoot[r], int32(i))
		}
	}
	var out []Pass
	for i, m := range p.Links.Modules {
		if list := byRoot[int32(i)]; len(list) >= minGraph {
			out = append(out, Pass{
				Name: "nn.Module: " + m.Name, Stage: p.Links.Events[list[0]].Stage,
				Evidence: "call of the outermost module", Shape: shape(p, m.Name, list), Events: list,
			})
		}
	}
	return out
}

// shape adds "graph or not" to a step's sizes: a replayed and an eager step of
// the same batch are not comparable.
func shape(p *profile.Profile, base string, events []int32) string {
	for _, e := range events {
		if p.Links.Events[e].Graph {
			return base + "/graph"
		}
	}
	return base + "/eager"
}

// markPartial marks first and last passes that the recording cut: they have
// fewer layers than the passes of their shape, or than most passes.
func (r *Result) markPartial() {
	votes := map[int]int{}
	for _, p := range r.Passes {
		votes[len(p.Layers)]++
	}
	usual := 0
	for n, v := range votes {
		if v > votes[usual] || v == votes[usual] && n > usual {
			usual = n
		}
	}
	for _, i := range []int{0, len(r.Passes) - 1} {
		if len(r.Passes[i].Layers) < usual {
			r.Passes[i].Partial = true
		}
	}
}

// Known reports whether passes with layers were found; false for nil.
func (r *Result) Known() bool { return r != nil && len(r.Passes) > 0 }

// FFN is the index into l.Events at which the layer's second half begins: at
// the norm behind the attention, else behind the first matrix product after
// it. Without an anchor the layer is one half, and FFN is 0.
func (r *Result) FFN(l Layer) int {
	at := slices.Index(l.Events, l.Anchor)
	if at < 0 {
		return 0
	}
	product := len(l.Events)
	for i := at + 1; i < len(l.Events); i++ {
		switch r.Profile.Classes[l.Events[i]].Family {
		case kernel.Norm:
			return i
		case kernel.GEMM:
			product = min(product, i+1)
		}
	}
	return product
}
