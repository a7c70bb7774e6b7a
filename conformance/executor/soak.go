package executor

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/executors"
)

// Soak kills engines, so many and at seeded moments, while each starts a task
// and waits for it; the next engine starts the same task again and learns its
// end. No task may run twice, none that has run may be unknown where its end
// outlives the engine, and nothing may be left. It returns how often the
// program had run, and how often nobody could say so afterwards.
func Soak(t *testing.T, f Fixture, kills int, seed uint64) (ran, lost int) {
	b := &bench{Fixture: f, t: t, tasks: filepath.Join(t.TempDir(), "tasks")}
	b.must(os.Mkdir(b.tasks, 0o700))
	rng := rand.New(rand.NewPCG(seed, 200))
	scales := []int{60, 300, 1500} // a process starts faster than a container, and that than a job
	for i := range kills {
		t.Run(fmt.Sprintf("Kill%d", i), func(t *testing.T) { // what one has made is gone before the next
			round := &bench{Fixture: f, t: t, tasks: b.tasks}
			did, known := round.killedAt(time.Duration(rng.IntN(scales[i%len(scales)])) * time.Millisecond)
			if did {
				ran++
			}
			if did && !known {
				lost++
			}
		})
	}
	return ran, lost
}

// killedAt is one round: the engine dies so long after it was told to start.
func (b *bench) killedAt(after time.Duration) (ran, known bool) {
	j := b.job("count", "count")
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
	known = o.Reason == executors.Exited && o.Code == 0
	switch {
	case runs > 1:
		b.t.Errorf("killed after %s: it ran %d times", after, runs)
	case runs == 0 && known:
		b.t.Errorf("killed after %s: it never ran, and the outcome is %+v", after, o)
	case runs == 1 && !known && !b.Lifeline:
		b.t.Errorf("killed after %s: it ran, and the outcome is %+v", after, o)
	case !known && o.Reason != executors.Lost && o.Reason != executors.NotStarted && o.Reason != executors.Signaled:
		b.t.Errorf("killed after %s: outcome %+v", after, o)
	}
	return runs == 1, known
}
