package triage_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/stdlib/trace/fuse"
	"github.com/sotabuild/sotabuild/stdlib/trace/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	"github.com/sotabuild/sotabuild/stdlib/trace/layers"
	"github.com/sotabuild/sotabuild/stdlib/trace/mapping"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
	"github.com/sotabuild/sotabuild/stdlib/trace/triage"
)

// reports keeps the triage of each trace: traces are immutable, and several
// tests look at the same one.
var reports = map[*read.Trace]triage.Report{}

func report(t *testing.T, tr *read.Trace, m *mapping.Map) triage.Report {
	t.Helper()
	if r, ok := reports[tr]; ok && m == nil {
		return r
	}
	p := profile.Build(tr)
	l, err := layers.Build(p, layers.Config{})
	if err != nil {
		l = nil
	}
	r := triage.Build(p, l, triage.Options{Cutoff: 0.01, Catalogue: fuse.Builtin(), Mapping: m})
	if m == nil {
		reports[tr] = r
	}
	return r
}

func stage(t *testing.T, r triage.Report, name launch.Stage) triage.Stage {
	t.Helper()
	for _, s := range r.Stages {
		if s.Stage == name {
			return s
		}
	}
	t.Fatalf("no stage %s", name)
	return triage.Stage{}
}

// row is the first (largest) kernel whose name contains part.
func row(t *testing.T, s triage.Stage, part string) triage.KernelRow {
	t.Helper()
	for _, k := range s.Kernels {
		if strings.Contains(k.Kernel, part) {
			return k
		}
	}
	t.Fatalf("no kernel %q in %s", part, s.Stage)
	return triage.KernelRow{}
}

const (
	vllmPrefill = "h200/vllm_dense_prefill.rank0.pt.trace.json.gz"
	vllmDecode  = "h200/vllm_dense_decode.rank0.pt.trace.json.gz"
	vllmMoE     = "h200/vllm_moe_prefill.dp0_pp0_tp0_dcp0_ep0_rank0.pt.trace.json.gz"
	sglang      = "h200/sglang_dense_extend.TP-0-EXTEND.trace.json.gz"
)

// Shares of kernel time and launches as counted independently.
func TestSharesOfRealServers(t *testing.T) {
	for _, c := range []struct {
		file   string
		stage  launch.Stage
		kernel string
		share  float64 // of the file's kernel time, percent; 0: not known independently
		count  int
		family kernel.Family
	}{
		{vllmPrefill, launch.Prefill, "nvjet_sm90_tst_256x128", 84.75, 864, kernel.GEMM},
		{vllmPrefill, launch.Prefill, "FlashAttnFwdSm90", 6.74, 216, kernel.Attention},
		{vllmMoE, launch.Prefill, "fused_moe_kernel", 61.51, 192, kernel.MoE},
		{vllmMoE, launch.Prefill, "FlashAttnFwdSm90", 9.95, 96, kernel.Attention},
		{vllmMoE, launch.Prefill, "topkGating", 0, 96, kernel.MoE},
		{vllmMoE, launch.Prefill, "moe_align_block_size", 0, 96, kernel.MoE},
		{vllmDecode, launch.Decode, "FlashAttnFwdSm90", 0, 396, kernel.Attention},
		{vllmDecode, launch.Decode, "FlashAttnFwdCombine", 0, 396, kernel.Attention},
		{sglang, launch.Prefill, "_fwd_kernel", 0, 72, kernel.Attention},
		{"h200/dense_decode.trace.json.gz", launch.Decode, "cudnn_generated_fort_native_sdpa", 0, 40, kernel.Attention},
	} {
		k := row(t, stage(t, report(t, sample.Load(t, c.file), nil), c.stage), c.kernel)
		if c.share > 0 && math.Abs(100*k.OfAll-c.share) > 0.005 {
			t.Errorf("%s: %s has %.3f %%, want %.2f", c.file, c.kernel, 100*k.OfAll, c.share)
		}
		if k.Count != c.count || k.Class.Family != c.family {
			t.Errorf("%s: %s is %s, %d launches; want %s, %d", c.file, c.kernel, k.Class.Family, k.Count, c.family, c.count)
		}
	}
}

// The GEMM that takes most of the prefill is named with what launched it and
// where: four products a layer, by aten::mm.
func TestLargestProductIsExplained(t *testing.T) {
	k := row(t, stage(t, report(t, sample.Load(t, vllmPrefill), nil), launch.Prefill), "nvjet_sm90_tst_256x128")
	if k.Sites[0].Op != "aten::mm" || k.Sites[0].Share < 0.99 || !strings.HasPrefix(k.Sites[0].Location, "vllm/") {
		t.Errorf("sites %+v", k.Sites)
	}
	// Each product has a memset before it; norm and products alternate.
	if !strings.HasPrefix(k.Place, "layers 0–35: kernel ") || strings.Count(k.Place, ",") != 3 {
		t.Errorf("place %q, want four places in layers 0–35", k.Place)
	}
	if k.Bound == nil || !strings.Contains(k.Bound.String(), "shapes were not recorded") {
		t.Errorf("bound %v, want unknown with the reason", k.Bound)
	}
}

// Nothing is lost between the tables: rows, families and stages add up.
func TestConservation(t *testing.T) {
	for _, f := range []string{vllmDecode, vllmMoE, sglang, "traces/xdit_flux_hipgraph_63MB.json.gz", "traces/ddp_resnet_nccl_args.json.gz", "traces/dlrm_pair_rank-0.json.gz"} {
		tr := sample.Load(t, f)
		r := report(t, tr, nil)
		var all, want int64
		events := 0
		for _, s := range r.Stages {
			all += s.Times.Sum
			events += s.Events
			var rows, families int64
			share := 0.0
			for _, k := range s.Kernels {
				rows += k.Time
				share += k.Share
			}
			for _, x := range s.Families {
				families += x.Time
			}
			if rows != s.Times.Sum || families != s.Times.Sum || math.Abs(share-1) > 1e-9 {
				t.Errorf("%s %s: rows %d, families %d, shares %f of %d", f, s.Stage, rows, families, share, s.Times.Sum)
			}
			for _, o := range s.Overlap {
				if o.Verdict != "idle" && o.Exclusive+o.Hidden != o.Time {
					t.Errorf("%s: %s: exclusive %d + hidden %d is not %d", f, o.Kernel, o.Exclusive, o.Hidden, o.Time)
				}
			}
		}
		for _, g := range tr.GPU {
			want += g.Dur
		}
		if all != want || events != len(tr.GPU) {
			t.Errorf("%s: stages hold %d ns in %d events, the file %d in %d", f, all, events, want, len(tr.GPU))
		}
	}
}

// By hand: a 100 µs all-reduce on its own stream, 40 µs of it beside a GEMM.
func TestOverlapByHand(t *testing.T) {
	tr := sample.Make(t, []sample.Step{{Name: "step[DECODE bs=1]", Start: 0, End: 400_000}}, []sample.Kernel{
		{Name: "nvjet_a", Start: 10_000, Dur: 50_000, Stream: 7, Op: "aten::mm"},
		{Name: "ncclDevKernel_AllReduce_Sum_bf16", Start: 20_000, Dur: 100_000, Stream: 9, Op: "c10d::allreduce"},
		{Name: "nvjet_a", Start: 200_000, Dur: 50_000, Stream: 7, Op: "aten::mm"},
	})
	s := stage(t, report(t, tr, nil), launch.Decode)
	if d := cmp.Diff(triage.Comm{Time: 100_000, Hidden: 40_000}, s.Comm); d != "" {
		t.Errorf("communication (-want +got):\n%s", d)
	}
	if s.Times.Busy != 160_000 || s.Times.Sum != 200_000 {
		t.Errorf("busy %d, sum %d; want 160 and 200 µs", s.Times.Busy, s.Times.Sum)
	}
	first := s.Overlap[0]
	if first.Kernel != "ncclDevKernel_AllReduce_Sum_bf16" || first.Verdict != "headroom" || first.Priority != "P1" ||
		first.Advice != "try overlap" || first.Exclusive != 60_000 || first.Hidden != 40_000 {
		t.Errorf("first row %+v", first)
	}
}

// Two devices in one file: each hides only what runs on it, and both are busy.
func TestTwoDevices(t *testing.T) {
	text := sample.Text(t, nil, []sample.Kernel{
		{Name: "nvjet_a", Start: 10_000, Dur: 50_000, Stream: 7},
		{Name: "ncclDevKernel_AllReduce_Sum_bf16", Start: 10_000, Dur: 50_000, Stream: 7},
	})
	// The second kernel goes to device 1.
	i := strings.LastIndex(text, `"device":0`)
	tr, err := read.Read(strings.NewReader(text[:i]+`"device":1`+text[i+10:]), "two.json")
	if err != nil {
		t.Fatal(err)
	}
	s := stage(t, report(t, tr, nil), launch.None)
	if s.Times.Busy != 100_000 || s.Comm.Hidden != 0 || s.Comm.Time != 50_000 || len(s.Notes) != 1 {
		t.Errorf("busy %d, communication %+v, notes %q", s.Times.Busy, s.Comm, s.Notes)
	}
}

// A small kernel that runs under a large one is not worth a patch.
func TestHiddenIsLowROI(t *testing.T) {
	tr := sample.Make(t, []sample.Step{{Name: "step[DECODE bs=1]", Start: 0, End: 400_000}}, []sample.Kernel{
		{Name: "nvjet_a", Start: 10_000, Dur: 90_000, Stream: 7},
		{Name: "silu_kernel", Start: 20_000, Dur: 20_000, Stream: 9},
	})
	for _, o := range stage(t, report(t, tr, nil), launch.Decode).Overlap {
		if o.Kernel == "silu_kernel" && (o.Verdict != "low-roi-hidden" || o.Priority != "P4" || o.Hidden != 20_000) {
			t.Errorf("%+v", o)
		}
	}
}

// twoLayers is two passes of eight layers with a pause of 5 µs in every layer.
func twoLayers(t *testing.T, launchLate bool) *read.Trace {
	t.Helper()
	var k []sample.Kernel
	var steps []sample.Step
	at := int64(100_000)
	for range 2 {
		from := at
		for range 8 {
			for _, name := range []string{"rms_norm_kernel", "nvjet_q", "flash_fwd_kernel", "nvjet_o"} {
				l := from + 1
				if launchLate {
					l = at - 1000
				}
				k = append(k, sample.Kernel{Name: name, Start: at, Dur: 10_000, Stream: 7, Launch: l})
				at += 10_000
			}
			at += 5_000
		}
		steps = append(steps, sample.Step{Name: "step[DECODE bs=1]", Start: from - 2000, End: at})
		at += 50_000
	}
	return sample.Make(t, steps, k)
}

// Seven pauses of 5 µs stand between the eight layers of each of two passes.
func TestIdleInsidePasses(t *testing.T) {
	for late, want := range map[bool]string{true: "host-bound", false: "launch-bound"} {
		s := stage(t, report(t, twoLayers(t, late), nil), launch.Decode)
		if !s.Idle.Claimed || s.Idle.Time != 2*7*5_000 || len(s.Idle.Causes) != 1 || !strings.HasPrefix(s.Idle.Causes[0].Cause, want) {
			t.Errorf("late launches %v: %+v, want 70 µs %s", late, s.Idle, want)
		}
		if s.Idle.Window != 2*(8*40_000+7*5_000) {
			t.Errorf("window %d", s.Idle.Window)
		}
		if o := s.Overlap[0]; o.Verdict != "idle" || o.Time != 70_000 {
			t.Errorf("first overlap row %+v, want idle", o)
		}
	}
}

// The profiler slows the host of a trace with stacks; replays that lost their
// kernels look idle. Neither is believed.
func TestIdleIsNotClaimed(t *testing.T) {
	for _, f := range []string{vllmPrefill, vllmDecode, "traces/sglang_Qwen3-8B_decode_graph_mi300x.json.gz"} {
		for _, s := range report(t, sample.Load(t, f), nil).Stages {
			if s.Idle.Claimed || !strings.Contains(s.Idle.Reason, "stacks") {
				t.Errorf("%s %s: %+v", f, s.Stage, s.Idle)
			}
		}
	}
	r := report(t, sample.Load(t, "traces/dlrm_pair_rank-0.json.gz"), nil)
	if why := r.Stages[0].NoFuse; !strings.Contains(why, "no forward passes") {
		t.Errorf("no fuse rows because %q", why)
	}
	if i := r.Stages[0].Idle; i.Claimed || !strings.Contains(i.Reason, "no passes") {
		t.Errorf("%+v", i)
	}
}

// A family of small kernels can reach one percent when none of them does (R163).
func TestFamiliesSumSmallKernels(t *testing.T) {
	k := []sample.Kernel{{Name: "nvjet_a", Start: 10_000, Dur: 985_000}}
	for i, name := range []string{"silu_kernel_a", "silu_kernel_b", "silu_kernel_c"} {
		k = append(k, sample.Kernel{Name: name, Start: 1_000_000 + int64(i)*10_000, Dur: 5_000})
	}
	s := stage(t, report(t, sample.Make(t, []sample.Step{{Name: "step[DECODE bs=1]", Start: 0, End: 2_000_000}}, k), nil), launch.Decode)
	for _, f := range s.Families {
		if f.Family == "activation" && (f.Share != 0.015 || f.Kernels != 3 || f.Count != 3) {
			t.Errorf("%+v, want 1.5 %% in three kernels", f)
		}
	}
	if s.Kernels[1].Share != 0.005 {
		t.Errorf("second kernel has %f", s.Kernels[1].Share)
	}
}

// The mapping trace lends shapes to a replayed graph, and so bounds: the down
// projection of 32 tokens, 2·32·12288·4096 operations in 40.6 µs a launch.
func TestMappingGivesBounds(t *testing.T) {
	m := mapping.Build(profile.Build(sample.Load(t, "traces/sglang_Qwen3-8B_decode_capture_bs32_mi300x.json.gz")))
	r := report(t, sample.Load(t, "traces/sglang_Qwen3-8B_decode_graph_mi300x.json.gz"), m)
	k := row(t, stage(t, r, launch.Decode), "MT32x32x256")
	if k.Time != 1_461_907 || k.Count != 36 {
		t.Fatalf("another kernel: %+v", k)
	}
	want := 36 * 2 * 32 * 12288 * 4096 / (float64(k.Time) / 1e9)
	if k.Bound == nil || math.Abs(k.Bound.FLOPRate-want) > want*1e-9 || k.Bound.Limit != "memory" || k.Bound.Known != 1 {
		t.Errorf("bound %+v, want %.4g FLOP/s limited by memory", k.Bound, want)
	}
	if r.Coverage.Joined < 0.9 {
		t.Errorf("joined %f", r.Coverage.Joined)
	}
	plain := row(t, stage(t, report(t, sample.Load(t, "traces/sglang_Qwen3-8B_decode_graph_mi300x.json.gz"), nil), launch.Decode), "MT32x32x256")
	if plain.Sites[0].Location != "graph replay (hipGraphLaunch)" || plain.Bound.Known != 0 {
		t.Errorf("without a mapping: %+v, %+v", plain.Sites, plain.Bound)
	}
}

func TestCoverageSaysRules(t *testing.T) {
	c := report(t, sample.Load(t, sglang), nil).Coverage
	if len(c.Rules) != 2 || c.Rules[0].Rule != "launch inside a step" || c.Rules[1].Rule != "file name" || c.Staged != 1 {
		t.Errorf("%+v", c)
	}
	c = report(t, sample.Load(t, "traces/dlrm_pair_rank-0.json.gz"), nil).Coverage
	if c.Staged != 0 || len(c.Rules) != 0 {
		t.Errorf("DLRM has a stage: %+v", c)
	}
}

func TestNCCLBandwidth(t *testing.T) {
	s := report(t, sample.Load(t, "traces/ddp_resnet_nccl_args.json.gz"), nil).Stages[0]
	k := row(t, s, "AllReduce")
	if k.Bound == nil || k.Bound.ByteRate <= 0 || k.Bound.Known != 1 {
		t.Errorf("bound of the all-reduce %+v", k.Bound)
	}
}
