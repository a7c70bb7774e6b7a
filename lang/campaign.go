package lang

import (
	"maps"
	"slices"
	"time"
)

// Campaign is a loaded, checked campaign. It is immutable; slices are in the
// order of the file, so that what is shown follows what was written. Every
// block keeps its Range for later diagnostics.
type Campaign struct {
	Name       string
	Dir        string // absolute folder of the campaign's files
	Sides      Sides
	Artifacts  string // folder of run directories, absolute (R026)
	Smoke      bool   // everything it produces is a flow check (R070)
	Model      Model
	GPUs       *GPUs // nil: a CPU campaign
	Load       Traffic
	Frameworks []Framework // in file order; target and competitors only are run
	Judge      Judge
	Run        Run
	Files      []File   // what was read, in this order
	Sought     []string // paths that would have been read too, and are not there; absolute
}

// Sides says who is compared (R022–R024, R032–R038).
type Sides struct {
	Target      string
	Compare     []string // competitors, without the target
	Excluded    []string // by the user
	Unsupported []Absent // the framework cannot do it, as the user recorded
	// Unavailable are gaps of the environment: those that the user recorded, then
	// default competitors without a block.
	Unavailable []Absent
	Range       Range
}

// Absent is a framework that does not take part, and why.
type Absent struct{ Name, Reason string }

// Traffic is what is measured: scenarios × concurrency under one workload.
type Traffic struct {
	Scenarios []Scenario
	Workload  Workload   // of the scenarios without a lane
	Lanes     []Workload // beside it, as declared; Lane is the block's label
}

// Of is how a scenario's requests are sent.
func (t Traffic) Of(s Scenario) Workload {
	for _, w := range t.Lanes {
		if s.Lane != "" && w.Lane == s.Lane {
			return w
		}
	}
	return t.Workload
}

// Main are the scenarios that are sent by the workload block, at least one.
func (t Traffic) Main() []Scenario {
	return slices.DeleteFunc(slices.Clone(t.Scenarios), func(s Scenario) bool { return s.Lane != "" })
}

// Workloads are the main one and those of the lanes.
func (t Traffic) Workloads() []Workload { return append([]Workload{t.Workload}, t.Lanes...) }

// Judge is how samples and rows are judged.
type Judge struct {
	SLA      SLA
	Accuracy *Accuracy
	Noise    Noise
	Quality  Quality
	Rate     *RateSearch       // nil: none is asked for
	Waived   map[string]string // fairness field → reason
}

// Run is how and where nodes run and what comes beside the benchmark.
type Run struct {
	Executor Executor
	Cache    CacheConfig
	Secrets  []string // names of environment variables
	Traces   []Trace
	History  string // root of the model PR history, absolute; "" if none
	Loop     *Loop
}

// File is one file of the campaign, with what was read.
type File struct {
	Name  string // relative to Dir; the model's config.json is one, if it was read
	Bytes []byte
}

// Model is the served model (R019).
type Model struct {
	ID              string
	Path            string // absolute; "" when Revision or neither is given
	Revision        string // 40 hex digits
	Tokenizer       string
	Precision       string
	Quantization    string
	TrustRemoteCode bool
	MaxContext      int // tokens; 0: neither written nor in config.json of Path
	// Vocab is the half-open range of token ids that random prompts draw from:
	// vocab = [lo, hi], or [0, vocab_size] of config.json in Path. Zero: no
	// random prompts are drawn.
	Vocab  [2]int
	Family string
	Range  Range
}

// GPUs is the hardware of the campaign (R021).
type GPUs struct {
	Model        string
	IDs          []string
	MultiNode    bool
	PricePerHour *float64 // of one GPU
	Binds        []string // facts of the environment that are keyed and not only recorded
	Accept       []string // fields of the host's probe that may be out of range
	Range        Range
}

// Scenario is one request shape. Lengths are tokens.
type Scenario struct {
	Name       string
	InputLen   int
	OutputLen  int
	NumPrompts int
	Mix        []Shape // further shapes; the pair of lengths is the rest's
	Lane       string  // label of the lane block that says how it is sent; "" is the workload block
	Range      Range
}

// Shape is a share of a scenario's requests that has lengths of its own.
type Shape struct {
	Name      string
	Share     float64
	InputLen  int
	OutputLen int
	Range     Range
}

// Workload is the same for every framework; all of it is keyed.
type Workload struct {
	Endpoint    string // completions | chat
	Dataset     string // random | prefix | sessions | sharegpt | multi-turn | jsonl | mooncake
	Path        string // file of a dataset that has one, absolute
	Temperature float64
	Arrival     string   // inf | constant | poisson | gamma | trace
	Rate        *float64 // requests/s; nil with arrival "inf" and "trace"
	Concurrency []*int   // each is a cell; nil is unlimited
	Warmup      int      // requests
	Seed        int64
	Lane        string
	Production  bool
	Reason      string
	Prompts     Prompts
	Pace        Pace
}

// Prompts are how prompts are made beside a scenario's lengths.
type Prompts struct {
	Spread float64 // lengths are drawn from (1 − Spread)·n to (1 + Spread)·n
	// Groups share their first Shared tokens, which are part of a scenario's
	// input_len (dataset prefix).
	Groups, Shared int
	Turns          int           // of a session; each adds input_len and output_len
	Think          time.Duration // mean time between the turns of a session
	Adapters       []string      // models asked for in turn
	Cancel         float64       // share of requests that the client leaves
	CancelAfter    time.Duration
}

// Pace is how requests are spread beside a mean rate.
type Pace struct {
	Burstiness *float64 // shape of gamma gaps; nil for other arrivals
	// Ramp is linear or exponential, from Workload.Rate to RampTo; "" is one rate.
	Ramp        string
	RampTo      *float64
	MaxDuration time.Duration // of a cell; 0 is none
}

// SLA holds the limits; nil is no limit.
type SLA struct {
	MaxP50TTFT     *time.Duration
	MaxP50TPOT     *time.Duration
	MaxP50E2E      *time.Duration
	MinSuccessRate float64 // default 1
	Range          Range
}

// Framework is one framework block: a candidate family of one serving system.
type Framework struct {
	Label      string // its name in this campaign
	Use        string // name of the definition
	Definition *Definition
	Source
	Serving
	Flags        []Flag // base flags, in file order
	Search       Search
	Executor     *Executor
	Verification *Verification // nil: none is asked for
	Range        Range
}

// Source is where a framework's program comes from.
type Source struct {
	// Image is a registry's NAME:TAG or NAME@sha256:…, or docker-archive: or
	// oci: with an absolute path (ImagePath). It may stand beside Program: each
	// executor takes the one that it can run.
	Image    string
	Program  string // absolute path on the host; "" with a URL, or with an image alone
	URL      []string
	Checkout string // absolute
	// Tree is the folder whose content is the software, absolute; "" where the
	// program's file alone identifies it.
	Tree string
}

// Serving is how a framework's servers are started, beside their flags.
type Serving struct {
	StartTimeout time.Duration
	Port         int               // 0: chosen by the runner
	Env          map[string]string // laid over the definition's
	CompileCache string            // cold | warm | shared; "" is as the program does
	Processes    []Process         // in file order; none: one server
	Endpoint     string            // role of the process that requests go to; "" without processes
}

// Process is one of several processes of a system, such as a router or a
// prefill server. GPUs are of one of its Count copies.
type Process struct {
	Role    string
	Command []string // template; empty: the definition's server command
	Count   int
	GPUs    int
	After   []string // roles that are healthy before it starts
	Health  string   // path; "" is the definition's
	Flags   []Flag   // laid over the framework's
	Range   Range
}

// Verification asks for a step that proves a framework's benchmark path end to
// end before it takes part: serve, one stream, and a bench of Requests (R039).
type Verification struct {
	Requests int
	Range    Range
}

// Environment is the definition's environment with the framework's laid over
// it; nil if there is none.
func (f *Framework) Environment() map[string]string {
	if len(f.Env) == 0 {
		return f.Definition.Server.Env
	}
	all := maps.Clone(f.Env)
	for name, v := range f.Definition.Server.Env {
		if _, ok := all[name]; !ok {
			all[name] = v
		}
	}
	return all
}

// Flag is a server flag by its name in the campaign (snake_case).
type Flag struct {
	Name  string
	Value Value
	Range Range
}

// Search is a bounded product of values (R053, R054). Axes are in file order.
type Search struct {
	MaxCandidates int // default 10
	Space         []Axis
	Range         Range
}

// Axis is one searched flag.
type Axis struct {
	Name   string
	Values []Value
	Range  Range
}

// Accuracy is the floor below which a row is quality_failed.
type Accuracy struct {
	Prompts      int
	MinAgreement float64
	// Path is a file of graded prompts, absolute; "" asks prompts of the first
	// scenario's shape. MinScore is the share of them that must be right.
	Path     string
	MinScore float64
}

// RateSearch asks for the highest request rate at which each framework's best
// candidate keeps the SLA.
type RateSearch struct {
	Start      float64 // requests/s of the first round
	Rounds     int     // at most
	Within     float64 // ends when the bracket is narrower than this share of its upper end
	NumPrompts int     // of a round; 0: as the scenario
	Range      Range
}

// Noise says when a difference is one.
type Noise struct {
	Threshold  float64 // share; 0.01 is 1 % (R122)
	MinRepeats int
	MaxRepeats int
	Written    bool // the block stands in the file: winners are repeated (R123)
}

// Quality makes a sample acceptable; judged at plan time, never hashed.
type Quality struct {
	MaxAge      time.Duration // 0: any age
	PowerCap    string        // record | reject
	CachedShare float64
}

// Executor is where tasks run. Type "auto" is the default.
type Executor struct {
	Type    string // auto | local | docker | oci | slurm | kubernetes
	ShmSize int64  // bytes
	IPC     string
	Options []Flag // further settings of that executor, from options = {…}
	Range   Range
}

// CacheConfig is the shared store.
type CacheConfig struct {
	Remote string
	Push   bool
}

// Trace names profiles that already exist.
type Trace struct {
	Name, Framework, Path, Stage string
	Range                        Range
}

// Loop is the RLCR loop (R002).
type Loop struct {
	Type      string
	MaxRounds int
	Agent     Agent
	Build     []string
	Correct   []string
	// Review, like Build and Correct, may hold {loop.base_commit} for a value
	// that is known when the command runs.
	Review []string
	Stops  []Stop // the user's own, beside the prescribed ones (Stops)
	Gates  []Gate
	Range  Range
}

// Agent writes the patches.
type Agent struct {
	Type         string
	Command      []string // of a script; empty for the others
	AllowedPaths []string
	Timeout      time.Duration
}

// Stop is one stop predicate.
type Stop struct {
	Name    string
	When    Predicate
	Reached bool
	Range   Range
}

// Gate is a condition that a round must meet to go on; Reason is shown where it
// does not.
type Gate struct {
	Name   string
	When   Predicate
	Reason string
	Range  Range
}

// Predicate is a typed condition over facts that are known later. It is how an
// expression leaves this room without hcl or cty leaving with it.
type Predicate interface {
	// Eval returns the value and a text of the facts it saw. A fact that the
	// predicate needs and that is absent is an error.
	Eval(facts map[string]any) (value bool, seen string, err error)
	// Text is the expression as written.
	Text() string
}
