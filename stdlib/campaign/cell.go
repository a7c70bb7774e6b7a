package campaign

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/cache/samples"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/bench/answers"
	"github.com/sotabuild/sotabuild/stdlib/bench/arrival"
	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/bench/observe"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/search"
)

// BenchSpec is one cell: a candidate of a framework under one load.
type BenchSpec struct {
	Software key.Digest        `key:"software"`
	Image    string            `key:"image"` // identity; "" when Software is known
	Model    ModelSpec         `key:"model"`
	Serve    []string          `key:"serve"` // command template
	Flags    map[string]value  `key:"flag"`
	Env      map[string]string `key:"env"`
	Load     LoadSpec          `key:"load"`
	GPUs     int               `key:"gpus"`
	Smoke    bool              `key:"smoke"`
	// Answers asks fixed prompts one at a time, and keeps the answers in place of
	// a request log.
	Answers bool `key:"answers"`
	Life    Life `key:"-"`
}

// ModelSpec is the model as served (R019, R055).
type ModelSpec struct {
	ID        string     `key:"id"`
	Weights   key.Digest `key:"weights"`
	Revision  string     `key:"revision"`
	Tokenizer string     `key:"tokenizer"` // hub id; "" where it is the model's own or files
	TokFiles  key.Digest `key:"tokenizer_files"`
	Precision string     `key:"precision"`
	Quant     string     `key:"quantization"`
	Trust     bool       `key:"trust_remote_code"`
	Context   int        `key:"max_context"`
}

// LoadSpec is how the frozen prompts are sent.
type LoadSpec struct {
	API         string   `key:"api"`
	Path        string   `key:"path"`
	Arrival     string   `key:"arrival"`
	Rate        *float64 `key:"rate"`
	Concurrency *int     `key:"concurrency"`
	Temperature float64  `key:"temperature"`
	MinSuccess  float64  `key:"min_success"`
	Seed        int64    `key:"seed"`
	Burstiness  *float64 `key:"burstiness"`
	Ramp        string   `key:"ramp"` // linear | exponential, from Rate to RampTo; "" is one rate
	RampTo      *float64 `key:"ramp_to"`
}

// times is when requests are sent.
func (l LoadSpec) times(warmup int) bench.Load {
	out := bench.Load{Arrival: l.Arrival, Rate: l.Rate, Concurrency: l.Concurrency, Warmup: warmup, Seed: l.Seed, Burstiness: l.Burstiness}
	if l.Ramp != "" {
		out.Ramp = &arrival.Ramp{Form: l.Ramp, From: *l.Rate, To: *l.RampTo}
		out.Rate = nil
	}
	return out
}

// Life is everything about the server's life that is no part of the result's
// identity.
type Life struct {
	Host      Host
	Args      []string // rendered flags
	Framework *lang.Definition
	Workload  result.Workload
	Hardware  result.Hardware
	Warmup    int
	MaxAge    time.Duration // of an accepted sample; 0: any age
	// Offline are the variables that keep the server from the model's hub.
	Offline map[string]string
	Look    bench.Look
	Longest time.Duration // a cell may take; 0: as long as its timeout
}

// cappedFact is what a sample keeps of the GPUs' power caps, so that it can be
// judged again without reading its row.
const cappedFact = "power_cap_share"

// accepted is how the samples of a cell are judged at plan time: by
// quality.max_age and quality.power_cap. Repeats are nodes of their own and are
// no matter of one key.
func accepted(spec any) samples.Rule {
	life := spec.(BenchSpec).Life
	rule := samples.Rule{MaxAge: life.MaxAge}
	if life.Look.PowerCap {
		rule.Bounds = []samples.Bound{{Fact: cappedFact, Most: observe.MaxThrottled, Class: string(result.Throttled),
			Reason: "a software power cap held the clocks, or it is not known"}}
	}
	return rule
}

// NewBenchSpec is the cell of a candidate in a scenario; n is its concurrency.
func NewBenchSpec(c *lang.Campaign, f Facts, fw lang.Framework, cand search.Candidate, s lang.Scenario, n *int) BenchSpec {
	sw := f.Software[fw.Label]
	w := c.Load.Of(s)
	path, api := fw.Definition.Server.Completions, bench.Completions
	if w.Endpoint == "chat" {
		path, api = fw.Definition.Server.Chat, bench.Chat
	}
	flags := map[string]value{}
	for _, fl := range withFixed(fw.Definition, cand.Flags) {
		flags[FlagName(fw.Definition, fl.Name)] = value{fl.Value}
	}
	tokenizer := c.Model.Tokenizer
	if filepath.IsAbs(tokenizer) {
		tokenizer = ""
	}
	gpus := 0
	if c.GPUs != nil {
		gpus = len(c.GPUs.IDs)
	}
	return BenchSpec{
		Software: sw.Digest, Image: imageOf(sw),
		Model: ModelSpec{ID: c.Model.ID, Weights: f.Weights, Revision: c.Model.Revision, Tokenizer: tokenizer, TokFiles: f.Tokenizer,
			Precision: c.Model.Precision, Quant: c.Model.Quantization, Trust: c.Model.TrustRemoteCode, Context: c.Model.MaxContext},
		Serve: fw.Definition.Server.Command, Flags: flags, Env: fw.Environment(),
		Load: LoadSpec{API: string(api), Path: path, Arrival: w.Arrival, Rate: w.Rate, Concurrency: n,
			Temperature: w.Temperature, MinSuccess: c.Judge.SLA.MinSuccessRate, Seed: w.Seed, Burstiness: w.Pace.Burstiness, Ramp: w.Pace.Ramp, RampTo: w.Pace.RampTo},
		GPUs: gpus, Smoke: c.Smoke,
		Life: Life{
			Host: hostOf(c, f, fw), Args: Words(Given(fw, cand.Flags)), Framework: fw.Definition,
			Hardware: f.Hardware, Warmup: w.Warmup, MaxAge: c.Judge.Quality.MaxAge, Offline: offline(c),
			Look: lookOf(c, w, fw), Longest: w.Pace.MaxDuration,
			Workload: result.Workload{Kind: w.Dataset, InputLen: s.InputLen, OutputLen: s.OutputLen, NumPrompts: s.NumPrompts,
				Arrival: w.Arrival, Rate: w.Rate, Concurrency: n, Endpoint: path, Smoke: c.Smoke, Lane: LaneOf(w), Mix: MixOf(s)},
		},
	}
}

// LaneOf is the lane of rows: "" is the main one.
func LaneOf(w lang.Workload) string {
	if w.Lane != "main" {
		return w.Lane
	}
	return ""
}

// lookOf is what is looked at beside a cell's requests. GPUs that cannot be
// sampled are a warning: power is an extra there.
func lookOf(c *lang.Campaign, w lang.Workload, fw lang.Framework) bench.Look {
	l := bench.Look{Metrics: fw.Definition.Server.Metrics, Random: dataset.Random(w.Dataset)}
	if c.GPUs != nil {
		l.GPU, l.GPUs, l.Lenient, l.PowerCap = true, c.GPUs.IDs, true, c.Judge.Quality.PowerCap == "reject"
		if p := c.GPUs.PricePerHour; p != nil {
			l.Price = *p * float64(len(c.GPUs.IDs))
		}
	}
	return l
}

// The client's rules of ending a cell early: with its class when more than this
// share of the last 50 requests failed.
const maxFailing = 0.5

const clientFile = "client.json"

// benchTask is one server life: the candidate's server, and a step for every
// cell that is stale (DESIGN 11.1).
func benchTask(jobs []compile.Job, dir string) (executors.Task, error) {
	first := jobs[0].Spec.(BenchSpec)
	spec := runner.Spec{
		Version:   runner.SpecVersion,
		Processes: []runner.Process{ServerOf(first)},
		Endpoint:  runner.Endpoint{Role: "server"},
		Probes:    probes(first),
		Deadlines: runner.Deadlines{Start: first.Life.Host.StartTimeout},
		Secrets:   first.Life.Host.Secrets,
	}
	var prompts []string
	for _, j := range jobs {
		frozen, err := promptsOf(j)
		if err != nil {
			return executors.Task{}, err
		}
		step, err := benchStep(j, dir, frozen)
		if err != nil {
			return executors.Task{}, err
		}
		spec.Steps, prompts = append(spec.Steps, step), append(prompts, frozen)
	}
	return NewTask(spec, dir, first.Life.Host, prompts...)
}

// ServerOf is the process that serves a cell.
func ServerOf(s BenchSpec) runner.Process {
	d := s.Life.Framework.Server
	p := runner.Process{
		Role: "server", Count: 1,
		Argv:   fill(d.Command, map[string]string{"program": s.Life.Host.program(), "model": s.Life.Host.Model, "served_name": s.Model.ID}, s.Life.Args),
		Env:    environment(s.Life.Host.Place.Env, withDefaults(s.Env, s.Life.Offline)),
		Port:   s.Life.Host.Port,
		Health: runner.Health{Path: d.Health},
		Stop:   runner.Stop{First: d.Stop.First, Second: d.Stop.Second},
	}
	if d.Identity != nil {
		p.Health.Identity = runner.Identity{Path: d.Identity.Path, Contains: d.Identity.Contains}
	}
	for _, f := range s.Life.Framework.Failures {
		p.Failures = append(p.Failures, runner.Failure{Match: f.Match, Class: executors.Class(f.Class)})
	}
	return p
}

// probes sample the GPUs while cells run, where the campaign has any.
func probes(s BenchSpec) []runner.Probe {
	if s.GPUs == 0 {
		return nil
	}
	return []runner.Probe{{
		Name: "gpu", Every: time.Second,
		Argv: []string{"nvidia-smi", "--format=csv,noheader,nounits",
			"--query-gpu=index,uuid,power.draw,clocks.sm,clocks.mem,temperature.gpu,memory.used,clocks_event_reasons.active"},
	}}
}

// promptsOf is the file of a cell's frozen prompts.
func promptsOf(j compile.Job) (string, error) {
	for _, in := range j.Inputs {
		if in.Name == "prompts" {
			p, err := j.Objects.Path(in.Digest)
			if err != nil {
				return "", fmt.Errorf("reading prompts of %s: %w", j.Addr, err)
			}
			return p, nil
		}
	}
	panic("campaign: cell " + j.Addr + " has no prompts")
}

func benchStep(j compile.Job, dir, prompts string) (runner.Step, error) {
	s := j.Spec.(BenchSpec)
	id := sched.StepID(j.Key)
	folder := filepath.Join(dir, "steps", id)
	client := bench.Spec{
		Version: bench.SpecVersion, Path: s.Load.Path, API: bench.API(s.Load.API), Model: s.Model.ID,
		Models: s.Life.Framework.Server.Models, Prompts: prompts, Out: folder,
		Load: s.Load.times(s.Life.Warmup),
		Rules: bench.Rules{MinSuccess: s.Load.MinSuccess, IgnoreEOS: true, Temperature: s.Load.Temperature, Total: s.Life.Longest,
			Stop: judge.Stop{MaxFailing: maxFailing, Saturation: s.Load.Arrival != bench.Inf}},
		Look: s.Life.Look, Answers: s.Answers,
	}
	outputs := []string{bench.RowFile, bench.RequestsFile, observe.File}
	if s.Answers {
		outputs = []string{answers.File}
	}
	b, err := json.MarshalIndent(client, "", "  ")
	if err != nil {
		return runner.Step{}, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return runner.Step{}, fmt.Errorf("making the step of %s: %w", j.Addr, err)
	}
	if err := os.WriteFile(filepath.Join(folder, clientFile), b, 0o600); err != nil {
		return runner.Step{}, fmt.Errorf("writing the client's spec of %s: %w", j.Addr, err)
	}
	return runner.Step{
		ID: id, Argv: []string{s.Life.Host.Self, "client", "{step}/" + clientFile, "{url}"},
		Env:      Environment(nil),
		Deadline: CellTimeout(lang.Scenario{NumPrompts: s.Life.Workload.NumPrompts}),
		Outputs:  outputs,
	}, nil
}

// collectBench makes the row of a cell: the client's, completed with what was
// measured; or, where no client could speak, a failed row that says why. There
// is always a row, and never a number in a failed one (R075).
func collectBench(j compile.Job, step compile.StepResult) compile.Result {
	s := j.Spec.(BenchSpec)
	if s.Answers {
		return collectAnswers(step)
	}
	row := result.Row{Version: result.RowVersion, Status: result.OK}
	var requests, seen []byte
	if step.Dir != "" {
		if r, err := bench.ReadRow(filepath.Join(step.Dir, "row.json")); err == nil {
			row = r
		} else if step.Class == "" {
			step.Class, step.Reason = string(executors.ClassNoOutput), "the client's row cannot be read: "+err.Error()
		}
		if b, err := os.ReadFile(filepath.Join(step.Dir, "requests.jsonl")); err == nil {
			requests = b
		} else if step.Class == "" {
			step.Class, step.Reason = string(executors.ClassNoOutput), "the client's request log cannot be read: "+err.Error()
		}
		if b, err := os.ReadFile(filepath.Join(step.Dir, observe.File)); err == nil {
			seen = b
		}
		if row.Status == result.OK {
			if err := readParts(filepath.Join(step.Dir, bench.PartsFile), &row); err != nil && step.Class == "" {
				step.Class, step.Reason = string(executors.ClassNoOutput), "the client's numbers by adapter and turn cannot be read: "+err.Error()
			}
		}
	}
	if step.Class != "" {
		row.Fail(result.Class(step.Class), step.Reason)
	}
	if row.Class == result.WrongModel && len(s.Serve) > 0 && !slices.Contains(s.Serve, "{served_name}") {
		row.Reason += "; the definition's server command has no word {served_name}, which gives the model that name"
	}
	s.complete(&row, j, step)
	out := compile.Result{Outcome: cache.Outcome{State: cache.OK}, Warnings: row.Warnings, Observed: s.Life.Host.observed()}
	if v := row.Facts.PowerCapped; v != nil {
		out.Observed = append(out.Observed, cache.Observed{Name: cappedFact, Value: strconv.FormatFloat(*v, 'g', -1, 64)})
	}
	if row.Status != result.OK {
		out.Outcome = failure(row.Class, row.Reason)
	}
	b, err := json.MarshalIndent(row, "", "  ")
	if err != nil {
		panic("campaign: a row cannot be written as JSON: " + err.Error())
	}
	out.Outputs = []compile.Value{{Name: "row", Bytes: append(b, '\n')}}
	if len(requests) == 0 {
		requests = []byte("# no measured request was sent\n")
	}
	if len(seen) == 0 {
		seen = []byte("{}\n")
	}
	out.Outputs = append(out.Outputs, compile.Value{Name: "requests", Bytes: requests}, compile.Value{Name: "seen", Bytes: seen})
	return out
}

// readParts reads the numbers by adapter and by turn, which a cell without
// either has not.
func readParts(path string, row *result.Row) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(b, &row.Parts)
}

// subject is what is measured, in the row's words.
func (s BenchSpec) subject() result.Subject {
	out := result.Subject{Image: s.Life.Host.Place.Image, Executor: s.Life.Host.Place.Executor, Model: s.Model.ID, Weights: s.Model.Revision, Hardware: s.Life.Hardware}
	if !s.Software.IsZero() {
		out.Software = s.Software.String()
	}
	if !s.Life.Host.ImageID.IsZero() {
		out.ImageID = s.Life.Host.ImageID.String()
	}
	if !s.Model.Weights.IsZero() {
		out.Weights = s.Model.Weights.String()
	}
	for _, name := range slices.Sorted(maps.Keys(s.Flags)) {
		if v := s.Flags[name]; v.Kind != lang.Null {
			out.Flags = append(out.Flags, result.Flag{Name: name, Value: v.Any()})
		}
	}
	return out
}

// SkippedRow is the row of a cell that is never run (R075).
func (s BenchSpec) SkippedRow(class result.Class, reason string) result.Row {
	row := result.Row{Version: result.RowVersion, Workload: s.Life.Workload, Subject: s.subject()}
	row.Fail(class, reason)
	row.Server.Command = ServerOf(s).Argv
	return row
}

// complete fills in what the client cannot know.
func (s BenchSpec) complete(row *result.Row, j compile.Job, step compile.StepResult) {
	row.Subject = s.subject()
	sent := row.Workload.NumPrompts // of the set, which may have fewer than were asked for
	row.Workload = s.Life.Workload
	if sent > 0 {
		row.Workload.NumPrompts = sent
	}
	for _, in := range j.Inputs {
		switch in.Name {
		case "prompts":
			row.Workload.Dataset = in.Digest.String()
		case "check":
			var c Checked
			if b, err := j.Objects.Bytes(in.Digest); err == nil && json.Unmarshal(b, &c) == nil {
				row.Server.Validated = c.Validated
			}
		}
	}
	row.Server.Command = ServerOf(s).Argv
	if step.TaskDir == "" {
		return
	}
	row.Server.Life = filepath.Base(step.TaskDir)
	if rec, err := runner.ReadStep(step.Dir); err == nil {
		row.Server.Client = rec.Argv
	}
	if up, err := runner.ReadUp(step.TaskDir); err == nil && len(up) > 0 {
		row.Server.Command, row.Server.Phases = up[0].Argv, up[0].Phases
	}
}
