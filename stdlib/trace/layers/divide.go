package layers

import (
	"slices"

	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// chain is the kernels of a pass's main stream in order: layers are mined on
// one stream, the others are assigned by time afterwards.
type chain struct {
	events  []int32
	symbols []string
	classes []kernel.Class
}

func (r *Result) chainOf(events []int32) chain {
	type lane struct{ device, stream int32 }
	t := r.Profile.Trace
	time := map[lane]int64{}
	var main lane
	for _, e := range events {
		g := t.GPU[e]
		if g.Kind != read.Kernel || r.Profile.Classes[e].Group == kernel.Communication {
			continue
		}
		l := lane{g.Device, g.Stream}
		time[l] += g.Dur
		if time[l] > time[main] {
			main = l
		}
	}
	var c chain
	for _, e := range events {
		g := t.GPU[e]
		if g.Kind == read.Kernel && (lane{g.Device, g.Stream}) == main {
			c.events = append(c.events, e)
			c.symbols = append(c.symbols, r.Profile.Symbol(e).Family)
			c.classes = append(c.classes, r.Profile.Classes[e])
		}
	}
	return c
}

// anchors is the places of the main attention kernels, one a layer: kernels of
// the family with no matrix product between them are one anchor (mixed batches
// launch one kernel for prefill and one for decode).
func (c chain) anchors() []int {
	var out []int
	open := false
	for i, cl := range c.classes {
		switch {
		case cl.Anchor():
			if !open {
				out = append(out, i)
			}
			open = true
		case cl.Family == kernel.GEMM || cl.Rule == "moe-grouped-gemm" || cl.Rule == "moe-batched":
			open = false
		}
	}
	return out
}

// divide finds the layers of one pass.
func (r *Result) divide(p *Pass) {
	c := r.chainOf(p.Events)
	anchors := c.anchors()
	p.Count = r.count(c, len(anchors))
	n := p.Count.N
	if n == 0 {
		p.Prologue = p.Events
		return
	}
	if len(anchors) == 0 {
		anchors = c.voted(n)
	}
	if len(anchors) == 0 {
		p.Prologue = p.Events
		return
	}
	if len(anchors) > n && len(anchors)%n == 0 {
		step := len(anchors) / n
		every := anchors[:0:0]
		for i := 0; i < len(anchors); i += step {
			every = append(every, anchors[i])
		}
		anchors = every
	}
	starts, end := c.bounds(anchors)
	r.assign(p, c, anchors, starts, end)
}

// voted is the places of the first symbol that occurs exactly n times.
func (c chain) voted(n int) []int {
	places := map[string][]int{}
	for i, s := range c.symbols {
		places[s] = append(places[s], i)
	}
	for _, s := range c.symbols {
		if len(places[s]) == n {
			return places[s]
		}
	}
	return nil
}

// bounds is where each layer begins in the chain and where the last one ends.
//
// Before layer 0 stand only the embedding and the layer's own input norm and
// projections, so what precedes the first and the second anchor alike belongs
// to the layer. The first kernel that differs is still the layer's when both
// are norms: the first input norm is often fused with the embedding.
func (c chain) bounds(anchors []int) (starts []int, end int) {
	starts = make([]int, len(anchors))
	if len(anchors) == 1 {
		starts[0] = anchors[0]
		for starts[0] > 0 && c.classes[starts[0]-1].Family != kernel.MoE {
			starts[0]--
		}
		return starts, len(c.events)
	}
	depth := c.lead(anchors[0], anchors[1], anchors[0]+1)
	starts[0] = anchors[0] - depth
	border := map[string]bool{c.symbols[starts[0]]: true, c.symbols[anchors[1]-depth]: true}
	// Without a norm in it the common lead is too short: some layers have a cast
	// more than others.
	first, second := c.inputNorm(anchors[0], -1), c.inputNorm(anchors[1], anchors[0])
	if first >= 0 && second >= 0 && first < starts[0] && !c.hasNorm(starts[0], anchors[0]) {
		starts[0] = first
		border = map[string]bool{c.symbols[first]: true, c.symbols[second]: true}
	}
	for i := 1; i < len(anchors); i++ {
		starts[i] = c.begin(anchors[i], anchors[i-1], starts[0], anchors[0]-starts[0], border)
	}
	return starts, c.tail(anchors, starts)
}

// tail is where the last layer ends: as far as its kernels after the anchor go
// on like those of the last earlier layer with the same anchor.
func (c chain) tail(anchors, starts []int) int {
	last := len(anchors) - 1
	model := last - 1
	for i := last - 1; i >= 0; i-- {
		if c.symbols[anchors[i]] == c.symbols[anchors[last]] {
			model = i
			break
		}
	}
	end := anchors[last] + 1
	for j := anchors[model] + 1; j < starts[model+1] && end < len(c.events); j++ {
		if c.classes[j].Family != c.classes[end].Family {
			break
		}
		end++
	}
	return end
}

// inputNorm is the last norm between prev and the anchor at that has a matrix
// product behind it, or -1: norms of queries and keys stand after the product.
func (c chain) inputNorm(at, prev int) int {
	product := false
	for i := at - 1; i > prev; i-- {
		product = product || c.classes[i].Family == kernel.GEMM
		if product && c.classes[i].Family == kernel.Norm {
			return i
		}
	}
	return -1
}

func (c chain) hasNorm(from, to int) bool {
	return slices.ContainsFunc(c.classes[from:to], func(cl kernel.Class) bool { return cl.Family == kernel.Norm })
}

// lead is how many kernels before a and b agree, staying at or after low in
// front of b.
func (c chain) lead(a, b, low int) int {
	n := 0
	for a-n-1 >= 0 && b-n-1 >= low {
		x, y := a-n-1, b-n-1
		if c.symbols[x] != c.symbols[y] {
			if c.classes[x].Family == kernel.Norm && c.classes[y].Family == kernel.Norm {
				n++
			}
			break
		}
		n++
	}
	return n
}

// begin is where the layer of the anchor at begins, after the anchor prev: as
// far in front as in the first layer if the kernels agree, else at the nearest
// kernel that layers begin with, else at the input norm, else at the anchor.
func (c chain) begin(at, prev, first, depth int, border map[string]bool) int {
	if at-depth > prev && c.alike(first, at-depth, depth) {
		return at - depth
	}
	product := false
	for i := at - 1; i > prev; i-- {
		product = product || c.classes[i].Family == kernel.GEMM
		if product && border[c.symbols[i]] {
			return i
		}
	}
	if norm := c.inputNorm(at, prev); norm >= 0 {
		return norm
	}
	return at
}

// alike reports whether n kernels from a and from b have the same symbols, the
// first only the same family.
func (c chain) alike(a, b, n int) bool {
	for i := range n {
		if i == 0 && c.classes[a].Family == c.classes[b].Family {
			continue
		}
		if c.symbols[a+i] != c.symbols[b+i] {
			return false
		}
	}
	return true
}

// assign gives every event of the pass to the prologue, a layer or the
// epilogue; events of other streams and copies go by their start.
func (r *Result) assign(p *Pass, c chain, anchors, starts []int, end int) {
	t := r.Profile.Trace
	cuts := make([]int64, len(starts))
	for i, s := range starts {
		cuts[i] = t.GPU[c.events[s]].Start
	}
	place := make(map[int32]int, len(c.events))
	for i, e := range c.events {
		n, found := slices.BinarySearch(starts, i)
		if !found {
			n--
		}
		if i >= end {
			n = len(starts)
		}
		place[e] = n
	}
	p.Layers = make([]Layer, len(starts))
	for i := range p.Layers {
		p.Layers[i] = Layer{Anchor: c.events[anchors[i]], Cluster: -1}
	}
	var tail int64 = 1<<63 - 1
	if end < len(c.events) {
		tail = t.GPU[c.events[end]].Start
	}
	for _, e := range p.Events {
		n, ok := place[e]
		if !ok {
			at := t.GPU[e].Start
			n, _ = slices.BinarySearch(cuts, at+1)
			n--
			if at >= tail {
				n = len(starts)
			}
		}
		switch {
		case n < 0:
			p.Prologue = append(p.Prologue, e)
		case n == len(starts):
			p.Epilogue = append(p.Epilogue, e)
		default:
			p.Layers[n].Events = append(p.Layers[n].Events, e)
		}
	}
	for i := range p.Layers {
		p.Layers[i].Times = timesOf(t, p.Layers[i].Events)
	}
}

// splitUnannotated divides a pass that is the whole trace where the kernels
// between two anchors are unlike the usual ones: there one pass ends and the
// next begins.
func (r *Result) splitUnannotated(list []Pass) []Pass {
	if len(list) != 1 || list[0].Shape != "all" || len(list[0].Layers) < 4 {
		return list
	}
	whole := list[0]
	sums := make([]map[string]int, len(whole.Layers))
	seen := map[string]int{}
	for i, l := range whole.Layers {
		sums[i] = r.bag(l.Events)
		for s := range sums[i] {
			seen[s]++
		}
	}
	usual := sums[medoid(sums)]
	var cuts []int
	for i := 1; i < len(whole.Layers); i++ {
		rare := false
		for s := range sums[i-1] {
			rare = rare || seen[s]*10 < len(sums)
		}
		if rare && similarity(sums[i-1], usual) < 0.8 {
			cuts = append(cuts, i)
		}
	}
	if len(cuts) == 0 {
		return list
	}
	var out []Pass
	from := 0
	events := append(slices.Clone(whole.Prologue), nil...)
	for _, cut := range append(cuts, len(whole.Layers)) {
		for _, l := range whole.Layers[from:cut] {
			events = append(events, l.Events...)
		}
		if cut == len(whole.Layers) {
			events = append(events, whole.Epilogue...)
		}
		p := whole
		p.Name, p.Evidence = "part of the trace", "kernels unlike a layer's between two layers"
		p.Events, p.Layers, p.Prologue, p.Epilogue = events, nil, nil, nil
		p.Times = timesOf(r.Profile.Trace, events)
		r.divide(&p)
		out = append(out, p)
		events, from = nil, cut
	}
	return out
}
