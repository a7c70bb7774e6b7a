package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
)

// Hit is the record that is a node's result: final, with every output that the
// kind declares now, and accepted by the kind's own judgement. Where there are
// such records and the kind wants more or others, the text says so. records are
// those of the node's key, oldest first.
func Hit(a *compile.Action, records []*cache.Record, now time.Time) (*cache.Record, string) {
	if len(records) == 0 {
		return nil, ""
	}
	if a.Kind.Accept == nil {
		for i := len(records) - 1; i >= 0; i-- {
			if r := records[i]; r.Outcome.Final() && complete(a.Kind, r) {
				return r, ""
			}
		}
		return nil, ""
	}
	var whole []*cache.Record
	for _, r := range records {
		if !r.Outcome.Final() || complete(a.Kind, r) {
			whole = append(whole, r)
		}
	}
	judged := a.Kind.Accept(a.Spec, whole, now)
	if r := judged.Result; r != nil && !(r.Outcome.Final() && complete(a.Kind, r)) {
		panic("plan: kind " + a.Kind.Name + " accepted a record that is no result")
	}
	return judged.Result, judged.Text
}

// complete reports whether a final record has the outputs that its dependants
// may ask for. A failure of a kind that keeps none has none to lack.
func complete(k *compile.Kind, r *cache.Record) bool {
	if r.Outcome.State == cache.Failed && !k.KeepsFailures {
		return true
	}
	for _, name := range k.Outputs {
		if r.Output(name).IsZero() {
			return false
		}
	}
	return true
}

func newest(records []*cache.Record) *cache.Record {
	if len(records) == 0 {
		return nil
	}
	return records[len(records)-1]
}

func sameKey(history []*cache.Record, k key.Key) []*cache.Record {
	var same []*cache.Record
	for _, r := range history {
		if r.Key == k {
			same = append(same, r)
		}
	}
	return same
}

// lost reports whether the newest run was a result that the store no longer
// offers under its key: its output is gone or broken.
func lost(same, offered []*cache.Record) bool {
	last := newest(same)
	return last != nil && last.Outcome.Final() &&
		!slices.ContainsFunc(offered, func(r *cache.Record) bool { return r.Serial == last.Serial })
}

// diff is what changed since a record, or a text that says why that cannot be
// told.
func diff(before *cache.Record, now key.Manifest) ([]key.Change, string) {
	old, err := key.ParseManifest(before.Manifest)
	if err != nil {
		return nil, "its record cannot be compared: " + err.Error()
	}
	return key.Diff(old, now), ""
}

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

// comparer finds, for a node without a history, the record that it was before
// its address changed. Only records whose own address has left the graph can
// be that.
type comparer struct {
	g    *compile.Graph
	r    cache.Reader
	kind map[string][]candidate
	left int
}

type candidate struct {
	record *cache.Record
	// whole is the manifest, own the part without inputs.
	whole, own key.Manifest
}

func newComparer(g *compile.Graph, r cache.Reader) *comparer {
	return &comparer{g: g, r: r, kind: map[string][]candidate{}, left: nearComparisons}
}

// nearest is the record of the kind with the fewest differing facts, the
// newest among equals, and those facts. While the manifest is not whole, inputs
// are left out of the comparison on both sides. nil if nothing is near.
func (c *comparer) nearest(kind string, m key.Manifest, whole bool) (*cache.Record, []key.Change) {
	candidates := c.candidates(kind)
	if len(candidates) > 0 && !whole {
		m = withoutInputs(m)
	}
	var best *cache.Record
	var changes []key.Change
	for _, other := range candidates {
		if c.left--; c.left < 0 {
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
func (c *comparer) candidates(kind string) []candidate {
	if found, ok := c.kind[kind]; ok {
		return found
	}
	var found []candidate
	records := c.r.Kind(kind)
	for i := len(records) - 1; i >= 0 && len(found) < nearRecords; i-- {
		if _, ok := c.g.Lookup(records[i].Node); ok {
			continue
		}
		if m, err := key.ParseManifest(records[i].Manifest); err == nil {
			found = append(found, candidate{records[i], m, withoutInputs(m)})
		}
	}
	c.kind[kind] = found
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

// add counts a node that may run and returns its seconds, 0 if not known. Its newest good record says best how long it
// takes; a failed one may have ended early.
func (e *Estimate) add(a *compile.Action, history []*cache.Record, before *cache.Record) float64 {
	for i := len(history) - 1; i >= 0; i-- {
		if history[i].Outcome.State == cache.OK {
			before = history[i]
			break
		}
	}
	if before == nil {
		e.Unknown++
		return 0
	}
	e.Known++
	e.Seconds += before.Time.Seconds
	e.GPUSeconds += before.Time.Seconds * float64(len(a.Resources.GPUs))
	return before.Time.Seconds
}
