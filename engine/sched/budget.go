package sched

import (
	"fmt"
	"time"

	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/graph"
)

// spending is what a run has used of its budget.
type spending struct {
	used     float64 // GPU-seconds of units that ended
	reserved float64 // of those that run, by their estimates
	kinds    map[string]float64
	rank     map[*batch]int
}

// estimate is how long a unit takes: the sum of what its nodes took the last
// time. A node without a past takes as long as the longest of its kind; false
// when the kind has no past either.
func (p *spending) estimate(s *scheduler, u *unit) (seconds float64, known bool) {
	known = true
	for _, id := range u.nodes {
		one := s.cfg.Plan.Nodes[id].Seconds
		if one == 0 {
			one = p.longest(s, u.kind.Name)
		}
		known = known && one > 0
		seconds += one
	}
	return seconds, known
}

func (p *spending) longest(s *scheduler, kind string) float64 {
	if v, ok := p.kinds[kind]; ok {
		return v
	}
	longest := 0.0
	for _, r := range s.cfg.Store.Kind(kind) {
		longest = max(longest, r.Time.Seconds)
	}
	if p.kinds == nil {
		p.kinds = map[string]float64{}
	}
	p.kinds[kind] = longest
	return longest
}

// refuses says why a unit does not fit; "" if it may start. What needs no GPU
// and runs inside this process costs nothing worth counting. A unit of which
// nothing is known starts as long as anything is left at all.
func (p *spending) refuses(s *scheduler, u *unit) string {
	b := s.cfg.Plan.Budget
	if b.Empty() || u.kind.Func != nil && len(u.gpus) == 0 {
		return ""
	}
	seconds, known := p.estimate(s, u)
	about := fmt.Sprintf("would take about %s", time.Duration(seconds*float64(time.Second)).Round(time.Second))
	if !known {
		about = "is not known"
	}
	if left := b.Deadline.Sub(s.cfg.Now()); !b.Deadline.IsZero() && (left <= 0 || seconds > left.Seconds()) {
		return fmt.Sprintf("over the deadline: %s are left, and it %s", max(0, left).Round(time.Second), about)
	}
	rest := b.GPUSeconds - p.used - p.reserved
	if cost := seconds * float64(len(u.gpus)); b.GPUSeconds > 0 && len(u.gpus) > 0 && (rest <= 0 || cost > rest) {
		return fmt.Sprintf("over the budget: %.3f GPU-hours are left, and it %s on %d GPUs", max(0, rest)/3600, about, len(u.gpus))
	}
	return ""
}

func (p *spending) begin(s *scheduler, u *unit) {
	u.since = s.cfg.Now()
	seconds, _ := p.estimate(s, u)
	p.reserved += seconds * float64(len(u.gpus))
}

// end counts what the unit really took in the place of its estimate.
func (p *spending) end(s *scheduler, u *unit) {
	seconds, _ := p.estimate(s, u)
	p.reserved -= seconds * float64(len(u.gpus))
	p.used += s.cfg.Now().Sub(u.since).Seconds() * float64(len(u.gpus))
}

// information ranks a unit by how much it tells: the first batch of every block
// before the second of any. What is in no batch prepares others and comes
// before all.
func (s *scheduler) information(u *unit) float64 {
	if s.spending.rank == nil {
		s.spending.rank = map[*batch]int{}
		seen := map[string]int{}
		for _, b := range s.batches {
			block := s.graph.Actions[b.members[0]].Block
			seen[block]++
			s.spending.rank[b] = seen[block]
		}
	}
	if b := s.nodes[u.nodes[0]].batch; b != nil {
		return -float64(s.spending.rank[b])
	}
	return 0
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
