package graph

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/heimdalr/dag"
)

// The most that heimdalr/dag is given. It checks cycles by materialising
// closures, at about half a microsecond an entry: the budget is one second.
const (
	maxBlocks       = 5_000
	maxClosureSteps = 2_000_000
)

// BlockEdge says that one block's result is used by another.
type BlockEdge struct{ From, To string }

// Blocks is the declaration graph: small, checked, by name. It may be queried
// by several goroutines.
type Blocks struct {
	names []string // topological; declared order among equals
	rank  map[string]int
	edges []BlockEdge // by From's rank, then To's
	dag   *dag.DAG
}

// NewBlocks builds the graph of named blocks. Repeated edges count once. An
// empty or repeated name, an edge to a name that is none, a cycle (as a whole
// path), and a graph too large for this purpose are errors.
func NewBlocks(names []string, edges []BlockEdge) (*Blocks, error) {
	declared := make(map[string]NodeID, len(names))
	for i, name := range names {
		if _, twice := declared[name]; twice || name == "" {
			return nil, fmt.Errorf("building block graph: block name %q is empty or stands twice", name)
		}
		declared[name] = NodeID(i)
	}
	if len(names) > maxBlocks {
		return nil, fmt.Errorf("building block graph: %d blocks, at most %d can be shown", len(names), maxBlocks)
	}
	ids := make([]Edge, 0, len(edges))
	for _, e := range edges {
		from, ok := declared[e.From]
		to, ok2 := declared[e.To]
		if !ok || !ok2 {
			return nil, fmt.Errorf("building block graph: edge %q → %q names an unknown block", e.From, e.To)
		}
		ids = append(ids, Edge{from, to})
	}
	order, cycle := Sort(len(names), ids)
	if cycle != nil {
		path := make([]string, 0, len(cycle)+1)
		for _, id := range append(cycle, cycle[0]) {
			path = append(path, names[id])
		}
		return nil, fmt.Errorf("building block graph: cycle %s", strings.Join(path, " → "))
	}
	b := &Blocks{dag: dag.NewDAG(), rank: make(map[string]int, len(names))}
	for i, id := range order {
		b.names = append(b.names, names[id])
		b.rank[names[id]] = i
	}
	return b, b.fill(edges)
}

// fill feeds the vertices and then the edges in topological order of their
// targets: the only order in which heimdalr/dag does not drop and rebuild its
// closures for ever.
func (b *Blocks) fill(edges []BlockEdge) error {
	ids := make([]Edge, 0, len(edges))
	for _, e := range edges {
		ids = append(ids, Edge{NodeID(b.rank[e.From]), NodeID(b.rank[e.To])})
	}
	a := NewActions(len(b.names), ids)
	if steps := closureSteps(a); steps > maxClosureSteps {
		return fmt.Errorf("building block graph: %d blocks are so densely linked that %d steps would be needed, at most %d are taken",
			len(b.names), steps, maxClosureSteps)
	}
	for _, name := range b.names {
		if err := b.dag.AddVertexByID(name, name); err != nil {
			return fmt.Errorf("building block graph: %w", err)
		}
	}
	for to, name := range b.names {
		for _, from := range a.In(NodeID(to)) {
			if err := b.dag.AddEdge(b.names[from], name); err != nil {
				return fmt.Errorf("building block graph: %w", err)
			}
		}
	}
	b.dag.FlushCaches()
	for from, name := range b.names {
		for _, to := range a.Out(NodeID(from)) {
			b.edges = append(b.edges, BlockEdge{name, b.names[to]})
		}
	}
	return nil
}

// closureSteps is what feeding the graph costs: for each edge the ancestors of
// its source. It counts by bit sets, before anything is fed.
func closureSteps(a *Actions) int {
	words := (a.Len() + 63) / 64
	sets := make([]uint64, a.Len()*words)
	count := make([]int, a.Len())
	steps := 0
	for id := range a.Len() {
		own := sets[id*words : (id+1)*words]
		for _, from := range a.In(NodeID(id)) {
			steps += count[from] + 1
			for w, set := range sets[int(from)*words : (int(from)+1)*words] {
				own[w] |= set
			}
			own[from/64] |= 1 << (from % 64)
		}
		for _, set := range own {
			count[id] += bits.OnesCount64(set)
		}
	}
	return steps
}

// Names are all blocks, in topological order. The caller must not change them.
func (b *Blocks) Names() []string { return b.names }

// Ancestors is everything that a block needs, directly or not, in topological
// order; an unknown name is an error.
func (b *Blocks) Ancestors(name string) ([]string, error) {
	return b.related(name, b.dag.GetAncestors)
}

// Descendants is everything that needs a block, directly or not, in
// topological order; an unknown name is an error.
func (b *Blocks) Descendants(name string) ([]string, error) {
	return b.related(name, b.dag.GetDescendants)
}

func (b *Blocks) related(name string, get func(string) (map[string]any, error)) ([]string, error) {
	set, err := get(name)
	if err != nil {
		return nil, fmt.Errorf("finding block %q: %w", name, err)
	}
	b.dag.FlushCaches() // A query leaves whole closures behind.
	var out []string
	for other := range set {
		out = append(out, other)
	}
	slices.SortFunc(out, func(x, y string) int { return b.rank[x] - b.rank[y] })
	return out, nil
}

// Picture shows the blocks.
func (b *Blocks) Picture() Picture {
	var p Picture
	for _, name := range b.names {
		p.Nodes = append(p.Nodes, Shape{ID: name, Label: name})
	}
	for _, e := range b.edges {
		p.Edges = append(p.Edges, Arrow{From: e.From, To: e.To})
	}
	return p
}
