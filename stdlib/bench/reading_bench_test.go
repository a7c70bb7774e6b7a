package bench

import (
	"context"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/bench/live"
	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
)

// BenchmarkReading is one event as vLLM sends it, on each of 4,000 streams in
// turn: more of their state than a core's caches hold.
func BenchmarkReading(b *testing.B) {
	const streams = 4000
	event := []byte(`data: {"id":"cmpl-6f0c8d2a4b1e4f7c9d3e5a7b","object":"text_completion","created":1796037043,"model":"sim",` +
		`"choices":[{"index":0,"text":" token","logprobs":null,"finish_reason":null,"stop_reason":null}]}` + "\n\n")
	ctx, cancel := context.WithCancelCause(b.Context())
	defer cancel(nil)
	c := &client{spec: Spec{API: wire.Completions, Rules: judge.Rules{Stall: time.Hour}}, serves: []string{"sim"}, start: time.Now()}
	tally := live.New(streams, nil, 0)
	readings := make([]*reading, streams)
	for i := range readings {
		s := judge.Sample{Ask: &judge.Ask{}, Answer: wire.NewAnswer(wire.Completions, c.serves, 2000)}
		r := &reading{c: c, ctx: ctx, s: s, first: time.AfterFunc(time.Hour, func() {}), cancel: cancel}
		tally.Begin(i, &r.flight, 0, false)
		r.kind = streamed
		r.Stamp()
		r.Data(event)
		readings[i] = r
		defer r.close(nil)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r := readings[i*997%streams] // in no order that a prefetcher knows
		if a := &r.s.Answer; len(a.Marks) == cap(a.Marks) {
			a.Marks = a.Marks[:1]
		}
		r.Stamp()
		if !r.Data(event) {
			b.Fatal("the stream is lost")
		}
	}
}
