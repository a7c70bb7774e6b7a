package sched_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/sched"
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
		w.wantSummary(w.must(), sched.Summary{OK: 3, Cancelled: 2, Interrupted: true})
		w.golden("drain")
		w.wantSummary(w.must(), sched.Summary{OK: 2, Cached: 3})
	})
}

func TestTheSecondInterruptStopsTheTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, nodes := long()
		w := newWorld(t, m, nodes...)
		w.after(15*time.Second, 16*time.Second)
		w.wantSummary(w.must(), sched.Summary{OK: 1, Cancelled: 4, Interrupted: true})
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
		w.wantSummary(sum, sched.Summary{OK: 1, Cancelled: 4, Interrupted: true})
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
		w.wantSummary(w.must(), sched.Summary{Cancelled: 5, Interrupted: true})
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
