// Package observe measures one cell and looks at the server and its GPUs
// meanwhile: whether somebody else uses them, what the server counts, power,
// clocks and what held them down. What it sees is joined to the row, and a row
// that it speaks against has no number.
//
// It knows the load generator and the two readers scrape and gpu, and no
// campaign. Run blocks until the cell has ended; an error means that nothing
// was measured.
package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/bench/gpu"
	"github.com/sotabuild/sotabuild/stdlib/bench/scrape"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// File is what was looked at, in the folder of results.
const File = "server.json"

// Seen is what was looked at. Nil is "not exposed" and "not sampled".
type Seen struct {
	Server *scrape.View `json:"server,omitempty"`
	GPU    *gpu.Summary `json:"gpu,omitempty"`
}

// Outcome is a run with what was seen beside it.
type Outcome struct {
	bench.Report
	Seen
}

// BusyError says that others use the server or its GPUs.
type BusyError struct{ Reason string }

func (e *BusyError) Error() string { return e.Reason }

// Run measures one cell by its Spec and its Spec's Look.
func Run(ctx context.Context, host bench.Host, s bench.Spec) (Outcome, error) {
	var out Outcome
	srv, err := newServer(host, s)
	if err != nil {
		return out, err
	}
	samples, err := srv.sampler(ctx, s.Look)
	if err != nil {
		if !s.Look.Lenient {
			return out, err
		}
		samples = nil
	}
	unsampled := err
	end := func() ([]gpu.Sample, error) { return nil, nil }
	if samples != nil {
		end = samples.stop
	}
	if err := srv.quiet(ctx, s.Look, samples); err != nil {
		_, stopped := end()
		var busy *BusyError
		if !s.Look.Lenient || errors.As(err, &busy) {
			return out, errors.Join(err, stopped)
		}
		unsampled, samples = err, nil
		end = func() ([]gpu.Sample, error) { return nil, nil }
	}
	var before scrape.Page
	exposed := false
	begin := host.Begin
	host.Begin = func(ctx context.Context) {
		before, exposed = srv.page(ctx, s.Look.Metrics)
		if begin != nil {
			begin(ctx)
		}
	}
	out.Report, err = host.Run(ctx, s)
	all, failed := end()
	if err != nil {
		return out, errors.Join(err, failed)
	}
	if failed != nil {
		if !s.Look.Lenient {
			return out, failed
		}
		unsampled = failed
	}
	row := &out.Row
	if unsampled != nil {
		row.Warnings = append(row.Warnings, unsampled.Error())
	}
	if after, ok := srv.page(context.WithoutCancel(ctx), s.Look.Metrics); ok && exposed {
		var ttft *float64
		if v, ok := row.Metric("ttft/send:mean"); ok {
			ttft = &v
		}
		v := scrape.Between(before, after, ttft)
		out.Server = &v
		out.fromServer(v, s.Look)
	}
	if samples != nil && failed == nil {
		from := row.Time.Started
		g := gpu.Summarize(all, from, from.Add(time.Duration(row.Time.Seconds*1e9)))
		out.GPU = &g
	}
	out.fromGPU(s.Look)
	return out, nil
}

// fromServer takes over what the server counts. Speculation on random ids
// accepts what no real text would: such a row must not win.
func (out *Outcome) fromServer(v scrape.View, l bench.Look) {
	f := &out.Row.Facts
	f.SpecAccept = v.AcceptLen
	if f.CacheHitShare == nil {
		f.CacheHitShare = v.CachedShare
	}
	if v.Speculated && out.Row.Status == result.OK && l.Random {
		out.Row.Fail(result.SpecUnrepresent, "the server speculates and the prompts are random: its acceptance says nothing of real text; use a dataset of real text (custom, jsonl, sharegpt)")
	}
}

// MaxThrottled is the share of busy samples above which a row has no number.
const MaxThrottled = 0.01

// fromGPU joins what the GPUs said and judges the row by it. Where a power cap
// rejects, a row without samples that know it is rejected too: unknown does not
// pass.
func (out *Outcome) fromGPU(l bench.Look) {
	row := &out.Row
	if out.GPU != nil {
		row.Facts.EnergyJoules, row.Facts.Throttled, row.Facts.PowerCapped = out.GPU.Joules, out.GPU.Throttled, out.GPU.Capped
		row.Subject.Hardware.GPUCount = out.GPU.GPUs
	}
	if row.Status != result.OK {
		return
	}
	capped := row.Facts.PowerCapped
	switch t := row.Facts.Throttled; {
	case t != nil && *t > MaxThrottled:
		row.Fail(result.Throttled, fmt.Sprintf("the GPUs throttled in %.1f %% of the busy samples, at most %.0f %% is allowed", *t*100, MaxThrottled*100))
	case l.PowerCap && capped == nil:
		row.Fail(result.Throttled, "a power cap is to reject the sample, and no busy sample of a GPU says whether there was one")
	case l.PowerCap && *capped > MaxThrottled:
		row.Fail(result.Throttled, fmt.Sprintf("a software power cap held the clocks in %.1f %% of the busy samples, at most %.0f %% is allowed", *capped*100, MaxThrottled*100))
	}
	if row.Status != result.OK {
		return
	}
	add := func(id string, value float64) {
		d, _ := result.Define(id)
		row.Metrics = append(row.Metrics, result.Metric{ID: id, Value: value, Unit: d.Unit, N: row.Requests.OK})
	}
	count := len(l.GPUs)
	if out.GPU != nil {
		count = out.GPU.GPUs
		if j, ok := out.GPU.PerToken(time.Duration(row.Time.Seconds*1e9), row.Requests.Output); ok {
			add("energy_per_token", j)
		}
	}
	if v, ok := row.Metric("output_throughput"); ok && count > 0 {
		add("output_throughput_per_gpu", v/float64(count))
	}
	if l.Price > 0 && row.Requests.Output > 0 {
		row.Facts.PricePerHour = &l.Price
		add("price_per_mtoken", l.Price*row.Time.Seconds/3600/float64(row.Requests.Output)*1e6)
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

// Write writes the report's files and what was seen.
func (out Outcome) Write(dir string) error {
	b, err := json.MarshalIndent(out.Seen, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, File), append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing what was looked at: %w", err)
	}
	return out.Report.Write(dir)
}

// server is the endpoint as far as it is asked beside the requests.
type server struct {
	client *http.Client
	base   string
	header http.Header
}

func newServer(host bench.Host, s bench.Spec) (*server, error) {
	transport, base, header, err := bench.Transport(s, host)
	if err != nil {
		return nil, err
	}
	return &server{client: &http.Client{Transport: transport, Timeout: 10 * time.Second}, base: base, header: header}, nil
}

// page reads the server's metrics; not ok where it does not expose any.
func (s *server) page(ctx context.Context, path string) (scrape.Page, bool) {
	if path == "" {
		return scrape.Page{}, false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return scrape.Page{}, false
	}
	req.Header = s.header.Clone()
	resp, err := s.client.Do(req)
	if err != nil {
		return scrape.Page{}, false
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil || resp.StatusCode != http.StatusOK {
		return scrape.Page{}, false
	}
	p, err := scrape.Parse(string(b))
	return p, err == nil
}
