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
