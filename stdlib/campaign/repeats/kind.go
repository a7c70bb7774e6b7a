package repeats

import (
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/cache/samples"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Spec is a cell that is measured again. The number is keyed, so that each
// repeat is a server life and a record of its own; and so is what it is measured
// in turns with, because repeats of another day are not in turns with anything of
// today.
type Spec struct {
	Bench  campaign.BenchSpec `key:"cell"`
	Number int                `key:"repeat"`  // from 1
	Among  key.Digest         `key:"contest"` // of the cells of all sides, in whatever order
}

// among is the identity of a contest: what its sides are, without their names.
func among(cells []campaign.BenchSpec) key.Digest {
	var keys []string
	for _, c := range cells {
		var b key.Builder
		b.Struct(c)
		keys = append(keys, b.Finish().Key().String())
	}
	slices.Sort(keys)
	return key.Sum([]byte(strings.Join(keys, "\n")))
}

// Cell is the cell that is measured.
func (s Spec) Cell() campaign.BenchSpec { return s.Bench }

// Kind is that of repeats: a cell whose rejected samples are kept. A rejected
// one counts for nothing and is not taken again under its number, so that
// max_repeats bounds the server lives.
var Kind = &compile.Kind{
	Name: "repeat", Version: 1, Purity: compile.Measured, Outputs: campaign.BenchKind.Outputs, KeepsFailures: true,
	Task: func(jobs []compile.Job, dir string) (executors.Task, error) {
		cells := make([]compile.Job, len(jobs))
		for i, j := range jobs {
			cells[i] = cellOf(j)
		}
		return campaign.BenchKind.Task(cells, dir)
	},
	Collect: func(j compile.Job, step compile.StepResult) compile.Result {
		r := campaign.BenchKind.Collect(cellOf(j), step)
		if r.Outcome.State == cache.Rejected {
			r.Outcome.State, r.Outcome.Keep = cache.Failed, true
		}
		return r
	},
	Policy: func(class string) (retries int, keep bool) {
		if rejected(result.Class(class)) {
			return 0, true
		}
		return campaign.BenchKind.Policy(class)
	},
	Accept: func(spec any) samples.Rule { return campaign.BenchKind.Accept(spec.(Spec).Bench) },
	Words:  map[string]string{"contest": "the set of sides that are measured in turns is another"},
}

func rejected(c result.Class) bool {
	row, ok := result.Lookup(c)
	return ok && row.Reject
}

func cellOf(j compile.Job) compile.Job {
	j.Spec = j.Spec.(Spec).Bench
	return j
}
