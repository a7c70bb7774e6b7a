package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/bench/live"
	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Report is a run's verdict and its evidence, one Request for each one sent, in
// the order of the dataset, and the numbers of the parts that it has.
type Report struct {
	Row      result.Row
	Requests []judge.Request
	Parts    []result.Part
	Reads    [][]time.Duration // of each request's events with tokens, from the row's start
}

// Run measures one cell on this machine. It blocks until every request has
// ended or ctx is done, and leaves no connection open.
func Run(ctx context.Context, s Spec) (Report, error) { return ThisHost().Run(ctx, s) }

// Run is Run on another host.
func (h Host) Run(ctx context.Context, s Spec) (rep Report, err error) {
	s, err = s.check()
	if err != nil {
		return Report{}, fmt.Errorf("checking bench spec:\n%w", err)
	}
	warm, asks, schedule, err := s.asks()
	if err != nil {
		return Report{}, err
	}
	c, err := newClient(s, h)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if total := s.Rules.Total; total > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, total, deadline(total, executors.ClassTimeout))
		defer cancel()
	}
	cores := runtime.GOMAXPROCS(0)
	if cores == 1 {
		// Go's monitor takes the only processor away from whoever waits in the
		// kernel, for each event anew. It leaves it where another one is idle.
		runtime.GOMAXPROCS(2)
		defer runtime.GOMAXPROCS(1)
	}
	c.start = time.Now()
	if f := c.preflight(ctx, warm); f.Class != "" {
		return refused(c.start, f), nil
	}
	if h.Begin != nil {
		h.Begin(ctx)
	}
	runtime.GC() // what setting up has left must not be collected while streams run
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cpu := h.cpu()
	c.start = time.Now()
	w := &watch{rules: s.Rules, start: c.start, stop: stop, tally: live.New(len(asks), schedule, s.Rules.Total)}
	done := h.look(w)
	samples := c.send(ctx, asks, schedule, w)
	cell := judge.Cell{Rules: s.Rules, Asked: len(asks), Samples: samples, Resent: c.resent.Load(), Ended: ended(ctx)}
	if h.CPU != nil && len(samples) > 0 {
		share := (h.cpu() - cpu).Seconds() / time.Since(c.start).Seconds() / float64(cores)
		cell.Busy = &share
	}
	done()
	row := cell.Row()
	row.Time.Started = c.start.UTC()
	row.Workload.NumPrompts = len(asks)
	rep = Report{Row: row, Requests: cell.Requests()}
	for _, q := range samples {
		rep.Reads = append(rep.Reads, q.Answer.Marks)
	}
	if row.Status == result.OK {
		rep.Parts = cell.Parts()
	}
	return rep, nil
}

// look lets the host's Watch see the run until the returned function is
// called, which waits for it.
func (h Host) look(w *watch) (done func()) {
	if h.Watch == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { w.report(ctx, h.Watch) })
	return func() { cancel(); all.Wait() }
}

// preflight asks for the model list, then sends the warm-up prompts: the first
// one alone, so that a server that cannot answer at all is seen at once, then
// the others together. None of it is counted.
func (c *client) preflight(ctx context.Context, warm []judge.Ask) wire.Failure {
	if c.spec.Models != "" {
		var f wire.Failure
		if c.serves, f = c.models(ctx); f.Class != "" {
			return f
		}
	}
	one := min(1, len(warm))
	for _, part := range [][]judge.Ask{warm[:one], warm[one:]} {
		w := &watch{start: c.start, tally: live.New(len(part), nil, 0)}
		for _, s := range c.send(ctx, part, nil, w) {
			if f := s.Failure; f.Class != "" {
				f.Reason = fmt.Sprintf("warm-up request %d: %s", s.Ask.ID, f.Reason)
				return f
			}
		}
	}
	return ended(ctx)
}

func (h Host) cpu() time.Duration {
	if h.CPU == nil {
		return 0
	}
	return h.CPU()
}

// refused is the report of a cell of which nothing was measured.
func refused(start time.Time, f wire.Failure) Report {
	row := result.Row{Version: result.RowVersion, Time: result.Times{Started: start.UTC()}}
	row.Status, row.Class, row.Reason = judge.Status(f.Class), f.Class, f.Reason
	return Report{Row: row}
}

// asks reads the dataset and makes all bodies and send times before anything is
// timed.
func (s Spec) asks() (warm, asks []judge.Ask, schedule []time.Duration, err error) {
	f, err := os.Open(s.Prompts)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("opening dataset: %w", err)
	}
	defer f.Close()
	prompts, err := dataset.Read(f)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", s.Prompts, err)
	}
	var at []time.Duration
	for _, p := range prompts {
		if p.Warmup && len(warm) == s.Load.Warmup {
			continue
		}
		body, err := s.API.Encode(wire.Ask{Prompt: p, Model: s.Model,
			Temperature: s.Rules.Temperature, IgnoreEOS: s.Rules.IgnoreEOS, Whole: s.Rules.NoStream, Extra: s.Body})
		if err != nil {
			return nil, nil, nil, fmt.Errorf("making requests: %w", err)
		}
		q := judge.Ask{ID: p.ID, Body: body, Input: len(p.Tokens) + p.InputLen, Output: p.OutputLen,
			Cancel: time.Duration(p.Cancel * 1e9), Adapter: p.Adapter, Turn: p.Turn}
		if p.Warmup {
			warm = append(warm, q)
			continue
		}
		asks = append(asks, q)
		if p.At != nil {
			at = append(at, time.Duration(*p.At*1e9))
		}
	}
	switch {
	case len(warm) < s.Load.Warmup:
		return nil, nil, nil, fmt.Errorf("dataset %s has %d warm-up prompts, warmup asks for %d", s.Prompts, len(warm), s.Load.Warmup)
	case len(asks) == 0:
		return nil, nil, nil, fmt.Errorf("dataset %s has no measured prompt", s.Prompts)
	}
	schedule, err = s.Load.Times(len(chains(asks)), at)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("dataset %s: %w", s.Prompts, err)
	}
	return warm, asks, schedule, nil
}

// chains cuts requests into what is sent by itself: a session, whose turns
// follow each other, or a single request. A chain is a half-open range.
func chains(asks []judge.Ask) (out [][2]int) {
	for i, q := range asks {
		if q.Turn.Number > 1 {
			out[len(out)-1][1] = i + 1
		} else {
			out = append(out, [2]int{i, i + 1})
		}
	}
	return out
}

// send sends the requests, each chain at its scheduled time and not before the
// cap has a slot for it, and returns the sent ones in order when all have
// ended.
func (c *client) send(ctx context.Context, asks []judge.Ask, schedule []time.Duration, w *watch) []judge.Sample {
	units := chains(asks)
	limit := max(1, len(units))
	if c.spec.Load.Concurrency != nil {
		limit = min(limit, *c.spec.Load.Concurrency)
	}
	slots := make(chan time.Duration, limit) // when each became free
	for range limit {
		slots <- -1 // free from the beginning
	}
	samples := make([]judge.Sample, len(asks))
	sent := make([]bool, len(asks)) // each written by the chain's goroutine
	var all sync.WaitGroup
	for i, u := range units {
		first := judge.Sample{Due: -1, Scheduled: -1}
		if schedule != nil {
			first.Scheduled = schedule[i]
			first.Due = first.Scheduled
			if !waitUntil(ctx, c.start.Add(first.Scheduled)) {
				break
			}
		}
		select {
		case free := <-slots:
			first.Due = max(first.Due, free)
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			c.chain(ctx, asks, u, first, samples, sent, w)
			slots <- time.Since(c.start)
		})
	}
	all.Wait()
	out := samples[:0]
	for i, s := range samples {
		if sent[i] {
			out = append(out, s)
		}
	}
	return out
}

// chain sends the requests of a half-open range: one, or the turns of a session
// one after the other. A session ends with a turn that failed: its next turn
// would be another prompt to the server.
func (c *client) chain(ctx context.Context, asks []judge.Ask, part [2]int, next judge.Sample, samples []judge.Sample, sent []bool, w *watch) {
	for i := part[0]; i < part[1]; i++ {
		next.Ask = &asks[i]
		if i > part[0] {
			next = judge.Sample{Ask: next.Ask, Scheduled: -1, Due: samples[i-1].Closed + time.Duration(asks[i].Turn.Think*1e9)}
			if !waitUntil(ctx, c.start.Add(next.Due)) {
				return
			}
		}
		sent[i] = true
		r := &reading{c: c, s: next}
		point := w.begin(i, &r.flight, next.Scheduled)
		c.do(ctx, r)
		samples[i] = r.s
		w.end(i, point, samples[i])
		if samples[i].Failure.Class != "" || samples[i].Cancelled {
			return
		}
	}
}

// waitUntil waits for a point in time and says whether it came before ctx's end.
func waitUntil(ctx context.Context, at time.Time) bool {
	d := time.Until(at)
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
