package sched_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/executors"
)

// after sends interrupts at the given times since the start.
func (w *world) after(times ...time.Duration) {
	for _, d := range times {
		time.AfterFunc(d, func() { w.interrupt <- struct{}{} })
	}
}

// long is a batch of three cells of ten seconds each, and what needs them.
func long() (*machine, []compile.Decl) {
	ten := []act{{takes: 10050 * time.Millisecond}} // between two harvests
	m := newMachine(steps(map[string][]act{"a": ten, "b": ten, "c": ten}))
	return m, []compile.Decl{
		batched("x", decl("a", cell)), batched("x", decl("b", cell)), batched("x", decl("c", cell)),
		decl("sum", join, "a", "b", "c"), decl("next", cell, "b"),
	}
}

func TestTheFirstInterruptDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, nodes := long()
		w := newWorld(t, m, nodes...)
		w.after(15 * time.Second)
		w.wantSummary(w.must(), sched.Summary{OK: 2, Unbegun: 3, Interrupted: true})
		w.golden("drain")
		w.wantNothingLeft()
		w.wantOutcomes("a ok", "b ok")
		w.wantSummary(w.must(), sched.Summary{OK: 3, Cached: 2})
		if n := len(m.started); n != 3 { // the drained one, one for the rest of the batch, and next
			t.Errorf("%d tasks were started", n)
		}
	})
}

// wantNothingLeft says that no task runs and no intent is open.
func (w *world) wantNothingLeft() {
	w.t.Helper()
	if w.machine.alive() != 0 || len(w.store.Intents()) != 0 {
		w.t.Errorf("left: %d tasks, intents %v", w.machine.alive(), w.store.Intents())
	}
}

func (w *world) wantOutcomes(want ...string) {
	w.t.Helper()
	if d := cmp.Diff(want, w.outcomes()); d != "" {
		w.t.Errorf("records (-want +got):\n%s", d)
	}
}

// drained are the events about tasks that were asked to end, as NODE+LEFT.
func (w *world) drained() (out []string) {
	for _, e := range w.events {
		if e.Type == event.TaskDraining {
			out = append(out, fmt.Sprintf("%s+%d%s", e.Node, e.Counts["left"], e.Text))
		}
	}
	return out
}

func TestADrainOfWhatDiesLeavesWhatNeverBegan(t *testing.T) {
	for name, last := range map[string]act{
		"the step fails":      {takes: 5 * time.Second, class: "client_failed"},
		"the server dies":     {takes: 5 * time.Second, death: executors.ClassServerDied},
		"the supervisor dies": {takes: 5 * time.Second, vanish: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(steps(map[string][]act{"a": {last}}))
				m.outcome = executors.Outcome{Reason: executors.Signaled, Signal: "killed"}
				w := newWorld(t, m, batched("x", decl("a", cell)), batched("x", decl("b", cell)), batched("x", decl("c", cell)))
				w.after(time.Second)
				sum := w.must()
				if got := w.outcomes(); len(got) != 1 || !strings.HasPrefix(got[0], "a failed ") {
					t.Errorf("records %v, want one, of the step that ran", got)
				}
				if sum.Unbegun != 2 || !sum.Interrupted || len(m.started) != 1 {
					t.Errorf("summary %+v after %d tasks; want two nodes that never began and no second task", sum, len(m.started))
				}
				w.wantNothingLeft()
			})
		})
	}
}

func TestADrainOfWhatHasNotBegunEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, nodes := long()
		m.boot = time.Hour
		w := newWorld(t, m, nodes...)
		w.after(15 * time.Second)
		sum := w.must()
		if sum.Seconds != 15 {
			t.Errorf("it took %g s", sum.Seconds)
		}
		w.wantSummary(sum, sched.Summary{Unbegun: 5, Interrupted: true})
		if d := cmp.Diff([]string{"+3"}, w.drained()); d != "" {
			t.Errorf("what was said (-want +got):\n%s", d)
		}
		w.wantNothingLeft()
		w.wantOutcomes()
	})
}

func TestADrainInTheLastStepIsAWholeTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, nodes := long()
		w := newWorld(t, m, nodes[:3]...)
		w.after(25 * time.Second)
		w.wantSummary(w.must(), sched.Summary{OK: 3, Interrupted: true})
		if d := cmp.Diff([]string{"c+0"}, w.drained()); d != "" {
			t.Errorf("what was said (-want +got):\n%s", d)
		}
	})
}

func TestTheSecondInterruptStopsADrainedTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, nodes := long()
		w := newWorld(t, m, nodes...)
		w.after(5*time.Second, 6*time.Second)
		sum := w.must()
		if sum.Seconds != 6 {
			t.Errorf("it took %g s", sum.Seconds)
		}
		w.wantSummary(sum, sched.Summary{Cancelled: 1, Unbegun: 4, Interrupted: true})
		w.wantNothingLeft()
		w.wantOutcomes()
	})
}

// far is a machine whose tasks see a copy of their folder.
type far struct {
	*machine
	err error
}

func (f far) Send(context.Context, executors.Handle, string) (bool, error) { return true, f.err }

func TestADrainOfACopiedFolder(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want sched.Summary
		said string
	}{
		"sent":     {nil, sched.Summary{OK: 1, Unbegun: 4, Interrupted: true}, "what runs finishes; what has not begun is left"},
		"not sent": {errors.New("no route"), sched.Summary{OK: 3, Unbegun: 2, Interrupted: true}, "no route"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, nodes := long()
				w := newWorld(t, m, nodes...)
				w.after(5 * time.Second)
				if c.err != nil { // the task sees none of what the engine writes
					m.blind = true
				}
				cfg := w.config()
				cfg.Executor = func(string) executors.Executor { return far{m, c.err} }
				sum, err := sched.Run(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				w.wantSummary(sum, c.want)
				if said := w.drained(); len(said) != 1 || !strings.Contains(said[0], c.said) {
					t.Errorf("said %q, want %q", said, c.said)
				}
				w.wantNothingLeft()
			})
		})
	}
}

// TestADrainedTaskIsAdopted: the engine dies while a task that it asked to end
// finishes its step, and comes back when the task is over, or before.
func TestADrainedTaskIsAdopted(t *testing.T) {
	for name, c := range map[string]struct {
		back time.Duration // when the next engine comes
		kept sched.Summary
	}{
		"after its end":          {30 * time.Second, sched.Summary{OK: 4, Cached: 1}},
		"while its step runs on": {time.Second, sched.Summary{OK: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, nodes := long()
				w := newWorld(t, m, nodes...)
				m.deaf(true) // what the dying engine still says reaches nobody
				w.after(5*time.Second, 6*time.Second, 6*time.Second)
				w.must()
				synctest.Wait() // for its last words
				m.deaf(false)
				time.Sleep(c.back)
				w.wantSummary(w.must(), c.kept)
				if n := len(m.started); n != 3 { // the drained one, one for the rest of the batch, and next
					t.Errorf("%d tasks were started", n)
				}
				w.wantNothingLeft()
			})
		})
	}
}

func TestTheSecondInterruptStopsTheTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, nodes := long()
		w := newWorld(t, m, nodes...)
		w.after(15*time.Second, 16*time.Second)
		w.wantSummary(w.must(), sched.Summary{OK: 1, Cancelled: 1, Unbegun: 3, Interrupted: true})
		w.golden("kill")
		if m.alive() != 0 || len(w.store.Intents()) != 0 {
			t.Errorf("left: %d tasks, intents %v", m.alive(), w.store.Intents())
		}
		if d := cmp.Diff([]string{"a ok"}, w.outcomes()); d != "" {
			t.Errorf("what was interrupted is no result (-want +got):\n%s", d)
		}
		w.wantSummary(w.must(), sched.Summary{OK: 4, Cached: 1})
	})
}

func TestTheEndOfTheContextStopsTheTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, nodes := long()
		w := newWorld(t, m, nodes...)
		w.began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		sum, err := sched.Run(ctx, w.config())
		if err != nil || time.Since(w.began) != 15*time.Second {
			t.Errorf("err %v after %s", err, time.Since(w.began))
		}
		w.wantSummary(sum, sched.Summary{OK: 1, Cancelled: 2, Unbegun: 2, Interrupted: true})
		if m.alive() != 0 {
			t.Error("a task is left")
		}
	})
}

func TestTheThirdInterruptLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, nodes := long()
		deaf := fn("deaf", func(context.Context, compile.Job) compile.Result { time.Sleep(time.Hour); return ok("x") })
		w := newWorld(t, m, append(nodes, decl("deaf", deaf))...)
		w.after(15*time.Second, 16*time.Second, 17*time.Second)
		sum := w.must()
		if sum.Seconds != 17 || !sum.Interrupted {
			t.Errorf("left after %g s", sum.Seconds)
		}
		// a had finished, b was stopped and deaf left; c and what needs them never began.
		if sum.OK != 1 || sum.Cancelled != 2 || sum.Unbegun != 3 {
			t.Errorf("summary %+v", sum)
		}
		for _, e := range w.events {
			if e.Type == event.NodeFinished && e.Node == "deaf" && !strings.HasPrefix(e.Reason, "left with its task, which may still run") {
				t.Errorf("of a node that still runs it is said: %q", e.Reason)
			}
		}
		n := len(w.events)
		m.cutLifelines()
		time.Sleep(2 * time.Hour)
		if w.events[n-1].Type != event.ApplyFinished || len(w.events) != n {
			t.Errorf("events came after the last:\n%s", w.transcript())
		}
		if len(w.store.History("deaf")) != 0 {
			t.Error("a node that was left was recorded")
		}
	})
}

func TestAnInterruptBeforeTheStartStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, nodes := long()
		w := newWorld(t, m, nodes...)
		w.interrupt <- struct{}{}
		w.wantSummary(w.must(), sched.Summary{Unbegun: 5, Interrupted: true})
		if len(m.started) != 0 {
			t.Error("a task was started")
		}
	})
}

func TestAClosedInterruptChannelIsNoInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, nodes := long()
		w := newWorld(t, m, nodes...)
		close(w.interrupt)
		w.wantSummary(w.must(), sched.Summary{OK: 5})
	})
}

func TestAnInterruptedFunctionIsNoResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polite := fn("polite", func(ctx context.Context, _ compile.Job) compile.Result { <-ctx.Done(); return bad("client_failed") })
		done := fn("done", func(ctx context.Context, _ compile.Job) compile.Result { <-ctx.Done(); return ok("x") })
		w := newWorld(t, newMachine(steps(nil)), decl("polite", polite), decl("done", done))
		w.after(time.Second, 2*time.Second)
		w.wantSummary(w.must(), sched.Summary{OK: 1, Cancelled: 1, Interrupted: true})
		if d := cmp.Diff([]string{"done ok"}, w.outcomes()); d != "" {
			t.Errorf("records (-want +got):\n%s", d)
		}
	})
}

func TestADrainTriesNothingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(steps(map[string][]act{"a": {{takes: 5 * time.Second, class: "timeout"}}}))
		w := newWorld(t, m, decl("a", strict))
		w.after(time.Second)
		w.wantSummary(w.must(), sched.Summary{Failed: 1, FailedNodes: []string{"a"}, Interrupted: true})
		if len(m.started) != 1 {
			t.Error("a second attempt was started after the interrupt")
		}
	})
}
