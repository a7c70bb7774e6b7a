package report_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/report"
	"github.com/sotabuild/sotabuild/stdlib/report/export"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// repeatedSample has two servers of which the target is first by one run each, 60
// to 58 requests/s, and behind by its repeats: 30, 36 and 35 after a rejected one,
// against 58, 59, 57 and 58.5. Their medians are 35 and 58.25.
func repeatedSample() report.View {
	v := sample()
	v.Sides, v.Scenarios = v.Sides[:2], v.Scenarios[:1]
	s := &v.Scenarios[0]
	second := cell("vllm", "tuned", 4, 59, 0.25, 0.02)
	s.Cells = []report.Cell{cell("vllm", "baseline", 4, 60, 0.2, 0.02), second, cell("sglang", "baseline", 4, 58, 0.1, 0.01)}
	v = finish(v)
	s = &v.Scenarios[0]
	runs := func(framework string, ttft float64, samples ...float64) (out []report.Repeat) {
		for i, x := range samples {
			c := cell(framework, "baseline", 4, x, ttft*float64(i+1), 0.01)
			c.Row.Time.Started = time.Date(2026, 11, 3, 0, i, 0, 0, time.UTC)
			out = append(out, report.Repeat{Row: *c.Row})
		}
		return out
	}
	for _, i := range []int{0, 2} { // the repeats are 20:55:55 h younger
		s.Cells[i].Cached = ptr(24 * time.Hour)
	}
	rejected := bad("vllm", "baseline", 4, result.Failed, result.Throttled, "12 % of the time")
	a, b := s.Cells[0].Digest, s.Cells[2].Digest
	s.Repeats = &report.Repeats{Threshold: 0.01, Max: 5, Over: true, Why: "sglang is ahead of vllm", Sides: []report.Repeated{
		{Framework: "vllm", Candidate: "baseline", Row: a, Rejected: []string{"repeat 1: throttled"}, Repeats: append([]report.Repeat{{Row: *rejected.Row}}, runs("vllm", 0.3, 30, 36, 35)...),
			Said: winners.Repeated{Verdict: winners.Behind, Against: b, Ratio: 0.603, Low: 0.6, High: 0.61, Samples: 3}},
		{Framework: "sglang", Candidate: "baseline", Row: b, Repeats: runs("sglang", 0.1, 58, 59, 57, 58.5), Said: winners.Repeated{Verdict: winners.First, Samples: 4}},
	}}
	*s = s.Settled("vllm")
	return v
}

// TestMediansOfRepeats: what was repeated is shown by what decided, in every
// form, and the run that it was chosen by is told apart.
func TestMediansOfRepeats(t *testing.T) {
	v := repeatedSample()
	text := v.Table(0)
	rows := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return !strings.HasPrefix(l, "chat  ") })
	for i, want := range []string{
		// TTFT of sglang: 100, 200, 300 and 400 ms.
		"chat 4 1 sglang baseline 4 58.25 2912 250.0 10.00 320 of 320 pass cached, 3 h",
		"chat 4 2 vllm baseline 3 35.00 1750 600.0 10.00 240 of 240 pass cached, 3 h",
	} {
		if got := strings.Join(strings.Fields(rows[i]), " "); got != want {
			t.Errorf("row %d is %q, want %q", i, got, want)
		}
	}
	for _, want := range []string{"sglang (baseline, concurrency 4) wins by 3 to 4 repeats of each; gap of vllm: 39.7 %\n", "Rows with repeats show the medians of them"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table does not say %q:\n%s", want, text)
		}
	}
	md := string(v.Markdown())
	for _, want := range []string{
		"| `chat` | 4 | `sglang` | `baseline` | 4 | 58.25 | 2912 | 250.0 | 10.00 | 39.7 % |",
		"| 4 | 1 | `sglang` | `baseline` | ok | pass | 4 | 58.25 |", "| 4 | 2 | `vllm` | `baseline` | ok | pass | 3 | 35.00 |", "| 4 | – | `vllm` | `tuned` | ok | pass | – | 59.00 |",
		"| 240 of 240 | 2026-11-03 00:00 |", "the target's gap is 39.7 %.", "the median of its repeats",
	} {
		if !strings.Contains(md, want) {
			t.Errorf("the report does not say %q:\n%s", want, md)
		}
	}
	if strings.Index(md, "| 4 | 2 | `vllm`") > strings.Index(md, "| 4 | – | `vllm` | `tuned`") {
		t.Error("a row without a rank stands above one with it")
	}
	summary := string(v.Summary())
	for _, want := range []string{"| chat | 4 | `baseline` | ok | pass | 3 | 35.00 |", "| chat | 4 | 1 | `sglang` | `baseline` | pass | 4 | 58.25 |"} {
		if !strings.Contains(summary, want) {
			t.Errorf("the summary does not say %q:\n%s", want, summary)
		}
	}
	type line struct{ framework, candidate, rank, req, numbers, repeats, started string }
	var lines []line
	for _, r := range table(t, v) {
		lines = append(lines, line{r["framework"], r["candidate_id"], r["rank"], r["request_throughput"], r["numbers"], r["repeats"], r["started"][:10]})
	}
	if want := []line{
		{"sglang", "baseline", "1", "58.25", "median of repeats", "4", "2026-11-03"}, {"sglang", "baseline", "", "58", "one run", "", "2026-11-02"},
		{"vllm", "baseline", "2", "35", "median of repeats", "3", "2026-11-03"}, {"vllm", "baseline", "", "60", "one run", "", "2026-11-02"},
		{"vllm", "tuned", "", "59", "one run", "", "2026-11-02"},
	}; !slices.Equal(lines, want) {
		t.Errorf("CSV:\n%v\nwant\n%v", lines, want)
	}
	b, err := export.JSON(v)
	if err != nil {
		t.Fatal(err)
	}
	var tree report.View
	if err := json.Unmarshal(b, &tree); err != nil {
		t.Fatal(err)
	}
	s := tree.Scenarios[0]
	if x, _ := s.Cells[0].Row.Metric("request_throughput"); x != 60 {
		t.Errorf("the cell's own run is %v in JSON, want 60", x)
	}
	for i, want := range []result.Metric{{ID: "request_throughput", Value: 35, Unit: "1/s", N: 3}, {ID: "request_throughput", Value: 58.25, Unit: "1/s", N: 4}} {
		if m := s.Repeats.Sides[i].Medians; len(m) == 0 || m[0] != want {
			t.Errorf("medians of side %d: %+v, want %+v first", i, m, want)
		}
	}
}

// TestMediansWhereNothingDecided: while the repeats go on, the one run is shown;
// where none of them was a sample, no number is.
func TestMediansWhereNothingDecided(t *testing.T) {
	v := repeatedSample()
	s := &v.Scenarios[0]
	c := s.Cells[0]
	going := *s.Repeats
	going.Over = false
	open := *s
	open.Repeats = &going
	if got := open.Decided(c); got.Repeats != nil || got.Row != c.Row {
		t.Errorf("repeats that go on are shown: %+v", got)
	}
	open = *s
	open.Open = []report.Open{{Framework: "sglang", Candidate: "tuned", Concurrency: "4", State: report.Never}}
	if got := open.Decided(c); got.Repeats != nil {
		t.Error("repeats are shown that decide nothing while a cell is open")
	}
	s.Repeats.Sides[0].Said = winners.Repeated{Verdict: winners.Out, Why: "repeat 1: server_died"}
	s.Repeats.Sides[0].Repeats = nil
	got := s.Decided(c)
	if _, ok := got.Row.Metric("request_throughput"); ok || got.Repeats == nil || *got.Repeats != 0 || s.Judge(got, v.SLA).Passed {
		t.Errorf("a side without a sample has numbers, or passes: %+v", got.Row.Metrics)
	}
	if got := s.Decided(report.Cell{Digest: key.Sum([]byte("other")), Row: c.Row}); got.Repeats != nil {
		t.Error("a row that was not repeated has repeats")
	}
}

// TestNobodyBeaten: who alone has a result is not called better than others, and
// where nobody has one it is not said that a limit was broken.
func TestNobodyBeaten(t *testing.T) {
	died := bad("sglang", "baseline", 4, result.Failed, "server_died", "exit code 1")
	skipped := bad("sglang", "odd=x", 4, result.Skipped, result.UnknownFlag, "no such flag")
	skipped.Row.Workload.Dataset = "" // nobody made its prompts
	failed := bad("vllm", "baseline", 4, result.OOM, "oom", "CUDA out of memory")
	good := cell("vllm", "baseline", 4, 60, 0.2, 0.02)
	of := func(sides int, cells ...report.Cell) (report.View, string) {
		v := sample()
		v.Sides, v.Scenarios = v.Sides[:sides], v.Scenarios[:1]
		v.Scenarios[0].Cells = cells
		v = finish(v)
		v.Scenarios[0] = v.Scenarios[0].Settled("vllm")
		return v, v.Winner(v.Scenarios[0])
	}
	v, got := of(2, good, died, skipped)
	if want := "vllm (baseline, concurrency 4) is the only one with a result: sglang has none (server_died, unknown_flag); gap of vllm: not defined (no other framework has a result)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	table := v.Table(0)
	if first := strings.Index(table, "  pass "); first < 0 || first > strings.Index(table, "  skipped ") {
		t.Errorf("a skipped row stands above rank 1:\n%s", table)
	}
	if md := string(v.Markdown()); !strings.Contains(md, "`vllm` (the only one with a result)") {
		t.Errorf("the report calls it the winner:\n%s", md)
	}
	if _, got = of(1, good); !strings.Contains(got, "is the only one with a result: no other framework is compared; gap of vllm: not defined") {
		t.Errorf("without a rival: %q", got)
	}
	v, got = of(2, failed, died, skipped)
	if got != "no winner: no framework has a result" {
		t.Errorf("%q where nothing was measured", got)
	}
	for name, doc := range map[string][]byte{"report": v.Markdown(), "summary": v.Summary(), "commands": v.WinningCommands()} {
		if text := string(doc); strings.Contains(strings.ReplaceAll(text, "row over its concurrency cells that passes the SLA", ""), "passes the SLA") {
			t.Errorf("the %s says that no row passes where none was measured:\n%s", name, text)
		}
	}
	slow := cell("vllm", "baseline", 4, 60, 2.5, 0.02)
	if _, got = of(2, slow, died); got != "no row passes the SLA" {
		t.Errorf("%q where a row breaks a limit", got)
	}
}
