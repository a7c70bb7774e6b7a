package simserve

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
)

// cache is a prefix cache without a bound: it knows which blocks of prompts it
// has seen, each together with all before it. mu guards seen.
type cache struct {
	block int
	mu    sync.Mutex
	seen  map[[32]byte]bool
}

// take returns how many tokens of a prompt are cached, and caches all of it.
// At least one token is always computed.
func (c *cache) take(q request) (cached int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := [32]byte{}
	for from := 0; from+c.block <= len(q.tokens); from += c.block {
		b := sum[:]
		for _, t := range q.tokens[from : from+c.block] {
			b = binary.LittleEndian.AppendUint64(b, uint64(t))
		}
		sum = sha256.Sum256(b)
		if c.seen[sum] && cached == from {
			cached = from + c.block
		}
		c.seen[sum] = true
	}
	return min(cached, len(q.tokens)-1)
}

// counters are what /metrics says.
type counters struct {
	waiting, prompt, output, cached, done atomic.Int64
	drafts, accepted                      atomic.Int64
	ttft                                  atomic.Int64 // ns, sum
}

func (c *counters) add(q request, s Stamp, speculates bool) {
	c.prompt.Add(int64(q.input))
	c.cached.Add(int64(q.cached))
	c.output.Add(int64(q.MaxTokens))
	if len(s.Writes) == 0 {
		return
	}
	c.done.Add(1)
	c.ttft.Add(int64(s.Writes[0].Sub(s.Arrived)))
	if speculates {
		c.drafts.Add(int64(len(s.Writes)))
		c.accepted.Add(int64(q.MaxTokens - len(s.Writes)))
	}
}

// metrics is a page with vLLM's names.
func (s *server) metrics(w http.ResponseWriter, _ *http.Request) {
	c := &s.count
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	for _, m := range []struct {
		name  string
		value any
	}{
		{"num_requests_running", s.batch.Load()}, {"num_requests_waiting", c.waiting.Load()},
		{"prompt_tokens_total", c.prompt.Load()}, {"generation_tokens_total", c.output.Load()},
		{"prefix_cache_queries_total", c.prompt.Load()}, {"prefix_cache_hits_total", c.cached.Load()},
		{"spec_decode_num_drafts_total", c.drafts.Load()}, {"spec_decode_num_draft_tokens_total", c.accepted.Load()},
		{"spec_decode_num_accepted_tokens_total", c.accepted.Load()},
		{"time_to_first_token_seconds_count", c.done.Load()}, {"time_to_first_token_seconds_sum", float64(c.ttft.Load()) / 1e9},
	} {
		fmt.Fprintf(w, "vllm:%s{model_name=%q} %v\n", m.name, s.Model, m.value)
	}
}

// tokenize counts a text as the server does: a byte is a token. vLLM sends the
// text as prompt, llama.cpp as content.
func tokenize(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Prompt  string `json:"prompt"`
		Content string `json:"content"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		refuse(w, http.StatusBadRequest, "the body is no request: "+err.Error())
		return
	}
	tokens := []int{}
	for _, b := range []byte(q.Prompt + q.Content) {
		tokens = append(tokens, int(b))
	}
	answer(w, http.StatusOK, object{"count": len(tokens), "tokens": tokens})
}
