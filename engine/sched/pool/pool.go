// Package pool holds what work has to share: each GPU of a host is held by one
// unit of work, a quiet unit holds the whole host, and ordinary ones share its
// slots. It says which of those that wait may start, the most urgent first.
//
// It knows no nodes, tasks or times. The main type is Host, which has one owner.
package pool

import (
	"cmp"
	"container/heap"
	"slices"
)

// Need is what a unit of work has to get before it starts, and its turn.
type Need struct {
	GPUs  []string // sorted, distinct
	Quiet bool
	// The lowest Turn comes first, then the most urgent, then the lowest First.
	Turn    int
	Urgency float64
	First   int
}

// plain reports whether it takes an ordinary slot.
func (n *Need) plain() bool { return !n.Quiet && len(n.GPUs) == 0 }

func (n *Need) before(m *Need) bool {
	return cmp.Or(cmp.Compare(n.Turn, m.Turn), cmp.Compare(m.Urgency, n.Urgency), cmp.Compare(n.First, m.First)) < 0
}

// Unit is what starts at once. What it asks for does not change while it waits
// or runs.
type Unit interface{ Asks() *Need }

// queue is a heap of units, the next one first.
type queue[U Unit] []U

func (q queue[U]) Len() int           { return len(q) }
func (q queue[U]) Less(i, j int) bool { return q[i].Asks().before(q[j].Asks()) }
func (q queue[U]) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue[U]) Push(x any)        { *q = append(*q, x.(U)) }
func (q *queue[U]) Pop() any {
	old := *q
	u := old[len(old)-1]
	var none U
	old[len(old)-1] = none
	*q = old[:len(old)-1]
	return u
}

// Host is one machine's pools and the units that wait for them. Hosts.Get makes
// it.
type Host[U Unit] struct {
	slots    int // free ones
	running  int // units
	quiet    bool
	gpus     map[string]bool // held
	ordinary queue[U]        // the units that need a slot
	special  queue[U]        // the others
	lost     string
	gone     map[string]bool // GPUs of what was lost
}

// Hosts are the hosts that units name, in the order of their first unit.
type Hosts[U Unit] struct {
	Slots int // ordinary units that may run at once on one host
	list  []*Host[U]
	names map[string]*Host[U]
}

// Get returns the host of a name.
func (hs *Hosts[U]) Get(name string) *Host[U] {
	h := hs.names[name]
	if h == nil {
		h = &Host[U]{slots: hs.Slots, gpus: map[string]bool{}, gone: map[string]bool{}}
		if hs.names == nil {
			hs.names = map[string]*Host[U]{}
		}
		hs.names[name] = h
		hs.list = append(hs.list, h)
	}
	return h
}

// All lists the hosts. The caller must not change the list.
func (hs *Hosts[U]) All() []*Host[U] { return hs.list }

// Offer lets a unit wait.
func (h *Host[U]) Offer(u U) {
	q := &h.special
	if u.Asks().plain() {
		q = &h.ordinary
	}
	heap.Push(q, u)
}

// Doomed reports whether a unit can never start.
func (h *Host[U]) Doomed(u U) bool {
	n := u.Asks()
	return h.lost != "" && (n.Quiet || slices.ContainsFunc(n.GPUs, func(g string) bool { return h.gone[g] }))
}

// Lost is what Lose was told; "" before.
func (h *Host[U]) Lost() string { return h.lost }

// Admit takes from the queues what may start now, the most urgent first. A
// unit that has to wait keeps what it needs from less urgent ones (a quiet one
// keeps the host), so that it waits for those before it and no others.
func (h *Host[U]) Admit() []U {
	var start, aside []U
	kept := map[string]bool{}
	for !h.quiet {
		q := h.urgent()
		if q == nil {
			break
		}
		u := (*q)[0]
		if u.Asks().Quiet && h.running > 0 {
			break
		}
		heap.Pop(q)
		if !h.free(u.Asks(), kept) {
			aside = append(aside, u)
			continue
		}
		h.take(u.Asks())
		start = append(start, u)
	}
	for _, u := range aside {
		heap.Push(&h.special, u)
	}
	return start
}

// urgent is the queue whose head comes first; nil if nothing can start.
func (h *Host[U]) urgent() *queue[U] {
	plain, special := len(h.ordinary) > 0 && h.slots > 0, len(h.special) > 0
	switch {
	case plain && (!special || h.ordinary[0].Asks().before(h.special[0].Asks())):
		return &h.ordinary
	case special:
		return &h.special
	}
	return nil
}

// free reports whether a unit can have what it needs; if not, its GPUs are kept
// for it.
func (h *Host[U]) free(n *Need, kept map[string]bool) bool {
	ok := true
	for _, g := range n.GPUs {
		ok = ok && !h.gpus[g] && !kept[g]
	}
	if !ok {
		for _, g := range n.GPUs {
			kept[g] = true
		}
	}
	return ok
}

func (h *Host[U]) take(n *Need) {
	h.running++
	h.quiet = n.Quiet
	if n.plain() {
		h.slots--
	}
	for _, g := range n.GPUs {
		h.gpus[g] = true
	}
}

// Give takes back what a unit held.
func (h *Host[U]) Give(u U) {
	n := u.Asks()
	h.running--
	h.quiet = false
	if n.plain() {
		h.slots++
	}
	for _, g := range n.GPUs {
		delete(h.gpus, g)
	}
}

// Lose gives up the GPUs of a unit that may still run, which is called what, and
// the host's quiet. It returns the waiting units that this dooms; they wait no
// longer.
func (h *Host[U]) Lose(u U, what string) []U {
	h.lost = what
	for _, g := range u.Asks().GPUs {
		h.gone[g] = true
	}
	var rest queue[U]
	var doomed []U
	for _, w := range h.special {
		if h.Doomed(w) {
			doomed = append(doomed, w)
		} else {
			rest = append(rest, w)
		}
	}
	heap.Init(&rest)
	h.special = rest
	return doomed
}
