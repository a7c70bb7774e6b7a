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
	"github.com/sotabuild/sotabuild/stdlib/bench/gpu"
	"github.com/sotabuild/sotabuild/stdlib/bench/scrape"
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
	Run     string // names this run's nonce; "" is the time
	Server  Looks
}

// Looks are what is looked at beside the requests.
type Looks struct {
	Metrics string  // path of the server's metrics; "" does not look
	GPU     bool    // sample the GPUs of this machine
	Busy    bool    // measure though others use the server or its GPUs
	Price   float64 // of all GPUs for an hour; 0 is not given
}

// Set is which prompts.
type Set struct {
	Name    string // random, random-text, prefix, sessions, sharegpt, multi-turn, custom or mooncake
	Path    string // file, for the last four
	Prompts int    // 0 is all of the file
	In, Out int    // tokens
	// Spread widens both lengths: a share r draws from (1 − r)·n to (1 + r)·n.
	Spread   float64
	Ids      dataset.Ids // token ids to draw from
	Groups   int         // prefix: groups that share their first Prefix tokens
	Prefix   int
	Turns    int     // sessions
	Think    float64 // s
	Adapters []string
	Cancel   [2]float64 // share of requests that the client leaves, after so many seconds
}

// Outcome is what came of it.
type Outcome struct {
	bench.Report
	Dataset string       // digest
	View    *scrape.View // nil: not exposed
	GPU     *gpu.Summary // nil: not sampled
	Spec    bench.Spec
}

// Run measures one cell.
func Run(ctx context.Context, host bench.Host, o Options) (Outcome, error) {
	var out Outcome
	work := o.Out
	if work == "" {
		dir, err := os.MkdirTemp("", "sotabuild-bench-")
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
	if err := o.quiet(ctx, srv); err != nil {
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
	out.Spec = bench.Spec{Version: bench.SpecVersion, URL: o.URL, Path: o.Path, API: o.API, Model: o.Model, Models: srv.models,
		Prompts: path, Load: o.Load, Rules: o.Rules, Body: o.Body, Headers: o.Headers, Out: o.Out}
	if err := out.measure(ctx, host, o, srv, prompts); err != nil {
		return out, err
	}
	if o.Out == "" {
		return out, nil
	}
	return out, out.Write(o.Out)
}

// measure runs the cell between two looks at the server's metrics, sampling
// GPUs meanwhile, and joins what they say.
func (out *Outcome) measure(ctx context.Context, host bench.Host, o Options, srv *server, prompts []dataset.Prompt) error {
	before, exposed := srv.page(ctx, o.Server.Metrics)
	var samples func() ([]gpu.Sample, error)
	if o.Server.GPU {
		var err error
		if samples, err = sampleGPUs(ctx); err != nil {
			return err
		}
	}
	rep, err := host.Run(ctx, out.Spec)
	var all []gpu.Sample
	if samples != nil {
		var failed error
		if all, failed = samples(); failed != nil {
			return errors.Join(err, failed)
		}
	}
	if err != nil {
		return err
	}
	out.Report = rep
	row := &out.Row
	row.Workload = o.workload(prompts, out.Dataset)
	row.Subject.Model = o.Model
	row.Subject.Hardware.Cores = runtime.NumCPU()
	if after, ok := srv.page(ctx, o.Server.Metrics); ok && exposed {
		var ttft *float64
		if v, ok := row.Metric("ttft/send:mean"); ok {
			ttft = &v
		}
		v := scrape.Between(before, after, ttft)
		out.View = &v
		out.fromServer(v, o)
	}
	if samples != nil {
		from := row.Time.Started
		s := gpu.Summarize(all, from, from.Add(time.Duration(row.Time.Seconds*1e9)))
		out.GPU = &s
		out.fromGPU(s, o)
	}
	if row.Status == result.OK {
		if err := row.Validate(); err != nil {
			return fmt.Errorf("a bug of this program, please report it: %w", err)
		}
	}
	return nil
}

// fromServer takes over what the server counts. Speculation on random ids
// accepts what no real text would: such a row must not win.
func (out *Outcome) fromServer(v scrape.View, o Options) {
	f := &out.Row.Facts
	f.SpecAccept = v.AcceptLen
	if f.CacheHitShare == nil {
		f.CacheHitShare = v.CachedShare
	}
	if v.Speculated && out.Row.Status == result.OK && o.Set.random() {
		out.Row.Fail(result.SpecUnrepresent, "the server speculates and the prompts are random: its acceptance says nothing of real text; use --dataset-name custom or sharegpt")
	}
}

// maxThrottled is the share of busy samples above which a row has no number.
const maxThrottled = 0.01

func (out *Outcome) fromGPU(s gpu.Summary, o Options) {
	row := &out.Row
	row.Facts.EnergyJoules, row.Facts.Throttled = s.Joules, s.Throttled
	row.Subject.Hardware.GPUCount = s.GPUs
	if row.Status != result.OK {
		return
	}
	if t := s.Throttled; t != nil && *t > maxThrottled {
		row.Fail(result.Throttled, fmt.Sprintf("the GPUs throttled in %.1f %% of the busy samples, at most %.0f %% is allowed", *t*100, maxThrottled*100))
		return
	}
	add := func(id string, value float64) {
		d, _ := result.Define(id)
		row.Metrics = append(row.Metrics, result.Metric{ID: id, Value: value, Unit: d.Unit, N: row.Requests.OK})
	}
	if v, ok := row.Metric("output_throughput"); ok && s.GPUs > 0 {
		add("output_throughput_per_gpu", v/float64(s.GPUs))
	}
	if j, ok := s.PerToken(time.Duration(row.Time.Seconds*1e9), row.Requests.Output); ok {
		add("energy_per_token", j)
	}
	if o.Server.Price > 0 && row.Requests.Output > 0 {
		row.Facts.PricePerHour = &o.Server.Price
		add("price_per_mtoken", o.Server.Price*row.Time.Seconds/3600/float64(row.Requests.Output)*1e6)
	}
	row.Metrics = ordered(row.Metrics)
}

// ordered puts metrics into the table's order.
func ordered(in []result.Metric) (out []result.Metric) {
	for _, d := range result.Definitions {
		for _, m := range in {
			if m.ID == d.ID {
				out = append(out, m)
			}
		}
	}
	return out
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
