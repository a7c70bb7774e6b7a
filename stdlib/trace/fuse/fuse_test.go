package fuse_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sotabuild/sotabuild/stdlib/trace/fuse"
	"github.com/sotabuild/sotabuild/stdlib/trace/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	"github.com/sotabuild/sotabuild/stdlib/trace/layers"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

func find(t *testing.T, tr *read.Trace, stage launch.Stage, baseline *layers.Result) map[string]fuse.Row {
	t.Helper()
	out := map[string]fuse.Row{}
	for _, r := range fuse.Find(fuse.Builtin(), analysed(t, tr), stage, baseline) {
		out[r.Pattern.ID] = r
	}
	return out
}

func analysed(t *testing.T, tr *read.Trace) *layers.Result {
	t.Helper()
	r, err := layers.Build(profile.Build(tr), layers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const quant = "void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>(int)"

// model lays out eight layers of the named kernels, 1 µs each, back to back.
func model(t *testing.T, layer ...string) *read.Trace {
	t.Helper()
	var k []sample.Kernel
	at := int64(10_000)
	for range 8 {
		for _, name := range layer {
			k = append(k, sample.Kernel{Name: name, Start: at, Dur: 1000})
			at += 1000
		}
	}
	return sample.Make(t, []sample.Step{{Name: "step[DECODE bs=4]", Start: 1, End: at}}, k)
}

// The same kernels, apart and adjacent: only adjacency is a chain.
func TestAdjacencyNotPresence(t *testing.T) {
	apart := model(t, "rms_norm_kernel", "nvjet_x", "flash_fwd_kernel", quant, "nvjet_x")
	if r, ok := find(t, apart, launch.Decode, nil)["rmsnorm-fp8-quant"]; ok {
		t.Errorf("norm and quant are far apart, yet %+v", r)
	}
	wrongOrder := model(t, "nvjet_x", "flash_fwd_kernel", quant, "rms_norm_kernel", "nvjet_x")
	if r, ok := find(t, wrongOrder, launch.Decode, nil)["rmsnorm-fp8-quant"]; ok {
		t.Errorf("quant stands before norm, yet %+v", r)
	}
	adjacent := model(t, "rms_norm_kernel", quant, "nvjet_x", "flash_fwd_kernel", "nvjet_x")
	r, ok := find(t, adjacent, launch.Decode, nil)["rmsnorm-fp8-quant"]
	if !ok {
		t.Fatal("norm and quant are adjacent and not found")
	}
	// Eight chains of 1 + 1 µs; fusing saves at most the smaller of the two.
	if r.Layers != 8 || r.Of != 8 || r.Time != 16_000 || r.Gain != 8_000 || r.State != fuse.Missing || r.Note != "low" {
		t.Errorf("%+v", r)
	}
}

// A kernel that is named after quantization runs in 16-bit models too.
func TestNoFP8OnBF16Models(t *testing.T) {
	for _, f := range []string{
		"h200/dense_decode.trace.json.gz",
		"h200/dense_prefill.trace.json.gz",
		"h200/moe_prefill.trace.json.gz",
		"h200/vllm_dense_decode.rank0.pt.trace.json.gz",
		"h200/vllm_moe_prefill.dp0_pp0_tp0_dcp0_ep0_rank0.pt.trace.json.gz",
		"h200/sglang_dense_extend.TP-0-EXTEND.trace.json.gz",
		"traces/sglang_Qwen3-8B_extend_mi300x.json.gz",
		"traces/sglang_Qwen3-8B_decode_graph_mi300x.json.gz",
	} {
		r := analysed(t, sample.Load(t, f))
		for _, stage := range launch.Stages {
			for _, row := range fuse.Find(fuse.Builtin(), r, stage, nil) {
				if len(row.Pattern.DTypes) > 0 {
					t.Errorf("%s: %s is %s in a bf16 model", f, row.Pattern.ID, row.State)
				}
			}
		}
	}
}

// What real servers do and leave undone: kernels counted by hand.
func TestRealServers(t *testing.T) {
	sglang := find(t, sample.Load(t, "h200/sglang_dense_extend.TP-0-EXTEND.trace.json.gz"), launch.Prefill, nil)
	for id, want := range map[string]fuse.State{
		"residual-add-rmsnorm": fuse.Fused, "silu-and-mul": fuse.Fused,
		"qk-norm-rope": fuse.Disabled, "rope-kv-store": fuse.Mainline, "qk-norm-rope-kv-store": fuse.Missing,
	} {
		if r := sglang[id]; r.State != want || r.Layers != 72 || r.Of != 72 {
			t.Errorf("%s: %s in %d of %d layers, want %s in all 72", id, r.State, r.Layers, r.Of, want)
		}
	}
	b200 := find(t, sample.Load(t, "traces/vllm_prefill_eager_b200.json.gz"), launch.Prefill, nil)
	if r := b200["allreduce-rmsnorm"]; r.State != fuse.Disabled || r.Layers != 36 {
		t.Errorf("all-reduce before norm on eight ranks: %+v", r)
	}
}

func TestRegressed(t *testing.T) {
	before := analysed(t, model(t, "fused_add_rms_norm_kernel", "nvjet_x", "flash_fwd_kernel", "act_and_mul_kernel", "nvjet_x"))
	const silu = "void at::native::vectorized_elementwise_kernel<8, at::native::(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)>(int)"
	const mul = "void at::native::vectorized_elementwise_kernel<8, at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >, int>(int)"
	after := model(t, "fused_add_rms_norm_kernel", "nvjet_x", "flash_fwd_kernel", silu, mul, "nvjet_x")
	if r := find(t, after, launch.Decode, before)["silu-and-mul"]; r.State != fuse.Regressed {
		t.Errorf("%+v, want regressed", r)
	}
	if r := find(t, after, launch.Decode, nil)["silu-and-mul"]; r.State != fuse.Missing {
		t.Errorf("%+v, want missing", r)
	}
}

func TestBrokenCatalogues(t *testing.T) {
	const ok = `"title":"t","why":"w","dtypes":["any"],"sources":[{"framework":"f","state":"mainline","path":"p","versions":"unknown"}]`
	for text, want := range map[string]string{
		`{`:                         "unexpected end",
		`{"patterns":[{"id":"a"}]}`: "needs id",
		`{"patterns":[{"id":"a","parts":[["v"],["norm"]],` + ok + `}]}`:     "too short",
		`{"patterns":[{"id":"a","parts":[["@nope"],["norm"]],` + ok + `}]}`: "no kernel family",
		`{"patterns":[{"id":"a","parts":[["@norm"],[]],` + ok + `}]}`:       "part",
		`{"patterns":[{"id":"a","parts":[["@norm"],["@rope"]],"title":"t","why":"w","dtypes":["any"],"sources":[{"framework":"f","state":"soon","path":"p","versions":"unknown"}]}]}`: "state",
		`{"patterns":[{"id":"a","parts":[["@norm"],["@rope"]],"title":"t","why":"w","sources":[{"framework":"f","state":"mainline","path":"p","versions":"1"}]}]}`:                    "dtypes",
		`{"patterns":[{"id":"a","parts":[["@norm"],["@rope"]],"title":"t","why":"w","dtypes":["any"],"sources":[{"framework":"f","state":"mainline","path":"p"}]}]}`:                  "versions",
		`{"patterns":[{"id":"a","parts":[["@norm"],["@rope"]],` + ok + `},{"id":"a","parts":[["@norm"],["@rope"]],` + ok + `}]}`:                                                      "twice",
	} {
		if _, err := fuse.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%s) = %v, want %q", text, err, want)
		}
	}
}

func TestLocate(t *testing.T) {
	tree := fstest.MapFS{"a/b.cu": {Data: []byte("// x\nvoid fused_kernel();\n")}}
	for want, s := range map[string]fuse.Source{
		"a/b.cu:2":                     {Path: "a/b.cu", Symbol: "fused_kernel"},
		"a/b.cu (without this symbol)": {Path: "a/b.cu", Symbol: "other"},
		"a/c.cu (not in this tree)":    {Path: "a/c.cu", Symbol: "fused_kernel"},
	} {
		if got := fuse.Locate(tree, s); got != want {
			t.Errorf("Locate(%+v) = %q, want %q", s, got, want)
		}
	}
}
