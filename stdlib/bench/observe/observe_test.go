package observe

import (
	"encoding/json"
	"errors"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/bench/gpu"
	"github.com/sotabuild/sotabuild/stdlib/bench/scrape"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/simserve"
)

// TestGPUsJudgeTheRow by hand: 700 W over 10 s for 1,000 tokens are 7 J each.
func TestGPUsJudgeTheRow(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	fresh := func() *Outcome {
		r := result.Row{Status: result.OK, Requests: result.Requests{OK: 10, Output: 1000}, Time: result.Times{Seconds: 10},
			Metrics: []result.Metric{{ID: "request_throughput", Value: 1, N: 10}, {ID: "output_throughput", Value: 100, N: 10}, {ID: "success_rate", Value: 1, N: 10}}}
		return &Outcome{Report: bench.Report{Row: r}}
	}
	s := gpu.Summary{GPUs: 2, Joules: f(7000), Watts: f(700), Coverage: 1, Throttled: f(0)}
	out := fresh()
	out.GPU = &s
	out.fromGPU(bench.Look{Price: 3.6})
	for id, want := range map[string]float64{"output_throughput_per_gpu": 50, "energy_per_token": 7, "price_per_mtoken": 10} {
		if v, ok := out.Row.Metric(id); !ok || v != want {
			t.Errorf("%s is %v, want %v", id, v, want)
		}
	}
	s.Throttled = f(.02)
	out = fresh()
	out.GPU = &s
	if out.fromGPU(bench.Look{}); out.Row.Class != result.Throttled || len(out.Row.Metrics) > 0 {
		t.Errorf("row is %+v", out.Row)
	}
	// A power cap is recorded, and rejects where the campaign says so; unknown
	// does not pass then.
	s.Throttled, s.Capped = f(0), f(.5)
	for _, tc := range []struct {
		reject bool
		capped *float64
		want   result.Class
	}{{false, f(.5), ""}, {true, f(.5), result.Throttled}, {true, f(0), ""}, {true, nil, result.Throttled}} {
		out, s := fresh(), s
		s.Capped = tc.capped
		out.GPU = &s
		if out.fromGPU(bench.Look{PowerCap: tc.reject}); out.Row.Class != tc.want || out.Row.Facts.PowerCapped != tc.capped {
			t.Errorf("%+v: row is %s: %s", tc, out.Row.Class, out.Row.Reason)
		}
	}
	out = fresh()
	if out.fromGPU(bench.Look{PowerCap: true}); out.Row.Class != result.Throttled {
		t.Errorf("without any sample the row is %q", out.Row.Class)
	}
	out = fresh()
	if out.fromServer(scrape.View{Speculated: true}, bench.Look{}); out.Row.Status != result.OK {
		t.Error("real text may speculate")
	}
}

// smi puts a program called nvidia-smi into PATH that prints a line for GPU 3
// every 50 ms, as the real one does every 500 ms, until it is ended.
func smi(t *testing.T, busy string) {
	t.Helper()
	dir := t.TempDir()
	script := `#!/bin/bash
case "$*" in *--id=3*) ;; *) echo "asked for other GPUs: $*" >&2; exit 1;; esac
echo 'timestamp, index, power.draw [W], clocks.current.sm [MHz], temperature.gpu, utilization.gpu [%], memory.used [MiB], clocks_event_reasons.active'
while :; do
  now=$EPOCHREALTIME
  printf '%(%Y/%m/%d %H:%M:%S)T.%s, 3, 400.00 W, 1980 MHz, 50, ` + busy + ` %%, 1000 MiB, 0x0000000000000004\n' "${now:0:10}" "${now:11:3}"
  read -rt 0.05 <> <(:)
done
`
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// cellSpec measures a sim whose prompts take 20 ms and tokens 10 ms.
func cellSpec(t *testing.T, c simserve.Config) bench.Spec {
	t.Helper()
	h, err := simserve.Handler(c)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	file, err := dataset.Generate(dataset.Spec{Kind: "random", InputLen: 8, OutputLen: 8, Prompts: 10, Warmup: 2, VocabLo: 0, VocabHi: 512, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "prompts.jsonl")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	one := 1
	return bench.Spec{Version: bench.SpecVersion, URL: srv.URL, Path: "/v1/completions", API: bench.Completions, Model: "sim", Models: "/v1/models",
		Prompts: path, Out: t.TempDir(), Load: bench.Load{Arrival: bench.Inf, Concurrency: &one, Warmup: 2},
		Rules: bench.Rules{MinSuccess: 1, IgnoreEOS: true, MaxSendLag: time.Hour}, Look: bench.Look{Metrics: "/metrics", Random: true}}
}

var slow = simserve.Config{Model: "sim", Prefill: 20 * time.Millisecond, Step: 10 * time.Millisecond}

// TestCellSeesServerAndGPUs: 400 W on one GPU at one request at a time; the
// power cap's reason is set in every sample and only recorded.
func TestCellSeesServerAndGPUs(t *testing.T) {
	smi(t, "0")
	s := cellSpec(t, slow)
	s.Look.GPU, s.Look.GPUs, s.Look.Price = true, []string{"3"}, 3.6
	spec := filepath.Join(t.TempDir(), "client.json")
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(spec, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := Main(spec, s.URL); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	row, err := bench.ReadRow(filepath.Join(s.Out, bench.RowFile))
	if err != nil || row.Status != result.OK {
		t.Fatalf("row is %s: %s, error %v", row.Class, row.Reason, err)
	}
	var seen Seen
	if b, err = os.ReadFile(filepath.Join(s.Out, File)); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &seen); err != nil {
		t.Fatal(err)
	}
	if g := seen.GPU; g == nil || g.GPUs != 1 || g.Watts == nil || math.Abs(*g.Watts-400) > 1e-6 {
		t.Errorf("GPUs: %s", b)
	}
	// The server's own time to the first token is of the measured requests only:
	// those of the warm-up are before the first page.
	if v := seen.Server; v == nil || v.TTFTMean == nil || v.OverTTFT == nil {
		t.Errorf("server: %s", b)
	}
	if _, ok := row.Metric("output_throughput_per_gpu"); !ok {
		t.Error("no throughput of a GPU")
	}
	if row.Facts.Throttled != nil {
		t.Error("no sample was busy, so nothing is known of throttling")
	}
}

// TestBusyGPUStopsTheRun before anything is measured, with a row that says so.
func TestBusyGPUStopsTheRun(t *testing.T) {
	smi(t, "97")
	s := cellSpec(t, slow)
	s.Look.GPU, s.Look.GPUs = true, []string{"3"}
	var busy *BusyError
	if _, err := Run(t.Context(), bench.ThisHost(), s); !errors.As(err, &busy) || !strings.Contains(err.Error(), "GPU 3 is 97 % busy") {
		t.Errorf("error %v", err)
	}
	s.Look.Busy = true
	if out, err := Run(t.Context(), bench.ThisHost(), s); err != nil || out.Row.Status != result.OK || out.Row.Facts.PowerCapped == nil || *out.Row.Facts.PowerCapped != 1 {
		t.Errorf("row %+v, error %v", out.Row, err)
	}
}

// TestGPUsThatCannotBeSampled are an error where they were asked for, and a
// warning where they are an extra.
func TestGPUsThatCannotBeSampled(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	s := cellSpec(t, slow)
	s.Look.GPU = true
	if _, err := Run(t.Context(), bench.ThisHost(), s); err == nil || !strings.Contains(err.Error(), "nvidia-smi") {
		t.Errorf("error %v", err)
	}
	s.Look.Lenient = true
	out, err := Run(t.Context(), bench.ThisHost(), s)
	if err != nil || out.Row.Status != result.OK || len(out.Row.Warnings) != 1 || !strings.Contains(out.Row.Warnings[0], "nvidia-smi") || out.GPU != nil {
		t.Errorf("row %+v, error %v", out.Row, err)
	}
	s.Look.PowerCap = true
	if out, err = Run(t.Context(), bench.ThisHost(), s); err != nil || out.Row.Class != result.Throttled {
		t.Errorf("row %+v, error %v", out.Row, err)
	}
}
