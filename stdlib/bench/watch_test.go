package bench

import (
	"context"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/bench/live"
	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
)

// TestEventsCostNothingMore reads events with somebody looking on: nothing is
// allocated for one, and none waits for a lock that who looks on may hold.
func TestEventsCostNothingMore(t *testing.T) {
	const events = 2000
	ctx, cancel := context.WithCancelCause(t.Context())
	c := &client{spec: Spec{API: wire.Completions, Rules: judge.Rules{Stall: time.Hour}}, start: time.Now()}
	w := &watch{start: c.start, tally: live.New(1, nil, 0)}
	s := judge.Sample{Ask: &judge.Ask{}, Answer: wire.NewAnswer(wire.Completions, nil, events)}
	r := &reading{c: c, ctx: ctx, s: s, first: time.AfterFunc(time.Hour, func() {}), cancel: cancel}
	w.begin(0, &r.flight, -1)
	defer r.close(nil)
	event := []byte(`data: {"choices":[{"index":0,"text":"a","finish_reason":null}]}` + "\n\n")
	read := func() {
		r.Stamp()
		if !r.events(event) {
			t.Error("the stream is lost")
		}
	}
	read()
	w.mu.Lock()
	defer w.mu.Unlock()
	allocs := make(chan float64, 1)
	go func() { allocs <- testing.AllocsPerRun(events-2, read) }() // and one to warm up
	select {
	case n := <-allocs:
		if n != 0 {
			t.Errorf("%v allocations an event", n)
		}
	case <-time.After(time.Minute):
		t.Fatal("an event waits for the lock of the watch")
	}
	if p := w.tally.Now(time.Second); p.Events != events || p.TTFT.N != 1 {
		t.Errorf("seen: %+v", p)
	}
}
