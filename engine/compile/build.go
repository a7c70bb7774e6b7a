package compile

import (
	"fmt"
	"strings"

	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
)

// Build checks the declarations and makes the graph. All problems are reported at
// once, in declared order within each check; with any there is no graph. The
// graph keeps the declarations' slices: the caller gives them away.
//
// A spec whose type cannot be keyed panics (key.Builder.Struct).
func Build(decls []Decl, env Env) (*Graph, []Problem) {
	b := &builder{decls: decls, env: env, byAddr: make(map[string]graph.NodeID, len(decls))}
	b.environment()
	b.addresses()
	b.kinds()
	own := b.manifests()
	edges := b.edges()
	order, cycle := graph.Sort(len(decls), edges)
	if cycle != nil {
		b.problem(decls[cycle[0]].Addr, "is part of a cycle: %s", b.needs(cycle, func(d *Decl) string { return d.Addr }))
	}
	b.batches(edges, cycle != nil)
	if len(b.problems) > 0 {
		return nil, b.problems
	}
	return b.finish(order, edges, own), nil
}

// builder holds what the checks share. Until finish ids are positions in
// decls.
type builder struct {
	decls    []Decl
	env      Env
	byAddr   map[string]graph.NodeID
	problems []Problem
	hints    int
}

func (b *builder) problem(addr, format string, args ...any) {
	b.problems = append(b.problems, Problem{addr, fmt.Sprintf(format, args...)})
}

// needs writes a cycle as people read it, each node needing the next, which is
// against the edges. The middle of a very long one is left out.
func (b *builder) needs(cycle []graph.NodeID, name func(*Decl) string) string {
	const shown = 20
	var s strings.Builder
	s.WriteString(name(&b.decls[cycle[0]]))
	for i := range cycle {
		if len(cycle) > 2*shown && i == shown {
			fmt.Fprintf(&s, " needs … (%d more)", len(cycle)-2*shown)
		}
		if i < shown || i >= len(cycle)-shown {
			s.WriteString(" needs " + name(&b.decls[cycle[len(cycle)-1-i]]))
		}
	}
	return s.String()
}

// edges resolves every input and order address that exists and reports the
// others.
func (b *builder) edges() []graph.Edge {
	var edges []graph.Edge
	for i := range b.decls {
		d := &b.decls[i]
		var seen map[Input]bool
		if len(d.Inputs) > 1 {
			seen = make(map[Input]bool, len(d.Inputs))
		}
		for _, in := range d.Inputs {
			if in.Name == "" {
				b.problem(d.Addr, "its input from %s has no name", in.From)
			}
			if seen[in] {
				b.problem(d.Addr, "takes output %q of %s as input %q twice", in.Output, in.From, in.Name)
			}
			if seen != nil {
				seen[in] = true
			}
			from, ok := b.resolve(d.Addr, "input "+in.Name, in.From)
			if !ok {
				continue
			}
			b.output(d.Addr, in, b.decls[from].Kind)
			edges = append(edges, graph.Edge{From: from, To: graph.NodeID(i)})
		}
		for _, addr := range d.Order {
			if from, ok := b.resolve(d.Addr, "order", addr); ok {
				edges = append(edges, graph.Edge{From: from, To: graph.NodeID(i)})
			}
		}
	}
	return edges
}

func (b *builder) resolve(addr, what, from string) (graph.NodeID, bool) {
	id, ok := b.byAddr[from]
	if !ok {
		b.problem(addr, "its %s names %s, which does not exist%s", what, from, b.suggest(from))
	}
	return id, ok
}

// suggest is a "did you mean", for the first problems only: each one reads all
// addresses, and nobody reads a thousand of them.
func (b *builder) suggest(name string) string {
	const most = 20
	if b.hints++; b.hints > most {
		return ""
	}
	var addrs []string
	for i := range b.decls {
		addrs = append(addrs, b.decls[i].Addr)
	}
	return didYouMean(name, addrs)
}

// manifests computes the facts of each action that do not depend on inputs.
func (b *builder) manifests() []key.Manifest {
	own := make([]key.Manifest, len(b.decls))
	var env key.Builder
	env.Add(b.env.Binding...)
	binding := env.Finish()
	told := map[*Kind]bool{}
	var all key.Builder
	for i := range b.decls {
		d := &b.decls[i]
		if d.Kind == nil {
			continue
		}
		all.Reset()
		if d.Spec != nil {
			all.Struct(d.Spec)
		}
		if name := b.clash(d.Kind, all.Facts()); name != "" && !told[d.Kind] {
			told[d.Kind] = true
			b.problem(d.Addr, "its spec has a fact called %q, which the engine adds by itself; give the field another key tag", name)
		}
		all.Int("kind", d.Kind.Name, int64(d.Kind.Version))
		if d.Kind.Purity != Pure {
			all.Include(binding)
		}
		own[i] = all.Finish()
	}
	return own
}

// clash finds a spec's fact that could be taken for one of the engine's own,
// so that two different manifests might be one.
func (b *builder) clash(k *Kind, spec []key.Fact) string {
	for i := range spec {
		f := &spec[i]
		if reserved(f.Name) {
			return f.Name
		}
		if k.Purity == Pure {
			continue
		}
		for _, e := range b.env.Binding {
			if e.Name == f.Name && e.Label == f.Label {
				return f.Name
			}
		}
	}
	return ""
}

// finish renumbers everything from declared to topological order.
func (b *builder) finish(order []graph.NodeID, edges []graph.Edge, own []key.Manifest) *Graph {
	id := make([]graph.NodeID, len(order))
	for i, declared := range order {
		id[declared] = graph.NodeID(i)
	}
	g := (&Graph{Actions: make([]Action, len(order)), Env: b.env}).lazily()
	// Without problems there is an edge for every input and every order, in
	// declared order: its ends need no second look-up by name.
	from := make([]graph.NodeID, len(edges))
	for i, e := range edges {
		from[i] = id[e.From]
	}
	for declared := range b.decls {
		d := &b.decls[declared]
		a := &g.Actions[id[declared]]
		a.Decl, a.ID, a.own = *d, id[declared], own[declared]
		if d.Kind.Accept != nil {
			rule := d.Kind.Accept(d.Spec)
			a.Accept = &rule
		}
		n, all := len(d.Inputs), len(d.Inputs)+len(d.Order)
		if n > 0 {
			a.Data = from[:n:n]
		}
		if all > n {
			a.Orders = from[n:all:all]
		}
		from = from[all:]
	}
	return g
}
