// Package launch says where every GPU event of a trace comes from: the runtime
// call that launched it, the operator and the Python line around that call, the
// annotated step it belongs to, and so its stage – always with the rule that
// decided. Attribution goes by the launch, not by the kernel's own time: under
// load a kernel runs hundreds of milliseconds after the step that launched it.
//
// It knows annotations and frames, and nothing about kernel names or layers. A
// Links is computed once and immutable.
package launch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// Rule says how an event got its stage.
type Rule uint8

// The rules, strongest first.
const (
	ByLaunch    Rule = iota // a step on the launching thread contains the launch
	ByStep                  // a step on another thread contains the launch
	ByGPUNote               // no launch in the file; a projected step contains the event
	ByNeighbour             // no launch; events before and after on the stream agree
	ByFile                  // the file or folder name
	Unstaged                // no evidence
	Ambiguous               // steps that contain the launch disagree
)

// Rules is the text of each rule.
var Rules = [...]string{"launch inside a step", "step on another thread", "projected step",
	"neighbours on the stream", "file name", "no evidence", "steps disagree"}

func (r Rule) String() string { return Rules[r] }

// Event is where one GPU event comes from. Indices are -1 when unknown.
type Event struct {
	Call  int32 // into Trace.Calls
	Op    int32 // into Trace.Ops: the innermost operator around the launch
	Step  int32 // into Links.Steps
	Site  int32 // into Links.Sites: the Python line around the launch
	Stage Stage
	Rule  Rule
	Graph bool // launched by a graph replay
}

// Module is one call of an outermost nn.Module: a forward pass, where nothing
// better says so.
type Module struct {
	Name       string
	Start, End int64
}

// Graph is one graph launch.
type Graph struct {
	Call   int32
	Events int // kernels, copies and sets that carry its correlation
	Step   int32
}

// Links is the answer for one trace, in the order of Trace.GPU.
type Links struct {
	Events   []Event
	Steps    []Step // by start
	Sites    []Site
	Parents  []int32 // of each op: the op around it, -1 at the top
	CallOps  []int32 // of each call that launched or names a kernel: the op around it
	CallSite []int32 // … and the site
	Modules  []Module
	CallRoot []int32 // … and the outermost module, into Modules
	Graphs   []Graph // by start of the launch
	Orphans  int     // GPU events without a launch in the file
	Early    int     // events that start before their launch: clocks differ
	Warnings []string
	left     int // intervals that were too deep to be looked at
}

// Build links t. It costs a few sorts and sweeps over the records.
func Build(t *read.Trace) *Links {
	l := &Links{Events: make([]Event, len(t.GPU))}
	for i := range l.Events {
		l.Events[i] = Event{Call: -1, Op: -1, Step: -1, Site: -1, Stage: None, Rule: Unstaged}
	}
	l.steps(t)
	used := l.calls(t)
	probes := probesOf(t, used)
	opOf := l.ops(t, probes)
	siteOf := l.sites(t, probes)
	l.CallOps, l.CallSite = opOf, siteOf
	stepOf, rules := l.stepOfCalls(t, probes)
	external := map[int64]int32{}
	for i, o := range t.Ops {
		if o.External != 0 {
			external[o.External] = int32(i)
		}
	}
	for i := range l.Events {
		e := &l.Events[i]
		if e.Call < 0 {
			continue
		}
		e.Op, e.Site, e.Step, e.Rule = opOf[e.Call], siteOf[e.Call], stepOf[e.Call], rules[e.Call]
		if e.Op < 0 {
			// The last resort: old files write the correlation into External id,
			// so it counts only if an op really has this id.
			if op, ok := external[t.GPU[i].External]; ok {
				e.Op = op
			}
		}
		if e.Step >= 0 {
			e.Stage = l.Steps[e.Step].Stage
		}
	}
	for i := range l.Graphs {
		l.Graphs[i].Step = stepOf[l.Graphs[i].Call]
	}
	l.withoutLaunch(t)
	l.byFile(t)
	if l.left > 0 {
		l.Warnings = append(l.Warnings, fmt.Sprintf("More than %d operators, frames or steps of one thread hold at once; the outermost were left out %d times.", deepest, l.left))
	}
	return l
}

func (l *Links) steps(t *read.Trace) {
	for _, n := range t.Notes {
		if s, ok := ParseStep(t.Name(n.Name)); ok {
			s.Start, s.End, s.Track = n.Start, n.End, n.Track
			l.Steps = append(l.Steps, s)
		}
	}
	slices.SortStableFunc(l.Steps, func(a, b Step) int { return cmp.Compare(a.Start, b.Start) })
}

// correlation is unique inside one process of a merged file only.
type correlation struct {
	group string
	id    int64
}

// calls links events to calls by correlation and returns which calls are used.
func (l *Links) calls(t *read.Trace) []bool {
	byID := make(map[correlation]int32, len(t.Calls))
	used := make([]bool, len(t.Calls))
	graph := make(map[int32]int32)
	for i, c := range t.Calls {
		if c.Correlation != 0 {
			byID[correlation{t.Tracks[c.Track].Group, c.Correlation}] = int32(i)
		}
		used[i] = c.Kernel != 0 // during a capture nothing runs, yet the call names its kernel
		if IsGraphLaunch(t.Name(c.Name)) {
			graph[int32(i)] = int32(len(l.Graphs))
			used[i] = true
			l.Graphs = append(l.Graphs, Graph{Call: int32(i), Step: -1})
		}
	}
	for i, g := range t.GPU {
		call, ok := byID[correlation{t.Tracks[g.Track].Group, g.Correlation}]
		if !ok || g.Correlation == 0 {
			l.Orphans++
			continue
		}
		l.Events[i].Call = call
		used[call] = true
		if g.Start < t.Calls[call].Start {
			l.Early++
		}
		if n, ok := graph[call]; ok {
			l.Events[i].Graph = true
			l.Graphs[n].Events++
		}
	}
	slices.SortStableFunc(l.Graphs, func(a, b Graph) int {
		return cmp.Compare(t.Calls[a.Call].Start, t.Calls[b.Call].Start)
	})
	for _, g := range l.Graphs {
		if g.Events == 0 {
			l.Warnings = append(l.Warnings, "A graph launch has no GPU event: kernels of graphs may be under-recorded, and idle time is not claimed.")
			break
		}
	}
	return used
}

// IsGraphLaunch reports whether a runtime call replays a graph.
func IsGraphLaunch(name string) bool {
	return strings.HasSuffix(strings.TrimSuffix(name, "_ptsz"), "GraphLaunch")
}

// UnderRecorded reports whether some graph launch shows no kernels.
func (l *Links) UnderRecorded() bool {
	return slices.ContainsFunc(l.Graphs, func(g Graph) bool { return g.Events == 0 })
}

func (l *Links) ops(t *read.Trace, probes []probe) []int32 {
	out := filled(len(t.Calls))
	l.Parents = filled(len(t.Ops))
	spans := make([]span, len(t.Ops))
	inner := make([]probe, len(t.Ops))
	for i, o := range t.Ops {
		spans[i] = span{o.Track, int32(i), o.Start, o.End}
		inner[i] = probe{o.Track, int32(i), o.Start}
	}
	l.left += sweep(spans, probes, func(call int32, around []span) { out[call] = around[len(around)-1].id })
	sortProbes(inner)
	l.left += sweep(spans, inner, func(op int32, around []span) {
		for i := len(around) - 1; i >= 0; i-- {
			// Among ops of one start, the longer is the parent.
			a := around[i]
			if a.id != op && a.end >= t.Ops[op].End && (a.start < t.Ops[op].Start || a.end > t.Ops[op].End || a.id < op) {
				l.Parents[op] = a.id
				return
			}
		}
	})
	return out
}

// stepOfCalls finds the innermost step around each call: first on its own
// thread, else on any, if those agree.
func (l *Links) stepOfCalls(t *read.Trace, probes []probe) ([]int32, []Rule) {
	out := filled(len(t.Calls))
	rules := make([]Rule, len(t.Calls))
	for i := range rules {
		rules[i] = Unstaged
	}
	spans := make([]span, len(l.Steps))
	for i, s := range l.Steps {
		spans[i] = span{s.Track, int32(i), s.Start, s.End}
	}
	l.left += sweep(spans, probes, func(call int32, around []span) {
		out[call], rules[call] = around[len(around)-1].id, ByLaunch
	})
	var rest []probe
	for _, p := range probes {
		if out[p.id] < 0 {
			rest = append(rest, probe{0, p.id, p.at})
		}
	}
	for i := range spans {
		spans[i].track = 0
	}
	sortProbes(rest)
	l.left += sweep(spans, rest, func(call int32, around []span) {
		first := l.Steps[around[0].id]
		for _, a := range around[1:] {
			if l.Steps[a.id].Stage != first.Stage {
				rules[call] = Ambiguous
				return
			}
		}
		out[call], rules[call] = around[len(around)-1].id, ByStep
	})
	return out, rules
}

// withoutLaunch stages the events whose launch is not in the file.
func (l *Links) withoutLaunch(t *read.Trace) {
	var spans []span
	stages := []Stage{}
	for _, n := range t.GPUNotes {
		if s, ok := ParseStep(t.Name(n.Name)); ok && s.Stage != None {
			spans = append(spans, span{n.Track, int32(len(stages)), n.Start, n.End})
			stages = append(stages, s.Stage)
		}
	}
	var probes []probe
	for i, g := range t.GPU {
		if l.Events[i].Call < 0 {
			probes = append(probes, probe{g.Track, int32(i), g.Start + g.Dur/2})
		}
	}
	sortProbes(probes)
	l.left += sweep(spans, probes, func(i int32, around []span) {
		l.Events[i].Stage, l.Events[i].Rule = stages[around[len(around)-1].id], ByGPUNote
	})
	l.neighbours(t)
}

// neighbours gives an event without launch the stage of its stream's previous
// and next staged events, when those agree.
func (l *Links) neighbours(t *read.Trace) {
	streams := map[[2]int32][]int{}
	var order [][2]int32
	for i, g := range t.GPU {
		k := [2]int32{g.Device, g.Stream}
		if streams[k] == nil {
			order = append(order, k)
		}
		streams[k] = append(streams[k], i)
	}
	for _, k := range order {
		list := streams[k]
		next := make([]Stage, len(list))
		var s Stage
		for j := len(list) - 1; j >= 0; j-- {
			if e := l.Events[list[j]]; e.Stage != None {
				s = e.Stage
			}
			next[j] = s
		}
		s = ""
		for j, i := range list {
			e := &l.Events[i]
			switch {
			case e.Stage != None:
				s = e.Stage
			case e.Call < 0 && s != "" && s == next[j]:
				e.Stage, e.Rule = s, ByNeighbour
			}
		}
	}
}

// byFile stages what is left by the file's name; an annotation always wins.
func (l *Links) byFile(t *read.Trace) {
	stage := FileStage(t.Meta.Path)
	if stage == None {
		return
	}
	contradicts := false
	for i := range l.Events {
		e := &l.Events[i]
		switch {
		case e.Stage == None && e.Rule != ByLaunch:
			e.Stage, e.Rule = stage, ByFile
		case e.Stage != None && e.Stage != stage:
			contradicts = true
		}
	}
	if contradicts {
		l.Warnings = append(l.Warnings, "The file name says "+string(stage)+" but annotations say otherwise; the annotations count.")
	}
}

func filled(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = -1
	}
	return out
}
