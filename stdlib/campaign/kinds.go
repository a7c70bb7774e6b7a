package campaign

import (
	"context"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Kinds is the table of node kinds, in the order in which they run.
func Kinds() []*compile.Kind {
	return []*compile.Kind{HostKind, ClientKind, weightsKind, HelpKind, versionKind, checkKind, DatasetKind, BenchKind, agreementKind, gateKind, selectKind, winnersKind}
}

// The kinds, one row each.
var (
	HelpKind = &compile.Kind{
		Name: "help", Version: 1, Purity: compile.Pure, Outputs: []string{"text"},
		Task: askTask, Collect: collectHelp, Policy: policy,
	}
	versionKind = &compile.Kind{
		Name: "version", Version: 1, Purity: compile.Pure, Outputs: []string{"version"},
		Task: askTask, Collect: collectVersion, Policy: policy,
	}
	checkKind = &compile.Kind{
		Name: "check", Version: 1, Purity: compile.Pure, Outputs: []string{"flags"},
		Func: func(_ context.Context, j compile.Job) compile.Result { return check(j) }, Policy: policy,
	}
	DatasetKind = &compile.Kind{
		Name: "dataset", Version: 1, Purity: compile.Pure, Outputs: []string{"prompts"},
		Func: makeDataset, Policy: policy,
	}
	BenchKind = &compile.Kind{
		Name: "bench", Version: 2, Purity: compile.Measured, Outputs: []string{"row", "requests", "seen"}, KeepsFailures: true,
		Task: benchTask, Collect: collectBench, Policy: policy, Accept: accepted,
	}
	selectKind = &compile.Kind{
		Name: "select", Version: 2, Purity: compile.Pure, Outputs: []string{"selection"}, KeepsFailures: true,
		Func: selectBest, Policy: policy,
	}
	winnersKind = &compile.Kind{
		Name: "winners", Version: 3, Purity: compile.Pure, Outputs: []string{"ranking"}, KeepsFailures: true,
		Func: rank, Policy: policy,
	}
)

// policy reads the class table.
func policy(class string) (retries int, keep bool) {
	row, ok := result.Lookup(result.Class(class))
	if !ok {
		return 0, false
	}
	return row.Retries, row.Keep
}

func makeDataset(_ context.Context, j compile.Job) compile.Result {
	s := j.Spec.(dataset.Spec)
	var from io.Reader
	if s.Form.Path != "" {
		f, err := os.Open(s.Form.Path)
		if err != nil {
			return compile.Result{Outcome: failure(result.NoResult, "opening dataset: "+err.Error())}
		}
		defer f.Close()
		from = f
	}
	b, err := dataset.Freeze(s, from)
	if err != nil {
		return compile.Result{Outcome: failure(result.NoResult, err.Error())}
	}
	out := ok("prompts", nil)
	out.Outputs[0].Bytes = b
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
