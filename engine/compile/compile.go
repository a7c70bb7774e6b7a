// Package compile turns declarations into a graph of actions.
//
// A declaration is what the domain hands over: an address, a kind, a spec
// (opaque to the engine but for its key tags), inputs by address, order. The
// package checks them (unknown and duplicate addresses, cycles as a whole
// path), sorts them topologically and makes of them a Graph with dense NodeIDs,
// which does not change any more. It knows no campaign, starts nothing and reads
// no file. Freeze writes a graph down for later plans.
//
// Keys come in two levels: an action's manifest holds its own facts and the
// digests of its inputs' outputs, so a re-run that gives the same output does
// not make its dependants stale (early cut-off). Manifest therefore needs the
// inputs' digests and is a method, not a field.
package compile

import (
	"context"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/cache/samples"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors"
)

// Purity says what a node's result depends on beside its inputs.
type Purity string

// The purity classes. The environment's binding facts are part of the key of
// EnvBound and Measured nodes and of no other.
const (
	Pure     Purity = "pure"      // a function of its inputs: shareable everywhere
	EnvBound Purity = "env_bound" // also of the environment class, deterministically
	Measured Purity = "measured"  // a sample: never merged in flight, may be rejected
)

// Kind is one row of the table of node kinds. Exactly one of Func and Task is
// set.
type Kind struct {
	Name    string
	Version int // raised when the same inputs give another result; keyed
	Purity  Purity
	// Outputs are the names that a finished node must have, in display order.
	// A missing or empty one is a failed node.
	Outputs []string
	// KeepsFailures says that a failed node of this kind still has its outputs
	// (a row that says why), and that its dependants run with them. Without
	// it a failed node blocks its dependants.
	KeepsFailures bool
	// Func runs the node inside the engine's process.
	Func func(context.Context, Job) Result
	// Task describes the task that runs all jobs of one batch; Collect turns a
	// finished step's folder into the node's result. Collect is also called
	// for jobs whose step never ran, with a step outcome that says why, and
	// must be a pure function of the folder and the outcome.
	Task    func(jobs []Job, dir string) (executors.Task, error)
	Collect func(job Job, step StepResult) Result
	// Policy decides by class how often a failed node is tried again within
	// one apply and whether the failure is kept as a result afterwards.
	Policy func(class string) (retries int, keep bool)
	// Accept says how the samples that the store has of one key are judged, by
	// the spec of the node. It is not hashed, so another rule makes no key new.
	// nil takes the newest final one.
	Accept func(spec any) samples.Rule
	// Words say of a fact, by name, that it changed, where its values tell people
	// nothing (a digest of many things). nil has none.
	Words map[string]string
}

// Decl is one action as the domain declares it.
type Decl struct {
	Addr string // bench.vllm["max_num_seqs=128"].chat: shown, never keyed
	Kind *Kind
	// Block is the declaration (campaign block) it comes from, such as
	// "framework.vllm"; it groups actions for --target and graph.
	Block string
	// Spec is what Func, Task and Collect get. Its fields carry key tags
	// (key.Builder.Struct); nil adds no fact.
	Spec   any
	Inputs []Input
	Order  []string // addresses that come first and are no input
	// Batch groups nodes whose stale members run in one task, in declared
	// order; "" is a batch of its own.
	Batch     string
	Resources Resources
	Timeout   time.Duration // never keyed; 0 is the kind's own bound
	// Turn ranks what a node tells: under a budget those of a lower turn start
	// first (budget.Forecast). The domain sets it, such as a side's first result
	// before another's second; never keyed.
	Turn int
	// Skip, when not empty, keeps the node out of every run: who skipped it
	// and why, in the words of R038. A skipped node needs no kind function.
	Skip string
}

// Input is a data edge: the digest of From's output is a fact of the manifest,
// "in NAME". Several inputs may share a Name; they are a set, ordered by
// digest, so that neither labels nor the order of blocks reach the key.
type Input struct {
	Name   string
	From   string // address
	Output string
}

// Resources is what a node takes from the scheduler's pools while it runs.
type Resources struct {
	GPUs  []string // exclusive
	Quiet bool     // alone on the host
	Host  string   // "" is this host
}

// Job is one node handed to its kind to run.
type Job struct {
	Addr    string
	Spec    any
	Key     key.Key
	Attempt int // from 1
	// Inputs are the outputs of the node's inputs, in declared order.
	Inputs  []InputValue
	Objects Objects
}

// InputValue is one input's content.
type InputValue struct {
	Name   string
	Addr   string
	Digest key.Digest
	Failed bool // the input's node failed; its output says why
}

// Objects reads and writes objects for kinds. cache.Store satisfies it.
type Objects interface {
	Bytes(key.Digest) ([]byte, error)
	// Path is a file with the object's bytes that may be read, not changed,
	// and lives as long as the store.
	Path(key.Digest) (string, error)
}

// Result is what a node's run gave.
type Result struct {
	Outcome  cache.Outcome
	Outputs  []Value
	Observed []cache.Observed
	Warnings []string
}

// Value is one output: bytes, or a file that the engine takes over by copying.
type Value struct {
	Name  string
	Bytes []byte
	File  string // absolute; used when not empty
}

// StepResult is what the engine found in a step's folder.
type StepResult struct {
	Dir     string // absolute; "" when the step never ran
	TaskDir string
	Class   string // "" is ok
	Reason  string
}

// Action is a checked declaration in its place.
type Action struct {
	Decl
	ID     graph.NodeID
	Data   []graph.NodeID // parallel to Decl.Inputs
	Orders []graph.NodeID // what Decl.Order names
	// Accept is how samples of the node are judged; nil takes the newest final one.
	Accept *samples.Rule
	own    key.Manifest // the facts that do not depend on inputs, where the graph has no rows
}

// Env is the environment class of this host: binding facts are part of the key
// of EnvBound and Measured nodes, the others are only recorded (DESIGN 4).
type Env struct {
	Binding  []key.Fact
	Recorded []cache.Observed
}

// Graph is the action graph. Actions[i].ID == i, in topological order;
// among equals the declared order is kept. It may be read by many goroutines.
type Graph struct {
	Actions []Action
	Env     Env
	// Most plans ask for neither, so they are made when they are.
	names func() names
	edges func() *graph.Actions
	// A thawed graph has the facts of all actions together: rows[id] of table.
	table key.Table
	rows  [][]uint32
}

// Problem is a declaration that cannot be compiled. Problems are bugs of the
// domain or of its input; all are reported at once.
type Problem struct {
	Addr string
	Text string
}

// String is the problem on one line.
func (p Problem) String() string {
	if p.Addr == "" {
		return p.Text
	}
	return p.Addr + ": " + p.Text
}
