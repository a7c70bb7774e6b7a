// Package executors holds the contract between the engine and the places
// where tasks run. A task is one process tree or container whose supervisor is
// our own static binary (package runner); an executor only has to start it
// idempotently by id, stream it, wait for it, stop it, and find its own.
//
// The package and its executors know no campaign, no metric and no cache. No
// executor retries, caches or logs by itself: it reports an Outcome and the
// engine decides. Every method may be called from any goroutine.
//
// Errors and outcomes are different things. An error means that the executor
// could not do what was asked (the daemon does not answer); it says nothing
// about the task. An Outcome is what happened to the task, and "not started"
// is told apart from "exited 126 or 127".
package executors

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// TaskID names a task for good: starting the same id twice is one start. It is
// made of [a-z0-9-] only, at most 63 bytes, so that every executor can use it
// as a container, job or cgroup name.
type TaskID string

// Valid says whether an id has that form.
func (id TaskID) Valid() bool {
	return len(id) > 0 && len(id) <= 63 && strings.Trim(string(id), "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// Task is one thing to run. It is described with the OCI runtime's own types,
// so that docker, slurm and kubernetes map from it.
type Task struct {
	ID TaskID
	// Dir is the task's folder on the engine's host. It exists, holds what the
	// task reads beside its mounts (the runner's SPEC), and is where everything
	// the task writes appears. The process sees it as its working directory.
	Dir string
	// Process is what to start: Args[0] is an absolute path inside the task's
	// root. No Args is the supervisor, `SELF runner spec.json`; an executor
	// with a root of its own makes SELF appear in it. Env is complete; nothing
	// of the host's environment is added, and what a place cannot keep out
	// stands in docs/executors.md. Terminal is refused.
	Process specs.Process
	// Mounts are further host paths, by absolute source. An executor without a
	// root of its own (local) requires source and destination to be equal.
	Mounts []specs.Mount
	// Image is the container image; "" asks for no container and only an
	// executor that says so can run it.
	Image     string
	Resources Resources
	// Labels are put on whatever the executor makes. Owner labels are added by
	// the engine (LabelRun, LabelTask).
	Labels map[string]string
	// Deadline bounds the whole task; 0 is none. StopGrace is how long the
	// supervisor gets to take its tree down after a stop before it is killed.
	Deadline, StopGrace time.Duration
}

// Check says what no executor could run; nil if nothing.
func (t Task) Check() error {
	if !t.ID.Valid() {
		return fmt.Errorf("task %q: its id is not made of 1 to 63 of a-z, 0-9 and -", t.ID)
	}
	if t.Process.Terminal {
		return fmt.Errorf("task %s: no executor gives a terminal", t.ID)
	}
	if info, err := os.Stat(t.Dir); err != nil || !info.IsDir() || !filepath.IsAbs(t.Dir) {
		return fmt.Errorf("task %s: its folder %q is not there, or not absolute", t.ID, t.Dir)
	}
	if a := t.Process.Args; len(a) > 0 && !filepath.IsAbs(a[0]) {
		return fmt.Errorf("task %s: its program %q is no absolute path", t.ID, a[0])
	}
	return nil
}

// Label names that the engine sets on every task.
const (
	LabelRun  = "dev.sotabuild.run"  // the store's id
	LabelTask = "dev.sotabuild.task" // the TaskID
)

// EnvTask is set in the environment of every process of a task that runs on
// the engine's own host. It holds the TaskID, which holds a random part; by it
// an executor finds what a dead runner left behind, and nothing else.
const EnvTask = "SOTABUILD_TASK"

// CgroupName is the name of the control group that holds what a task starts,
// where its runner could make one.
func CgroupName(id TaskID) string { return "sotabuild-" + string(id) }

// Resources is what a task needs for itself. Zero values ask for nothing.
type Resources struct {
	GPUs     []string // ids or UUIDs, exclusive
	CPUs     int
	Memory   int64 // bytes
	ShmSize  int64 // bytes
	IPCHost  bool
	Ulimits  map[string]uint64
	Quiet    bool // the task measures: nothing else of ours may run on the host
	NetHost  bool
	Priority int
}

// Outcome is what happened to a task's supervisor. It says nothing about what
// the supervisor found out; that stands in the files the task wrote.
type Outcome struct {
	Reason Reason
	// Code is the exit code when Reason is Exited, Signal the signal's name
	// ("killed") when it is Signaled; both zero otherwise.
	Code   int
	Signal string
	// Detail is a sentence for people: the executor's own words, quoted.
	Detail         string
	Started, Ended time.Time
}

// Reason is how a task ended.
type Reason string

// The reasons. Lost means that the executor no longer knows the task: it is
// neither failed nor running, and no second attempt may start before the first
// is known to be dead.
const (
	Exited      Reason = "exited"
	Signaled    Reason = "signaled"
	OOM         Reason = "oom"
	TimedOut    Reason = "timeout"
	NotStarted  Reason = "not_started"
	Stopped     Reason = "stopped"
	Preempted   Reason = "preempted" // the place took it back; it is at no fault
	Lost        Reason = "lost"
	Unreachable Reason = "executor_unavailable"
)

// Handle is a started task, as durable text: what Start returned can be
// written down, and a later process can Wait for, Stop or Reap it.
type Handle struct {
	Executor string `json:"executor"`
	Task     TaskID `json:"task"`
	// Ref is the executor's own name for it: a pid with start time and boot id,
	// a container id, a job id.
	Ref string `json:"ref"`
}

// Executor runs tasks in one kind of place.
type Executor interface {
	// Name is the word of the language: local, docker, …
	Name() string
	// Check says before anything starts why this task cannot run here; nil if
	// it can. It starts nothing.
	Check(Task) error
	// Start starts the task once. Called again with the same id it returns the
	// handle of the first start, also from another process, also when the task
	// has ended or was reaped. It returns as soon as the task is handed over.
	// A program that is missing, or an image without it, is an outcome.
	Start(context.Context, Task) (Handle, error)
	// Wait blocks until the task has ended or ctx is done. Ending ctx does not
	// stop the task. It may be called many times.
	Wait(context.Context, Handle) (Outcome, error)
	// Logs copies what the supervisor printed so far and on until the task has
	// ended, without loss, to w.
	Logs(context.Context, Handle, io.Writer) error
	// Stop asks the task to take itself down, waits grace, then kills it and
	// everything it started. It returns when nothing is left. Stopping a task
	// that has ended is no error.
	Stop(ctx context.Context, h Handle, grace time.Duration) error
	// List finds tasks of ours by the run label, running or ended, that have
	// not been reaped.
	List(ctx context.Context, run string) ([]Handle, error)
	// Reap ends what a task has left behind and forgets the task. Only what
	// the task itself started is touched.
	Reap(context.Context, Handle) error
}

// Sender is an Executor whose tasks may see a copy of Task.Dir, which comes back
// when the task has ended. Where an executor is no Sender a task sees the folder
// itself.
type Sender interface {
	// Send brings a file of the task's folder, by its name there, to where the
	// running task sees it. copied is false where that is the folder itself, and
	// then nothing was done. Sending to a task that has ended is no error.
	Send(ctx context.Context, h Handle, name string) (copied bool, err error)
}
