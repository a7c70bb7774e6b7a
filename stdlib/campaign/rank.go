package campaign

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// SelectSpec is how a framework's best cell of a scenario is found.
type SelectSpec struct {
	SLA winners.SLA `key:"sla"`
}

// selectBest reads the rows of one framework in one scenario. Its output
// refers to rows by digest, never by name. That there is no best row is a
// selection like any other: the rows say why.
func selectBest(_ context.Context, j compile.Job) compile.Result {
	var rows []winners.Input
	for _, in := range j.Inputs {
		b, err := j.Objects.Bytes(in.Digest)
		if err != nil {
			return compile.Result{Outcome: failure(result.NoResult, err.Error())}
		}
		var r result.Row
		if err := json.Unmarshal(b, &r); err != nil {
			return compile.Result{Outcome: failure(result.NoResult, fmt.Sprintf("reading row %s: %v", in.Digest, err))}
		}
		rows = append(rows, winners.Input{Digest: in.Digest, Row: r})
	}
	sel := winners.Select(rows, j.Spec.(SelectSpec).SLA)
	return ok("selection", sel)
}

// WinnersSpec is how frameworks are compared. What is within the noise is no
// part of it: that is judged where it is shown (RulesOf), so that another
// threshold makes nothing stale.
type WinnersSpec struct {
	Smoke       bool    `key:"smoke"`
	CachedShare float64 `key:"cached_share"`
}

// rank compares the selections of all frameworks of one scenario.
func rank(_ context.Context, j compile.Job) compile.Result {
	var target key.Digest
	var sels []winners.SelectionInput
	for _, in := range j.Inputs {
		b, err := j.Objects.Bytes(in.Digest)
		if err != nil {
			return compile.Result{Outcome: failure(result.NoResult, err.Error())}
		}
		var s winners.Selection
		if err := json.Unmarshal(b, &s); err != nil {
			return compile.Result{Outcome: failure(result.NoResult, fmt.Sprintf("reading selection %s: %v", in.Digest, err))}
		}
		if in.Name == "target" {
			target = in.Digest
		}
		sels = append(sels, winners.SelectionInput{Digest: in.Digest, Selection: s})
	}
	share := j.Spec.(WinnersSpec).CachedShare
	return ok("ranking", winners.Rank(target, sels, winners.Rules{CachedShare: &share}))
}
