package plan

import (
	"slices"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
)

// Hit is the record that is a node's result: final, with every output that the
// kind declares now, and accepted by the node's rule. Where there are such
// records and the rule wants more or others, the text says so. records are
// those of the node's key, oldest first.
func Hit(a *compile.Action, records []*cache.Record, now time.Time) (*cache.Record, string) {
	if len(records) == 0 {
		return nil, ""
	}
	if a.Accept == nil {
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
	return a.Accept.Judge(whole, now)
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

// estimate counts a node that may run and returns its past. Its newest good record
// says best how long it takes; a failed one may have ended early.
func (m *maker) estimate(a *compile.Action, history []*cache.Record, before *cache.Record) Past {
	e := &m.plan.Estimate
	for i := len(history) - 1; i >= 0; i-- {
		if history[i].Outcome.State == cache.OK {
			before = history[i]
			break
		}
	}
	if before == nil {
		e.Unknown++
		return Past{}
	}
	e.Known++
	past := Past{Seconds: before.Time.Seconds, Setup: before.Time.Setup}
	more := past.Setup
	if a.Batch != "" {
		more = max(0, past.Setup-m.setups[a.Batch])
		m.setups[a.Batch] += more
	}
	e.Seconds += past.Seconds + more
	e.GPUSeconds += (past.Seconds + more) * float64(len(a.Resources.GPUs))
	return past
}
