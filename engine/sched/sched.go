// Package sched runs a plan. One goroutine owns all state; workers execute and
// send back what happened; every change of a node's state goes through one
// function and leaves as an event.
//
// It knows pools (GPU ids exclusive, a quiet host, ordinary slots), batches,
// retries by the kind's policy, and the three steps of an interrupt: drain,
// kill, leave. It knows no campaign and no metric, reads no flag and prints
// nothing. A failed node blocks its dependants only.
//
// Before a task starts, an intent with its handle is in the store's journal;
// what an earlier, killed engine left is adopted first: finished steps become
// records, the rest is ended (DESIGN 11.4).
package sched

import (
	"context"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/executors"
)

// Config is everything a run needs from outside.
type Config struct {
	Graph *compile.Graph
	Plan  *plan.Plan
	Store cache.Store
	// Executor runs the tasks of a block ("framework.vllm").
	Executor func(block string) executors.Executor
	Events   event.Sink
	// Dir holds one folder a task, DIR/<task id>; it is kept after a failure
	// and its logs always.
	Dir string
	// Slots is how many ordinary nodes may run at once; 0 is the number of CPUs.
	Slots int
	Run   string // id of this apply, for events and records
	Tool  string // version, for records
	Now   func() time.Time
	// Interrupt: the first value drains, the second kills, the third leaves.
	Interrupt <-chan struct{}
}

// Summary is what a run came to.
type Summary struct {
	OK, Cached, Failed, KeptFailures, Blocked, Cancelled int
	// FailedNodes are the addresses that failed without leaving a result, in
	// graph order; they decide the exit code.
	FailedNodes []string
	Interrupted bool
	Seconds     float64
}

// Runner is the type of Run, for decorators.
type Runner func(context.Context, Config) (Summary, error)
