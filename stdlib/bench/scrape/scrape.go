// Package scrape reads a server's own /metrics page under neutral names, so
// that five frameworks can be looked at alike: what it thinks of its queue, its
// cache, its speculation and its times.
//
// It knows Prometheus' text form and the names of the frameworks, and fetches
// nothing. Counters are only ever used as differences of two pages. A name that
// a page does not have is absent, never zero. Functions are pure.
package scrape

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Name is a neutral name.
type Name string

// The neutral names. Times are seconds.
const (
	Running      Name = "running"       // requests being served
	Waiting      Name = "waiting"       // requests in the queue
	KVUsage      Name = "kv_usage"      // share of the KV cache in use
	Prompt       Name = "prompt_tokens" // counter
	Output       Name = "output_tokens" // counter
	Cached       Name = "cached_tokens" // counter: prompt tokens found in the prefix cache
	Looked       Name = "cache_queries" // counter: prompt tokens looked up in it
	Preemptions  Name = "preemptions"   // counter
	Drafts       Name = "spec_drafts"   // counter: speculation steps
	Drafted      Name = "spec_drafted"  // counter: tokens proposed
	Accepted     Name = "spec_accepted" // counter: tokens accepted
	QueueSum     Name = "queue_s_sum"   // of a histogram
	QueueCount   Name = "queue_count"
	TTFTSum      Name = "ttft_s_sum" // of the server's own time to the first token
	TTFTCount    Name = "ttft_count"
	AcceptGauge  Name = "spec_accept_length_gauge" // of the server's life; no difference can be made of it
	AcceptedAtBy Name = "spec_accepted_at"         // counter by label position
)

// names are the frameworks' names of each, by prefix; the first that a page has
// is taken. _total is tried with and without.
var names = []struct {
	name Name
	them []string
}{
	{Running, []string{"vllm:num_requests_running", "sglang:num_running_reqs", "trtllm_num_requests_running", "tokenspeed:num_requests_running", "llamacpp:requests_processing"}},
	{Waiting, []string{"vllm:num_requests_waiting", "sglang:num_queue_reqs", "trtllm_num_requests_waiting", "tokenspeed:num_requests_waiting", "llamacpp:requests_deferred"}},
	{KVUsage, []string{"vllm:kv_cache_usage_perc", "sglang:token_usage", "trtllm_kv_cache_utilization", "tokenspeed:kv_cache_usage_perc", "llamacpp:kv_cache_usage_ratio"}},
	{Prompt, []string{"vllm:prompt_tokens", "sglang:prompt_tokens", "trtllm_prompt_tokens", "tokenspeed:prompt_tokens", "llamacpp:prompt_tokens"}},
	{Output, []string{"vllm:generation_tokens", "sglang:generation_tokens", "trtllm_generation_tokens", "tokenspeed:generation_tokens", "llamacpp:tokens_predicted"}},
	{Cached, []string{"vllm:prefix_cache_hits", "sglang:cached_tokens", "trtllm_prompt_cached_tokens", "tokenspeed:prefix_cache_hits", "llamacpp:prompt_tokens_cached"}},
	{Looked, []string{"vllm:prefix_cache_queries", "sglang:prompt_tokens", "trtllm_prompt_tokens", "tokenspeed:prompt_tokens"}},
	{Preemptions, []string{"vllm:num_preemptions", "sglang:num_retracted_reqs"}},
	{Drafts, []string{"vllm:spec_decode_num_drafts", "tokenspeed:spec_decode_num_drafts", "llamacpp:spec_decode_num_drafts"}},
	{Drafted, []string{"vllm:spec_decode_num_draft_tokens", "trtllm_spec_decode_num_draft_tokens", "tokenspeed:spec_decode_draft_tokens", "llamacpp:spec_decode_num_draft_tokens"}},
	{Accepted, []string{"vllm:spec_decode_num_accepted_tokens", "trtllm_spec_decode_num_accepted_tokens", "tokenspeed:spec_decode_accepted_tokens", "llamacpp:spec_decode_num_accepted_tokens"}},
	{AcceptedAtBy, []string{"vllm:spec_decode_num_accepted_tokens_per_pos"}},
	{AcceptGauge, []string{"sglang:spec_accept_length", "trtllm_spec_decode_acceptance_length"}},
	{QueueSum, []string{"vllm:request_queue_time_seconds_sum", "sglang:queue_time_seconds_sum", "trtllm_request_queue_time_seconds_sum"}},
	{QueueCount, []string{"vllm:request_queue_time_seconds_count", "sglang:queue_time_seconds_count", "trtllm_request_queue_time_seconds_count"}},
	{TTFTSum, []string{"vllm:time_to_first_token_seconds_sum", "sglang:time_to_first_token_seconds_sum", "trtllm_time_to_first_token_seconds_sum", "tokenspeed:time_to_first_token_seconds_sum"}},
	{TTFTCount, []string{"vllm:time_to_first_token_seconds_count", "sglang:time_to_first_token_seconds_count", "trtllm_time_to_first_token_seconds_count", "tokenspeed:time_to_first_token_seconds_count"}},
}

// series is one line of a page.
type series struct {
	labels map[string]string
	value  float64
}

// Page is what one page says.
type Page struct{ series map[string][]series }

// Parse reads Prometheus' text form. Lines of values that are no numbers (NaN
// of a gauge without a sample) are left out.
func Parse(text string) (Page, error) {
	p := Page{map[string][]series{}}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, s, err := sample(line)
		if err != nil {
			return p, fmt.Errorf("reading metrics: line %d: %w", i+1, err)
		}
		if !math.IsNaN(s.value) && !math.IsInf(s.value, 0) {
			p.series[name] = append(p.series[name], s)
		}
	}
	return p, nil
}

// sample reads NAME{label="value",…} VALUE [TIME].
func sample(line string) (string, series, error) {
	s := series{}
	end := strings.IndexAny(line, "{ \t")
	if end <= 0 {
		return "", s, fmt.Errorf("%.60q has no value", line)
	}
	name, rest := line[:end], line[end:]
	if rest[0] == '{' {
		var err error
		if s.labels, rest, err = labels(rest[1:]); err != nil {
			return "", s, err
		}
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return "", s, fmt.Errorf("%.60q has no value", line)
	}
	v, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		return "", s, fmt.Errorf("%.60q is no number", fields[0])
	}
	s.value = v
	return name, s, nil
}

func labels(text string) (map[string]string, string, error) {
	out := map[string]string{}
	for {
		text = strings.TrimLeft(text, ", \t")
		if after, end := strings.CutPrefix(text, "}"); end {
			return out, after, nil
		}
		name, after, ok := strings.Cut(text, "=")
		if !ok || !strings.HasPrefix(after, `"`) {
			return nil, "", fmt.Errorf("%.60q is no label", text)
		}
		quoted, err := strconv.QuotedPrefix(after)
		if err != nil {
			return nil, "", fmt.Errorf("%.60q is no label", text)
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, "", fmt.Errorf("%.60q is no label", text)
		}
		out[strings.TrimSpace(name)] = value
		text = after[len(quoted):]
	}
}

// find returns the series of a neutral name; nil if the page has none.
func (p Page) find(n Name) []series {
	for _, row := range names {
		if row.name != n {
			continue
		}
		for _, theirs := range row.them {
			for _, suffix := range []string{"", "_total"} {
				if s := p.series[theirs+suffix]; s != nil {
					return s
				}
			}
		}
	}
	return nil
}

// Value is the sum over all labels (engines, ranks); not ok if the page does
// not have the name.
func (p Page) Value(n Name) (sum float64, ok bool) {
	s := p.find(n)
	for _, x := range s {
		sum += x.value
	}
	return sum, s != nil
}

// Delta is how much a counter has grown between two pages; not ok where one of
// them lacks it, or where it fell, because the server was started again.
func Delta(before, after Page, n Name) (float64, bool) {
	a, had := before.Value(n)
	b, has := after.Value(n)
	return b - a, had && has && b >= a
}

// View is what the server says of the time between two pages; nil is "not
// exposed".
type View struct {
	CachedShare *float64  `json:"cached_share,omitempty"`
	AcceptLen   *float64  `json:"spec_accept_length,omitempty"`   // tokens a step, by difference of counters
	AcceptAt    []float64 `json:"spec_accept_at,omitempty"`       // share of the steps that accepted each position, from the first
	Speculated  bool      `json:"speculated,omitempty"`           // any draft was made
	QueueMean   *float64  `json:"queue_mean_s,omitempty"`         // of one request
	TTFTMean    *float64  `json:"server_ttft_mean_s,omitempty"`   // by the server's clock
	OverTTFT    *float64  `json:"client_over_server_s,omitempty"` // client's mean TTFT minus it
	Preemptions *float64  `json:"preemptions,omitempty"`
}

// Between computes the view; clientTTFT is the client's mean, nil if unknown.
func Between(before, after Page, clientTTFT *float64) View {
	var v View
	v.CachedShare = ratio(before, after, Cached, Looked)
	v.QueueMean = ratio(before, after, QueueSum, QueueCount)
	v.TTFTMean = ratio(before, after, TTFTSum, TTFTCount)
	if v.TTFTMean != nil && clientTTFT != nil {
		over := *clientTTFT - *v.TTFTMean
		v.OverTTFT = &over
	}
	if n, ok := Delta(before, after, Preemptions); ok {
		v.Preemptions = &n
	}
	if drafted, ok := Delta(before, after, Drafted); ok && drafted > 0 {
		v.Speculated = true
	}
	if r := ratio(before, after, Accepted, Drafts); r != nil {
		length := 1 + *r
		v.AcceptLen = &length
		v.AcceptAt = positions(before, after)
	} else if g, ok := after.Value(AcceptGauge); ok && g > 0 {
		v.Speculated = true // its length is of the server's whole life: not taken
	}
	return v
}

// ratio is the quotient of two counters' growth; nil if unknown or of nothing.
func ratio(before, after Page, over, under Name) *float64 {
	a, ok := Delta(before, after, over)
	b, has := Delta(before, after, under)
	if !ok || !has || b <= 0 {
		return nil
	}
	r := a / b
	return &r
}

// positions are the shares by draft position; nil if they are not exposed.
func positions(before, after Page) []float64 {
	steps, ok := Delta(before, after, Drafts)
	by := map[int]float64{}
	for sign, p := range map[float64]Page{-1: before, 1: after} {
		for _, s := range p.find(AcceptedAtBy) {
			at, err := strconv.Atoi(s.labels["position"])
			if err != nil || at < 0 || at > 1000 {
				return nil
			}
			by[at] += sign * s.value
		}
	}
	if !ok || steps <= 0 || len(by) == 0 {
		return nil
	}
	out := make([]float64, slices.Max(slices.Collect(maps.Keys(by)))+1)
	for at, n := range by {
		out[at] = n / steps
	}
	return out
}
