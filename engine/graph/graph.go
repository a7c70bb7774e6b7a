// Package graph holds the two levels of a campaign's graph.
//
// Declarations (campaign blocks, 50 to 1,000) live in heimdalr/dag behind
// Blocks: checked construction, ancestors and descendants for --target and
// graph pictures; never on the path of a no-op plan. Actions (expanded, 10k up
// to 1M) live in Actions, a compact adjacency of int32 ids that plan and
// scheduler walk. Everything is iterative; nothing computes a transitive
// closure of the action graph.
//
// The package knows ids and edges, no kinds, keys or states. Graphs are
// immutable once finished.
package graph

// NodeID is a dense id, from 0, in topological order: every edge goes from a
// smaller to a larger id.
type NodeID int32
