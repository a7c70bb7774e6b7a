package imports

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/result"
)

// aiperf reads profile_export_aiperf.json. Its latencies per token divide by a
// count of its own (it encodes the answer again) unless it was told to use the
// server's.
func aiperf(o object) ([]Run, error) {
	counted := "-retokenized"
	if string(o.object("input_config").object("endpoint")["use_server_token_count"]) == "true" {
		counted = ""
	}
	r := Run{}
	if items := o.object("input_config").object("models").list("items"); len(items) > 0 {
		r.Model = items[0].text("name")
	}
	if n := o.object("request_count").int("avg"); n != nil {
		r.Requests.OK = *n
	}
	r.Requests.Failed = o.object("error_request_count").int("avg")
	if r.Requests.Failed == nil && o.has("completed_request_count") {
		if all := o.object("completed_request_count").int("avg"); all != nil && *all >= r.Requests.OK {
			failed := *all - r.Requests.OK
			r.Requests.Failed = &failed
		}
	}
	r.Requests.Input = o.object("total_usage_prompt_tokens").count("avg")
	r.Requests.Output = o.object("total_usage_completion_tokens").count("avg")
	if d := o.object("benchmark_duration").number("avg"); d != nil {
		r.Seconds = *d
	}
	for _, p := range o.object("input_config").list("phases") {
		if p.text("name") == "profiling" {
			r.Concurrency = p.int("concurrency")
		}
	}
	r.add("request_throughput", result.PerSecond, "request_throughput.avg", o.object("request_throughput").number("avg"), 1)
	if out := r.Requests.Output; out != nil && r.Seconds > 0 {
		raw := float64(*out)
		r.add("output_throughput", result.TokensPerSecond, "total_usage_completion_tokens.avg", &raw, 1/r.Seconds)
	}
	r.add("output_throughput"+counted, result.TokensPerSecond, "output_token_throughput.avg", o.object("output_token_throughput").number("avg"), 1)
	r.add("goodput", result.PerSecond, "goodput.avg", o.object("goodput").number("avg"), 1)
	for _, m := range []spread{{"time_to_first_token", "ttft/send"}, {"inter_token_latency", "tpot/excl-first" + counted},
		{"inter_chunk_latency", "itl/chunk"}, {"request_latency", "e2e"}} {
		b := o.object(m.word)
		scale, err := unit(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.word, err)
		}
		r.block(b, m, scale)
	}
	if counted != "" {
		r.Warnings = append(r.Warnings, "latencies per token are by tokens that the client counted by encoding the answer again")
	}
	return []Run{r}, nil
}

// unit is the factor to seconds of a block's unit.
func unit(b object) (float64, error) {
	switch u := b.text("unit"); {
	case b == nil, u == "ms":
		return 1e-3, nil
	case u == "sec" || u == "s":
		return 1, nil
	case u == "us":
		return 1e-6, nil
	case u == "ns":
		return 1e-9, nil
	default:
		return 0, fmt.Errorf("the unit is %q; known are s, ms, us and ns", u)
	}
}

// block adds a block of statistics by name, sorted by name.
func (r *Run) block(b object, m spread, scale float64) {
	for _, word := range slices.Sorted(maps.Keys(b)) {
		if stat, known := statistic(word); known {
			id := m.id + ":" + stat
			if _, twice := r.Number(id); !twice {
				r.add(id, result.Seconds, m.word+"."+word, b.number(word), scale)
			}
		}
	}
}

// guidellm reads benchmarks.json: one run for each benchmark in it.
func guidellm(o object) ([]Run, error) {
	var out []Run
	// From 0.8 on its clock starts when the request's head is written; before, it
	// started where ours does, before a connection is sought.
	ttft, e2e := "ttft/send", "e2e"
	if v := strings.Split(o.object("metadata").text("guidellm_version"), "."); len(v) < 2 || v[0] != "0" || len(v[1]) > 1 || v[1] >= "8" {
		ttft, e2e = "ttft/written", "e2e/written"
	}
	for i, b := range o.list("benchmarks") {
		made := b.object("scheduler_metrics").object("requests_made")
		ok, err := made.must("successful")
		if err != nil {
			return nil, fmt.Errorf("benchmark %d: %w", i, err)
		}
		r := Run{Requests: Requests{OK: ok}, Concurrency: b.object("config").object("strategy").int("max_concurrency")}
		if bad, left := made.int("errored"), made.int("incomplete"); bad != nil && left != nil {
			failed := *bad + *left
			r.Requests.Failed = &failed
		}
		good := func(name string) object { return b.object("metrics").object(name).object("successful") }
		r.Requests.Input = good("prompt_token_count").count("total_sum")
		r.Requests.Output = good("output_token_count").count("total_sum")
		if d := b.number("duration"); d != nil {
			r.Seconds = *d
		}
		// Only means of rates are meant: their percentiles are of instants. With a
		// part cut off at either end they are of another span than ours.
		window := "/window"
		if cut := sum(b.number("warmup_duration"), b.number("cooldown_duration")); cut != nil && *cut == 0 {
			window = ""
		}
		r.add("request_throughput"+window, result.PerSecond, "requests_per_second.successful.mean", good("requests_per_second").number("mean"), 1)
		r.add("output_throughput"+window, result.TokensPerSecond, "output_tokens_per_second.successful.mean", good("output_tokens_per_second").number("mean"), 1)
		r.add("total_throughput"+window, result.TokensPerSecond, "tokens_per_second.successful.mean", good("tokens_per_second").number("mean"), 1)
		for _, m := range []struct {
			spread
			scale float64
		}{{spread{"time_to_first_token_ms", ttft}, 1e-3}, {spread{"inter_token_latency_ms", "tpot/excl-first"}, 1e-3},
			{spread{"time_per_output_token_ms", "tpot/incl-first"}, 1e-3}, {spread{"request_latency", e2e}, 1}} {
			s := good(m.word)
			if n := s.count("count"); n == nil || *n == 0 {
				continue // zeros of no sample
			}
			r.block(s, m.spread, m.scale)
			r.percentiles(s.object("percentiles"), m.spread, m.scale)
		}
		for _, w := range b.list("warnings") {
			r.Warnings = append(r.Warnings, w.text("message"))
		}
		out = append(out, r)
	}
	return out, nil
}

// percentiles adds guidellm's, whose p001 is 0.1 % and p999 99.9 %.
func (r *Run) percentiles(p object, m spread, scale float64) {
	for _, word := range slices.Sorted(maps.Keys(p)) {
		stat := word
		if len(word) == 4 {
			stat = word[:3] + "." + word[3:] // p999 is p99.9, p001 is p00.1
		}
		if stat, known := statistic(stat); known {
			id := m.id + ":" + stat
			if _, twice := r.Number(id); !twice {
				r.add(id, result.Seconds, m.word+".percentiles."+word, p.number(word), scale)
			}
		}
	}
}

func sum(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	s := *a + *b
	return &s
}

// inferencePerf reads summary_lifecycle_metrics.json and those of stages. All
// its times are seconds; its rates and times per token are by a count of its
// own.
func inferencePerf(o object) ([]Run, error) {
	s := o.object("successes")
	ok, err := s.must("count")
	if err != nil {
		return nil, fmt.Errorf("successes: %w", err)
	}
	r := Run{Requests: Requests{OK: ok, Failed: o.object("failures").int("count")}}
	if d := o.number("benchmark_time_seconds"); d != nil {
		r.Seconds = *d
	}
	r.Concurrency = o.object("load_summary").int("concurrency")
	t := s.object("throughput")
	r.add("request_throughput", result.PerSecond, "successes.throughput.requests_per_sec", t.number("requests_per_sec"), 1)
	if mean := s.object("output_tokens").number("mean"); mean != nil && r.Seconds > 0 && ok > 0 {
		r.add("output_throughput", result.TokensPerSecond, "successes.output_tokens.mean", mean, float64(ok)/r.Seconds)
	}
	r.add("output_throughput-retokenized", result.TokensPerSecond, "successes.throughput.output_tokens_per_sec", t.number("output_tokens_per_sec"), 1)
	for _, m := range []spread{{"time_to_first_token", "ttft/answer"}, {"time_per_output_token", "tpot/excl-first-retokenized"},
		{"normalized_time_per_output_token", "tpot/incl-first-retokenized"}, {"inter_token_latency", "itl/token-zero"}, {"request_latency", "e2e/last-byte"}} {
		r.block(s.object("latency").object(m.word), m, 1)
	}
	if n := s.int("token_count_mismatches"); n != nil && *n > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the client's count of tokens differs from the server's in %d requests", *n))
	}
	return []Run{r}, nil
}
