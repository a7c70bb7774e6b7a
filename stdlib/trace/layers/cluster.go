package layers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
)

// Cluster is the layers of the chosen pass that do the same.
type Cluster struct {
	Label          string
	Source         string // "configuration", or "kernels" when only those could say
	Layers         []int
	Representative int // the layer nearest the cluster's median wall time
	Slowest        int
	Mean           Times // means of Busy and Sum; Start 0, End the mean wall
}

// alikeFrom is the similarity from which layers are of one kind.
const alikeFrom = 0.9

// cluster groups the layers of the chosen pass: same attention kernel, nearly
// the same kernels, and the same type by configuration where there is one.
func (r *Result) cluster() {
	p := &r.Passes[r.Chosen]
	type key struct{ anchor, typ string }
	bags := make([]map[string]int, len(p.Layers))
	var keys []key
	for i := range p.Layers {
		l := &p.Layers[i]
		bags[i] = r.layerBag(l.Events)
		k := key{typ: r.Config.TypeOf(i)}
		if l.Anchor >= 0 {
			k.anchor = r.Profile.Symbol(l.Anchor).Family
		}
		keys = append(keys, k)
		for c := range r.Clusters {
			first := r.Clusters[c].Layers[0]
			if keys[first] == k && similarity(bags[first], bags[i]) >= alikeFrom {
				l.Cluster = c
				r.Clusters[c].Layers = append(r.Clusters[c].Layers, i)
				break
			}
		}
		if l.Cluster < 0 {
			l.Cluster = len(r.Clusters)
			r.Clusters = append(r.Clusters, Cluster{Layers: []int{i}})
		}
	}
	for i := range r.Clusters {
		r.describe(&r.Clusters[i], p)
	}
	r.distinguish(bags)
	if r.Config.Layers == 0 {
		r.Notes = append(r.Notes, "No model configuration was given: layer types are named after their kernels, and the layer count rests on the trace alone.")
	}
	if !p.Count.Certain {
		r.Notes = append(r.Notes, "The layer count is "+p.Count.Note+".")
	}
}

func (r *Result) describe(c *Cluster, p *Pass) {
	wall := func(i int) int64 { return p.Layers[i].Times.Wall() }
	n := int64(len(c.Layers))
	for _, i := range c.Layers {
		t := p.Layers[i].Times
		c.Mean.End += t.Wall()
		c.Mean.Busy += t.Busy
		c.Mean.Sum += t.Sum
	}
	c.Mean.End, c.Mean.Busy, c.Mean.Sum = c.Mean.End/n, c.Mean.Busy/n, c.Mean.Sum/n
	inner := c.Layers
	if len(inner) > 2 {
		inner = slices.DeleteFunc(slices.Clone(inner), func(i int) bool { return i == 0 || i == len(p.Layers)-1 })
	}
	m := median(inner, wall)
	c.Representative = slices.MinFunc(inner, func(a, b int) int {
		return cmp.Or(cmp.Compare(abs(wall(a)-m), abs(wall(b)-m)), cmp.Compare(a, b))
	})
	c.Slowest = slices.MaxFunc(c.Layers, func(a, b int) int {
		return cmp.Or(cmp.Compare(wall(a), wall(b)), cmp.Compare(b, a))
	})
	if c.Label = r.Config.TypeOf(c.Layers[0]); c.Label != "" {
		c.Source = "configuration"
		return
	}
	c.Source = "kernels"
	c.Label = r.labelOf(p.Layers[c.Representative])
}

// labelOf names a layer after its kernels.
func (r *Result) labelOf(l Layer) string {
	attention, ffn := "no attention kernel", "dense"
	for _, e := range l.Events {
		switch cl := r.Profile.Classes[e]; {
		case cl.Family == kernel.MoE:
			ffn = "MoE"
		case cl.Family == kernel.Linear && cl.Anchor():
			attention = "linear attention"
		case cl.Family == kernel.Attention && cl.Anchor():
			attention = "attention"
			for _, w := range []string{"sliding", "local"} {
				if strings.Contains(" "+r.Profile.Symbol(e).Words+" ", " "+w+" ") {
					attention = "sliding attention"
				}
			}
		}
	}
	return attention + ", " + ffn
}

// layerBag is bag with the input norm under one name: in layer 0 it is often
// fused with the embedding, and the layer is still of the same kind.
func (r *Result) layerBag(events []int32) map[string]int {
	out := r.bag(events)
	if len(events) > 0 && r.Profile.Classes[events[0]].Family == kernel.Norm {
		s := r.Profile.Symbol(events[0]).Family
		if out[s]--; out[s] == 0 {
			delete(out, s)
		}
		out["(input norm)"]++
	}
	return out
}

// distinguish adds to clusters of one label what sets them apart from those
// before: a kernel that only they have, or lack, or else a number.
func (r *Result) distinguish(bags []map[string]int) {
	base := make([]string, len(r.Clusters))
	for i := range r.Clusters {
		base[i] = r.Clusters[i].Label
		earlier, common := map[string]int{}, map[string]int{}
		same := 0
		for j := range i {
			if base[j] != base[i] {
				continue
			}
			same++
			for s := range bags[r.Clusters[j].Layers[0]] {
				earlier[s]++
				if common[s]++; common[s] < same {
					common[s] = 0
				}
			}
		}
		if same == 0 {
			continue
		}
		mine := bags[r.Clusters[i].Layers[0]]
		if only := onlyIn(mine, earlier); only != "" {
			r.Clusters[i].Label += " with " + short(only)
		} else if lacks := onlyIn(common, mine); lacks != "" {
			r.Clusters[i].Label += " without " + short(lacks)
		} else {
			r.Clusters[i].Label += fmt.Sprintf(" variant %d", same+1)
		}
	}
}

func short(symbol string) string {
	if len(symbol) > 48 {
		return symbol[:47] + "…"
	}
	return symbol
}

// onlyIn is the first symbol, in alphabetical order, that a has and b has not.
func onlyIn(a, b map[string]int) string {
	out := ""
	for s, n := range a {
		if n > 0 && b[s] == 0 && (out == "" || s < out) {
			out = s
		}
	}
	return out
}
