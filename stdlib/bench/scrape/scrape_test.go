package scrape

import (
	"math"
	"os"
	"strings"
	"testing"
)

func page(t *testing.T, name string) Page {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse(string(b))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRealPagesUnderNeutralNames has numbers read from the pages by eye.
func TestRealPagesUnderNeutralNames(t *testing.T) {
	for name, want := range map[string]map[Name]float64{
		"vllm_0.26.0.metrics.txt": {Running: 0, Waiting: 0, Prompt: 622620, Output: 77824, Cached: 8160, Looked: 622620, TTFTCount: 608,
			TTFTSum: 394.69991540908813, QueueSum: 133.2512544650021, Preemptions: 0, KVUsage: 0},
		"sglang_0.5.17.metrics.txt": {Running: 0, Prompt: 296721, Output: 32822, Cached: 2562, Looked: 296721, TTFTCount: 262, QueueCount: 264,
			TTFTSum: 8.676294057000007 + 214.13049631099997},
		"llamacpp.metrics.txt": {Running: 0, Waiting: 0, Prompt: 279, Output: 2201, Cached: 219, Drafts: 0, Drafted: 0, Accepted: 0},
	} {
		p := page(t, name)
		for n, v := range want {
			if got, ok := p.Value(n); !ok || math.Abs(got-v) > 1e-9*v {
				t.Errorf("%s: %s is %v (%v), want %v", name, n, got, ok, v)
			}
		}
	}
	if v, ok := page(t, "llamacpp.metrics.txt").Value(TTFTSum); ok {
		t.Errorf("llama.cpp does not say its TTFT, yet it is %v", v)
	}
}

func parse(t *testing.T, text string) Page {
	t.Helper()
	p, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSpeculationByDifference: 100 steps proposed 300 tokens and had 80, 50
// and 20 of them accepted: 2.5 tokens a step.
func TestSpeculationByDifference(t *testing.T) {
	before := parse(t, `# TYPE x counter
vllm:spec_decode_num_drafts_total{engine="0"} 1000
vllm:spec_decode_num_draft_tokens_total{engine="0"} 3000
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 10
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 10
vllm:time_to_first_token_seconds_sum 5
vllm:time_to_first_token_seconds_count 10
`)
	after := parse(t, `vllm:spec_decode_num_drafts_total{engine="0"} 1100
vllm:spec_decode_num_draft_tokens_total{engine="0"} 3300
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 160
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 90
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 50
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="2"} 20
vllm:time_to_first_token_seconds_sum 6
vllm:time_to_first_token_seconds_count 20
`)
	client := .12
	v := Between(before, after, &client)
	if !v.Speculated || v.AcceptLen == nil || *v.AcceptLen != 2.5 || len(v.AcceptAt) != 3 || v.AcceptAt[0] != .8 || v.AcceptAt[2] != .2 {
		t.Errorf("view is %+v", v)
	}
	if v.TTFTMean == nil || *v.TTFTMean != .1 || math.Abs(*v.OverTTFT-.02) > 1e-12 || v.CachedShare != nil || v.QueueMean != nil {
		t.Errorf("view is %+v", v)
	}
	// A server that was started again has lower counters: nothing is known.
	if v := Between(after, before, nil); v.AcceptLen != nil || v.TTFTMean != nil || v.Speculated {
		t.Errorf("view is %+v", v)
	}
}

// TestGaugeOfALifeIsNoAcceptance: SGLang's gauge shows that it speculates, not
// how well it did just now.
func TestGaugeOfALifeIsNoAcceptance(t *testing.T) {
	p := parse(t, "sglang:spec_accept_length{a=\"b\"} 2.4\n")
	if v := Between(p, p, nil); !v.Speculated || v.AcceptLen != nil {
		t.Errorf("view is %+v", v)
	}
	if v := Between(page(t, "sglang_0.5.17.metrics.txt"), page(t, "sglang_0.5.17.metrics.txt"), nil); v.Speculated {
		t.Error("a gauge of 0 is no speculation")
	}
}

func TestBadPages(t *testing.T) {
	for want, text := range map[string]string{
		"line 2": "a 1\nb\n", "is no number": "a much\n", "is no label": "a{b=c} 1\n", "has no value": "a{b=\"c\"}\n",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	p := parse(t, `a{b="q\"}\n",c="d"} 3 1700000000`+"\nn NaN\n")
	if len(p.series["a"]) != 1 || p.series["a"][0].labels["b"] != "q\"}\n" || p.series["n"] != nil {
		t.Errorf("page is %+v", p)
	}
}

// FuzzParse: no page makes it panic, and no number of one is not finite.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"llamacpp.metrics.txt", "vllm_0.26.0.metrics.txt"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b[:min(len(b), 4000)]))
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		for name, all := range p.series {
			for _, s := range all {
				if math.IsNaN(s.value) || math.IsInf(s.value, 0) {
					t.Fatalf("%s is %v", name, s.value)
				}
			}
		}
	})
}
