package executor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// Soak kills engines, at least so many and at seeded moments, while each starts a task
// and waits for it; the next engine starts the same task again and learns its
// end. No task may run twice, none that has finished may be unknown, and
// nothing may be left. Where tasks end with their engine, each has its
// supervisor, whose word is what is known. It returns how often the program had
// run, and how many of these runs were broken off with their engine, which
// their records say.
func Soak(t *testing.T, f Fixture, kills int, seed uint64) (ran, broken int) {
	b := &bench{Fixture: f, t: t, tasks: filepath.Join(t.TempDir(), "tasks")}
	b.must(os.Mkdir(b.tasks, 0o700))
	rng := rand.New(rand.NewPCG(seed, 200))
	scales := []int{60, 300, 1500} // a process starts faster than a container, and that than a job
	kill := func(i int, after time.Duration) {
		t.Run(fmt.Sprintf("Kill%d", i), func(t *testing.T) { // what one has made is gone before the next
			round := &bench{Fixture: f, t: t, tasks: b.tasks}
			did, finished := round.killedAt(after)
			if did {
				ran++
			}
			if did && !finished {
				broken++
			}
		})
	}
	for i := range kills {
		kill(i, time.Duration(rng.IntN(scales[i%len(scales)]))*time.Millisecond)
	}
	// Kills that all come before the start show little: on a busy machine later
	// ones follow.
	for after := 2 * time.Second; ran == 0 && after < time.Minute; after *= 2 {
		kill(kills, after)
		kills++
	}
	return ran, broken
}

// killedAt is one round: the engine dies so long after it was told to start.
func (b *bench) killedAt(after time.Duration) (ran, finished bool) {
	j := b.job("count", "count")
	if b.Lifeline {
		b.supervise(&j, "count", "{out}/count")
	}
	first := b.engine(j)
	_, err := first.in.Write([]byte("\n"))
	b.must(err)
	<-time.After(after) // the moment is the point of it, whatever has happened by then
	first.kill()
	e := b.fresh()
	h := b.start(e, j)
	o := b.wait(e, h)
	text, err := os.ReadFile(filepath.Join(j.Dir, "count"))
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	runs := strings.Count(string(text), "\n")
	ended := o.Reason == executors.Exited && o.Code == 0
	finished = ended
	if b.Lifeline {
		finished = b.finished(j)
		if ended = ended || finished; runs == 1 && !ended {
			b.t.Errorf("killed after %s: it ran, its supervisor left no last word, and the outcome is %+v", after, o)
		}
	}
	switch {
	case runs > 1:
		b.t.Errorf("killed after %s: it ran %d times", after, runs)
	case runs == 0 && finished:
		b.t.Errorf("killed after %s: it never ran, and it counts as finished with outcome %+v", after, o)
	case runs == 1 && !finished && !b.Lifeline:
		b.t.Errorf("killed after %s: it ran, and the outcome is %+v", after, o)
	case !ended && o.Reason != executors.Lost && o.Reason != executors.NotStarted && o.Reason != executors.Signaled:
		b.t.Errorf("killed after %s: outcome %+v", after, o)
	}
	return runs == 1, finished
}

// supervise makes the actor with these words a step of the job's supervisor.
func (b *bench) supervise(j *job, words ...string) {
	b.t.Helper()
	j.Process.Args = nil
	b.must(runner.WriteSpec(j.Dir, runner.Spec{
		Version: runner.SpecVersion, Task: j.ID, Endpoint: runner.Endpoint{URL: "http://127.0.0.1:1"},
		Steps: []runner.Step{{ID: "only", Argv: append([]string{actor, j.mark}, words...), Deadline: time.Minute}},
	}))
}

// finished says whether the step of a supervised job is finished for good. A
// record of a step that failed is an error.
func (b *bench) finished(j job) bool {
	b.t.Helper()
	r, err := runner.ReadStep(filepath.Join(j.Dir, "steps", "only"))
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	b.must(err)
	if r.Task != j.ID || r.Outcome.Class != "" || r.Exit == nil || *r.Exit != 0 {
		b.t.Errorf("the step's record is %+v", r)
	}
	return true
}
