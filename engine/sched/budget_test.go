package sched_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/sched"
)

// sides are two frameworks with three candidates each on one GPU, with a
// summary that needs them all. version makes them stale.
func sides(version string) []compile.Decl {
	var decls []compile.Decl
	sum := decl("sum", join)
	for _, side := range []string{"a", "b"} {
		for n := 1; n <= 3; n++ {
			addr := fmt.Sprintf("%s%d", side, n)
			d := batched(addr, on(compile.Resources{GPUs: []string{"0"}, Quiet: true}, decl(addr, cell)))
			d.Block, d.Spec = "framework."+side, spec{Text: addr + version}
			decls = append(decls, d)
			sum.Inputs = append(sum.Inputs, compile.Input{Name: "from", From: addr, Output: "row"})
		}
	}
	return append(decls, sum)
}

func started(w *world) []string {
	var out []string
	for _, e := range w.events {
		if e.Type == "node_started" {
			out = append(out, e.Node)
		}
	}
	return out
}

// Every cell took ten seconds. Of 35 GPU-seconds three cells can have ten each:
// the first of both sides, then the second of the first.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := map[string][]act{}
		for _, n := range []string{"a1", "a2", "a3", "b1", "b2", "b3"} {
			script[n] = slices.Repeat([]act{{takes: 10 * second}}, 5)
		}
		w := newWorld(t, newMachine(steps(script)), sides("")...)
		w.wantSummary(w.must(), sched.Summary{OK: 7})

		w.declare(sides(" changed")...)
		w.events, w.budget = nil, plan.Budget{GPUSeconds: 35}
		w.wantSummary(w.must(), sched.Summary{OK: 3, Left: 4})
		if got, want := strings.Join(started(w), " "), "a1 b1 a2"; got != want {
			t.Errorf("started %s, want %s", got, want)
		}
		said := false
		for _, e := range w.events {
			said = said || e.Node == "b2" && e.State == "cancelled" && strings.Contains(e.Reason, "over the budget")
		}
		if !said {
			t.Errorf("no event says why b2 was left:\n%s", w.transcript())
		}

		// What is left is a plan that the next apply finishes; the sum is cut off.
		w.events, w.budget = nil, plan.Budget{}
		w.wantSummary(w.must(), sched.Summary{OK: 3, Cached: 4})
	})
}

// A cell that takes longer than it did the last time uses up what the others
// would have had.
func TestBudgetCountsWhatWasReallyUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := map[string][]act{"a1": {{takes: 10 * second}, {takes: 100 * second}}}
		for _, n := range []string{"a2", "a3", "b1", "b2", "b3"} {
			script[n] = slices.Repeat([]act{{takes: 10 * second}}, 2)
		}
		w := newWorld(t, newMachine(steps(script)), sides("")...)
		w.must()
		w.declare(sides(" changed")...)
		w.events, w.budget = nil, plan.Budget{GPUSeconds: 60}
		w.wantSummary(w.must(), sched.Summary{OK: 1, Left: 6})
	})
}

// A deadline starts only what ends before it; functions of this process always
// run, so that what is there is summed up.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := map[string][]act{}
		for _, n := range []string{"a1", "a2", "a3", "b1", "b2", "b3"} {
			script[n] = slices.Repeat([]act{{takes: 10 * second}}, 2)
		}
		w := newWorld(t, newMachine(steps(script)), sides("")...)
		w.must()
		more := append(sides(" changed"), decl("note", echo))
		w.declare(more...)
		w.events, w.budget = nil, plan.Budget{Deadline: time.Now().Add(25 * time.Second)}
		w.wantSummary(w.must(), sched.Summary{OK: 3, Left: 5})
		if got := started(w); !slices.Contains(got, "note") || !slices.Contains(got, "a1") || !slices.Contains(got, "b1") {
			t.Errorf("started %v", got)
		}
		w.events, w.budget = nil, plan.Budget{Deadline: time.Now()}
		w.wantSummary(w.must(), sched.Summary{Cached: 3, Left: 5})
	})
}
