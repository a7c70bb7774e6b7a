package bench_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/bench/observe"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/simserve"
)

// specFile writes a spec whose results go to the returned folder.
func specFile(t *testing.T, s bench.Spec) (path, out string) {
	t.Helper()
	s.Out = t.TempDir()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return file(t, "spec.json", string(b)), s.Out
}

func readOutcome(t *testing.T, dir string) (o runner.StepOutcome) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, bench.OutcomeFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestMainMeasuresOverLoopback runs the step's client over a real connection
// and compares its stamps with the server's own: none may be earlier, and the
// median one not 25 ms later. A crowded machine delays either side now and then,
// so one good run of some is asked for.
func TestMainMeasuresOverLoopback(t *testing.T) {
	var off string
	for range 20 {
		if off = mainOverLoopback(t); off == "" {
			return
		}
	}
	t.Errorf("no run agrees with the server's stamps; in the last %s", off)
}

// mainOverLoopback returns what of one run came late, "" if nothing did.
func mainOverLoopback(t *testing.T) (off string) {
	t.Helper()
	var mu sync.Mutex
	stamps := map[int]simserve.Stamp{}
	h, err := simserve.Handler(simserve.Config{Model: "sim", Prefill: 20 * ms, Step: 2 * ms, Stamp: func(s simserve.Stamp) {
		mu.Lock()
		defer mu.Unlock()
		stamps[s.Request] = s
	}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	s := spec(prompts(t, 8, 1, 10))
	s.URL, s.Load.Warmup, s.Load.Concurrency = srv.URL, 1, ptr(1)
	s.Rules.MaxSendLag = time.Minute // the machine may be crowded; lag is judged elsewhere
	path, out := specFile(t, s)
	if code := observe.Main(path, s.URL); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	srv.Close()
	r, err := bench.ReadRow(filepath.Join(out, bench.RowFile))
	if err != nil {
		t.Fatal(err)
	}
	if o := readOutcome(t, out); o != (runner.StepOutcome{Class: r.Class, Reason: r.Reason}) || r.Status != result.OK {
		t.Fatalf("outcome %+v, row %s", o, describe(r))
	}
	lines, err := os.Open(filepath.Join(out, bench.RequestsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	var delays []float64
	n := 0
	for in := bufio.NewScanner(lines); in.Scan(); n++ {
		var q judge.Request
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		st := stamps[n+1] // request 0 was the warm-up
		if q.ID != n+1 || q.Class != "" || *q.Output != 10 || *q.Input != 8 || len(st.Writes) != 10 {
			t.Fatalf("line %d is %+v, the server saw %+v", n, q, st)
		}
		delays = append(delays, *q.First-st.Writes[0].Sub(r.Time.Started).Seconds(), *q.Last-st.Writes[9].Sub(r.Time.Started).Seconds())
	}
	slices.Sort(delays)
	ttft, tpot := number(t, r, "ttft/send:p50"), number(t, r, "tpot/excl-first:p50")
	// The row's start has lost its monotonic part in the file; a microsecond
	// allows for the two clocks.
	if n != 8 || delays[0] < -1e-6 || ttft < .02 {
		t.Fatalf("%d lines; the client read that much after the server wrote: %v s; the time to the first token is %v, the server's schedule says 0.02", n, delays, ttft)
	}
	if r.Facts.ClientBusy == nil || r.Facts.SendLagP99 == nil {
		t.Errorf("facts are %+v", r.Facts)
	}
	if delays[len(delays)/2] > .025 || ttft > .02+.05 || math.Abs(tpot-.002) > .002 {
		return fmt.Sprintf("the client read that much after the server wrote: %v s; the time to the first token is %v and per token %v, the server's schedule says 0.02 and 0.002", delays, ttft, tpot)
	}
	return ""
}

// TestMainWritesTheVerdictOfAFailure runs against nothing: exit code 0, since
// the verdict is written, and no number.
func TestMainWritesTheVerdictOfAFailure(t *testing.T) {
	s := spec(prompts(t, 2, 0, 4))
	s.URL = "http://127.0.0.1:1" // nobody listens there
	path, out := specFile(t, s)
	if code := observe.Main(path, s.URL); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	if o := readOutcome(t, out); o.Class != result.ConnFailed || !strings.Contains(o.Reason, "refused") {
		t.Errorf("outcome is %+v", o)
	}
	r, err := bench.ReadRow(filepath.Join(out, bench.RowFile))
	if err != nil || r.Status != result.Failed || len(r.Metrics) > 0 {
		t.Errorf("row is %s, error %v", describe(r), err)
	}
	files, err := os.ReadDir(out)
	if err != nil || len(files) != 4 {
		t.Errorf("%d files, error %v; want row, requests, what was seen and outcome", len(files), err)
	}
}

// TestMainRefusesWhatIsNoSpec leaves no verdict behind.
func TestMainRefusesWhatIsNoSpec(t *testing.T) {
	s := spec(filepath.Join(t.TempDir(), "missing.jsonl"))
	path, out := specFile(t, s)
	for name, path := range map[string]string{
		"missing":         filepath.Join(t.TempDir(), "spec.json"),
		"no_json":         file(t, "spec.json", "campaign {}"),
		"unknown_field":   file(t, "spec.json", `{"version":1,"modle":"sim"}`),
		"missing_dataset": path,
	} {
		if code := observe.Main(path, s.URL); code != 1 {
			t.Errorf("%s: exit code %d", name, code)
		}
	}
	if files, err := os.ReadDir(out); err != nil || len(files) != 0 {
		t.Errorf("%d files, error %v", len(files), err)
	}
}

// TestStoppedRunSaysSo ends the run from outside while a server stalls.
func TestStoppedRunSaysSo(t *testing.T) {
	arrived := make(chan struct{}, 4)
	h, err := simserve.Handler(simserve.Config{Model: "sim", Prefill: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	defer srv.Close()
	host := bench.ThisHost()
	dial := host.Dial
	host.Dial = func(ctx context.Context, network, addr string) (c net.Conn, err error) {
		c, err = dial(ctx, network, addr)
		arrived <- struct{}{}
		return c, err
	}
	ctx, stop := context.WithCancel(t.Context())
	s := spec(prompts(t, 2, 0, 4))
	s.URL = srv.URL
	go func() {
		<-arrived // for the model list; its connection carries the first request too
		<-arrived // for the second request
		stop()
	}()
	rep, err := host.Run(ctx, s)
	if err != nil || rep.Row.Class != executors.ClassInterrupted || len(rep.Row.Metrics) > 0 {
		t.Errorf("row is %s, error %v", describe(rep.Row), err)
	}
}

// TestBadSpecIsRefused names every problem at once.
func TestBadSpecIsRefused(t *testing.T) {
	good := prompts(t, 2, 1, 4)
	for _, c := range []struct {
		want   string
		change func(*bench.Spec)
	}{
		{"version is 2", func(s *bench.Spec) { s.Version = 2 }},
		{"without a final slash", func(s *bench.Spec) { s.URL = "http://sim/" }},
		{"without a final slash", func(s *bench.Spec) { s.URL = "sim:8000" }},
		{`path is "v1/completions"`, func(s *bench.Spec) { s.Path = "v1/completions" }},
		{`models is "v1"`, func(s *bench.Spec) { s.Models = "v1" }},
		{`api is "generate"`, func(s *bench.Spec) { s.API = "generate" }},
		{"model is empty", func(s *bench.Spec) { s.Model = "" }},
		{"prompts is empty", func(s *bench.Spec) { s.Prompts = "" }},
		{`the field "max_tokens"`, func(s *bench.Spec) { s.Body = map[string]any{"max_tokens": 3} }},
		{"min_success is 0", func(s *bench.Spec) { s.Rules.MinSuccess = 0 }},
		{"min_success is 1.5", func(s *bench.Spec) { s.Rules.MinSuccess = 1.5 }},
		{"min_success is NaN", func(s *bench.Spec) { s.Rules.MinSuccess = math.NaN() }},
		{"stall_ns is -1ns", func(s *bench.Spec) { s.Rules.Stall = -1 }},
		{`arrival is ""`, func(s *bench.Spec) { s.Load.Arrival = "" }},
		{`arrival "inf" has no rate`, func(s *bench.Spec) { s.Load.Rate = ptr(1.) }},
		{`arrival "poisson" needs a rate`, func(s *bench.Spec) { s.Load.Arrival = bench.Poisson }},
		{"rate is 0", func(s *bench.Spec) { s.Load.Arrival, s.Load.Rate = bench.Constant, ptr(0.) }},
		{"rate is NaN", func(s *bench.Spec) { s.Load.Arrival, s.Load.Rate = bench.Constant, ptr(math.NaN()) }},
		{"concurrency is 0", func(s *bench.Spec) { s.Load.Concurrency = ptr(0) }},
		{"warmup is -1", func(s *bench.Spec) { s.Load.Warmup = -1 }},
		{"has 1 warm-up prompts, warmup asks for 2", func(s *bench.Spec) { s.Load.Warmup = 2 }},
		{"which chat cannot carry", func(s *bench.Spec) { s.API = bench.Chat }},
		{"has no measured prompt", func(s *bench.Spec) {
			s.Prompts = file(t, "p.jsonl", `{"id":0,"warmup":true,"tokens":[1],"output_len":1}`+"\n")
		}},
	} {
		s := spec(good)
		c.change(&s)
		if _, err := bench.Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, want one with %q", err, c.want)
		}
	}
	_, err := bench.Run(t.Context(), bench.Spec{})
	if n := strings.Count(err.Error(), "\n"); n < 7 {
		t.Errorf("an empty spec has %d problems named: %v", n, err)
	}
}

func TestReadRowIsStrict(t *testing.T) {
	for want, text := range map[string]string{
		"EOF":                 "",
		"version is 0":        `{"status":"ok"}`,
		"unknown field":       `{"v":1,"statsu":"ok"}`,
		"more than one value": `{"v":1} {}`,
	} {
		if _, err := bench.ReadRow(file(t, "row.json", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}
