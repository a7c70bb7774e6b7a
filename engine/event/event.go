// Package event is the only way the engine speaks. Every event is one value
// with a stable JSON form (version Version), one line each with --json; the
// terminal, the plain log and the run log are writers over the same stream.
//
// Events carry facts, not sentences: what to print is the writer's business.
// The package has one writer, Lines, which is the JSON form itself; those for
// people live elsewhere. Events are values and may be shared.
package event

import "time"

// Version is the version of the JSON form. Fields are only ever added; a
// changed meaning raises it.
const Version = 1

// Type says what an event is about and which fields it has.
type Type string

// The event types.
const (
	ApplyStarted  Type = "apply_started"  // Counts: what the plan says; Text: the name of what is applied
	NodeStarted   Type = "node_started"   // Node, Kind, Attempt, Task
	NodeFinished  Type = "node_finished"  // Node, State, Class, Reason, Seconds, Log; a cancelled one of class "budget" was left by it
	NodeCached    Type = "node_cached"    // Node: found by key after its inputs were known (cut off); By, whose record it is if another node's
	NodeBlocked   Type = "node_blocked"   // Node, By, Reason
	NodeRetry     Type = "node_retry"     // Node, Attempt (the next), Class, Reason
	TaskStarted   Type = "task_started"   // Task, Executor, Node (first of the batch), Log
	TaskUp        Type = "task_up"        // Task, Node (first of the batch), Seconds: its servers are up, and took that long
	TaskAdopted   Type = "task_adopted"   // Task: left by an earlier apply, its finished steps kept
	TaskReaped    Type = "task_reaped"    // Task, Text: what was ended
	Draining      Type = "draining"       // first Ctrl-C
	TaskDraining  Type = "task_draining"  // Task, Counts ("left": cells that never begin), Node: the one that finishes; or Text: why all run, or how many is not known
	Killing       Type = "killing"        // second Ctrl-C
	Warning       Type = "warning"        // Text, Node if it is about one
	ApplyFinished Type = "apply_finished" // Counts: what happened ("unbegun" of the cancelled ones had not begun); Seconds
)

// Event is one thing that happened. Only the fields named at its Type are set.
type Event struct {
	V        int            `json:"v"`
	Time     time.Time      `json:"time"` // UTC, nanoseconds
	Type     Type           `json:"type"`
	Run      string         `json:"run,omitempty"`
	Node     string         `json:"node,omitempty"`
	Kind     string         `json:"kind,omitempty"`
	By       string         `json:"by,omitempty"`
	State    string         `json:"state,omitempty"` // ok | failed | rejected | cancelled
	Class    string         `json:"class,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Attempt  int            `json:"attempt,omitempty"`
	Task     string         `json:"task,omitempty"`
	Executor string         `json:"executor,omitempty"`
	Log      string         `json:"log,omitempty"` // path
	Text     string         `json:"text,omitempty"`
	Seconds  float64        `json:"seconds,omitempty"`
	Counts   map[string]int `json:"counts,omitempty"`
}

// Sink receives events, in order, from one goroutine at a time. It must not
// block for long: the scheduler's owner loop calls it.
type Sink func(Event)
