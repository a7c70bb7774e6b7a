package compile

import (
	"slices"
	"strings"
	"sync"

	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
)

// InputFact is the name of the facts that are inputs' digests.
const InputFact = "in"

// names finds actions by what they are called.
type names struct {
	byAddr  map[string]graph.NodeID
	byBlock map[string][]graph.NodeID
}

func namesOf(actions []Action) names {
	n := names{make(map[string]graph.NodeID, len(actions)), map[string][]graph.NodeID{}}
	for i := range actions {
		a := &actions[i]
		n.byAddr[a.Addr] = a.ID
		n.byBlock[a.Block] = append(n.byBlock[a.Block], a.ID)
	}
	return n
}

// edgesOf is the adjacency of actions in topological order.
func edgesOf(actions []Action) *graph.Actions {
	n := 0
	for i := range actions {
		n += len(actions[i].Data) + len(actions[i].Orders)
	}
	edges := make([]graph.Edge, 0, n)
	for i := range actions {
		a := &actions[i]
		for _, from := range a.Data {
			edges = append(edges, graph.Edge{From: from, To: a.ID})
		}
		for _, from := range a.Orders {
			edges = append(edges, graph.Edge{From: from, To: a.ID})
		}
	}
	return graph.NewActions(len(actions), edges)
}

// lazily makes what is made of the actions when it is asked for.
func (g *Graph) lazily() *Graph {
	g.names = sync.OnceValue(func() names { return namesOf(g.Actions) })
	g.edges = sync.OnceValue(func() *graph.Actions { return edgesOf(g.Actions) })
	return g
}

// Runs reports whether the graph can run: a thawed one has no specs.
func (g *Graph) Runs() bool { return g.rows == nil }

// Lookup finds an action by its address.
func (g *Graph) Lookup(addr string) (graph.NodeID, bool) {
	id, ok := g.names().byAddr[addr]
	return id, ok
}

// Select finds the action of an address, or all actions of a block, ascending.
// A name that is neither is a Problem that names the nearest one, or the first
// address that begins nearly like it, or the first block of this label.
func (g *Graph) Select(name string) ([]graph.NodeID, *Problem) {
	if id, ok := g.Lookup(name); ok {
		return []graph.NodeID{id}, nil
	}
	if ids := g.names().byBlock[name]; len(ids) > 0 && name != "" {
		return slices.Clone(ids), nil
	}
	all := g.blockNames()
	var heads []string
	for i := range g.Actions {
		all, heads = append(all, g.Actions[i].Addr), append(heads, head(g.Actions[i].Addr))
	}
	hint := didYouMean(name, all)
	if i := nearest(name, heads); hint == "" && i >= 0 {
		hint = " (did you mean " + g.Actions[i].Addr + "?)"
	}
	for _, b := range g.blockNames() {
		if _, after, _ := strings.Cut(b, "."); hint == "" && after == name {
			hint = " (did you mean " + b + "?)"
		}
	}
	return nil, &Problem{name, "is neither a node's address nor a block" + hint}
}

// Dependants is what has an edge, of data or order, from a node: each once,
// ascending. The caller must not change it.
func (g *Graph) Dependants(id graph.NodeID) []graph.NodeID { return g.edges().Out(id) }

// Needs is what a node has an edge from, of data or order: each once,
// ascending. The caller must not change it.
func (g *Graph) Needs(id graph.NodeID) []graph.NodeID { return g.edges().In(id) }

// Ancestors marks, in place, everything that the marked nodes need.
func (g *Graph) Ancestors(marked []bool) { g.edges().Ancestors(marked) }

// Manifest is everything that decides a node's result. The digest function
// says what is known of the inputs' outputs; false, or a zero digest, is not
// known. While one is unknown the second result is false, and the manifest
// holds the known facts only: good for explaining, no ground for a key.
func (g *Graph) Manifest(id graph.NodeID, digest func(from graph.NodeID, output string) (key.Digest, bool)) (key.Manifest, bool) {
	a := &g.Actions[id]
	own := g.own(id)
	if len(a.Inputs) == 0 {
		return own, true
	}
	known := true
	m := own.With(InputFact, len(a.Inputs), func(i int) (string, key.Digest) {
		d, ok := digest(a.Data[i], a.Inputs[i].Output)
		if !ok || d.IsZero() {
			known = false
			return "", key.Digest{}
		}
		return a.Inputs[i].Name, d
	})
	return m, known
}

// own is what of an action's manifest depends on no input.
func (g *Graph) own(id graph.NodeID) key.Manifest {
	if g.rows != nil {
		return g.table.Manifest(g.rows[id])
	}
	return g.Actions[id].own
}

// blockNames are the blocks that have actions, by their first one.
func (g *Graph) blockNames() []string {
	byBlock := g.names().byBlock
	var all []string
	for i := range g.Actions {
		if b := g.Actions[i].Block; b != "" && byBlock[b][0] == g.Actions[i].ID {
			all = append(all, b)
		}
	}
	return all
}

// Blocks is the graph of the blocks that the actions come from: one needs
// another when any of its actions takes an output of the other's. Order edges
// are left out: they say when, not what from, and go both ways between blocks
// that check each other's work before any of them starts. Blocks that feed each
// other, which actions may do without a cycle of their own, are an error.
func (g *Graph) Blocks() (*graph.Blocks, error) {
	var edges []graph.BlockEdge
	seen := map[graph.BlockEdge]bool{}
	for i := range g.Actions {
		to := g.Actions[i].Block
		for _, from := range g.Actions[i].Data {
			e := graph.BlockEdge{From: g.Actions[from].Block, To: to}
			if e.From != e.To && e.From != "" && to != "" && !seen[e] {
				seen[e] = true
				edges = append(edges, e)
			}
		}
	}
	return graph.NewBlocks(g.blockNames(), edges)
}

// Picture shows every action, with data edges drawn and order edges dashed.
func (g *Graph) Picture() graph.Picture {
	var p graph.Picture
	for i := range g.Actions {
		a := &g.Actions[i]
		p.Nodes = append(p.Nodes, graph.Shape{ID: a.Addr, Label: a.Addr, Class: a.Kind.Name})
		data := make(map[graph.NodeID]bool, len(a.Data))
		for _, from := range a.Data {
			data[from] = true
		}
		for _, from := range g.Needs(a.ID) {
			p.Edges = append(p.Edges, graph.Arrow{From: g.Actions[from].Addr, To: a.Addr, Dashed: !data[from]})
		}
	}
	return p
}
