package sched

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/sched/budget"
	"github.com/sotabuild/sotabuild/engine/sched/work"
)

// unit is what starts at once: one node, or the ready nodes of a batch.
type unit struct {
	nodes   []graph.NodeID // ascending: in declared order
	kind    *compile.Kind
	block   string
	host    *host
	gpus    []string // sorted, distinct
	quiet   bool
	turn    int // 0 without a budget
	urgency float64
	again   []work.Done // failed, to be tried again when the unit has ended
	since   time.Time   // when it was started
}

// plain reports whether the unit takes an ordinary slot.
func (u *unit) plain() bool { return !u.quiet && len(u.gpus) == 0 }

// queue is a heap of units: the lowest turn first, then the most urgent, then the
// first in the graph.
type queue []*unit

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return before(q[i], q[j]) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*unit)) }
func (q *queue) Pop() any {
	old := *q
	u := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return u
}

func before(a, b *unit) bool {
	if a.turn != b.turn {
		return a.turn < b.turn
	}
	if a.urgency != b.urgency {
		return a.urgency > b.urgency
	}
	return a.nodes[0] < b.nodes[0]
}

// host is one machine's pools and the units that wait for them. Each GPU is
// held by one unit; a quiet unit holds the whole host.
type host struct {
	slots    int // free ones
	running  int // units
	quiet    bool
	gpus     map[string]bool // held
	ordinary queue           // the units that need a slot
	special  queue           // the others
	// lost is the node of a task that could not be ended and may still run. Its
	// GPUs are gone for this run, and nothing can be measured on the host.
	lost string
	gone map[string]bool
}

// doomed reports whether the unit can never start in this run.
func (h *host) doomed(u *unit) bool {
	return h.lost != "" && (u.quiet || slices.ContainsFunc(u.gpus, func(g string) bool { return h.gone[g] }))
}

// admit takes from the queues what may start now, the most urgent first. A
// unit that has to wait keeps what it needs from less urgent ones (a quiet one
// keeps the host), so that it waits for those before it and no others.
func (h *host) admit() []*unit {
	var start, aside []*unit
	kept := map[string]bool{}
	for !h.quiet {
		q := h.urgent()
		if q == nil {
			break
		}
		u := (*q)[0]
		if u.quiet && h.running > 0 {
			break
		}
		heap.Pop(q)
		if !h.free(u, kept) {
			aside = append(aside, u)
			continue
		}
		h.take(u)
		start = append(start, u)
	}
	for _, u := range aside {
		heap.Push(&h.special, u)
	}
	return start
}

// urgent is the queue whose head comes first; nil if nothing can start.
func (h *host) urgent() *queue {
	plain, special := len(h.ordinary) > 0 && h.slots > 0, len(h.special) > 0
	switch {
	case plain && (!special || before(h.ordinary[0], h.special[0])):
		return &h.ordinary
	case special:
		return &h.special
	}
	return nil
}

// free reports whether the unit can have what it needs; if not, its GPUs are
// kept for it.
func (h *host) free(u *unit, kept map[string]bool) bool {
	ok := true
	for _, g := range u.gpus {
		ok = ok && !h.gpus[g] && !kept[g]
	}
	if !ok {
		for _, g := range u.gpus {
			kept[g] = true
		}
	}
	return ok
}

func (h *host) take(u *unit) {
	h.running++
	h.quiet = u.quiet
	if u.plain() {
		h.slots--
	}
	for _, g := range u.gpus {
		h.gpus[g] = true
	}
}

// give takes back what the unit held.
func (h *host) give(u *unit) {
	h.running--
	h.quiet = false
	if u.plain() {
		h.slots++
	}
	for _, g := range u.gpus {
		delete(h.gpus, g)
	}
}

// lose gives up the GPUs of a unit whose task may still run, and returns the
// waiting units that this dooms.
func (h *host) lose(u *unit, addr string) []*unit {
	h.lost = addr
	for _, g := range u.gpus {
		h.gone[g] = true
	}
	var rest queue
	var doomed []*unit
	for _, w := range h.special {
		if h.doomed(w) {
			doomed = append(doomed, w)
		} else {
			rest = append(rest, w)
		}
	}
	heap.Init(&rest)
	h.special = rest
	return doomed
}

// hosts are the hosts that nodes name, in the order of their first unit.
type hosts struct {
	slots int
	list  []*host
	names map[string]*host
}

func (hs *hosts) get(name string) *host {
	h := hs.names[name]
	if h == nil {
		h = &host{slots: hs.slots, gpus: map[string]bool{}, gone: map[string]bool{}}
		if hs.names == nil {
			hs.names = map[string]*host{}
		}
		hs.names[name] = h
		hs.list = append(hs.list, h)
	}
	return h
}

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
	u := &unit{nodes: slices.Clone(ids), kind: first.Kind, block: first.Block, host: s.hosts.get(name)}
	for _, id := range ids {
		r := s.graph.Actions[id].Resources
		u.gpus = append(u.gpus, r.GPUs...)
		u.quiet = u.quiet || r.Quiet
		u.urgency = max(u.urgency, s.nodes[id].urgency)
	}
	if !s.cfg.Plan.Budget.Empty() {
		u.turn, u.urgency = budget.Turn(s.graph, ids), 0
	}
	slices.SortFunc(u.gpus, cmp.Compare[string])
	u.gpus = slices.Compact(u.gpus)
	if u.host.doomed(u) {
		s.doom(u)
		return
	}
	q := &u.host.special
	if u.plain() {
		q = &u.host.ordinary
	}
	heap.Push(q, u)
}

// doom blocks the nodes of a unit that can never start.
func (s *scheduler) doom(u *unit) {
	for _, id := range u.nodes {
		s.block(id, u.host.lost, "its task may still be running")
	}
}
