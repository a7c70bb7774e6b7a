package sched_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/engine/sched/budget"
	"github.com/sotabuild/sotabuild/executors"
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
			d.Block, d.Spec, d.Turn = "framework."+side, spec{Text: addr + version}, n
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
		for node, want := range map[string]string{"b2": "over the budget: 0.001 GPU-hours are left, and it would take about 10.5s on 1 GPU", "sum": "needs b2"} {
			if !slices.ContainsFunc(w.events, func(e event.Event) bool { return e.Node == node && e.State == "cancelled" && e.Reason == want }) {
				t.Errorf("no event says why %s was left, %q:\n%s", node, want, w.transcript())
			}
		}

		// What is left is a plan that the next apply finishes; the sum is cut off.
		w.events, w.budget = nil, plan.Budget{}
		w.wantSummary(w.must(), sched.Summary{OK: 3, Cached: 4})
	})
}

// The domain's turns decide, whatever was declared first: the first results of
// all sides come before the long tail of one. By hand: 10 s each on one GPU, so
// 35 GPU-seconds are three cells, and Forecast says so before anything starts.
func TestTurnsUnderABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := map[string]int{"a1": 7, "a2": 2, "a3": 0, "b1": 1, "b2": 2, "b3": 9}
		script := map[string][]act{}
		for n := range turns {
			script[n] = slices.Repeat([]act{{takes: 10 * time.Second}}, 2)
		}
		w := newWorld(t, newMachine(steps(script)), sides("")...)
		w.must()
		decls := sides(" changed")
		for i := range decls {
			decls[i].Turn = turns[decls[i].Addr]
		}
		w.declare(decls...)
		w.budget = plan.Budget{GPUSeconds: 35}
		var forecast, fits []string
		for _, s := range budget.Forecast(w.graph, w.plan(), w.store.Kind, time.Now()) {
			forecast = append(forecast, s.Nodes...)
			if s.Left == 0 {
				fits = append(fits, s.Nodes...)
			} else if s.Seconds != 10 || s.GPUs != 1 || !strings.HasSuffix(s.Why, "0.001 GPU-hours are left, and it would take about 10s on 1 GPU") {
				t.Errorf("forecast: %+v", s)
			}
		}
		if got, want := strings.Join(forecast, " "), "a3 b1 a2 b2 a1 b3"; got != want {
			t.Errorf("forecast %s, want %s", got, want)
		}
		w.wantSummary(w.must(), sched.Summary{OK: 3, Left: 4})
		if got, want := strings.Join(started(w), " "), "a3 b1 a2"; got != want || strings.Join(fits, " ") != want {
			t.Errorf("started %s, forecast %v, want %s", got, fits, want)
		}
	})
}

// Of a batch that does not fit whole its first nodes run: two of three cells of
// 10 s in 25 GPU-seconds. The next apply runs the third alone.
func TestABatchStartsWithWhatFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := map[string][]act{}
		var decls []compile.Decl
		for _, n := range []string{"c1", "c2", "c3"} {
			script[n] = slices.Repeat([]act{{takes: 10 * time.Second}}, 2)
			decls = append(decls, batched("life", on(compile.Resources{GPUs: []string{"0"}, Quiet: true}, decl(n, cell))))
		}
		w := newWorld(t, newMachine(steps(script)), decls...)
		w.must()
		for i := range decls {
			decls[i].Spec = spec{Text: decls[i].Addr + " changed"}
		}
		w.declare(decls...)
		w.budget = plan.Budget{GPUSeconds: 25}
		f := budget.Forecast(w.graph, w.plan(), w.store.Kind, time.Now())
		if len(f) != 1 || f[0].Left != 1 || f[0].Seconds != 30 || !strings.Contains(f[0].Why, "would take about 30s") {
			t.Errorf("forecast: %+v", f)
		}
		w.wantSummary(w.must(), sched.Summary{OK: 2, Left: 1})
		if got := strings.Join(started(w), " "); got != "c1 c2" {
			t.Errorf("started %s", got)
		}
		w.budget = plan.Budget{GPUSeconds: 25}
		w.wantSummary(w.must(), sched.Summary{OK: 1, Cached: 2})
		if got := strings.Join(started(w), " "); got != "c3" {
			t.Errorf("then started %s", got)
		}
	})
}

// Servers hold their GPUs while they come up: of three cells of 10 s behind a
// server of 20 s only two end within 45 GPU-seconds, and the plan says 50 s for
// all. A node that was never run takes as long as the others did, server and all.
func TestABudgetCountsServersThatComeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := map[string][]act{}
		var decls []compile.Decl
		for _, n := range []string{"c1", "c2", "c3", "new"} {
			script[n] = slices.Repeat([]act{{takes: 10 * time.Second}}, 3)
			decls = append(decls, batched("life", on(compile.Resources{GPUs: []string{"0"}, Quiet: true}, decl(n, cell))))
		}
		m := newMachine(steps(script))
		m.boot = 20 * time.Second
		w := newWorld(t, m, decls[:3]...)
		w.must()
		up := slices.IndexFunc(w.events, func(e event.Event) bool { return e.Type == event.TaskUp })
		if up < 0 || w.events[up].Seconds != 20 || w.events[up].Node != "c1" {
			t.Errorf("the server came up without a word:\n%s", w.transcript())
		}
		for _, n := range []string{"c1", "c3"} {
			if r := w.store.History(n)[0]; r.Time.Seconds != 10 || r.Time.Setup != 20 {
				t.Errorf("the record of %s says %+v", n, r.Time)
			}
		}
		for i := range decls {
			decls[i].Spec = spec{Text: decls[i].Addr + " changed"}
		}
		w.declare(decls[:3]...)
		if e := w.plan().Estimate; e.Seconds != 50 || e.GPUSeconds != 50 {
			t.Errorf("the plan's estimate is %+v, want 50 s", e)
		}
		w.budget = plan.Budget{GPUSeconds: 45}
		if f := budget.Forecast(w.graph, w.plan(), w.store.Kind, time.Now()); len(f) != 1 || f[0].Left != 1 || f[0].Seconds != 50 {
			t.Errorf("forecast: %+v", f)
		}
		w.wantSummary(w.must(), sched.Summary{OK: 2, Left: 1})

		decls[3].Batch = "another life"
		w.declare(decls[3])
		for _, seconds := range []float64{29, 31} {
			w.budget = plan.Budget{GPUSeconds: seconds}
			if f := budget.Forecast(w.graph, w.plan(), w.store.Kind, time.Now()); (f[0].Left == 0) != (seconds > 30) {
				t.Errorf("%g s: %+v", seconds, f)
			}
		}
	})
}

// A server that never comes up holds its GPU all the same: two attempts of 30 s
// for both of its cells are 30 s for each apply to come, and not none or 60.
func TestAServerThatNeverComesUpIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := slices.Repeat([]act{{takes: 30 * time.Second, death: executors.ClassUnhealthy}}, 2)
		gpu := compile.Resources{GPUs: []string{"0"}, Quiet: true}
		w := newWorld(t, newMachine(steps(map[string][]act{"c1": dead})), on(gpu, batched("life", decl("c1", cell))), on(gpu, batched("life", decl("c2", cell))))
		w.must()
		for _, n := range []string{"c1", "c2"} {
			h := w.store.History(n)
			if last := h[len(h)-1]; len(h) != 2 || last.Time.Seconds != 0 || last.Time.Setup != 30 || last.Time.String() != "30s" {
				t.Errorf("%s has %d records, the last of %+v", n, len(h), last.Time)
			}
		}
		if e := w.plan().Estimate; e.Seconds != 30 || e.GPUSeconds != 30 || e.Known != 2 {
			t.Errorf("the estimate is %+v, want 30 s", e)
		}
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
