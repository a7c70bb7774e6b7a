package sched_test

import (
	stdcmp "cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// spec is the spec of every test node.
type spec struct {
	Text  string `key:"text"`
	Label string `key:"-"`
}

// policy is that of the seeds' table, as far as the tests need it.
func policy(class string) (retries int, keep bool) {
	switch executors.Class(class) {
	case executors.ClassOOM:
		return 0, true
	case executors.ClassServerDied:
		return 1, true
	case executors.ClassTimeout, executors.ClassUnhealthy:
		return 1, false
	case "throttled":
		return 1, false
	}
	return 0, false
}

func ok(text string) compile.Result {
	return compile.Result{Outcome: cache.Outcome{State: cache.OK}, Outputs: []compile.Value{{Name: "row", Bytes: []byte(text)}}}
}

func bad(class string) compile.Result {
	return compile.Result{Outcome: cache.Outcome{State: cache.Failed, Class: class, Reason: "because of " + class}}
}

// fn is a kind that runs f inside the engine.
func fn(name string, f func(context.Context, compile.Job) compile.Result) *compile.Kind {
	return &compile.Kind{Name: name, Version: 1, Purity: compile.Pure, Outputs: []string{"row"}, Func: f, Policy: policy}
}

// echo gives a node's text.
var echo = fn("echo", func(_ context.Context, j compile.Job) compile.Result { return ok(j.Spec.(spec).Text) })

// join gives the inputs' contents, one a line.
var join = fn("join", func(_ context.Context, j compile.Job) compile.Result {
	var lines []string
	for _, in := range j.Inputs {
		b, err := j.Objects.Bytes(in.Digest)
		if err != nil {
			return bad("client_failed")
		}
		lines = append(lines, string(b))
	}
	return ok(strings.Join(lines, "\n"))
})

// cell is a measured kind that runs as a task; its failures are rows too.
var cell = &compile.Kind{
	Name: "cell", Version: 1, Purity: compile.Measured, Outputs: []string{"row"}, KeepsFailures: true, Policy: policy,
	Task: func(jobs []compile.Job, dir string) (executors.Task, error) {
		s := runner.Spec{Version: runner.SpecVersion, Task: executors.TaskID(filepath.Base(dir))}
		for _, j := range jobs {
			s.Steps = append(s.Steps, runner.Step{ID: sched.StepID(j.Key), Argv: []string{"step", j.Addr}, Outputs: []string{"row"}})
		}
		b, err := json.Marshal(s)
		if err != nil {
			return executors.Task{}, err
		}
		return executors.Task{}, os.WriteFile(filepath.Join(dir, "spec.json"), b, 0o600)
	},
	Collect: func(j compile.Job, s compile.StepResult) compile.Result {
		_ = j.Spec.(spec)
		switch s.Class {
		case "":
			r := ok("")
			r.Outputs[0] = compile.Value{Name: "row", File: filepath.Join(s.Dir, "row")}
			return r
		case "throttled":
			r := bad(s.Class)
			r.Outcome.State = cache.Rejected
			return r
		}
		r := bad(s.Class)
		r.Outcome.Reason = s.Reason
		r.Outputs = []compile.Value{{Name: "row", Bytes: []byte("failed: " + s.Class)}}
		return r
	},
}

// strict is cell without rows for failures.
var strict = func() *compile.Kind {
	k := *cell
	k.Name, k.KeepsFailures = "strict", false
	return &k
}()

var env = compile.Env{
	Binding:  []key.Fact{{Name: "env.gpu", Type: key.Text, Value: "NVIDIA H200"}},
	Recorded: []cache.Observed{{Name: "kernel", Value: "6.1"}},
}

// decl declares a node; words after the kind are inputs, "after X" an order.
func decl(addr string, k *compile.Kind, deps ...string) compile.Decl {
	d := compile.Decl{Addr: addr, Kind: k, Block: "framework.tiny", Spec: spec{Text: addr}}
	for _, w := range deps {
		if o, isOrder := strings.CutPrefix(w, "after "); isOrder {
			d.Order = append(d.Order, o)
		} else {
			d.Inputs = append(d.Inputs, compile.Input{Name: "from", From: w, Output: "row"})
		}
	}
	return d
}

func batched(batch string, d compile.Decl) compile.Decl { d.Batch = batch; return d }

func on(r compile.Resources, d compile.Decl) compile.Decl { d.Resources = r; return d }

// world is one test's campaign, store, machine and events.
type world struct {
	t         testing.TB
	graph     *compile.Graph
	store     sched.Store
	machine   *machine
	dir       string
	slots     int
	replace   []string
	verdicts  map[string]plan.Verdict // instead of what the records say
	budget    plan.Budget
	interrupt chan struct{}
	mu        sync.Mutex
	events    []event.Event
	began     time.Time
	hook      func(event.Event)
	changed   string        // the text of the spec whose inputs Unchanged says are others
	shift     time.Duration // of the wall clock
}

func (w *world) now() time.Time { return time.Now().Add(w.shift) }

func newWorld(t testing.TB, m *machine, decls ...compile.Decl) *world {
	w := &world{t: t, store: newMemory(t), machine: m, dir: t.TempDir(), slots: 2, interrupt: make(chan struct{}, 3)}
	w.declare(decls...)
	return w
}

func (w *world) declare(decls ...compile.Decl) {
	w.t.Helper()
	g, problems := compile.Build(decls, env)
	if len(problems) > 0 {
		w.t.Fatalf("building the graph: %v", problems)
	}
	w.graph = g
}

// plan is the planner's plan, with the test's own verdicts in it.
func (w *world) plan() *plan.Plan {
	w.t.Helper()
	p, problems := plan.Make(w.graph, w.store, plan.Options{Replace: w.replace, Now: w.now()})
	if len(problems) > 0 {
		w.t.Fatalf("planning: %v", problems)
	}
	p.Budget = w.budget
	for addr, v := range w.verdicts {
		id, found := w.graph.Lookup(addr)
		if !found {
			w.t.Fatalf("no node %s", addr)
		}
		n := &p.Nodes[id]
		n.Verdict, n.Record, n.Reason = v, nil, plan.Reason{Root: id, Text: "says the test"}
	}
	return p
}

func (w *world) config() sched.Config {
	return sched.Config{
		Graph: w.graph, Plan: w.plan(), Store: w.store,
		Executor: func(string) executors.Executor { return w.machine },
		Events: func(e event.Event) {
			w.mu.Lock()
			w.events = append(w.events, e)
			w.mu.Unlock()
			if w.hook != nil {
				w.hook(e)
			}
		},
		Dir: w.dir, Slots: w.slots, Run: "Run_7", Tool: "0.1", Host: "node-a", Now: w.now, Interrupt: w.interrupt,
		Unchanged: func(s any) error {
			if w.changed != "" && s.(spec).Text == w.changed {
				return errors.New("the program changed")
			}
			return nil
		},
	}
}

// apply runs the plan and forgets the events of earlier runs.
func (w *world) apply() (sched.Summary, error) {
	w.events, w.began = nil, time.Now()
	return sched.Run(w.t.Context(), w.config())
}

// must is apply without an error of the machine.
func (w *world) must() sched.Summary {
	w.t.Helper()
	sum, err := w.apply()
	if err != nil {
		w.t.Fatalf("apply: %v", err)
	}
	return sum
}

var randomPart = regexp.MustCompile(`run-7-[0-9a-f]{8}-`)

// transcript is the events, one a line, with the time since the start. What
// different nodes do at the same instant has no order of its own, so it gets
// that of their names; a node's own events keep theirs.
func (w *world) transcript() string {
	var b strings.Builder
	events := slices.Clone(w.events)
	if len(events) > 1 {
		slices.SortStableFunc(events[1:len(events)-1], func(x, y event.Event) int {
			return stdcmp.Or(x.Time.Compare(y.Time), stdcmp.Compare(x.Node, y.Node))
		})
	}
	for _, e := range events {
		fmt.Fprintf(&b, "%7.3f %s", e.Time.Sub(w.began).Seconds(), e.Type)
		for _, f := range [][2]string{{"", e.Node}, {"task=", e.Task}, {"by=", e.By}, {"", e.State}, {"class=", e.Class}, {"reason=", e.Reason}, {"text=", e.Text}, {"log=", e.Log}} {
			if f[1] != "" {
				fmt.Fprintf(&b, " %s%s", f[0], f[1])
			}
		}
		if e.Attempt > 0 {
			fmt.Fprintf(&b, " attempt=%d", e.Attempt)
		}
		if e.Seconds > 0 {
			fmt.Fprintf(&b, " %gs", e.Seconds)
		}
		for _, k := range slices.Sorted(maps.Keys(e.Counts)) {
			if e.Counts[k] > 0 {
				fmt.Fprintf(&b, " %s=%d", k, e.Counts[k])
			}
		}
		b.WriteByte('\n')
	}
	return randomPart.ReplaceAllString(strings.ReplaceAll(b.String(), w.dir, "DIR"), "T")
}

// golden compares the transcript with testdata/NAME.txt.
func (w *world) golden(name string) {
	w.t.Helper()
	path := filepath.Join("testdata", name+".txt")
	got := w.transcript()
	if os.Getenv("SOTABUILD_UPDATE") == "1" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		w.t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

// ends is the final state of each node that the events tell, by address.
func (w *world) ends() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for _, e := range w.events {
		end := map[event.Type]string{event.NodeFinished: e.State, event.NodeCached: "cached", event.NodeBlocked: "blocked by " + e.By}[e.Type]
		if end == "" {
			continue
		}
		if old, twice := out[e.Node]; twice {
			w.t.Errorf("node %s ended twice: %s, then %s", e.Node, old, end)
		}
		out[e.Node] = end
	}
	return out
}

// outcomes is what the store holds: one line a record.
func (w *world) outcomes() []string {
	var out []string
	for _, a := range w.graph.Actions {
		for _, r := range w.store.History(a.Addr) {
			line := fmt.Sprintf("%s %s%s", r.Node, r.Outcome.State, strings.TrimSuffix(" "+r.Outcome.Class, " "))
			if r.Outcome.Keep {
				line += " kept"
			}
			out = append(out, line)
		}
	}
	return out
}

func (w *world) wantEnds(want map[string]string) {
	w.t.Helper()
	if d := cmp.Diff(want, w.ends()); d != "" {
		w.t.Errorf("final states (-want +got):\n%s\n%s", d, w.transcript())
	}
}

func (w *world) wantSummary(got sched.Summary, want sched.Summary) {
	w.t.Helper()
	got.Seconds = 0
	if d := cmp.Diff(want, got); d != "" {
		w.t.Errorf("summary (-want +got):\n%s\n%s", d, w.transcript())
	}
}

// second is what a step takes if the script does not say. It is a little more
// than a second, so that no step ends in the instant of a harvest.
const second = 1050 * time.Millisecond

// steps is a script where every step is ok after a second, but for those named.
func steps(special map[string][]act) func(string, int) act {
	return func(addr string, attempt int) act {
		a := act{takes: second}
		if s := special[addr]; len(s) > 0 {
			a = s[min(attempt, len(s))-1]
		}
		if a.takes == 0 {
			a.takes = second
		}
		return a
	}
}
