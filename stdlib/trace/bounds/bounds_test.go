package bounds_test

import (
	"math"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace/bounds"
)

// By hand: 2·M·N·K operations; operands and result moved once.
func TestOf(t *testing.T) {
	const bf16 = `["c10::BFloat16","c10::BFloat16","c10::BFloat16"]`
	for _, c := range []struct {
		op, dims, types string
		flops, bytes    float64
	}{
		{"aten::mm", `[[15360,4096],[4096,24576]]`, bf16, 2 * 15360 * 4096 * 24576, 2 * (15360*4096 + 4096*24576 + 15360*24576)},
		{"aten::addmm", `[[8],[2,4],[4,8],[],[]]`, bf16, 2 * 2 * 4 * 8, 2 * (2*4 + 4*8 + 2*8)},
		{"aten::linear", `[[3,2,4],[8,4],[]]`, bf16, 2 * 6 * 4 * 8, 2 * (6*4 + 4*8 + 6*8)},
		{"aten::bmm", `[[5,2,4],[5,4,8]]`, `["float","float"]`, 5 * 2 * 2 * 4 * 8, 5 * 4 * (2*4 + 4*8 + 2*8)},
		{"aten::_grouped_mm", `[[16384,1024],[16,1024,1024],[16],[],[]]`, bf16, 2 * 16384 * 1024 * 1024, 2 * (16384*1024 + 16*1024*1024 + 16384*1024)},
		{"aten::_cudnn_attention_forward", `[[4,16,1024,64],[4,4,1024,64],[4,4,1024,64]]`, bf16,
			4 * 4 * 16 * 1024 * 1024 * 64, 2 * (2*4*16*1024*64 + 2*4*4*1024*64)},
		{"aten::_flash_attention_forward", `[[8,4096,16,128],[8,4096,16,128],[8,4096,16,128]]`, bf16,
			4 * 8 * 16 * 4096 * 4096 * 128, 2 * 4 * 8 * 4096 * 16 * 128},
		{"_C::fused_add_rms_norm", `[[8,16],[8,16],[16],[]]`, bf16, 4 * 128, 4 * 2 * 128},
	} {
		w, why := bounds.Of(c.op, c.dims, c.types)
		if why != "" || w.FLOPs != c.flops || w.Bytes != c.bytes {
			t.Errorf("%s %s: %.0f FLOP, %.0f B (%s); want %.0f, %.0f", c.op, c.dims, w.FLOPs, w.Bytes, why, c.flops, c.bytes)
		}
	}
}

func TestUnknownSaysWhy(t *testing.T) {
	for _, c := range []struct{ op, dims, types, want string }{
		{"", "", "", "no operator"},
		{"aten::mm", "", "", "not recorded"},
		{"aten::mm", `[[2,3],[4,5]]`, `["float","float"]`, "do not fit"},
		{"aten::mm", `[[2,3],[3,5]]`, `["what"]`, "data type"},
		{"aten::mm", `[[1e300,3],[3,1e300]]`, `["float"]`, "out of range"},
		{"aten::mm", `[[0,3],[3,0]]`, `["float"]`, "out of range"},
		{"aten::mm", `[[-5,3],[3,7]]`, `["float"]`, "out of range"},
		{"aten::mm", `[`, `["float"]`, "no matrices"},
		{"aten::bmm", `[[2],[2,3,4]]`, `["float"]`, "no matrices"},
		{"aten::cat", `[[2,3]]`, `["float"]`, "no formula"},
		{"sglang::unified_attention_with_output", `[[3584,4096],[3584,8,128],[3584,8,128]]`, `["c10::BFloat16"]`, "sequence lengths"},
	} {
		w, why := bounds.Of(c.op, c.dims, c.types)
		if !strings.Contains(why, c.want) || w.FLOPs != 0 {
			t.Errorf("%s %s: %+v, %q; want %q", c.op, c.dims, w, why, c.want)
		}
	}
}

// On an H200: 989.5 bf16 TFLOP/s, 4.8 TB/s.
func TestJudge(t *testing.T) {
	b := bounds.Judge(bounds.Work{FLOPs: 989.5e12 / 2, Bytes: 0.48e12, DType: "bf16"}, 1, "NVIDIA H200")
	if b.Limit != bounds.ByCompute || math.Abs(b.OfCompute-0.5) > 1e-9 || math.Abs(b.OfMemory-0.1) > 1e-9 {
		t.Errorf("%+v", b)
	}
	b = bounds.Judge(bounds.Work{FLOPs: 1, Bytes: 1.2e12, DType: "bf16"}, 0.5, "NVIDIA H200")
	if b.Limit != bounds.ByMemory || math.Abs(b.OfMemory-0.5) > 1e-9 {
		t.Errorf("%+v", b)
	}
	if b = bounds.Judge(bounds.Work{FLOPs: 1, Bytes: 1, DType: "bf16"}, 1, ""); b.Limit != "" || !strings.Contains(b.String(), "unnamed") {
		t.Errorf("an unnamed device is judged: %s", b)
	}
}

// Names as drivers write them; a name that only looks like a known one has no
// peak.
func TestProductOf(t *testing.T) {
	for device, want := range map[string]string{
		"NVIDIA H200": "NVIDIA H200", "NVIDIA H100 80GB HBM3": "NVIDIA H100 SXM", "NVIDIA H100 PCIe": "NVIDIA H100 PCIe",
		"NVIDIA A100-SXM4-80GB": "NVIDIA A100 80GB", "NVIDIA A100-SXM4-40GB": "NVIDIA A100 40GB", "NVIDIA A100 80GB PCIe": "NVIDIA A100 80GB PCIe",
		"Tesla V100-SXM2-16GB": "NVIDIA V100", "Tesla T4": "NVIDIA T4", "NVIDIA L4": "NVIDIA L4", "NVIDIA L40S": "NVIDIA L40S",
		"AMD_Instinct_MI300X": "AMD MI300X", "NVIDIA GB200": "NVIDIA GB200", "NVIDIA B200": "NVIDIA B200",
		"NVIDIA L40": "", "NVIDIA GH200 480GB": "", "AMD Instinct MI300A": "", "NVIDIA T400": "", "NVIDIA H20": "", "NVIDIA A10": "",
		"NVIDIA H100 80GB HBM3 MIG 1g.10gb": "", "": "",
	} {
		p, ok := bounds.ProductOf(device)
		if p.Name != want || ok != (want != "") || ok && p.Source == "" {
			t.Errorf("%q is %+v, want %q", device, p, want)
		}
	}
}

// A type without a peak is not judged by compute: unknown is not 0 %.
func TestUnknownPeak(t *testing.T) {
	b := bounds.Judge(bounds.Work{FLOPs: 1e12, Bytes: 0.48e12, DType: "fp64"}, 1, "NVIDIA H200")
	if b.NoPeak != "fp64" || b.Limit != "" || strings.Contains(b.String(), "compute") || !strings.Contains(b.String(), "its peak in fp64 is not known") {
		t.Errorf("%+v: %s", b, b)
	}
	if b = bounds.Judge(bounds.Work{FLOPs: 1e12, Bytes: 2.4e12, DType: "fp64"}, 1, "NVIDIA H200"); b.Limit != bounds.ByMemory {
		t.Errorf("half of the memory's rate: %s", b)
	}
}
