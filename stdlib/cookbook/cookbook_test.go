package cookbook_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/cookbook"
	"github.com/sotabuild/sotabuild/stdlib/frameworks"
	"github.com/sotabuild/sotabuild/stdlib/search"
)

// load converts a cookbook and loads the campaign.
func load(t *testing.T, name string, src []byte, o cookbook.Options) (*lang.Campaign, string) {
	t.Helper()
	text, diags := cookbook.Convert(name, src, o)
	if diags.HasErrors() {
		t.Fatal(diags.Text(false))
	}
	dir := t.TempDir()
	c, diags := lang.Load(lang.Input{Dir: dir, Definitions: frameworks.FS, Overlay: map[string][]byte{"campaign.hcl": text}})
	if c == nil {
		t.Fatalf("%s\n%s", diags.Text(false), text)
	}
	return c, string(text)
}

// candidates writes a framework's candidates as testdata/expand.py does.
func candidates(t *testing.T, f lang.Framework) (text string, n int) {
	t.Helper()
	var b strings.Builder
	list := search.Expand(f.Flags, f.Search)
	for _, c := range list {
		var words []string
		for _, x := range c.Flags {
			v, err := json.Marshal(x.Value.Any())
			if err != nil {
				t.Fatal(err)
			}
			words = append(words, x.Name+"="+string(v))
		}
		b.WriteString(strings.Join(words, " ") + "\n")
	}
	return b.String(), len(list)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCandidatesByHand expands the small cookbook by hand: the baseline, the
// last flag fastest, what equals the baseline left out, four at most.
func TestCandidatesByHand(t *testing.T) {
	c, text := load(t, "small.yaml", read(t, "testdata/small.yaml"), cookbook.Options{GPU: "NVIDIA H200", Vocab: 512})
	want := map[string]string{
		"vllm": `tensor_parallel_size=2 max_model_len=1000 max_num_seqs=64 note="say \"${x}\"" async_scheduling=true
tensor_parallel_size=2 max_model_len=1000 max_num_seqs=64 note="say \"${x}\"" async_scheduling=true block_size=16
tensor_parallel_size=2 max_model_len=1000 max_num_seqs=64 note="say \"${x}\"" async_scheduling=true block_size=32
tensor_parallel_size=2 max_model_len=1000 max_num_seqs=128 note="say \"${x}\"" async_scheduling=true block_size=16
`,
		"tensorrt_llm": `backend="pytorch" tp_size=2 max_seq_len=1000
backend="pytorch" tp_size=2 max_seq_len=1000 max_batch_size=32 kv_cache_free_gpu_memory_fraction=0.75
backend="pytorch" tp_size=2 max_seq_len=1000 max_batch_size=32 kv_cache_free_gpu_memory_fraction=null
`,
		"tokenspeed": `tensor_parallel_size=2 max_model_len=1000
tensor_parallel_size=2 max_model_len=1000 max_num_seqs=64
tensor_parallel_size=2 max_model_len=1000 max_num_seqs=96
`,
	}
	if len(c.Frameworks) != len(want) {
		t.Errorf("%d frameworks, want %d", len(c.Frameworks), len(want))
	}
	for _, f := range c.Frameworks {
		got, _ := candidates(t, f)
		if diff := cmp.Diff(want[f.Label], got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", f.Label, diff)
		}
	}
	if diff := cmp.Diff(lang.Sides{Target: "vllm", Compare: []string{"tensorrt_llm", "tokenspeed"}, Excluded: []string{"sglang"}, Range: c.Sides.Range}, c.Sides); diff != "" {
		t.Errorf("sides (-want +got):\n%s", diff)
	}
	if c.Frameworks[2].Verification == nil { // R039
		t.Error("tokenspeed stands beside vllm without its verification")
	}
	if w := c.Load.Workload; !w.Production || len(w.Concurrency) != 2 || w.Concurrency[0] != nil || *w.Concurrency[1] != 4 {
		t.Errorf("workload %+v", w)
	}
	for _, want := range []string{"lower = 0.25", "search.tier = 2", "NVIDIA H200", "[0, 512]"} {
		if !strings.Contains(text, want) {
			t.Errorf("the campaign does not say %q:\n%s", want, text)
		}
	}
}

// TestLimitOfOne is the one difference to the cookbooks' own tool.
func TestLimitOfOne(t *testing.T) {
	src := strings.Replace(string(read(t, "testdata/small.yaml")), "max_candidates_per_framework: 4", "max_candidates_per_framework: 2", 1)
	c, _ := load(t, "small.yaml", []byte(src), cookbook.Options{})
	if _, n := candidates(t, c.Frameworks[0]); n != 2 {
		t.Errorf("a limit of 2 gives %d", n)
	}
	src = strings.Replace(src, "max_candidates_per_framework: 2", "max_candidates_per_framework: 1", 1)
	c, text := load(t, "small.yaml", []byte(src), cookbook.Options{})
	if _, n := candidates(t, c.Frameworks[0]); n != 1 || !strings.Contains(text, "measures two, by a mistake") {
		t.Errorf("a limit of 1 gives %d\n%s", n, text)
	}
}

// reals are the real cookbooks with what testdata/expand.py printed for them:
// framework, number of candidates, sha256 of their text.
var reals = map[string]string{
	"deepseek-v3.2": "sglang 8 e1c8a90ecf8720b6cb5eef22930b653e7022f27d7b6629ea384503096d24fe82\n" +
		"vllm 8 32eca7c391e9dfb85e787400523567fb6725923dcb0f53a70037c6fa4dd84620\n" +
		"tensorrt_llm 8 1ba2a3cb55dce27d8523df0f12f95828d126079711bccc47a9d07a0efe71acb2\n" +
		"tokenspeed 7 f97a73ca28a043d7dd4d3c3495f4f7ed4c4b3120af1e649a3a2b00332201d74c\n",
	"gpt-oss-120b": "sglang 8 e1c8a90ecf8720b6cb5eef22930b653e7022f27d7b6629ea384503096d24fe82\n" +
		"vllm 8 32eca7c391e9dfb85e787400523567fb6725923dcb0f53a70037c6fa4dd84620\n" +
		"tensorrt_llm 8 1ba2a3cb55dce27d8523df0f12f95828d126079711bccc47a9d07a0efe71acb2\n" +
		"tokenspeed 7 f97a73ca28a043d7dd4d3c3495f4f7ed4c4b3120af1e649a3a2b00332201d74c\n",
	"kimi-k2.6": "sglang 8 eb5b580650959903ca023f6fefad5f7494cc04a6c8f8ab1dd1672b38e57cba6e\n" +
		"vllm 8 50ef4d6f45d3ce3f08d5bd17dc33666e12a2e91e1ce6042afd166b1a4c02fe8e\n" +
		"tensorrt_llm 8 a87a08181822ef1a6b5c4c39e61d57b1fb79da4511f48a2bee21ac00c3f384a6\n" +
		"tokenspeed 7 f0c67983a071220a1befb733a18e39d175a7d7077f80141b326daa52e6c04db0\n",
	"llada2-1-mini": "sglang 8 2dcfab042c5d4c896148930976d76a76c0ceeffcf45430fe864ab54e7abb91d8\n" +
		"vllm 8 46df87d7172c247801102e0d1ecc9ed4e1876cbdb4f19ffe31890b0a9a472e68\n" +
		"tensorrt_llm 8 b8863a56ded8a183d1a79900e7ce21987b13db39896909fd3eea480747965c82\n" +
		"tokenspeed 7 5facd414495e37946265d10ea9f6b83a807d1d1a2f0a67acc8f97a4fb7fb7fe5\n",
	"llama-3.3-70b-instruct": "sglang 7 60aab5ecf60f26ba305a1b02d3bc45e9444133662cc4dc9df9d4389e409ff29b\n" +
		"vllm 8 d8460b717eca15f5dfe8df26f666aa3690bd1908ac59571911f9bcea83c16aaf\n" +
		"tensorrt_llm 8 3b9650547188e1fd0f124d7eafb5e8f627b150ac1ac49399b2378ea4e49ed187\n" +
		"tokenspeed 7 4a0f0f5bd3e826450712cdc56f2ae2690484fe55083eb74518f4552f2bf5a544\n",
	"qwen3-235b-a22b": "sglang 8 e1c8a90ecf8720b6cb5eef22930b653e7022f27d7b6629ea384503096d24fe82\n" +
		"vllm 8 32eca7c391e9dfb85e787400523567fb6725923dcb0f53a70037c6fa4dd84620\n" +
		"tensorrt_llm 8 1ba2a3cb55dce27d8523df0f12f95828d126079711bccc47a9d07a0efe71acb2\n" +
		"tokenspeed 7 f97a73ca28a043d7dd4d3c3495f4f7ed4c4b3120af1e649a3a2b00332201d74c\n",
}

// TestRealCookbooks imports the real cookbooks, where they lie beside the
// project, and compares their candidates with the independent expansion.
func TestRealCookbooks(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "shared", "data", "cookbooks")
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("SKIPPED: the recorded cookbooks are not there: %v", err)
	}
	for name, want := range reals {
		c, _ := load(t, name+".yaml", read(t, filepath.Join(folder, name+".yaml")), cookbook.Options{})
		got := ""
		for _, f := range c.Frameworks {
			text, n := candidates(t, f)
			sum := sha256.Sum256([]byte(text))
			got += fmt.Sprintf("%s %d %s\n", f.Label, n, hex.EncodeToString(sum[:]))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-expand.py +import):\n%s", name, diff)
		}
	}
	src := read(t, filepath.Join(folder, "example-plan.invalid.yaml"))
	text, diags := cookbook.Convert("example-plan.invalid.yaml", src, cookbook.Options{})
	if text != nil || !diags.HasErrors() {
		t.Fatal("the example plan was imported")
	}
	// What the cookbooks' own validator says of it: 7 messages.
	for _, want := range []string{
		"lacks schema_version", "lacks source", "sglang lacks server_command", "vllm lacks server_command", "tensorrt_llm lacks server_command",
		"tokenspeed lacks server_command", "tensorrt_llm has no base flag max_seq_len",
	} {
		if !strings.Contains(strings.Join(strings.Fields(diags.Text(false)), " "), want) {
			t.Errorf("nothing says %q:\n%s", want, diags.Text(false))
		}
	}
	for _, d := range diags {
		if d.Range.Line == 0 || d.Range.Col == 0 || d.Snippet == "" {
			t.Errorf("without a place: %+v", d)
		}
	}
}

// TestWrongCookbooks changes one thing at a time.
func TestWrongCookbooks(t *testing.T) {
	good := string(read(t, "testdata/small.yaml"))
	for _, tt := range []struct{ old, new, code, says string }{
		{"schema_version: 1", "schema_version: 2", "cookbook_value", "only 1 is understood"},
		{"kind: llm_serving_cookbook", "kind: other", "cookbook_value", "llm_serving_cookbook"},
		{"name: tiny/Tiny-1, ", "", "cookbook_missing", "model lacks name"},
		{"gpu_count: 2", "gpu_count: two", "cookbook_value", "whole number"},
		{"gpu_count: 2", "gpu_count: 100000", "cookbook_value", "no campaign has more"},
		{"input_len: [100, 900]", "input_len: [100]", "cookbook_value", "aligned pairs"},
		{"input_len: [100, 900]", "input_len: 100", "cookbook_value", "a list"},
		{"kind: random", "kind: sharegpt", "cookbook_value", "only random"},
		{"endpoint: /v1/completions", "endpoint: /generate", "cookbook_value", "/generate"},
		{"max_p50_ttft_ms", "max_p99_ttft_ms", "cookbook_unknown", "max_p50_ttft_ms"},
		{"max_candidates_per_framework: 4", "max_candidates_per_framework: 0", "cookbook_value", "at least 1"},
		{"backend_policy: fixed_pytorch", "backend_policy: any", "cookbook_value", "fixed_pytorch"},
		{"{backend: pytorch, ", "{backend: tensorrt, ", "cookbook_value", "must be pytorch"},
		{"max_batch_size: 32", "backend: [pytorch, tensorrt]", "cookbook_value", "must not stand in search_space"},
		{"max_seq_len: 1000", "max_seq_len: 999", "cookbook_context", "needs 1000 tokens"},
		{"max_model_len: 1000, max_num_seqs", "max_num_seqs", "cookbook_context", "no base flag max_model_len"},
		{"  tokenspeed:\n", "  tokensped:\n", "cookbook_unknown", "tokensped"},
		{"server_command: vllm serve", "cmd: vllm", "cookbook_missing", "server_command"},
		{"tier: 2", "tier: 2, tier: 3", "cookbook_value", "stands twice"},
		{"block_size: [16, 32, 16]", "block_size: [[16]]", "cookbook_value", "one plain value"},
		{"max_num_seqs: [64, 96]", "--max: [64]", "cookbook_value", "no name of a flag"},
		{"max_num_seqs: [64, 96]", "max_num_seqs: [.nan]", "cookbook_value", "no server takes"},
		{"precision: auto", "precision: &a auto, x: *a", "cookbook_value", "without anchors"},
		{"schema_version: 1", "schema_version: [1", "cookbook_syntax", "no YAML"},
	} {
		if strings.Count(good, tt.old) != 1 {
			t.Fatalf("%q stands %d times", tt.old, strings.Count(good, tt.old))
		}
		text, diags := cookbook.Convert("small.yaml", []byte(strings.Replace(good, tt.old, tt.new, 1)), cookbook.Options{})
		found := false
		for _, d := range diags {
			found = found || d.Severity == lang.Error && d.Code == tt.code && strings.Contains(d.Detail, tt.says) && d.Range.Line > 0
		}
		if !found || text != nil {
			t.Errorf("%q: want %s with %q, got\n%s", tt.new, tt.code, tt.says, diags.Text(false))
		}
	}
	for _, o := range []cookbook.Options{{Target: "sglang"}, {Target: "llamacpp"}} {
		if text, diags := cookbook.Convert("small.yaml", []byte(good), o); text != nil || !diags.HasErrors() {
			t.Errorf("%+v was accepted", o)
		}
	}
	for _, src := range []string{"", "[]", "a", "frameworks: {}\n", "\x00", "? {a: b}\n: c"} {
		if text, diags := cookbook.Convert("x.yaml", []byte(src), cookbook.Options{}); text != nil || !diags.HasErrors() {
			t.Errorf("%q was accepted", src)
		}
	}
}

// FuzzConvert wants a file or an error, never a panic, and a file that parses.
func FuzzConvert(f *testing.F) {
	b, err := os.ReadFile("testdata/small.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, src []byte) {
		text, diags := cookbook.Convert("x.yaml", src, cookbook.Options{})
		if (text == nil) != diags.HasErrors() {
			t.Errorf("file %t, diagnostics:\n%s", text != nil, diags.Text(false))
		}
	})
}
