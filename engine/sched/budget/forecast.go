package budget

import (
	"cmp"
	"slices"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/plan"
)

// Turn is the turn of nodes that start together: the lowest of theirs.
func Turn(g *compile.Graph, nodes []graph.NodeID) int {
	turn := g.Actions[nodes[0]].Turn
	for _, id := range nodes {
		turn = min(turn, g.Actions[id].Turn)
	}
	return turn
}

// Start is one task of a forecast: the nodes that share it, in order.
type Start struct {
	Nodes   []string `json:"nodes"`
	Seconds float64  `json:"seconds"` // 0: nothing is known of any of them
	GPUs    int      `json:"gpus"`
	// Left are the nodes that do not fit into the budget, the last of Nodes, and
	// Why is what they lack.
	Left int    `json:"left"`
	Why  string `json:"why,omitempty"`
}

// Forecast is the order in which a run of a plan under its budget would start
// tasks, and what it would leave to the next run, if all takes what it took the
// last time and one task runs at a time. What runs inside the engine's process
// comes when it may and has no line.
func Forecast(g *compile.Graph, p *plan.Plan, records func(kind string) []*cache.Record, now time.Time) []Start {
	s := Spending{Budget: p.Budget, Past: records}
	var out []Start
	for _, nodes := range tasks(g, p) {
		first := &g.Actions[nodes[0]]
		start := Start{GPUs: len(first.Resources.GPUs)}
		var past []plan.Past
		for _, id := range nodes {
			start.Nodes = append(start.Nodes, g.Actions[id].Addr)
			past = append(past, p.Nodes[id].Past)
		}
		n := len(nodes)
		if !p.Budget.Empty() {
			n, start.Why = s.Fit(first.Kind.Name, past, start.GPUs, now)
		}
		start.Left = len(nodes) - n
		start.Seconds = s.Cost(first.Kind.Name, past, start.GPUs).Seconds
		c := s.Cost(first.Kind.Name, past[:n], start.GPUs)
		took := time.Duration(c.Seconds * float64(time.Second))
		s.Begin(c)
		s.End(c, took)
		now = now.Add(took)
		out = append(out, start)
	}
	return out
}

// tasks groups the nodes that may run in tasks as the scheduler does, in the
// order in which a budget lets them start.
func tasks(g *compile.Graph, p *plan.Plan) [][]graph.NodeID {
	var out [][]graph.NodeID
	batch := map[string]int{}
	for i := range g.Actions {
		a, v := &g.Actions[i], p.Nodes[i].Verdict
		if a.Kind.Task == nil || v != plan.New && v != plan.Stale && v != plan.Later {
			continue
		}
		at, ok := batch[a.Batch]
		if !ok || a.Batch == "" {
			at = len(out)
			batch[a.Batch] = at
			out = append(out, nil)
		}
		out[at] = append(out[at], a.ID)
	}
	slices.SortStableFunc(out, func(x, y []graph.NodeID) int { return cmp.Compare(Turn(g, x), Turn(g, y)) })
	return out
}
