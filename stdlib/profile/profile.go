// Package profile is the node kinds that ask where time goes: profile takes a
// trace of one candidate in one stage and makes the triage tables of it; ncu
// takes a kernel's counters. Like package campaign, on whose specs of
// servers it builds, it knows the language and the engine.
//
// A profile is a task: the candidate's server, armed as its definition's
// profiler block says, and for each stage a client (Main) that warms it up,
// starts the profiler, sends the load, stops it, waits for the trace and checks
// it. There are two: the formal one, of the candidate as it is searched, whose
// times count; and, where the definition says how graphs are turned off, the
// mapping one, which only lends operators, source lines and shapes. What cannot
// be profiled while it serves is imported from files (R140). The tables are a
// pure node of its own, a function of the traces. The load's lengths are the scenario's, never a profiler's own (R141):
// prefill is its input and one token of answer (R142), decode is one token of
// prompt and its output (R143). Warm-up and active steps are the same for every
// framework. A profile is Measured.
//
// Declare starts nothing; its errors say why a candidate cannot be profiled. A
// trace that cannot be read, or lacks the stage, is a failed node.
package profile

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/search"
)

// Stage is what a server does for a request: read its prompt, or answer.
type Stage string

// The stages.
const (
	Prefill Stage = "prefill"
	Decode  Stage = "decode"
)

// Stages are the stages in the order in which they are profiled (R145).
var Stages = []Stage{Prefill, Decode}

// Steps before and while the profiler runs, the same for every framework.
const (
	WarmupSteps = 10
	ActiveSteps = 5
)

// Role says what a trace is taken for.
type Role string

// The roles.
const (
	Formal  Role = "formal"  // the candidate as it is: its times count
	Mapping Role = "mapping" // graphs off, stacks and shapes on: sources only
)

// Spec is the profile of one candidate in one stage. Texts of Args, Armed, Start
// and Stop may hold {dir}, {stage}, {steps} and {range}.
type Spec struct {
	Server      campaign.BenchSpec `key:"server"` // Load holds only how requests are sent
	Stage       Stage              `key:"stage"`
	Role        Role               `key:"role"`
	Host        bool               `key:"host"` // without GPUs the host's operators are the work
	Prompts     dataset.Spec       `key:"load"`
	Warmup      int                `key:"warmup_steps"`
	Active      int                `key:"active_steps"`
	Concurrency int                `key:"concurrency"`
	Args        []string           `key:"profiler_arg"`
	Armed       map[string]string  `key:"profiler_env"`
	Start       Call               `key:"start"`
	Stop        Call               `key:"stop"`
}

// Cell is the server that is profiled, as that of a cell.
func (s Spec) Cell() campaign.BenchSpec { return s.Server }

// Call is one POST to the server; an empty Body sends none.
type Call struct {
	Path string `key:"path" json:"path"`
	Body string `key:"body" json:"body,omitempty"`
}

// Kind is the row of the profile node in the table of kinds.
var Kind = &compile.Kind{
	Name: "profile", Version: 2, Purity: compile.Measured,
	Outputs: []string{"summary", "trace"},
	Task:    task, Collect: collect, Policy: policy,
}

// policy keeps no failure: what failed is no evidence, and is asked for again.
func policy(class string) (retries int, keep bool) {
	row, _ := result.Lookup(result.Class(class))
	return row.Retries, false
}

// Subject is what is profiled: a candidate in a scenario.
type Subject struct {
	Framework lang.Framework
	Candidate search.Candidate
	Scenario  lang.Scenario
}

// Addr is the address of the profile node of a stage and role.
func (s Subject) Addr(stage Stage, role Role) string {
	return s.place("profile") + "." + string(stage) + suffix(role)
}

// TablesAddr is the address of the node of a stage's tables.
func (s Subject) TablesAddr(stage Stage) string { return s.place("tables") + "." + string(stage) }

func (s Subject) place(kind string) string {
	return kind + "." + s.Framework.Label + "[" + strconv.Quote(s.Candidate.Name) + "]." + s.Scenario.Name
}

func suffix(role Role) string {
	if role == Formal {
		return ""
	}
	return "." + string(role)
}

// Declare declares the profiles of a candidate in stages, formal ones first,
// and their tables. Profiles that are started alike share one server life.
// Without mapping, or where the definition does not say how, no mapping trace
// is taken. The error says why there can be no profile.
func Declare(c *lang.Campaign, f campaign.Facts, s Subject, stages []Stage, mapping bool) ([]compile.Decl, error) {
	fw := s.Framework
	p := fw.Definition.Profiler
	switch {
	case p == nil:
		return nil, fmt.Errorf("framework %q: its definition %q has no profiler block, so nothing is known of how it is profiled; add the block, or name a trace that was made apart with --trace or a trace block", fw.Label, fw.Use)
	case p.Offline:
		return nil, fmt.Errorf("framework %q: the profiler of %q cannot be started and stopped while it serves (R140); make a trace apart%s, and name it with --trace or a trace block", fw.Label, fw.Use, apart(p))
	case p.Start == nil || p.Stop == nil:
		return nil, fmt.Errorf("framework %q: the profiler block of %q needs start and stop, or offline = true", fw.Label, fw.Use)
	case fw.Definition.Server.Completions == "":
		return nil, fmt.Errorf("framework %q: %q has no completions path, and prompts of exact length are sent as token ids", fw.Label, fw.Use)
	case f.Revision.Missing != "":
		return nil, fmt.Errorf("the model's revision is not whole on this host: %s; `sotabuild apply --target %s` fetches it", f.Revision.Missing, campaign.WeightsAddr)
	case c.Model.Vocab == [2]int{}:
		return nil, fmt.Errorf("model %q has no vocab, and prompts of exact length are drawn from it; write vocab = [0, N]", c.Model.ID)
	}
	roles := []Role{Formal}
	if mapping && p.Mapping != nil {
		roles = append(roles, Mapping)
	}
	var decls []compile.Decl
	for _, role := range roles {
		for _, stage := range stages {
			decls = append(decls, s.decl(c, newSpec(c, f, s, stage, role)))
		}
	}
	for _, stage := range stages {
		decls = append(decls, s.tables(stage, len(roles) > 1))
	}
	return decls, nil
}

func (s Subject) decl(c *lang.Campaign, spec Spec) compile.Decl {
	p := s.Framework.Definition.Profiler
	d := compile.Decl{
		Addr: s.Addr(spec.Stage, spec.Role), Kind: Kind, Block: "framework." + s.Framework.Label, Spec: spec,
		Batch:     s.place("profile"),
		Resources: compile.Resources{Quiet: true},
		Timeout:   stepDeadline,
	}
	// A mapping that differs in what it asks the profiler for needs no life of
	// its own.
	if spec.Role == Mapping && len(p.Mapping.Flags)+len(p.Mapping.Env) > 0 {
		d.Batch += suffix(Mapping)
	}
	if spec.armedByStage() {
		d.Batch += "." + string(spec.Stage)
	}
	if c.GPUs != nil {
		d.Resources.GPUs = c.GPUs.IDs
	}
	return d
}

// apart says how a system is started that is profiled without being told.
func apart(p *lang.Profiler) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		v := strings.NewReplacer("{dir}", "DIR", "{stage}", "STAGE", "{steps}", strconv.Itoa(ActiveSteps), "{range}", stepRange).Replace(p.Env[name])
		list = append(list, name+"="+v)
	}
	if len(list) == 0 {
		return ""
	}
	return ", starting it with " + strings.Join(list, " ")
}

// stepRange is the active steps after the warm-up ones, counted from the start.
var stepRange = fmt.Sprintf("%d-%d", WarmupSteps, WarmupSteps+ActiveSteps)

// stepDeadline bounds one stage: a slow prefill with stacks and a trace of
// hundreds of megabytes to be written, packed and read.
const stepDeadline = 20 * time.Minute

func newSpec(c *lang.Campaign, f campaign.Facts, s Subject, stage Stage, role Role) Spec {
	fw := s.Framework
	p := fw.Definition.Profiler
	cand, armed, env, start := s.Candidate, p.Flags, maps.Clone(p.Env), Call{p.Start.Path, p.Start.Body}
	if m := p.Mapping; role == Mapping {
		cand.Flags, armed = over(fw.Definition, cand.Flags, armed, m.Flags)
		if env == nil {
			env = map[string]string{}
		}
		maps.Copy(env, m.Env)
		start.Body = cmp.Or(m.Body, start.Body)
	}
	server := campaign.NewBenchSpec(c, f, fw, cand, s.Scenario, nil)
	server.Load = campaign.LoadSpec{API: "completions", Path: fw.Definition.Server.Completions, Temperature: c.Load.Of(s.Scenario).Temperature}
	spec := Spec{
		Server: server, Stage: stage, Role: role, Host: c.GPUs == nil,
		Warmup: WarmupSteps, Active: ActiveSteps, Concurrency: 1,
		Args: arming(fw.Definition, armed), Armed: env, Start: start, Stop: Call{p.Stop.Path, p.Stop.Body},
		Prompts: dataset.Spec{
			Kind: "random", VocabLo: c.Model.Vocab[0], VocabHi: c.Model.Vocab[1],
			Seed: c.Load.Of(s.Scenario).Seed, Stream: "profile " + string(stage),
		},
	}
	switch stage {
	case Prefill:
		// One request is one step, unless the server reads it in chunks.
		spec.Prompts.InputLen, spec.Prompts.OutputLen = s.Scenario.InputLen, 1
		spec.Prompts.Warmup, spec.Prompts.Prompts = WarmupSteps, ActiveSteps
	case Decode:
		spec.Concurrency = concurrency(c.Load.Of(s.Scenario))
		spec.Prompts.InputLen, spec.Prompts.OutputLen = 1, s.Scenario.OutputLen
		spec.Prompts.Warmup, spec.Prompts.Prompts = spec.Concurrency, spec.Concurrency
	}
	return spec
}

// concurrency is how many sequences a decode step answers: the workload's
// first bounded concurrency, else one.
func concurrency(w lang.Workload) int {
	for _, n := range w.Concurrency {
		if n != nil {
			return *n
		}
	}
	return 1
}

// over gives flags precedence over those of the same name that a candidate or
// the profiler has; a new one goes to the candidate.
func over(d *lang.Definition, cand, armed, flags []lang.Flag) (candidate, arming []lang.Flag) {
	cand, armed = slices.Clone(cand), slices.Clone(armed)
	for _, f := range flags {
		same := func(g lang.Flag) bool { return campaign.FlagName(d, g.Name) == campaign.FlagName(d, f.Name) }
		if i := slices.IndexFunc(armed, same); i >= 0 {
			armed[i].Value = f.Value
		} else if i := slices.IndexFunc(cand, same); i >= 0 {
			cand[i].Value = f.Value
		} else {
			cand = append(cand, f)
		}
	}
	return cand, armed
}

// arming renders the flags that arm the profiler.
func arming(d *lang.Definition, flags []lang.Flag) []string {
	bare := *d
	bare.Flags.Fixed = nil
	return campaign.Words(campaign.Given(lang.Framework{Definition: &bare}, flags))
}

// armedByStage reports whether what the server is started with differs by
// stage, so that each stage needs a life of its own.
func (s Spec) armedByStage() bool {
	for _, text := range s.Args {
		if strings.Contains(text, "{stage}") {
			return true
		}
	}
	for _, text := range s.Armed {
		if strings.Contains(text, "{stage}") {
			return true
		}
	}
	return false
}

// fill replaces the words that a profiler's texts may hold. dir must need no
// escape in JSON.
func (s Spec) fill(text, dir string) string {
	return strings.NewReplacer("{dir}", dir, "{stage}", string(s.Stage), "{steps}", strconv.Itoa(s.Active), "{range}", stepRange).Replace(text)
}

// traceDir is the folder of a life's traces. It lies below steps, so that it
// goes when the steps do.
func traceDir(taskDir, firstStep string) string {
	return filepath.Join(taskDir, "steps", firstStep, "traces")
}
