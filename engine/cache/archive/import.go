package archive

import (
	"bytes"
	"context"
	"fmt"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
)

// Import puts the records into a store, with their outputs, in the order of the
// list, and returns how many are new to it. Those that it has already stay as
// they are. What is damaged or foreign is left out and stands in a.Refused; the
// error says that the store could not be written.
func (a *Archive) Import(ctx context.Context, l *cache.Local) (imported int, err error) {
	var fresh []cache.Record
	told := map[string]bool{}
	for _, e := range a.entries {
		if known(l, e.Record) {
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
		if whole {
			fresh = append(fresh, e.Record)
		}
	}
	if err := l.Import(ctx, fresh); err != nil {
		return 0, err
	}
	return len(fresh), nil
}

// known reports whether a store has this very run of a node.
func known(l *cache.Local, r cache.Record) bool {
	for _, have := range l.Lookup(r.Key) {
		if have.Node == r.Node && have.Time.Started.Equal(r.Time.Started) && have.Origin == r.Origin && have.Outcome == r.Outcome && sameOutputs(have, &r) {
			return true
		}
	}
	return false
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
