package diagnosis

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Thresholds are those of the rules that ncu ships, where it ships one.
const (
	shortKernel  = 5000.0 // ns; below it a launch costs as much as the kernel
	lowSOL       = 60.0   // % of peak: below it on both sides nothing is busy (SOLBottleneck)
	highSOL      = 80.0   // % of peak: at the roof (SOLBottleneck)
	clearLead    = 10.0   // points between compute and memory (SOLBottleneck)
	badExcess    = 50.0   // % of global sectors moved in vain
	badSector    = 16.0   // bytes used of a 32-byte sector
	badConflicts = 10.0   // % of shared-memory wavefronts
	tailShare    = 20.0   // % of run time in a partial wave (LaunchConfiguration)
	rereads      = 1.2    // DRAM bytes over what the algorithm must move
	busyPipe     = 80.0   // % (HighPipeUtilization)
	busyTensor   = 60.0
	idleTensor   = 20.0
	narrowLoad   = 8.0  // sectors per load request
	mainStall    = 30.0 // % of warp cycles per issue (CPIStall)
)

func launchBound(v *view) []candidate {
	ns, ok := v.number(duration)
	gap := float64(v.Gap.Nanoseconds())
	if !ok || ns >= shortKernel || gap < ns/3 {
		return nil
	}
	gain := 100 * gap / (gap + ns)
	return []candidate{{LaunchBound,
		[]Fact{{duration, ns, "ns", "< 5000", "shorter than a launch"}, {"gap before the kernel", gap, "ns", "same order", "idle time in the trace"}},
		Edit{ID: "fuse-launch", GainPct: gain,
			Change:  "fuse the kernel with " + v.neighbour(),
			Why:     fmt.Sprintf("it runs %.0f ns and the GPU idles %.0f ns before it", ns, gap),
			Refuted: "the idle time before it in the trace does not fall by half"}}}
}

func underFilled(v *view) []candidate {
	sm, mem, _ := v.sol()
	w, ok := v.waves("< 1")
	if !ok || w.Value >= 1 || max(sm, mem) >= lowSOL {
		return nil
	}
	return []candidate{{UnderFilled,
		[]Fact{w, solFact(sm, mem)},
		Edit{ID: "more-blocks", GainPct: v.headroom(), Change: "split the longest loop or reduction over more blocks, at least one wave of them,",
			Why:     fmt.Sprintf("%s = %.2g, below one wave, and no unit is busier than %.1f %%", w.Metric, w.Value, max(sm, mem)),
			Refuted: waves + " stays below 1 or achieved occupancy does not rise"}}}
}

func solFact(sm, mem float64) Fact {
	if sm >= mem {
		return Fact{smPct, sm, "%", "< 60 = nothing is busy", "compute throughput, the larger of the two"}
	}
	return Fact{memPct, mem, "%", "< 60 = nothing is busy", "memory throughput, the larger of the two"}
}

func tail(v *view) []candidate {
	f, ok := v.waves("partial wave ≥ 20 % of the time")
	w := f.Value
	if !ok || w < 1 {
		return nil
	}
	// A partial wave takes as long as a full one.
	share := 0.0
	if part := w - math.Floor(w); part > 0.005 {
		share = 100 / (1 + math.Floor(w))
	}
	if g, ok := v.rule("LaunchConfiguration", partialWave); ok {
		share = max(share, g[0])
	}
	if share < tailShare {
		return nil
	}
	return []candidate{{Tail, []Fact{f},
		Edit{ID: "whole-waves", GainPct: min(share, v.headroom()),
			Change:  "make the kernel persistent, with one block per slot of the GPU and a loop over tiles,",
			Why:     fmt.Sprintf("%s = %.2f: the partial last wave takes up to %.0f %% of the time", waves, w, share),
			Refuted: "waves per multiprocessor are not whole after the edit"}}}
}

func accessPattern(v *view) []candidate {
	sm, mem, _ := v.sol()
	excess, known := v.excess()
	bytes, hasBytes := v.sectorBytes()
	bad := known && excess.Value >= badExcess
	if !known {
		bad = hasBytes && bytes.Value < badSector
	}
	if !bad || mem < sm {
		return nil
	}
	facts := []Fact{{memPct, mem, "%", "> compute", "memory is the busier side"}}
	why, gain := "", 0.0
	if hasBytes {
		gain = 100 * (1 - bytes.Value/32)
		why = fmt.Sprintf("%s = %.1f of 32", bytes.Metric, bytes.Value)
		facts = append([]Fact{bytes}, facts...)
	}
	if known {
		gain = excess.Value
		if why != "" {
			why += " and "
		}
		why += fmt.Sprintf("%.0f %% of the global sectors are moved in vain", excess.Value)
		facts = append([]Fact{excess}, facts...)
	}
	if e, ok := v.estimate("UncoalescedGlobalAccess", "MemoryCacheAccessPattern"); ok {
		gain = e
	}
	if level, pct := v.level(); level != Unknown {
		facts = append(facts, levelFact(level, pct))
	}
	return []candidate{{AccessPattern, facts,
		Edit{ID: "coalesce", GainPct: gain,
			Change:  "map threads along the contiguous dimension with 16-byte accesses",
			Why:     why,
			Expect:  fmt.Sprintf("about %.0f %% of this kernel's time, by the excess traffic", gain),
			Refuted: "bytes used per sector do not rise above 24 of 32"}}}
}

// level is the busiest level of the memory system. DRAM counts as busiest
// within ten points of the whole, because caches are busy with its traffic.
func (v *view) level() (Class, float64) {
	_, mem, _ := v.sol()
	dram, hasDRAM := v.number(dramPct, dramPctOld)
	l2, _ := v.number(l2Pct)
	l1, _ := v.number(l1Pct)
	switch {
	case hasDRAM && mem-dram <= clearLead:
		return DRAM, dram
	case l2 >= l1 && l2 > 0:
		return L2, l2
	case l1 > 0:
		return L1, l1
	}
	return Unknown, 0
}

func levelFact(level Class, pct float64) Fact {
	at := map[Class]struct{ metric, reading string }{
		DRAM: {dramPct, "within ten points of the whole memory throughput, so DRAM limits it"},
		L2:   {l2Pct, "L2 is the busiest level of the memory system"},
		L1:   {l1Pct, "L1 is the busiest level of the memory system"},
	}[level]
	return Fact{at.metric, pct, "%", "", at.reading}
}

func memory(v *view) []candidate {
	sm, mem, _ := v.sol()
	if mem < highSOL && (mem-sm < clearLead || mem < lowSOL) {
		return nil
	}
	level, pct := v.level()
	facts := []Fact{{memPct, mem, "%", "≥ 80, or ≥ 60 and 10 above compute", "memory throughput"}}
	if level == Unknown {
		return []candidate{{Unknown, facts, reprofile(v, "MemoryWorkloadAnalysis", "memory is the limit and no level's throughput was collected")}}
	}
	facts = append(facts, levelFact(level, pct))
	switch level {
	case DRAM:
		return []candidate{{DRAM, facts, dramEdit(v, pct)}}
	case L2:
		return []candidate{{L2, facts, Edit{ID: "fewer-l2-trips", GainPct: 100 - pct,
			Change:  "widen each thread's global accesses to 16 bytes",
			Why:     fmt.Sprintf("%s = %.1f %% while DRAM is not the limit", l2Pct, pct),
			Expect:  proportion("L2 traffic", 100-pct),
			Refuted: "L2 throughput does not fall by a tenth"}}}
	}
	return []candidate{sharedEdit(v, facts, pct)}
}

func dramEdit(v *view, pct float64) Edit {
	ns, _ := v.number(duration)
	bytes := dramBytes(v, ns)
	if v.MinBytes > 0 && bytes >= rereads*v.MinBytes {
		return Edit{ID: "no-rereads", GainPct: 100 * (1 - v.MinBytes/bytes),
			Change:  "stage each input tile in shared memory and reuse it there",
			Why:     fmt.Sprintf("DRAM moves %.3g bytes where the shapes need %.3g", bytes, v.MinBytes),
			Refuted: "DRAM bytes do not fall by half of the excess"}
	}
	use := "whether its sectors are fully used was not collected"
	if x, ok := v.excess(); ok {
		use = fmt.Sprintf("%.0f %% of its sectors are in excess", x.Value)
	}
	l2, _ := v.number(l2Pct)
	left := 100 - max(pct, l2)
	return Edit{ID: "fuse", GainPct: left,
		Change: "fuse the kernel with " + v.neighbour(),
		Why:    fmt.Sprintf("%s = %.1f %% and %s, so the bandwidth roof is near and fewer bytes are what helps", dramPct, pct, use),
		Expect: fmt.Sprintf("at most %.1f %% of this kernel's time at the same bytes, besides the saved round trip of some %.0f MB",
			left, bytes/2e6),
		Refuted: "DRAM bytes of the fused kernel are not below those of the two kernels by one round trip"}
}

// neighbour names what to fuse with.
func (v *view) neighbour() string {
	if v.Neighbour != "" {
		return "its neighbour " + v.Neighbour
	}
	return "the kernel that produces its input"
}

func sharedEdit(v *view, facts []Fact, pct float64) candidate {
	if c, ok := v.bankConflicts(); ok && c.Value >= badConflicts {
		gain := c.Value
		if e, ok := v.estimate("SharedMemoryConflicts", "UncoalescedSharedAccess"); ok {
			gain = e
		}
		return candidate{BankConflicts, append([]Fact{c}, facts...), Edit{ID: "swizzle", GainPct: gain,
			Change:  "swizzle the shared-memory layout",
			Why:     fmt.Sprintf("%.0f %% of the shared-memory wavefronts only repeat others because of bank conflicts", c.Value),
			Refuted: "bank conflicts stay above 10 % of the wavefronts"}}
	}
	return candidate{L1, facts, Edit{ID: "fewer-shared-trips", GainPct: 100 - pct,
		Change:  "hold reused values in registers",
		Why:     fmt.Sprintf("%s = %.1f %% without bank conflicts", l1Pct, pct),
		Expect:  proportion("shared-memory traffic", 100-pct),
		Refuted: "L1 throughput does not fall by a tenth"}}
}

func compute(v *view) []candidate {
	sm, mem, _ := v.sol()
	if sm < highSOL && (sm-mem < clearLead || sm < lowSOL) {
		return nil
	}
	facts := []Fact{{smPct, sm, "%", "≥ 80, or ≥ 60 and 10 above memory", "compute throughput"}}
	busiest, tensor, known := v.pipe()
	if !known {
		return []candidate{{Compute, facts, reprofile(v, "ComputeWorkloadAnalysis", "compute is the limit and no pipe's use was collected")}}
	}
	facts = append([]Fact{busiest}, facts...)
	e := Edit{GainPct: 100 - sm, Why: fmt.Sprintf("%s = %.1f %%", busiest.Metric, busiest.Value),
		Expect:  proportion("work on that pipe", 100-sm),
		Refuted: "the pipe's use does not fall by a tenth"}
	switch {
	case tensor > busyTensor:
		e.ID, e.Change = "lower-precision", "run the product in the next lower precision that the campaign's policy allows"
	case matmulLike(v.Kernel) && tensor < idleTensor:
		e.ID, e.Change = "tensor-cores", "use the tensor-core path for the product"
		e.Why = fmt.Sprintf("the tensor pipe is used %.1f %% in a matrix product while %s", tensor, e.Why)
		e.Refuted = "tensor pipe use stays below 20 %"
	case busiest.Value > busyPipe:
		e.ID, e.Change = "fewer-pipe-operations", "hoist loop-invariant work out of the hot loop"
	default:
		e.ID, e.Change = "fewer-instructions", "unroll the hot loop by four"
	}
	return []candidate{{Compute, facts, e}}
}

// proportion is what to expect of an edit that removes work from a busy unit:
// headroom bounds only what the same work could gain.
func proportion(of string, headroom float64) string {
	return fmt.Sprintf("time falls in proportion to the %s removed; at the same work at most %.1f %%", of, headroom)
}

// derived are the values that readers want of both sides when one was decided by them.
func (v *view) derived() []Fact {
	var out []Fact
	for _, of := range []func() (Fact, bool){v.excess, v.sectorBytes, v.bankConflicts, func() (Fact, bool) { return v.waves("") }} {
		if f, ok := of(); ok && f.Metric != "" {
			out = append(out, f)
		}
	}
	return out
}

func matmulLike(kernel string) bool {
	k := strings.ToLower(kernel)
	return slices.ContainsFunc([]string{"gemm", "matmul", "fmha", "flash", "attention"}, func(p string) bool { return strings.Contains(k, p) })
}

// remedies by stall reason.
var remedies = map[string]struct{ id, change string }{
	"long_scoreboard":    {"prefetch", "issue loads one stage ahead, by asynchronous copies into shared memory,"},
	"short_scoreboard":   {"fewer-shared-waits", "keep values in registers that it now reads back from shared memory"},
	"barrier":            {"fewer-barriers", "halve the block"},
	"math_pipe_throttle": {"fewer-pipe-operations", "hoist loop-invariant work out of the hot loop"},
	"mio_throttle":       {"wider-shared", "widen shared-memory accesses to 16 bytes"},
	"lg_throttle":        {"wider-loads", "widen each thread's global accesses to 16 bytes"},
	"wait":               {"more-ilp", "unroll the hot loop into independent instructions"},
	"dispatch_stall":     {"more-ilp", "unroll the hot loop into independent instructions"},
	"gmma":               {"deeper-pipeline", "add a stage to the producer-consumer pipeline"},
	"warpgroup_arrive":   {"deeper-pipeline", "add a stage to the producer-consumer pipeline"},
	"drain":              {"earlier-stores", "store results as they are ready instead of at the end"},
	"no_instruction":     {"smaller-code", "halve the unrolling of the hot loop"},
	"imc_miss":           {"fewer-constants", "load what is indexed dynamically from shared memory rather than from the constant bank"},
	"branch_resolving":   {"fewer-branches", "replace branches in the hot loop by predicates"},
	"membar":             {"fewer-fences", "narrow its memory fences to the block"},
	"tex_throttle":       {"fewer-texture", "read through global loads instead of texture instructions"},
	"sleeping":           {"less-sleeping", "wait on a barrier instead of sleeping"},
}

func latency(v *view) []candidate {
	sm, mem, _ := v.sol()
	if w, ok := v.waves(""); sm >= lowSOL || mem >= lowSOL || (ok && w.Value < 1) {
		return nil
	}
	facts := []Fact{solFact(sm, mem)}
	if len(v.stalls) == 0 {
		return []candidate{{Latency, facts, reprofile(v, "WarpStateStats",
			fmt.Sprintf("compute %.1f %% and memory %.1f %% are both below 60 %%, so warps wait, and no stall reason was collected", sm, mem))}}
	}
	// not_selected has no remedy: another warp issued, so nothing was lost.
	at := slices.IndexFunc(v.stalls, func(s Stall) bool { _, ok := remedies[s.Reason]; return ok && s.Share > mainStall })
	if at < 0 {
		return nil
	}
	top := v.stalls[at]
	facts = append([]Fact{{"stall " + top.Reason, top.Share, "%", "> 30", "share of the cycles between two issues of a warp"}}, facts...)
	gain := min(top.Share, v.headroom())
	if e, ok := v.estimate("CPIStall"); ok {
		gain = min(gain, e)
	}
	for _, special := range []func(*view, []Fact, Stall, float64) (candidate, bool){occupancyEdit, widenEdit} {
		if c, ok := special(v, facts, top, gain); ok {
			return []candidate{c}
		}
	}
	r := remedies[top.Reason]
	return []candidate{{Latency, facts, Edit{ID: r.id, GainPct: gain, Change: r.change,
		Why:     fmt.Sprintf("warps wait %.1f of the cycles between two issues for %s (%.0f %%, above 30 %%)", top.Cycles, top.Reason, top.Share),
		Refuted: "the share of " + top.Reason + " does not fall by ten points"}}}
}

// occupancyEdit goes first when warps wait for memory and too few fit: more
// warps hide latency without touching the algorithm.
func occupancyEdit(v *view, facts []Fact, top Stall, gain float64) (candidate, bool) {
	occ, ok := v.number(theoretical)
	limiter, blocks := v.limiter()
	if top.Reason != "long_scoreboard" || !ok || occ >= 50 || (limiter != "registers" && limiter != "shared memory") {
		return candidate{}, false
	}
	facts = append(facts, Fact{theoretical, occ, "%", "< 50", "theoretical occupancy, limited by " + limiter})
	return candidate{Latency, facts, Edit{ID: "raise-occupancy", GainPct: gain,
		Change:  "lower the use of " + limiter + " until another block fits on a multiprocessor",
		Why:     fmt.Sprintf("warps wait for memory and %s admit only %.0f blocks (occupancy %.0f %%)", limiter, blocks, occ),
		Refuted: "theoretical occupancy does not rise"}}, true
}

// widenEdit goes before prefetching when warps wait for narrow coalesced loads:
// wider ones put more bytes in flight without a pipeline. A coalesced request
// of 4 bytes a thread is 4 sectors, one of 16 bytes is 16; below 2 it is a
// broadcast.
func widenEdit(v *view, facts []Fact, top Stall, gain float64) (candidate, bool) {
	n, a := v.number(sectorsLoaded)
	of, b := v.number(requestsLoaded)
	excess, known := v.excess()
	if top.Reason != "long_scoreboard" || !a || !b || of == 0 || n/of < 2 || n/of > narrowLoad || (known && excess.Value >= badExcess) {
		return candidate{}, false
	}
	facts = append(facts, Fact{sectorsLoaded + " / requests", n / of, "sector", "≤ 8", "narrow loads: a request of 16 bytes a thread is 16 sectors"})
	return candidate{Latency, facts, Edit{ID: "wider-loads", GainPct: gain,
		Change:  "widen each thread's global accesses to 16 bytes",
		Why:     fmt.Sprintf("warps wait for memory (%.0f %% of the cycles between two issues) and a load request covers only %.1f sectors", top.Share, n/of),
		Refuted: "sectors per load request do not rise towards 16"}}, true
}

// limiter is what admits the fewest blocks on a multiprocessor.
func (v *view) limiter() (name string, blocks float64) {
	for _, l := range []struct{ name, metric string }{
		{"registers", "launch__occupancy_limit_registers"}, {"shared memory", "launch__occupancy_limit_shared_mem"},
		{"warps", "launch__occupancy_limit_warps"}, {"blocks", "launch__occupancy_limit_blocks"},
		{"barriers", "launch__occupancy_limit_barriers"},
	} {
		if b, ok := v.number(l.metric); ok && (name == "" || b < blocks) {
			name, blocks = l.name, b
		}
	}
	return name, blocks
}

func balanced(v *view) candidate {
	sm, mem, _ := v.sol()
	return candidate{Balanced, []Fact{{smPct, sm, "%", "within 10 of memory", "compute throughput"}, {memPct, mem, "%", "within 10 of compute", "memory throughput"}},
		Edit{ID: "next-kernel", GainPct: v.headroom(),
			Change:  "leave this kernel and take the next one of the triage table",
			Why:     fmt.Sprintf("compute %.1f %% and memory %.1f %% of peak leave no single limit that an untried edit here would lift", sm, mem),
			Refuted: "the next kernel's share of the stage is below 1 %"}}
}

func reprofile(v *view, section, why string) Edit {
	change := "profile again with --section " + section + " (or --set full)"
	if section == "WarpStateStats" && slices.Contains(v.Sections, "Warp State Statistics") {
		change = "export the raw page of the same report (--page raw): the details page leaves the stall reasons out"
	}
	return Edit{ID: "reprofile-" + section,
		Change:  change,
		Why:     why,
		Expect:  "a diagnosis; no time by itself",
		Refuted: "the section is still missing"}
}

// remarks are facts worth a reader's eye that no edit was built on.
func (v *view) remarks() []Fact {
	var out []Fact
	if w, ok := v.waves("< 1"); ok && w.Value < 1 {
		w.Reading = "the grid does not fill the GPU once"
		out = append(out, w)
	}
	dram, a := v.number(dramPct, dramPctOld)
	if l2, ok := v.number(l2Pct); a && ok && l2 > dram && l2 >= highSOL {
		out = append(out, Fact{l2Pct, l2, "%", "> DRAM", "L2 is busier than DRAM"})
	}
	theo, a := v.number(theoretical)
	if have, b := v.number(achieved); a && b && theo-have > 10 {
		out = append(out, Fact{achieved, have, "%", fmt.Sprintf("theoretical %.0f", theo), "achieved occupancy is more than ten points below the theoretical"})
	}
	if ns, ok := v.number(duration); ok && ns < shortKernel && v.Gap == 0 {
		out = append(out, Fact{duration, ns, "ns", "< 5000", "short enough to be bound by its launch; the trace can tell"})
	}
	return out
}
