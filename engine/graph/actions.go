package graph

import "fmt"

// Edge says that From comes before To.
type Edge struct{ From, To NodeID }

// Actions is the adjacency of the action graph in compact form: eight bytes an
// edge and eight a node, whatever the shape. It is immutable.
type Actions struct{ out, in lists }

// lists holds one ascending list of neighbours a node, end to end.
type lists struct {
	start []int32 // len n+1: list i is ids[start[i]:start[i+1]]
	ids   []NodeID
}

func (l lists) of(id NodeID) []NodeID { return l.ids[l.start[id]:l.start[id+1]] }

// NewActions freezes n nodes and their edges, in time linear in both. Repeated
// edges count once. An edge that does not go from a smaller to a larger id
// below n breaks the invariant of NodeID and panics: Sort comes first.
func NewActions(n int, edges []Edge) *Actions {
	for _, e := range edges {
		if e.From >= e.To {
			panic(fmt.Sprintf("graph: edge %d → %d is not in topological order", e.From, e.To))
		}
	}
	return adjacency(n, edges)
}

// Len is the number of nodes.
func (a *Actions) Len() int { return len(a.out.start) - 1 }

// Out is what depends on a node, ascending. The caller must not change it.
func (a *Actions) Out(id NodeID) []NodeID { return a.out.of(id) }

// In is what a node depends on, ascending. The caller must not change it.
func (a *Actions) In(id NodeID) []NodeID { return a.in.of(id) }

// Ancestors marks, in place, everything that the marked nodes depend on.
func (a *Actions) Ancestors(marked []bool) {
	for id := len(marked) - 1; id >= 0; id-- {
		if !marked[id] {
			continue
		}
		for _, from := range a.In(NodeID(id)) {
			marked[from] = true
		}
	}
}

// adjacency sorts the edges by counting, twice: bucketed by target first, a
// pass over the targets in order leaves every list of sources' targets
// ascending, and the same again the other way round.
func adjacency(n int, edges []Edge) *Actions {
	byTo := bucket(n, len(edges), func(put func(at, id NodeID)) {
		for _, e := range edges {
			put(e.To, e.From)
		}
	})
	out := bucket(n, len(edges), byTo.turned).compact()
	in := bucket(n, len(out.ids), out.turned)
	return &Actions{out: out, in: in}
}

// bucket lets each call all pairs twice: to count, and to place.
func bucket(n, pairs int, each func(put func(at, id NodeID))) lists {
	l := lists{start: make([]int32, n+1), ids: make([]NodeID, pairs)}
	each(func(at, _ NodeID) { l.start[at+1]++ })
	for i := range n {
		l.start[i+1] += l.start[i]
	}
	next := append([]int32(nil), l.start...)
	each(func(at, id NodeID) {
		l.ids[next[at]] = id
		next[at]++
	})
	return l
}

// turned yields the pairs the other way round, in ascending order of the list
// that they stand in.
func (l lists) turned(put func(at, id NodeID)) {
	for i := range len(l.start) - 1 {
		for _, id := range l.of(NodeID(i)) {
			put(id, NodeID(i))
		}
	}
}

// compact drops repeated neighbours from ascending lists.
func (l lists) compact() lists {
	kept := l.ids[:0]
	from := int32(0)
	for i := range len(l.start) - 1 {
		to, first := l.start[i+1], len(kept)
		for _, id := range l.ids[from:to] {
			if len(kept) == first || kept[len(kept)-1] != id {
				kept = append(kept, id)
			}
		}
		from, l.start[i+1] = to, int32(len(kept))
	}
	l.ids = kept
	return l
}
