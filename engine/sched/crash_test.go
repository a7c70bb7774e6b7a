package sched_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// crashing is a campaign with a batch, a retry, a kept failure and what needs
// them.
func crashing(t *testing.T) *world {
	m := newMachine(steps(map[string][]act{
		"b": {{class: "timeout"}, {}}, "d": {{death: executors.ClassOOM}},
	}))
	return newWorld(t, m, decl("in", echo),
		batched("x", decl("a", cell, "in")), batched("x", decl("b", cell, "in")), batched("x", decl("c", cell, "in")),
		decl("d", cell), decl("sum", join, "a", "b", "c", "d"))
}

// finals is the result of each node that a later plan would find: address,
// state and content.
func (w *world) finals() []string {
	w.t.Helper()
	var out []string
	for _, a := range w.graph.Actions {
		for _, r := range w.store.History(a.Addr) {
			if !r.Outcome.Final() {
				continue
			}
			b, err := w.store.Bytes(r.Output("row"))
			if err != nil {
				w.t.Error(err)
			}
			out = append(out, fmt.Sprintf("%s %s %s", r.Node, r.Outcome.State, b))
		}
	}
	return out
}

// noneTwice fails if a task's step has two records.
func (w *world) noneTwice() {
	w.t.Helper()
	seen := map[string]bool{}
	for _, a := range w.graph.Actions {
		for _, r := range w.store.History(a.Addr) {
			id := r.Key.String() + r.Origin.Task
			if r.Origin.Task != "" && seen[id] {
				w.t.Errorf("%s of task %s is recorded twice", r.Node, r.Origin.Task)
			}
			seen[id] = true
		}
	}
}

// lostSteps are the step records in the task folders whose step has no record
// in the store.
func (w *world) lostSteps() (lost []string) {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "*", "steps", "*", "step.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range files {
		id, task := filepath.Base(filepath.Dir(f)), filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(f))))
		found := false
		for _, a := range w.graph.Actions {
			for _, r := range w.store.History(a.Addr) {
				found = found || sched.StepID(r.Key) == id && r.Origin.Task == task
			}
		}
		if !found {
			lost = append(lost, f)
		}
	}
	return lost
}

// TestTheDiskIsFullAtEveryWrite cuts the first run at each of its writes; the
// engine stops its tasks and says why. TestTheEngineDiesAtEveryWrite is harder:
// it dies, and its tasks end by their lifelines or go on without it.
func TestTheDiskIsFullAtEveryWrite(t *testing.T) {
	everyWrite(t, func(w *world, c *cut) {
		_, err := w.apply()
		if c.failed() && (err == nil || !strings.Contains(err.Error(), errCut.Error())) {
			w.t.Errorf("apply said %v, want the disk's error", err)
		}
		if n := w.machine.alive(); n != 0 {
			w.t.Errorf("%d tasks left running", n)
		}
	})
}

func TestTheEngineDiesAtEveryWrite(t *testing.T) {
	die := func(w *world, c *cut) {
		c.at = func() { // Run leaves without waiting, and no task hears of it.
			w.machine.deaf(true)
			for range 3 {
				w.interrupt <- struct{}{}
			}
		}
		if _, err := w.apply(); err != nil && !strings.Contains(err.Error(), errCut.Error()) {
			w.t.Errorf("apply said %v", err)
		}
	}
	t.Run("lifeline", func(t *testing.T) {
		everyWrite(t, func(w *world, c *cut) { die(w, c); w.machine.cutLifelines(); synctest.Wait() })
	})
	t.Run("tasks_live_on", func(t *testing.T) {
		everyWrite(t, func(w *world, c *cut) { die(w, c); synctest.Wait() })
	})
	t.Run("tasks_end_by_themselves", func(t *testing.T) {
		everyWrite(t, func(w *world, c *cut) { die(w, c); time.Sleep(time.Minute) })
	})
}

// everyWrite runs crash with a store that fails at write n, for all n, then
// applies again and compares with a run that nothing disturbed.
func everyWrite(t *testing.T, crash func(*world, *cut)) {
	var want []string
	synctest.Test(t, func(t *testing.T) {
		w := crashing(t)
		w.wantSummary(w.must(), sched.Summary{OK: 5, KeptFailures: 1})
		want = w.finals()
	})
	if len(want) != 6 {
		t.Fatalf("the reference has %d results: %q", len(want), want)
	}
	for n := 0; ; n++ {
		reached := false
		synctest.Test(t, func(t *testing.T) {
			w := crashing(t)
			c := &cut{memory: w.store.(*memory), left: n}
			w.store = c
			if crash(w, c); !c.failed() {
				return // The run needs fewer writes than that.
			}
			reached = true
			w.store, w.interrupt = c.memory, make(chan struct{}, 3)
			w.machine.deaf(false)
			if sum := w.must(); sum.Failed+sum.Blocked+sum.Cancelled > 0 || sum.Interrupted {
				t.Errorf("write %d: %+v\n%s", n, sum, w.transcript())
			}
			got := w.finals()
			slices.Sort(got)
			slices.Sort(want)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("write %d: results (-want +got):\n%s\n%s", n, d, w.transcript())
			}
			w.noneTwice()
			if lost := w.lostSteps(); len(lost) > 0 {
				t.Errorf("write %d: finished and not recorded: %q", n, lost)
			}
			if len(c.memory.Intents()) != 0 || w.machine.alive() != 0 || len(w.machine.tasks) != 0 {
				t.Errorf("write %d: left %v, %d tasks alive, %d not reaped", n, c.memory.Intents(), w.machine.alive(), len(w.machine.tasks))
			}
		})
		if !reached || t.Failed() {
			if n < 15 && !t.Failed() {
				t.Errorf("only %d writes: the campaign is too small for this test", n)
			}
			return
		}
	}
}

// left makes a world whose engine died while step b of the batch a, b, c ran.
func left(t *testing.T) *world {
	m, nodes := long()
	w := newWorld(t, m, nodes...)
	w.after(15*time.Second, 15*time.Second, 15*time.Second)
	m.deaf(true)
	w.must()
	synctest.Wait()
	m.deaf(false)
	w.store.(*memory).records = nil // It died before it wrote down that a was done, too.
	w.interrupt = make(chan struct{}, 3)
	return w
}

// editSheet changes the jobs.json that the dead engine left.
func (w *world) editSheet(edit func(b map[string]any)) {
	w.t.Helper()
	path := filepath.Join(w.dir, w.store.Intents()[0].ID, "jobs.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	var b map[string]any
	if err := json.Unmarshal(raw, &b); err != nil {
		w.t.Fatal(err)
	}
	edit(b)
	if raw, err = json.Marshal(b); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func TestARunAdoptsWhatIsRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := left(t)
		w.wantSummary(w.must(), sched.Summary{OK: 4, Cached: 1})
		w.golden("adopt")
		if len(w.machine.started) != 3 {
			t.Errorf("%d tasks in all", len(w.machine.started))
		}
		r := w.store.History("a")[0]
		if r.Origin.Attempt != 1 || r.Origin.Run != "Run_7" || r.Origin.Host != "node-a" || r.Time.Seconds != 10.05 ||
			len(r.Observed) != 1 {
			t.Errorf("the adopted record says %+v", r)
		}
	})
}

func TestAnAdoptedStepWhoseNodeIsGoneIsStillRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := left(t)
		w.declare(decl("other", cell))
		if err := sched.Adopt(t.Context(), w.config()); err != nil {
			t.Fatal(err)
		}
		if got := w.finals(); len(w.store.Kind("cell")) != 1 || len(w.store.History("a")) != 1 {
			t.Errorf("records of a: %q", got)
		}
	})
}

func TestAnAdoptedStepKeepsItsOwnSpec(t *testing.T) {
	for name, c := range map[string]struct {
		declare func() any
		records int
		hides   bool
	}{
		"same":        {func() any { return spec{Text: "a", Label: "new label"} }, 1, false},
		"other":       {func() any { return spec{Text: "means something else"} }, 1, false},
		"not_in_json": {func() any { return spec{Text: "means something else"} }, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := left(t)
				if c.hides { // As if the type had a field without a JSON form.
					w.editSheet(func(b map[string]any) {
						for _, j := range b["jobs"].([]any) {
							j.(map[string]any)["spec"] = map[string]any{}
						}
					})
				}
				var seen any
				watching := *cell
				watching.Collect = func(j compile.Job, s compile.StepResult) compile.Result { seen = j.Spec; return cell.Collect(j, s) }
				d := decl("a", &watching)
				d.Spec = c.declare()
				w.declare(d)
				if err := sched.Adopt(t.Context(), w.config()); err != nil {
					t.Fatal(err)
				}
				if n := len(w.store.History("a")); n != c.records {
					t.Errorf("%d records, want %d", n, c.records)
				}
				if c.records > 0 && seen.(spec).Text != "a" {
					t.Errorf("Collect saw the spec %+v of another node", seen)
				}
			})
		})
	}
}

func TestATaskOfARemovedBlockIsAdoptedByItsExecutor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := left(t)
		cfg := w.config()
		d := decl("other", cell)
		d.Block = "framework.other"
		w.declare(d)
		cfg.Graph = w.graph
		cfg.Executor = func(block string) executors.Executor {
			if block == "framework.other" {
				return w.machine
			}
			return nil
		}
		if err := sched.Adopt(t.Context(), cfg); err != nil || len(w.store.Kind("cell")) != 1 || w.machine.alive() != 0 {
			t.Errorf("Adopt said %v; %d records, %d alive", err, len(w.store.Kind("cell")), w.machine.alive())
		}
	})
}

func TestATaskOfAnUnknownExecutorIsAnErrorAndKeptStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := left(t)
		w.machine.name = "docker"
		err := sched.Adopt(t.Context(), w.config())
		if err == nil || !strings.Contains(err.Error(), `executor "local"`) || len(w.store.Kind("cell")) != 1 || len(w.store.Intents()) == 0 {
			t.Errorf("Adopt said %v; %d records, intents %v", err, len(w.store.Kind("cell")), w.store.Intents())
		}
		w.machine.name = "local"
		if err := sched.Adopt(t.Context(), w.config()); err != nil || len(w.store.Kind("cell")) != 1 || len(w.store.Intents()) != 0 {
			t.Errorf("the second Adopt said %v; %d records", err, len(w.store.Kind("cell")))
		}
	})
}

// A step that never began in a task that was asked to end is no failure, also
// where the task broke.
func TestAnAdoptedTaskSaysWhyItsOtherStepsFailed(t *testing.T) {
	for name, c := range map[string]struct {
		drained bool
		want    []string
	}{
		"asked to end": {true, []string{"a ok", "b failed oom kept"}},
		"not asked":    {false, []string{"a ok", "b failed oom kept", "c failed oom kept"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := left(t)
				w.machine.cutLifelines()
				id := w.store.Intents()[0].ID
				exit := `{"task":"` + id + `","outcome":{"class":"oom","reason":"CUDA out of memory"}}`
				if err := os.WriteFile(filepath.Join(w.dir, id, "exit.json"), []byte(exit), 0o600); err != nil {
					t.Fatal(err)
				}
				asked := runner.AskDrain(filepath.Join(w.dir, id))
				if !c.drained { // as of an engine that was killed and heard no Ctrl-C
					asked = os.Remove(filepath.Join(w.dir, id, runner.DrainFile))
				}
				if asked != nil {
					t.Fatal(asked)
				}
				if err := sched.Adopt(t.Context(), w.config()); err != nil {
					t.Fatal(err)
				}
				w.wantOutcomes(c.want...)
			})
		})
	}
}

func TestAnAdoptedStepOfAnUnknownKindIsAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := left(t)
		newer := *cell
		newer.Version = 2
		w.declare(decl("a", &newer))
		w.events = nil
		if err := sched.Adopt(t.Context(), w.config()); err != nil {
			t.Fatal(err)
		}
		var warned bool
		for _, e := range w.events {
			warned = warned || e.Type == event.Warning && e.Node == "a" && strings.Contains(e.Text, "no node of kind cell, version 1")
		}
		if !warned || len(w.store.Kind("cell")) != 0 || len(w.store.Intents()) != 0 {
			t.Errorf("warned %v, records %d, intents %v\n%s", warned, len(w.store.Kind("cell")), w.store.Intents(), w.transcript())
		}
	})
}

func TestAdoptionTrustsNoForgedFolder(t *testing.T) {
	for name, forge := range map[string]func(b map[string]any){
		"other_task": func(b map[string]any) { b["task"] = "someone-elses" },
		"other_manifest": func(b map[string]any) {
			for _, j := range b["jobs"].([]any) {
				j.(map[string]any)["manifest"] = "scheme i \"1\"\n"
			}
		},
		"version": func(b map[string]any) { b["v"] = 99 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := left(t)
				w.editSheet(forge)
				w.events = nil
				if err := sched.Adopt(t.Context(), w.config()); err != nil {
					t.Fatal(err)
				}
				if len(w.store.Kind("cell")) != 0 || w.events[0].Type != event.Warning {
					t.Errorf("records %d, events:\n%s", len(w.store.Kind("cell")), w.transcript())
				}
			})
		})
	}
}

func TestAnIntentThatLeavesTheFolderIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newMachine(steps(nil)), decl("a", cell))
		in := cache.Intent{ID: "../evil", Kind: "task", Note: `{"executor":"local","task":"../evil","run":"r","block":"b"}`}
		if err := w.store.Intend(in); err != nil {
			t.Fatal(err)
		}
		if err := sched.Adopt(t.Context(), w.config()); err == nil || !strings.Contains(err.Error(), "../evil") {
			t.Errorf("Adopt said %v", err)
		}
	})
}

func TestAnInterruptEndsAnAdoption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := left(t)
		w.interrupt <- struct{}{}
		w.interrupt <- struct{}{}
		sum := w.must()
		if !sum.Interrupted || sum.OK != 0 {
			t.Errorf("summary %+v", sum)
		}
		w.interrupt = make(chan struct{}, 3)
		if sum := w.must(); sum.OK+sum.Cached != 5 {
			t.Errorf("the next run: %+v", sum)
		}
	})
}
