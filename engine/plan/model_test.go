package plan

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
)

// model is a random graph that is edited. A node's number is in its spec, so
// that no two nodes share a key.
type model struct {
	rand  *rand.Rand
	nodes []compile.Decl
	env   string
}

type modelSpec struct {
	Number int `key:"number"`
	Value  int `key:"value"`
}

func newModel(r *rand.Rand) *model {
	m := &model{rand: r, env: "580"}
	kinds := []*compile.Kind{check, report, bench}
	for i := range 2 + r.IntN(14) {
		d := compile.Decl{Addr: fmt.Sprintf("n[%d]", i), Kind: kinds[r.IntN(3)], Spec: modelSpec{Number: i}}
		for j, from := range m.nodes {
			switch r.IntN(6) {
			case 0, 1:
				d.Inputs = append(d.Inputs, compile.Input{Name: "x", From: from.Addr, Output: from.Kind.Outputs[0]})
			case 2:
				d.Order = append(d.Order, m.nodes[j].Addr)
			}
		}
		m.nodes = append(m.nodes, d)
	}
	return m
}

// edit changes one thing in the graph or in the world.
func (m *model) edit(w *world) {
	r := m.rand
	i := r.IntN(len(m.nodes))
	d := &m.nodes[i]
	switch r.IntN(8) {
	case 0, 1:
		d.Spec = modelSpec{Number: i, Value: r.IntN(3)}
	case 2:
		m.rename(i, fmt.Sprintf("n[%d][%d]", i, r.IntN(1000)))
	case 3:
		w.output[d.Addr] = fmt.Sprint(i, []string{" this", " that"}[r.IntN(2)]) // No object is shared.
	case 4:
		w.outcome[d.Addr] = []cache.Outcome{
			{State: cache.Failed, Class: "timeout"}, {State: cache.Failed, Class: "oom", Keep: true}, {State: cache.Rejected, Class: "throttled"},
		}[r.IntN(3)]
	case 5:
		clear(w.outcome)
	case 6:
		m.env = []string{"580", "590"}[r.IntN(2)]
	case 7:
		if h := w.History(d.Addr); len(h) > 0 && len(h[0].Outputs) > 0 {
			w.gone[h[0].Outputs[0].Digest] = true
		}
	}
}

func (m *model) rename(i int, addr string) {
	old := m.nodes[i].Addr
	m.nodes[i].Addr = addr
	for j := range m.nodes {
		for k := range m.nodes[j].Inputs {
			if m.nodes[j].Inputs[k].From == old {
				m.nodes[j].Inputs[k].From = addr
			}
		}
		for k, from := range m.nodes[j].Order {
			if from == old {
				m.nodes[j].Order[k] = addr
			}
		}
	}
}

func (m *model) graph(t *testing.T, shuffled bool) *compile.Graph {
	var decls []compile.Decl
	for _, d := range m.nodes {
		d.Inputs, d.Order = slices.Clone(d.Inputs), slices.Clone(d.Order)
		decls = append(decls, d)
	}
	if shuffled {
		m.rand.Shuffle(len(decls), func(i, j int) { decls[i], decls[j] = decls[j], decls[i] })
	}
	return mustBuild(t, decls, compile.Env{Binding: []key.Fact{{Name: "env.driver", Type: key.Text, Value: m.env}}})
}

// What plan says is what an apply that knows no plan then does, and the order
// of declarations changes nothing.
func TestPlanAgreesWithApply(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(2 * soak(75)) {
		m, w := newModel(rand.New(rand.NewPCG(seed, 7))), newWorld()
		for step := range 12 {
			g := m.graph(t, false)
			p := mustMake(t, g, w, Options{})
			other := m.graph(t, true)
			q := mustMake(t, other, w, Options{})
			if diff := cmp.Diff(byAddr(g, p), byAddr(other, q)); diff != "" {
				t.Fatalf("seed %d step %d: (-declared +shuffled):\n%s", seed, step, diff)
			}
			agrees(t, g, p, w, seen)
			if t.Failed() {
				t.Fatalf("seed %d step %d:\n%s", seed, step, p.Text(g))
			}
			settled(t, g, mustMake(t, g, w, Options{}))
			m.edit(w)
		}
	}
	for _, what := range []string{"new ran", "stale ran", "cached", "later ran", "later cut off", "blocked", "defect"} {
		if seen[what] < 10 {
			t.Errorf("%q was met %d times: the test no longer tests it", what, seen[what])
		}
	}
}

// agrees applies and compares node by node.
func agrees(t *testing.T, g *compile.Graph, p *Plan, w *world, seen map[string]int) {
	results, ran := w.apply(g)
	for i := range p.Nodes {
		n, addr, r := &p.Nodes[i], g.Actions[i].Addr, results[i]
		did := slices.Contains(ran, addr)
		what := n.Verdict.Word()
		if n.Reason.Cause == CauseDefect {
			seen["defect"]++
		}
		switch {
		case n.Verdict == Cached && (did || r != n.Record):
			t.Errorf("%s is cached, but ran: %v, or has another record", addr, did)
		case n.Verdict == Blocked && r != nil:
			t.Errorf("%s is blocked, but has a record", addr)
		case (n.Verdict == New || n.Verdict == Stale) && !did && r != nil:
			t.Errorf("%s is %s, but was found by key", addr, what)
		case !n.Key.IsZero() && r != nil && r.Key != n.Key:
			t.Errorf("%s ran under another key", addr)
		case n.Verdict == Later && r != nil && !did:
			what += " cut off"
		case did:
			what += " ran"
		}
		seen[what]++
	}
}

// settled says that after an apply only what is no result yet runs again, and
// what had to wait for it.
func settled(t *testing.T, g *compile.Graph, p *Plan) {
	for _, r := range p.Roots {
		waits := slices.ContainsFunc(g.Needs(r.Node), func(id graph.NodeID) bool { return p.Nodes[id].Verdict != Cached })
		if why := p.Nodes[r.Node].Reason; why.Cause != CauseRetry && why.Cause != CauseRejected && !waits {
			t.Errorf("%s would run again after an apply: %s", g.Actions[r.Node].Addr, p.Why(g, r.Node))
		}
	}
}

func byAddr(g *compile.Graph, p *Plan) map[string]string {
	out := map[string]string{}
	for i, n := range p.Nodes {
		out[g.Actions[i].Addr] = fmt.Sprintf("%c %s %s %s", n.Verdict, n.Key, n.Reason.Cause, p.Why(g, graph.NodeID(i)))
	}
	return out
}

const large = 100_000

func chain(value int) []compile.Decl {
	decls := make([]compile.Decl, large)
	for i := range decls {
		decls[i] = compile.Decl{Addr: fmt.Sprintf("n[%d]", i), Kind: report, Spec: modelSpec{Number: i}}
		if i > 0 {
			decls[i].Inputs = []compile.Input{{Name: "x", From: decls[i-1].Addr, Output: "page"}}
		}
	}
	decls[0].Spec = modelSpec{Value: value}
	return decls
}

func fan(value int) []compile.Decl {
	decls := chain(value)
	for i := range decls[:large-1] {
		decls[i].Inputs = nil
		if i > 0 {
			decls[large-1].Inputs = append(decls[large-1].Inputs, compile.Input{Name: "x", From: decls[i-1].Addr, Output: "page"})
		}
	}
	return decls
}

// Deep and wide graphs are ordinary: nothing recurses and nothing is quadratic
// (either would not end in the time that go test allows).
func TestLargePlans(t *testing.T) {
	for _, shape := range []struct {
		name           string
		decls          func(int) []compile.Decl
		roots, changed Counts
	}{
		{"chain", chain, Counts{New: 1, Later: large - 1}, Counts{Stale: 1, Later: large - 1}},
		{"fan", fan, Counts{New: large - 1, Later: 1}, Counts{Stale: 1, Later: 1, Cached: large - 2}},
	} {
		t.Run(shape.name, func(t *testing.T) {
			w := newWorld()
			g := mustBuild(t, shape.decls(0), compile.Env{})
			if p := mustMake(t, g, w, Options{}); p.Counts != shape.roots {
				t.Errorf("empty store: %+v", p.Counts)
			}
			w.apply(g)
			if p := mustMake(t, g, w, Options{}); p.Counts != (Counts{Cached: large}) {
				t.Errorf("after an apply: %+v", p.Counts)
			}
			changed := mustBuild(t, shape.decls(1), compile.Env{})
			p := mustMake(t, changed, w, Options{})
			if p.Counts != shape.changed || len(p.Roots) != 1 || p.Roots[0].Downstream != shape.changed.Later {
				t.Errorf("after an edit: %+v, roots %v", p.Counts, p.Roots)
			}
		})
	}
}

// A new, large graph over a large store of things that are gone is bounded.
func TestNearestIsBounded(t *testing.T) {
	w := newWorld()
	old := fan(0)[:2000]
	for i := range old {
		old[i].Addr = fmt.Sprintf("old[%d]", i)
	}
	w.apply(mustBuild(t, old, compile.Env{}))
	fresh := fan(0)[:10_000]
	for i := range fresh {
		fresh[i].Spec = modelSpec{Number: 10_000 + i, Value: 1}
	}
	g := mustBuild(t, fresh, compile.Env{})
	p := mustMake(t, g, w, Options{})
	const want = 1667 // 500,000 comparisons with 300 records each
	if p.Counts.Stale != want || p.Counts.New != len(fresh)-want {
		t.Errorf("%+v, want %d found near", p.Counts, want)
	}
	if was := p.Nodes[0].Reason.Was; was != "old[1999]" {
		t.Errorf("the first was compared with %q, want the newest record", was)
	}
}

func BenchmarkCachedChain(b *testing.B) {
	w := newWorld()
	g := mustBuild(b, chain(0), compile.Env{})
	w.apply(g)
	for b.Loop() {
		mustMake(b, g, w, Options{})
	}
}

// soak is how often something random is tried: n, or SOTABUILD_SOAK if more.
func soak(n int) int {
	if v, err := strconv.Atoi(os.Getenv("SOTABUILD_SOAK")); err == nil {
		return max(n, v)
	}
	return n
}
