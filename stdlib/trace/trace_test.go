package trace_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/stdlib/trace"
	"github.com/sotabuild/sotabuild/stdlib/trace/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	"github.com/sotabuild/sotabuild/stdlib/trace/layers"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

const edge = "read/testdata/edge/"

func triage(t *testing.T, o trace.TriageOptions) (string, error) {
	t.Helper()
	if o.Cutoff == 0 {
		o.Cutoff = trace.DefaultCutoff
	}
	var out bytes.Buffer
	err := trace.Triage(context.Background(), o, &out)
	return out.String(), err
}

func must(t *testing.T, o trace.TriageOptions) string {
	t.Helper()
	out, err := triage(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// golden compares with testdata/name; SOTABUILD_UPDATE=1 rewrites it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("SOTABUILD_UPDATE") == "1" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

// The whole report of a small trace, to read and to compare.
func TestTriageGolden(t *testing.T) {
	golden(t, "torch_compile_triton.md", must(t, trace.TriageOptions{Paths: []string{edge + "torch_compile_triton.json.gz"}}))
	golden(t, "torch_compile_triton.csv", must(t, trace.TriageOptions{Paths: []string{edge + "torch_compile_triton.json.gz"}, Format: trace.CSV}))
}

// Files without GPU work or without a trace are errors, never empty tables.
func TestNothingToShowIsAnError(t *testing.T) {
	text := filepath.Join(t.TempDir(), "notes.json")
	if err := os.WriteFile(text, []byte(`{"a":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		edge + "cpu_only_rank-34.pt.trace.json.gz":     "no GPU work",
		edge + "cupti_profiler_range.json.gz":          "no GPU work",
		sample.Path(t, "traces/vllm_cpu_tiny.json.gz"): "no GPU work", // a server on CPUs
		text:           "no torch-profiler trace",
		"missing.json": "no such file",
		t.TempDir():    "no trace file",
	} {
		out, err := triage(t, trace.TriageOptions{Paths: []string{path}})
		if err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%s: %v and %d bytes; want %q and none", path, err, len(out), want)
		}
	}
	if _, err := triage(t, trace.TriageOptions{Paths: []string{edge}, Cutoff: 2}); err == nil || !strings.Contains(err.Error(), "0 to 1") {
		t.Errorf("cut-off 2: %v", err)
	}
}

// put copies an edge file (or text) into a profiler's folder.
func put(t *testing.T, dir, name, from string) {
	t.Helper()
	b := []byte("text")
	if from != "" {
		var err error
		if b, err = os.ReadFile(edge + from); err != nil {
			t.Fatal(err)
		}
	}
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A folder as vLLM and SGLang leave it: ranks under both naming schemes, the
// front end's file without a kernel, text beside them.
func TestFolderOfAProfiler(t *testing.T) {
	dir := t.TempDir()
	gpu := "gpu_only_no_cpu_op.json.gz"
	put(t, dir, "rank1.1796.pt.trace.json.gz", gpu)
	put(t, dir, "dp0_pp0_tp0_dcp0_ep0_rank0.1796.pt.trace.json.gz", gpu)
	put(t, dir, "host.async_llm.1796.pt.trace.json.gz", "cpu_only_rank-34.pt.trace.json.gz")
	put(t, dir, "profiler_out_0.txt", "")
	put(t, dir, "server_args.json", "")
	put(t, dir, "merged-1790.trace.json.gz", gpu)
	put(t, dir, "decode/1790-TP-0-DECODE.trace.json.gz", gpu)
	inputs, notes, err := trace.Inputs([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	type short struct {
		base  string
		rank  int
		stage launch.Stage
	}
	var got []short
	for _, in := range inputs {
		got = append(got, short{filepath.Base(in.Path), in.Rank, in.Stage})
	}
	want := []short{
		{"1790-TP-0-DECODE.trace.json.gz", 0, launch.Decode},
		{"host.async_llm.1796.pt.trace.json.gz", -1, launch.None},
		{"dp0_pp0_tp0_dcp0_ep0_rank0.1796.pt.trace.json.gz", 0, launch.None},
		{"rank1.1796.pt.trace.json.gz", 1, launch.None},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(short{})); d != "" {
		t.Errorf("inputs (-want +got):\n%s", d)
	}
	if len(notes) != 3 {
		t.Errorf("notes %q, want one each for the summary, the arguments and the merged file", notes)
	}
	out := must(t, trace.TriageOptions{Paths: []string{dir}})
	for _, want := range []string{"holds 30 events of the host only", "profiler_out_0.txt", "## Ranks", "100.0 % by file name"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report does not say %q", want)
		}
	}
	if strings.Contains(out, "## unknown, rank 1") {
		t.Error("tables of rank 1 are printed beside those of rank 0")
	}
}

// The whole way with a mapping trace: all three tables, sources and shapes.
func TestMappingAndFormal(t *testing.T) {
	out := must(t, trace.TriageOptions{
		Paths:   []string{sample.Path(t, "traces/sglang_Qwen3-8B_decode_graph_mi300x.json.gz")},
		Mapping: sample.Path(t, "traces/sglang_Qwen3-8B_decode_capture_bs32_mi300x.json.gz"),
	})
	for _, want := range []string{"Mapping trace:", "joined to the mapping 97", "aiter/tuned_gemm.py:395 torch_gemm (100 %)", "32×4096 · 4096×24576", "headroom"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report does not say %q", want)
		}
	}
}

// A mapping trace that is another model's, or cut off, lends without saying so
// nothing that could be taken for whole.
func TestOddMappings(t *testing.T) {
	whole := sample.Path(t, "traces/vllm_prefill_eager_b200.json.gz")
	b, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.json.gz")
	if err := os.WriteFile(cut, b[:700_000], 0o600); err != nil {
		t.Fatal(err)
	}
	if out := must(t, trace.TriageOptions{Paths: []string{whole}, Mapping: cut}); !strings.Contains(out, "Note: Of the mapping trace only a part was read: Partial") {
		t.Error("the report does not say that the mapping is cut off")
	}
	out := must(t, trace.TriageOptions{Paths: []string{sample.Path(t, "traces/vllm_decode_fullgraph_mi300x.json.gz")}, Mapping: whole})
	if !strings.Contains(out, "% of the kernels were joined to the mapping trace") {
		t.Error("the report does not say that hardly a kernel was joined")
	}
}

// Two ranks of DLRM: both wait for each other in the same ten exchanges, and
// each exchange takes as long as the shorter of the two kernels.
func TestRankSkew(t *testing.T) {
	out := must(t, trace.TriageOptions{Format: trace.JSON, Paths: []string{
		sample.Path(t, "traces/dlrm_pair_rank-0.json.gz"), sample.Path(t, "traces/dlrm_pair_rank-1.json.gz"),
	}})
	var res trace.TriageResult
	if err := json.Unmarshal([]byte(out), &res); err != nil {
		t.Fatal(err)
	}
	if len(res.Ranks) != 2 {
		t.Fatalf("%d rank rows", len(res.Ranks))
	}
	for i, want := range []struct{ matching, hidden int64 }{{396_199_000, 59_216_000}, {379_053_000, 75_530_000}} {
		r := res.Ranks[i]
		if r.Rank != i || r.Matched != 10 || r.Matching != want.matching || r.Hidden != want.hidden || r.Transfer+r.Waiting != r.Matching {
			t.Errorf("%+v, want %+v", r, want)
		}
	}
	if res.Ranks[0].Transfer != res.Ranks[1].Transfer {
		t.Error("the transfer is one for both ranks")
	}
}

func TestCSVIsReadable(t *testing.T) {
	out := must(t, trace.TriageOptions{Format: trace.CSV, Paths: []string{edge + "gpu_only_no_cpu_op.json.gz"}})
	r := csv.NewReader(strings.NewReader(out))
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]int{}
	for _, row := range rows {
		tables[row[0]]++
	}
	for _, want := range []string{"Kernel Table", "Overlap Opportunity Table", "Families"} {
		if tables[want] == 0 {
			t.Errorf("no rows of %s in %v", want, tables)
		}
	}
	// 44 different kernels and a header: CSV is not cut at one percent.
	if tables["Kernel Table"] != 45 {
		t.Errorf("%d rows of kernels, want 45", tables["Kernel Table"])
	}
}

// The same input gives the same bytes.
func TestDeterministic(t *testing.T) {
	o := trace.TriageOptions{Paths: []string{edge + "gpu_only_no_cpu_op.json.gz"}}
	first := must(t, o)
	for range 5 {
		if must(t, o) != first {
			t.Fatal("two runs differ")
		}
	}
}

// A row at exactly the cut-off is shown; one below is summed.
func TestExactlyAtTheCutoff(t *testing.T) {
	text := sample.Text(t, []sample.Step{{Name: "step[DECODE bs=1]", Start: 0, End: 3_000_000}}, []sample.Kernel{
		{Name: "nvjet_a", Start: 10_000, Dur: 980_100},
		{Name: "exactly_one_percent", Start: 1_000_000, Dur: 10_000},
		{Name: "just_below", Start: 1_020_000, Dur: 9_900},
	})
	path := filepath.Join(t.TempDir(), "t.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := must(t, trace.TriageOptions{Paths: []string{path}})
	if !strings.Contains(out, "| exactly_one_percent | other (none) | 10.0 µs | 1.00 % |") {
		t.Error("the row at the cut-off is missing")
	}
	if !strings.Contains(out, "1 rows below 1.0 %: total 9.9 µs, 0.99 %.") || strings.Contains(out, "| just_below |") {
		t.Errorf("the rest is not summed:\n%s", out)
	}
}

func TestPartialFileSaysSo(t *testing.T) {
	b, err := os.ReadFile(edge + "gpu_only_no_cpu_op.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cut.json.gz")
	if err := os.WriteFile(path, b[:len(b)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	// The first half holds the host's events only, the rest the kernels.
	if _, err := triage(t, trace.TriageOptions{Paths: []string{path}}); err == nil || !strings.Contains(err.Error(), "Partial: ") {
		t.Errorf("half a file: %v", err)
	}
	if err := os.WriteFile(path, b[:len(b)*9/10], 0o600); err != nil {
		t.Fatal(err)
	}
	if out := must(t, trace.TriageOptions{Paths: []string{path}}); !strings.Contains(out, "Warning: Partial: ") {
		t.Error("a truncated file is not called partial")
	}
}

// The nine parts, in order, in Markdown; values in JSON.
func TestLayersCommand(t *testing.T) {
	path := sample.Path(t, "traces/vllm_decode_fullgraph_mi300x.json.gz")
	var out bytes.Buffer
	if err := trace.Layers(context.Background(), trace.LayersOptions{Path: path, Pass: -1}, &out); err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, part := range []string{"## 1. Metadata", "## 2. Architecture", "## 3. Passes", "## 4. Chosen pass", "## 5. Layers", "## 6. Clusters",
		"## 7. Compute flow", "| # | Half | Category | Simplified Name | dur(us) | % | ts_rel(ms) | Input Dims |", "## 8. Perfetto ranges", "## 9. Conclusion"} {
		n := strings.Index(out.String()[at:], part)
		if n < 0 {
			t.Fatalf("part %q is missing or out of order", part)
		}
		at += n
	}
	out.Reset()
	if err := trace.Layers(context.Background(), trace.LayersOptions{Path: path, Pass: 0, Format: trace.JSON}, &out); err != nil {
		t.Fatal(err)
	}
	var v struct {
		Layers []struct{ Kernels int } `json:"layers"`
		Chosen struct{ Reason string } `json:"chosen"`
	}
	if err := json.Unmarshal(out.Bytes(), &v); err != nil || len(v.Layers) != 24 || v.Chosen.Reason != "asked for" {
		t.Errorf("%v, %d layers, %q", err, len(v.Layers), v.Chosen.Reason)
	}
	err := trace.Layers(context.Background(), trace.LayersOptions{Path: path, Pass: 9}, &out)
	if err == nil || !strings.Contains(err.Error(), "no pass 9") {
		t.Errorf("pass 9: %v", err)
	}
	err = trace.Layers(context.Background(), trace.LayersOptions{Path: edge + "cuda_sync_multi_stream.json.gz", Pass: -1}, &out)
	if !errors.Is(err, layers.ErrNoPass) {
		t.Errorf("a trace without passes: %v", err)
	}
}

func TestDiffCommand(t *testing.T) {
	o := trace.DiffOptions{
		A: sample.Path(t, "h200/sglang_dense_extend.TP-0-EXTEND.trace.json.gz"),
		B: sample.Path(t, "h200/vllm_dense_prefill.rank0.pt.trace.json.gz"), Cutoff: 0.01,
	}
	for _, f := range []trace.Format{trace.Markdown, trace.JSON, trace.CSV} {
		o.Format = f
		var out bytes.Buffer
		if err := trace.Diff(context.Background(), o, &out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "FusedAddRMSNormKernel") {
			t.Errorf("%s: SGLang's own norm is not named", f)
		}
	}
	o.B = edge + "cpu_only_rank-34.pt.trace.json.gz"
	if err := trace.Diff(context.Background(), o, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "no GPU work") {
		t.Errorf("a trace of the host only: %v", err)
	}
}

func TestProgressOfBigFiles(t *testing.T) {
	var log bytes.Buffer
	if err := trace.Layers(context.Background(), trace.LayersOptions{Path: edge + "cuda_sync_multi_stream.json.gz", Pass: -1, Log: &log}, &bytes.Buffer{}); err == nil || log.Len() > 0 {
		t.Errorf("progress of a small file: %q", log.String())
	}
	big := filepath.Join(t.TempDir(), "big.json")
	f, err := os.Create(big)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(101 << 20); err != nil { // zeros take no disk
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = triage(t, trace.TriageOptions{Paths: []string{big}, Log: &log})
	if !errors.Is(err, read.ErrNoTrace) || !strings.Contains(log.String(), "reading "+big) {
		t.Errorf("%v, progress %q", err, log.String())
	}
}

func TestParseFormat(t *testing.T) {
	if f, err := trace.ParseFormat(""); err != nil || f != trace.Markdown {
		t.Errorf("%s, %v", f, err)
	}
	if _, err := trace.ParseFormat("xml"); err == nil || !strings.Contains(err.Error(), "md, json or csv") {
		t.Errorf("%v", err)
	}
}
