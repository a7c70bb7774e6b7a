package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Report is a run's verdict and its evidence, one Request for each one sent, in
// the order of the dataset.
type Report struct {
	Row      result.Row
	Requests []Request
}

// errTotal ends a cell that takes longer than its rule allows.
var errTotal = errors.New("the cell passed its deadline")

// Run measures one cell on this machine. It blocks until every request has
// ended or ctx is done, and leaves no connection open.
func Run(ctx context.Context, s Spec) (Report, error) { return ThisHost().Run(ctx, s) }

// Run is Run on another host.
func (h Host) Run(ctx context.Context, s Spec) (Report, error) {
	s, err := s.check()
	if err != nil {
		return Report{}, fmt.Errorf("checking bench spec:\n%w", err)
	}
	warm, asks, err := s.asks()
	if err != nil {
		return Report{}, err
	}
	c, err := newClient(s, h)
	if err != nil {
		return Report{}, err
	}
	defer c.transport.CloseIdleConnections()
	if s.Rules.Total > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.Rules.Total, errTotal)
		defer cancel()
	}
	c.start = time.Now()
	if s.Models != "" {
		var f wire.Failure
		if c.serves, f = c.models(ctx); f.Class != "" {
			return refused(c.start, f), nil
		}
	}
	for _, w := range c.send(ctx, warm, nil) {
		if f := w.failure; f.Class != "" {
			f.Reason = fmt.Sprintf("warm-up request %d: %s", w.ask.id, f.Reason)
			return refused(c.start, f), nil
		}
	}
	runtime.GC() // what setting up has left must not be collected while streams run
	cpu := h.cpu()
	c.start = time.Now()
	samples := c.send(ctx, asks, s.Load.schedule(len(asks)))
	m := measured{spec: s, asked: len(asks), samples: samples, resent: c.resent.Load(), ended: ended(ctx)}
	if h.CPU != nil && len(samples) > 0 {
		share := (h.cpu() - cpu).Seconds() / time.Since(c.start).Seconds() / float64(runtime.GOMAXPROCS(0))
		m.busy = &share
	}
	row := m.row()
	row.Time.Started = c.start.UTC()
	return Report{Row: row, Requests: m.requests()}, nil
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
	row.Status, row.Class, row.Reason = status(f.Class), f.Class, f.Reason
	return Report{Row: row}
}

// asks reads the dataset and makes all bodies before anything is timed.
func (s Spec) asks() (warm, asks []ask, err error) {
	f, err := os.Open(s.Prompts)
	if err != nil {
		return nil, nil, fmt.Errorf("opening dataset: %w", err)
	}
	defer f.Close()
	prompts, err := dataset.Read(f)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", s.Prompts, err)
	}
	for _, p := range prompts {
		if p.Warmup && len(warm) == s.Load.Warmup {
			continue
		}
		body, err := s.API.Encode(wire.Ask{Prompt: p, Model: s.Model,
			Temperature: s.Rules.Temperature, IgnoreEOS: s.Rules.IgnoreEOS, Extra: s.Body})
		if err != nil {
			return nil, nil, fmt.Errorf("making requests: %w", err)
		}
		q := ask{id: p.ID, body: body, input: len(p.Tokens), output: p.OutputLen}
		if p.Warmup {
			warm = append(warm, q)
		} else {
			asks = append(asks, q)
		}
	}
	switch {
	case len(warm) < s.Load.Warmup:
		return nil, nil, fmt.Errorf("dataset %s has %d warm-up prompts, warmup asks for %d", s.Prompts, len(warm), s.Load.Warmup)
	case len(asks) == 0:
		return nil, nil, fmt.Errorf("dataset %s has no measured prompt", s.Prompts)
	}
	return warm, asks, nil
}

// send sends the requests, each at its scheduled time and not before the cap
// has a slot for it, and returns the sent ones in order when all have ended.
func (c *client) send(ctx context.Context, asks []ask, schedule []time.Duration) []sample {
	limit := len(asks)
	if c.spec.Load.Concurrency != nil {
		limit = min(limit, *c.spec.Load.Concurrency)
	}
	slots := make(chan time.Duration, limit) // when each became free
	for range limit {
		slots <- -1 // free from the beginning
	}
	samples := make([]sample, len(asks))
	var all sync.WaitGroup
	defer all.Wait()
	for i := range asks {
		s := sample{ask: &asks[i], due: -1, scheduled: -1}
		if schedule != nil {
			s.scheduled = schedule[i]
			s.due = s.scheduled
			if !waitUntil(ctx, c.start.Add(s.scheduled)) {
				return samples[:i]
			}
		}
		select {
		case free := <-slots:
			s.due = max(s.due, free)
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return samples[:i]
		}
		all.Go(func() {
			samples[i] = c.do(ctx, s)
			slots <- time.Since(c.start)
		})
	}
	return samples
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
