package kernel_test

import (
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
)

func TestCanonical(t *testing.T) {
	for exact, want := range map[string]string{
		"void foo<int, 4>(int*, long)":        "foo<int, 4>",
		"Memcpy DtoD (Device -> Device)":      "Memcpy DtoD (Device -> Device)",
		"fused_moe_kernel":                    "fused_moe_kernel",
		"void a::b(int const*) [clone .x]":    "a::b",
		"kernel at 0x7f12ab34cd56":            "kernel at 0xADDR",
		"Cijk_MT320x224x64_MI16x16x1":         "Cijk_MT320x224x64_MI16x16x1",
		"__amd_rocclr_fillBufferAligned.kd":   "__amd_rocclr_fillBufferAligned",
		"void (anonymous namespace)::f<2>(x)": "(anonymous namespace)::f<2>",
		"std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)": "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>",
		"_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64ELi8ELb0ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib":                                                      "aiter::add_rmsnorm_quant_kernel<std::bfloat16_t, std::bfloat16_t, 64, 8, false, false, true, 1>",
		"_Zbroken": "_Zbroken",
		"()":       "()",
	} {
		if got := kernel.Canonical(exact); got != want {
			t.Errorf("Canonical(%q)\n got %q\nwant %q", exact, got, want)
		}
	}
}

// The classes of kernels seen in real traces, and the false positives of
// substring matching that people met.
func TestClass(t *testing.T) {
	const mean = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4> >(int)"
	for _, c := range []struct{ name, family, rule string }{
		{"nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", "gemm", "gemm"},
		{"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT320x224x64_MI16x16x1", "gemm", "gemm"},
		{"void cublasLt::splitKreduce_kernel<32, 16, int, float>(int)", "gemm", "split-k-reduce"},
		{"void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_tn_align1>(cutlass_80_simt_sgemm_128x32_8x5_tn_align1::Params)", "gemm", "gemm"},
		{"void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2> > > >(flash::P)", "attention", "attention"},
		{"void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>, cute::C<128> >, 5> >(flash::P)", "attention", "attention-aux"},
		{"void flash::prepare_varlen_num_blocks_kernel<1, false>(int)", "attention", "attention-aux"},
		{"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0", "attention", "attention"},
		{"_fwd_kernel", "attention", "attention"},
		{"fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext", "attention", "attention"},
		{"_ZN7ck_tile6kentryILi2ENS_10FmhaKernelILi3EEEEEvT0_", "attention", "attention"},
		{"fused_moe_kernel", "moe", "moe-grouped-gemm"},
		{"void vllm::moe::moe_align_block_size_kernel<int>(int)", "moe", "moe-routing"},
		{"void vllm::moe::topkGating<8, 128, 4, 16, 32, int>(int)", "moe", "moe-routing"},
		{"_combined_routing_compute", "moe", "moe-routing"},
		{"_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu", "moe", "moe-grouped-gemm"},
		{"bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_clmp_dynBatch_sm100f", "moe", "moe-batched"},
		{"void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(int)", "kv_cache", "kv-cache"},
		{"triton_red_fused_fused_add_rms_norm_moe_forward_0", "norm", "norm"},
		{"triton_poi_fused__to_copy_1", "elementwise", "elementwise"},
		{"triton_poi_fused_mul_silu_slice_1", "activation", "triton-activation"},
		{"void vllm::rotary_embedding_kernel<c10::BFloat16, true>(int)", "rope", "rope"},
		{"void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>(int)", "quantize", "quantize"},
		{"void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(int)", "communication", "collective"},
		{"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication", "collective"},
		{"_combine_sampled_and_draft_tokens_kernel", "metadata", "step-metadata"},
		{"_gumbel_sample_kernel", "sampling", "sampling"},
		{"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul> >(int)", "memory", "copy-kernel"},
		{"Memset (Device)", "memory", "copy-engine"},
		{"sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x128x32_stage5", "conv", "convolution"},
		{mean, "reduce", "reduce"},
		{"resolve_future_token_ids_kernel", "other", "none"},
	} {
		got := kernel.Parse(c.name)
		if string(got.Class.Family) != c.family || got.Class.Rule != c.rule {
			t.Errorf("%s: %s by %s, want %s by %s (words %q)", c.name, got.Class.Family, got.Class.Rule, c.family, c.rule, got.Words)
		}
	}
	if f := kernel.Parse(mean).Family; f != "at::native::reduce_kernel:Mean" {
		t.Errorf("family of a mean = %q", f)
	}
}

// What must hold of any name: canonical is idempotent and not empty, and equal
// work keeps one family whatever its tile size and counter.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "void f<a<b>>(c)", "_ZN1aC2Ev", "x(((", ">>>", "a->b<c", "triton_poi_fused_add_12", "f<(((8)>(0)))>::type g()"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 4096 || strings.TrimSpace(s) == "" {
			return
		}
		p := kernel.Parse(s)
		if p.Canonical == "" || p.Family == "" {
			t.Errorf("Parse(%q) has an empty name: %+v", s, p)
		}
		if p.Class.Family == "" || p.Class.Rule == "" {
			t.Errorf("Parse(%q) has no class", s)
		}
		if again := kernel.Parse(s); again != p {
			t.Errorf("Parse(%q) is not deterministic", s)
		}
	})
}

func TestFamilyDropsCountersAndTiles(t *testing.T) {
	for a, b := range map[string]string{
		"triton_red_fused_fused_add_rms_norm_0":  "triton_red_fused_fused_add_rms_norm_2",
		"nvjet_sm90_tst_8x64_64x16_2x1_v_bz_TNN": "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT",
		"ampere_sgemm_128x64_nn":                 "ampere_sgemm_32x32_nn",
	} {
		if x, y := kernel.Parse(a).Family, kernel.Parse(b).Family; x != y {
			t.Errorf("%s is %q but %s is %q", a, x, b, y)
		}
	}
	if kernel.Parse("void f<1>(int)").Canonical == kernel.Parse("void f<2>(int)").Canonical {
		t.Error("template arguments must stay in the canonical name")
	}
}
