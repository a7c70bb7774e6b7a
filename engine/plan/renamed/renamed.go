// Package renamed finds what a node without a history was before: the record of
// its kind that differs from it in the fewest facts, and whose address nothing
// has any more. A plan then says "flag threads 1 → 2" of a candidate that is
// named after its flags, and knows how long it will take.
//
// It knows no verdicts. What it costs is bounded for a whole plan.
package renamed

import (
	"cmp"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
)

// withoutInputs is the part of a manifest that is known before any input is.
func withoutInputs(m key.Manifest) key.Manifest {
	var b key.Builder
	for _, f := range m.Facts() {
		if f.Name != compile.InputFact {
			b.Add(f)
		}
	}
	return b.Finish()
}

// The bounds of looking for a record that a new address may come from. They
// keep a plan of a new, large graph over a large, old store linear: beyond
// them a node is simply new.
const (
	nearFacts       = 3       // differing facts up to which a record is the same thing changed
	nearRecords     = 300     // newest records of a kind that are looked at
	nearComparisons = 500_000 // in one plan
)

// Finder finds, for a node without a history, the record that it was before its
// address changed. Only records whose own address has left the graph can be
// that.
type Finder struct {
	g    *compile.Graph
	r    Records
	kind map[string][]candidate
	left int
}

// Records is the part of a store that is looked at.
type Records interface {
	// Kind returns the newest record of each key of a kind, oldest first.
	Kind(kind string) []*cache.Record
}

type candidate struct {
	record *cache.Record
	// whole is the manifest, own the part without inputs.
	whole, own key.Manifest
}

// New makes a finder for one plan of a graph over a store.
func New(g *compile.Graph, r Records) *Finder {
	return &Finder{g: g, r: r, kind: map[string][]candidate{}, left: nearComparisons}
}

// Nearest is the record of the kind with the fewest differing facts, the
// newest among equals, and those facts. While the manifest is not whole, inputs
// are left out of the comparison on both sides. nil if nothing is near.
func (f *Finder) Nearest(kind string, m key.Manifest, whole bool) (*cache.Record, []key.Change) {
	candidates := f.candidates(kind)
	if len(candidates) > 0 && !whole {
		m = withoutInputs(m)
	}
	var best *cache.Record
	var changes []key.Change
	for _, other := range candidates {
		if f.left--; f.left < 0 {
			break
		}
		old := other.whole
		if !whole {
			old = other.own
		}
		// A changed fact stands on both sides, so it is two of these.
		if !within(old.Facts(), m.Facts(), 2*nearFacts) {
			continue
		}
		if d := key.Diff(old, m); len(d) <= nearFacts && (best == nil || len(d) < len(changes)) {
			best, changes = other.record, d
		}
	}
	return best, changes
}

// candidates are the records of a kind that have no node any more, the newest
// first. Those of another scheme cannot be compared and are left out.
func (f *Finder) candidates(kind string) []candidate {
	if found, ok := f.kind[kind]; ok {
		return found
	}
	var found []candidate
	records := f.r.Kind(kind)
	for i := len(records) - 1; i >= 0 && len(found) < nearRecords; i-- {
		if _, ok := f.g.Lookup(records[i].Node); ok {
			continue
		}
		if m, err := key.ParseManifest(records[i].Manifest); err == nil {
			found = append(found, candidate{records[i], m, withoutInputs(m)})
		}
	}
	f.kind[kind] = found
	return found
}

// within reports whether at most so many facts stand on one side only. It
// ends as soon as there are more, which for most pairs is at once.
func within(a, b []key.Fact, most int) bool {
	for len(a) > 0 && len(b) > 0 && most >= 0 {
		switch order := compareFacts(a[0], b[0]); {
		case order == 0:
			a, b = a[1:], b[1:]
		case order < 0:
			a, most = a[1:], most-1
		default:
			b, most = b[1:], most-1
		}
	}
	return len(a)+len(b) <= most
}

func compareFacts(x, y key.Fact) int {
	return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Label, y.Label),
		cmp.Compare(x.Type, y.Type), cmp.Compare(x.Value, y.Value))
}
