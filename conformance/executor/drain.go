package executor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// drain asks a supervised task with a server to end while its first step runs.
func drain(b *bench) {
	e, j := b.fresh(), b.job("runner", runner.SpecFile)
	step := func(id string, words ...string) runner.Step {
		return runner.Step{ID: id, Argv: append([]string{actor, j.mark}, words...), Deadline: patience}
	}
	b.must(runner.WriteSpec(j.Dir, runner.Spec{
		Version: runner.SpecVersion, Task: j.ID, Endpoint: runner.Endpoint{Role: "server"},
		Processes: []runner.Process{{
			Role: "server", Count: 1, Argv: []string{actor, j.mark, "serve", "{port}"}, Health: runner.Health{Path: "/"},
			Stop: runner.Stop{First: 20 * time.Second},
		}},
		Steps: []runner.Step{
			step("first", "tick", "1", "1ms", "0", "{out}/go"), step("second", "count", "{out}/count"), step("third", "count", "{out}/count"),
		},
	}))
	h := b.start(e, j)
	b.until("its first step", func() bool {
		return strings.Contains(strings.Join(living(j.mark), "\n"), "tick 1 1ms")
	})

	b.must(runner.AskDrain(j.Dir))
	if far, ok := e.(executors.Sender); ok {
		copied, err := far.Send(b.bg(), h, runner.DrainFile)
		b.must(err)
		if copied != (b.Put != nil) {
			b.t.Errorf("copied: %t, though the task sees the folder itself: %t", copied, b.Put == nil)
		}
	}
	b.release(j)
	b.want(b.wait(e, h), executors.Exited, 0, "")

	steps := filepath.Join(j.Dir, "steps")
	if r, err := runner.ReadStep(filepath.Join(steps, "first")); err != nil || r.Outcome.Class != "" || r.Task != j.ID {
		b.t.Errorf("the first step: %+v, %v", r, err)
	}
	for _, id := range []string{"second", "third"} {
		if _, err := runner.ReadStep(filepath.Join(steps, id)); !errors.Is(err, os.ErrNotExist) || runner.Begun(filepath.Join(steps, id)) {
			b.t.Errorf("the %s step has begun, or has a record (%v)", id, err)
		}
	}
	if _, err := os.Stat(filepath.Join(j.Dir, "count")); err == nil {
		b.t.Error("a later step ran")
	}
	x, err := runner.ReadExit(j.Dir)
	b.must(err)
	if len(x.Processes) != 1 || x.Processes[0].Early || len(x.Left) > 0 || x.Outcome.Class != executors.ClassInterrupted {
		b.t.Errorf("the last word: %+v", x)
	}
	if left := living(j.mark); len(left) > 0 {
		b.t.Errorf("still running: %v", left)
	}
	if far, ok := e.(executors.Sender); ok { // it has ended: nothing to be done
		_, err := far.Send(b.bg(), h, runner.DrainFile)
		b.must(err)
	}
}
