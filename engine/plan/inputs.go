package plan

import (
	"slices"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
)

// byInput are the nodes of which an input is what changed.
func (p *Plan) byInput() (ids []graph.NodeID) {
	for i := range p.Nodes {
		if slices.ContainsFunc(p.Nodes[i].Reason.Changes, func(c key.Change) bool { return c.Name == compile.InputFact }) {
			ids = append(ids, graph.NodeID(i))
		}
	}
	return ids
}

// change is a changed fact for people. An input is named by the node that made
// it, where that is known: by the graph for what it is, by the records for what
// it was.
func (p *Plan) change(g *compile.Graph, id graph.NodeID, c key.Change) string {
	if c.Name != compile.InputFact {
		return c.String()
	}
	was, is := "(none)", "(none)"
	if c.Old != nil {
		was = p.made.Of(c.Old)
	}
	if c.New != nil {
		is = p.source(g, id, c)
	}
	switch {
	case is == "" || was == "" && c.New == nil:
		return c.String()
	case was == "" || was == is: // A sample that a newer one of its key covers has no name.
		return c.Name + " " + c.Label + " another result, of " + is
	}
	return c.Name + " " + c.Label + " " + was + " → " + is
}

// source is the node that gives an input now; "" where there is none.
func (p *Plan) source(g *compile.Graph, id graph.NodeID, c key.Change) string {
	a, m := &g.Actions[id], maker{g: g, plan: p}
	for i, in := range a.Inputs {
		if d, ok := m.digest(a.Data[i], in.Output); ok && in.Name == c.Label && d.String() == c.New.Value {
			return g.Actions[a.Data[i]].Addr
		}
	}
	return ""
}
