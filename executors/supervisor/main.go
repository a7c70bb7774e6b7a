// Package supervisor runs the task that a runner.Spec describes: it is the
// program behind `sotabuild runner SPEC`, inside the task.
//
// It knows processes, ports, health checks and clients. It knows no executor,
// no campaign and no metric. Main is all of it. The goroutine that runs the
// task owns its state; reaping, health polling, probes and copying of output
// have goroutines that end with it.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/proc"
	"github.com/sotabuild/sotabuild/executors/redact"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/executors/supervisor/takedown"
)

// Main supervises the task of a spec and returns the exit code of the process:
// 0 when exit.json was written, whatever stands in it, else 1 with a message on
// stderr. It changes its process for good (session, sub-reaper, waits for all
// children), so it is called once, by a process that does nothing else. A
// folder runs one task once: a second run in it is refused.
func Main(specPath string) int {
	if err := run(specPath); err != nil {
		fmt.Fprintf(os.Stderr, "sotabuild runner: %v\n", err)
		return 1
	}
	return 0
}

func run(specPath string) error {
	path, err := filepath.Abs(specPath)
	if err != nil {
		return fmt.Errorf("finding the spec: %w", err)
	}
	spec, err := runner.ReadSpec(path)
	if err != nil {
		return err
	}
	note, err := proc.Lead()
	if err != nil {
		return fmt.Errorf("becoming the supervisor: %w", err)
	}
	lifeline, err := proc.Lifeline(spec.Lifeline, os.Getenv(runner.EnvLifeline))
	if err != nil {
		return err
	}
	hide, missing := redact.Find(spec.Secrets)
	t := &task{spec: spec, hide: hide, dir: filepath.Dir(path), pids: map[int]bool{}}
	hurry := make(chan struct{})
	t.ender = takedown.Ender{Say: t.say, Hurry: hurry}
	if given, ok := os.LookupEnv(runner.EnvGPUs); ok {
		t.spec.GPUs, t.visible = strings.Split(given, ","), "CUDA_VISIBLE_DEVICES="+given
	}
	if err := t.openLog(); err != nil {
		return err
	}
	defer t.log.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if spec.Deadlines.Total > 0 {
		late := &end{StepOutcome: outcome(executors.ClassTimeout, "the task passed its total deadline of %s", spec.Deadlines.Total)}
		var done context.CancelFunc
		ctx, done = context.WithTimeoutCause(ctx, spec.Deadlines.Total, late)
		defer done()
	}
	t.listen(cancel, lifeline, hurry)
	t.reaper = proc.NewReaper()
	defer t.reaper.Close()
	if note != "" {
		t.say("%s", note)
	}
	record, err := t.run(ctx, missing)
	if err != nil {
		return err
	}
	record.Alone = proc.Childless()
	return runner.WriteExit(t.dir, record)
}

// task is the running of one spec. The goroutine that calls run owns it; those
// that it starts only read it.
type task struct {
	spec    runner.Spec
	dir     string
	log     *os.File
	logLost sync.Once
	hide    redact.Secrets
	reaper  *proc.Reaper
	cgroup  *proc.Cgroup   // nil where the host does not let us make one
	ender   takedown.Ender // in a hurry when the lifeline has ended
	servers [][]*server    // in waves, in the order of starting
	shm     proc.Shm
	pids    map[int]bool // everything that was ever seen below us
	noted   runner.Tree  // what tree.json says
	left    int          // steps that were not begun because the task was asked to end
	kills   string       // proc.OOMKills before the first start
	visible string       // the variable that keeps to our GPUs; "" where the spec's word is the only one
}

// end says why a task, or its servers, cannot go on. It is the cause with which
// their contexts are cancelled.
type end struct {
	runner.StepOutcome
	server *server // set when it died; its outcome is found by explain
	again  bool    // another port may help
}

func outcome(class executors.Class, form string, args ...any) runner.StepOutcome {
	return runner.StepOutcome{Class: class, Reason: fmt.Sprintf(form, args...)}
}

func (e *end) Error() string { return string(e.Class) + ": " + e.Reason }

// run runs the task. An error means that a record could not be written; then
// there is no last word. missing says which secrets are not there.
func (t *task) run(ctx context.Context, missing error) (runner.ExitRecord, error) {
	record := runner.ExitRecord{Task: t.spec.Task, Started: time.Now().UTC(), Before: t.host(toolPatience)}
	if missing != nil {
		record.Outcome = outcome(executors.ClassStartFailed, "%v", missing)
		record.After, record.Ended = t.host(toolPatience), time.Now().UTC()
		return record, nil
	}
	t.kills, _ = proc.OOMKills()
	t.makeCgroup()
	t.shm.Begin()
	t.observe()
	bounded := t.boundLogs()
	life, kill := t.up(ctx)
	defer kill(nil)
	var broken error
	written := func() error { return nil }
	if life.Err() == nil {
		// A folder that is gone is no reason to leave servers behind: down
		// comes in any case.
		if len(t.servers) > 0 {
			broken = runner.WriteUp(t.dir, t.upRecords())
		}
		if broken == nil {
			probed := t.probe(life)
			written = t.steps(life)
			probed()
		}
	}
	record.Outcome = t.explain(life)
	if record.Outcome.Class == "" && t.left > 0 {
		record.Outcome = outcome(executors.ClassInterrupted, "the task was asked to end; %d of its %d steps never began", t.left, len(t.spec.Steps))
	}
	t.down(&record)
	broken = errors.Join(broken, written())
	bounded(&record)
	if record.Outcome.Class == "" && len(record.Left) > 0 {
		record.Outcome = outcome(executors.ClassStopFailed, "%d things would not go away; they stand under left", len(record.Left))
	}
	record.Outcome.Reason = t.hide.Text(record.Outcome.Reason)
	record.Ended = time.Now().UTC()
	return record, broken
}

// upRecords are the records of all servers, which nothing changes while they
// are up.
func (t *task) upRecords() []runner.ProcessRecord {
	var out []runner.ProcessRecord
	for _, wave := range t.servers {
		for _, s := range wave {
			out = append(out, s.record)
		}
	}
	return out
}

// makeCgroup puts what we start into a control group of its own, if we can.
// The sub-reaper finds everything as well while we live; the group also finds
// what outlives us.
func (t *task) makeCgroup() {
	group, err := proc.MakeCgroup(executors.CgroupName(t.spec.Task))
	if err != nil {
		t.say("no control group: %v", err)
		return
	}
	if t.reaper.Cgroup, err = group.Open(); err != nil {
		t.say("no control group: %v", errors.Join(err, group.Remove()))
		return
	}
	t.cgroup = group
}

// openLog opens logs/runner.log. That it must not exist makes a folder run one
// task once, also when two start it at the same time.
func (t *task) openLog() error {
	logs := filepath.Join(t.dir, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return fmt.Errorf("making the folder of logs: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(logs, "runner.log"), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("task %s has been started in %s before; a folder runs one task once", t.spec.Task, t.dir)
	}
	t.log = file
	return err
}

// say writes a line to logs/runner.log. A log that cannot be written is said
// once on stderr and stops nothing.
func (t *task) say(form string, args ...any) {
	line := time.Now().UTC().Format(time.RFC3339Nano) + " " + t.hide.Text(fmt.Sprintf(form, args...)) + "\n"
	if _, err := t.log.WriteString(line); err != nil {
		t.logLost.Do(func() { fmt.Fprintf(os.Stderr, "sotabuild runner: writing logs/runner.log: %v\n", err) })
	}
}

// listen ends the task on a signal or with the lifeline, which closes hurry. Its
// goroutines live as long as the process. Signals are handled, never ignored:
// children would inherit that.
func (t *task) listen(cancel context.CancelCauseFunc, lifeline *os.File, hurry chan<- struct{}) {
	sigs := make(chan os.Signal, 8)
	signal.Notify(sigs, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	stop := func(why string) {
		cancel(&end{StepOutcome: outcome(executors.ClassInterrupted, "%s", why)})
	}
	go func() {
		for s := range sigs {
			if s == syscall.SIGTERM || s != syscall.SIGPIPE && lifeline == nil {
				t.say("got %s: stopping", unix.SignalName(s.(syscall.Signal)))
				stop("the runner was told to stop by " + unix.SignalName(s.(syscall.Signal)))
			}
		}
	}()
	if lifeline == nil {
		return
	}
	go func() {
		for buf := make([]byte, 64); ; {
			if n, err := lifeline.Read(buf); err != nil || n == 0 {
				break
			}
		}
		close(hurry)
		stop("the lifeline ended: the engine is gone")
		t.say("the lifeline ended: stopping in a hurry")
	}()
}
