// Package trial is what the tests of executors have in common: tasks made of
// puppets, waiting for what they do, and engines that can be killed.
//
// An engine is the test's own program, run again as `SELF engine DIR`, whose
// TestMain calls Engine. Waiting is bounded, generously: a bound is reached only
// where something is wrong. Every function fails its test where it cannot do
// what it says.
package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/internal/puppet"
	"github.com/sotabuild/sotabuild/executors/proc"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// Self is the test's own program.
func Self() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// Engine is the process that StartEngine starts: it starts the task of a folder,
// writes its handle down, and waits. It returns its exit code.
func Engine(e executors.Executor, dir string) int {
	var task executors.Task
	text, err := os.ReadFile(filepath.Join(dir, "task.json"))
	if err == nil {
		err = json.Unmarshal(text, &task)
	}
	var h executors.Handle
	if err == nil {
		h, err = e.Start(context.Background(), task)
	}
	if err == nil {
		text, err = json.Marshal(h)
	}
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, "handle.new"), text, 0o600),
			os.Rename(filepath.Join(dir, "handle.new"), filepath.Join(dir, "handle")))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
		return 1
	}
	e.Wait(context.Background(), h)
	return 0
}

// StartEngine runs a task under an engine in another process, and returns when
// the task was started. The engine is killed with the test.
func StartEngine(t *testing.T, task executors.Task) (*exec.Cmd, executors.Handle) {
	t.Helper()
	text, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(task.Dir, "task.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(Self(), "engine", task.Dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	var h executors.Handle
	if err := json.Unmarshal([]byte(File(t, task, "handle")), &h); err != nil {
		t.Fatal(err)
	}
	return cmd, h
}

// Serve makes of a task without a command one whose server is deaf and has an
// orphan without our mark, in a session of its own. Its first step, done, writes
// its environment down; its second, ask, waits for good.
func Serve(t *testing.T, task executors.Task) {
	t.Helper()
	spec := runner.Spec{
		Version: 1, Task: task.ID, Endpoint: runner.Endpoint{Role: "server"},
		Processes: []runner.Process{{
			Role: "server", Count: 1, Argv: puppet.Self("server", "-port", "{port}", "-deaf", "-fork", "{out}/orphan", "-bare"),
			Health: runner.Health{Path: "/health", Every: 10 * time.Millisecond},
			Stop:   runner.Stop{First: 100 * time.Millisecond, Second: 100 * time.Millisecond},
		}},
		Steps: []runner.Step{
			{ID: "done", Deadline: time.Minute, Argv: puppet.Self("client", "-env", "{step}/env"), Env: []string{"CARDS={gpus}"}},
			{ID: "ask", Deadline: time.Hour, Argv: puppet.Self("client", "-started", "{step}/started")},
		},
	}
	if err := runner.WriteSpec(task.Dir, spec); err != nil {
		t.Fatal(err)
	}
}

// Orphan returns the process that the server of Serve has double-forked, when
// the second step runs.
func Orphan(t *testing.T, task executors.Task) proc.Process {
	t.Helper()
	File(t, task, "steps/ask/started")
	var pid int
	fmt.Sscan(File(t, task, "orphan"), &pid)
	p, err := proc.Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Wait returns a task's outcome, within minutes.
func Wait(t *testing.T, e executors.Executor, h executors.Handle) executors.Outcome {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), 150*time.Second)
	defer done()
	o, err := e.Wait(ctx, h)
	if err != nil {
		t.Fatalf("waiting: %v", err)
	}
	t.Logf("outcome %+v", o)
	return o
}

// Until asks again and again until ok, for limit.
func Until(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for late := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// File returns a file of a task's folder as soon as it is there.
func File(t *testing.T, task executors.Task, name string) string {
	t.Helper()
	path := filepath.Join(task.Dir, name)
	Until(t, time.Minute, name, func() bool { _, err := os.Stat(path); return err == nil })
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
