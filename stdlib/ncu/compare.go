package ncu

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/ncu/diagnosis"
	"github.com/sotabuild/sotabuild/stdlib/ncu/match"
	"github.com/sotabuild/sotabuild/stdlib/ncu/page"
)

// better says which way a counter improves. Occupancy and hit rates have no
// good direction: more of them can come with less speed.
type better int

const (
	neither better = iota
	lower
	higher
)

// row is a line of the comparison. Of several names the first is the current
// one; with of set the value is a ratio, times scale.
type row struct {
	label  string
	unit   string
	better better
	names  []string
	of     string
	scale  float64
}

// rows in display order.
var rows = []row{
	{label: "duration", unit: "ns", better: lower, names: []string{"gpu__time_duration.sum"}},
	{label: "elapsed cycles", unit: "cycle", better: lower, names: []string{"gpc__cycles_elapsed.max"}},
	{label: "compute throughput", unit: "%", names: []string{"sm__throughput.avg.pct_of_peak_sustained_elapsed"}},
	{label: "memory throughput", unit: "%", names: []string{"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"}},
	{label: "DRAM throughput", unit: "%", names: []string{"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "dram__throughput.avg.pct_of_peak_sustained_elapsed"}},
	{label: "L2 throughput", unit: "%", names: []string{"lts__throughput.avg.pct_of_peak_sustained_elapsed"}},
	{label: "L1 throughput", unit: "%", names: []string{"l1tex__throughput.avg.pct_of_peak_sustained_active"}},
	{label: "DRAM bytes read", unit: "byte", better: lower, names: []string{"dram__bytes_read.sum", "dram__bytes_op_read.sum"}},
	{label: "DRAM bytes written", unit: "byte", better: lower, names: []string{"dram__bytes_write.sum", "dram__bytes_op_write.sum"}},
	{label: "DRAM rate", unit: "byte/s", names: []string{"dram__bytes.sum.per_second"}},
	{label: "L2 hit rate", unit: "%", names: []string{"lts__t_sector_hit_rate.pct"}},
	{label: "L1 hit rate", unit: "%", names: []string{"l1tex__t_sector_hit_rate.pct"}},
	{label: "bytes used per sector loaded", unit: "byte/sector", better: higher, names: []string{"smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"}},
	{label: "bytes used per sector stored", unit: "byte/sector", better: higher, names: []string{"smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"}},
	{label: "sectors per load request", unit: "sector", names: []string{"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"}, of: "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", scale: 1},
	{label: "sectors per store request", unit: "sector", names: []string{"l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"}, of: "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", scale: 1},
	{label: "global sectors over ideal", unit: "", better: lower, names: []string{"memory_l2_theoretical_sectors_global"}, of: "memory_l2_theoretical_sectors_global_ideal", scale: 1},
	{label: "shared-memory bank conflicts", unit: "%", better: lower, names: []string{"l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"}, of: "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", scale: 100},
	{label: "instructions", unit: "inst", better: lower, names: []string{"smsp__inst_executed.sum"}},
	{label: "issue slots used", unit: "%", names: []string{"smsp__issue_active.avg.pct_of_peak_sustained_active"}},
	{label: "cycles between issues of a warp", unit: "cycle", better: lower, names: []string{"smsp__average_warp_latency_per_inst_issued.ratio"}},
	{label: "tensor pipe", unit: "%", names: []string{"sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"}},
	{label: "theoretical occupancy", unit: "%", names: []string{"sm__maximum_warps_per_active_cycle_pct"}},
	{label: "achieved occupancy", unit: "%", names: []string{"sm__warps_active.avg.pct_of_peak_sustained_active"}},
	{label: "waves per multiprocessor", unit: "", names: []string{"launch__waves_per_multiprocessor"}},
	{label: "registers per thread", unit: "register/thread", names: []string{"launch__registers_per_thread"}},
	{label: "static shared memory", unit: "byte/block", names: []string{"launch__shared_mem_per_block_static"}},
	{label: "dynamic shared memory", unit: "byte/block", names: []string{"launch__shared_mem_per_block_dynamic"}},
}

// value is the row's number on one side, nil when it was not collected there.
func (r row) value(m page.Metrics) *float64 {
	v, ok := m.Number(r.names...)
	if !ok {
		return nil
	}
	if r.of != "" {
		n, ok := m.Number(r.of)
		if !ok || n == 0 {
			return nil
		}
		v = v / n * r.scale
	}
	return &v
}

const (
	band    = 2.0 // percent; a smaller change is no change (T07)
	clocks  = 3.0 // percent; beyond it cycles are compared, not time
	stallsN = 3   // stall reasons a side contributes to the table
)

func compare(b, c side, bs, cs *Side) *Delta {
	bm, cm := match.Metrics(b.groups), match.Metrics(c.groups)
	d := gate(bs, cs)
	for _, r := range rows {
		if line := r.line(bm, cm); line.Baseline != nil || line.Candidate != nil {
			d.Rows = append(d.Rows, line)
		}
	}
	d.Rows = append(d.Rows, stallRows(bs.Result.Stalls, cs.Result.Stalls)...)
	d.missing()
	metric, by := rows[0], "duration"
	if far(bs.SMHz, cs.SMHz, clocks) {
		metric, by = rows[1], "cycles"
	}
	old, now := metric.value(bm), metric.value(cm)
	if old == nil || now == nil || *old <= 0 || *now <= 0 {
		d.Comparable, d.Reasons = false, append(d.Reasons, "the "+by+" was not collected on both sides")
	}
	if !d.Comparable {
		d.Verdict = "not comparable"
		return d
	}
	d.Change = &Change{By: by, Speedup: *old / *now, DurationPct: 100 * (*now / *old - 1), NoisePct: band}
	for _, g := range append(slices.Clone(b.groups), c.groups...) {
		d.NoisePct = max(d.NoisePct, 2*match.Spread(g))
	}
	switch {
	case math.Abs(d.DurationPct) < d.NoisePct:
		d.Verdict = "no change"
	case d.DurationPct < 0:
		d.Verdict = "faster"
	default:
		d.Verdict = "slower"
	}
	d.Split = split(bm, cm)
	return d
}

func split(b, c page.Metrics) *Split {
	ratio := func(metric string) (float64, bool) {
		x, a := b.Number(metric)
		y, ok := c.Number(metric)
		return y / x, a && ok && x > 0 && y > 0
	}
	cycles, a := ratio("gpc__cycles_elapsed.max")
	inst, ok := ratio("smsp__inst_executed.sum")
	if !a || !ok {
		return nil
	}
	return &Split{Cycles: cycles, Instructions: inst, PerInst: cycles / inst}
}

func (r row) line(b, c page.Metrics) Row {
	name := r.names[0]
	if r.of != "" {
		name += " / " + r.of
	}
	out := Row{Metric: name, Label: r.label, Unit: r.unit, Baseline: r.value(b), Candidate: r.value(c)}
	out.judge(r.better)
	return out
}

func (r *Row) judge(good better) {
	if r.Baseline == nil || r.Candidate == nil {
		r.Verdict = "not compared"
		return
	}
	old, now := *r.Baseline, *r.Candidate
	delta, noise := now-old, 1.0 // points
	if r.Unit != "%" {
		if old == 0 {
			if now == 0 {
				r.Delta, r.Verdict = new(float64), "same"
			} else {
				r.Verdict = upDown(now, good)
			}
			return
		}
		delta, noise = 100*(now-old)/math.Abs(old), band
	}
	r.Delta = &delta
	if r.Verdict = upDown(delta, good); math.Abs(delta) < noise {
		r.Verdict = "same"
	}
}

func upDown(delta float64, good better) string {
	up := delta > 0
	switch {
	case good == neither && up:
		return "up"
	case good == neither:
		return "down"
	case up == (good == higher):
		return "better"
	}
	return "worse"
}

// stallRows are the main stall reasons of either side, the candidate's first.
func stallRows(b, c []diagnosis.Stall) []Row {
	var out []Row
	seen := map[string]bool{}
	for _, list := range [][]diagnosis.Stall{c, b} {
		for _, s := range list[:min(len(list), stallsN)] {
			if seen[s.Reason] {
				continue
			}
			seen[s.Reason] = true
			r := Row{Metric: "smsp__average_warps_issue_stalled_" + s.Reason + "_per_issue_active.ratio", Label: "stalled: " + s.Reason,
				Unit: "%", Baseline: share(b, s.Reason), Candidate: share(c, s.Reason)}
			r.judge(neither)
			out = append(out, r)
		}
	}
	return out
}

func share(stalls []diagnosis.Stall, reason string) *float64 {
	for _, s := range stalls {
		if s.Reason == reason {
			return &s.Share
		}
	}
	return nil
}

// worstRow names the counter that grew worse by most, in percent.
func worstRow(rows []Row) string {
	worst, by := "no counter grew worse but the time", 0.0
	for _, r := range rows {
		time := r.Label == "duration" || r.Label == "elapsed cycles"
		if !time && r.Verdict == "worse" && r.Delta != nil && math.Abs(*r.Delta) > by {
			worst, by = fmt.Sprintf("%s (%+.0f %%)", r.Label, *r.Delta), math.Abs(*r.Delta)
		}
	}
	return worst
}

// gate says whether the sides can be compared, and what a reader must know
// when they are.
func gate(b, c *Side) *Delta {
	d := &Delta{}
	reject := func(format string, args ...any) { d.Reasons = append(d.Reasons, fmt.Sprintf(format, args...)) }
	warn := func(format string, args ...any) { d.Warnings = append(d.Warnings, fmt.Sprintf(format, args...)) }
	for _, f := range []struct{ what, b, c string }{{"compute capability", b.CC, c.CC}, {"GPU", b.Device, c.Device}} {
		switch {
		case f.b == "unknown" || f.c == "unknown":
			warn("%s unknown (baseline %s, candidate %s): nothing shows that both ran on the same", f.what, f.b, f.c)
		case f.b != f.c:
			reject("%s %s against %s", f.what, f.b, f.c)
		}
	}
	if b.Shape != c.Shape && b.Shape != "" && c.Shape != "" {
		reject("shape %s against %s", b.Shape, c.Shape)
	} else if b.Threads != c.Threads && (b.Shape == "" || c.Shape == "") {
		warn("%d threads against %d: the launch changed, and no shape tag shows that both do the same work%s", b.Threads, c.Threads, written(b, c))
	}
	if b.Tool != c.Tool {
		warn("ncu %s against %s: estimates and some metrics differ between versions", b.Tool, c.Tool)
	}
	switch {
	case b.SMHz == 0 || c.SMHz == 0:
		warn("SM frequency not collected on both sides: time is compared without knowing the clocks")
	case far(b.SMHz, c.SMHz, clocks):
		warn("SM frequency %.0f MHz against %.0f MHz: cycles are compared, not time", b.SMHz/1e6, c.SMHz/1e6)
	}
	if b.Launches != c.Launches {
		warn("%d launches against %d", b.Launches, c.Launches)
	}
	d.Comparable = len(d.Reasons) == 0
	return d
}

// written is a hint at the work done: the bytes that reached DRAM.
func written(b, c *Side) string {
	old, a := b.Metrics.Number("dram__bytes_write.sum", "dram__bytes_op_write.sum")
	now, ok := c.Metrics.Number("dram__bytes_write.sum", "dram__bytes_op_write.sum")
	if !a || !ok || old == 0 {
		return ""
	}
	return fmt.Sprintf(" (bytes written to DRAM differ by %.1f %%)", 100*math.Abs(now-old)/old)
}

// missing warns of rows that only one side has.
func (d *Delta) missing() {
	var names []string
	for _, r := range d.Rows {
		if r.Verdict == "not compared" && !strings.HasPrefix(r.Label, "stalled") {
			names = append(names, r.Label)
		}
	}
	if names != nil {
		d.Warnings = append(d.Warnings, "the sides were profiled with different sections; not compared: "+strings.Join(names, ", "))
	}
}

// far tells whether two known numbers differ by more than percent.
func far(a, b, percent float64) bool {
	return a > 0 && b > 0 && math.Abs(a-b) > percent/100*max(a, b)
}
