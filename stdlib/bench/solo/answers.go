package solo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/bench/answers"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
)

// Ask collects greedy answers, one request at a time, without a nonce: the
// prompts are the same in every run.
func Ask(ctx context.Context, host bench.Host, o Options) (answers.Set, error) {
	o.Rules.NoStream, o.Rules.Temperature, o.Load.Warmup = true, 0, 0
	srv, err := connect(ctx, host, &o)
	if err != nil {
		return answers.Set{}, err
	}
	prompts, err := o.made(srv.count(ctx))
	if err != nil {
		return answers.Set{}, err
	}
	file, err := dataset.Write(prompts)
	if err != nil {
		return answers.Set{}, err
	}
	dir, err := os.MkdirTemp(o.Temp, "sotabuild-answers-")
	if err != nil {
		return answers.Set{}, fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "prompts.jsonl")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		return answers.Set{}, fmt.Errorf("writing prompts: %w", err)
	}
	return answers.Collect(ctx, host, bench.Spec{URL: o.URL, Path: o.Path, API: o.API, Model: o.Model, Prompts: path,
		Rules: o.Rules, Body: o.Body, Headers: o.Headers})
}
