package trace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace"
	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	tables "github.com/sotabuild/sotabuild/stdlib/trace/triage"
)

// The tests of this file need nothing beside the repository: they read what is
// left of the recorded traces (testdata/reduced). Values come from independent
// counts of the whole files.

const reduced = "testdata/reduced/"

func reportOf(t *testing.T, name string) tables.Report {
	t.Helper()
	res, err := trace.TriageOf(context.Background(), trace.TriageOptions{Paths: []string{reduced + name}, Cutoff: trace.DefaultCutoff})
	if err != nil {
		t.Fatal(err)
	}
	return res.Reports[0]
}

func stageOf(t *testing.T, r tables.Report, s launch.Stage) tables.Stage {
	t.Helper()
	for _, x := range r.Stages {
		if x.Stage == s {
			return x
		}
	}
	t.Fatalf("no stage %s in %s", s, r.Input.Path)
	return tables.Stage{}
}

func kernelOf(t *testing.T, s tables.Stage, part string) tables.KernelRow {
	t.Helper()
	for _, k := range s.Kernels {
		if strings.Contains(k.Kernel, part) {
			return k
		}
	}
	t.Fatalf("no kernel %q in %s", part, s.Stage)
	return tables.KernelRow{}
}

// TestReducedStages: kernel time by stage, µs.
func TestReducedStages(t *testing.T) {
	for name, want := range map[string]map[launch.Stage]float64{
		"vllm_dense_decode.rank0.json.gz":         {launch.Prefill: 4753.2, launch.Mixed: 6850.3, launch.Decode: 51819.9, launch.None: 1267.6},
		"vllm_dense_prefill.rank0.json.gz":        {launch.Prefill: 266767.3, launch.None: 611.4},
		"vllm_moe_prefill.rank0.json.gz":          {launch.Prefill: 70529.5, launch.None: 115.2},
		"sglang_dense_extend.TP-0-EXTEND.json.gz": {launch.Prefill: 89208.299},
	} {
		r := reportOf(t, name)
		for stage, us := range want {
			if got := float64(stageOf(t, r, stage).Times.Kernels) / 1000; math.Abs(got-us) > 0.1 {
				t.Errorf("%s: %s %.1f µs, want %.1f", name, stage, got, us)
			}
		}
	}
	// Copies count too: 534 events.
	if s := stageOf(t, reportOf(t, "t01_sglang_extend.json.gz"), launch.Prefill); s.Events != 534 || math.Abs(float64(s.Times.Sum)/1000-492811.6) > 0.1 {
		t.Errorf("t01: %d events, %d ns", s.Events, s.Times.Sum)
	}
}

// TestReducedLayers: layers of each pass.
func TestReducedLayers(t *testing.T) {
	for name, want := range map[string]struct{ passes, layers int }{
		"t01_sglang_extend.json.gz":               {1, 36},
		"t02_sglang_decode_graph.json.gz":         {1, 36},
		"t04_vllm_decode_fullgraph.json.gz":       {1, 24},
		"t06_vllm_prefill_eager.json.gz":          {1, 36},
		"t13_xdit_flux_hipgraph.json.gz":          {4, 57},
		"vllm_dense_decode.rank0.json.gz":         {13, 36},
		"vllm_moe_prefill.rank0.json.gz":          {4, 24},
		"sglang_dense_extend.TP-0-EXTEND.json.gz": {2, 36},
	} {
		var out bytes.Buffer
		if err := trace.Layers(context.Background(), trace.LayersOptions{Path: reduced + name, Pass: -1, Format: trace.JSON}, &out); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var v struct {
			Passes []struct{ Layers int }
			Layers []struct{ Kernels int }
		}
		if err := json.Unmarshal(out.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		if len(v.Passes) != want.passes || len(v.Layers) != want.layers {
			t.Errorf("%s: %d passes, the chosen one of %d layers; want %+v", name, len(v.Passes), len(v.Layers), want)
		}
		for i, p := range v.Passes {
			if p.Layers != want.layers {
				t.Errorf("%s: pass %d has %d layers", name, i, p.Layers)
			}
		}
	}
}

// TestReducedFamilies: what the kernels of each server are.
func TestReducedFamilies(t *testing.T) {
	for _, c := range []struct {
		file         string
		stage        launch.Stage
		kernel, want string
		count        int
	}{
		{"vllm_dense_decode.rank0.json.gz", launch.Decode, "FlashAttnFwdSm90", "attention", 396},
		{"vllm_dense_decode.rank0.json.gz", launch.Decode, "FlashAttnFwdCombine", "attention", 396},
		{"sglang_dense_extend.TP-0-EXTEND.json.gz", launch.Prefill, "_fwd_kernel", "attention", 72},
		{"vllm_moe_prefill.rank0.json.gz", launch.Prefill, "fused_moe_kernel", "moe", 192},
		{"vllm_moe_prefill.rank0.json.gz", launch.Prefill, "topkGating", "moe", 96},
		{"vllm_moe_prefill.rank0.json.gz", launch.Prefill, "moe_align_block_size", "moe", 96},
		{"dense_decode.json.gz", launch.Decode, "cudnn_generated_fort_native_sdpa", "attention", 40},
	} {
		if k := kernelOf(t, stageOf(t, reportOf(t, c.file), c.stage), c.kernel); string(k.Class.Family) != c.want || k.Count != c.count {
			t.Errorf("%s: %s is %s in %d launches, want %s in %d", c.file, c.kernel, k.Class.Family, k.Count, c.want, c.count)
		}
	}
	// A router in plain operators counts as MoE where it feeds a grouped GEMM.
	rules := map[string]int{}
	r := reportOf(t, "moe_prefill.json.gz")
	for _, s := range r.Stages {
		for _, k := range s.Kernels {
			if k.Class.Family == "sort" {
				t.Errorf("%s stays a sort", k.Kernel)
			}
			if k.Class.Family == "moe" {
				rules[k.Class.Rule] += k.Count
			}
		}
	}
	if rules["moe-grouped-gemm"] != 24 || rules["sort before a grouped GEMM"] == 0 {
		t.Errorf("MoE by rule %v", rules)
	}
}

// TestReducedProduct: the product that takes most of the prefill is named with
// its operator and its places in a layer.
func TestReducedProduct(t *testing.T) {
	k := kernelOf(t, stageOf(t, reportOf(t, "vllm_dense_prefill.rank0.json.gz"), launch.Prefill), "nvjet_sm90_tst_256x128")
	if math.Abs(100*k.OfAll-84.75) > 0.005 || k.Class.Family != "gemm" || k.Count != 864 {
		t.Errorf("%.3f %% in %d launches of %s", 100*k.OfAll, k.Count, k.Class.Family)
	}
	if k.Sites[0].Op != "aten::mm" || !strings.HasPrefix(k.Place, "layers 0–35: kernel ") {
		t.Errorf("launched by %+v, at %s", k.Sites, k.Place)
	}
}

// TestReducedNoFP8: no fusion of FP8 in 16-bit models.
func TestReducedNoFP8(t *testing.T) {
	for _, name := range []string{"dense_decode.json.gz", "moe_prefill.json.gz", "vllm_dense_decode.rank0.json.gz", "vllm_moe_prefill.rank0.json.gz",
		"sglang_dense_extend.TP-0-EXTEND.json.gz", "t01_sglang_extend.json.gz", "t02_sglang_decode_graph.json.gz"} {
		for _, s := range reportOf(t, name).Stages {
			for _, f := range s.Fuse {
				if strings.Contains(f.Pattern, "FP8") || strings.Contains(f.Pattern, "quant") {
					t.Errorf("%s: %s is %s", name, f.Pattern, f.State)
				}
			}
		}
	}
}

// TestReducedCPU: vLLM on CPUs, where the operators that call no other one are
// the work: counts and µs by a program of its own.
func TestReducedCPU(t *testing.T) {
	o := trace.TriageOptions{Paths: []string{reduced + "vllm_cpu_decode.rank0.json.gz"}, Cutoff: trace.DefaultCutoff}
	if _, err := trace.TriageOf(context.Background(), o); err == nil || !strings.Contains(err.Error(), "no GPU work") {
		t.Errorf("not asked for: %v", err)
	}
	o.Host, o.Framework = true, "vllm"
	res, err := trace.TriageOf(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	r := res.Reports[0]
	for stage, want := range map[launch.Stage]struct {
		events int
		ns     int64
	}{launch.Prefill: {343, 78_243_902}, launch.Mixed: {343, 115_514_001}, launch.Decode: {2040, 794_848_159}, launch.None: {83, 841_303}} {
		if s := stageOf(t, r, stage); s.Events != want.events || s.Times.Sum != want.ns || s.Idle.Claimed || s.Idle.Reason == "" {
			t.Errorf("%s: %d events, %d ns, idle %+v; want %+v", stage, s.Events, s.Times.Sum, s.Idle, want)
		}
	}
	decode := stageOf(t, r, launch.Decode)
	for name, want := range map[string]string{"cpu_attention_with_kv_cache": "attention", "cpu_attn_reshape_and_cache": "kv_cache", "rotary_embedding": "rope"} {
		if k := kernelOf(t, decode, name); string(k.Class.Family) != want {
			t.Errorf("%s is %s, want %s", name, k.Class.Family, want)
		}
	}
	if r.Framework != "vllm" {
		t.Errorf("framework %s", r.Framework)
	}
}
