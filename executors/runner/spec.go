// Package runner is the contract with the supervisor that runs inside a task:
// servers up, in order, → healthy → proof that they are ours → clients, one
// after the other → servers down → nothing left. It is started as `sotabuild
// runner SPEC`; package supervisor is the program itself.
//
// It knows processes, ports, files and HTTP health checks. It knows no
// campaign, no framework and no metric: clients are programs whose verdict it
// reads from a file.
//
// The contract of the folder (all paths relative to the folder of SPEC, which
// is the task's working directory):
//
//	spec.json                  what to do; written by the engine, read once
//	logs/<process>.log         stdout and stderr of each process, secrets redacted
//	logs/runner.log            what the runner did, a line each, with times
//	steps/<id>/                a step's own folder: its outputs and its files
//	steps/<id>/begun           an empty file, made when the step begins
//	steps/<id>/step.json       StepRecord, written by rename when the step ended
//	probes/<name>.log          what the probes printed
//	tree.json                  Tree: what lives below the runner, for whoever has to
//	                           end it when the runner was killed
//	up.json                    the servers' ProcessRecords, written by rename when all are
//	                           healthy, before the first step; none without servers
//	drain                      an empty file, written by the engine while the task runs: no
//	                           further step begins
//	exit.json                  ExitRecord, written by rename, last of all
//
// A step that has a step.json is finished for good, whatever happens to the
// runner later; the engine keeps it. The runner is a session of its own, a
// child sub-reaper, and ends its tree within 5 s of the end of its lifeline
// (DESIGN 11.4).
//
// A process gets exactly the environment that the spec declares, the declared
// secrets, and executors.EnvTask. Nothing of the runner's own environment
// reaches it, PATH, HOME and TMPDIR included: what a server needs is declared,
// and so keyed. A program without a slash is looked up in the declared PATH.
//
// The runner looks for drain before each step, and while servers come up: the
// running step finishes and has its record, then everything goes down, and the
// last word is of class interrupted if steps were left. A step is marked as
// begun before the look, and the mark is taken back if it does not begin: who
// writes drain and then finds no mark knows that no step begins any more.
//
// SIGTERM ends the task now, gracefully and bounded. SIGINT and SIGHUP do so
// only where there is no lifeline: with one it is the engine that decides. A
// step that was stopped by us has no step.json: it is not finished.
package runner

import (
	"time"

	"github.com/sotabuild/sotabuild/executors"
)

// EnvLifeline is how an executor tells the number of the lifeline to a runner
// whose spec was written before. The runner does not hand it on.
const EnvLifeline = "SOTABUILD_LIFELINE"

// EnvGPUs is how an executor that chooses the GPUs itself tells them to a runner
// whose spec was written before: ids with commas between, which take the place
// of Spec.GPUs. The runner does not hand it on; what it starts sees these GPUs
// only, by CUDA_VISIBLE_DEVICES, unless the spec declares that variable.
const EnvGPUs = "SOTABUILD_GPUS"

// DefaultLogLimit is the bound of a server's log: 4 GiB.
const DefaultLogLimit = 4 << 30

// SpecVersion is the version of Spec's JSON form.
const SpecVersion = 1

// Spec is one task: a list of processes with one endpoint, and the steps to
// run against it. One server and no router is the common case; routers and
// prefill/decode pairs are more processes, not another contract. A task
// without processes just runs its steps (help snapshots).
type Spec struct {
	Version   int              `json:"version"`
	Task      executors.TaskID `json:"task"`
	Processes []Process        `json:"processes,omitempty"`
	// Endpoint names the process whose address the steps get.
	Endpoint  Endpoint  `json:"endpoint,omitzero"`
	Steps     []Step    `json:"steps"`
	Probes    []Probe   `json:"probes,omitempty"`
	Deadlines Deadlines `json:"deadlines"`
	// Secrets are names of environment variables. Their values come from the
	// runner's own environment (they are never in a spec), reach every process
	// and step, and are redacted from everything written.
	Secrets []string `json:"secrets,omitempty"`
	// Lifeline is the number of an inherited pipe whose end means that the
	// engine is gone; 0 is no lifeline (the task runs to its own deadline).
	// An executor that passes one may say so in the runner's environment
	// instead (EnvLifeline).
	Lifeline int `json:"lifeline,omitempty"`
	// LogLimit is how many bytes of each server's log stay on the disk, at least
	// 1 MiB; 0 is DefaultLogLimit. Of a longer one the beginning and the end stay.
	LogLimit int64 `json:"log_limit,omitempty"`
	// GPUs are the ids or UUIDs that the task was given; {gpus} is them, with
	// commas between. EnvGPUs overrides them.
	GPUs []string `json:"gpus,omitempty"`
}

// Process is a server or router. In Argv and Env these words are replaced:
// {host} and {port} (this process's own), {port:ROLE.N} (another's), {out}
// (the task's folder, absolute), {gpus}.
type Process struct {
	Role  string   `json:"role"`  // unique; "server", "prefill", "router"
	Count int      `json:"count"` // instances, ≥ 1; instance i is ROLE.i
	After []string `json:"after,omitempty"`
	Argv  []string `json:"argv"`
	Env   []string `json:"env,omitempty"` // NAME=value, complete
	Dir   string   `json:"dir,omitempty"` // absolute; "" is the task's folder
	// Port is a fixed port; 0 lets the runner choose one that is free. A fixed
	// port that somebody else holds is class port_in_use.
	Port   int    `json:"port,omitempty"`
	Health Health `json:"health"`
	Stop   Stop   `json:"stop"`
	// Failures turn text of the log into a class when the process ends early,
	// first match wins.
	Failures []Failure `json:"failures,omitempty"`
}

// Health is how a process is known to be ready. GET Path must answer Status
// (default 200) within Deadlines.Start; then the process must still live and
// own the listening socket (else not_ours), and, where Identity is given, GET
// Identity.Path must answer a body that contains Identity.Contains.
type Health struct {
	Path     string        `json:"path"`
	Status   int           `json:"status,omitempty"`
	Every    time.Duration `json:"every_ns,omitempty"` // default 100 ms
	Identity Identity      `json:"identity,omitzero"`
}

// Identity is a second proof that the server is ours.
type Identity struct {
	Path     string `json:"path,omitempty"`
	Contains string `json:"contains,omitempty"`
}

// Stop is how a process is brought down, after all clients have closed their
// connections: TERM to the group, wait First, TERM again, wait Second, KILL to
// everything it started. Each action is recorded with its time. Servers ignore
// SIGTERM for minutes, so both waits are bounded; zero means 2 s and 1 s.
type Stop struct {
	First  time.Duration `json:"first_ns,omitempty"`
	Second time.Duration `json:"second_ns,omitempty"`
}

// Failure maps a regular expression over the log to a class.
type Failure struct {
	Match string          `json:"match"`
	Class executors.Class `json:"class"`
}

// Endpoint says which process serves the clients.
type Endpoint struct {
	Role string `json:"role,omitempty"`
	// URL is set instead of Role when the server already runs elsewhere.
	URL string `json:"url,omitempty"`
}

// Step is one client run, or one command. In Argv and Env {url} is the
// endpoint's base address without a final slash, {step} the step's folder and
// {out} the task's folder, both absolute.
//
// A client may write {step}/outcome.json (StepOutcome) with its own verdict.
// Without that file exit code 0 is ok and any other is client_failed, unless
// AnyExit is set.
type Step struct {
	ID       string        `json:"id"` // [a-z0-9-]+, unique
	Argv     []string      `json:"argv"`
	Env      []string      `json:"env,omitempty"`
	Dir      string        `json:"dir,omitempty"`
	Deadline time.Duration `json:"deadline_ns"`
	// Outputs are files of the step's folder that must exist, not empty, when
	// the step is ok. Stdout and Stderr name files there to capture into
	// ("" sends them to logs/<id>.log).
	Outputs []string `json:"outputs"`
	Stdout  string   `json:"stdout,omitempty"`
	Stderr  string   `json:"stderr,omitempty"`
	AnyExit bool     `json:"any_exit,omitempty"`
}

// Probe is a command sampled while steps run; each run's stdout is appended to
// probes/<Name>.log with a line of time before it. A probe that cannot run is
// recorded and never fails the task.
type Probe struct {
	Name  string        `json:"name"`
	Argv  []string      `json:"argv"`
	Every time.Duration `json:"every_ns"` // 0: once before and once after
}

// Deadlines bound each phase; zero means the default in brackets.
type Deadlines struct {
	Start time.Duration `json:"start_ns"` // all processes healthy [10 min]
	Stop  time.Duration `json:"stop_ns"`  // everything down [30 s]
	Total time.Duration `json:"total_ns"` // the task [none]
}

// StepOutcome is a verdict on a step.
type StepOutcome struct {
	Class  executors.Class `json:"class,omitempty"` // "" is ok
	Reason string          `json:"reason,omitempty"`
}

// StepRecord is what is kept of a finished step.
type StepRecord struct {
	ID      string           `json:"id"`
	Task    executors.TaskID `json:"task"`
	Outcome StepOutcome      `json:"outcome"`
	Exit    *int             `json:"exit,omitempty"`   // absent: not started or killed by a signal
	Signal  string           `json:"signal,omitempty"` // "killed"
	Started time.Time        `json:"started,omitzero"` // UTC
	Ended   time.Time        `json:"ended,omitzero"`
	// Argv is the command with everything filled in, secrets redacted.
	Argv []string `json:"argv,omitempty"`
}

// ExitRecord is the last word of a task.
type ExitRecord struct {
	Task executors.TaskID `json:"task"`
	// Outcome is of the servers: "" if they came up and went down, interrupted
	// also where they did and steps were left because the task was asked to end.
	Outcome   StepOutcome     `json:"outcome"`
	Processes []ProcessRecord `json:"processes,omitempty"`
	Started   time.Time       `json:"started"`
	Ended     time.Time       `json:"ended"`
	// Before and After are the process and GPU state that the runner saw
	// (R079), with what stayed behind in Left: pids it had to kill, files of
	// /dev/shm it removed. Left is about things it could not remove.
	Before  HostState `json:"before"`
	After   HostState `json:"after"`
	Removed []string  `json:"removed,omitempty"`
	Left    []string  `json:"left,omitempty"`
	// Alone says that at the end the kernel knew no child of the runner, which
	// adopts all orphans: nothing that it started lives.
	Alone bool `json:"alone,omitempty"`
}

// ProcessRecord is one process instance's life.
type ProcessRecord struct {
	Name    string    `json:"name"` // ROLE.N
	Pid     int       `json:"pid"`
	Port    int       `json:"port"`
	Argv    []string  `json:"argv"`
	Started time.Time `json:"started"`
	Healthy time.Time `json:"healthy,omitzero"`
	// Phases are start-up times in seconds from Started, by name: "listen",
	// "healthy".
	Phases map[string]float64 `json:"phases_s,omitempty"`
	// Stops are the actions it took to end it: "TERM", "TERM", "KILL".
	Stops  []StopAction `json:"stops,omitempty"`
	Exit   *int         `json:"exit,omitempty"`
	Signal string       `json:"signal,omitempty"`
	Early  bool         `json:"early,omitempty"` // ended before we asked
	// LogMissing is how many bytes of its log were left out, between the
	// beginning and the end, because it was longer than the spec allows.
	LogMissing int64 `json:"log_missing_bytes,omitempty"`
}

// StopAction is one action of bringing a process down.
type StopAction struct {
	Action string    `json:"action"`
	At     time.Time `json:"at"`
}

// HostState is a snapshot of what runs: how many processes the kernel's table
// holds, and the GPUs' compute processes, as text lines, sorted. GPUs is nil where there is no nvidia-smi.
type HostState struct {
	Processes int      `json:"processes"`
	GPUs      []string `json:"gpus"`
}
