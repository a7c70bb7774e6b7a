package plan

import (
	"slices"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/cache/samples"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan/origin"
	"github.com/sotabuild/sotabuild/engine/plan/renamed"
)

// Make says of every node what apply would do and why. It reads records only,
// never an object, and costs one look-up and one hash for a cached node. With
// problems, which are wrong names in the options, there is no plan.
func Make(g *compile.Graph, r cache.Reader, o Options) (*Plan, []compile.Problem) {
	m := maker{
		g: g, r: r, past: renamed.New(g, r),
		now:  o.Now,
		plan: &Plan{Nodes: make([]Node, len(g.Actions)), Serial: r.Serial()}, changed: map[key.Key]graph.NodeID{}, setups: map[string]float64{},
	}
	var problems []compile.Problem
	m.givenUp = o.GivenUp
	m.wanted, m.replace, problems = choose(g, o)
	if len(problems) > 0 {
		return nil, problems
	}
	for i := range g.Actions {
		n := m.node(graph.NodeID(i))
		m.plan.Nodes[i] = n
		m.plan.Counts.add(n.Verdict)
	}
	m.plan.Roots = roots(m.plan.Nodes)
	m.plan.made = origin.Of(g, r, m.plan.byInput())
	return m.plan, nil
}

// choose turns the options' names into marks by node.
func choose(g *compile.Graph, o Options) (wanted, replace []bool, problems []compile.Problem) {
	mark := func(names []string) []bool {
		marked := make([]bool, len(g.Actions))
		for _, name := range names {
			ids, p := g.Select(name)
			if p != nil {
				problems = append(problems, *p)
			}
			for _, id := range ids {
				marked[id] = true
			}
		}
		return marked
	}
	wanted, replace = mark(o.Targets), mark(o.Replace)
	if len(o.Targets) == 0 {
		for i := range wanted {
			wanted[i] = true
		}
	} else {
		g.Ancestors(wanted)
	}
	for i := range replace {
		a := &g.Actions[i]
		switch {
		case replace[i] && !wanted[i]:
			problems = append(problems, compile.Problem{Addr: a.Addr, Text: "cannot be replaced: it is outside the targets"})
		case replace[i] && a.Skip != "":
			problems = append(problems, compile.Problem{Addr: a.Addr, Text: "cannot be replaced: it is skipped: " + a.Skip})
		}
	}
	return wanted, replace, problems
}

func (c *Counts) add(v Verdict) {
	switch v {
	case New:
		c.New++
	case Stale:
		c.Stale++
	case Cached:
		c.Cached++
	case Later:
		c.Later++
	case Blocked:
		c.Blocked++
	case Sealed:
		c.Sealed++
	case Skipped:
		c.Skipped++
	}
}

func roots(nodes []Node) []Root {
	var out []Root
	at := map[graph.NodeID]int{}
	for i, n := range nodes {
		switch {
		case n.Verdict != New && n.Verdict != Stale && n.Verdict != Later:
		case n.Reason.Cause == CauseInput:
			out[at[n.Reason.Root]].Downstream++
		default:
			at[graph.NodeID(i)] = len(out)
			out = append(out, Root{Node: graph.NodeID(i)})
		}
	}
	return out
}

// maker walks the graph once, in topological order, so that what a node needs
// has its verdict already.
type maker struct {
	g               *compile.Graph
	r               cache.Reader
	past            *renamed.Finder
	now             time.Time
	plan            *Plan
	changed         map[key.Key]graph.NodeID // the first node of a key that is stale by a change
	setups          map[string]float64       // what is counted already, by batch
	wanted, replace []bool
	givenUp         []string
}

func (m *maker) node(id graph.NodeID) Node {
	a := &m.g.Actions[id]
	own := Reason{Root: id}
	switch {
	case !m.wanted[id]:
		own.Cause = CauseTarget
		return Node{Verdict: Skipped, Reason: own}
	case a.Skip != "":
		own.Cause, own.Text = CauseSkip, a.Skip
		return Node{Verdict: Skipped, Reason: own}
	}
	manifest, known := m.g.Manifest(id, m.digest)
	if known {
		n := Node{Key: manifest.Key(), Reason: own}
		records := m.r.Lookup(n.Key)
		var wants string
		n.Record, wants = Hit(a, records, m.now)
		if n.Record != nil && !m.replace[id] {
			n.Verdict = Cached
			return n
		}
		if by, blocked := m.blocker(id); blocked {
			return Node{Verdict: Blocked, Reason: Reason{Cause: CauseUpstream, Root: by}, Key: n.Key}
		}
		n.Reason.Text = wants
		return m.toRun(a, n, manifest, records)
	}
	if by, blocked := m.blocker(id); blocked {
		return Node{Verdict: Blocked, Reason: Reason{Cause: CauseUpstream, Root: by}}
	}
	return m.undecided(a, manifest)
}

// toRun says why a node whose key is known has to run. n.Record is a hit only
// if a replacement was asked for.
func (m *maker) toRun(a *compile.Action, n Node, manifest key.Manifest, records []*cache.Record) Node {
	history := m.r.History(a.Addr)
	before := newest(history)
	n.Verdict = Stale
	wants := n.Reason.Text
	n.Reason.Text = ""
	switch same := sameKey(history, n.Key); {
	case n.Record != nil:
		before = n.Record
		n.Reason.Cause = CauseReplace
	case wants != "":
		n.Reason.Cause, n.Reason.Text = CauseRejected, wants
	case len(records) > 0 && records[len(records)-1].Outcome.Final():
		n.Reason.Cause, n.Reason.Text = CauseDefect, "its record lacks an output that the kind declares"
	case lost(same, records):
		n.Reason.Cause = CauseDefect
	case len(records) > 0:
		n.Reason = n.Reason.again(records)
	case len(same) > 0:
		n.Reason = n.Reason.again(same)
	case before != nil:
		n.Reason.Cause = CauseChanged
		n.Reason.Changes, n.Reason.Text = diff(before, manifest)
	case m.sameChange(&n):
	default:
		near, changes := m.past.Nearest(a.Kind.Name, manifest, true)
		switch before = near; {
		case near == nil:
			n.Verdict, n.Reason.Cause = New, CauseNew
		case len(changes) == 0: // The same key under another address.
			n.Reason.Cause, n.Reason.Was = CauseDefect, near.Node
		default:
			n.Reason.Cause, n.Reason.Changes, n.Reason.Was = CauseChanged, changes, near.Node
		}
	}
	n.Record = nil
	if last := newest(append(sameKey(history, n.Key), records...)); last != nil && n.Reason.Cause == CauseRetry && slices.Contains(m.givenUp, a.Addr) {
		n.Verdict, n.Record = Blocked, last
		return n
	}
	if _, ok := m.changed[n.Key]; !ok && n.Reason.Cause == CauseChanged {
		m.changed[n.Key] = a.ID
	}
	n.Past = m.estimate(a, history, before)
	return n
}

// sameChange gives a node without a history of its own the reason of an earlier
// node with the same key: it was a hit of that node's record, and what changed
// for the one changed for the other.
func (m *maker) sameChange(n *Node) bool {
	first, ok := m.changed[n.Key]
	if ok {
		n.Reason.Cause, n.Reason.Changes, n.Reason.Text = CauseChanged, m.plan.Nodes[first].Reason.Changes, m.plan.Nodes[first].Reason.Text
		n.Reason.Was = m.g.Actions[first].Addr
	}
	return ok
}

// again is the reason of a node whose last run with this very key is no
// result.
func (why Reason) again(records []*cache.Record) Reason {
	last := records[len(records)-1].Outcome
	why.Cause, why.Text = CauseRetry, last.Text()
	if last.State == cache.Rejected {
		_, why.Text = samples.Rule{}.Judge(records, time.Time{})
		why.Cause = CauseRejected
	}
	return why
}

// undecided is a node that waits for an input, so its key is not known: whether
// it runs is decided later, also where nothing like it was ever run (DESIGN 6,
// 11.2). Only a replacement is decided already.
func (m *maker) undecided(a *compile.Action, manifest key.Manifest) Node {
	n := Node{Verdict: Later, Reason: Reason{Cause: CauseInput, Root: m.waitsFor(a)}}
	history := m.r.History(a.Addr)
	before := newest(history)
	if before == nil {
		before, _ = m.past.Nearest(a.Kind.Name, manifest, false)
	}
	if m.replace[a.ID] {
		n.Verdict, n.Reason = Stale, Reason{Cause: CauseReplace, Root: a.ID}
		if before == nil {
			n.Verdict = New
		}
	}
	n.Past = m.estimate(a, history, before)
	return n
}

// waitsFor is the root of the first undecided input.
func (m *maker) waitsFor(a *compile.Action) graph.NodeID {
	for i, from := range a.Data {
		if _, ok := m.digest(from, a.Inputs[i].Output); !ok {
			return m.plan.Nodes[from].Reason.Root
		}
	}
	panic("plan: " + a.Addr + " waits for nothing")
}

// digest is an output that is in the store.
func (m *maker) digest(from graph.NodeID, output string) (key.Digest, bool) {
	n := &m.plan.Nodes[from]
	if n.Verdict != Cached || m.failed(from) {
		return key.Digest{}, false
	}
	d := n.Record.Output(output)
	return d, !d.IsZero()
}

// failed reports whether a node's result is a failure without outputs.
func (m *maker) failed(id graph.NodeID) bool {
	n := &m.plan.Nodes[id]
	return n.Verdict == Cached && n.Record.Outcome.State == cache.Failed && !m.g.Actions[id].Kind.KeepsFailures
}

// blocker finds what keeps a node from ever running, among all that it needs:
// a skipped node, a lasting failure that left no output, or what blocks one of
// its own.
func (m *maker) blocker(id graph.NodeID) (graph.NodeID, bool) {
	for _, from := range m.g.Needs(id) {
		switch n := &m.plan.Nodes[from]; {
		case n.Verdict == Skipped || n.Verdict == Blocked || m.failed(from):
			return n.Reason.Root, true
		}
	}
	return 0, false
}
