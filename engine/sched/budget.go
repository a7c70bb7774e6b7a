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
		s.leaveNode(id, why)
		needs := "needs " + s.graph.Actions[id].Addr
		for stack := s.following(id); len(stack) > 0; {
			next := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if s.leaveNode(next, needs) {
				stack = append(stack, s.following(next)...)
			}
		}
	}
}

// following are the nodes that need one, or its result.
func (s *scheduler) following(id graph.NodeID) []graph.NodeID {
	return slices.Concat(s.graph.Dependants(id), s.nodes[id].twins)
}

// leaveNode leaves one node, unless it runs or has ended.
func (s *scheduler) leaveNode(id graph.NodeID, why string) bool {
	n := &s.nodes[id]
	if n.state.final() || n.state == running {
		return false
	}
	n.why = LeftOut
	s.set(id, cancelled, event.Event{Type: event.NodeFinished, State: cancelled.String(), Class: LeftOut, Reason: why})
	return true
}
