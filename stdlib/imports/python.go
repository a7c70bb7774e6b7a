package imports

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/result"
)

// The four Python clients below have one ancestor and differ in what they
// count. A spread is a word in their keys, as in median_WORD_ms.
type spread struct{ word, id string }

// vllm reads `vllm bench serve --save-result`, also with --append-result, and
// the run files and summaries of its sweep.
func vllm(o object) ([]Run, error) {
	return family(o, strings.Contains(o.text("endpoint_type"), "chat"), []spread{{"ttft", "ttft/send"}, {"tpot", "tpot/excl-first"}, {"itl", "itl/chunk"}, {"e2el", "e2e"}})
}

// tokenSpeed reads `tokenspeed bench serve`; its end of a request includes the
// usage event, and its time to the first token a wait for a pooled connection.
func tokenSpeed(o object) ([]Run, error) {
	return family(o, strings.Contains(o.text("backend"), "chat"), []spread{{"ttft", "ttft/pool"}, {"tpot", "tpot/excl-first"}, {"itl", "itl/chunk"}, {"e2el", "e2e/last-byte"}})
}

// tensorRT reads TensorRT-LLM's benchmark_serving.
func tensorRT(o object) ([]Run, error) {
	runs, err := family(o, strings.Contains(o.text("backend"), "chat"), []spread{{"ttft", "ttft/send"}, {"tpot", "tpot/excl-first"}, {"itl", "itl/chunk"}, {"e2el", "e2e/last-byte"}})
	if err == nil {
		// The file has no count of failures.
		if n := o.int("num_prompts"); n != nil && *n >= runs[0].Requests.OK {
			failed := *n - runs[0].Requests.OK
			runs[0].Requests.Failed = &failed
		}
		runs[0].add("goodput", result.PerSecond, "request_goodput:", o.number("request_goodput:"), 1)
		runs[0].add("spec_accept_length/iteration", result.Tokens, "avg_decoded_tokens_per_iter.mean", o.object("avg_decoded_tokens_per_iter").number("mean"), 1)
	}
	return runs, err
}

// sglang reads a line of `sglang.bench_serving --output-file`. The count that
// it makes by encoding answers again is never used.
func sglang(o object) ([]Run, error) {
	native := o.text("backend") == "sglang"
	itl := "itl/chunk"
	if native {
		itl = "itl/token-spread"
	}
	runs, err := family(o, false, []spread{{"ttft", "ttft/send"}, {"tpot", "tpot/excl-first"}, {"itl", itl}, {"e2e_latency", "e2e/last-byte"}})
	if err != nil {
		return nil, err
	}
	r := &runs[0]
	r.Requests.Failed = nil // the file does not count them
	if errs := o.errors(); errs != nil {
		failed := 0
		for _, e := range errs {
			if e != "" {
				failed++
			}
		}
		r.Requests.Failed = &failed
	} else {
		r.Warnings = append(r.Warnings, "the file does not say how many requests failed; --output-details does")
	}
	if !native {
		r.Warnings = append(r.Warnings, "output tokens are the ones that were asked for, not counted")
	}
	return runs, nil
}

// family reads what the four forms share. With role the event that opens a
// chat, which has no token, counts as the first one.
func family(o object, role bool, spreads []spread) ([]Run, error) {
	ok, err := o.must("completed")
	if err != nil {
		return nil, err
	}
	r := Run{Model: o.text("model_id"), Concurrency: o.int("max_concurrency"), Rate: o.number("request_rate"),
		Requests: Requests{OK: ok, Failed: o.int("failed"), Input: o.count("total_input_tokens"), Output: o.count("total_output_tokens")}}
	d := o.number("duration")
	if d == nil || !(*d > 0) {
		return nil, fmt.Errorf("duration is no positive number")
	}
	r.Seconds = *d
	r.Reason = reasons(o.errors())
	r.add("request_throughput", result.PerSecond, "request_throughput", o.number("request_throughput"), 1)
	r.add("output_throughput", result.TokensPerSecond, "output_throughput", o.number("output_throughput"), 1)
	total := "total_token_throughput"
	if o.has("total_throughput") {
		total = "total_throughput"
	}
	r.add("total_throughput", result.TokensPerSecond, total, o.number(total), 1)
	r.add("goodput", result.PerSecond, "request_goodput", o.number("request_goodput"), 1)
	for _, s := range spreads {
		if role && !strings.HasPrefix(s.id, "e2e") {
			s.id += "-from-role"
		}
		r.spread(o, s)
	}
	r.Warnings = append(r.Warnings, "this client counts a stream that ends in an error event as a success")
	return []Run{r}, nil
}

// spread adds the statistics of one word, sorted by key. All zero is the form
// of "no sample".
func (r *Run) spread(o object, s spread) {
	suffix := "_" + s.word + "_ms"
	var keys []string
	zero := true
	for k := range o {
		if stat, is := strings.CutSuffix(k, suffix); is {
			if _, known := statistic(stat); known && o.number(k) != nil {
				keys = append(keys, k)
				zero = zero && *o.number(k) == 0
			}
		}
	}
	if zero {
		return
	}
	slices.Sort(keys)
	for _, k := range keys {
		stat, _ := statistic(strings.TrimSuffix(k, suffix))
		id := s.id + ":" + stat
		if _, twice := r.Number(id); !twice { // median_ and p50_ are one statistic
			r.add(id, result.Seconds, k, o.number(k), 1e-3)
		}
	}
}

// errors are the requests' error texts; nil where the file has none.
func (o object) errors() (out []string) {
	if json.Unmarshal(o["errors"], &out) != nil {
		return nil
	}
	return out
}

// reasons counts error texts: "Bad Request (10)".
func reasons(errs []string) string {
	count := map[string]int{}
	var order []string
	for _, e := range errs {
		if e == "" {
			continue
		}
		if count[e]++; count[e] == 1 {
			order = append(order, e)
		}
	}
	var out []string
	for _, e := range order[:min(len(order), 3)] {
		out = append(out, fmt.Sprintf("%.200s (%d)", e, count[e]))
	}
	return strings.Join(out, ", ")
}
