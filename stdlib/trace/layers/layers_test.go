package layers_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/trace/layers"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
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

// loop is passes of eight layers, each pass with an embedding before and a head
// behind them, as a plain loop runs them.
func loop(t *testing.T, passes int, steps bool, pause func(pass int) int64) *read.Trace {
	t.Helper()
	marks, kernels := loopEvents(passes, pause)
	if !steps {
		marks = nil
	}
	return sample.Make(t, marks, kernels)
}

func loopText(t *testing.T, passes int) string {
	t.Helper()
	_, kernels := loopEvents(passes, none)
	return sample.Text(t, nil, kernels)
}

func loopEvents(passes int, pause func(pass int) int64) (s []sample.Step, k []sample.Kernel) {
	at := int64(10_000)
	add := func(name string, dur int64) {
		k = append(k, sample.Kernel{Name: name, Start: at, Dur: dur})
		at += dur
	}
	for i := range passes {
		from := at
		add("indexSelectSmallIndex", 3000)
		for range 8 {
			for _, name := range []string{"rms_norm_kernel", "nvjet_q", "flash_fwd_kernel", "nvjet_o", "rms_norm_kernel", "nvjet_up", "silu_and_mul_kernel", "nvjet_down"} {
				add(name, 10_000)
			}
			at += pause(i)
		}
		add("rms_norm_kernel", 10_000)
		add("nvjet_head", 50_000)
		add("cunn_SoftMaxForward", 5000)
		add("sampleMultinomialOnce", 5000)
		s = append(s, sample.Step{Name: "step[DECODE bs=2]", Start: from - 2000, End: at - 2000})
	}
	return s, k
}

func none(int) int64 { return 0 }

// Without steps and graphs, passes end where kernels are unlike a layer's.
func TestPassesWithoutAnnotations(t *testing.T) {
	r, err := layers.Build(profile.Build(loop(t, 3, false, none)), layers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Passes) != 3 {
		t.Fatalf("%d passes, want 3", len(r.Passes))
	}
	for i, p := range r.Passes {
		if len(p.Layers) != 8 || !strings.Contains(p.Evidence, "unlike a layer's") {
			t.Errorf("pass %d has %d layers by %q", i, len(p.Layers), p.Evidence)
		}
	}
	conserves(t, "loop", r)
}

// Without steps, the frames of the outermost module are the passes, and what
// the loop does between them belongs to none.
func TestPassesByModule(t *testing.T) {
	plain := loop(t, 2, false, none)
	var frames []string
	for i := range 2 {
		// The embedding and the head of each pass are launched inside the module.
		first := plain.GPU[i*69].Start/1000 - 2
		last := plain.GPU[i*69+68].End() / 1000
		frames = append(frames, fmt.Sprintf(`{"ph":"X","cat":"python_function","name":"nn.Module: Model_0","pid":1,"tid":1,"ts":%d,"dur":%d}`, first, last-first-7))
	}
	text := loopText(t, 2)
	tr, err := read.Read(strings.NewReader(strings.Replace(text, `"traceEvents":[`, `"traceEvents":[`+strings.Join(frames, ",")+",", 1)), "f")
	if err != nil {
		t.Fatal(err)
	}
	r, err := layers.Build(profile.Build(tr), layers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Passes) != 2 || r.Passes[0].Name != "nn.Module: Model_0" || len(r.Passes[1].Layers) != 8 {
		t.Errorf("%d passes, first %q", len(r.Passes), r.Passes[0].Name)
	}
}

// A first pass twice as slow as the median is a cold start; among the rest the
// one nearest the median is chosen.
func TestColdStart(t *testing.T) {
	pauses := []int64{90_000, 2000, 1000, 3000}
	r, err := layers.Build(profile.Build(loop(t, 4, true, func(i int) int64 { return pauses[i] })), layers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Chosen != 1 || !strings.Contains(r.Reason, "pass 0 is a cold start") || !strings.Contains(r.Reason, "3 steady passes") {
		t.Errorf("chosen %d: %s", r.Chosen, r.Reason)
	}
	p := r.Passes[1]
	if len(p.Prologue) != 1 || len(p.Epilogue) != 4 || len(p.Layers[7].Events) != 8 {
		t.Errorf("prologue %d, epilogue %d, last layer %d events; want 1, 4, 8", len(p.Prologue), len(p.Epilogue), len(p.Layers[7].Events))
	}
}

// A pass that the recording cut is not chosen.
func TestCutPass(t *testing.T) {
	tr := loop(t, 3, true, none)
	cut := *tr
	cut.GPU = tr.GPU[30:] // four layers of the first pass are missing
	r, err := layers.Build(profile.Build(&cut), layers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Passes[0].Partial || r.Passes[1].Partial || r.Chosen == 0 {
		t.Errorf("partial %v, %v; chosen %d", r.Passes[0].Partial, r.Passes[1].Partial, r.Chosen)
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
