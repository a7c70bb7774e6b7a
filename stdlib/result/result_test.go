package result

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// good is a row that breaks no rule.
func good() *Row {
	return &Row{
		Version: RowVersion, Status: OK,
		Subject:  Subject{Model: "tiny", Flags: []Flag{{"a", 1}, {"b", "x"}}},
		Workload: Workload{Kind: "random", InputLen: 100, OutputLen: 10, NumPrompts: 8, Arrival: "inf", Endpoint: "/v1/completions"},
		Requests: Requests{OK: 7, Failed: 1, Failures: map[Class]int{Truncated: 1}, Input: 800, Output: 70},
		Metrics: []Metric{
			{"request_throughput", 3.5, PerSecond, 7}, {"output_throughput", 35, TokensPerSecond, 7},
			{"ttft/send:p50", 0.02, Seconds, 7}, {"itl/event:p50", 0, Seconds, 60}, {"success_rate", 0.875, Share, 8},
		},
		Server: Server{Command: []string{"srv"}, Client: []string{"client"}},
		Time:   Times{Started: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Seconds: 2},
	}
}

func TestValidate(t *testing.T) {
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	failed := func(r *Row) {
		r.Status, r.Class, r.Reason = Failed, Truncated, "a stream ended early"
		r.Metrics = []Metric{{"success_rate", 0.875, Share, 8}}
	}
	r := good()
	failed(r)
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	p := func(f float64) *float64 { return &f }
	for want, change := range map[string]func(*Row){
		"version 2":                                      func(r *Row) { r.Version = 2 },
		"ok with class":                                  func(r *Row) { r.Class = Truncated },
		"ok without a successful":                        func(r *Row) { r.Requests.OK = 0 },
		"ok with 7 requests of 8":                        func(r *Row) { r.Requests.OK = 6 },
		"ok without a measured span":                     func(r *Row) { r.Time.Seconds = 0 },
		"ok without request_throughput":                  func(r *Row) { r.Metrics = r.Metrics[1:] },
		"flags are not sorted":                           func(r *Row) { slices.Reverse(r.Subject.Flags) },
		`class "odd" is not in the table`:                func(r *Row) { failed(r); r.Class = "odd" },
		`class oom has status oom, the row has "failed"`: func(r *Row) { failed(r); r.Class = "oom" },
		"failed without a reason":                        func(r *Row) { failed(r); r.Reason = "" },
		"failed row with metric ttft":                    func(r *Row) { failed(r); r.Metrics = good().Metrics },
		`metric "ttft" has no definition`:                func(r *Row) { r.Metrics[2].ID = "ttft" },
		"stands twice or out of order":                   func(r *Row) { r.Metrics[2] = r.Metrics[1] },
		`in "ms", defined in "s"`:                        func(r *Row) { r.Metrics[2].Unit = "ms" },
		"of 0 samples":                                   func(r *Row) { r.Metrics[2].N = 0 },
		"p50 is NaN":                                     func(r *Row) { r.Metrics[2].Value = math.NaN() },
		"p50 is +Inf":                                    func(r *Row) { r.Metrics[2].Value = math.Inf(1) },
		"p50 is -1":                                      func(r *Row) { r.Metrics[2].Value = -1 },
		"metric output_throughput is zero":               func(r *Row) { r.Metrics[1].Value = 0 },
		"success_rate 1 with 7 of 8":                     func(r *Row) { r.Metrics[4].Value = 1 },
		"workload of 0 prompts":                          func(r *Row) { r.Workload.NumPrompts = 0 },
		"rate that is no positive":                       func(r *Row) { r.Workload.Rate = p(0) },
		"concurrency below 1":                            func(r *Row) { r.Workload.Concurrency = new(int) },
		"negative count":                                 func(r *Row) { r.Requests.Input = -1 },
		"6 examples":                                     func(r *Row) { r.Requests.Examples = make([]string, 6) },
		"1 failed requests, 0 with a class":              func(r *Row) { r.Requests.Failures = nil },
		`of class "odd", which is not`:                   func(r *Row) { r.Requests.Failures = map[Class]int{"odd": 1} },
		"cached_share is out of range":                   func(r *Row) { r.Facts.CacheHitShare = p(1.1) },
		"energy_j is out of range":                       func(r *Row) { r.Facts.EnergyJoules = p(math.NaN()) },
	} {
		r := good()
		change(r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestValidateReportsAll(t *testing.T) {
	err := (&Row{}).Validate()
	if err == nil || strings.Count(err.Error(), "\n") < 3 {
		t.Errorf("an empty row breaks many rules: %v", err)
	}
}

// Absent is absent: nothing that was not observed may appear as zero or null
// (R076).
func TestAbsentIsNotWritten(t *testing.T) {
	b, err := json.Marshal(Facts{})
	if err != nil || string(b) != "{}" {
		t.Errorf("%s, %v", b, err)
	}
	b, err = json.Marshal(good())
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"null", "cached_tokens", "max_concurrency", "request_rate", "gpu_count", "start_phases_s"} {
		if strings.Contains(string(b), word) {
			t.Errorf("%s stands in %s", word, b)
		}
	}
	var back Row
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	again, _ := json.Marshal(back)
	if d := cmp.Diff(string(b), string(again)); d != "" {
		t.Error(d)
	}
}

func TestMetric(t *testing.T) {
	r := good()
	if v, ok := r.Metric("itl/event:p50"); v != 0 || !ok {
		t.Error("a zero that was measured is there")
	}
	if _, ok := r.Metric("itl/event:p99"); ok {
		t.Error("a metric that was not measured is there")
	}
}

// Every class that is declared stands once in the table.
func TestEveryClassIsInTheTable(t *testing.T) {
	declared := append(constants(t, "../../executors/class.go"), constants(t, "class.go")...)
	var table []string
	for _, c := range Classes {
		table = append(table, string(c.Class))
		if c.Meaning == "" || c.Status == OK || c.Status == "" || c.Retries < 0 || c.Keep && c.Reject {
			t.Errorf("row %+v", c)
		}
	}
	slices.Sort(declared)
	slices.Sort(table)
	if d := cmp.Diff(declared, table); d != "" || len(table) < 30 {
		t.Errorf("(-declared +table):\n%s", d)
	}
	if _, ok := Lookup(""); ok {
		t.Error("no failure is no class")
	}
}

// constants reads the string constants of type Class in a Go file.
func constants(t *testing.T, name string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Class") && spec.Type == nil {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name != "Class" {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			s, _ := strconv.Unquote(lit.Value)
			out = append(out, s)
		}
		return true
	})
	return out
}

// The seeds' row has these metrics, and no other names may stand for them.
func TestDefinitions(t *testing.T) {
	want := []string{"mean_e2e_ms", "mean_tpot_ms", "mean_ttft_ms", "output_token_throughput", "p50_e2e_ms", "p50_tpot_ms", "p50_ttft_ms",
		"p99_e2e_ms", "p99_tpot_ms", "p99_ttft_ms", "request_throughput", "success_rate", "total_token_throughput"}
	var seeds []string
	ids, titles := map[string]bool{}, map[string]bool{}
	for _, d := range Definitions {
		if ids[d.ID] || titles[d.Title] || d.Unit == "" || d.Formula == "" {
			t.Errorf("row %+v stands twice or is not complete", d)
		}
		ids[d.ID], titles[d.Title] = true, true
		if d.Seed != "" {
			seeds = append(seeds, d.Seed)
		}
		if strings.HasSuffix(d.Seed, "_ms") != (d.Seed != "" && d.Unit == Seconds) {
			t.Errorf("%s in %s is called %s", d.ID, d.Unit, d.Seed)
		}
		if d.Unit == Seconds && d.Better != Lower || strings.Contains(d.ID, "throughput") && d.Better != Higher {
			t.Errorf("%s: direction %d", d.ID, d.Better)
		}
	}
	slices.Sort(seeds)
	if diff := cmp.Diff(want, seeds); diff != "" {
		t.Error(diff)
	}
	if d, ok := Define("ttft/send:p50"); !ok || d.Unit != Seconds {
		t.Errorf("%+v", d)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 failed requests", 1: "1 failed request", 2: "2 failed requests", 11: "11 failed requests"} {
		if got := Count(n, "failed request"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
