package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/event"
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

// TestPhases: the live lines say what the task's folder says: nothing where none
// of it is there, then that the server is starting, then which cell is measured
// and which ones come after it.
func TestPhases(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	p := progress{w: &out, live: true, folders: map[string]string{}}
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
	p.event(event.Event{Type: event.NodeFinished, Node: "chat", State: "ok"})
	if got := lines(); !strings.HasPrefix(got, "  code  measuring\n") {
		t.Errorf("after the first cell:\n%q", got)
	}
}
