package sched

import (
	"slices"
	"time"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/sched/budget"
	"github.com/sotabuild/sotabuild/engine/sched/pool"
	"github.com/sotabuild/sotabuild/engine/sched/work"
)

// unit is what starts at once: one node, or the ready nodes of a batch.
type unit struct {
	pool.Need
	nodes []graph.NodeID // ascending: in declared order
	kind  *compile.Kind
	block string
	host  *pool.Host[*unit]
	again []work.Done // failed, to be tried again when the unit has ended
	since time.Time   // when it was started
}

// Asks is what it needs of its host.
func (u *unit) Asks() *pool.Need { return &u.Need }

// offer queues the ready nodes of a batch as one unit.
func (s *scheduler) offer(b *batch) {
	slices.Sort(b.ready)
	s.queue(b.ready...)
	b.ready = nil
}

// queue makes a unit of ready nodes of one kind and puts it in its host's
// queue. What runs inside this process runs on this host.
func (s *scheduler) queue(ids ...graph.NodeID) {
	first := &s.graph.Actions[ids[0]]
	name := first.Resources.Host
	if first.Kind.Func != nil || name == s.cfg.Host {
		name = ""
	}
	u := &unit{nodes: slices.Clone(ids), kind: first.Kind, block: first.Block, host: s.hosts.Get(name)}
	u.First = int(ids[0])
	for _, id := range ids {
		r := s.graph.Actions[id].Resources
		u.GPUs = append(u.GPUs, r.GPUs...)
		u.Quiet = u.Quiet || r.Quiet
	}
	u.Urgency = s.urgency(ids)
	if !s.cfg.Plan.Budget.Empty() {
		u.Turn, u.Urgency = budget.Turn(s.graph, ids), 0
	}
	slices.Sort(u.GPUs)
	u.GPUs = slices.Compact(u.GPUs)
	if u.host.Doomed(u) {
		s.doom(u)
		return
	}
	u.host.Offer(u)
}

// urgency is the longest path from the start of nodes that run one after the
// other: all of them, then what follows.
func (s *scheduler) urgency(ids []graph.NodeID) float64 {
	own, setup, rest := 0.0, 0.0, 0.0
	for _, id := range ids {
		own += s.length(id)
		setup = max(setup, s.cfg.Plan.Nodes[id].Past.Setup)
		rest = max(rest, s.nodes[id].urgency-s.length(id))
	}
	return setup + own + rest
}

// doom blocks the nodes of a unit that can never start.
func (s *scheduler) doom(u *unit) {
	for _, id := range u.nodes {
		s.block(id, u.host.Lost(), "its task may still be running")
	}
}
