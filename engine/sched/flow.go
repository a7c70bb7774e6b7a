package sched

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan"
)

// rank gives each node that may run its urgency: the seconds of the longest
// path from its start to the end of the graph. Ids are topological, so one walk
// from the end is enough.
func (s *scheduler) rank() {
	for i := len(s.nodes) - 1; i >= 0; i-- {
		n, a := &s.nodes[i], &s.graph.Actions[i]
		if may(s.cfg.Plan.Nodes[i].Verdict) {
			n.urgency += s.length(graph.NodeID(i))
		}
		for _, inputs := range [][]graph.NodeID{a.Data, a.Orders} {
			for _, in := range inputs {
				s.nodes[in].urgency = max(s.nodes[in].urgency, n.urgency)
			}
		}
	}
}

// length is what a node took the last time in seconds, by what the plan compares
// it with, or 1 s.
func (s *scheduler) length(id graph.NodeID) float64 {
	if last := s.cfg.Plan.Nodes[id].Past.Seconds; last > 0 {
		return last
	}
	return 1
}

// may reports whether a node with this verdict may have to run.
func may(v plan.Verdict) bool { return v == plan.New || v == plan.Stale || v == plan.Later }

// enter gives every node the state that the plan says and starts those that
// wait for nothing. The walk is in graph order, so whatever was final before
// the run has landed at a node before the walk comes to it.
func (s *scheduler) enter() {
	s.serial = s.cfg.Store.Serial()
	s.rank()
	s.group()
	for i := range s.nodes {
		for _, d := range s.graph.Dependants(graph.NodeID(i)) {
			s.nodes[d].pending++
		}
	}
	for i := range s.nodes {
		n, id, p := &s.nodes[i], graph.NodeID(i), &s.cfg.Plan.Nodes[i]
		switch {
		case n.state != waiting: // decided while an input landed
		case p.Verdict == plan.Skipped:
			s.set(id, skipped, event.Event{})
		case p.Verdict == plan.Blocked:
			s.blockAsPlanned(id)
		case p.Verdict == plan.Cached || p.Verdict == plan.Sealed:
			if n.record = p.Record; n.record == nil {
				n.record = s.hit(id, p.Key)
			}
			if n.record == nil {
				s.block(id, s.graph.Actions[i].Addr, "its stored result is gone")
				break
			}
			s.set(id, cached, event.Event{})
		case n.pending == 0:
			s.decide(id)
		}
		s.settleFinals()
	}
}

// blockAsPlanned looks for the root of a planned block among the inputs.
func (s *scheduler) blockAsPlanned(id graph.NodeID) {
	a, why := &s.graph.Actions[id], s.cfg.Plan.Nodes[id].Reason
	for _, inputs := range [][]graph.NodeID{a.Data, a.Orders} {
		for _, in := range inputs {
			if s.nodes[in].state == blocked {
				s.block(id, s.nodes[in].root, s.nodes[in].why)
				return
			}
		}
	}
	s.block(id, s.graph.Actions[why.Root].Addr, why.Text)
}

// group puts the nodes that may share a task together. Those of one batch have
// the same kind, block and resources: compile sees to that.
func (s *scheduler) group() {
	groups := map[string]*batch{}
	for i := range s.nodes {
		id := s.graph.Actions[i].Batch
		if id == "" || !may(s.cfg.Plan.Nodes[i].Verdict) {
			continue
		}
		b := groups[id]
		if b == nil {
			b = &batch{}
			groups[id] = b
			s.batches = append(s.batches, b)
		}
		b.members = append(b.members, graph.NodeID(i))
		s.nodes[i].batch = b
	}
}

// settle carries what set noted on, until nothing follows any more.
func (s *scheduler) settle() {
	for len(s.finals)+len(s.touched)+len(s.single) > 0 {
		s.settleFinals()
		touched, single := s.touched, s.single
		s.touched, s.single = nil, nil
		for _, b := range touched {
			if len(b.ready) > 0 && s.decided(b) {
				s.offer(b)
			}
		}
		for _, id := range single {
			s.queue(id)
		}
	}
}

func (s *scheduler) settleFinals() {
	for i := 0; i < len(s.finals); i++ {
		s.land(s.finals[i])
	}
	s.finals = s.finals[:0]
}

// land tells the dependants and twins of a final node. Nothing follows from a
// cancelled one: the run ends, and what waits for it is cancelled with the
// rest.
func (s *scheduler) land(id graph.NodeID) {
	n := &s.nodes[id]
	if n.state == cancelled {
		return
	}
	if first, ok := s.flight[n.key]; ok && first == id {
		delete(s.flight, n.key)
		for _, t := range n.twins {
			s.decide(t)
		}
		n.twins = nil
	}
	open := n.state == skipped || s.usable(id)
	root, why := cmp.Or(n.root, s.graph.Actions[id].Addr), n.why
	if why == "" && n.record != nil {
		why = cmp.Or(n.record.Outcome.Class, string(n.record.Outcome.State))
	}
	for _, d := range s.graph.Dependants(id) {
		m := &s.nodes[d]
		m.pending--
		switch {
		case m.state != waiting || !may(s.cfg.Plan.Nodes[d].Verdict):
		case !open:
			s.block(d, root, why)
		case m.pending == 0:
			s.decide(d)
		}
	}
}

// block ends a node that cannot run: root is the address where it began.
func (s *scheduler) block(id graph.NodeID, root, why string) {
	s.nodes[id].root, s.nodes[id].why = root, why
	s.set(id, blocked, event.Event{Type: event.NodeBlocked, By: root, Reason: why})
}

// decide gives a node whose inputs are usable its key, and finds out whether
// it has to run.
func (s *scheduler) decide(id graph.NodeID) {
	n := &s.nodes[id]
	m, ok := s.graph.Manifest(id, s.digest)
	if !ok {
		s.blockByInput(id)
		return
	}
	n.key = m.Key()
	if n.record = s.hit(id, n.key); n.record != nil {
		e := event.Event{Type: event.NodeCached}
		if by := n.record.Node; by != s.graph.Actions[id].Addr {
			e.By = by
		}
		s.set(id, cached, e)
		return
	}
	if first, ok := s.flight[n.key]; ok {
		n.first = first
		s.nodes[first].twins = append(s.nodes[first].twins, id)
		s.set(id, twin, event.Event{})
		return
	}
	s.flight[n.key] = id
	n.attempt = 1
	n.manifest = m
	s.set(id, ready, event.Event{})
}

// blockByInput names the input whose output is not there: that of a skipped
// node, or one that its node does not have.
func (s *scheduler) blockByInput(id graph.NodeID) {
	a := &s.graph.Actions[id]
	for i, from := range a.Data {
		if s.nodes[from].state == skipped {
			s.block(id, s.graph.Actions[from].Addr, "skipped")
			return
		}
		if _, ok := s.digest(from, a.Inputs[i].Output); !ok {
			s.block(id, s.graph.Actions[from].Addr, fmt.Sprintf("no output %q", a.Inputs[i].Output))
			return
		}
	}
	panic("sched: manifest of " + a.Addr + " is not known, though its inputs are")
}

func (s *scheduler) digest(from graph.NodeID, output string) (key.Digest, bool) {
	r := s.nodes[from].record
	if r == nil {
		return key.Digest{}, false
	}
	d := r.Output(output)
	return d, !d.IsZero()
}

// hit is the newest record that makes running the node needless. What the store
// held when the plan was made does not count for a key that the plan has judged
// already (its samples may be too few or too old), and nothing that an earlier
// run made counts for a node to be replaced.
func (s *scheduler) hit(id graph.NodeID, k key.Key) *cache.Record {
	var judged uint64
	switch p := &s.cfg.Plan.Nodes[id]; {
	case p.Reason.Cause == plan.CauseReplace:
		judged = s.serial
	case may(p.Verdict) && p.Key == k:
		judged = s.cfg.Plan.Serial
	}
	records := s.cfg.Store.Lookup(k)
	if judged == 0 {
		r, _ := plan.Hit(&s.graph.Actions[id], records, s.cfg.Now())
		return r
	}
	for _, r := range slices.Backward(records) {
		if r.Outcome.Final() && r.Serial > judged {
			return r
		}
	}
	return nil
}

// unlock lets something start when nothing runs and nothing can: a batch whose
// undecided members wait for its own ready ones goes without them, the most
// urgent first.
func (s *scheduler) unlock() {
	var best *batch
	urgency := -1.0
	for _, b := range s.batches {
		for _, id := range b.ready {
			if u := s.nodes[id].urgency; u > urgency {
				best, urgency = b, u
			}
		}
	}
	if best == nil {
		panic(fmt.Sprintf("sched: %d nodes wait for nothing", s.open))
	}
	s.offer(best)
}
