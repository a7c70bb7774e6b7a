package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/proc"
	"github.com/sotabuild/sotabuild/executors/redact"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/executors/supervisor/takedown"
)

// steps runs the steps in order. A step that fails does not keep the next from
// running; the end of life does, and a record that could not be written, which
// written returns. The last record comes to the disk while the caller goes on:
// written waits for it, and is called once.
func (t *task) steps(life context.Context) (written func() error) {
	said := func(err error) func() error { return func() error { return err } }
	for i, s := range t.spec.Steps {
		if life.Err() != nil {
			return said(nil)
		}
		if !t.mayBegin(filepath.Join(t.dir, "steps", s.ID)) {
			t.left = len(t.spec.Steps) - i
			t.say("asked to end: %d of %d steps are left", t.left, len(t.spec.Steps))
			return said(nil)
		}
		record := t.step(life, s)
		t.observe()
		if record.Outcome.Class == executors.ClassInterrupted {
			t.say("step %s: interrupted; it is not finished and has no record", s.ID)
			return said(nil)
		}
		t.say("step %s: %s %s", s.ID, or(string(record.Outcome.Class), "ok"), record.Outcome.Reason)
		done := make(chan error, 1)
		go func() { done <- runner.WriteStep(filepath.Join(t.dir, "steps", s.ID), record) }()
		if i == len(t.spec.Steps)-1 {
			return func() error { return <-done }
		}
		if err := <-done; err != nil {
			return said(err)
		}
	}
	return said(nil)
}

// asked reports whether no further step may begin. A folder that cannot be
// read asks for nothing.
func (t *task) asked() bool {
	asked, err := runner.DrainAsked(t.dir)
	if err != nil {
		t.say("%v", err)
	}
	return asked
}

// mayBegin marks a step as begun, unless no further step may begin. The mark
// comes before the look. A mark that cannot be written keeps no step from
// running: only what is said of a task that was asked to end is less exact.
func (t *task) mayBegin(step string) bool {
	if err := runner.MarkBegun(step); err != nil {
		t.say("%v", err)
	}
	if !t.asked() {
		return true
	}
	if err := runner.UnmarkBegun(step); err != nil {
		t.say("a step that does not begin is marked as begun: %v", err)
	}
	return false
}

// step runs one step to its end, or to the end of life.
func (t *task) step(life context.Context, s runner.Step) runner.StepRecord {
	dir := filepath.Join(t.dir, "steps", s.ID)
	record := runner.StepRecord{ID: s.ID, Task: t.spec.Task, Started: time.Now().UTC()}
	child, failed := t.begin(s, dir, &record)
	if failed != nil {
		record.Outcome = outcome(executors.ClassClientFailed, "%s", t.hide.Text(failed.Error()))
		record.Ended = time.Now().UTC()
		return record
	}
	late := time.NewTimer(s.Deadline)
	defer late.Stop()
	var cut runner.StepOutcome
	select {
	case <-child.Done:
	case <-late.C:
		cut = outcome(executors.ClassTimeout, "the step passed its deadline of %s", s.Deadline)
	case <-life.Done():
		select {
		case <-child.Done: // it had finished all the same
		default:
			cut = runner.StepOutcome{Class: executors.ClassInterrupted}
		}
	}
	waits := []time.Duration{500 * time.Millisecond}
	if cut.Class == "" {
		waits = nil // what it left in its session has no reason to live
	}
	t.ender.Stop(child.Child, time.Now().Add(takedown.Patience), waits...)
	lost := child.finish()
	record.Ended = time.Now().UTC()
	record.Exit, record.Signal = child.Exit()
	record.Outcome = cut
	if cut.Class == "" {
		record.Outcome = t.verdict(s, dir, record)
		if lost != nil && record.Outcome.Class == "" {
			record.Outcome = outcome(executors.ClassNoOutput, "its output could not be written: %v", lost)
		}
	}
	if cut.Class == executors.ClassInterrupted || record.Outcome.Class != "" && t.dying(life) {
		record.Outcome = t.explain(life)
	}
	record.Outcome.Reason = t.hide.Text(record.Outcome.Reason)
	return record
}

// stepChild is a step's process with its sinks.
type stepChild struct {
	*proc.Child
	sinks []*redact.Sink
}

func (c stepChild) finish() error {
	var err error
	for _, k := range c.sinks {
		err = errors.Join(err, k.Finish(time.Second))
	}
	return err
}

// begin starts the step's process.
func (t *task) begin(s runner.Step, dir string, record *runner.StepRecord) (stepChild, error) {
	var c stepChild
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return c, fmt.Errorf("making the step's folder: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, runner.OutcomeFile)); !errors.Is(err, os.ErrNotExist) {
		return c, fmt.Errorf("%s stood in the step's folder before it started", runner.OutcomeFile)
	}
	where := func(name string) string {
		if name == "" {
			return filepath.Join(t.dir, "logs", s.ID+".log")
		}
		return filepath.Join(dir, name)
	}
	stdout, err := t.hide.Open(where(s.Stdout))
	if err != nil {
		return c, err
	}
	defer stdout.Handed()
	stderr := stdout
	if s.Stderr != s.Stdout {
		if stderr, err = t.hide.Open(where(s.Stderr)); err != nil {
			return c, err
		}
		defer stderr.Handed()
	}
	fill := t.words(nil, dir)
	argv, cwd := fillAll(fill, s.Argv), s.Dir
	if cwd == "" {
		cwd = t.dir
	}
	record.Argv = t.hide.Texts(argv)
	child, err := t.reaper.Start(proc.Command{
		Argv: argv, Env: t.env(fillAll(fill, s.Env)), Dir: cwd, Stdout: stdout.Child, Stderr: stderr.Child,
	})
	return stepChild{child, []*redact.Sink{stdout, stderr}}, err
}

// dying says whether a server has died, or is about to: its connections break
// before the kernel announces its end, so a client may fail first. Where the
// endpoint no longer listens we wait for the announcement. Where it still does
// we wait a moment: a process that dies loses the socket that listens last.
func (t *task) dying(life context.Context) bool {
	for _, wave := range t.servers {
		for _, s := range wave {
			patience := 300 * time.Millisecond
			if sockets, err := proc.Answering(s.port); err == nil && len(sockets) == 0 {
				patience = 5 * time.Second
			}
			select {
			case <-life.Done():
			case <-time.After(patience):
			}
		}
	}
	e, ok := context.Cause(life).(*end)
	return ok && e.server != nil
}

// isClass says whether a text may be a class: at most 40 of a-z, 0-9 and _.
func isClass(s executors.Class) bool {
	return len(s) <= 40 && strings.Trim(string(s), "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// verdict is what became of a step whose process has ended by itself.
func (t *task) verdict(s runner.Step, dir string, r runner.StepRecord) runner.StepOutcome {
	ended := "it was ended by a signal: " + r.Signal
	if r.Exit != nil {
		ended = fmt.Sprintf("it exited with code %d", *r.Exit)
	}
	good := r.Exit != nil && (*r.Exit == 0 || s.AnyExit)
	said, err := runner.ReadOutcome(dir)
	none := errors.Is(err, os.ErrNotExist)
	switch {
	case none && !good:
		return outcome(executors.ClassClientFailed, "%s", ended)
	case none:
	case err != nil:
		return outcome(executors.ClassClientFailed, "%s, and left no valid verdict: %v", ended, err)
	case !isClass(said.Class) || len(said.Reason) > 16<<10:
		return outcome(executors.ClassClientFailed, "its verdict is not valid: class %.60q, reason of %d bytes", said.Class, len(said.Reason))
	case said.Class == executors.ClassInterrupted:
		return outcome(executors.ClassClientFailed, "it says that it was interrupted, but not by us: %s", said.Reason)
	case said.Class != "":
		return said
	case !good:
		return outcome(executors.ClassClientFailed, "its verdict is ok, but %s", ended)
	}
	if err := runner.CheckOutputs(dir, s.Outputs); err != nil {
		return outcome(executors.ClassNoOutput, "%v", err)
	}
	return said
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
