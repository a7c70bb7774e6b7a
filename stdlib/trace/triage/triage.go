// Package triage makes the three tables of a trace, one set for each stage:
// where GPU time goes (kernels), what could run at the same time (overlap), and
// what could be one kernel (fuse patterns); with idle time, communication and
// families beside them, and the coverage that says how far to trust them.
//
// It computes values; how they are printed is another package's. Shares of
// kernels are of the stage's summed GPU time, so that they add up to 1; busy
// time, the union, stands beside the sum. A Report is immutable.
package triage

import (
	"fmt"
	"io/fs"

	"github.com/sotabuild/sotabuild/stdlib/trace/fuse"
	"github.com/sotabuild/sotabuild/stdlib/trace/interval"
	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	"github.com/sotabuild/sotabuild/stdlib/trace/layers"
	"github.com/sotabuild/sotabuild/stdlib/trace/mapping"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// Options of a triage. The zero value works but for Catalogue.
type Options struct {
	Cutoff    float64 // least share of a row that is shown; overlap rows obey it too
	Mapping   *mapping.Map
	Catalogue fuse.Catalogue
	Baseline  *layers.Result // for regressed fusions; nil: none
	NoIdle    string         // why idle time is not looked for; "" looks
	Tree      fs.FS          // the framework's sources, to check candidate paths; nil: none
}

// Report is the triage of one trace file.
type Report struct {
	Input     read.Meta    `json:"input"`
	Framework string       `json:"framework"`
	Rank      int          `json:"rank"` // -1: not said
	Device    string       `json:"device,omitempty"`
	Coverage  Coverage     `json:"coverage"`
	Stages    []Stage      `json:"stages"` // in display order, empty ones left out
	Warnings  []string     `json:"warnings,omitempty"`
	Calls     []Collective `json:"collectives,omitempty"` // for comparing ranks
}

// Times are nanoseconds.
type Times struct {
	Sum     int64 `json:"sum_ns"`    // kernels, copies and sets
	Kernels int64 `json:"kernel_ns"` // kernels alone
	Busy    int64 `json:"busy_ns"`   // union of all, device by device
	Devices int   `json:"devices"`
}

// Stage is everything about one stage.
type Stage struct {
	Stage    launch.Stage `json:"stage"`
	Events   int          `json:"events"`
	Times    Times        `json:"times"`
	Share    float64      `json:"share"` // of the file's GPU time
	Kernels  []KernelRow  `json:"kernels"`
	Families []FamilyRow  `json:"families"`
	Overlap  []OverlapRow `json:"overlap"`
	Fuse     []FuseRow    `json:"fuse"`
	NoFuse   string       `json:"no_fuse,omitempty"` // why there are no fuse rows
	Idle     Idle         `json:"idle"`
	Comm     Comm         `json:"communication"`
	Notes    []string     `json:"notes,omitempty"`
}

// FuseRow is one fuse pattern in the stage.
type FuseRow struct {
	Pattern  string   `json:"pattern"`
	State    string   `json:"state"`
	Note     string   `json:"note"` // high | medium | low
	Time     int64    `json:"time_ns"`
	Share    float64  `json:"share"`
	Gain     int64    `json:"gain_at_most_ns"`
	Kernels  []string `json:"kernels"`
	Location string   `json:"location,omitempty"`
	Path     string   `json:"path"`
	Versions string   `json:"versions"` // of the path's framework, known to have it
	Checked  string   `json:"checked"`  // day of the catalogue
	Why      string   `json:"why"`
}

// Coverage says how much of the GPU time the tables rest on.
type Coverage struct {
	Rules    []RuleShare `json:"stage_rules"` // of each rule that gave a stage
	Staged   float64     `json:"staged"`      // share of GPU time with a stage
	Launch   float64     `json:"launch"`      // … with its launch in the file
	Location float64     `json:"location"`    // … with a Python line, its own or mapped
	Op       float64     `json:"op"`          // … with an operator
	Unknown  float64     `json:"unknown"`     // … in the family "other"
	Joined   float64     `json:"joined"`      // share of replayed kernels joined to the mapping trace
}

// RuleShare is the GPU time that one stage rule decided.
type RuleShare struct {
	Rule  string  `json:"rule"`
	Share float64 `json:"share"`
}

// work is what the tables of one trace share.
type work struct {
	p      *profile.Profile
	layers *layers.Result // nil when no pass was found
	places []place
	join   mapping.Join // empty without a mapping
	hidden []interval.Share
	opt    Options
	total  int64 // GPU time of the file
}

// Build makes the report of one trace. l is nil when no layers were found.
func Build(p *profile.Profile, l *layers.Result, o Options) Report {
	w := &work{p: p, layers: l, opt: o, hidden: hidden(p)}
	w.places = placesOf(p, l)
	if o.Mapping != nil {
		w.join = o.Mapping.Apply(p, w.groups())
	}
	for _, g := range p.Trace.GPU {
		w.total += g.Dur
	}
	r := Report{
		Input: p.Trace.Meta, Framework: p.Framework, Rank: p.Rank, Device: deviceOf(p),
		Coverage: w.coverage(), Calls: collectives(p),
		Warnings: append(append([]string{}, p.Trace.Counts.Warnings...), p.Links.Warnings...),
	}
	if !l.Known() {
		r.Warnings = append(r.Warnings, "No forward passes with layers were found: places in layers and fuse patterns are not known.")
	}
	if p.Links.Early > 0 {
		r.Warnings = append(r.Warnings, earlyWarning(p.Links.Early))
	}
	for _, s := range launch.Stages {
		var events []int32
		for i, e := range p.Links.Events {
			if e.Stage == s {
				events = append(events, int32(i))
			}
		}
		if len(events) > 0 {
			r.Stages = append(r.Stages, w.stage(s, events))
		}
	}
	return r
}

func (w *work) stage(stage launch.Stage, events []int32) Stage {
	s := Stage{Stage: stage, Events: len(events), Times: w.times(events)}
	s.Share = ratio(s.Times.Sum, w.total)
	if s.Times.Devices > 1 {
		s.Notes = append(s.Notes, fmt.Sprintf("The file holds %d devices; times are summed over them.", s.Times.Devices))
	}
	s.Kernels = w.kernels(events, s.Times.Sum)
	s.Families = families(s.Kernels, s.Times.Sum)
	s.Idle = w.idle(stage)
	s.Comm = w.comm(events)
	s.Overlap = w.overlap(events, s.Times.Busy)
	if s.Idle.Claimed {
		s.Overlap = append(w.idleRows(s.Idle), s.Overlap...)
	}
	if s.NoFuse = w.noFuse(stage); s.NoFuse == "" {
		for _, f := range fuse.Find(w.opt.Catalogue, w.layers, stage, w.opt.Baseline) {
			s.Fuse = append(s.Fuse, w.fuseRow(f, s.Times.Sum))
		}
	}
	return s
}

// noFuse is why fuse patterns cannot be looked for in a stage, "" when they can.
func (w *work) noFuse(stage launch.Stage) string {
	if !w.layers.Known() {
		return "no forward passes with layers were found"
	}
	for _, p := range w.layers.Passes {
		if p.Stage == stage && !p.Partial && len(p.Layers) > 0 {
			return ""
		}
	}
	return "the stage has no whole pass with layers"
}

func (w *work) fuseRow(f fuse.Row, sum int64) FuseRow {
	path := f.Source.Framework + ": " + f.Source.Path
	if w.opt.Tree != nil && f.Source.Framework == w.p.Framework {
		path = f.Source.Framework + ": " + fuse.Locate(w.opt.Tree, f.Source)
	}
	if f.Source.Symbol != "" {
		path += " " + f.Source.Symbol
	}
	if f.Source.Switch != "" {
		path += " (switch " + f.Source.Switch + ")"
	}
	state := string(f.State)
	if f.State == fuse.Missing && f.Source.State == "in_flight" {
		state += ", PR in flight elsewhere"
	}
	return FuseRow{
		Pattern: f.Pattern.Title, State: state, Note: f.Note, Time: f.Time, Share: ratio(f.Time, sum), Gain: f.Gain,
		Kernels: f.Kernels, Location: f.Location, Path: path,
		Versions: f.Source.Versions, Checked: w.opt.Catalogue.Checked, Why: f.Pattern.Why + "; " + f.Why,
	}
}

// times sums over devices, busy time too: two devices at work for a second are
// two seconds busy.
func (w *work) times(events []int32) Times {
	var t Times
	spans := map[int32][]interval.Span{}
	for _, e := range events {
		g := w.p.Trace.GPU[e]
		t.Sum += g.Dur
		if g.Kind == read.Kernel {
			t.Kernels += g.Dur
		}
		spans[g.Device] = append(spans[g.Device], interval.Span{Start: g.Start, End: g.End()})
	}
	for _, list := range spans {
		t.Busy += interval.Union(list)
	}
	t.Devices = len(spans)
	return t
}

// groups is the events of each pass in time order, for the mapping; without
// passes, of each graph launch.
func (w *work) groups() [][]int32 {
	var out [][]int32
	if w.layers.Known() {
		for _, p := range w.layers.Passes {
			out = append(out, p.Events)
		}
		return out
	}
	all := make([]int32, len(w.p.Trace.GPU))
	for i := range all {
		all[i] = int32(i)
	}
	return [][]int32{all}
}

func (w *work) coverage() Coverage {
	var c Coverage
	rules := map[launch.Rule]int64{}
	var staged, called, located, op, unknown int64
	for i, g := range w.p.Trace.GPU {
		e := w.p.Links.Events[i]
		if e.Stage != launch.None {
			rules[e.Rule] += g.Dur
			staged += g.Dur
		}
		if e.Call >= 0 {
			called += g.Dur
		}
		src := w.source(int32(i))
		if src.Location != "" && (!e.Graph || w.mapped(int32(i))) {
			located += g.Dur
		}
		if src.Op != "" {
			op += g.Dur
		}
		if w.p.Classes[i].Family == kernel.Other {
			unknown += g.Dur
		}
	}
	for r := range launch.Rules {
		if t := rules[launch.Rule(r)]; t > 0 {
			c.Rules = append(c.Rules, RuleShare{Rule: launch.Rule(r).String(), Share: ratio(t, w.total)})
		}
	}
	c.Staged, c.Launch, c.Location = ratio(staged, w.total), ratio(called, w.total), ratio(located, w.total)
	c.Op, c.Unknown, c.Joined = ratio(op, w.total), ratio(unknown, w.total), w.join.Joined
	return c
}

func (w *work) mapped(e int32) bool {
	return w.join.How != nil && w.join.How[e] != mapping.No
}

// source is where event e was launched: by its own trace, or by the mapping
// trace when that knows better.
func (w *work) source(e int32) mapping.Source {
	if w.mapped(e) {
		return w.join.Sources[e]
	}
	s := mapping.Source{Op: w.p.Op(e), Location: w.p.Location(e)}
	if op := w.p.Links.Events[e].Op; op >= 0 {
		s.Dims = w.p.Trace.Name(w.p.Trace.Ops[op].Dims)
		s.Types = w.p.Trace.Name(w.p.Trace.Ops[op].Types)
	}
	return s
}

func deviceOf(p *profile.Profile) string {
	for _, d := range p.Trace.Meta.Devices {
		if len(p.Trace.GPU) > 0 && d.ID == int(p.Trace.GPU[0].Device) {
			return d.Name
		}
	}
	if len(p.Trace.Meta.Devices) > 0 {
		return p.Trace.Meta.Devices[0].Name
	}
	return ""
}

func ratio(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
