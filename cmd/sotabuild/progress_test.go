package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/executors/runner"
)

func TestACtrlCSaysWhatItLeaves(t *testing.T) {
	const cell = `bench.vllm["baseline"].chat.c4`
	left := func(n int) map[string]int { return map[string]int{"left": n} }
	for want, e := range map[string]event.Event{
		"! interrupt  what runs now finishes, nothing more begins; once more to stop it\n": {Type: event.Draining},
		"! " + cell + "  finishes; left to the next apply: 5 more nodes of its task\n":     {Type: event.TaskDraining, Task: "t-1", Node: cell, Counts: left(5)},
		"! " + cell + "  finishes; left to the next apply: 1 more node of its task\n":      {Type: event.TaskDraining, Task: "t-1", Node: cell, Counts: left(1)},
		"! " + cell + "  finishes; it is the last of its task\n":                           {Type: event.TaskDraining, Task: "t-1", Node: cell, Counts: left(0)},
		"! t-1  ends; left to the next apply: 6 nodes\n":                                   {Type: event.TaskDraining, Task: "t-1", Counts: left(6)},
		"! t-1  no route\n":                        {Type: event.TaskDraining, Task: "t-1", Text: "no route"},
		"○ " + cell + "  left to the next apply\n": {Type: event.NodeFinished, Node: cell, State: "cancelled", Class: "interrupted", Reason: "left to the next apply"},
		"○ " + cell + "  not started\n":            {Type: event.NodeFinished, Node: cell, State: "cancelled"},
	} {
		var out strings.Builder
		p := &progress{w: &out}
		p.event(e)
		if out.String() != want {
			t.Errorf("%s: %q, want %q", e.Type, out.String(), want)
		}
	}
}

// TestTotals: what never began is left to the next apply, whoever kept it from that;
// only what ran was interrupted.
func TestTotals(t *testing.T) {
	r := run{total: sched.Summary{OK: 2, Cached: 4, Failed: 1, Blocked: 5, Cancelled: 1, Unbegun: 3}}
	want := "Applied: 3 nodes run, 4 cached, 1 failed, 5 blocked, 1 interrupted, 3 left to the next apply in 1.5s."
	if got := r.totals(1500 * time.Millisecond); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r = run{total: sched.Summary{OK: 1, Left: 7}}
	if got, want := r.totals(time.Second), "Applied: 1 node run, 0 cached, 7 left by the budget in 1s."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTwoSteps: what was left, ran or failed in the first step of an apply is
// counted once.
func TestTwoSteps(t *testing.T) {
	r := run{total: sched.Summary{OK: 1, Left: 2, Failed: 1, FailedNodes: []string{"help.a"}}, ranBefore: 1}
	got := r.add(sched.Summary{OK: 3, Cached: 5, Blocked: 4, Left: 2})
	want := sched.Summary{OK: 4, Cached: 4, Blocked: 3, Left: 2, Failed: 1, FailedNodes: []string{"help.a"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestLiveLines: below what has finished stand the nodes that run, as many as the
// terminal has lines for, and how many are done of those that the apply is about.
func TestLiveLines(t *testing.T) {
	var out bytes.Buffer
	p := progress{w: &out, live: true, folders: map[string]string{}}
	drawn := func() []string {
		out.Reset()
		p.erase()
		p.draw()
		before, text, _ := strings.Cut(out.String(), "\x1b[J")
		if before != "" && !strings.HasPrefix(before, "\r") {
			t.Errorf("who typed something moved the drawing: %q", before)
		}
		text = regexp.MustCompile(`\b\d+s\b`).ReplaceAllString(text, "0s") // a second may pass
		return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	}
	now := time.Now()
	p.event(event.Event{Type: event.ApplyStarted, Time: now, Counts: map[string]int{"new": 36, "stale": 1, "later": 2, "blocked": 1, "cached": 9}})
	for i := range 30 {
		p.event(event.Event{Type: event.NodeStarted, Node: fmt.Sprint("cell", i), Task: "t", Time: now})
	}
	lines := drawn()
	if len(lines) != 23 || lines[0] != "  cell0  0s  " || lines[20] != "  cell20  0s  " || lines[21] != "  … and 9 more" || lines[22] != "  0 of 40 nodes done, 0s" {
		t.Errorf("30 nodes on 24 lines:\n%s", strings.Join(lines, "\n"))
	}
	p.event(event.Event{Type: event.NodeFinished, Node: "cell0", State: "ok", Time: now})
	p.event(event.Event{Type: event.NodeFinished, Node: "cell1", State: "failed", Time: now})
	p.event(event.Event{Type: event.NodeRetry, Node: "cell2", Time: now})
	p.event(event.Event{Type: event.NodeCached, Node: "kept"})
	p.event(event.Event{Type: event.NodeBlocked, Node: "blocked"})
	p.unsaid(event.Event{Type: event.NodeBlocked, Node: "given up"})
	p.event(event.Event{Type: event.NodeFinished, Node: "cell3", State: "cancelled", Time: now})
	if lines = drawn(); lines[len(lines)-1] != "  5 of 40 nodes done, 0s" {
		t.Errorf("%q", lines[len(lines)-1])
	}
	for i := 4; i < 30; i++ {
		p.event(event.Event{Type: event.NodeFinished, Node: fmt.Sprint("cell", i), State: "ok", Time: now})
	}
	for i := range 9 {
		p.event(event.Event{Type: event.NodeCached, Node: fmt.Sprint("sum", i)})
	}
	if lines = drawn(); len(lines) != 1 || lines[0] != "" {
		t.Errorf("all are done:\n%s", strings.Join(lines, "\n"))
	}
}

// TestPhases: the live lines say what the task's folder says: nothing where none
// of it is there, then that the server is starting, then which cell is measured
// and which ones come after it.
func TestPhases(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	p := progress{w: &out, live: true, folders: map[string]string{}}
	p.event(event.Event{Type: event.ApplyStarted, Counts: map[string]int{"new": 2}, Time: time.Now()})
	lines := func() string {
		out.Reset()
		p.erase()
		p.draw()
		_, drawn, _ := strings.Cut(out.String(), "\x1b[J")
		return regexp.MustCompile(`  \d+s  `).ReplaceAllString(drawn, "  ")
	}
	if err := runner.WriteSpec(dir, runner.Spec{
		Version: runner.SpecVersion, Task: "t",
		Processes: []runner.Process{{Role: "server", Count: 1, Argv: []string{"serve"}, Health: runner.Health{Path: "/health"}}},
		Endpoint:  runner.Endpoint{Role: "server"},
		Steps:     []runner.Step{{ID: "a", Argv: []string{"ask"}, Deadline: time.Minute}},
		Deadlines: runner.Deadlines{Start: time.Minute},
	}); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"chat", "code"} {
		p.event(event.Event{Type: event.NodeStarted, Node: node, Task: "t", Time: time.Now()})
	}
	p.event(event.Event{Type: event.TaskStarted, Node: "chat", Task: "t", Log: filepath.Join(dir, "logs")})
	want := func(when, chat, code string) {
		t.Helper()
		if got := lines(); !strings.HasPrefix(got, "  chat  "+chat+"\n  code  "+code+"\n") {
			t.Errorf("%s:\n%q", when, got)
		}
	}
	want("before anything of it is here", "", "")
	if err := os.Mkdir(filepath.Join(dir, "logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "logs", "runner.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want("before the server is healthy", "server is starting", "server is starting")
	if err := runner.WriteUp(dir, []runner.ProcessRecord{{}}); err != nil {
		t.Fatal(err)
	}
	want("once it is", "measuring", "in line")
	p.event(event.Event{Type: event.NodeFinished, Node: "chat", State: "ok", Time: time.Now()})
	if got := lines(); !strings.HasPrefix(got, "  code  measuring\n") {
		t.Errorf("after the first cell:\n%q", got)
	}
}
