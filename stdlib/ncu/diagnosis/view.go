package diagnosis

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// Metric names by role. Where ncu renamed a metric, older names follow.
const (
	smPct          = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
	memPct         = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
	dramPct        = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
	dramPctOld     = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
	l2Pct          = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
	l1Pct          = "l1tex__throughput.avg.pct_of_peak_sustained_active"
	duration       = "gpu__time_duration.sum"
	waves          = "launch__waves_per_multiprocessor"
	warpLatency    = "smsp__average_warp_latency_per_inst_issued.ratio"
	theoretical    = "sm__maximum_warps_per_active_cycle_pct"
	achieved       = "sm__warps_active.avg.pct_of_peak_sustained_active"
	sectors        = "memory_l2_theoretical_sectors_global"
	sectorsGood    = "memory_l2_theoretical_sectors_global_ideal"
	bytesLoad      = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
	bytesStore     = "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"
	sectorsLoaded  = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
	requestsLoaded = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
	conflicts      = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
	wavefronts     = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
)

// Stall is a reason for which warps did not issue.
type Stall struct {
	Reason string  `json:"reason"`
	Cycles float64 `json:"cycles"`    // per issued instruction
	Share  float64 `json:"share_pct"` // of the cycles between two issues of a warp
}

// view is an input with the numbers that steps ask for. A number absent from
// the counters is taken from the shipped rules' prose, where it stands too.
type view struct {
	Input
	stalls []Stall
}

func newView(in Input) *view {
	v := &view{Input: in}
	v.stalls = v.rankStalls()
	return v
}

func (v *view) number(names ...string) (float64, bool) { return v.Metrics.Number(names...) }

// sol is compute and memory throughput in percent of peak.
func (v *view) sol() (sm, mem float64, ok bool) {
	sm, a := v.number(smPct)
	mem, b := v.number(memPct)
	return sm, mem, a && b
}

// headroom is the share of time left under the busiest unit, in percent. No
// change of schedule can gain more.
func (v *view) headroom() float64 {
	sm, mem, _ := v.sol()
	return max(0, 100-max(sm, mem))
}

// rule is the first finding of a shipped rule whose prose matches; groups are
// the expression's, as numbers.
func (v *view) rule(name string, re *lazyregexp.Regexp) (groups []float64, ok bool) {
	for _, f := range v.Findings {
		if f.Rule != name {
			continue
		}
		if m := re.FindStringSubmatch(f.Text); m != nil {
			for _, g := range m[1:] {
				n, err := strconv.ParseFloat(strings.TrimRight(g, "."), 64)
				if err != nil {
					n = math.NaN()
				}
				groups = append(groups, n)
			}
			return groups, true
		}
	}
	return nil, false
}

var (
	fullWaves     = lazyregexp.New(`only ([0-9.]+) full waves`)
	excessSectors = lazyregexp.New(`total of ([0-9]+) excessive sectors \([0-9.]+% of the total ([0-9]+) sectors\)`)
	bytesOfSector = lazyregexp.New(`only ([0-9.]+) of the 32 bytes`)
	conflictShare = lazyregexp.New(`represent ([0-9.]+)% of the overall`)
	partialWave   = lazyregexp.New(`partial wave may account for up to ([0-9.]+)%`)
	topPipe       = lazyregexp.New(`^(\w+) is the highest-utilized pipeline \(([0-9.]+)%\)`)
	stalled       = lazyregexp.New(`spends ([0-9.]+) cycles being stalled (.*?)\. .*represents about ([0-9.]+)% of the total`)
)

// waves is full waves of blocks per multiprocessor.
func (v *view) waves(threshold string) (Fact, bool) {
	f := Fact{Metric: waves, Threshold: threshold, Reading: "full waves of blocks per multiprocessor"}
	if w, ok := v.number(waves); ok {
		f.Value = w
		return f, true
	}
	if g, ok := v.rule("SOLBottleneck", fullWaves); ok {
		f.Metric, f.Value = "rule SOLBottleneck, full waves", g[0]
		return f, true
	}
	return Fact{}, false
}

// excess is the share of global sectors that a coalesced access would not
// need, in percent. It beats bytes per sector, which is as low for a broadcast
// (all lanes read one address) as for a stride, and sectors per request, which
// is 16 for a perfect 16-byte load.
func (v *view) excess() (Fact, bool) {
	f := Fact{Metric: sectors + " above ideal", Unit: "%", Threshold: "≥ 50"}
	total, a := v.number(sectors)
	good, b := v.number(sectorsGood)
	if a && b && total > 0 {
		f.Value = 100 * (total - good) / total
		f.Reading = "share of global sectors moved in excess of what coalesced access needs"
		return f, true
	}
	if g, ok := v.rule("UncoalescedGlobalAccess", excessSectors); ok && g[1] > 0 {
		f.Value = 100 * g[0] / g[1]
		f.Reading = "share of global sectors moved in excess of what coalesced access needs (rule UncoalescedGlobalAccess)"
		return f, true
	}
	// Where the source counters were collected the rule's silence is an answer.
	if slices.Contains(v.Sections, "Source Counters") {
		f.Reading = "rule UncoalescedGlobalAccess saw no excess"
		return f, true
	}
	return Fact{}, false
}

// sectorBytes is the smallest use made of a 32-byte sector by loads or stores.
// A zero means that there are no such accesses and is no answer.
func (v *view) sectorBytes() (Fact, bool) {
	f := Fact{Unit: "byte/sector", Threshold: "< 16 of 32", Reading: "bytes used of each 32-byte sector"}
	for _, name := range []string{bytesLoad, bytesStore} {
		if b, ok := v.number(name); ok && b > 0 && (f.Metric == "" || b < f.Value) {
			f.Metric, f.Value = name, b
		}
	}
	if f.Metric != "" {
		return f, true
	}
	if g, ok := v.rule("MemoryCacheAccessPattern", bytesOfSector); ok {
		f.Metric, f.Value = "rule MemoryCacheAccessPattern", g[0]
		return f, true
	}
	return Fact{}, false
}

// bankConflicts is the share of shared-memory wavefronts that are repeats, in percent.
func (v *view) bankConflicts() (Fact, bool) {
	f := Fact{Metric: conflicts, Unit: "%", Threshold: "≥ 10", Reading: "shared-memory wavefronts that only repeat others"}
	n, a := v.number(conflicts)
	of, b := v.number(wavefronts)
	if a && b && of > 0 {
		f.Value = 100 * n / of
		return f, true
	}
	if g, ok := v.rule("SharedMemoryConflicts", conflictShare); ok {
		f.Metric, f.Value = "rule SharedMemoryConflicts", g[0]
		return f, true
	}
	return Fact{}, false
}

// pipe is the busiest execution pipe and, apart from it, the tensor pipe.
func (v *view) pipe() (busiest Fact, tensor float64, known bool) {
	busiest = Fact{Unit: "%", Threshold: "> 80", Reading: "busiest execution pipe"}
	for _, name := range v.Metrics.Names() {
		pipe, ok := strings.CutPrefix(name, "sm__inst_executed_pipe_")
		if !ok {
			pipe, ok = strings.CutPrefix(name, "sm__pipe_tensor")
			pipe = "tensor" + pipe
		}
		if !ok || !strings.HasSuffix(name, ".avg.pct_of_peak_sustained_active") {
			continue
		}
		x, isNumber := v.number(name)
		if !isNumber {
			continue
		}
		known = true
		if strings.HasPrefix(pipe, "tensor") {
			tensor = max(tensor, x)
		}
		if x > busiest.Value {
			busiest.Metric, busiest.Value = name, x
		}
	}
	if known {
		return busiest, tensor, true
	}
	for _, f := range v.Findings {
		if m := topPipe.FindStringSubmatch(f.Text); f.Rule == "HighPipeUtilization" && m != nil {
			busiest.Metric = "rule HighPipeUtilization, pipe " + m[1]
			busiest.Value, _ = strconv.ParseFloat(m[2], 64)
			return busiest, 0, true
		}
	}
	return Fact{}, 0, false
}

// phrases of the rule CPIStall, for pages that do not carry the counters.
var phrases = []struct{ part, reason string }{
	{"scoreboard dependency on a L1TEX", "long_scoreboard"},
	{"scoreboard dependency on a MIO", "short_scoreboard"},
	{"L1 instruction queue for local and global", "lg_throttle"},
	{"MIO (memory input/output) instruction queue", "mio_throttle"},
	{"after EXIT waiting for all outstanding memory", "drain"},
	{"sibling warps at a CTA barrier", "barrier"},
	{"fixed latency execution dependency", "wait"},
}

func (v *view) rankStalls() []Stall {
	var out []Stall
	total, ok := v.number(warpLatency)
	for _, name := range v.Metrics.Names() {
		reason, is := strings.CutPrefix(name, "smsp__average_warps_issue_stalled_")
		if !is {
			continue
		}
		reason, is = strings.CutSuffix(reason, "_per_issue_active.ratio")
		x, isNumber := v.number(name)
		// "selected" is the issue itself, not a stall.
		if is && isNumber && ok && total > 0 && reason != "selected" && !strings.HasSuffix(reason, "_not_issued") {
			out = append(out, Stall{Reason: reason, Cycles: x, Share: 100 * x / total})
		}
	}
	if out == nil {
		out = v.stallsOfRules()
	}
	slices.SortStableFunc(out, func(a, b Stall) int { return cmp.Compare(b.Cycles, a.Cycles) })
	return out
}

func (v *view) stallsOfRules() []Stall {
	var out []Stall
	for _, f := range v.Findings {
		m := stalled.FindStringSubmatch(f.Text)
		if f.Rule != "CPIStall" || m == nil {
			continue
		}
		s := Stall{Reason: m[2]}
		for _, p := range phrases {
			if strings.Contains(m[2], p.part) {
				s.Reason = p.reason
			}
		}
		s.Cycles, _ = strconv.ParseFloat(m[1], 64)
		s.Share, _ = strconv.ParseFloat(m[3], 64)
		if !slices.ContainsFunc(out, func(o Stall) bool { return o.Reason == s.Reason }) {
			out = append(out, s)
		}
	}
	return out
}

// estimate is the largest estimate of a rule over the whole kernel, in percent.
func (v *view) estimate(rules ...string) (float64, bool) {
	best, ok := 0.0, false
	for _, f := range v.Findings {
		if slices.Contains(rules, f.Rule) && f.Scope == "global" && f.Estimate != nil {
			best, ok = max(best, *f.Estimate), true
		}
	}
	return best, ok
}
