package fairness

import (
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/report"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

func cell(framework, weights string, accept *float64) report.Cell {
	return report.Cell{Framework: framework, Row: &result.Row{Status: result.OK,
		Subject: result.Subject{Model: "m", Weights: weights, Flags: []result.Flag{{Name: "--mem-fraction-static", Value: 0.8}},
			Hardware: result.Hardware{GPUModel: "NVIDIA H200", GPUCount: 1, GPUIDs: []string{"0"}}},
		Workload: result.Workload{Endpoint: "/v1/completions", Dataset: "sha256:aa", InputLen: 8, OutputLen: 4, NumPrompts: 2},
		Facts:    result.Facts{SpecAccept: accept}}}
}

// TestDiagnostics: both sets are named (R036), a difference is said (R055), an
// unknown field is neither equal nor empty (R127), and what no program exposes
// is said so (R084, R128–R131).
func TestDiagnostics(t *testing.T) {
	accept := 2.5
	failed := cell("vllm", "sha256:other", nil)
	failed.Row.Status = result.Failed // says nothing about equality
	v := report.View{Campaign: "c",
		Sides: []report.Side{{Name: "sglang", Target: true, State: report.Selected}, {Name: "vllm", State: report.Selected},
			{Name: "tokenspeed", State: report.Excluded, Reason: "by the user"}},
		Scenarios: []report.Scenario{
			{Name: "same", Cells: []report.Cell{cell("sglang", "sha256:w", &accept), cell("vllm", "sha256:w", nil), failed}},
			{Name: "other", Cells: []report.Cell{cell("sglang", "sha256:w", nil), cell("vllm", "sha256:x", nil)}},
			{Name: "unknown", Cells: []report.Cell{cell("sglang", "", nil), cell("vllm", "", nil)}},
			{Name: "none"},
		}}
	text := string(Diagnostics(v))
	for _, want := range []string{"| `tokenspeed` | excluded | by the user |", "| speculative accept length | 2.5 | not exposed |",
		"| memory and offload | --mem-fraction-static = 0.8 | --mem-fraction-static = 0.8 |", "Nothing was measured."} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	parts := strings.Split(text, "## Scenario ")
	for i, want := range []string{"| weights | sha256:w | sha256:w | equal |", "| weights | sha256:w | sha256:x | differs |", "| weights | – | – | unknown |"} {
		if !strings.Contains(parts[i+1], want) {
			t.Errorf("no %q in\n%s", want, parts[i+1])
		}
	}
}
