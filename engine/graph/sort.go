package graph

import (
	"container/heap"
	"slices"
)

// Sort orders nodes 0 … n-1, which here are positions in declared order, so
// that every edge goes forward. Among nodes that may come next the one
// declared first does, so an order that is topological already is kept.
//
// With a cycle there is no order, and one whole cycle comes back instead: the
// nodes along its edges from the one declared first, without repeating it at
// the end. It is the shortest through one of its nodes, and the same for every
// order of the edges.
func Sort(n int, edges []Edge) (order, cycle []NodeID) {
	order = make([]NodeID, 0, n)
	if forward(edges) {
		for i := range n {
			order = append(order, NodeID(i))
		}
		return order, nil
	}
	a := adjacency(n, edges)
	waits := make([]int32, n)
	var ready queue
	for i := range n {
		if waits[i] = int32(len(a.In(NodeID(i)))); waits[i] == 0 {
			ready = append(ready, NodeID(i)) // Ascending, so it is a heap.
		}
	}
	for len(ready) > 0 {
		id := heap.Pop(&ready).(NodeID)
		order = append(order, id)
		for _, to := range a.Out(id) {
			if waits[to]--; waits[to] == 0 {
				heap.Push(&ready, to)
			}
		}
	}
	if len(order) == n {
		return order, nil
	}
	return nil, a.cycle(waits)
}

func forward(edges []Edge) bool {
	return !slices.ContainsFunc(edges, func(e Edge) bool { return e.From >= e.To })
}

// cycle finds a cycle among the nodes that still wait. Each of them has an
// edge from another one of them, so walking backwards never ends before a node
// comes twice, and that one lies on a cycle.
func (a *Actions) cycle(waits []int32) []NodeID {
	start := NodeID(slices.IndexFunc(waits, func(w int32) bool { return w > 0 }))
	for seen := make([]bool, a.Len()); !seen[start]; {
		seen[start] = true
		in := a.In(start)
		start = in[slices.IndexFunc(in, func(id NodeID) bool { return waits[id] > 0 })]
	}
	path := a.shortestBack(start, waits)
	first := slices.Index(path, slices.Min(path))
	return append(path[first:len(path):len(path)], path[:first]...)
}

// shortestBack is the shortest way from a node to itself, by breadth.
func (a *Actions) shortestBack(start NodeID, waits []int32) []NodeID {
	const unseen = -1
	came := slices.Repeat([]NodeID{unseen}, a.Len())
	for queue := []NodeID{start}; ; queue = queue[1:] {
		for _, to := range a.Out(queue[0]) {
			if waits[to] == 0 || came[to] != unseen {
				continue
			}
			came[to] = queue[0]
			if to != start {
				queue = append(queue, to)
				continue
			}
			path := []NodeID{start}
			for at := came[start]; at != start; at = came[at] {
				path = append(path, at)
			}
			slices.Reverse(path[1:])
			return path
		}
	}
}

// queue is a heap of ids, the smallest first.
type queue []NodeID

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i] < q[j] }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(id any)       { *q = append(*q, id.(NodeID)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	id := (*q)[last]
	*q = (*q)[:last]
	return id
}
