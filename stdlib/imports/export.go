package imports

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/result"
)

// VLLM writes a row as `vllm bench serve --save-result` would, so that scripts
// that read such files go on working. Of a failed row it has the counts and no
// statistic, where vLLM itself would write zeros.
func VLLM(r result.Row) ([]byte, error) {
	w := r.Workload
	var rate any = "inf"
	if w.Rate != nil {
		rate = *w.Rate
	}
	out := map[string]any{
		"date": r.Time.Started.UTC().Format("20060102-150405"), "endpoint_type": "openai", "backend": "openai", "label": nil,
		"model_id": r.Subject.Model, "tokenizer_id": nil, "num_prompts": w.NumPrompts, "request_rate": rate,
		"max_concurrency": w.Concurrency, "duration": r.Time.Seconds, "completed": r.Requests.OK, "failed": r.Requests.Failed,
		"total_input_tokens": r.Requests.Input, "total_output_tokens": r.Requests.Output,
	}
	names := map[string]string{"ttft/send": "ttft", "tpot/excl-first": "tpot", "itl/event": "itl", "e2e": "e2el",
		"request_throughput": "request_throughput", "output_throughput": "output_throughput", "total_throughput": "total_token_throughput"}
	for _, m := range r.Metrics {
		base, stat, spread := strings.Cut(m.ID, ":")
		switch name, known := names[base]; {
		case !known:
		case !spread:
			out[name] = m.Value
		default:
			out[stat+"_"+name+"_ms"] = m.Value * 1e3
			if stat == "p50" {
				out["median_"+name+"_ms"] = m.Value * 1e3
			}
		}
	}
	return encode(out)
}

// Seed writes a row in the seeds' form of a candidate's result.
func Seed(framework, candidate string, r result.Row) ([]byte, error) {
	metrics := map[string]any{}
	for _, m := range r.Metrics {
		d, _ := result.Define(m.ID)
		switch {
		case d.Seed == "":
		case d.Unit == result.Seconds:
			metrics[d.Seed] = m.Value * 1e3
		default:
			metrics[d.Seed] = m.Value
		}
	}
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	return encode(map[string]any{
		"framework": framework, "framework_version": text(r.Subject.Version), "framework_commit": text(r.Subject.Commit),
		"candidate_id": candidate, "model": r.Subject.Model, "status": r.Status, "failure_reason": text(r.Reason),
		"hardware": r.Subject.Hardware, "workload": r.Workload, "metrics": metrics,
		"spec_decode":    map[string]any{"accept_length": r.Facts.SpecAccept},
		"phase_metrics":  r.Server.Phases,
		"cache":          map[string]any{"hit_share": r.Facts.CacheHitShare},
		"server_command": r.Server.Command, "benchmark_command": r.Server.Client, "validated_cli_flags": r.Server.Validated,
	})
}

func encode(v map[string]any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding row: %w", err)
	}
	return append(b, '\n'), nil
}
