// Package origin says which node made an output, by its digest: the digest of
// an input that changed says nothing to people.
//
// It knows records, no verdicts, and reads no object.
package origin

import (
	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
)

// Names are addresses of nodes by the digests of their outputs, as they stand
// in facts. The zero value knows none.
type Names map[string]string

// Records is the part of a store that is looked at.
type Records interface {
	// Kind returns the newest record of each key of a kind, oldest first.
	Kind(kind string) []*cache.Record
}

// Of reads the records of the kinds that the inputs of these nodes come from,
// each kind once; nothing where there are no nodes. Of equal outputs the newest
// record's node counts.
func Of(g *compile.Graph, r Records, nodes []graph.NodeID) Names {
	kinds := map[string]bool{}
	for _, id := range nodes {
		for _, from := range g.Actions[id].Data {
			kinds[g.Actions[from].Kind.Name] = true
		}
	}
	names, serial := Names{}, map[string]uint64{}
	for kind := range kinds {
		for _, rec := range r.Kind(kind) {
			for _, o := range rec.Outputs {
				if d := o.Digest.String(); rec.Serial >= serial[d] {
					names[d], serial[d] = rec.Node, rec.Serial
				}
			}
		}
	}
	return names
}

// Of is the node that made a fact's content; "" is not known.
func (n Names) Of(f *key.Fact) string {
	if f == nil {
		return ""
	}
	return n[f.Value]
}
