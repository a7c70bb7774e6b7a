package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
)

// Line is one line of a plan for people. A writer may colour it by its mark.
type Line struct {
	Mark Verdict
	Addr string
	Text string
}

// String is the line without colours.
func (l Line) String() string { return fmt.Sprintf("%c %s  %s", l.Mark, l.Addr, l.Text) }

// newListed is how many new nodes of one kind are named before the rest is
// counted: who adds a scenario wants to see its cells, not ten thousand.
const newListed = 20

// Lines are the plan folded for people: what is to run first, then what is
// blocked, then what is skipped, each in graph order. One root cause is one
// line: roots with the same changed facts, or of one kind with any other same
// reason, are "+N alike", and what follows from all of them "+N downstream". What is cached, later or outside the
// targets has no line.
func (p *Plan) Lines(g *compile.Graph) []Line {
	f := folder{plan: p, g: g, at: map[string]int{}}
	listed := map[string]int{}
	for _, r := range p.Roots {
		n, kind := &p.Nodes[r.Node], g.Actions[r.Node].Kind.Name
		id := p.why(g, r.Node, false)
		if n.Reason.Cause != CauseChanged {
			id = kind + " " + id // A changed fact is one cause, whatever it changes.
		}
		if n.Reason.Cause == CauseNew {
			if listed[kind]++; listed[kind] <= newListed {
				id = g.Actions[r.Node].Addr
			}
		}
		f.fold(r.Node, id, r.Downstream)
	}
	for _, v := range []Verdict{Blocked, Sealed, Skipped} {
		for i := range p.Nodes {
			if n := &p.Nodes[i]; n.Verdict == v && n.Reason.Cause != CauseTarget {
				f.fold(graph.NodeID(i), p.why(g, graph.NodeID(i), false), 0)
			}
		}
	}
	return f.lines()
}

// All is a line for every node, in graph order.
func (p *Plan) All(g *compile.Graph) []Line {
	lines := make([]Line, 0, len(p.Nodes))
	for i := range p.Nodes {
		id := graph.NodeID(i)
		lines = append(lines, Line{p.Nodes[i].Verdict, g.Actions[i].Addr, p.Why(g, id)})
	}
	return lines
}

// folder collects nodes that share a line.
type folder struct {
	plan *Plan
	g    *compile.Graph
	at   map[string]int
	rows []row
}

type row struct {
	first             graph.NodeID
	alike, downstream int
}

func (f *folder) fold(id graph.NodeID, same string, downstream int) {
	same = string(rune(f.plan.Nodes[id].Verdict)) + same
	i, ok := f.at[same]
	if !ok {
		f.at[same] = len(f.rows)
		f.rows = append(f.rows, row{first: id, downstream: downstream})
		return
	}
	f.rows[i].alike++
	f.rows[i].downstream += downstream
}

func (f *folder) lines() []Line {
	var out []Line
	for _, r := range f.rows {
		l := Line{f.plan.Nodes[r.first].Verdict, f.g.Actions[r.first].Addr, f.plan.Why(f.g, r.first)}
		if r.alike > 0 {
			l.Text += fmt.Sprintf("  +%d alike", r.alike)
		}
		if r.downstream > 0 {
			l.Text += fmt.Sprintf("  +%d downstream", r.downstream)
		}
		out = append(out, l)
	}
	return out
}

// Text is the whole plan for people: its lines, the totals and the estimate.
func (p *Plan) Text(g *compile.Graph) string {
	var b strings.Builder
	for _, l := range p.Lines(g) {
		b.WriteString(l.String() + "\n")
	}
	b.WriteString(p.Totals() + "\n")
	if e := p.Estimate.String(); e != "" {
		b.WriteString(e + "\n")
	}
	return b.String()
}

// Totals is the line "Plan: 3 new, 2 stale, 40 cached; in rounds 6 new.".
func (p *Plan) Totals() string { return "Plan: " + p.Sum() + "." }

// Sum is the totals as a phrase. A node that has failed in this apply is counted
// apart from those that it blocks.
func (p *Plan) Sum() string {
	outside, kept, failed := 0, 0, 0
	for i := range p.Nodes {
		switch n := &p.Nodes[i]; {
		case n.Reason.Cause == CauseTarget:
			outside++
		case n.Verdict == Blocked && n.Reason.Cause == CauseRetry:
			failed++
		case n.Verdict == Cached && n.Record.Outcome.State == cache.Failed:
			kept++
		}
	}
	c := p.Counts
	cached := count(c.Cached, "cached")
	if kept > 0 {
		cached += fmt.Sprintf(" (%d of them failed for good)", kept)
	}
	run, beside := c.ToRun(), p.Rounds.ToRun()
	rest := list(count(failed, "failed"), count(c.Blocked-failed, "blocked"), count(c.Sealed, "sealed"), cached,
		count(c.Skipped-outside, "skipped"), count(outside, "outside the targets"))
	if run == "" && beside == "" {
		run = "nothing to run"
	}
	if beside != "" {
		beside = "; in rounds " + beside
	}
	return list(run, rest) + beside
}

// ToRun is what may run as a phrase; "" if nothing may.
func (c Counts) ToRun() string {
	return list(count(c.New, "new"), count(c.Stale, "stale"), count(c.Later, "later"))
}

func count(n int, word string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, word)
}

func list(parts ...string) string {
	var some []string
	for _, p := range parts {
		if p != "" {
			some = append(some, p)
		}
	}
	return strings.Join(some, ", ")
}

// String is one line; "" when nothing may run.
func (e Estimate) String() string {
	switch {
	case e.Known+e.Unknown == 0:
		return ""
	case e.Known == 0:
		return "Estimate: none, as nothing like it was run before."
	}
	s := "Estimate: up to " + cache.Span{Seconds: e.Seconds}.String() + " of work"
	if e.Seconds < 1 {
		s = "Estimate: less than 1 s of work"
	}
	if e.GPUSeconds > 0 {
		s += fmt.Sprintf(", %.2f GPU-hours", e.GPUSeconds/3600)
	}
	s += fmt.Sprintf(", by the last runs of %d", e.Known)
	if e.Unknown > 0 {
		s += fmt.Sprintf("; %d unknown", e.Unknown)
	}
	return s + "."
}

// Why is a node's reason as a phrase, without its address: "flag threads 1 → 2".
func (p *Plan) Why(g *compile.Graph, id graph.NodeID) string { return p.why(g, id, true) }

func (p *Plan) why(g *compile.Graph, id graph.NodeID, was bool) string {
	n := &p.Nodes[id]
	text := p.cause(g, id)
	if was && n.Reason.Was != "" {
		text += "  (was " + n.Reason.Was + ")"
	}
	return text
}

func (p *Plan) cause(g *compile.Graph, id graph.NodeID) string {
	n, kind := &p.Nodes[id], g.Actions[id].Kind
	why := n.Reason
	switch why.Cause {
	case CauseNone:
		return resultText(n.Record)
	case CauseNew:
		return "never run"
	case CauseChanged:
		if why.Text != "" {
			return why.Text
		}
		return p.changesText(g, id, kind.Words)
	case CauseInput:
		return "waits for " + g.Actions[why.Root].Addr
	case CauseRetry:
		if n.Verdict == Blocked { // The apply that has just tried it has said why.
			return "failed in this apply: " + n.Record.Outcome.Class
		}
		return "failed the last time: " + why.Text
	case CauseReplace:
		return "is to be replaced"
	case CauseDefect:
		if why.Text != "" {
			return why.Text
		}
		return "its stored output is missing or broken"
	case CauseUpstream:
		root := &p.Nodes[why.Root]
		if root.Verdict == Skipped {
			return fmt.Sprintf("needs %s, which is skipped: %s", g.Actions[why.Root].Addr, p.cause(g, why.Root))
		}
		if root.Verdict == Blocked { // It has a line of its own, which says why.
			return fmt.Sprintf("needs %s, which failed", g.Actions[why.Root].Addr)
		}
		return fmt.Sprintf("needs %s, which failed: %s", g.Actions[why.Root].Addr, root.Record.Outcome.Text())
	case CauseTarget:
		return "outside the targets"
	case CauseRejected, CauseSkip:
		return why.Text
	}
	panic("plan: unknown cause " + string(why.Cause))
}

// changesText names the first differing facts, by the kind's words for those
// whose values say nothing.
func (p *Plan) changesText(g *compile.Graph, id graph.NodeID, words map[string]string) string {
	const most = 3
	changes := p.Nodes[id].Reason.Changes
	var parts []string
	for i, c := range changes {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(changes)-most))
			break
		}
		text, ok := words[c.Name]
		if !ok {
			text = p.change(g, id, c)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func resultText(r *cache.Record) string {
	text := fmt.Sprintf("has a result of %s from %s, after %s", r.Time.Started.UTC().Format(time.RFC3339), host(r), r.Time)
	if r.Outcome.State == cache.Failed {
		text = "failed for good: " + r.Outcome.Text() + "; it " + text
	}
	return text
}

func host(r *cache.Record) string {
	if r.Origin.Host == "" {
		return "an unnamed host"
	}
	return r.Origin.Host
}
