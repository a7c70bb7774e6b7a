// Package solo benchmarks a server that somebody else has started: it finds
// out what is served, makes the prompts, looks whether the machine is quiet,
// measures one cell and writes it down. It is `sotabuild bench URL`, useful
// without a campaign.
//
// It knows the load generator below it and what a person may ask for. It
// starts no server. Run blocks until the cell has ended; an error means that
// nothing was measured because what was asked for is wrong or impossible.
package solo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/bench/observe"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Options are what a person asks for. The zero values of Set are filled in by
// Defaults.
type Options struct {
	URL     string
	Model   string // "" is the only one that is served
	API     bench.API
	Path    string // "" is the API's usual one
	Set     Set
	Load    bench.Load
	Rules   bench.Rules
	Body    map[string]any
	Headers map[string]string
	Out     string // folder; "" writes nothing
	Temp    string // folder for temporary files; "" is the system's
	Run     string // names this run's nonce; "" is the time
	Look    bench.Look
}

// Set is which prompts.
type Set struct {
	Name    string // random, random-text, prefix, sessions, sharegpt, multi-turn, custom or mooncake
	Path    string // file, for the last four
	Prompts int    // 0 is all of the file
	In, Out int    // tokens
	// Spread widens both lengths: a share r draws from (1 − r)·n to (1 + r)·n.
	Spread   float64
	Mix      []dataset.Part // random, random-text: further shapes
	Ids      dataset.Ids    // token ids to draw from
	Groups   int            // prefix: groups that share their first Prefix tokens
	Prefix   int
	Turns    int     // sessions
	Think    float64 // s
	Adapters []string
	Cancel   [2]float64 // share of requests that the client leaves, after so many seconds
}

// Outcome is what came of it.
type Outcome struct {
	observe.Outcome
	Dataset string // digest
	Spec    bench.Spec
}

// Run measures one cell.
func Run(ctx context.Context, host bench.Host, o Options) (Outcome, error) {
	var out Outcome
	work := o.Out
	if work == "" {
		dir, err := os.MkdirTemp(o.Temp, "sotabuild-bench-")
		if err != nil {
			return out, fmt.Errorf("making a folder: %w", err)
		}
		defer os.RemoveAll(dir)
		work = dir
	} else if err := os.MkdirAll(work, 0o755); err != nil {
		return out, fmt.Errorf("making the folder of results: %w", err)
	}
	srv, err := connect(ctx, host, &o)
	if err != nil {
		return out, err
	}
	prompts, err := o.prompts(srv.count(ctx))
	if err != nil {
		return out, err
	}
	file, err := dataset.Write(prompts)
	if err != nil {
		return out, err
	}
	out.Dataset = dataset.Digest(file)
	path := filepath.Join(work, "prompts.jsonl")
	if err := os.WriteFile(path, file, 0o644); err != nil {
		return out, fmt.Errorf("writing prompts: %w", err)
	}
	o.Look.Random = o.Set.random()
	out.Spec = bench.Spec{Version: bench.SpecVersion, URL: o.URL, Path: o.Path, API: o.API, Model: o.Model, Models: srv.models,
		Prompts: path, Load: o.Load, Rules: o.Rules, Body: o.Body, Headers: o.Headers, Out: o.Out, Look: o.Look}
	if out.Outcome, err = observe.Run(ctx, host, out.Spec); err != nil {
		var busy *observe.BusyError
		if errors.As(err, &busy) {
			err = fmt.Errorf("%w; wait, or give --allow-busy", err)
		}
		return out, err
	}
	row := &out.Row
	srv.explain(row, prompts, o.Set.Ids)
	row.Workload = o.workload(prompts, out.Dataset)
	row.Subject.Model = o.Model
	row.Subject.Hardware.Cores = runtime.NumCPU()
	if row.Status == result.OK {
		if err := row.Validate(); err != nil {
			return out, fmt.Errorf("a bug of this program, please report it: %w", err)
		}
	}
	if o.Out == "" {
		return out, nil
	}
	return out, out.Write(o.Out)
}

func (o Options) workload(prompts []dataset.Prompt, digest string) result.Workload {
	w := result.Workload{Kind: o.Set.Name, Dataset: digest, InputLen: max(o.Set.In, 1), OutputLen: max(o.Set.Out, 1), Arrival: o.Load.Arrival,
		Rate: o.Load.Rate, Concurrency: o.Load.Concurrency, Endpoint: o.Path}
	for _, p := range prompts {
		if !p.Warmup {
			w.NumPrompts++
		}
	}
	return w
}

// name is the nonce of this run.
func (o Options) name() string {
	if o.Run != "" {
		return o.Run
	}
	return strconv.FormatInt(time.Now().UnixNano(), 36)
}
