package sched_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/executors"
)

// gauge watches what runs side by side and says what must not.
type gauge struct {
	mu    sync.Mutex
	t     *testing.T
	decls map[string]compile.Decl
	slots int
	now   map[string]bool
	most  int
}

func (g *gauge) enter(addr string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now[addr] = true
	plain, gpus := 0, map[string]string{}
	for a := range g.now {
		r := g.decls[a].Resources
		if r.Quiet && len(g.now) > 1 {
			g.t.Errorf("%s is quiet and runs beside others: %v", a, g.now)
		}
		if len(r.GPUs) == 0 && !r.Quiet {
			plain++
		}
		for _, id := range r.GPUs {
			if other, taken := gpus[id]; taken {
				g.t.Errorf("GPU %s runs %s and %s", id, a, other)
			}
			gpus[id] = a
		}
	}
	if plain > g.slots {
		g.t.Errorf("%d ordinary nodes in %d slots: %v", plain, g.slots, g.now)
	}
	g.most = max(g.most, len(g.now))
}

func (g *gauge) leave(addr string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.now, addr)
}

// draw makes a random campaign. bad holds the nodes that fail.
func draw(r *rand.Rand, work *compile.Kind) (decls []compile.Decl, bad map[string]bool) {
	bad = map[string]bool{}
	n := 2 + r.IntN(25)
	for i := range n {
		kind := []*compile.Kind{work, cell, strict}[r.IntN(3)]
		var deps []string
		for j := range i {
			switch r.IntN(3 * n) {
			case 0, 1, 2:
				deps = append(deps, fmt.Sprintf("n%d", j))
			case 3, 4:
				deps = append(deps, fmt.Sprintf("after n%d", j))
			}
		}
		d := decl(fmt.Sprintf("n%d", i), kind, deps...)
		for _, id := range []string{"0", "1", "2"} {
			if r.IntN(5) == 0 {
				d.Resources.GPUs = append(d.Resources.GPUs, id)
			}
		}
		d.Resources.Quiet = r.IntN(6) == 0
		if kind == cell && r.IntN(2) == 0 {
			d.Batch = fmt.Sprint("batch", r.IntN(3))
			d.Resources = compile.Resources{GPUs: []string{"0"}} // One task has one set of them.
		}
		bad[d.Addr] = r.IntN(6) == 0
		decls = append(decls, d)
	}
	for i := len(decls); ; { // A batch that needs itself is refused: make them smaller.
		_, problems := compile.Build(decls, env)
		if len(problems) == 0 {
			return decls, bad
		}
		if i--; i < 0 {
			panic(fmt.Sprint("sched_test: a random campaign without batches is refused: ", problems))
		}
		decls[i].Batch = ""
	}
}

// expect is the slow and obvious reference: a node runs if all it needs has a
// result. Which of several roots blocks a node depends on time, so it is not
// said.
func expect(decls []compile.Decl, bad map[string]bool) map[string]string {
	ends, usable := map[string]string{}, map[string]bool{}
	for _, d := range decls {
		can := true
		for _, in := range d.Inputs {
			can = can && usable[in.From]
		}
		for _, o := range d.Order {
			can = can && usable[o]
		}
		switch {
		case !can:
			ends[d.Addr] = "blocked"
		case bad[d.Addr]:
			ends[d.Addr], usable[d.Addr] = "failed", d.Kind.KeepsFailures
		default:
			ends[d.Addr], usable[d.Addr] = "ok", true
		}
	}
	return ends
}

func TestRandomCampaignsKeepTheRules(t *testing.T) {
	together := 0
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			g := &gauge{t: t, decls: map[string]compile.Decl{}, now: map[string]bool{}, slots: 1 + r.IntN(3)}
			var bad map[string]bool
			takes := func() time.Duration { return time.Duration(1+r.IntN(4000)) * time.Millisecond }
			var mu sync.Mutex
			work := fn("work", func(_ context.Context, j compile.Job) compile.Result {
				mu.Lock()
				d := takes()
				mu.Unlock()
				g.enter(j.Addr)
				defer g.leave(j.Addr)
				time.Sleep(d)
				if bad[j.Addr] {
					return compile.Result{Outcome: cache.Outcome{State: cache.Failed, Class: "client_failed"}}
				}
				return ok(j.Addr)
			})
			decls, failing := draw(r, work)
			bad = failing
			for _, d := range decls {
				g.decls[d.Addr] = d
			}
			m := newMachine(func(addr string, _ int) act {
				mu.Lock()
				defer mu.Unlock()
				a := act{takes: takes()}
				if bad[addr] {
					a.class = "client_failed"
				}
				return a
			})
			m.enter, m.leave = g.enter, g.leave
			w := newWorld(t, m, decls...)
			w.slots = g.slots
			sum := w.must()
			together = max(together, g.most)
			got := w.ends()
			for addr, end := range got {
				if len(end) > 7 && end[:7] == "blocked" {
					got[addr] = "blocked"
				}
			}
			if d := cmp.Diff(expect(decls, bad), got); d != "" {
				t.Fatalf("seed %d: final states (-want +got):\n%s\n%s", seed, d, w.transcript())
			}
			if n := sum.OK + sum.Failed + sum.KeptFailures + sum.Blocked; n != len(decls) || sum.Cached+sum.Cancelled != 0 {
				t.Errorf("seed %d: %d of %d nodes counted: %+v", seed, n, len(decls), sum)
			}
			edges(t, w, decls)
			if w.machine.alive() != 0 || len(w.store.Intents()) != 0 {
				t.Errorf("seed %d: something is left", seed)
			}
			if again := w.must(); again.OK+again.KeptFailures+again.Failed > len(decls)-sum.OK {
				t.Errorf("seed %d: a second apply ran finished nodes: %+v", seed, again)
			}
		})
		if t.Failed() {
			return
		}
	}
	if together < 4 {
		t.Errorf("at most %d nodes ran side by side: the test shows nothing", together)
	}
}

// edges checks by the events that each node started after all it needs.
func edges(t *testing.T, w *world, decls []compile.Decl) {
	began, ended := map[string]int{}, map[string]int{}
	for i, e := range w.events {
		switch e.Type {
		case event.NodeStarted:
			began[e.Node] = i
		case event.NodeFinished:
			ended[e.Node] = i
		}
	}
	for _, d := range decls {
		at, ran := began[d.Addr]
		if !ran {
			continue
		}
		needs := slices.Clone(d.Order)
		for _, in := range d.Inputs {
			needs = append(needs, in.From)
		}
		for _, n := range needs {
			if end, ok := ended[n]; !ok || end > at {
				t.Errorf("%s started before %s was done", d.Addr, n)
			}
		}
	}
}

// A chain and a wide fan are where recursion and quadratic walks show.
func TestDeepAndWideGraphs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1500
		chain := []compile.Decl{decl("n0", echo)}
		for i := 1; i < n; i++ {
			chain = append(chain, decl(fmt.Sprintf("n%d", i), echo, fmt.Sprintf("n%d", i-1)))
		}
		w := newWorld(t, newMachine(steps(nil)), chain...)
		if sum := w.must(); sum.OK != n {
			t.Errorf("chain: %+v", sum)
		}
		failing := *strict
		chain[0].Kind = &failing
		w = newWorld(t, newMachine(steps(map[string][]act{"n0": {{class: executors.ClassNotOurs}}})), chain...)
		if sum := w.must(); sum.Failed != 1 || sum.Blocked != n-1 {
			t.Errorf("blocked chain: %+v", sum)
		}
		var fan []compile.Decl
		var all []string
		for i := range n {
			fan, all = append(fan, decl(fmt.Sprintf("n%d", i), echo)), append(all, fmt.Sprintf("n%d", i))
		}
		w = newWorld(t, newMachine(steps(nil)), append(fan, decl("all", join, all...))...)
		if sum := w.must(); sum.OK != n+1 {
			t.Errorf("fan: %+v", sum)
		}
	})
}
