package sched

import (
	"slices"

	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/sched/budget"
)

// fit leaves out of a unit what the budget has no room for, and reports whether
// anything of it may start. What needs no GPU and runs inside this process costs
// nothing worth counting.
func (s *scheduler) fit(u *unit) bool {
	if s.cfg.Plan.Budget.Empty() || u.kind.Func != nil && len(u.GPUs) == 0 {
		return true
	}
	n, why := s.spending.Fit(u.kind.Name, s.past(u), len(u.GPUs), s.cfg.Now())
	rest := u.nodes[n:]
	u.nodes = u.nodes[:n]
	s.leaveOut(rest, why)
	return n > 0
}

func (s *scheduler) cost(u *unit) budget.Cost {
	return s.spending.Cost(u.kind.Name, s.past(u), len(u.GPUs))
}

// past is what the nodes of a unit took the last time.
func (s *scheduler) past(u *unit) []plan.Past {
	out := make([]plan.Past, len(u.nodes))
	for i, id := range u.nodes {
		out[i] = s.cfg.Plan.Nodes[id].Past
	}
	return out
}

// LeftOut is the class of a cancelled node that the budget left to the next run.
const LeftOut = "budget"

// leaveOut leaves nodes to the next run, with everything that needs them.
func (s *scheduler) leaveOut(nodes []graph.NodeID, why string) {
	for _, id := range nodes {
		if s.mayLeave(id) {
			s.leaveNode(id, why)
		}
		for _, next := range s.behind(id) {
			s.leaveNode(next, "needs "+s.graph.Actions[id].Addr)
		}
	}
}

// behind are the nodes that need one or its result through any number of others,
// and may be left; in graph order.
func (s *scheduler) behind(id graph.NodeID) []graph.NodeID {
	var out []graph.NodeID
	seen := map[graph.NodeID]bool{}
	stack := []graph.NodeID{id}
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, next := range slices.Concat(s.graph.Dependants(at), s.nodes[at].twins) {
			if !seen[next] && s.mayLeave(next) {
				seen[next] = true
				out, stack = append(out, next), append(stack, next)
			}
		}
	}
	slices.Sort(out)
	return out
}

// mayLeave reports whether a node neither runs nor has ended.
func (s *scheduler) mayLeave(id graph.NodeID) bool {
	st := s.nodes[id].state
	return !st.final() && st != running
}

func (s *scheduler) leaveNode(id graph.NodeID, why string) {
	s.nodes[id].why = LeftOut
	s.set(id, cancelled, event.Event{Type: event.NodeFinished, State: cancelled.String(), Class: LeftOut, Reason: why})
}
