package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
)

// Explanation is all that is known of one node.
type Explanation struct {
	Addr    string
	Kind    string // name and version
	Verdict Verdict
	Why     string
	Changes []key.Change // all of them, not only the first
	Changed []string     // the same for people
	Key     key.Key      // zero when it is not known
	// Manifest holds the known facts; while the key is not known the inputs
	// that are missing from it stand in Waits.
	Manifest key.Manifest
	Waits    []string // the needed nodes that have no result yet, with their verdicts
	// History are the records of this address and those of this key under
	// other addresses, oldest first.
	History []*cache.Record
}

// Explain says of one node what it is keyed by, what became of it so far, and
// why it would run or not. The plan must be of this graph; the reader may be
// newer than the plan.
func Explain(g *compile.Graph, p *Plan, r cache.Reader, id graph.NodeID) Explanation {
	a, n := &g.Actions[id], &p.Nodes[id]
	e := Explanation{
		Addr: a.Addr, Kind: fmt.Sprintf("%s %d", a.Kind.Name, a.Kind.Version),
		Verdict: n.Verdict, Why: p.Why(g, id), Changes: n.Reason.Changes, Key: n.Key,
	}
	for _, c := range e.Changes {
		e.Changed = append(e.Changed, p.change(g, id, c))
	}
	m := maker{g: g, plan: p}
	e.Manifest, _ = Manifest(g, p, id)
	for _, from := range g.Needs(id) {
		if v := p.Nodes[from].Verdict; v != Cached || m.failed(from) {
			e.Waits = append(e.Waits, fmt.Sprintf("%c %s  %s", v, g.Actions[from].Addr, p.Why(g, from)))
		}
	}
	e.History = slices.Clone(r.History(a.Addr))
	if !n.Key.IsZero() {
		for _, other := range r.Lookup(n.Key) {
			if other.Node != a.Addr {
				e.History = append(e.History, other)
			}
		}
	}
	slices.SortStableFunc(e.History, func(x, y *cache.Record) int { return cmp.Compare(x.Serial, y.Serial) })
	return e
}

// Manifest is what a node of a plan is keyed by. While an input is not known the
// second result is false and the manifest holds the known facts only.
func Manifest(g *compile.Graph, p *Plan, id graph.NodeID) (key.Manifest, bool) {
	m := maker{g: g, plan: p}
	return g.Manifest(id, m.digest)
}

// Text is the explanation for people.
func (e Explanation) Text() string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-9s %s\n", name, value) }
	line("node", e.Addr)
	line("kind", e.Kind)
	line("verdict", fmt.Sprintf("%c %s: %s", e.Verdict, e.Verdict.Word(), e.Why))
	if e.Key.IsZero() {
		line("key", "not known yet")
	} else {
		line("key", e.Key.String())
	}
	section := func(name string, lines []string) {
		if len(lines) > 0 {
			b.WriteString(name + "\n  " + strings.Join(lines, "\n  ") + "\n")
		}
	}
	var history []string
	for _, r := range e.History {
		history = append(history, e.record(r))
	}
	section("changes", e.Changed)
	section("waits for", e.Waits)
	section("manifest", strings.Split(strings.TrimSuffix(e.Manifest.Text(), "\n"), "\n"))
	section("history", history)
	return b.String()
}

func (e Explanation) record(r *cache.Record) string {
	text := fmt.Sprintf("%d  %s  %s  %s on %s in %s", r.Serial, r.Time.Started.UTC().Format(time.RFC3339),
		r.Key.Short(), r.Outcome.State, host(r), r.Time)
	if r.Outcome.State != cache.OK {
		text += "  " + r.Outcome.Text()
	}
	if r.Outcome.State == cache.Failed && r.Outcome.Keep {
		text += "  (kept)"
	}
	if r.Key == e.Key {
		text += "  (this key)"
	}
	if r.Node != e.Addr {
		text += "  as " + r.Node
	}
	return text
}
