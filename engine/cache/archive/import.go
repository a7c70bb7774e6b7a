package archive

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
)

// Import puts the records into a store, with their outputs, in the order of the
// list, and returns how many are new to it or whole again. Those that it has
// already stay as they are. One whose key has a result there that was measured
// later is left out: a store's last result of a key is the one that counts. What
// is damaged or foreign is left out and stands in a.Refused; the error says that
// the store could not be written.
func (a *Archive) Import(ctx context.Context, l *cache.Local) (imported int, err error) {
	var fresh []cache.Record
	added := map[key.Key][]*cache.Record{} // those of fresh
	told := map[string]bool{}
	for _, e := range a.entries {
		have := l.Lookup(e.Record.Key)
		lost := !known(have, e.Record) && known(l.History(e.Record.Node), e.Record)
		if !lost && (known(have, e.Record) || known(added[e.Record.Key], e.Record) || later(have, e.Record)) {
			continue
		}
		whole := true
		for _, o := range e.Record.Outputs {
			b, err := a.bytes(e, o)
			if err != nil {
				whole = false
				if !told[err.Error()] {
					told[err.Error()] = true
					a.refuse("%v", err)
				}
				continue
			}
			if _, _, err := l.Object(bytes.NewReader(b)); err != nil {
				return 0, fmt.Errorf("importing %s: %w", e.Record.Node, err)
			}
		}
		switch {
		case !whole:
		case lost: // its outputs are back
			imported++
		default:
			fresh = append(fresh, e.Record)
			added[e.Record.Key] = append(added[e.Record.Key], &e.Record)
		}
	}
	if err := l.Import(ctx, fresh); err != nil {
		return 0, err
	}
	return imported + len(fresh), nil
}

// known reports whether this very run of a node is among others.
func known(have []*cache.Record, r cache.Record) bool {
	return slices.ContainsFunc(have, func(h *cache.Record) bool {
		return h.Key == r.Key && h.Node == r.Node && h.Time.Started.Equal(r.Time.Started) && h.Origin == r.Origin && h.Outcome == r.Outcome && sameOutputs(h, &r)
	})
}

// later reports whether a result of the key was measured after r.
func later(have []*cache.Record, r cache.Record) bool {
	return slices.ContainsFunc(have, func(h *cache.Record) bool { return h.Outcome.Final() && h.Time.Started.After(r.Time.Started) })
}

func sameOutputs(a, b *cache.Record) bool {
	if len(a.Outputs) != len(b.Outputs) {
		return false
	}
	has := map[string]key.Digest{}
	for _, o := range a.Outputs {
		has[o.Name] = o.Digest
	}
	for _, o := range b.Outputs {
		if has[o.Name] != o.Digest {
			return false
		}
	}
	return true
}
