// Package work does one unit of work for the scheduler: a node's function, or
// a task with the steps of a batch. It describes the task's jobs in the task's
// folder, writes the intent, starts, harvests and ends the task, and turns what
// its steps left into records; Adopt does the same for the task of an engine
// that is gone.
//
// It knows kinds, stores and executors, and no graph state, pool or priority:
// who runs when is decided by package sched, to which a Worker reports. A step
// that ended is recorded at once, so that a batch that breaks half-way keeps
// what finished; work that was interrupted is recorded nowhere. Workers may run
// side by side. An error is a machine's: the store cannot be written. What is
// wrong with a node is in its Done.
package work

import (
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors"
)

// Store is what work needs of a store: records and objects to read and write,
// and objects as files for the kinds.
type Store interface {
	cache.Store
	compile.Objects
}

// Place is where work is done.
type Place struct {
	Store    Store
	Executor func(block string) executors.Executor // nil, or returning nil: none
	// Elsewhere is the executor of a name that no block's has; nil, or returning
	// nil: none.
	Elsewhere func(name string) executors.Executor
	Dir       string // holds a folder a task
	Now       func() time.Time
	// Unchanged is asked before a result is recorded; nil asks nothing.
	Unchanged func(spec any) error
}

// StepID names a node's step in its task's folder: the first 16 hex digits of
// its key.
func StepID(k key.Key) string { return hex.EncodeToString(k[:8]) }

// NewItem describes an action's job. Key and manifest are those of its inputs,
// which are in declared order; attempt counts from 1.
func NewItem(a *compile.Action, m key.Manifest, attempt int, inputs []compile.InputValue, objects compile.Objects) Item {
	k := m.Key()
	w := Item{
		Step: StepID(k), Node: a.Addr, Kind: a.Kind.Name, Version: a.Kind.Version, Key: k,
		Manifest: m.Text(), Attempt: attempt, Inputs: inputs, live: live{kind: a.Kind, timeout: a.Timeout},
	}
	w.job = w.jobWith(a.Spec, objects)
	if a.Kind.Task == nil {
		return w
	}
	w.SpecKey = specKey(a.Spec)
	if b, err := json.Marshal(a.Spec); err == nil && a.Spec != nil {
		w.Spec = b
	}
	return w
}

func (w *Item) jobWith(spec any, objects compile.Objects) compile.Job {
	return compile.Job{Addr: w.Node, Spec: spec, Key: w.Key, Attempt: w.Attempt, Inputs: w.Inputs, Objects: objects}
}
