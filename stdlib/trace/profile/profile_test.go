package profile_test

import (
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
)

func TestRankOf(t *testing.T) {
	for name, want := range map[string]int{
		"a/rank3.17.pt.trace.json.gz":                   3,
		"dp1_pp0_tp2_dcp0_ep0_rank5.9.pt.trace.json.gz": 5,
		"1790-TP-2-EXTEND.trace.json.gz":                2,
		"rank-34.Jul_15.pt.trace.json.gz":               34,
		"dlrm_pair_rank-1.json.gz":                      1,
		"ddp_2rank_rank1_54MB.json.gz":                  1,
		"trace.json":                                    -1,
	} {
		if got := profile.RankOf(name); got != want {
			t.Errorf("RankOf(%q) = %d, want %d", name, got, want)
		}
	}
}

// A hand-written MoE in plain PyTorch: its router's top-k and sorts count as
// MoE because they feed the grouped GEMM; the attention is cuDNN's.
func TestPlainMoE(t *testing.T) {
	p := profile.Build(sample.Load(t, "h200/moe_prefill.trace.json.gz"))
	rules := map[string]int{}
	for i, c := range p.Classes {
		if c.Family == kernel.MoE {
			rules[c.Rule]++
		}
		if c.Family == kernel.Sort {
			t.Errorf("%s stays a sort", p.Symbol(int32(i)).Family)
			break
		}
	}
	if rules["moe-grouped-gemm"] != 24 || rules["sort before a grouped GEMM"] == 0 {
		t.Errorf("MoE rules %v, want 24 grouped GEMMs and their router", rules)
	}
}

func TestFramework(t *testing.T) {
	for file, want := range map[string]string{
		"h200/vllm_dense_decode.rank0.pt.trace.json.gz":      "vllm",
		"h200/sglang_dense_extend.TP-0-EXTEND.trace.json.gz": "sglang",
		"traces/sglang_Qwen3-8B_extend_mi300x.json.gz":       "sglang",
		"traces/edge/triton_cuLaunchKernel.json.gz":          "unknown",
	} {
		if got := profile.Build(sample.Load(t, file)).Framework; got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}
