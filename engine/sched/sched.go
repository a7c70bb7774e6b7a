// Package sched runs a plan. One goroutine owns all state; workers execute and
// send back what happened; every change of a node's state goes through one
// function (scheduler.set) and leaves as an event.
//
// It knows pools (GPU ids exclusive, a quiet host, ordinary slots), batches,
// retries by the kind's policy, and the three steps of an interrupt: drain,
// kill, leave. It knows no campaign and no metric, reads no flag and prints
// nothing.
//
// A node may start when its inputs are usable: ok, or failed with all outputs
// of a kind with KeepsFailures. An order edge asks for the same of the node it
// comes from, except that a skipped node counts as done; so an order edge on a
// failed node blocks too. A failed node blocks its dependants only. Nodes with
// the same key run once: the second waits for the first and then looks into
// the store; it shares no result in flight, so a rejected sample is not shared.
//
// With a budget (plan.Budget) a unit starts only if what it took the last time
// fits into the rest, or with as many of its first nodes as fit; the others are
// left to the next run, as cancelled nodes with that reason. The most informative
// come first, by compile.Decl.Turn, then in graph order.
//
// Before a task starts, an intent with its handle is in the store's journal
// and its jobs are in its folder; what an earlier, killed engine left is
// adopted first: finished steps become records, the rest is ended (DESIGN
// 11.4).
//
// An error of Run or Adopt is a machine's (the store cannot be written, a task
// cannot be ended); whatever happens to a node is an event, a record and a
// number in the Summary.
package sched

import (
	"context"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/sched/work"
	"github.com/sotabuild/sotabuild/executors"
)

// Store is what a run needs of a store.
type Store = work.Store

// Config is everything a run needs from outside.
type Config struct {
	Graph *compile.Graph
	Plan  *plan.Plan
	Store Store
	// Executor runs the tasks of a block ("framework.vllm"); nil is none.
	Executor func(block string) executors.Executor
	// Elsewhere is the executor of a name that no block's has, for tasks that an
	// earlier run left there; nil, or returning nil, is none.
	Elsewhere func(name string) executors.Executor
	Events    event.Sink // nil listens to nothing
	// Dir holds one folder a task, DIR/<task id>, which is also the task id
	// for Kind.Task. The folder stays; its steps are removed when all of them
	// are ok and stored.
	Dir string
	// Slots is how many ordinary nodes (no GPU, not quiet) may run at once on
	// one host; 0 is the number of CPUs.
	Slots int
	Name  string // of what is applied, for events
	Run   string // id of this apply, for events and records
	Tool  string // version, for records
	Host  string // name of this host, for records
	Now   func() time.Time
	// Unchanged says, from a node's spec, why what the key names was another
	// thing when its work ended. Then nothing is recorded, and the node stays
	// as stale as it was (DESIGN 4). nil trusts that nothing changes.
	Unchanged func(spec any) error
	// Interrupt: the first value drains, the second kills, the third leaves. A
	// drain lets running functions and the running step of each task finish; the
	// steps that never began are cancelled, with no record and no other attempt.
	Interrupt <-chan struct{}
}

// Summary is what a run came to. Every node that the plan did not skip is
// counted once. Cancelled ones had begun, Unbegun ones had not when the run was
// interrupted: they are what the next run goes on with.
type Summary struct {
	OK, Cached, Failed, KeptFailures, Blocked, Cancelled, Unbegun int
	// FailedNodes are the addresses that failed without leaving a result, in
	// graph order; they decide the exit code. A failure kept from an earlier
	// run is one of them, so that a second apply cannot look like a success.
	FailedNodes []string
	// Left counts the nodes that the plan's budget left to the next run, with
	// what needs them.
	Left        int
	Interrupted bool
	Seconds     float64
}

// Runner is the type of Run, for decorators.
type Runner func(context.Context, Config) (Summary, error)

// Run adopts what an earlier run left (Adopt), then runs what the plan says. It
// blocks until nothing of it runs any more, except after the third interrupt:
// then it returns at once, and what still runs ends by its lifeline or is
// adopted by the next run. The end of ctx is the second interrupt.
func Run(ctx context.Context, cfg Config) (Summary, error) {
	if !cfg.Graph.Runs() {
		panic("sched: the graph was thawed, and has no specs to run")
	}
	s := newScheduler(ctx, cfg)
	defer s.close()
	s.say(event.Event{Type: event.ApplyStarted, Text: cfg.Name, Counts: planned(cfg.Plan.Counts)})
	s.adoptFirst()
	s.loop()
	s.cancelRest()
	sum := s.summary()
	s.say(event.Event{Type: event.ApplyFinished, Seconds: sum.Seconds, Counts: map[string]int{
		"ok": sum.OK, "cached": sum.Cached, "failed": sum.Failed, "kept_failures": sum.KeptFailures,
		"blocked": sum.Blocked, "cancelled": sum.Cancelled + sum.Unbegun, "unbegun": sum.Unbegun, "left": sum.Left,
	}})
	return sum, s.err
}

// Adopt takes over what an earlier run left (work.Adopt).
func Adopt(ctx context.Context, cfg Config) error {
	return work.Adopt(ctx, cfg.place(), cfg.Graph, func(e event.Event) { say(&cfg, e) })
}

// Leases is what unsettled tasks still need of a store: objects, and folders of
// dir by name (work.Leases).
func Leases(dir string, intents []cache.Intent) (objects map[key.Digest]bool, tasks map[string]bool) {
	return work.Leases(dir, intents)
}

func (cfg *Config) place() work.Place {
	return work.Place{Store: cfg.Store, Executor: cfg.Executor, Elsewhere: cfg.Elsewhere, Dir: cfg.Dir, Now: cfg.Now, Unchanged: cfg.Unchanged}
}

// StepID names a node's step in its task's folder: the first 16 hex digits of
// its key. The kind that writes the runner's spec names the step by it.
func StepID(k key.Key) string { return work.StepID(k) }

func planned(c plan.Counts) map[string]int {
	return map[string]int{
		"new": c.New, "stale": c.Stale, "cached": c.Cached, "later": c.Later,
		"blocked": c.Blocked, "sealed": c.Sealed, "skipped": c.Skipped,
	}
}
