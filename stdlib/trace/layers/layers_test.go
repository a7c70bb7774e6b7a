package layers_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/trace/layers"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
)

func build(t *testing.T, file string, c layers.Config) *layers.Result {
	t.Helper()
	r, err := layers.Build(profile.Build(sample.Load(t, file)), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// How many layers and passes real models have: from their configurations and
// from counts made by hand.
func TestLayersOfRealModels(t *testing.T) {
	for _, c := range []struct {
		file     string
		passes   int
		layers   int
		clusters []int // sizes, the largest first; nil: not known independently
	}{
		{"traces/sglang_Qwen3-8B_extend_mi300x.json.gz", 1, 36, []int{36}},
		{"traces/sglang_Qwen3-8B_decode_graph_mi300x.json.gz", 1, 36, []int{36}},
		{"traces/vllm_decode_fullgraph_mi300x.json.gz", 1, 24, []int{12, 12}},
		{"traces/vllm_prefill_eager_b200.json.gz", 1, 36, []int{18, 18}},
		{"traces/xdit_flux_hipgraph_63MB.json.gz", 4, 57, nil},
		{"h200/vllm_dense_prefill.rank0.pt.trace.json.gz", 6, 36, []int{36}},
		{"h200/vllm_dense_decode.rank0.pt.trace.json.gz", 13, 36, []int{36}},
		{"h200/vllm_moe_prefill.dp0_pp0_tp0_dcp0_ep0_rank0.pt.trace.json.gz", 4, 24, []int{24}},
		{"h200/sglang_dense_extend.TP-0-EXTEND.trace.json.gz", 2, 36, []int{36}},
		{"h200/moe_prefill.trace.json.gz", 2, 6, []int{6}},
	} {
		r := build(t, c.file, layers.Config{})
		if len(r.Passes) != c.passes {
			t.Errorf("%s: %d passes, want %d", c.file, len(r.Passes), c.passes)
		}
		for i, p := range r.Passes {
			if len(p.Layers) != c.layers || p.Count.N != c.layers {
				t.Errorf("%s: pass %d has %d layers (%+v), want %d", c.file, i, len(p.Layers), p.Count, c.layers)
			}
		}
		var sizes []int
		for _, cl := range r.Clusters {
			sizes = append(sizes, len(cl.Layers))
		}
		slices.SortFunc(sizes, func(a, b int) int { return b - a })
		if c.clusters != nil && !slices.Equal(sizes, c.clusters) {
			t.Errorf("%s: clusters %v, want %v", c.file, sizes, c.clusters)
		}
		conserves(t, c.file, r)
	}
}

// Prologue, layers and epilogue are the pass: no event lost, none twice.
func conserves(t *testing.T, file string, r *layers.Result) {
	t.Helper()
	for i, p := range r.Passes {
		all := append(slices.Clone(p.Prologue), p.Epilogue...)
		for _, l := range p.Layers {
			all = append(all, l.Events...)
		}
		slices.Sort(all)
		want := slices.Clone(p.Events)
		slices.Sort(want)
		if !slices.Equal(all, want) {
			t.Errorf("%s: pass %d has %d events but %d in its parts", file, i, len(want), len(all))
		}
	}
}

// A layer begins at its input norm; the final norm and the head are epilogue.
func TestWhereLayersBegin(t *testing.T) {
	r := build(t, "traces/vllm_decode_fullgraph_mi300x.json.gz", layers.Config{})
	p := r.Passes[0]
	for i, l := range p.Layers {
		if s := r.Profile.Symbol(l.Events[0]).Family; s != "ck_tile::Rmsnorm2dFwd" {
			t.Errorf("layer %d begins with %s", i, s)
		}
	}
	if s := r.Profile.Symbol(p.Epilogue[0]).Family; s != "ck_tile::Rmsnorm2dFwd" {
		t.Errorf("the epilogue begins with %s, want the final norm", s)
	}
	if s := r.Profile.Symbol(p.Epilogue[len(p.Epilogue)-1]).Family; s != "tensile_gemm" {
		t.Errorf("the epilogue ends with %s, want the head", s)
	}
}

// FLUX has 19 double and 38 single blocks; the four replays take 42.37, 43.13,
// 42.44 and 43.06 ms, so the third is nearest the median and the earlier of two.
func TestChoiceOfSteadyPass(t *testing.T) {
	r := build(t, "traces/xdit_flux_hipgraph_63MB.json.gz", layers.Config{})
	if r.Chosen != 2 || !strings.Contains(r.Reason, "4 steady passes") {
		t.Errorf("chosen %d because %q", r.Chosen, r.Reason)
	}
	if w := r.Passes[2].Times.Wall(); w < 42_435_000 || w > 42_445_000 {
		t.Errorf("wall of pass 2 is %d ns, want 42.44 ms", w)
	}
	c, err := layers.ParseConfig([]byte(`{"num_layers": 19, "num_single_layers": 38}`))
	if err != nil {
		t.Fatal(err)
	}
	r = build(t, "traces/xdit_flux_hipgraph_63MB.json.gz", c)
	if !r.Passes[0].Count.Certain || r.Passes[0].Count.N != 57 {
		t.Errorf("with the configuration the count is %+v", r.Passes[0].Count)
	}
	sizes := map[string]int{}
	for _, cl := range r.Clusters {
		label, _, _ := strings.Cut(cl.Label, " ")
		sizes[label] += len(cl.Layers)
	}
	if sizes["double"] != 19 || sizes["single"] != 38 {
		t.Errorf("types %v, want 19 double and 38 single", sizes)
	}
}

func TestMoEByConfiguration(t *testing.T) {
	b, err := os.ReadFile(sample.Path(t, "h200/moe_config.json"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := layers.ParseConfig(b)
	if err != nil {
		t.Fatal(err)
	}
	r := build(t, "h200/moe_prefill.trace.json.gz", c)
	if len(r.Clusters) != 1 || r.Clusters[0].Label != "MoE" || r.Clusters[0].Source != "configuration" {
		t.Errorf("clusters %+v", r.Clusters)
	}
}

func TestParseConfig(t *testing.T) {
	c, err := layers.ParseConfig([]byte(`{"model_type":"x","text_config":{"num_hidden_layers":4,"first_k_dense_replace":1,
		"n_routed_experts":8,"compress_ratios":[0,4,128,4,0],"num_nextn_predict_layers":1,"num_hash_layers":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"compress ratio 0, dense", "compress ratio 4, MoE", "compress ratio 128, MoE", "compress ratio 4, hash, MoE", ""} {
		if got := c.TypeOf(i); got != want {
			t.Errorf("layer %d: %q, want %q", i, got, want)
		}
	}
	for _, bad := range []string{`{`, `{}`, `{"num_hidden_layers":2,"layer_types":["a"]}`, `{"num_hidden_layers":2,"compress_ratios":[1,2,3]}`} {
		if _, err := layers.ParseConfig([]byte(bad)); err == nil {
			t.Errorf("ParseConfig(%s) gives no error", bad)
		}
	}
}

// Training traces have no repeated attention: that is said, not guessed.
func TestNoPass(t *testing.T) {
	for _, f := range []string{"traces/dlrm_pair_rank-0.json.gz", "traces/edge/cpu_only_rank-34.pt.trace.json.gz"} {
		if _, err := layers.Build(profile.Build(sample.Load(t, f)), layers.Config{}); err == nil {
			t.Errorf("%s: layers found", f)
		}
	}
}
