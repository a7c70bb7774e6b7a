// Package diagnosis decides what bounds one kernel, from its counters, and
// which single edit to try next.
//
// It knows thresholds and what they mean on NVIDIA GPUs. It knows neither files
// nor the kernel it is compared with; package ncu brings both sides together.
//
// The main entry is Of: value in, value out, no state, nothing concurrent. It
// has no errors: counters that are missing are named in the result, and a
// report too thin to decide gets the edit "profile again with …".
package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/ncu/page"
)

// Class is what bounds the kernel.
type Class string

const (
	LaunchBound   Class = "launch-bound"
	UnderFilled   Class = "under-filled grid"
	Tail          Class = "tail"
	AccessPattern Class = "memory access pattern"
	DRAM          Class = "DRAM bandwidth"
	L2            Class = "L2 bandwidth"
	BankConflicts Class = "shared-memory bank conflicts"
	L1            Class = "L1 and shared-memory bandwidth"
	Compute       Class = "compute"
	Latency       Class = "latency"
	Balanced      Class = "balanced"
	Unknown       Class = "unknown"
)

// Input is what is known of one kernel. Metrics are those of one launch or
// medians over several.
type Input struct {
	Kernel    string
	Metrics   page.Metrics
	Findings  []page.Finding
	Sections  []string      // display names of the sections collected
	Gap       time.Duration // idle time of the GPU before the kernel, from a trace; 0 is unknown
	MinBytes  float64       // bytes the algorithm must move, from the harness's shapes; 0 is unknown
	Neighbour string        // kernel beside it in the layer, to fuse with; empty is unknown
	File      string        // where the kernel's source stands; empty is unknown
	Refuted   []string      // edit ids tried before without effect; not proposed again
}

// Result is the diagnosis of one kernel.
type Result struct {
	Class    Class    `json:"class"`
	Deciders []Fact   `json:"decided_by"` // the counters that decided, most telling first
	Others   []Fact   `json:"also_seen"`  // what else stands out; not acted on now
	Stalls   []Stall  `json:"stalls"`     // by falling share; nil when not collected
	Roofline Roofline `json:"roofline"`
	Edit     Edit     `json:"-"` // the one next edit
	Derived  []Fact   `json:"-"` // values computed from several counters, whether or not they decided
}

// Fact is a counter with the threshold it was held against.
type Fact struct {
	Metric    string  `json:"metric"`
	Value     float64 `json:"value"`
	Unit      string  `json:"unit,omitempty"`
	Threshold string  `json:"threshold,omitempty"`
	Reading   string  `json:"reading"`
}

// Edit is one concrete change to one kernel.
type Edit struct {
	ID      string  `json:"id"` // stable name of the kind of edit, for ledgers of refuted ones
	File    string  `json:"file,omitempty"`
	Symbol  string  `json:"symbol"`
	Change  string  `json:"change"`
	Why     string  `json:"why"`
	Expect  string  `json:"expect"`
	Refuted string  `json:"refuted_if"`
	GainPct float64 `json:"bound_pct"` // what the busiest unit leaves, or the share of work done in vain
}

// candidate is an edit that fits, with the class it belongs to.
type candidate struct {
	class Class
	facts []Fact
	edit  Edit
}

// steps in order of precedence between equal gains. Each says what fits; none
// knows the others.
var steps = []func(*view) []candidate{
	launchBound, underFilled, tail, accessPattern, memory, compute, latency,
}

// Of diagnoses a kernel. Among the edits that fit, the one with the largest
// bounded gain wins, because shipped estimates of siblings are capped by their
// parent and tie; equal gains go by the order of steps.
func Of(in Input) Result {
	v := newView(in)
	r := Result{Stalls: v.stalls, Roofline: roofline(v), Derived: v.derived()}
	if _, _, ok := v.sol(); !ok {
		r.Class = Unknown
		r.Edit = reprofile(v, "SpeedOfLight", "without compute and memory throughput nothing can be classified")
		r.Edit.fill(in)
		return r
	}
	var fits []candidate
	for _, step := range steps {
		for _, c := range step(v) {
			if !slices.Contains(in.Refuted, c.edit.ID) {
				fits = append(fits, c)
			}
		}
	}
	if len(fits) == 0 {
		fits = []candidate{balanced(v)}
	}
	slices.SortStableFunc(fits, func(a, b candidate) int { return cmp.Compare(b.edit.GainPct, a.edit.GainPct) })
	r.Class, r.Deciders, r.Edit = fits[0].class, fits[0].facts, fits[0].edit
	for _, c := range fits[1:] {
		r.see(c.facts)
	}
	r.see(v.remarks())
	r.Edit.fill(in)
	return r
}

// see adds facts whose metric has not been spoken of yet.
func (r *Result) see(facts []Fact) {
	for _, f := range facts {
		same := func(o Fact) bool { return o.Metric == f.Metric }
		if !slices.ContainsFunc(r.Deciders, same) && !slices.ContainsFunc(r.Others, same) {
			r.Others = append(r.Others, f)
		}
	}
}

// fill writes what every edit says in the same words.
func (e *Edit) fill(in Input) {
	e.Symbol, e.File = page.Canonical(in.Kernel), in.File
	e.GainPct = min(100, max(0, e.GainPct)) // ncu prints shares of peak a little above 100
	if e.Expect == "" {
		e.Expect = fmt.Sprintf("at most %.1f %% of this kernel's time", e.GainPct)
	}
}

// Where is the place an edit names: the file when it is known, else the kernel.
func (e Edit) Where() string {
	if e.File != "" {
		return e.File + " (" + e.Symbol + ")"
	}
	return e.Symbol
}
