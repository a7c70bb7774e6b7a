package sched

import (
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/sched/budget"
)

// refuses says why the budget keeps a unit from starting; "" if it may. What
// needs no GPU and runs inside this process costs nothing worth counting.
func (s *scheduler) refuses(u *unit) string {
	if s.cfg.Plan.Budget.Empty() || u.kind.Func != nil && len(u.gpus) == 0 {
		return ""
	}
	return s.spending.Refuses(s.cost(u), s.cfg.Now())
}

func (s *scheduler) cost(u *unit) budget.Cost {
	seconds := make([]float64, len(u.nodes))
	for i, id := range u.nodes {
		seconds[i] = s.cfg.Plan.Nodes[id].Seconds
	}
	return s.spending.Cost(u.kind.Name, seconds, len(u.gpus))
}

// information ranks a unit by how much it tells: the first batch of every block
// before the second of any. What is in no batch prepares others and comes
// before all.
func (s *scheduler) information(u *unit) float64 {
	own := s.nodes[u.nodes[0]].batch
	if own == nil {
		return 0
	}
	rank := 0
	for _, b := range s.batches {
		if s.graph.Actions[b.members[0]].Block == u.block {
			rank++
		}
		if b == own {
			break
		}
	}
	return -float64(rank)
}

// leftOut is why a node was cancelled that the budget left to the next run.
const leftOut = "budget"

// leaveOut leaves a unit to the next run, with everything that needs it.
func (s *scheduler) leaveOut(u *unit, why string) {
	stack := append([]graph.NodeID(nil), u.nodes...)
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		n := &s.nodes[id]
		if n.state.final() || n.state == running {
			continue
		}
		n.why = leftOut
		s.set(id, cancelled, event.Event{Type: event.NodeFinished, State: cancelled.String(), Class: leftOut, Reason: why})
		stack = append(stack, s.graph.Dependants(id)...)
		stack = append(stack, n.twins...)
	}
}
