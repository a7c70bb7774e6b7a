// Package slurm runs tasks as batch jobs of a Slurm cluster. The engine runs on
// a host with Slurm's client programs and shares a file system with the nodes.
//
// A task is one job. What runs in it is `sotabuild slurm-job` (package job),
// which starts the task's program once, with exactly its environment, and leaves
// its records in Task.Dir/.slurm. Those records come first: Slurm's word is
// asked for when a job has ended without one, and it decides between a time
// limit, a cancel, a preemption, memory and a lost node. A job that Slurm has
// forgotten and that left no record is Lost; a controller that does not answer
// is waited for, and says nothing about any task. The GPUs are asked for by
// number, and Slurm chooses them; what it chose reaches the runner
// (runner.EnvGPUs) and stands in the record.
//
// A job's name is unique and known before it is submitted, so a job whose id
// nobody lived to write down is found by it. A second job of one task, which a
// controller that forgot may start, does not begin. Nothing that is not ours is
// touched: jobs are ended by id, after their name was read back.
//
// Only the text interfaces of sbatch, squeue, scontrol and scancel are used; no
// accounting is needed. Questions about waiting tasks go to Slurm together, in
// one call. Every method may be called from any goroutine.
package slurm

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/ledger"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/executors/slurm/job"
)

// Config is what an executor needs to know.
type Config struct {
	// Self is the path of the sotabuild program, which every node must see: it
	// is what runs in a job, and the program of a task without Args.
	Self string
	// Options are those of the language; see the table options.
	Options map[string]string
	// Roots are folders that List looks into; each holds task folders.
	Roots []string
	// FileGrace is how long a file may take from a node to this host [10 s].
	FileGrace time.Duration
	// LostGrace is how long Slurm must not know a job that has begun before it
	// is Lost [1 min]. StartPatience is how long Start waits for a controller
	// that does not answer [10 min].
	LostGrace, StartPatience time.Duration
}

// Executor implements executors.Executor.
type Executor struct {
	Config
	client client
	queue  queue
	mu     sync.Mutex // guards site
	site   *site      // nil until it was read
}

// site is what we need to know of a cluster.
type site struct {
	killWait time.Duration // between Slurm's TERM and its KILL
	cpus     int           // of the largest node
	memory   int64         // of the node with most, bytes
}

var _ executors.Executor = (*Executor)(nil)

// New returns an executor, or everything that is wrong with its options.
func New(c Config) (*Executor, error) {
	if err := checkOptions(c.Options); err != nil {
		return nil, err
	}
	c.Options = maps.Clone(c.Options)
	for _, d := range []struct {
		to    *time.Duration
		value time.Duration
	}{{&c.FileGrace, 10 * time.Second}, {&c.LostGrace, time.Minute}, {&c.StartPatience, 10 * time.Minute}} {
		if *d.to == 0 {
			*d.to = d.value
		}
	}
	cl := client{bin: c.Options["bin"], conf: c.Options["conf"]}
	return &Executor{Config: c, client: cl, queue: queue{client: cl, most: longestPause(c.Options)}}, nil
}

// Name is "slurm".
func (e *Executor) Name() string { return "slurm" }

// Check says why a task cannot run here. The first call asks Slurm for its
// configuration.
func (e *Executor) Check(t executors.Task) error {
	if err := e.check(t); err != nil {
		return err
	}
	s, err := e.configured(context.Background())
	switch {
	case err != nil:
		return fmt.Errorf("task %s: %w", t.ID, err)
	case t.Resources.CPUs > s.cpus:
		return fmt.Errorf("task %s needs %d CPUs; the largest node has %d", t.ID, t.Resources.CPUs, s.cpus)
	case t.Resources.Memory > s.memory:
		return fmt.Errorf("task %s needs %d bytes of memory; the node with most has %d", t.ID, t.Resources.Memory, s.memory)
	}
	return nil
}

// check is about what can never work here.
func (e *Executor) check(t executors.Task) error {
	if !t.ID.Valid() {
		return fmt.Errorf("task %q: its id is not made of 1 to 63 of a-z, 0-9 and -", t.ID)
	}
	if t.Image != "" {
		return fmt.Errorf("task %s: slurm runs no images; write program = \"/a/path/that/every/node/sees\" for the framework beside its image %s, or another executor", t.ID, t.Image)
	}
	if t.Process.Terminal {
		return fmt.Errorf("task %s: slurm gives no terminal", t.ID)
	}
	for _, path := range []string{e.Self, t.Dir} {
		if !filepath.IsAbs(path) || strings.ContainsAny(path, "\n\x00") {
			return fmt.Errorf("task %s: %q is no absolute path without line ends", t.ID, path)
		}
	}
	if info, err := os.Stat(t.Dir); err != nil || !info.IsDir() {
		return fmt.Errorf("task %s: its folder %s is not there", t.ID, t.Dir)
	}
	if program := e.args(t)[0]; !filepath.IsAbs(program) {
		return fmt.Errorf("task %s: its program %q is no absolute path", t.ID, program)
	}
	for _, m := range t.Mounts {
		if m.Source != m.Destination || !filepath.IsAbs(m.Source) {
			return fmt.Errorf("task %s: slurm mounts nothing, so %s cannot appear as %s; use the same absolute path", t.ID, m.Source, m.Destination)
		}
		if _, err := os.Stat(m.Source); err != nil {
			return fmt.Errorf("task %s: its mount is missing: %w", t.ID, err)
		}
	}
	for name := range t.Resources.Ulimits {
		if _, ok := job.Ulimits[name]; !ok {
			return fmt.Errorf("task %s: the ulimit %q is unknown to slurm", t.ID, name)
		}
	}
	return nil
}

func (e *Executor) args(t executors.Task) []string {
	if len(t.Process.Args) > 0 {
		return t.Process.Args
	}
	return []string{e.Self, "runner", runner.SpecFile}
}

// configured returns what there is. Slurm is asked once; an error is that it
// does not answer, or is not there.
func (e *Executor) configured(ctx context.Context) (site, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.site != nil {
		return *e.site, nil
	}
	text, err := e.client.run(ctx, "", "scontrol", "show", "config")
	if err != nil {
		return site{}, err
	}
	found := site{killWait: 30 * time.Second} // Slurm's default
	if m := killWait.FindStringSubmatch(text); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n > 0 {
			found.killWait = time.Duration(n) * time.Second
		}
	}
	args := []string{"--noheader", "--Node", "--format=%c %m"}
	if e.Options["partition"] != "" {
		args = append(args, "--partition="+e.Options["partition"])
	}
	if text, err = e.client.run(ctx, "", "sinfo", args...); err != nil {
		return site{}, err
	}
	for line := range strings.Lines(text) {
		var cpus int
		var mebibytes int64
		if n, _ := fmt.Sscan(line, &cpus, &mebibytes); n == 2 {
			found.cpus, found.memory = max(found.cpus, cpus), max(found.memory, mebibytes<<20)
		}
	}
	if found.cpus == 0 {
		return site{}, fmt.Errorf("slurm: sinfo shows no node of partition %q; write options = { partition = \"…\" } with one that sinfo shows", e.Options["partition"])
	}
	e.site = &found
	return found, nil
}

// Start submits the task's job once. What Slurm refuses is an outcome, not an
// error; a controller that does not answer is waited for.
func (e *Executor) Start(ctx context.Context, t executors.Task) (executors.Handle, error) {
	if err := e.check(t); err != nil {
		return executors.Handle{}, err
	}
	p := place(filepath.Clean(t.Dir))
	err := p.update(ctx, func(s *state) error {
		switch {
		case s.Task != "" && s.Task != t.ID:
			return fmt.Errorf("starting task %s: its folder %s is that of task %s", t.ID, t.Dir, s.Task)
		case s.Job != "" || s.Outcome != nil:
			return nil // started before
		case s.Task != "":
			return e.submit(ctx, p, s, t, true)
		}
		if err := e.intend(ctx, p, s, t); err != nil {
			return err
		}
		return e.submit(ctx, p, s, t, false)
	})
	if err != nil {
		return executors.Handle{}, err
	}
	s, err := p.read()
	return executors.Handle{Executor: e.Name(), Task: t.ID, Ref: p.ref(s)}, err
}

// intend writes down what will be submitted: a crash after it never leads to a
// second job that runs.
func (e *Executor) intend(ctx context.Context, p place, s *state, t executors.Task) error {
	site, err := e.configured(ctx)
	if err != nil && !away(err) {
		return fmt.Errorf("starting task %s: %w", t.ID, err)
	}
	var random [4]byte
	rand.Read(random[:])
	*s = state{
		Task: t.ID, Labels: t.Labels, Submitted: time.Now().UTC(), Grace: t.StopGrace,
		Name: jobPrefix + string(t.ID) + "-" + hex.EncodeToString(random[:]),
	}
	o := job.Order{
		Version: job.OrderVersion, Task: t.ID, Name: s.Name, Args: e.args(t), Dir: string(p), GPUs: len(t.Resources.GPUs),
		ShmSize: t.Resources.ShmSize, Ulimits: t.Resources.Ulimits, Deadline: t.Deadline, Grace: t.StopGrace, KillWait: site.killWait,
	}
	for _, m := range t.Mounts {
		o.Needs = append(o.Needs, m.Source)
	}
	// A crash while it was written left no state: nothing was submitted.
	if err := job.DropEnv(p.folder()); err != nil {
		return err
	}
	if err := job.WriteOrder(p.folder(), o, t.Process.Env); err != nil {
		return err
	}
	return ledger.Write(p.path(), *s)
}

// jobPrefix begins the name of every job of ours.
const jobPrefix = "sotabuild-"

// submit submits the job; where somebody may have done so before, it looks for
// the name first. Whatever went wrong, a job may be queued: sbatch can fail
// after the controller has taken it.
func (e *Executor) submit(ctx context.Context, p place, s *state, t executors.Task, look bool) error {
	wait := time.Second
	for until := time.Now().Add(e.StartPatience); ; {
		var err error
		if look {
			s.Job, err = e.find(ctx, p, s)
		}
		if err == nil && s.Job == "" {
			s.Job, err = e.sbatch(ctx, p, s, t)
		}
		var no refusedError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &no):
			now := time.Now().UTC()
			s.Outcome = &executors.Outcome{Reason: executors.NotStarted, Detail: no.text + hint(no.text), Started: s.Submitted, Ended: now}
			return job.DropEnv(p.folder())
		case !away(err) || time.Now().After(until):
			return fmt.Errorf("starting task %s: %w", t.ID, err)
		}
		look = true
		if !pause(ctx, wait) {
			return fmt.Errorf("starting task %s: %w", t.ID, ctx.Err())
		}
		wait = min(2*wait, awayPause)
	}
}

// hints say what to write when Slurm's own words do not.
var hints = []struct{ word, say string }{
	{"invalid partition", "write options = { partition = \"…\" } with one that sinfo shows"},
	{"invalid account", "write options = { account = \"…\" } with one of yours"},
	{"invalid qos", "write options = { qos = \"…\" } with one that you may use"},
	{"feature specification", "write options = { constraint = \"…\" } with features that sinfo -o '%N %f' shows"},
	{"requested reservation", "write options = { reservation = \"…\" } with one that scontrol show reservation shows"},
	{"node name", "write options = { nodelist = \"…\" } with nodes that sinfo -N shows"},
	{"time limit", "write options = { time = \"…\" } within the partition's limit"},
	{"generic resource (gres)", "write options = { gres = \"…\" } with one that sinfo -o '%N %G' shows"},
	{"memory specification", "no node has as much memory; sinfo -o '%N %m' shows what there is, in MiB"},
	{"node configuration", "no node has as many GPUs or CPUs, or as much memory; sinfo -o '%N %G %c %m' shows what there is"},
}

func hint(text string) string {
	for _, h := range hints {
		if strings.Contains(strings.ToLower(text), h.word) {
			return "; " + h.say
		}
	}
	return ""
}

// find looks for the job of a name: in the folder, and in Slurm's memory.
func (e *Executor) find(ctx context.Context, p place, s *state) (string, error) {
	if begin, err := job.ReadBegin(p.folder()); err == nil {
		return begin.Job, nil
	}
	list, err := e.client.named(ctx, s.Name, os.Getuid())
	if err != nil {
		return "", err
	}
	for _, f := range list {
		// What sbatch refused may stand there too, as an ended job.
		if w := (word{state: f.state}); !w.over() || len(list) == 1 {
			return f.job, nil
		}
	}
	return "", nil
}

// sbatch submits and returns the job's id.
func (e *Executor) sbatch(ctx context.Context, p place, s *state, t executors.Task) (string, error) {
	// The shell is replaced by our program, so that a TERM to the batch script is
	// one to it. No secret is in the script: Slurm keeps and shows it.
	script := fmt.Sprintf("#!/bin/sh\nexec %s slurm-job %s\n", quote(e.Self), quote(p.folder()))
	out, err := e.client.run(ctx, script, "sbatch", e.flags(p, s, t)...)
	if err != nil {
		return "", err
	}
	id, _, _ := strings.Cut(strings.TrimSpace(out), ";") // JOB or JOB;CLUSTER
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		return "", fmt.Errorf("submitting task %s: sbatch printed %q, which is no job id", t.ID, out)
	}
	return id, nil
}

// flags are the whole command line of sbatch.
func (e *Executor) flags(p place, s *state, t executors.Task) []string {
	list := []string{
		"--parsable", "--no-requeue", "--kill-on-invalid-dep=yes",
		// Every other form adds the user's login environment, which takes seconds
		// and runs profile files. Ours is small (see kept).
		"--export=ALL",
		"--job-name=" + s.Name, "--comment=" + comment(s.Labels[executors.LabelRun]), "--chdir=" + string(p), "--input=/dev/null",
		// A percent sign would be a pattern.
		"--output=" + strings.ReplaceAll(filepath.Join(p.folder(), job.OutFile), "%", "%%"),
		// A second job of the task does not erase what the first one said.
		"--open-mode=append", "--nodes=1", "--ntasks=1",
	}
	add := func(flag, value string) {
		if value != "" {
			list = append(list, flag+value)
		}
	}
	set, r := e.Options, t.Resources
	for _, o := range options {
		if o.flag != "" {
			add(o.flag, set[o.name])
		}
	}
	if set["exclusive"] == "true" {
		list = append(list, "--exclusive")
	}
	if n := len(r.GPUs); n > 0 {
		gres := set["gres"]
		if gres == "" {
			gres = "gpu"
		}
		add("--gres=", fmt.Sprintf("%s:%d", gres, n))
	}
	cpus, mem, limit := set["cpus"], set["mem"], set["time"]
	if r.CPUs > 0 {
		cpus = strconv.Itoa(r.CPUs)
	}
	if r.Memory > 0 {
		mem = fmt.Sprintf("%dM", (r.Memory+1<<20-1)>>20)
	}
	if limit == "" && t.Deadline > 0 {
		// The job keeps the deadline itself; Slurm's limit is a net above it.
		limit = strconv.Itoa(int((t.Deadline+t.StopGrace+2*time.Minute-1)/time.Minute) + 1)
	}
	add("--cpus-per-task=", cpus)
	add("--mem=", mem)
	add("--time=", limit)
	return append(list, strings.Fields(set["extra"])...)
}

// comment marks a job with its run.
func comment(run string) string { return "sotabuild run=" + url.QueryEscape(run) }
