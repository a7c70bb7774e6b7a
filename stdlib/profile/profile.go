// Package profile is the node kinds that ask where time goes: profile takes a
// trace of one candidate in one stage and makes the triage tables of it; ncu
// takes a kernel's counters. Like package campaign, on whose specs of
// servers it builds, it knows the language and the engine.
//
// A profile is a task: the candidate's server, armed as its definition's
// profiler block says, and for each stage a client (Main) that warms it up,
// starts the profiler, sends the load, stops it, waits for the trace and reads
// it. The load's lengths are the scenario's, never a profiler's own (R141):
// prefill is its input and one token of answer (R142), decode is one token of
// prompt and its output (R143). Warm-up and active steps are the same for every
// framework. A profile is Measured, and the tables are functions of its trace.
//
// Declare starts nothing; its errors say why a candidate cannot be profiled. A
// trace that cannot be read, or lacks the stage, is a failed node.
package profile

import (
	"fmt"
	"maps"
	"path/filepath"
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

// Spec is the profile of one candidate in one stage. Texts of Args, Armed, Start
// and Stop may hold {dir}, {stage} and {steps}.
type Spec struct {
	Server      campaign.BenchSpec `key:"server"` // Load holds only how requests are sent
	Stage       Stage              `key:"stage"`
	Prompts     dataset.Spec       `key:"load"`
	Warmup      int                `key:"warmup_steps"`
	Active      int                `key:"active_steps"`
	Concurrency int                `key:"concurrency"`
	Args        []string           `key:"profiler_arg"`
	Armed       map[string]string  `key:"profiler_env"`
	Start       Call               `key:"start"`
	Stop        Call               `key:"stop"`
}

// Call is one POST to the server; an empty Body sends none.
type Call struct {
	Path string `key:"path" json:"path"`
	Body string `key:"body" json:"body,omitempty"`
}

// Kind is the row of the profile node in the table of kinds.
var Kind = &compile.Kind{
	Name: "profile", Version: 1, Purity: compile.Measured,
	Outputs: []string{"tables_md", "tables_json", "tables_csv", "summary", "trace"},
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

// Addr is the address of the profile node of a stage.
func (s Subject) Addr(stage Stage) string {
	return "profile." + s.Framework.Label + "[" + strconv.Quote(s.Candidate.Name) + "]." + s.Scenario.Name + "." + string(stage)
}

// Declare declares the profiles of a candidate's stages, in the order of
// Stages, which share one server life where its definition lets them. The
// error says why there can be none.
func Declare(c *lang.Campaign, f campaign.Facts, s Subject) ([]compile.Decl, error) {
	fw := s.Framework
	p := fw.Definition.Profiler
	switch {
	case p == nil:
		return nil, fmt.Errorf("framework %q: its definition %q has no profiler block, so nothing is known of how it is profiled; add the block, or name a trace that was made apart with a trace block", fw.Label, fw.Use)
	case p.Offline:
		return nil, fmt.Errorf("framework %q: the profiler of %q cannot be started and stopped while it serves (R140); make a trace apart and name it with a trace block, or read it with `sotabuild trace triage`", fw.Label, fw.Use)
	case p.Start == nil || p.Stop == nil:
		return nil, fmt.Errorf("framework %q: the profiler block of %q needs start and stop, or offline = true", fw.Label, fw.Use)
	case fw.Definition.Server.Completions == "":
		return nil, fmt.Errorf("framework %q: %q has no completions path, and prompts of exact length are sent as token ids", fw.Label, fw.Use)
	case f.Revision.Missing != "":
		return nil, fmt.Errorf("the model's revision is not whole on this host: %s; `sotabuild apply --target %s` fetches it", f.Revision.Missing, campaign.WeightsAddr)
	case c.Model.Vocab == [2]int{}:
		return nil, fmt.Errorf("model %q has no vocab, and prompts of exact length are drawn from it; write vocab = [0, N]", c.Model.ID)
	}
	var decls []compile.Decl
	for _, stage := range Stages {
		spec := newSpec(c, f, s, stage)
		d := compile.Decl{
			Addr: s.Addr(stage), Kind: Kind, Block: "framework." + fw.Label, Spec: spec,
			Batch:     "profile." + fw.Label + "[" + strconv.Quote(s.Candidate.Name) + "]." + s.Scenario.Name,
			Resources: compile.Resources{Quiet: true},
			Timeout:   stepDeadline,
		}
		if spec.armedByStage() {
			d.Batch += "." + string(stage)
		}
		if c.GPUs != nil {
			d.Resources.GPUs = c.GPUs.IDs
		}
		decls = append(decls, d)
	}
	return decls, nil
}

// stepDeadline bounds one stage: a slow prefill with stacks and a trace of
// hundreds of megabytes to be written, packed and read.
const stepDeadline = 20 * time.Minute

func newSpec(c *lang.Campaign, f campaign.Facts, s Subject, stage Stage) Spec {
	fw := s.Framework
	server := campaign.NewBenchSpec(c, f, fw, s.Candidate, s.Scenario, nil)
	server.Load = campaign.LoadSpec{API: "completions", Path: fw.Definition.Server.Completions, Temperature: c.Load.Workload.Temperature}
	p := fw.Definition.Profiler
	spec := Spec{
		Server: server, Stage: stage, Warmup: WarmupSteps, Active: ActiveSteps, Concurrency: 1,
		Args: arming(fw.Definition), Armed: maps.Clone(p.Env),
		Start: Call{p.Start.Path, p.Start.Body}, Stop: Call{p.Stop.Path, p.Stop.Body},
		Prompts: dataset.Spec{
			Kind: "random", VocabLo: c.Model.Vocab[0], VocabHi: c.Model.Vocab[1],
			Seed: c.Load.Workload.Seed, Stream: "profile " + string(stage),
		},
	}
	switch stage {
	case Prefill:
		// One request is one step, unless the server reads it in chunks.
		spec.Prompts.InputLen, spec.Prompts.OutputLen = s.Scenario.InputLen, 1
		spec.Prompts.Warmup, spec.Prompts.Prompts = WarmupSteps, ActiveSteps
	case Decode:
		spec.Concurrency = concurrency(c)
		spec.Prompts.InputLen, spec.Prompts.OutputLen = 1, s.Scenario.OutputLen
		spec.Prompts.Warmup, spec.Prompts.Prompts = spec.Concurrency, spec.Concurrency
	}
	return spec
}

// concurrency is how many sequences a decode step answers: the workload's
// first bounded concurrency, else one.
func concurrency(c *lang.Campaign) int {
	for _, n := range c.Load.Workload.Concurrency {
		if n != nil {
			return *n
		}
	}
	return 1
}

// arming renders the flags that arm the profiler.
func arming(d *lang.Definition) []string {
	bare := *d
	bare.Flags.Fixed = nil
	return campaign.Words(campaign.Given(lang.Framework{Definition: &bare}, d.Profiler.Flags))
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
	return strings.NewReplacer("{dir}", dir, "{stage}", string(s.Stage), "{steps}", strconv.Itoa(s.Active)).Replace(text)
}

// traceDir is the folder of a life's traces. It lies below steps, so that it
// goes when the steps do.
func traceDir(taskDir, firstStep string) string {
	return filepath.Join(taskDir, "steps", firstStep, "traces")
}
