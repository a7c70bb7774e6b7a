package sched_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/executors"
)

// campaign is a small benchmark: help, a dataset, two candidates with two
// cells each, winners and a report.
func campaign() []compile.Decl {
	quiet := compile.Resources{GPUs: []string{"0"}, Quiet: true}
	cellOf := func(c, s string) compile.Decl {
		return batched(c, on(quiet, decl("cell."+c+"."+s, cell, "dataset."+s, "after help")))
	}
	return []compile.Decl{
		decl("help", strict), decl("dataset.chat", echo), decl("dataset.code", echo),
		cellOf("a", "chat"), cellOf("a", "code"), cellOf("b", "chat"), cellOf("b", "code"),
		decl("winners", join, "cell.a.chat", "cell.a.code", "cell.b.chat", "cell.b.code"),
		decl("report", join, "winners"),
	}
}

func TestACampaignRunsOnceAndThenNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(steps(map[string][]act{"cell.a.chat": {{takes: 2 * second}}}))
		w := newWorld(t, m, campaign()...)
		w.wantSummary(w.must(), sched.Summary{OK: 9})
		w.golden("campaign")
		if len(w.store.Intents()) != 0 || m.alive() != 0 || len(m.tasks) != 0 {
			t.Errorf("left: intents %v, %d tasks alive, %d not reaped", w.store.Intents(), m.alive(), len(m.tasks))
		}
		// Three tasks: the help, and one a candidate with both of its cells.
		if len(m.started) != 3 {
			t.Errorf("%d tasks started, want 3", len(m.started))
		}
		w.wantSummary(w.must(), sched.Summary{Cached: 9})
		if len(w.events) != 2 || len(m.started) != 3 {
			t.Errorf("a second apply did something:\n%s", w.transcript())
		}
	})
}

func TestARecordSaysWhatRanWhereAndWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newMachine(steps(nil)), decl("in", echo), decl("cell", cell, "in"))
		start := time.Now().UTC()
		w.must()
		r := w.store.History("cell")[0]
		got := *r
		got.Origin.Task, got.Manifest, got.Key = "", "", key.Key{}
		want := cache.Record{
			Version: cache.RecordVersion, Serial: 2, Node: "cell", Kind: "cell", Outcome: cache.Outcome{State: cache.OK},
			Outputs:  []cache.Output{{Name: "row", Digest: key.Sum([]byte("row of cell")), Size: 11}},
			Time:     cache.Span{Started: start, Seconds: 1.05},
			Origin:   cache.Origin{Host: "node-a", Tool: "0.1", Attempt: 1, Run: "Run_7"},
			Observed: []cache.Observed{{Name: "kernel", Value: "6.1"}},
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("record (-want +got):\n%s", d)
		}
		m, err := key.ParseManifest(r.Manifest)
		if err != nil || m.Key() != r.Key || !strings.Contains(r.Manifest, key.Sum([]byte("in")).String()) {
			t.Errorf("manifest of key %s does not hold the input: %v\n%s", r.Key, err, r.Manifest)
		}
		if !regexp.MustCompile(`^run-7-[0-9a-f]{8}-1$`).MatchString(r.Origin.Task) {
			t.Errorf("task id %q", r.Origin.Task)
		}
		if in := w.store.History("in")[0]; in.Observed != nil || in.Origin.Task != "" {
			t.Errorf("a pure function's record names an environment or a task: %+v", in)
		}
	})
}

func TestAChangedInputWithTheSameOutputIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := func(s string) compile.Decl { d := decl("in", echo); d.Spec = spec{Text: s}; return d }
		first := fn("first", func(_ context.Context, j compile.Job) compile.Result { return ok(j.Spec.(spec).Text[:1]) })
		in := text("x1")
		in.Kind = first
		w := newWorld(t, newMachine(steps(nil)), in, decl("mid", join, "in"), decl("end", join, "mid"))
		w.wantSummary(w.must(), sched.Summary{OK: 3})
		in = text("x2")
		in.Kind = first
		w.declare(in, decl("mid", join, "in"), decl("end", join, "mid"))
		w.wantSummary(w.must(), sched.Summary{OK: 1, Cached: 2})
		w.wantEnds(map[string]string{"in": "ok", "mid": "cached", "end": "cached"})
	})
}

func TestIdenticalNodesRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		slow := fn("slow", func(context.Context, compile.Job) compile.Result { runs++; time.Sleep(time.Second); return ok("x") })
		same := func(addr string) compile.Decl {
			d := decl(addr, slow)
			d.Spec = spec{Text: "same", Label: addr}
			return d
		}
		w := newWorld(t, newMachine(steps(nil)), same("a"), same("b"), same("c"), decl("end", join, "b"))
		w.wantSummary(w.must(), sched.Summary{OK: 2, Cached: 2})
		if runs != 1 {
			t.Errorf("the same work ran %d times", runs)
		}
		w.wantEnds(map[string]string{"a": "ok", "b": "cached", "c": "cached", "end": "ok"})
	})
}

func TestATwinRunsItselfWhenItsFirstLeavesNoHit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		flaky := fn("flaky", func(context.Context, compile.Job) compile.Result {
			if runs++; runs == 1 {
				return bad("client_failed")
			}
			return ok("x")
		})
		same := func(addr string) compile.Decl { d := decl(addr, flaky); d.Spec = spec{Text: "same"}; return d }
		w := newWorld(t, newMachine(steps(nil)), same("a"), same("b"), same("c"))
		w.must()
		w.wantEnds(map[string]string{"a": "failed", "b": "ok", "c": "cached"})
	})
}

func TestAFailureBlocksItsDependantsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(steps(map[string][]act{"bad": {{class: "client_failed"}}}))
		w := newWorld(t, m, decl("bad", strict), decl("good", strict), decl("data", join, "bad"), decl("far", join, "data", "good"),
			decl("order", echo, "after bad"), decl("other", join, "good"))
		w.wantSummary(w.must(), sched.Summary{OK: 2, Failed: 1, Blocked: 3, FailedNodes: []string{"bad"}})
		w.wantEnds(map[string]string{
			"bad": "failed", "good": "ok", "data": "blocked by bad", "far": "blocked by bad", "order": "blocked by bad", "other": "ok",
		})
		// A failure that is not kept is tried by the next apply.
		w.machine = newMachine(steps(nil))
		w.wantSummary(w.must(), sched.Summary{OK: 4, Cached: 2})
	})
}

func TestAFailureWithItsOutputsIsAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(steps(map[string][]act{"a": {{death: executors.ClassOOM}}}))
		w := newWorld(t, m, decl("a", cell), decl("b", cell), decl("sum", join, "a", "b"))
		w.wantSummary(w.must(), sched.Summary{OK: 2, KeptFailures: 1})
		b, err := w.store.Bytes(w.store.History("sum")[0].Output("row"))
		if err != nil || string(b) != "failed: oom\nrow of b" {
			t.Errorf("sum saw %q, %v", b, err)
		}
		// oom is final for that candidate.
		w.wantSummary(w.must(), sched.Summary{Cached: 3})
	})
}

func TestAKeptFailureWithoutOutputsStaysAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(steps(map[string][]act{"a": {{death: executors.ClassOOM}}}))
		w := newWorld(t, m, decl("a", strict), decl("sum", join, "a"))
		want := sched.Summary{Failed: 1, Blocked: 1, FailedNodes: []string{"a"}}
		w.wantSummary(w.must(), want)
		w.wantSummary(w.must(), want)
		if len(m.started) != 1 {
			t.Errorf("a kept failure ran again")
		}
	})
}

func TestABatchThatBreaksKeepsWhatFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(steps(map[string][]act{"b": {{death: executors.ClassServerDied}, {}}}))
		w := newWorld(t, m, batched("x", decl("a", cell)), batched("x", decl("b", cell)), batched("x", decl("c", cell)))
		w.wantSummary(w.must(), sched.Summary{OK: 3})
		w.golden("batch_breaks")
		want := []string{"a ok", "b failed server_died", "b ok", "c failed server_died", "c ok"}
		if d := cmp.Diff(want, w.outcomes()); d != "" {
			t.Errorf("records (-want +got):\n%s", d)
		}
	})
}

func TestOnlyTheLastAttemptIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(steps(map[string][]act{"a": {{death: executors.ClassServerDied}}}))
		w := newWorld(t, m, decl("a", cell))
		w.wantSummary(w.must(), sched.Summary{KeptFailures: 1})
		want := []string{"a failed server_died", "a failed server_died kept"}
		if d := cmp.Diff(want, w.outcomes()); d != "" {
			t.Errorf("records (-want +got):\n%s", d)
		}
	})
}

func TestARejectedSampleIsKeptAndNeverAHit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(steps(map[string][]act{"a": {{class: "throttled"}}}))
		w := newWorld(t, m, decl("a", strict), decl("end", join, "a"))
		want := sched.Summary{Failed: 1, Blocked: 1, FailedNodes: []string{"a"}}
		w.wantSummary(w.must(), want)
		w.wantSummary(w.must(), want)
		if got := w.outcomes(); !slices.Equal(got, []string{"a rejected throttled", "a rejected throttled", "a rejected throttled", "a rejected throttled"}) {
			t.Errorf("records: %q", got)
		}
	})
}

func TestOutputsAreChecked(t *testing.T) {
	two := func(values ...compile.Value) *compile.Kind {
		k := fn("two", func(context.Context, compile.Job) compile.Result {
			return compile.Result{Outcome: cache.Outcome{State: cache.OK}, Outputs: values}
		})
		k.Outputs = []string{"row", "log"}
		return k
	}
	row, log := compile.Value{Name: "row", Bytes: []byte("r")}, compile.Value{Name: "log", Bytes: []byte("l")}
	for name, c := range map[string]struct {
		kind   *compile.Kind
		reason string
	}{
		"whole":      {two(row, log), ""},
		"missing":    {two(row), `output "log" is missing`},
		"empty":      {two(row, compile.Value{Name: "log"}), `output "log" is empty`},
		"no_file":    {two(row, compile.Value{Name: "log", File: "/nowhere/at/all"}), `output "log" is no file`},
		"folder":     {two(row, compile.Value{Name: "log", File: t.TempDir()}), `output "log" is no file`},
		"undeclared": {two(row, log, compile.Value{Name: "x", Bytes: []byte("x")}), `output "x" is not declared, or is there twice`},
		"twice":      {two(row, log, log), `output "log" is not declared, or is there twice`},
		"no_state": {fn("none", func(context.Context, compile.Job) compile.Result { return compile.Result{} }),
			`the kind none returned the unknown state ""`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, newMachine(steps(nil)), decl("n", c.kind))
				w.must()
				o := w.store.History("n")[0].Outcome
				want := cache.Outcome{State: cache.OK}
				if c.reason != "" {
					want = cache.Outcome{State: cache.Failed, Class: "no_output", Reason: c.reason}
				}
				if d := cmp.Diff(want, o); d != "" {
					t.Errorf("outcome (-want +got):\n%s", d)
				}
			})
		})
	}
}

func TestAnEmptyOutputOfAStepIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newMachine(steps(map[string][]act{"a": {{empty: true}}})), decl("a", strict))
		w.wantSummary(w.must(), sched.Summary{Failed: 1, FailedNodes: []string{"a"}})
		if o := w.store.History("a")[0].Outcome; o.Class != "no_output" || o.Reason != `output "row" is empty` {
			t.Errorf("outcome %+v", o)
		}
	})
}

func TestWhyStepsNeverRan(t *testing.T) {
	for name, c := range map[string]struct {
		out    executors.Outcome
		class  string
		reason string
	}{
		"oom":         {executors.Outcome{Reason: executors.OOM, Detail: "OOMKilled"}, "oom", "OOMKilled"},
		"timeout":     {executors.Outcome{Reason: executors.TimedOut, Detail: "past 1h"}, "timeout", "past 1h"},
		"not_started": {executors.Outcome{Reason: executors.NotStarted, Detail: "no such file"}, "start_failed", "no such file"},
		"lost":        {executors.Outcome{Reason: executors.Lost, Detail: "no such job"}, "lost", "no such job"},
		"killed":      {executors.Outcome{Reason: executors.Signaled, Signal: "killed"}, "lost", "the supervisor was ended by signal killed"},
		"exited":      {executors.Outcome{Reason: executors.Exited, Code: 2}, "lost", "the supervisor exited with code 2"},
		"preempted":   {executors.Outcome{Reason: executors.Preempted, Detail: "by a higher priority"}, "preempted", "by a higher priority"},
		"stopped":     {executors.Outcome{Reason: executors.Stopped, Detail: "by an operator"}, "interrupted", "by an operator"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(steps(map[string][]act{"b": {{vanish: true}}}))
				m.outcome = c.out
				w := newWorld(t, m, batched("x", decl("a", strict)), batched("x", decl("b", strict)))
				w.must()
				w.wantEnds(map[string]string{"a": "ok", "b": "failed"})
				var last event.Event
				for _, e := range w.events {
					if e.Type == event.NodeFinished && e.Node == "b" {
						last = e
					}
				}
				if last.Class != c.class || last.Reason != c.reason {
					t.Errorf("class %q reason %q, want %q %q", last.Class, last.Reason, c.class, c.reason)
				}
				// What was interrupted is recorded nowhere.
				if got := len(w.store.History("b")); (got == 0) != (c.class == "interrupted") {
					t.Errorf("%d records of b", got)
				}
			})
		})
	}
}

func TestAnExecutorThatDoesNotAnswerIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(steps(nil))
		m.refuse, m.silent = 4, 4
		w := newWorld(t, m, decl("a", strict))
		w.wantSummary(w.must(), sched.Summary{OK: 1})
		// 1 + 2 + 4 + 8 s before the start, and as long for the wait that follows.
		if took := time.Since(w.began); took < 30*time.Second || took > 32*time.Second {
			t.Errorf("took %s", took)
		}
		if len(m.started) != 1 {
			t.Errorf("started %d tasks for one", len(m.started))
		}
	})
}

func TestAnExecutorThatNeverAnswersFailsTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(steps(nil))
		m.refuse = 1000
		w := newWorld(t, m, decl("a", strict))
		w.wantSummary(w.must(), sched.Summary{Failed: 1, FailedNodes: []string{"a"}})
		o := w.store.History("a")[0].Outcome
		if o.Class != "start_failed" || !strings.Contains(o.Reason, "the daemon does not answer") || o.Keep {
			t.Errorf("outcome %+v", o)
		}
		if len(w.store.Intents()) != 0 {
			t.Errorf("the intent of a task that never was is left")
		}
	})
}

func TestATaskThatCannotRunHereIsNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		image := *strict
		image.Task = func([]compile.Job, string) (executors.Task, error) { return executors.Task{Image: "vllm:1"}, nil }
		image.Name = "image"
		broken := *strict
		broken.Name = "broken"
		broken.Task = func([]compile.Job, string) (executors.Task, error) { return executors.Task{}, errors.New("no model") }
		m := newMachine(steps(nil))
		w := newWorld(t, m, decl("a", &image), decl("b", &broken))
		w.must()
		for addr, want := range map[string]string{"a": "a local task has no image", "b": "describing the task: no model"} {
			if o := w.store.History(addr)[0].Outcome; o.Class != "start_failed" || o.Reason != want {
				t.Errorf("%s: %+v, want %q", addr, o, want)
			}
		}
		if len(m.started) != 0 {
			t.Errorf("a task was started")
		}
	})
}

func TestABlockWithoutExecutorFailsItsNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newMachine(steps(nil)), decl("a", strict))
		cfg := w.config()
		cfg.Executor = nil
		sum, err := sched.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		w.wantSummary(sum, sched.Summary{Failed: 1, FailedNodes: []string{"a"}})
		if o := w.store.History("a")[0].Outcome; o.Class != "start_failed" || o.Reason != `no executor for "framework.tiny"` {
			t.Errorf("outcome %+v", o)
		}
	})
}

func TestAnotherStepsRecordSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newMachine(steps(map[string][]act{"a": {{forged: true}}})), decl("a", strict))
		w.wantSummary(w.must(), sched.Summary{Failed: 1, FailedNodes: []string{"a"}})
		if o := w.store.History("a")[0].Outcome; o.Class != "lost" || !strings.Contains(o.Reason, `step.json is of step "another"`) {
			t.Errorf("outcome %+v", o)
		}
	})
}

// What a task left behind is the next apply's to take away, before anything
// else starts.
func TestWhatCannotBeReapedIsLeftToTheNextApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(steps(nil))
		m.sticky = true
		w := newWorld(t, m, decl("a", cell))
		w.wantSummary(w.must(), sched.Summary{OK: 1})
		if len(w.store.Intents()) == 0 || !strings.Contains(w.transcript(), "/dev/shm would not go") {
			t.Errorf("intents %v\n%s", w.store.Intents(), w.transcript())
		}
		m.sticky = false
		w.wantSummary(w.must(), sched.Summary{Cached: 1})
		if len(w.store.Intents()) != 0 || len(w.store.History("a")) != 1 {
			t.Errorf("intents %v, records %q", w.store.Intents(), w.outcomes())
		}
	})
}

// A task that is out of sight and cannot be ended keeps its GPU: no other
// attempt, and no other node on that GPU, may start.
func TestALostTaskKeepsItsGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gpu := func(id string) compile.Resources { return compile.Resources{GPUs: []string{id}} }
		lost := *cell
		lost.Name = "patient"
		lost.Policy = func(string) (int, bool) { return 3, false }
		m := newMachine(steps(map[string][]act{"a": {{vanish: true}}}))
		m.outcome, m.stuck = executors.Outcome{Reason: executors.Lost, Detail: "no such job"}, true
		w := newWorld(t, m, on(gpu("0"), decl("a", &lost)), on(gpu("0"), decl("b", cell)), on(gpu("1"), decl("c", cell)),
			on(compile.Resources{Quiet: true}, decl("d", cell, "c")), decl("e", join, "a"))
		w.wantSummary(w.must(), sched.Summary{OK: 2, KeptFailures: 1, Blocked: 2})
		w.wantEnds(map[string]string{"a": "failed", "b": "blocked by a", "c": "ok", "d": "blocked by a", "e": "ok"})
		if n := len(w.store.Intents()); n == 0 {
			t.Error("the lost task's intent was settled")
		}
		// The next apply cannot end it either, says so, and starts nothing.
		started := len(m.started)
		if _, err := w.apply(); err == nil || !strings.Contains(err.Error(), "would not end") {
			t.Errorf("the next apply said %v", err)
		}
		if len(m.started) != started {
			t.Error("the next apply started a task beside the lost one")
		}
		m.stuck = false
		w.wantSummary(w.must(), sched.Summary{OK: 2, KeptFailures: 1, Cached: 2})
	})
}

func TestAFunctionThatPassesItsTimeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := fn("hang", func(ctx context.Context, _ compile.Job) compile.Result { <-ctx.Done(); return bad("client_failed") })
		d := decl("a", hang)
		d.Timeout = 5 * time.Second
		w := newWorld(t, newMachine(steps(nil)), d)
		w.must()
		r := w.store.History("a")
		if len(r) != 2 || r[0].Outcome.Class != "timeout" || r[0].Time.Seconds != 5 {
			t.Errorf("records %+v, want two timeouts of 5 s", w.outcomes())
		}
	})
}

func TestATasksBoundIsThatOfItsJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(steps(nil))
		bound := func(d compile.Decl, s time.Duration) compile.Decl { d.Timeout = s; return d }
		w := newWorld(t, m, bound(batched("x", decl("a", cell)), 3*time.Second), bound(batched("x", decl("b", cell)), 4*time.Second),
			bound(batched("y", decl("c", cell)), 3*time.Second), batched("y", decl("d", cell)))
		w.must()
		got := map[time.Duration]bool{}
		for _, task := range m.started {
			got[task.Deadline] = true
		}
		if !got[7*time.Second] || !got[0] || len(got) != 2 {
			t.Errorf("deadlines %v, want 7s for x and none for y", got)
		}
	})
}

func TestReplaceRunsWhatIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(steps(nil))
		w := newWorld(t, m, decl("a", cell), decl("end", join, "a"))
		w.must()
		w.replace = []string{"a"}
		w.wantSummary(w.must(), sched.Summary{OK: 1, Cached: 1})
		if len(w.store.History("a")) != 2 {
			t.Errorf("a was not run again")
		}
	})
}

// The plan may want one more sample although there is one: it has judged it.
func TestAStaleNodeRunsThoughARecordIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newMachine(steps(nil)), decl("a", cell))
		w.must()
		w.verdicts = map[string]plan.Verdict{"a": plan.Stale}
		w.wantSummary(w.must(), sched.Summary{OK: 1})
		if len(w.store.History("a")) != 2 {
			t.Errorf("a has %d samples", len(w.store.History("a")))
		}
	})
}

// starts is when each node started for the first time.
func (w *world) starts() map[string]float64 {
	out := map[string]float64{}
	for _, e := range w.events {
		if _, twice := out[e.Node]; e.Type == event.NodeStarted && !twice {
			out[e.Node] = e.Time.Sub(w.began).Seconds()
		}
	}
	return out
}

// A node that needs the whole host, or two GPUs, is not passed by less urgent
// nodes that would keep it waiting: it starts when what ran before has ended.
func TestNobodyStarves(t *testing.T) {
	nap := fn("nap", func(_ context.Context, j compile.Job) compile.Result {
		d := time.Second
		if j.Addr == "long" {
			d = 10 * time.Second
		}
		time.Sleep(d)
		return ok(j.Addr)
	})
	for name, c := range map[string]struct{ long, big, small compile.Resources }{
		"quiet": {compile.Resources{}, compile.Resources{Quiet: true}, compile.Resources{}},
		"gpus":  {compile.Resources{GPUs: []string{"1"}}, compile.Resources{GPUs: []string{"1", "0"}}, compile.Resources{GPUs: []string{"0"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := []compile.Decl{decl("first", nap), on(c.long, decl("long", nap)), on(c.big, decl("big", nap, "first")), decl("end", nap, "big")}
				for i := range 20 {
					nodes = append(nodes, on(c.small, decl(fmt.Sprintf("small%d", i), nap)))
				}
				w := newWorld(t, newMachine(steps(nil)), nodes...)
				w.must()
				starts := w.starts()
				if starts["first"] != 0 || starts["long"] != 0 || starts["big"] != 10 {
					t.Errorf("first, long and big started at %g, %g, %g; want 0, 0, 10", starts["first"], starts["long"], starts["big"])
				}
				for addr, at := range starts {
					if strings.HasPrefix(addr, "small") && at > 1 && at < 11 {
						t.Errorf("%s passed big at %g s", addr, at)
					}
				}
			})
		})
	}
}

func TestHostsHaveTheirOwnPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quietOn := func(host string) compile.Resources {
			return compile.Resources{Quiet: true, Host: host, GPUs: []string{"0"}}
		}
		w := newWorld(t, newMachine(steps(nil)), on(quietOn("node-b"), decl("b", cell)), on(quietOn("node-c"), decl("c", cell)),
			on(quietOn("node-a"), decl("a", cell)), on(quietOn(""), decl("here", cell)))
		w.must()
		starts := w.starts()
		// This host is node-a, so its two quiet nodes follow one another.
		if starts["b"] != 0 || starts["c"] != 0 || starts["a"] != 0 || starts["here"] != 1.05 {
			t.Errorf("starts %v", starts)
		}
	})
}

func TestThePlansWordIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newMachine(steps(nil)), decl("skip", echo), decl("needs", join, "skip"), decl("later", echo, "after skip"),
			decl("gate", echo), decl("behind", echo, "after gate"), decl("seal", echo), decl("free", echo))
		w.verdicts = map[string]plan.Verdict{"skip": plan.Skipped, "gate": plan.Blocked, "seal": plan.Sealed}
		w.wantSummary(w.must(), sched.Summary{OK: 2, Blocked: 4})
		w.wantEnds(map[string]string{
			"needs": "blocked by skip", "later": "ok", "gate": "blocked by gate", "behind": "blocked by gate",
			"seal": "blocked by seal", "free": "ok", // a seal without its record is no result
		})
	})
}

func TestTheLongestPathGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		mark := fn("mark", func(_ context.Context, j compile.Job) compile.Result {
			order = append(order, j.Addr)
			time.Sleep(map[string]time.Duration{"slow": 9 * time.Second}[j.Addr])
			return ok(j.Addr)
		})
		nodes := []compile.Decl{decl("a", mark), decl("b", mark), decl("b2", mark, "b"), decl("b3", mark, "b2"), decl("slow", mark)}
		w := newWorld(t, newMachine(steps(nil)), nodes...)
		w.slots = 1
		w.must()
		// Nothing is known yet: each node counts a second, ties go by the graph.
		if want := []string{"b", "b2", "a", "b3", "slow"}; !slices.Equal(order, want) {
			t.Errorf("first run %v, want %v", order, want)
		}
		order = nil
		for i := range nodes {
			nodes[i].Spec = spec{Text: nodes[i].Addr + " changed"}
		}
		w.declare(nodes...)
		w.must()
		if order[0] != "slow" {
			t.Errorf("second run %v: the node that took 9 s does not go first", order)
		}
	})
}

// A server's cells run one after the other: ten of 2 s are a longer way than one of
// 9 s on the same GPU, and go first when the lengths are known.
func TestABatchIsAsLongAsItsNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gpu := compile.Resources{GPUs: []string{"0"}}
		script := map[string][]act{"one": slices.Repeat([]act{{takes: 9 * time.Second}}, 2)}
		decls := []compile.Decl{on(gpu, decl("one", cell))}
		for i := range 10 {
			addr := fmt.Sprintf("many%d", i)
			script[addr] = slices.Repeat([]act{{takes: 2 * time.Second}}, 2)
			decls = append(decls, on(gpu, batched("life", decl(addr, cell))))
		}
		w := newWorld(t, newMachine(steps(script)), decls...)
		w.must()
		for i := range decls {
			decls[i].Spec = spec{Text: decls[i].Addr + " changed"}
		}
		w.declare(decls...)
		w.events = nil
		w.must()
		if got := started(w); got[0] != "many0" || got[10] != "one" {
			t.Errorf("started %v", got)
		}
	})
}

// Each batch waits for a twin whose first is held in the other one.
func TestBatchesThatWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		same := func(batch, addr, text string) compile.Decl {
			d := batched(batch, decl(addr, cell))
			d.Spec = spec{Text: text}
			return d
		}
		m := newMachine(steps(nil))
		w := newWorld(t, m, same("y", "y1", "A"), same("x", "x1", "A"), same("x", "x2", "B"), same("y", "y2", "B"))
		w.wantSummary(w.must(), sched.Summary{OK: 2, Cached: 2})
		w.wantEnds(map[string]string{"y1": "ok", "x1": "cached", "x2": "ok", "y2": "cached"})
	})
}

func TestABatchWaitsForItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := fn("slow", func(context.Context, compile.Job) compile.Result { time.Sleep(time.Minute); return ok("x") })
		m := newMachine(steps(nil))
		w := newWorld(t, m, decl("in", slow), batched("x", decl("a", cell)), batched("x", decl("b", cell, "in")))
		w.wantSummary(w.must(), sched.Summary{OK: 3})
		if len(m.started) != 1 {
			t.Errorf("%d tasks, want one server life for both", len(m.started))
		}
	})
}

func TestLogsAreNamedAndStepsRemovedWhenStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newMachine(steps(map[string][]act{
			"bad": {{class: "client_failed"}}, "talks": {{class: "client_failed", logs: true}}, "died": {{death: executors.ClassStartFailed}},
		})), decl("good", cell), decl("bad", cell), decl("talks", cell), decl("died", cell), decl("fn", echo))
		w.must()
		logs := map[string]string{}
		for _, e := range w.events {
			if e.Type == event.NodeFinished {
				logs[e.Node] = e.Log
			}
		}
		for addr, want := range map[string]string{
			"good": "DIR/TASK/logs", "bad": "DIR/TASK/steps/STEP", "talks": "DIR/TASK/logs/STEP.log", "died": "DIR/TASK/steps/STEP", "fn": "",
		} {
			r := w.store.History(addr)[0]
			want = strings.NewReplacer("DIR", w.dir, "TASK", r.Origin.Task, "STEP", sched.StepID(r.Key)).Replace(want)
			if logs[addr] != want {
				t.Errorf("log of %s is %q, want %q", addr, logs[addr], want)
			}
			_, err := os.Stat(filepath.Join(w.dir, r.Origin.Task, "steps"))
			if gone := os.IsNotExist(err); addr == "good" && !gone || addr == "bad" && gone {
				t.Errorf("steps of %s: %v", addr, err)
			}
		}
	})
}

func TestStepIDIsTheFront16HexDigitsOfTheKey(t *testing.T) {
	k, err := key.ParseKey("sha256:0123456789abcdef" + strings.Repeat("00", 24))
	if err != nil {
		t.Fatal(err)
	}
	if got := sched.StepID(k); got != "0123456789abcdef" {
		t.Errorf("StepID = %s", got)
	}
}

func TestTaskIDsFitEveryExecutor(t *testing.T) {
	for _, run := range []string{"", "2026-03-04T05:06:07Z", "_Läufe/9_", strings.Repeat("x", 200)} {
		synctest.Test(t, func(t *testing.T) {
			m := newMachine(steps(nil))
			w := newWorld(t, m, decl("a", cell))
			cfg := w.config()
			cfg.Run = run
			if _, err := sched.Run(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			if id := string(m.started[0].ID); !regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`).MatchString(id) {
				t.Errorf("run %q gave task %q", run, id)
			}
		})
	}
}

// A result whose inputs were others when its work ended is recorded for nobody,
// be it a task's or a function's, in this run or by the next one's adoption.
func TestNothingIsRecordedOfChangedInputs(t *testing.T) {
	for changed, want := range map[string]struct {
		sum  sched.Summary
		ends map[string]string
	}{
		"in":   {sched.Summary{Failed: 1, Blocked: 2, FailedNodes: []string{"in"}}, map[string]string{"in": "failed", "cell": "blocked by in", "end": "blocked by in"}},
		"cell": {sched.Summary{OK: 1, Failed: 1, Blocked: 1, FailedNodes: []string{"cell"}}, map[string]string{"in": "ok", "cell": "failed", "end": "blocked by cell"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, newMachine(steps(nil)), decl("in", echo), decl("cell", cell, "in"), decl("end", join, "cell"))
			w.changed = changed
			sum := w.must()
			w.wantSummary(sum, want.sum)
			w.wantEnds(want.ends)
			if h := w.store.History(changed); len(h) != 0 {
				t.Errorf("recorded: %+v", h[0])
			}
			w.changed = ""
			w.wantSummary(w.must(), sched.Summary{OK: 3 - sum.OK, Cached: sum.OK})
		})
	}
}
