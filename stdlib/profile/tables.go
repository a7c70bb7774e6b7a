package profile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/stdlib/trace"
)

// TablesSpec is the tables of one stage (R146).
type TablesSpec struct {
	Framework string `key:"framework"`
	Stage     Stage  `key:"stage"`
	Catalogue string `key:"catalogue"` // of fuse patterns
}

// TablesKind is the row of the node that reads traces: the formal one gives
// the times, a mapping one, where there is one, operators, lines and shapes.
var TablesKind = &compile.Kind{
	Name: "tables", Version: 1, Purity: compile.Pure,
	Outputs: []string{"tables_md", "tables_json", "tables_csv"},
	Func:    tables, Policy: policy,
}

// tableForms are the outputs of the tables, and how they are printed.
var tableForms = []struct {
	output string
	format trace.Format
}{{"tables_md", trace.Markdown}, {"tables_json", trace.JSON}, {"tables_csv", trace.CSV}}

func (s Subject) tables(stage Stage, mapped bool) compile.Decl {
	d := compile.Decl{
		Addr: s.TablesAddr(stage), Kind: TablesKind, Block: "framework." + s.Framework.Label,
		Spec: TablesSpec{Framework: trace.FrameworkName(s.Framework.Definition.Name), Stage: stage, Catalogue: trace.CatalogueID()},
	}
	for _, role := range []Role{Formal, Mapping} {
		if role == Mapping && !mapped {
			break
		}
		for _, output := range []string{"summary", "trace"} {
			d.Inputs = append(d.Inputs, compile.Input{Name: string(role) + " " + output, From: s.Addr(stage, role), Output: output})
		}
	}
	return d
}

func tables(ctx context.Context, j compile.Job) compile.Result {
	values, err := tablesOf(ctx, j)
	if err != nil {
		return compile.Result{Outcome: failed(executors.ClassNoOutput, err.Error())}
	}
	return compile.Result{Outcome: cache.Outcome{State: cache.OK}, Outputs: values}
}

func tablesOf(ctx context.Context, j compile.Job) (values []compile.Value, err error) {
	o := trace.TriageOptions{Framework: j.Spec.(TablesSpec).Framework, Cutoff: trace.DefaultCutoff}
	for _, in := range j.Inputs {
		switch in.Name {
		case "formal trace", "mapping trace":
			path, err := j.Objects.Path(in.Digest)
			if err != nil {
				return nil, err
			}
			if in.Name == "mapping trace" {
				o.Mapping = path
			} else {
				o.Paths = []string{path}
			}
		case "formal summary", "mapping summary":
			b, err := j.Objects.Bytes(in.Digest)
			if err != nil {
				return nil, err
			}
			var sum Summary
			if err := json.Unmarshal(b, &sum); err != nil {
				return nil, fmt.Errorf("reading the summary of %s: %w", in.Addr, err)
			}
			if in.Name == "mapping summary" {
				o.MappingName = sum.Trace
			} else {
				o.Name, o.Host = sum.Trace, sum.Host
				if sum.Whole {
					// A folder's name tells the stage where no step does.
					o.Name = string(sum.Stage) + "/" + sum.Trace
				}
			}
		}
	}
	for _, t := range tableForms {
		o.Format = t.format
		var out bytes.Buffer
		if err := trace.Triage(ctx, o, &out); err != nil {
			return nil, err
		}
		values = append(values, compile.Value{Name: t.output, Bytes: out.Bytes()})
	}
	return values, nil
}
