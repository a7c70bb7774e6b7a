package imports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/result"
)

func open(t *testing.T, name string) []Run {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := Read(b)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return runs
}

// TestFilesSayWhatTheyCompute has numbers from the files' own READMEs and
// printed tables, converted by hand.
func TestFilesSayWhatTheyCompute(t *testing.T) {
	const unknown = -1
	for _, c := range []struct {
		file, tool string
		ok, failed int
		numbers    map[string]float64
		absent     []string
	}{
		{"h200/dense8b.seqs32.json", "vllm", 256, 0, map[string]float64{"output_throughput": 2598.9577, "tpot/excl-first:mean": .0098171,
			"ttft/send:p99": 2.4311305, "itl/chunk:p50": .0064281, "e2e:p50": 3.1065348, "tpot/excl-first:p50": .0096621, "ttft/send:std": .4391343}, nil},
		{"h200/sglang.dense8b.c64.jsonl", "sglang", 256, 0, map[string]float64{"output_throughput": 2646.1088, "tpot/excl-first:mean": .0160298,
			"tpot/excl-first:p50": .0162511, "ttft/send:p50": 1.061829, "ttft/send:p99": 1.848021, "e2e/last-byte:p50": 3.0795885}, []string{"e2e:p50"}},
		{"h200/dense8b.default_rate8.json", "vllm", 96, 0, map[string]float64{"output_throughput": 969.32, "tpot/excl-first:mean": .00644, "ttft/send:p99": .07841}, nil},
		{"vllm_failing_partial.json", "vllm", 14, 6, nil, nil},
		{"vllm_goodput.json", "vllm", 40, 0, nil, []string{"e2e:p50"}}, // not among its selected metrics
		// 6,400 tokens in 14.433816832 s by the server's count, 457 by its own.
		{"aiperf.json", "aiperf", 100, 0, map[string]float64{"output_throughput": 6400 / 14.433816832, "output_throughput-retokenized": 457.45985,
			"tpot/excl-first-retokenized:mean": .003347932, "itl/chunk:mean": .0034523, "itl/chunk:p50": 0, "ttft/send:p50": .1490015}, []string{"tpot/excl-first:mean"}},
		{"guidellm.json", "guidellm", 100, 0, map[string]float64{"output_throughput": 462.32187, "tpot/excl-first:mean": .003713154,
			"tpot/incl-first:mean": .006105495, "ttft/written:p50": .0690336, "e2e/written:mean": .4040283, "request_throughput": 7.15154}, []string{"itl/chunk:mean", "ttft/send:p50", "e2e:mean"}},
		// 6,400 tokens in 10.7245 s; it says 724.
		{"inference-perf.json", "inference-perf", 100, 0, map[string]float64{"output_throughput": 6400 / 10.724490578999848, "output_throughput-retokenized": 723.95047,
			"tpot/excl-first-retokenized:mean": .00357779, "tpot/incl-first-retokenized:mean": .00542896, "itl/token-zero:p50": 4.567e-06,
			"ttft/answer:p50": .079325224, "e2e/last-byte:mean": .380522}, []string{"tpot/excl-first:mean"}},
		{"tensorrt_llm.json", "tensorrt_llm", 95, 1, map[string]float64{"goodput": 2.4, "ttft/send:p99": .288, "spec_accept_length/iteration": 1.9}, nil},
		{"tokenspeed.json", "tokenspeed", 96, 0, map[string]float64{"ttft/pool-from-role:p50": .110, "tpot/excl-first-from-role:p50": .0107}, []string{"ttft/send:p50"}},
	} {
		r := open(t, c.file)[0]
		failed := unknown
		if r.Requests.Failed != nil {
			failed = *r.Requests.Failed
		}
		if r.Tool != c.tool || r.Requests.OK != c.ok || failed != c.failed || r.Class != "" {
			t.Errorf("%s: %s with %d ok, %d failed, class %q", c.file, r.Tool, r.Requests.OK, failed, r.Class)
		}
		for id, want := range c.numbers {
			if n, ok := r.Number(id); !ok || math.Abs(n.Value-want) > .001*want+1e-12 {
				t.Errorf("%s: %s is %v (%v), want %v", c.file, id, n.Value, ok, want)
			}
		}
		for _, id := range c.absent {
			if n, ok := r.Number(id); ok {
				t.Errorf("%s: %s is %v; the file cannot say it", c.file, id, n)
			}
		}
		for _, n := range r.Numbers {
			if _, ok := Define(n.ID); !ok {
				t.Errorf("%s: %s has no definition", c.file, n.ID)
			}
		}
	}
}

// TestEveryRequestFailedIsAFailure reads a run that ended with exit code 0 and
// zeros for all statistics.
func TestEveryRequestFailedIsAFailure(t *testing.T) {
	r := open(t, "vllm_failing.json")[0]
	if r.Class != result.NoResult || r.Reason != "all 10 requests failed: Bad Request (10)" || len(r.Numbers) != 0 {
		t.Errorf("run is %+v", r)
	}
}

func TestSweepSummaryHasAllRuns(t *testing.T) {
	if runs := open(t, "vllm_sweep.summary.json"); len(runs) != 2 || runs[0].Requests.OK != 20 || runs[1].Tool != "vllm" {
		t.Errorf("%d runs: %+v", len(runs), runs)
	}
}

// TestH200RowsRank ranks real rows of one GPU.
func TestH200RowsRank(t *testing.T) {
	names := []string{"eager", "seqs32", "mnbt2048", "default_inf_c64_1"}
	var runs []Run
	for _, n := range names {
		runs = append(runs, open(t, "h200/dense8b."+n+".json")...)
	}
	order := func(limits ...Limit) (out []string, places []Place) {
		places, err := Rank(runs, "output_throughput", limits)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range places {
			if p.Rank > 0 {
				out = append(out, names[p.Run])
			}
		}
		return out, places
	}
	if got, _ := order(); !slices.Equal(got, []string{"default_inf_c64_1", "mnbt2048", "seqs32", "eager"}) {
		t.Errorf("order is %v", got)
	}
	a, _ := runs[3].Number("output_throughput")
	b, _ := runs[2].Number("output_throughput")
	if ratio, err := Compare(a, b); err != nil || math.Abs(ratio-1) > .008 {
		t.Errorf("default over mnbt2048 is %v, error %v; want within 0.8 %%", ratio, err)
	}
	got, places := order(Limit{"tpot/excl-first:p50", .012})
	if !slices.Equal(got, []string{"seqs32"}) || len(places) != 4 || !strings.Contains(places[1].Reasons[0], "above 0.012") {
		t.Errorf("under 12 ms the order is %v, places %+v", got, places)
	}
	// SGLang's row stands beside them on the same definition.
	runs, names = append(runs, open(t, "h200/sglang.dense8b.c64.jsonl")...), append(names, "sglang")
	if got, _ := order(); !slices.Equal(got, []string{"default_inf_c64_1", "mnbt2048", "sglang", "seqs32", "eager"}) {
		t.Errorf("order is %v", got)
	}
	if o := runs[4].Requests.Output; o == nil || *o != 32768 {
		t.Errorf("SGLang's output tokens are %v; the re-tokenised 36403 are not to be used", o)
	}
}

// TestUnlikeNumbersAreNotCompared takes two tools' words for the same thing.
func TestUnlikeNumbersAreNotCompared(t *testing.T) {
	a, _ := open(t, "guidellm.json")[0].Number("tpot/incl-first:mean")
	b, _ := open(t, "vllm_compare_c4.json")[0].Number("tpot/excl-first:mean")
	if _, err := Compare(a, b); err == nil || !strings.Contains(err.Error(), "not the same number") {
		t.Errorf("error is %v", err)
	}
	// What guidellm calls inter-token latency is vLLM's TPOT: 3.713 / 3.016.
	c, _ := open(t, "guidellm.json")[0].Number("tpot/excl-first:mean")
	if ratio, err := Compare(c, b); err != nil || math.Abs(ratio-3.713/3.016) > .001 {
		t.Errorf("ratio %v, error %v", ratio, err)
	}
	if c.Key != "inter_token_latency_ms.mean" || math.Abs(c.Raw-3.713154) > 1e-5 {
		t.Errorf("the number came from %s, %v", c.Key, c.Raw)
	}
	places, err := Rank(append(open(t, "aiperf.json"), open(t, "guidellm.json")...), "tpot/excl-first:mean", nil)
	if err != nil || places[0].Run != 1 || places[1].Rank != 0 || !strings.Contains(places[1].Reasons[0], "it has no tpot/excl-first:mean") {
		t.Errorf("places %+v, error %v", places, err)
	}
}

// TestGuidellmClockMovedIn08 reads the same file as an older version's, whose
// clock started before it sought a connection.
func TestGuidellmClockMovedIn08(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "guidellm.json"))
	if err != nil {
		t.Fatal(err)
	}
	for version, id := range map[string]string{"0.8.1": "ttft/written:p50", "0.10.0": "ttft/written:p50", "1.0.0": "ttft/written:p50", "0.7.2": "ttft/send:p50", "0.3.0": "ttft/send:p50"} {
		runs, err := Read(bytes.Replace(b, []byte(`"guidellm_version": "0.8.1"`), fmt.Appendf(nil, `"guidellm_version": %q`, version), 1))
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := runs[0].Number(id); !ok || math.Abs(n.Value-.0690336) > 1e-7 {
			t.Errorf("%s: %+v %v", version, n, ok)
		}
	}
}

// TestAnotherWorkloadIsNotRanked puts a run at 8 requests a second beside one of
// 64 at a time.
func TestAnotherWorkloadIsNotRanked(t *testing.T) {
	places, err := Rank(append(open(t, "h200/dense8b.eager.json"), open(t, "h200/dense8b.default_rate8.json")...), "output_throughput", nil)
	if err != nil || places[0].Run != 0 || places[1].Rank != 0 || !strings.Contains(places[1].Reasons[0], "another request rate") {
		t.Errorf("places %+v, error %v", places, err)
	}
}

func TestRefusedFiles(t *testing.T) {
	for want, text := range map[string]string{
		"form of none of":          `{"hello":1}`,
		"it holds no run":          ``,
		"unexpected EOF":           `{"endpoint_type":"openai"`,
		"neither an object nor":    `[1,2]`,
		"completed is not a count": `{"endpoint_type":"openai","completed":-3}`,
		"duration is no positive":  `{"endpoint_type":"openai","completed":3,"duration":NaN}`,
		`the unit is "fortnight"`:  `{"aiperf_version":"1","request_count":{"avg":1},"time_to_first_token":{"unit":"fortnight","p50":1}}`,
	} {
		if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want one with %q", text, err, want)
		}
	}
}

// TestExportReadsBack writes a row in vLLM's form and reads it as one.
func TestExportReadsBack(t *testing.T) {
	rate := 8.0
	row := result.Row{Status: result.OK, Workload: result.Workload{NumPrompts: 96, Rate: &rate}, Requests: result.Requests{OK: 96, Input: 9600, Output: 960},
		Subject: result.Subject{Model: "m"}, Time: result.Times{Started: time.Unix(0, 0), Seconds: 12},
		Metrics: []result.Metric{{ID: "request_throughput", Value: 8, Unit: result.PerSecond, N: 96}, {ID: "output_throughput", Value: 80, Unit: result.TokensPerSecond, N: 96},
			{ID: "ttft/send:p50", Value: .125, Unit: result.Seconds, N: 96}, {ID: "tpot/excl-first:p99", Value: .011, Unit: result.Seconds, N: 96}}}
	b, err := VLLM(row)
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := json.Unmarshal(b, &keys); err != nil || keys["median_ttft_ms"] != 125. || keys["request_rate"] != 8. || keys["date"] != "19700101-000000" {
		t.Errorf("file is %s, error %v", b, err)
	}
	runs, err := Read(b)
	if err != nil || runs[0].Tool != "vllm" || runs[0].Requests.OK != 96 || *runs[0].Rate != 8 {
		t.Fatalf("runs %+v, error %v", runs, err)
	}
	if n, _ := runs[0].Number("tpot/excl-first:p99"); math.Abs(n.Value-.011) > 1e-12 {
		t.Errorf("p99 TPOT comes back as %v", n)
	}
	b, err = Seed("vllm", "base", row)
	if err != nil {
		t.Fatal(err)
	}
	var seed struct {
		Metrics map[string]float64 `json:"metrics"`
		Status  string             `json:"status"`
	}
	if err := json.Unmarshal(b, &seed); err != nil || seed.Status != "ok" || seed.Metrics["p50_ttft_ms"] != 125 || seed.Metrics["output_token_throughput"] != 80 {
		t.Errorf("seeds' form is %s, error %v", b, err)
	}
}

// FuzzRead: whatever a file holds, a run with numbers has successes, and its
// numbers are finite and defined.
func FuzzRead(f *testing.F) {
	for _, pattern := range []string{"testdata/*.json", "testdata/h200/*.json*"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("%d seeds, error %v", len(files), err)
		}
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		runs, err := Read(b)
		if err == nil && len(runs) == 0 {
			t.Fatal("no run and no error")
		}
		for _, r := range runs {
			if len(r.Numbers) > 0 && r.Requests.OK == 0 {
				t.Fatalf("numbers of no success: %+v", r)
			}
			for _, n := range r.Numbers {
				if _, ok := Define(n.ID); !ok || math.IsNaN(n.Value) || math.IsInf(n.Value, 0) {
					t.Fatalf("number %+v", n)
				}
			}
		}
	})
}
