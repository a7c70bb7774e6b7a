package diagnosis_test

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/ncu/diagnosis"
	"github.com/sotabuild/sotabuild/stdlib/ncu/page"
)

func launches(t *testing.T, name string) []page.Launch {
	t.Helper()
	f, err := os.Open("../testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := page.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return r.Launches
}

func input(l page.Launch) diagnosis.Input {
	return diagnosis.Input{Kernel: l.Kernel, Metrics: l.Metrics, Findings: l.Findings, Sections: l.Sections}
}

// TestLadder: six kernels written so that each has one known limit, measured
// on an H200 (testdata/ladder/README.md). Both pages must tell the same.
func TestLadder(t *testing.T) {
	want := []struct {
		kernel string
		class  diagnosis.Class
		edit   string
	}{
		{"stream_copy", diagnosis.DRAM, "fuse"},                  // float4, every sector used
		{"strided_copy", diagnosis.AccessPattern, "coalesce"},    // stride of 32 floats
		{"fma_loop", diagnosis.Compute, "fewer-pipe-operations"}, // four dependent FMA chains in 1,320 full blocks
		{"bank_conflict", diagnosis.BankConflicts, "swizzle"},    // 32-way conflict
		{"chase", diagnosis.UnderFilled, "more-blocks"},          // one warp a block, a quarter of a wave
		{"fma_loop", diagnosis.UnderFilled, "more-blocks"},       // the same in 32 blocks
	}
	for _, file := range []string{"ladder/raw.csv.gz", "ladder/details.csv.gz"} {
		for i, l := range launches(t, file) {
			r := diagnosis.Of(input(l))
			if !strings.HasPrefix(l.Kernel, want[i].kernel) || r.Class != want[i].class || r.Edit.ID != want[i].edit {
				t.Errorf("%s: %s is %s → %s, want %s → %s", file, l.Kernel, r.Class, r.Edit.ID, want[i].class, want[i].edit)
			}
		}
	}
}

// TestNarrowCopy: a copy of 4 bytes a thread reaches 49 % of the bandwidth
// where stream_copy, the same with 16, reaches 85 %; so width is what to change.
func TestNarrowCopy(t *testing.T) {
	r := diagnosis.Of(input(launches(t, "imported/raw.csv.gz")[0]))
	if r.Class != diagnosis.Latency || r.Edit.ID != "wider-loads" {
		t.Errorf("copy_v0 is %s → %s, want latency → wider-loads", r.Class, r.Edit.ID)
	}
	if m := r.Roofline.Missing; len(m) != 1 || !strings.Contains(m[0], "executes none") {
		t.Errorf("a copy has no floating-point operations, and the roofline says %q", m)
	}
}

// TestPublicSamples: classes as a reader of the samples gave them.
func TestPublicSamples(t *testing.T) {
	for _, c := range []struct {
		file  string
		class diagnosis.Class
		edit  string
	}{
		{"rtx5090_dsocr_kernel_0001.details.csv", diagnosis.UnderFilled, "more-blocks"},
		{"rtx5090_dsocr_kernel_0001.section_SpeedOfLight.csv", diagnosis.UnderFilled, "more-blocks"},
		{"rtx5090_dsocr_kernel_0005.details.csv", diagnosis.Latency, "reprofile-WarpStateStats"},
		{"rtx5090_dsocr_kernel_0009.details.csv", diagnosis.Latency, "reprofile-WarpStateStats"},
		// Memory is at 94 %, DRAM at 10 %: an edit to save DRAM bytes would be wrong.
		{"rtx5090_dsocr_kernel_0010.details.csv", diagnosis.L2, "fewer-l2-trips"},
		// Estimates of siblings tie here; the access pattern's own is larger.
		{"t4_copy_blocked.full_baseunits.details.csv", diagnosis.AccessPattern, "coalesce"},
	} {
		r := diagnosis.Of(input(launches(t, "public/"+c.file)[0]))
		if r.Class != c.class || r.Edit.ID != c.edit {
			t.Errorf("%s is %s → %s, want %s → %s", c.file, r.Class, r.Edit.ID, c.class, c.edit)
		}
	}
}

// TestStalls: ncu's own rule says 95.4 % and 77.1 % of the cycles; the shares
// computed from the counters must agree.
func TestStalls(t *testing.T) {
	raw, details := launches(t, "h200/rmsnorm_raw.csv"), launches(t, "h200/rmsnorm_details.csv")
	for i, want := range []float64{95.4, 77.1} {
		for _, l := range []page.Launch{raw[i], details[i]} {
			top := diagnosis.Of(input(l)).Stalls[0]
			if top.Reason != "long_scoreboard" || math.Abs(top.Share-want) > 0.05 {
				t.Errorf("%s (%v): main stall %s %.2f %%, want long_scoreboard %.1f %%", l.Kernel, l.Pages, top.Reason, top.Share, want)
			}
		}
	}
	t4 := diagnosis.Of(input(launches(t, "public/t4_copy_blocked.full_baseunits.details.csv")[0])).Stalls
	if len(t4) != 2 || t4[1].Reason != "lg_throttle" || t4[1].Share != 46.9 {
		t.Errorf("stalls of the T4 copy %+v, want long_scoreboard and lg_throttle 46.9 %%", t4)
	}
}

// TestRoofline holds the position against the source code and data sheets: the
// kernel squares, sums, scales and weights each of 16384 × 4096 floats (one
// fused and two plain operations), and an H200 has 67 TFLOP/s of fp32 and
// 4.8 TB/s. For a kernel left of the ridge the share of the roof is the DRAM
// throughput that ncu reports.
func TestRoofline(t *testing.T) {
	for i, l := range launches(t, "h200/rmsnorm_raw.csv")[:2] {
		r := diagnosis.Of(input(l)).Roofline
		if len(r.Missing) != 0 || r.Pipe != "fp32" || r.Side != "left of the ridge" {
			t.Fatalf("%s: %+v, want a whole fp32 position left of the ridge", l.Kernel, r)
		}
		near(t, "peak fp32", r.PeakFLOP, 67e12, 0.015)
		near(t, "peak DRAM", r.PeakBytes, 4.8e12, 0.005)
		dram, _ := l.Metrics.Number("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed")
		near(t, "share of the roof", r.RoofPct, dram, 0.001)
		if i == 0 {
			near(t, "operations of v0", r.FLOP, 4*16384*4096, 0.001)
		}
		near(t, "ridge", r.Ridge, 67.0/4.8, 0.02)
	}
}

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if math.Abs(got-want) > tol*want {
		t.Errorf("%s is %.6g, want %.6g within %.1f %%", what, got, want, 100*tol)
	}
}

// TestPeakFromShare: without the peak itself it follows from the rate and its
// share. Data sheets: T4 320 GB/s, RTX 5090 1,792 GB/s, H200 4.8 TB/s.
func TestPeakFromShare(t *testing.T) {
	for file, want := range map[string]float64{
		"public/t4_copy_blocked.full_baseunits.details.csv": 320e9,
		"public/rtx5090_dsocr_kernel_0009.details.csv":      1792e9,
		"ladder/raw.csv.gz": 4.8e12,
	} {
		near(t, "peak DRAM of "+file, diagnosis.Of(input(launches(t, file)[0])).Roofline.PeakBytes, want, 0.02)
	}
}

func TestRooflineSaysWhatIsMissing(t *testing.T) {
	r := diagnosis.Of(input(launches(t, "public/rtx5090_dsocr_kernel_0005.details.csv")[0])).Roofline
	// 12,532,580,352 tensor operations over 17.50 MB.
	near(t, "intensity", r.Intensity, 716.15, 0.001)
	if r.RoofPct != 0 || !slices.Contains(r.Missing, "peak of the tensor bf16_dst_fp32 pipe") {
		t.Errorf("%+v, want no position and the missing peak named", r)
	}
}

// counters builds an input from a few numbers.
func counters(kv map[string]float64) diagnosis.Input {
	m := page.Metrics{}
	for n, v := range kv {
		m[n] = page.Metric{Value: v, Text: "x"}
	}
	return diagnosis.Input{Kernel: "k(int)", Metrics: m}
}

const (
	sm      = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
	mem     = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
	dram    = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
	l2      = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
	l1      = "l1tex__throughput.avg.pct_of_peak_sustained_active"
	ns      = "gpu__time_duration.sum"
	waves   = "launch__waves_per_multiprocessor"
	sectors = "memory_l2_theoretical_sectors_global"
	ideal   = "memory_l2_theoretical_sectors_global_ideal"
	ld      = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
	latency = "smsp__average_warp_latency_per_inst_issued.ratio"
	stall   = "smsp__average_warps_issue_stalled_"
	per     = "_per_issue_active.ratio"
	fma     = "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active"
	tensor  = "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"
)

// TestThresholds walks the decision table, one row a rule and its border.
func TestThresholds(t *testing.T) {
	for _, c := range []struct {
		name    string
		metrics map[string]float64
		change  func(*diagnosis.Input)
		class   diagnosis.Class
		edit    string
	}{
		{"no throughput", map[string]float64{ns: 1e6}, nil, diagnosis.Unknown, "reprofile-SpeedOfLight"},
		{"short with a gap", map[string]float64{sm: 10, mem: 10, ns: 3000}, func(in *diagnosis.Input) { in.Gap = 9 * time.Microsecond }, diagnosis.LaunchBound, "fuse-launch"},
		{"short without a gap", map[string]float64{sm: 10, mem: 10, ns: 3000}, nil, diagnosis.Latency, "reprofile-WarpStateStats"},
		{"waves 0.99", map[string]float64{sm: 59, mem: 10, waves: 0.99}, nil, diagnosis.UnderFilled, "more-blocks"},
		{"waves 0.99 but busy", map[string]float64{sm: 10, mem: 61, waves: 0.99, dram: 61}, nil, diagnosis.DRAM, "fuse"},
		{"a tenth over one wave", map[string]float64{sm: 30, mem: 10, waves: 1.1, latency: 10, stall + "wait" + per: 4}, nil, diagnosis.Tail, "whole-waves"},
		{"whole waves", map[string]float64{sm: 30, mem: 10, waves: 2, latency: 10, stall + "wait" + per: 4}, nil, diagnosis.Latency, "more-ilp"},
		{"a busy tail gains little", map[string]float64{sm: 10, mem: 95, waves: 1.5, l1: 95, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": 50, "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": 100}, nil, diagnosis.BankConflicts, "swizzle"},
		{"conflicts below a tenth", map[string]float64{sm: 10, mem: 95, l1: 95, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": 9, "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": 100}, nil, diagnosis.L1, "fewer-shared-trips"},
		// All lanes read one address: 4 bytes of a sector are used and none is in excess.
		{"broadcast is no stride", map[string]float64{sm: 10, mem: 85, dram: 85, sectors: 100, ideal: 100, ld: 4}, nil, diagnosis.DRAM, "fuse"},
		// 16 sectors a request are ideal for 16-byte loads.
		{"vector loads are no stride", map[string]float64{sm: 10, mem: 85, dram: 85, ld: 32, "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 16, "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 1}, nil, diagnosis.DRAM, "fuse"},
		{"stride by excess", map[string]float64{sm: 10, mem: 70, dram: 65, sectors: 200, ideal: 100}, nil, diagnosis.AccessPattern, "coalesce"},
		{"excess below half", map[string]float64{sm: 10, mem: 85, dram: 85, sectors: 190, ideal: 100}, nil, diagnosis.DRAM, "fuse"},
		{"stride by bytes", map[string]float64{sm: 10, mem: 70, dram: 65, ld: 15}, nil, diagnosis.AccessPattern, "coalesce"},
		{"no loads at all", map[string]float64{sm: 10, mem: 70, dram: 65, ld: 0}, nil, diagnosis.DRAM, "fuse"},
		{"stride in a compute-bound kernel", map[string]float64{sm: 90, mem: 20, fma: 85, sectors: 200, ideal: 100}, nil, diagnosis.Compute, "fewer-pipe-operations"},
		{"bytes over the shapes'", map[string]float64{sm: 10, mem: 85, dram: 85, ns: 1e6, "dram__bytes.sum": 130}, func(in *diagnosis.Input) { in.MinBytes = 100 }, diagnosis.DRAM, "no-rereads"},
		{"bytes as the shapes'", map[string]float64{sm: 10, mem: 85, dram: 85, ns: 1e6, "dram__bytes.sum": 119}, func(in *diagnosis.Input) { in.MinBytes = 100 }, diagnosis.DRAM, "fuse"},
		{"L2 above DRAM", map[string]float64{sm: 10, mem: 85, dram: 74, l2: 85, l1: 20}, nil, diagnosis.L2, "fewer-l2-trips"},
		{"memory without levels", map[string]float64{sm: 10, mem: 85}, nil, diagnosis.Unknown, "reprofile-MemoryWorkloadAnalysis"},
		{"tensor at the roof", map[string]float64{sm: 85, mem: 30, tensor: 61, fma: 5}, nil, diagnosis.Compute, "lower-precision"},
		{"product without tensor cores", map[string]float64{sm: 85, mem: 30, fma: 95, tensor: 0}, func(in *diagnosis.Input) { in.Kernel = "my_gemm" }, diagnosis.Compute, "tensor-cores"},
		{"compute without pipes", map[string]float64{sm: 85, mem: 30}, nil, diagnosis.Compute, "reprofile-ComputeWorkloadAnalysis"},
		{"waiting for memory, few warps fit", map[string]float64{sm: 30, mem: 30, waves: 4, latency: 10, stall + "long_scoreboard" + per: 6, "sm__maximum_warps_per_active_cycle_pct": 25, "launch__occupancy_limit_registers": 2, "launch__occupancy_limit_warps": 8}, nil, diagnosis.Latency, "raise-occupancy"},
		{"waiting for memory, enough fit", map[string]float64{sm: 30, mem: 30, waves: 4, latency: 10, stall + "long_scoreboard" + per: 6, "sm__maximum_warps_per_active_cycle_pct": 75, "launch__occupancy_limit_registers": 2}, nil, diagnosis.Latency, "prefetch"},
		{"waiting for broadcasts", map[string]float64{sm: 30, mem: 30, waves: 4, latency: 10, stall + "long_scoreboard" + per: 6, "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 1, "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 1}, nil, diagnosis.Latency, "prefetch"},
		{"waiting for wide loads", map[string]float64{sm: 30, mem: 30, waves: 4, latency: 10, stall + "long_scoreboard" + per: 6, "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 16, "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 1}, nil, diagnosis.Latency, "prefetch"},
		{"not selected is no stall to mend", map[string]float64{sm: 50, mem: 30, waves: 4, latency: 10, stall + "not_selected" + per: 6, stall + "barrier" + per: 3.1}, nil, diagnosis.Latency, "fewer-barriers"},
		{"no stall above 30", map[string]float64{sm: 50, mem: 50, waves: 4, latency: 10, stall + "barrier" + per: 3, stall + "wait" + per: 2}, nil, diagnosis.Balanced, "next-kernel"},
		{"balanced", map[string]float64{sm: 65, mem: 70, waves: 4}, nil, diagnosis.Balanced, "next-kernel"},
	} {
		in := counters(c.metrics)
		if c.change != nil {
			c.change(&in)
		}
		r := diagnosis.Of(in)
		if r.Class != c.class || r.Edit.ID != c.edit {
			t.Errorf("%s: %s → %s, want %s → %s", c.name, r.Class, r.Edit.ID, c.class, c.edit)
		}
		for what, s := range map[string]string{"change": r.Edit.Change, "why": r.Edit.Why, "expectation": r.Edit.Expect, "refutation": r.Edit.Refuted, "symbol": r.Edit.Symbol} {
			if s == "" || strings.Contains(s, "NaN") || strings.Contains(s, "%!") {
				t.Errorf("%s: %s of the edit is %q", c.name, what, s)
			}
		}
	}
}

// TestRefutedEditsAreNotProposedAgain: the next best follows, and at the end
// the kernel is left.
func TestRefutedEditsAreNotProposedAgain(t *testing.T) {
	in := input(launches(t, "h200/rmsnorm_raw.csv")[0])
	var ids []string
	for range 10 {
		r := diagnosis.Of(in)
		if slices.Contains(ids, r.Edit.ID) {
			break
		}
		ids = append(ids, r.Edit.ID)
		in.Refuted = ids
	}
	if !slices.Equal(ids, []string{"coalesce", "fewer-l2-trips", "next-kernel"}) {
		t.Errorf("edits in turn %v, want coalesce, fewer-l2-trips, next-kernel", ids)
	}
}

func TestNeighbourIsNamed(t *testing.T) {
	in := input(launches(t, "h200/rmsnorm_raw.csv")[1])
	in.Neighbour, in.File = "add_residual", "csrc/norm.cu"
	e := diagnosis.Of(in).Edit
	if !strings.Contains(e.Change, "add_residual") || !strings.HasPrefix(e.Where(), "csrc/norm.cu (rmsnorm_v1(") {
		t.Errorf("edit %q in %q, want both named", e.Change, e.Where())
	}
}

// FuzzOf: whatever a page says, there is one edit with all its words and a
// bound that is a share.
func FuzzOf(f *testing.F) {
	for _, name := range []string{"public/rtx5090_dsocr_kernel_0001.section_SpeedOfLight.csv", "ladder/live.csv"} {
		data, err := os.ReadFile("../testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := page.Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, l := range r.Launches {
			e := diagnosis.Of(input(l)).Edit
			if e.ID == "" || e.Change == "" || e.Why == "" || e.Expect == "" || e.Refuted == "" || !(e.GainPct >= 0 && e.GainPct <= 100) {
				t.Fatalf("edit %+v", e)
			}
		}
	})
}
