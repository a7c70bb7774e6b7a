package fuse

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	"github.com/sotabuild/sotabuild/stdlib/trace/layers"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// State says how a pattern stands in the framework of the trace.
type State string

// The states. Fused is no opportunity; the others are.
const (
	Fused     State = "fused"        // the fused kernel runs
	Mainline  State = "mainline"     // the framework has it, yet the chain runs unfused
	InFlight  State = "PR in flight" // a change is being written
	Missing   State = "missing"      // another framework has it
	Disabled  State = "disabled"     // the framework has it behind a switch
	Regressed State = "regressed"    // the baseline ran it fused
)

// Row is one pattern found in the passes of one stage.
type Row struct {
	Pattern  Pattern
	State    State
	Note     string   // high | medium | low: how sure it is that the chain is the pattern
	Time     int64    // ns of the chain's kernels, all passes of the stage
	Gain     int64    // ns, upper bound of what fusing can save
	Layers   int      // layers that have it
	Of       int      // layers looked at
	Kernels  []string // canonical names, in order of the chain
	Location string   // where the chain is launched, "" if unknown
	Source   Source   // the candidate path
	Why      string   // what the note rests on
}

const (
	reach  = 2   // positions from one part to the next
	enough = 0.8 // share of layers from which a chain is the layers' own
)

// Find matches the catalogue against the layers of one stage. Baseline may be
// nil; with it, a chain that the baseline ran fused is a regression.
func Find(c Catalogue, r *layers.Result, stage launch.Stage, baseline *layers.Result) []Row {
	gap := medianGap(r, stage)
	var out []Row
	for _, p := range c.Patterns {
		if p.Ranks > 1 && r.Profile.Trace.Meta.World < p.Ranks {
			continue
		}
		s := p.survey(r, stage)
		if s.layers == 0 {
			continue
		}
		row := Row{Pattern: p, Of: s.layers, Source: p.source(r.Profile.Framework)}
		switch {
		case float64(s.fused) >= enough*float64(s.layers):
			row.State, row.Layers, row.Time, row.Kernels = Fused, s.fused, s.fusedTime, s.fusedNames
			row.Note, row.Why = "high", fmt.Sprintf("the fused kernel runs in %d of %d layers", s.fused, s.layers)
		case float64(s.split) >= enough*float64(s.layers):
			row.Layers, row.Time, row.Kernels, row.Location = s.split, s.time, s.names, s.location
			row.Gain = min(s.time, s.saving+int64(s.instances)*int64(len(p.parts)-1)*gap)
			row.State = p.state(r.Profile.Framework)
			if baseline != nil && p.survey(baseline, stage).fused > 0 {
				row.State = Regressed
			}
			row.Note, row.Why = s.note(r.Profile.Framework)
		default:
			continue
		}
		out = append(out, row)
	}
	slices.SortStableFunc(out, func(a, b Row) int { return cmp.Compare(b.Time, a.Time) })
	return out
}

// source is the framework's own implementation, else the first mainline one.
func (p Pattern) source(framework string) Source {
	for _, s := range p.Sources {
		if s.Framework == framework {
			return s
		}
	}
	for _, s := range p.Sources {
		if s.State == "mainline" {
			return s
		}
	}
	return p.Sources[0]
}

func (p Pattern) state(framework string) State {
	s := p.source(framework)
	switch {
	case s.Framework != framework:
		return Missing
	case s.State == "in_flight":
		return InFlight
	case s.Switch != "":
		return Disabled
	}
	return Mainline
}

// survey is what the layers of a stage show of one pattern.
type survey struct {
	layers, split, fused int // layers: all, with the chain, with the fused kernel
	instances, tight     int // chains; chains without anything between
	time, saving         int64
	fusedTime            int64
	names, fusedNames    []string
	location             string
}

func (s survey) note(framework string) (string, string) {
	share := fmt.Sprintf("adjacent in order in %d of %d layers", s.split, s.layers)
	switch {
	case framework == "unknown":
		return "low", share + ", framework unknown"
	case s.tight == s.instances && s.split*20 >= s.layers*19:
		return "high", share + ", nothing between"
	}
	return "medium", share
}

func (p Pattern) survey(r *layers.Result, stage launch.Stage) survey {
	var s survey
	for _, pass := range r.Passes {
		if pass.Stage != stage || pass.Partial {
			continue
		}
		for _, l := range pass.Layers {
			s.layers++
			kernels := mainKernels(r.Profile, l)
			if p.runsFused(r.Profile, kernels, &s) {
				s.fused++
			}
			if p.chains(r.Profile, kernels, &s) {
				s.split++
			}
		}
	}
	return s
}

// mainKernels is the layer's kernels on the stream of its anchor, in order.
func mainKernels(p *profile.Profile, l layers.Layer) []int32 {
	var out []int32
	for _, e := range l.Events {
		g := p.Trace.GPU[e]
		if a := l.Anchor; a >= 0 && (g.Stream != p.Trace.GPU[a].Stream || g.Device != p.Trace.GPU[a].Device) {
			continue
		}
		if g.Kind == read.Kernel {
			out = append(out, e)
		}
	}
	return out
}

func (p Pattern) runsFused(pr *profile.Profile, kernels []int32, s *survey) bool {
	found := false
	for _, e := range kernels {
		if anyNeedle(p.fused, pr, e) && p.dtypeShown(pr, []int32{e}) {
			found = true
			s.fusedTime += pr.Trace.GPU[e].Dur
			s.fusedNames = addName(s.fusedNames, pr.Symbol(e).Canonical)
		}
	}
	return found
}

// chains counts every place where the parts stand in order.
func (p Pattern) chains(pr *profile.Profile, kernels []int32, s *survey) bool {
	found := false
	for from := 0; from < len(kernels); {
		chain, tight := p.chainAt(pr, kernels, from)
		if chain == nil || !p.dtypeShown(pr, chain) {
			from++
			continue
		}
		found = true
		s.instances++
		if tight {
			s.tight++
		}
		var sum, longest int64
		for _, e := range chain {
			d := pr.Trace.GPU[e].Dur
			sum += d
			longest = max(longest, d)
			s.names = addName(s.names, pr.Symbol(e).Canonical)
		}
		s.time += sum
		s.saving += sum - longest
		if s.location == "" {
			s.location = pr.Location(chain[0])
		}
		from = slices.Index(kernels, chain[len(chain)-1]) + 1
	}
	return found
}

// chainAt is the chain that begins at kernels[from], or nil.
func (p Pattern) chainAt(pr *profile.Profile, kernels []int32, from int) (chain []int32, tight bool) {
	if !anyNeedle(p.parts[0], pr, kernels[from]) {
		return nil, false
	}
	chain, tight = []int32{kernels[from]}, true
	at := from
	for _, part := range p.parts[1:] {
		next := -1
		for i := at + 1; i < len(kernels) && i <= at+reach; i++ {
			if anyNeedle(part, pr, kernels[i]) {
				next = i
				break
			}
			if pr.Classes[kernels[i]].Group == kernel.Compute {
				break
			}
		}
		if next < 0 {
			return nil, false
		}
		tight = tight && next == at+1
		at = next
		chain = append(chain, kernels[at])
	}
	return chain, tight
}

func anyNeedle(list []needle, pr *profile.Profile, e int32) bool {
	s, c := pr.Symbol(e), pr.Classes[e]
	return slices.ContainsFunc(list, func(n needle) bool { return n.matches(s, c) })
}

// dtypeShown wants proof in the matched kernels or their operands that the
// pattern's data type is at work: a kernel called rmsnorm_quant also runs, with
// quantization compiled out, in a 16-bit model.
func (p Pattern) dtypeShown(pr *profile.Profile, chain []int32) bool {
	if len(p.DTypes) == 0 {
		return true
	}
	for _, e := range chain {
		text := strings.ToLower(pr.Symbol(e).Exact)
		// The cache's data type is a template argument of kernels that do not
		// quantize, and its 0 means "as the model".
		text = strings.ReplaceAll(text, "fp8kvcachedatatype", "")
		if op := pr.Links.Events[e].Op; op >= 0 {
			text += strings.ToLower(pr.Trace.Name(pr.Trace.Ops[op].Types))
		}
		for _, d := range p.DTypes {
			for _, spelling := range spellings[d] {
				if strings.Contains(text, spelling) {
					return true
				}
			}
		}
	}
	return false
}

var spellings = map[string][]string{
	"fp8": {"e4m3", "e5m2", "float8", "fp8"},
}

func addName(list []string, name string) []string {
	if len(list) >= 8 || slices.Contains(list, name) {
		return list
	}
	return append(list, name)
}

// medianGap is the usual pause between two kernels of a layer, which fusing
// them saves too; 0 when they overlap. Traces with Python stacks stretch every
// pause and cannot say.
func medianGap(r *layers.Result, stage launch.Stage) int64 {
	var gaps []int64
	if r.Profile.Trace.Frames.Len() > 0 {
		return 0
	}
	for _, p := range r.Passes {
		if p.Stage != stage {
			continue
		}
		for _, l := range p.Layers {
			k := mainKernels(r.Profile, l)
			for i := 1; i < len(k); i++ {
				gaps = append(gaps, max(0, r.Profile.Trace.GPU[k[i]].Start-r.Profile.Trace.GPU[k[i-1]].End()))
			}
		}
	}
	if len(gaps) == 0 {
		return 0
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2]
}
