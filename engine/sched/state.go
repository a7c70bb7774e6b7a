package sched

import (
	"fmt"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
)

// state is where a node stands.
type state byte

const (
	waiting state = iota // an input is not final yet
	twin                 // the same key is in flight under another node
	ready                // it is no hit and may run
	running
	// The final states.
	succeeded
	cached
	failed
	rejected
	blocked
	skipped
	cancelled
)

func (s state) final() bool { return s >= succeeded }

var stateNames = [...]string{"waiting", "twin", "ready", "running", "ok", "cached", "failed", "rejected", "blocked", "skipped", "cancelled"}

func (s state) String() string { return stateNames[s] }

// node is what the owner knows of an action. The zero value is a node that
// waits.
type node struct {
	state   state
	attempt int   // the next one while ready, the present one while running
	pending int32 // inputs, data and order, that are not final
	urgency float64
	key     key.Key // once its inputs are usable
	// manifest is what the key is of, from ready on and until the end.
	manifest key.Manifest
	record   *cache.Record // what its final state rests on; nil if there is none
	root     string        // while blocked: the address where it began
	why      string        // the class or reason of a failure or a block
	first    graph.NodeID  // while a twin: the node that holds the key
	twins    []graph.NodeID
	batch    *batch // nil: it runs by itself
	begun    bool   // while cancelled: it ran
}

// batch is the nodes of one batch id. Its ready nodes are held until all its
// members are decided.
type batch struct {
	members []graph.NodeID
	ready   []graph.NodeID
}

// decided reports whether every member is ready or beyond. A twin of a member
// of the same batch is: it cannot run beside its first anyway.
func (s *scheduler) decided(b *batch) bool {
	for _, id := range b.members {
		n := &s.nodes[id]
		if n.state == waiting || n.state == twin && s.nodes[n.first].batch != b {
			return false
		}
	}
	return true
}

// set is the only place where a node's state changes. It emits e, if e has a
// type, and notes what follows for settle. A final state is left by nobody.
func (s *scheduler) set(id graph.NodeID, to state, e event.Event) {
	n, addr := &s.nodes[id], s.graph.Actions[id].Addr
	if n.state.final() {
		panic(fmt.Sprintf("sched: node %s is %s and cannot become %s", addr, n.state, to))
	}
	n.state = to
	if b := n.batch; b != nil {
		if to == ready {
			b.ready = append(b.ready, id)
		}
		s.touched = append(s.touched, b)
	} else if to == ready {
		s.single = append(s.single, id)
	}
	if to.final() {
		s.open--
		s.finals = append(s.finals, id)
	}
	if e.Type != "" {
		e.Node = addr
		s.say(e)
	}
}

// usable reports whether a node's outputs are there for its dependants.
func (s *scheduler) usable(id graph.NodeID) bool {
	r, kind := s.nodes[id].record, s.graph.Actions[id].Kind
	if r == nil {
		return false
	}
	if r.Outcome.State == cache.OK {
		return true
	}
	if !kind.KeepsFailures {
		return false
	}
	for _, name := range kind.Outputs {
		if r.Output(name).IsZero() {
			return false
		}
	}
	return true
}

// summary counts final states.
func (s *scheduler) summary() Summary {
	sum := Summary{Interrupted: s.interrupted, Seconds: s.cfg.Now().Sub(s.started).Seconds()}
	for i := range s.nodes {
		id := graph.NodeID(i)
		switch st := s.nodes[i].state; {
		case st == succeeded:
			sum.OK++
		case st == cached && s.usable(id):
			sum.Cached++
		case st == cached || (st == failed || st == rejected) && !s.usable(id):
			sum.Failed++
			sum.FailedNodes = append(sum.FailedNodes, s.graph.Actions[i].Addr)
		case st == failed || st == rejected:
			sum.KeptFailures++
		case st == blocked:
			sum.Blocked++
		case st == cancelled && s.nodes[i].why == LeftOut:
			sum.Left++
		case st == cancelled && !s.nodes[i].begun:
			sum.Unbegun++
		case st == cancelled:
			sum.Cancelled++
		}
	}
	return sum
}
