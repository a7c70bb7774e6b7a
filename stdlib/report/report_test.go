package report_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/report"
	"github.com/sotabuild/sotabuild/stdlib/report/export"
	"github.com/sotabuild/sotabuild/stdlib/report/rundir"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

func ptr[T any](x T) *T { return &x }

// poison stands in every metric of rows that are not ok. It must be shown
// nowhere.
const poison = 98765.25

var limits = winners.SLA{MaxP50TTFT: ptr(2.0), MaxP50TPOT: ptr(0.08), MinSuccess: 0.98}

// cell makes an ok row of 80 prompts, 100 tokens in and 50 out.
func cell(framework, candidate string, concurrency int, req, ttft, tpot float64) report.Cell {
	r := &result.Row{
		Version: 1, Status: result.OK,
		Subject: result.Subject{Software: "sha256:" + strings.Repeat("5", 64), Version: "1.2.3", Model: "acme/tiny",
			Flags: []result.Flag{{Name: "max_num_seqs", Value: 8}, {Name: "name", Value: "it's"}}, Hardware: result.Hardware{CPU: "Xeon", Cores: 2}},
		Workload: result.Workload{Kind: "random", Dataset: "sha256:" + strings.Repeat("d", 64), InputLen: 100, OutputLen: 50, NumPrompts: 80, Arrival: "inf", Endpoint: "/v1/completions"},
		Requests: result.Requests{OK: 80, Input: 8000, Output: 4000},
		Server: result.Server{Command: []string{"/opt/" + framework, "--max-num-seqs", "8", "--name", "it's"},
			Client: []string{"sotabuild", "client", "spec.json"}, Validated: []string{"--max-num-seqs", "--name"}},
		Time: result.Times{Started: time.Date(2026, 11, 2, 3, 4, 5, 600, time.UTC), Seconds: 80 / req},
	}
	if concurrency > 0 {
		r.Workload.Concurrency = &concurrency
		r.Workload.Dataset = "sha256:" + strings.Repeat("c", 64)
	}
	for _, m := range []struct {
		id string
		v  float64
	}{{"request_throughput", req}, {"output_throughput", 50 * req}, {"total_throughput", 150 * req}, {"ttft/send:p50", ttft},
		{"ttft/send:mean", ttft * 1.25}, {"tpot/excl-first:p50", tpot}, {"success_rate", 1}} {
		d, _ := result.Define(m.id)
		r.Metrics = append(r.Metrics, result.Metric{ID: m.id, Value: m.v, Unit: d.Unit, N: 80})
	}
	return report.Cell{Framework: framework, Candidate: candidate, Row: r}
}

// bad makes a row that is not ok and yet, against the rules, has metrics.
func bad(framework, candidate string, concurrency int, s result.Status, c result.Class, reason string) report.Cell {
	x := cell(framework, candidate, concurrency, 1, 1, 1)
	x.Row.Status, x.Row.Class, x.Row.Reason = s, c, reason
	x.Row.Requests = result.Requests{}
	x.Row.Facts = result.Facts{SpecAccept: ptr(poison), CacheHitShare: ptr(poison)}
	for i := range x.Row.Metrics {
		x.Row.Metrics[i].Value = poison
	}
	return x
}

// finish gives rows digests and scenarios their rankings.
func finish(v report.View) report.View {
	for i := range v.Scenarios {
		s := &v.Scenarios[i]
		rows := map[string][]winners.Input{}
		for j := range s.Cells {
			c := &s.Cells[j]
			b, err := json.Marshal(c.Row)
			if err != nil {
				panic(err)
			}
			c.Digest = key.Sum(append(b, c.Framework+c.Candidate...))
			rows[c.Framework] = append(rows[c.Framework], winners.Input{Digest: c.Digest, Row: *c.Row})
		}
		var in []winners.SelectionInput
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			in = append(in, winners.SelectionInput{Digest: key.Sum([]byte(name)), Selection: winners.Select(rows[name], v.SLA)})
		}
		s.Ranking = winners.Rank(key.Sum([]byte("vllm")), in, winners.Rules{})
	}
	return v
}

// sample is a campaign in which everything that can happen to a row happens.
func sample() report.View {
	v := report.View{
		Campaign: "tiny", Tool: "0.1.0", SLA: limits,
		Model:    report.Model{ID: "acme/tiny", Path: "/models/tiny", Tokenizer: "acme/tiny", Precision: "fp32", Quantization: "none", MaxContext: 4096},
		Workload: report.Workload{Endpoint: "completions", Dataset: "random", Arrival: "inf", Warmup: 2, Seed: 1},
		Sides: []report.Side{
			{Name: "vllm", Definition: "vllm", Target: true, State: report.Selected, Version: "1.2.3", Software: "sha256:" + strings.Repeat("5", 64),
				Helps: []report.Help{{Name: "server", Path: "help/vllm_server.txt"}}, Dropped: 65},
			{Name: "sglang", Definition: "sglang", State: report.Selected, Version: "0.5", Commit: "abc123"},
			{Name: "tensorrt_llm", Definition: "tensorrt_llm", State: report.Unavailable, Reason: "no framework block"},
			{Name: "tokenspeed", Definition: "tokenspeed", State: report.Excluded, Reason: "by the user"},
		},
		Notes: []string{"a note with | a bar"},
	}
	slow := cell("vllm", "baseline", 0, 6, 2.5, 0.02)
	slow.Cached = ptr(3 * time.Hour)
	lossy := cell("sglang", "baseline", 0, 6.25, 0.9, 0.03)
	lossy.Row.Requests = result.Requests{OK: 79, Failed: 1, Failures: map[result.Class]int{result.Truncated: 1},
		Examples: []string{"request 17: truncated: no [DONE]"}, Input: 7900, Output: 3950}
	lossy.Row.Metrics[6].Value = 0.9875
	lossy.Row.Facts = result.Facts{SpecAccept: ptr(2.5), CacheHitShare: ptr(0.0)}
	lossy.Row.Warnings = []string{"driver differs"}
	skipped := bad("vllm", "odd=a|b", 4, result.Skipped, result.UnknownFlag, "line one | a\n<b>two</b>")
	skipped.Row.Server, skipped.Row.Time, skipped.Row.Metrics = result.Server{}, result.Times{}, nil
	first := cell("vllm", "baseline", 4, 4, 0.1234, 0.01)
	first.Artifacts = report.Artifacts{ServerLog: "benchmark/logs/vllm.log", RawResult: "benchmark/raw/1.json"}
	v.Scenarios = []report.Scenario{
		{Name: "chat", InputLen: 100, OutputLen: 50, NumPrompts: 80, Cells: []report.Cell{
			first, slow, bad("vllm", "max_num_seqs=128", 4, result.OOM, "oom", "CUDA out of memory"), skipped,
			cell("sglang", "baseline", 4, 5, 0.2, 0.01), lossy,
			bad("sglang", "tuned", 4, result.Failed, result.Throttled, "12 % of the time"),
		}},
		{Name: "summarization", InputLen: 800, OutputLen: 50, NumPrompts: 80, Cells: []report.Cell{
			bad("vllm", "baseline", 4, result.Timeout, result.Stalled, "no bytes for 60 s"),
			bad("sglang", "baseline", 4, result.Failed, "server_died", "exit code 1"),
		}},
	}
	return finish(v)
}

func files(t *testing.T, v report.View) map[string][]byte {
	t.Helper()
	out, err := rundir.Files(v)
	if err != nil {
		t.Fatal(err)
	}
	out["table_wide.txt"] = []byte(v.Table(0))
	out["table_80.txt"] = []byte(v.Table(80))
	return out
}

func TestGoldens(t *testing.T) {
	for name, got := range files(t, sample()) {
		golden := filepath.Join("testdata", filepath.Base(name))
		if os.Getenv("SOTABUILD_UPDATE") == "1" {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("%s (-golden +got):\n%s", name, d)
		}
	}
}

// A row that is not ok shows no number anywhere.
func TestNoNumberOfABadRow(t *testing.T) {
	for name, b := range files(t, sample()) {
		if strings.HasSuffix(name, "final_report.json") {
			continue // raw facts of rows; its metrics are looked at below
		}
		for _, digits := range []string{"98765", "98,765", "9876", "98.765"} {
			if bytes.Contains(b, []byte(digits)) {
				t.Errorf("%s shows %s", name, digits)
			}
		}
	}
	b, err := export.JSON(sample())
	if err != nil {
		t.Fatal(err)
	}
	var tree report.View
	if err := json.Unmarshal(b, &tree); err != nil {
		t.Fatal(err)
	}
	bad := 0
	for _, s := range tree.Scenarios {
		for _, c := range s.Cells {
			if c.Row.Status != result.OK {
				bad++
				if c.Row.Metrics != nil {
					t.Errorf("metrics of %s %s in JSON", c.Framework, c.Candidate)
				}
			}
		}
	}
	if bad != 5 {
		t.Errorf("%d bad rows in JSON, want 5", bad)
	}
}

func table(t *testing.T, v report.View) []map[string]string {
	t.Helper()
	b, err := export.CSV(v)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]string
	for _, l := range lines[1:] {
		row := map[string]string{}
		for i, name := range lines[0] {
			row[name] = l[i]
		}
		out = append(out, row)
	}
	return out
}

// The first 19 columns are the reference's, in its order.
func TestCSVColumns(t *testing.T) {
	b, err := export.CSV(sample())
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(b), "\n")
	want := "framework,scenario,candidate_id,status,sla_passed,request_throughput,output_token_throughput,p50_ttft_ms,p50_tpot_ms," +
		"mean_ttft_ms,mean_tpot_ms,p99_ttft_ms,p99_tpot_ms,mean_accept_length,pre_scheduler_ms,prefix_cache_hit_rate,gpu_count,server_command,failure_reason,"
	if !strings.HasPrefix(head, want) {
		t.Errorf("columns %s", head)
	}
}

func TestCSVValues(t *testing.T) {
	rows := table(t, sample())
	if len(rows) != 9 {
		t.Fatalf("%d rows, want 9", len(rows))
	}
	// Within chat at concurrency 4: sglang with 5 requests/s before vllm with 4.
	got := rows[0]
	for name, want := range map[string]string{"framework": "sglang", "candidate_id": "baseline", "rank": "1", "max_concurrency": "4", "sla_passed": "true",
		"request_throughput": "5", "output_token_throughput": "250", "p50_ttft_ms": "200", "mean_ttft_ms": "250", "p50_tpot_ms": "10",
		"p99_ttft_ms": "", "mean_accept_length": "", "gpu_count": "", "label": "", "failure_reason": "", "started": "2026-11-02T03:04:05.0000006Z",
		"server_command": `/opt/sglang --max-num-seqs 8 --name 'it'\''s'`} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if rows[1]["framework"] != "vllm" || rows[1]["p50_ttft_ms"] != "123.4" {
		t.Errorf("second row %v", rows[1])
	}
	for _, r := range rows {
		if r["status"] == "ok" {
			continue
		}
		for _, name := range []string{"request_throughput", "p50_ttft_ms", "success_rate", "mean_accept_length", "prefix_cache_hit_rate", "rank"} {
			if r[name] != "" {
				t.Errorf("%s %s: %s is %q", r["framework"], r["status"], name, r[name])
			}
		}
		if r["sla_passed"] != "false" || r["failure_class"] == "" || r["failure_reason"] == "" {
			t.Errorf("a bad row without its words: %v", r)
		}
	}
	// A cache hit rate of zero that was measured is a zero, not a blank.
	i := slices.IndexFunc(rows, func(r map[string]string) bool { return r["framework"] == "sglang" && r["max_concurrency"] == "" })
	if rows[i]["prefix_cache_hit_rate"] != "0" || rows[i]["mean_accept_length"] != "2.5" || rows[i]["requests_failed"] != "1" {
		t.Errorf("%v", rows[i])
	}
}

// Every planned candidate is a line (R075, R081), in the seeds' schema.
func TestCandidates(t *testing.T) {
	b, err := export.Candidates(sample())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(lines) != 9 {
		t.Fatalf("%d lines, want 9", len(lines))
	}
	var objects []map[string]any
	for _, l := range lines {
		var o map[string]any
		if err := json.Unmarshal([]byte(l), &o); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"framework", "framework_version", "framework_commit", "candidate_id", "model", "status", "failure_reason", "hardware", "workload", "sla",
			"metrics", "server_command", "benchmark_command", "validated_cli_flags", "artifacts", "spec_decode", "phase_metrics", "cache", "memory", "normalization"} {
			if _, ok := o[name]; !ok {
				t.Errorf("no %s in %s", name, l)
			}
		}
		objects = append(objects, o)
	}
	at := func(o any, path ...string) any {
		for _, p := range path {
			o = o.(map[string]any)[p]
		}
		return o
	}
	first := objects[0]
	for _, c := range []struct {
		path string
		want any
	}{
		{"metrics.p50_ttft_ms", 123.4}, {"metrics.p99_ttft_ms", nil}, {"metrics.request_throughput", 4.0}, {"metrics.success_rate", 1.0},
		{"sla.passed", true}, {"sla.max_p50_ttft_ms", 2000.0}, {"sla.max_p50_tpot_ms", 80.0}, {"sla.min_success_rate", 0.98},
		{"hardware.gpu_model", nil}, {"hardware.gpu_count", nil}, {"workload.scenario", "chat"}, {"workload.max_concurrency", 4.0}, {"workload.request_rate", nil},
		{"spec_decode.mean_accept_length", nil}, {"phase_metrics", nil}, {"artifacts.server_log", "benchmark/logs/vllm.log"}, {"artifacts.server_help", nil},
		{"framework_commit", nil}, {"failure_reason", nil}, {"label", nil},
	} {
		if got := at(first, strings.Split(c.path, ".")...); got != c.want {
			t.Errorf("%s is %v, want %v", c.path, got, c.want)
		}
	}
	oom := objects[2]
	for name, v := range at(oom, "metrics").(map[string]any) {
		if v != nil {
			t.Errorf("%s of an oom row is %v", name, v)
		}
	}
	if at(oom, "status") != "oom" || at(oom, "failure_reason") != "CUDA out of memory" || at(oom, "sla", "passed") != false {
		t.Errorf("%v", oom)
	}
}

func TestSmokeIsLabelledEverywhere(t *testing.T) {
	v := sample()
	v.Smoke = true
	for _, r := range table(t, v) {
		if r["label"] != "flow_check" {
			t.Errorf("a row of a smoke campaign without label: %v", r)
		}
	}
	for name, b := range files(t, v) {
		if !strings.HasSuffix(name, ".csv") && !bytes.Contains(bytes.ToLower(b), []byte("flow check")) && !bytes.Contains(b, []byte("flow_check")) && !bytes.Contains(b, []byte(`"smoke": true`)) {
			t.Errorf("%s says nothing of a flow check", name)
		}
	}
	for _, doc := range [][]byte{v.Markdown(), v.Summary()} {
		for line := range strings.Lines(string(doc)) {
			if (strings.Contains(line, "| pass |") || strings.Contains(line, "| fail |")) && strings.Contains(line, "| ok ") && !strings.Contains(line, "(flow check)") {
				t.Errorf("row without label: %s", line)
			}
		}
	}
	// One smoke row in a real campaign is labelled by itself.
	v.Smoke = false
	v.Scenarios[0].Cells[0].Row.Workload.Smoke = true
	labelled := 0
	for _, r := range table(t, finish(v)) {
		if r["label"] != "" {
			labelled++
		}
	}
	if labelled != 1 {
		t.Errorf("%d rows labelled, want 1", labelled)
	}
}

// What a shell reads is what was run (R086).
func TestQuote(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("SKIPPED: no POSIX shell on this machine")
	}
	for _, argv := range [][]string{
		{"vllm", "serve", "/models/x y"}, {"a", ""}, {"a", "it's", `"b"`, "$HOME", "`id`", `\`, "*", "~", "#", "!", "a=b", "{a,b}", "<>", "|&;"},
		{"a", "two\nlines", "\ttab", "é", "--x={\"k\": [1, 2]}"}, {"A=b", "-n"},
	} {
		cmd := exec.Command(sh, "-c", `printf '%s\0' `+report.Quote(argv))
		cmd.Env = []string{"HOME=/nowhere"}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		if d := cmp.Diff(argv, got); d != "" {
			t.Errorf("%q:\n%s", report.Quote(argv), d)
		}
	}
	if got := report.Quote([]string{"vllm", "serve", "m", "--max-num-seqs", "8"}); got != "vllm serve m --max-num-seqs 8" {
		t.Errorf("plain words are quoted: %s", got)
	}
}

// Foreign text cannot break out of its cell or its block.
func TestForeignText(t *testing.T) {
	v := sample()
	v.Scenarios[0].Cells[0].Row.Server.Command = []string{"x", "```\n# heading"}
	v = finish(v)
	for _, doc := range [][]byte{v.Summary(), v.Markdown()} {
		if bytes.Contains(doc, []byte("<b>")) {
			t.Error("HTML of a reason stands in the document")
		}
		columns := 0
		for line := range strings.Lines(string(doc)) {
			if !strings.HasPrefix(line, "|") {
				columns = 0
				continue
			}
			n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
			if columns != 0 && n != columns {
				t.Errorf("%d bars in a table of %d: %s", n, columns, line)
			}
			columns = n
		}
	}
	if !bytes.Contains(v.WinningCommands(), []byte("````sh\nx '```\n# heading'\n````\n")) {
		t.Errorf("the block is not fenced:\n%s", v.WinningCommands())
	}
}

// Every metric that a document shows is explained in it.
func TestDefinitionsAreListed(t *testing.T) {
	for _, doc := range [][]byte{sample().Summary(), sample().Markdown()} {
		for _, id := range []string{"request_throughput", "ttft/send:p50", "tpot/excl-first:p50", "success_rate"} {
			if !bytes.Contains(doc, []byte("`"+id+"`")) {
				t.Errorf("%s is not defined", id)
			}
		}
		if bytes.Contains(doc, []byte("`e2e:p50`")) {
			t.Error("a metric is defined that no row has")
		}
		if !bytes.Contains(doc, []byte("It is not zero.")) {
			t.Error("the dash is not explained")
		}
	}
}

// Two frameworks that are one program with one set of flags share a row; both
// are shown, and neither is the winner alone.
func TestSharedRow(t *testing.T) {
	v := sample()
	s := &v.Scenarios[0]
	twin := s.Cells[5] // sglang's winner
	twin.Framework = "vllm"
	s.Cells = []report.Cell{s.Cells[5], twin}
	in := func(name string) winners.SelectionInput {
		return winners.SelectionInput{Digest: key.Sum([]byte(name)), Selection: winners.Select([]winners.Input{{Digest: twin.Digest, Row: *twin.Row}}, v.SLA)}
	}
	s.Ranking = winners.Rank(key.Sum([]byte("vllm")), []winners.SelectionInput{in("vllm"), in("sglang")}, winners.Rules{})
	got := v.Table(0)
	if !strings.Contains(got, "sglang (baseline, concurrency unlimited) and vllm (baseline, concurrency unlimited) are tied; gap of vllm: 0.0 %") {
		t.Errorf("the twin is not shown:\n%s", got)
	}
	if n := strings.Count(got, "unlimited  1 "); n != 2 {
		t.Errorf("%d rows of rank 1, want 2:\n%s", n, got)
	}
	if n := len(table(t, v)); n != 2+2 {
		t.Errorf("%d rows in the CSV, want 4", n)
	}
}

func TestWithoutResult(t *testing.T) {
	want := []string{"vllm in summarization", "sglang in summarization"}
	if d := cmp.Diff(want, sample().WithoutResult()); d != "" {
		t.Error(d)
	}
}

func TestTableFitsItsWidth(t *testing.T) {
	for _, width := range []int{80, 100, 120, 200} {
		for line := range strings.Lines(sample().Table(width)) {
			if strings.Contains(line, " wins; ") || strings.HasPrefix(line, "summarization:") || strings.HasPrefix(line, "The report has warnings") {
				continue // sentences are the terminal's to wrap
			}
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
				t.Errorf("%d columns for a terminal of %d: %s", n, width, line)
			}
		}
	}
	if got := sample().Table(0); !strings.Contains(got, "cached, 3 h") || !strings.Contains(got, "now") {
		t.Errorf("no age:\n%s", got)
	}
}

func TestEmptyView(t *testing.T) {
	v := report.View{Campaign: "none", Sides: []report.Side{{Name: "a", Target: true, State: report.Selected}}, Scenarios: []report.Scenario{{Name: "s"}}}
	for name, b := range files(t, v) {
		if len(b) == 0 && name != "benchmark/candidates.jsonl" {
			t.Errorf("%s is empty", name)
		}
	}
}

// The same View gives the same bytes, whatever the age of its rows.
func TestAgeIsInNoFile(t *testing.T) {
	a, b := sample(), sample()
	b.Scenarios[0].Cells[1].Cached = ptr(77 * time.Hour)
	fa, _ := rundir.Files(a)
	fb, _ := rundir.Files(b)
	if d := cmp.Diff(fa, fb); d != "" {
		t.Error(d)
	}
}
