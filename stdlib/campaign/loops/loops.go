// Package loops lists the loops that a campaign has beside its graph, in the
// order in which they run. It knows no loop from inside.
package loops

import (
	"slices"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/campaign/ratesearch"
	"github.com/sotabuild/sotabuild/stdlib/campaign/repeats"
	"github.com/sotabuild/sotabuild/stdlib/campaign/rounds"
)

// Kind is a kind of loop, by the word of the campaign's block.
type Kind struct {
	Block  string // noise | rate_search
	Prefix string // of the addresses of its rounds
	Title  string // of its rounds, for people
}

// Kinds is the table, in the order in which they run.
var Kinds = []Kind{
	{"noise", repeats.Prefix, "Repeats until it is stable"},
	{"rate_search", ratesearch.Prefix, "Rounds of the rate search"},
}

// Prefixes begin the addresses of all rounds.
func Prefixes() (out []string) {
	for _, k := range Kinds {
		out = append(out, k.Prefix)
	}
	return out
}

// Of are the loops of a campaign, parallel to Kinds; nil for a kind that it does
// not ask for.
func Of(p *prepare.Prepared, r cache.Reader, now time.Time) ([][]rounds.Loop, error) {
	contests, err := repeats.Of(p, r, now)
	if err != nil {
		return nil, err
	}
	searches, err := ratesearch.Of(p, r, now)
	if err != nil {
		return nil, err
	}
	out := make([][]rounds.Loop, len(Kinds))
	for _, x := range contests {
		out[0] = append(out[0], x.Loop)
	}
	for _, x := range searches {
		out[1] = append(out[1], x.Loop)
	}
	return out, nil
}

// Records are the records of the nodes of all rounds that are over or begun, by
// their keys of now: they belong to the campaign as much as what its graph uses.
func Records(p *prepare.Prepared, r cache.Reader, now time.Time) ([]*cache.Record, error) {
	all, err := Of(p, r, now)
	if err != nil {
		return nil, err
	}
	var out []*cache.Record
	for _, l := range slices.Concat(all...) {
		v, err := l.View(p, r, nil, now)
		if err != nil {
			return nil, err
		}
		for _, round := range v.Rounds {
			for _, n := range round.Plan.Nodes {
				if !n.Key.IsZero() {
					out = append(out, r.Lookup(n.Key)...)
				}
			}
		}
	}
	return out, nil
}
