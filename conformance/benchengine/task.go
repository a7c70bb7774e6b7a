package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/local"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// noop is the program that tasks run.
const noop = "/bin/true"

// tasks measures what a local task costs over forking and executing the same
// program: Start, Wait and Reap of the executor, once of the bare program, once
// of the supervisor (sotabuild, which stands beside this program) with one step
// that is the program. The three are run in turn.
func (t *table) tasks(dir, self string) error {
	l := lab{dir: filepath.Join(dir, "tasks"), sotabuild: filepath.Join(filepath.Dir(self), "sotabuild")}
	l.local = local.New(l.sotabuild, l.dir)
	var plain, bare, supervised []time.Duration
	for i := range 10 * rounds {
		for _, way := range []struct {
			took *[]time.Duration
			run  func(id string) error
		}{
			{&plain, func(string) error { return exec.Command(noop).Run() }},
			{&bare, func(id string) error { return l.task("bare-"+id, []string{noop}, nil) }},
			{&supervised, func(id string) error { return l.task("step-"+id, nil, []string{noop}) }},
		} {
			start := time.Now()
			if err := way.run(fmt.Sprint(i)); err != nil {
				return err
			}
			*way.took = append(*way.took, time.Since(start))
		}
	}
	base := median(plain)
	for _, m := range []struct {
		what string
		over time.Duration
	}{{"a local task of one process", median(bare) - base}, {"a local task of a supervisor with one step", median(supervised) - base}} {
		t.line(m.what+", over fork and exec", fmt.Sprintf("%s (fork and exec %s), medians of %d", ms(m.over), ms(base), len(plain)), "≤ 15 ms", m.over <= 15*time.Millisecond)
	}
	return nil
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// lab runs tasks in folders of its own.
type lab struct {
	dir, sotabuild string
	local          *local.Executor
}

// task runs a task to its end: of argv, or with step of the supervisor.
func (l lab) task(id string, argv, step []string) error {
	t := executors.Task{ID: executors.TaskID(id), Dir: filepath.Join(l.dir, id), Deadline: time.Minute, StopGrace: time.Second}
	t.Process.Args = argv
	if err := os.MkdirAll(t.Dir, 0o700); err != nil {
		return err
	}
	if argv == nil {
		err := runner.WriteSpec(t.Dir, runner.Spec{Version: runner.SpecVersion, Task: t.ID,
			Steps: []runner.Step{{ID: "only", Argv: step, Deadline: time.Minute, Outputs: []string{}}}})
		if err != nil {
			return err
		}
	}
	ctx := context.Background()
	h, err := l.local.Start(ctx, t)
	if err != nil {
		return err
	}
	out, err := l.local.Wait(ctx, h)
	if err = errors.Join(err, l.local.Reap(ctx, h)); err != nil {
		return err
	}
	if out.Reason != executors.Exited || out.Code != 0 {
		b, _ := json.Marshal(out)
		return fmt.Errorf("task %s ended as %s", id, b)
	}
	if argv == nil {
		if r, err := runner.ReadStep(filepath.Join(t.Dir, "steps", "only")); err != nil || r.Outcome.Class != "" {
			return fmt.Errorf("task %s: its step: %+v %w", id, r.Outcome, err)
		}
	}
	return nil
}
