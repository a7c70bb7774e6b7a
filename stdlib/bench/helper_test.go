package bench_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/simserve"
)

// pipes is a network in memory: each Dial is one net.Pipe, whose other end
// Accept returns. In it, virtual time is exact.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// prompts writes a dataset of n measured prompts of 8 token ids and warm warm-up ones.
func prompts(t *testing.T, n, warm, output int) string {
	t.Helper()
	b, err := dataset.Generate(dataset.Spec{Kind: "random", InputLen: 8, OutputLen: output, Prompts: n, Warmup: warm,
		VocabLo: 3, VocabHi: 512, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return file(t, "prompts.jsonl", string(b))
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// spec is a cell of the simulated server.
func spec(prompts string) bench.Spec {
	return bench.Spec{Version: bench.SpecVersion, URL: "http://sim", Path: "/v1/completions", API: bench.Completions,
		Model: "sim", Models: "/v1/models", Prompts: prompts, Load: bench.Load{Arrival: bench.Inf},
		Rules: bench.Rules{MinSuccess: 1, IgnoreEOS: true}}
}

// measure runs a cell against a simulated server in memory. In a synctest
// bubble its time is virtual.
func measure(t *testing.T, c simserve.Config, s bench.Spec) bench.Report {
	t.Helper()
	h, err := simserve.Handler(c)
	if err != nil {
		t.Fatal(err)
	}
	return against(t, h, s)
}

func against(t *testing.T, h http.Handler, s bench.Spec) bench.Report {
	t.Helper()
	return until(t, t.Context(), h, s)
}

// until is against with a run that ends with ctx.
func until(t *testing.T, ctx context.Context, h http.Handler, s bench.Spec) bench.Report {
	t.Helper()
	net := newPipes()
	srv := &http.Server{Handler: h}
	ended := make(chan error)
	go func() { ended <- srv.Serve(net) }()
	rep, err := bench.Host{Dial: net.dial, Env: func(string) (string, bool) { return "", false }}.Run(ctx, s)
	if err != nil {
		t.Error(err)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	return rep
}

func number(t *testing.T, r result.Row, id string) float64 {
	t.Helper()
	v, ok := r.Metric(id)
	if !ok {
		t.Fatalf("no metric %s in %s", id, describe(r))
	}
	return v
}

func describe(r result.Row) string {
	return fmt.Sprintf("%s %s %q %+v %+v", r.Status, r.Class, r.Reason, r.Requests, r.Metrics)
}

func ptr[T any](v T) *T { return &v }

const ms = time.Millisecond
