package report_test

import (
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/report"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// TestFairness: nine fields by R127; what is not known passes only when it is
// waived by name, what differs never does.
func TestFairness(t *testing.T) {
	pair := func(change func(a, b *result.Row)) report.Scenario {
		a, b := cell("a", "baseline", 4, 10, 1, 0.01), cell("b", "baseline", 4, 9, 1, 0.01)
		a.Row.Subject.Weights, b.Row.Subject.Weights = "sha256:w", "sha256:w"
		change(a.Row, b.Row)
		return report.Scenario{Name: "chat", Cells: []report.Cell{a, b}}
	}
	for _, tc := range []struct {
		name, field string
		change      func(a, b *result.Row)
		waived      map[string]string
		want        report.FairnessWord
		passed      bool
	}{
		{"equal", "weights", func(*result.Row, *result.Row) {}, nil, report.Equal, true},
		{"unknown", "weights", func(_, b *result.Row) { b.Subject.Weights = "" }, nil, report.Unknown, false},
		{"waived", "weights", func(_, b *result.Row) { b.Subject.Weights = "" }, map[string]string{"weights": "hosted"}, report.Waived, true},
		{"other_waived", "weights", func(_, b *result.Row) { b.Subject.Weights = "" }, map[string]string{"tokenizer": "hosted"}, report.Unknown, false},
		{"differs_though_waived", "weights", func(_, b *result.Row) { b.Subject.Weights = "sha256:x" }, map[string]string{"weights": "hosted"}, report.Differs, false},
		{"waived_and_equal", "weights", func(*result.Row, *result.Row) {}, map[string]string{"weights": "hosted"}, report.Equal, true},
		{"no_gpus", "gpu_ids", func(*result.Row, *result.Row) {}, nil, report.Equal, true},
		{"ids_hidden", "gpu_ids", func(a, _ *result.Row) { a.Subject.Hardware.GPUCount = 1 }, nil, report.Unknown, false},
		{"flag_says_otherwise", "precision", func(a, _ *result.Row) {
			a.Subject.Flags = append(a.Subject.Flags, result.Flag{Name: "dtype", Value: "fp8"})
		}, nil, report.Differs, false},
		{"flag_says_the_same", "precision", func(a, _ *result.Row) {
			a.Subject.Flags = append(a.Subject.Flags, result.Flag{Name: "dtype", Value: "BF16"})
		}, nil, report.Equal, true},
		{"endpoint", "endpoint", func(a, _ *result.Row) { a.Workload.Endpoint = "/v1/chat/completions" }, nil, report.Differs, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := report.View{Model: report.Model{ID: "m", Precision: "bf16", Quantization: "none"}}
			s := pair(tc.change)
			s.Fairness = v.Fair(s, tc.waived)
			if len(s.Fairness) != 9 {
				t.Fatalf("%d fields, want the nine of R127", len(s.Fairness))
			}
			for _, f := range s.Fairness {
				if f.Field == tc.field && (f.Verdict != tc.want || f.Passed() != tc.passed) {
					t.Errorf("%+v, want %s", f, tc.want)
				}
			}
			v.Scenarios = []report.Scenario{s}
			text := string(v.Markdown())
			if strings.Contains(text, "**not shown to be fair**") == tc.passed {
				t.Errorf("the report does not say whether it passes:\n%s", text)
			}
			if tc.want == report.Waived && !strings.Contains(text, "| `chat` | `weights` | waived | hosted |") {
				t.Errorf("the waiver is not shown:\n%s", text)
			}
		})
	}
	if got := (report.View{}).Fair(report.Scenario{Cells: []report.Cell{cell("a", "baseline", 4, 1, 1, 1)}}, nil); got != nil {
		t.Errorf("one framework alone: %v", got)
	}
}
