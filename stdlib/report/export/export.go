// Package export writes a report's View in the forms for programs: JSON, CSV,
// and the seeds' candidates.jsonl. What is not known is null or an empty cell.
package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/report"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// JSON is the View itself, indented. Metrics of rows that are not ok are left
// out; seconds stay seconds.
func JSON(v report.View) ([]byte, error) {
	v.Scenarios = slices.Clone(v.Scenarios)
	for i := range v.Scenarios {
		s := &v.Scenarios[i]
		s.Cells, s.Repeats = slices.Clone(s.Cells), s.Repeats.Quiet()
		for j := range s.Cells {
			if c := &s.Cells[j]; c.Row.Status != result.OK {
				row := *c.Row
				row.Metrics, row.Parts = nil, nil
				c.Row = &row
			}
		}
	}
	v.Rates = slices.Clone(v.Rates)
	for i, r := range v.Rates {
		v.Rates[i] = r.Quiet()
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing report of %s as JSON: %w", v.Campaign, err)
	}
	return append(b, '\n'), nil
}

// column is one column of the CSV table; "" is an empty cell.
type column struct {
	name string
	of   func(report.View, report.Scenario, report.Cell) string
}

func metric(id string) func(report.View, report.Scenario, report.Cell) string {
	return func(_ report.View, _ report.Scenario, c report.Cell) string { return float(c.Exact(id)) }
}

// columns are the 19 of the seeds in their order, then ours. Latencies are
// milliseconds, throughputs per second.
var columns = []column{
	{"framework", func(_ report.View, _ report.Scenario, c report.Cell) string { return c.Framework }},
	{"scenario", func(_ report.View, s report.Scenario, _ report.Cell) string { return s.Name }},
	{"candidate_id", func(_ report.View, _ report.Scenario, c report.Cell) string { return c.Candidate }},
	{"status", func(_ report.View, _ report.Scenario, c report.Cell) string { return string(c.Row.Status) }},
	{"sla_passed", func(v report.View, s report.Scenario, c report.Cell) string {
		return strconv.FormatBool(s.Judge(c, v.SLA).Passed)
	}},
	{"request_throughput", metric("request_throughput")},
	{"output_token_throughput", metric("output_throughput")},
	{"p50_ttft_ms", metric("ttft/send:p50")},
	{"p50_tpot_ms", metric("tpot/excl-first:p50")},
	{"mean_ttft_ms", metric("ttft/send:mean")},
	{"mean_tpot_ms", metric("tpot/excl-first:mean")},
	{"p99_ttft_ms", metric("ttft/send:p99")},
	{"p99_tpot_ms", metric("tpot/excl-first:p99")},
	{"mean_accept_length", func(_ report.View, _ report.Scenario, c report.Cell) string { return float(c.AcceptLength()) }},
	{"pre_scheduler_ms", func(report.View, report.Scenario, report.Cell) string { return "" }}, // No row has it yet; the column is the seeds'.
	{"prefix_cache_hit_rate", func(_ report.View, _ report.Scenario, c report.Cell) string { return float(c.CacheHit()) }},
	{"gpu_count", func(_ report.View, _ report.Scenario, c report.Cell) string {
		return positive(c.Row.Subject.Hardware.GPUCount)
	}},
	{"server_command", func(_ report.View, _ report.Scenario, c report.Cell) string {
		return report.Quote(c.Row.Server.Command)
	}},
	{"failure_reason", func(_ report.View, _ report.Scenario, c report.Cell) string { return c.Row.Reason }},
	{"label", func(v report.View, _ report.Scenario, c report.Cell) string { return mark(v, c) }},
	{"rank", func(_ report.View, s report.Scenario, c report.Cell) string {
		if c.Repeats == nil && s.Decided(c).Repeats != nil {
			return "" // the rank is that of the medians' line
		}
		return positive(s.Rank(c.Digest))
	}},
	{"max_concurrency", func(_ report.View, _ report.Scenario, c report.Cell) string {
		if c.Row.Workload.Concurrency == nil {
			return ""
		}
		return strconv.Itoa(*c.Row.Workload.Concurrency)
	}},
	{"request_rate", func(_ report.View, _ report.Scenario, c report.Cell) string { return float(c.Row.Workload.Rate) }},
	{"failure_class", func(_ report.View, _ report.Scenario, c report.Cell) string { return string(c.Row.Class) }},
	{"sla_reasons", func(v report.View, s report.Scenario, c report.Cell) string {
		return strings.Join(s.Judge(c, v.SLA).Reasons, "; ")
	}},
	{"total_token_throughput", metric("total_throughput")},
	{"p50_e2e_ms", metric("e2e:p50")},
	{"success_rate", metric("success_rate")},
	{"requests_ok", func(_ report.View, _ report.Scenario, c report.Cell) string { return strconv.Itoa(c.Row.Requests.OK) }},
	{"requests_failed", func(_ report.View, _ report.Scenario, c report.Cell) string {
		return strconv.Itoa(c.Row.Requests.Failed)
	}},
	{"input_len", func(_ report.View, _ report.Scenario, c report.Cell) string { return positive(c.Row.Workload.InputLen) }},
	{"output_len", func(_ report.View, _ report.Scenario, c report.Cell) string {
		return positive(c.Row.Workload.OutputLen)
	}},
	{"num_prompts", func(_ report.View, _ report.Scenario, c report.Cell) string {
		return positive(c.Row.Workload.NumPrompts)
	}},
	{"dataset", func(_ report.View, _ report.Scenario, c report.Cell) string { return c.Row.Workload.Dataset }},
	{"framework_version", func(_ report.View, _ report.Scenario, c report.Cell) string { return c.Row.Subject.Version }},
	{"software", func(_ report.View, _ report.Scenario, c report.Cell) string { return c.Row.Subject.Software }},
	{"benchmark_command", func(_ report.View, _ report.Scenario, c report.Cell) string { return report.Quote(c.Row.Server.Client) }},
	{"started", func(_ report.View, _ report.Scenario, c report.Cell) string {
		if c.Row.Time.Started.IsZero() {
			return ""
		}
		return c.Row.Time.Started.UTC().Format(time.RFC3339Nano)
	}},
	{"row", func(_ report.View, _ report.Scenario, c report.Cell) string { return c.Digest.String() }},
	{"numbers", func(_ report.View, _ report.Scenario, c report.Cell) string {
		if c.Repeats != nil {
			return "median of repeats"
		}
		return "one run"
	}},
	{"repeats", func(_ report.View, _ report.Scenario, c report.Cell) string {
		if c.Repeats == nil {
			return ""
		}
		return strconv.Itoa(*c.Repeats)
	}},
}

// CSV is one line a row: scenarios as declared, in each the cells by
// concurrency, in each the rows best first. A row that was repeated has a line of
// its medians, with its rank, in front of the line of its run, which has none. An
// empty cell is no number.
func CSV(v report.View) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = c.name
	}
	err := w.Write(line)
	for _, s := range v.Scenarios {
		for _, cell := range s.Ordered(v.SLA) {
			lines := []report.Cell{cell}
			if decided := s.Decided(cell); decided.Repeats != nil {
				lines = []report.Cell{decided, cell}
			}
			for _, x := range lines {
				for i, c := range columns {
					line[i] = c.of(v, s, x)
				}
				if err == nil {
					err = w.Write(line)
				}
			}
		}
	}
	w.Flush()
	if err == nil {
		err = w.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("writing report of %s as CSV: %w", v.Campaign, err)
	}
	return b.Bytes(), nil
}

// mark is the label of a row of a flow check (R070).
func mark(v report.View, c report.Cell) string {
	if v.IsSmoke(c) {
		return "flow_check"
	}
	return ""
}

func float(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'g', -1, 64)
}

func positive(n int) string {
	if n < 1 {
		return ""
	}
	return strconv.Itoa(n)
}

// Candidates is benchmark/candidates.jsonl: one object a line in the seeds'
// schema, in the order of the View, failed and skipped candidates among them
// (R075, R081). What is not known is null. Further fields of ours stand beside
// the seeds' own.
func Candidates(v report.View) ([]byte, error) {
	var b bytes.Buffer
	for _, s := range v.Scenarios {
		for _, c := range s.Cells {
			line, err := json.Marshal(candidate(v, s, c))
			if err != nil {
				return nil, fmt.Errorf("writing candidate %s of %s in %s: %w", c.Candidate, c.Framework, s.Name, err)
			}
			b.Write(append(line, '\n'))
		}
	}
	return b.Bytes(), nil
}

// object keeps the order of its fields, so that a line reads like the schema.
type object []field

type field struct {
	name  string
	value any
}

// MarshalJSON writes the fields in order.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, f := range o {
		if i > 0 {
			b = append(b, ',')
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, fmt.Errorf("writing field %s: %w", f.name, err)
		}
		b = append(append(append(b, strconv.Quote(f.name)...), ':'), value...)
	}
	return append(b, '}'), nil
}

// known is a value, or nil where the zero value means that it is not known.
func known[T comparable](x T) any {
	var zero T
	if x == zero {
		return nil
	}
	return x
}

func candidate(v report.View, s report.Scenario, c report.Cell) object {
	row := c.Row
	verdict := winners.Judge(row, v.SLA)
	metrics := object{}
	for _, d := range result.Definitions {
		if d.Seed != "" {
			metrics = append(metrics, field{d.Seed, c.Exact(d.ID)})
		}
	}
	command := func(argv []string) any {
		if len(argv) == 0 {
			return nil
		}
		return report.Quote(argv)
	}
	w := row.Workload
	return object{
		{"framework", c.Framework}, {"framework_version", known(row.Subject.Version)}, {"framework_commit", known(row.Subject.Commit)},
		{"candidate_id", c.Candidate}, {"model", row.Subject.Model}, {"status", row.Status}, {"failure_reason", known(row.Reason)},
		{"hardware", object{{"gpu_model", known(row.Subject.Hardware.GPUModel)}, {"gpu_count", known(row.Subject.Hardware.GPUCount)}, {"visible_devices", row.Subject.Hardware.GPUIDs}}},
		{"workload", object{
			{"kind", w.Kind}, {"scenario", s.Name}, {"dataset_path", nil}, {"input_len", known(w.InputLen)}, {"output_len", known(w.OutputLen)},
			{"num_prompts", known(w.NumPrompts)}, {"request_rate", w.Rate}, {"max_concurrency", w.Concurrency}, {"endpoint", known(w.Endpoint)},
			{"dataset_digest", known(w.Dataset)}, {"arrival", known(w.Arrival)},
		}},
		{"sla", object{
			{"max_p50_ttft_ms", limit(v.SLA.MaxP50TTFT)}, {"max_p50_tpot_ms", limit(v.SLA.MaxP50TPOT)}, {"max_p50_e2e_ms", limit(v.SLA.MaxP50E2E)},
			{"min_success_rate", v.SLA.MinSuccess}, {"passed", verdict.Passed}, {"reasons", verdict.Reasons},
		}},
		{"metrics", metrics},
		{"spec_decode", object{{"enabled", nil}, {"algorithm", nil}, {"num_steps", nil}, {"num_draft_tokens", nil}, {"mean_accept_length", c.AcceptLength()}, {"acceptance_rate", nil}}},
		{"phase_metrics", nil},
		{"cache", object{{"prefix_cache_enabled", nil}, {"prefix_cache_hit_rate", c.CacheHit()}, {"kv_cache_tokens", nil}, {"kv_cache_utilization", nil}}},
		{"memory", nil}, {"normalization", nil},
		{"server_command", command(row.Server.Command)}, {"benchmark_command", command(row.Server.Client)},
		{"validated_cli_flags", object{{"server", row.Server.Validated}, {"benchmark", nil}}},
		{"artifacts", object{
			{"server_log", known(c.Artifacts.ServerLog)}, {"raw_result", known(c.Artifacts.RawResult)},
			{"server_help", known(c.Artifacts.Help)}, {"benchmark_help", known(c.Artifacts.BenchHelp)},
		}},
		{"label", known(mark(v, c))}, {"failure_class", known(row.Class)}, {"row", c.Digest},
		{"requests", row.Requests}, {"flags", row.Subject.Flags}, {"software", known(row.Subject.Software)},
	}
}

// limit is a limit in milliseconds, or null.
func limit(seconds *float64) *float64 {
	if seconds == nil {
		return nil
	}
	ms := report.Milli(*seconds)
	return &ms
}
