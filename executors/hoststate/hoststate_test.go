package hoststate

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/executors"
)

// sleeper is a process that lives until the function is called.
func sleeper(t *testing.T, env ...string) (pid int, end func()) {
	t.Helper()
	cmd := exec.Command("/bin/cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(env, "PATH=/bin")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() {
		in.Close()
		_ = cmd.Wait()
	}
	t.Cleanup(end)
	return cmd.Process.Pid, end
}

// TestWhatIsLeft: what began meanwhile is ours by its mark, or somebody else's;
// what was there before and what has ended is neither. Two applies are
// compared, each with its own beginning, where the first was killed.
func TestWhatIsLeft(t *testing.T) {
	first, second := fmt.Sprintf("first-%d", os.Getpid()), fmt.Sprintf("second-%d", os.Getpid()) // as no other apply on this host
	dir := t.TempDir()
	tools := t.TempDir()
	t.Setenv("PATH", tools)
	smi := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(tools, "nvidia-smi"), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	smi("echo GPU-1, 7, old, 70\n")
	sleeper(t, executors.EnvTask+"=of-another-apply")
	if err := Begin(t.Context(), dir, first); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := Last(dir); ok || err != nil {
		t.Errorf("an apply under way has a look after: %v", err)
	}
	ours, end := sleeper(t, executors.EnvTask+"="+first+"-task-1")
	if err := Begin(t.Context(), dir, second); err != nil {
		t.Fatal(err)
	}
	sleeper(t)
	sleeper(t, executors.EnvTask+"="+first+"born-9", "X=a run whose id begins alike")
	_, gone := sleeper(t, executors.EnvTask+"="+second+"-task-2")
	gone()
	smi("echo GPU-1, 9, new, 90\n")
	list, err := End(t.Context(), dir)
	if err != nil || len(list) != 2 || list[0].Run != first || list[1].Run != second {
		t.Fatalf("%+v, %v", list, err)
	}
	d := Compare(first, list[0].Before, *list[0].After)
	if want := fmt.Sprintf("%d cat of task %s-task-1", ours, first); len(d.Ours) != 1 || d.Ours[0] != want || d.Empty() {
		t.Errorf("ours are %q, want %q", d.Ours, want)
	}
	if lines := strings.Join(d.Lines(), "\n"); !strings.Contains(lines, "still runs: ") || !strings.Contains(lines, "on a GPU now and not before: GPU-1, 9, new, 90\non a GPU before and not now: GPU-1, 7, old, 70") {
		t.Errorf("the lines are\n%s", lines)
	}
	if d = Compare(second, list[1].Before, *list[1].After); len(d.Ours) != 0 || !slices.ContainsFunc(d.Others, func(s string) bool { return strings.HasSuffix(s, " cat") }) {
		t.Errorf("of the second: %+v", d)
	}
	end()
	if list, err = End(t.Context(), dir); err != nil || len(list) != 0 {
		t.Errorf("they were compared: %+v, %v", list, err)
	}
	if r, ok, err := Last(dir); !ok || r.Run != second || err != nil {
		t.Errorf("the last is %q, %v", r.Run, err)
	}
}

// TestTasksOfOthers: a task's process is found by its mark, and nothing else is.
func TestTasksOfOthers(t *testing.T) {
	theirs, end := sleeper(t, executors.EnvTask+"=of-another-store-1")
	plain, _ := sleeper(t, "SOMETHING="+executors.EnvTask)
	find := func() (found []Process) {
		t.Helper()
		all, err := Tasks()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if p.Pid == theirs || p.Pid == plain {
				found = append(found, p)
			}
		}
		return found
	}
	if got := find(); len(got) != 1 || got[0].Pid != theirs || got[0].Name != "cat" || got[0].Task != "of-another-store-1" {
		t.Errorf("found %+v, want only pid %d", got, theirs)
	}
	end()
	if got := find(); len(got) != 0 {
		t.Errorf("found %+v after its end", got)
	}
}

// TestSickGPU: a tool that fails does not look like idle GPUs.
func TestSickGPU(t *testing.T) {
	tools := t.TempDir()
	t.Setenv("PATH", tools)
	if err := os.WriteFile(filepath.Join(tools, "nvidia-smi"), []byte("#!/bin/sh\nexit 15\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := Take(t.Context(), State{})
	if err != nil || len(s.GPUs) != 1 || !strings.Contains(s.GPUs[0], "unknown: ") {
		t.Errorf("%q, %v", s.GPUs, err)
	}
	if d := Compare("run", State{Boot: s.Boot}, s); d.Empty() {
		t.Error("it is no difference")
	}
}

// TestOnlySoManyStay: old records go.
func TestOnlySoManyStay(t *testing.T) {
	dir := t.TempDir()
	for i := range kept + 5 {
		if err := Begin(t.Context(), dir, fmt.Sprintf("run-%02d", i)); err != nil {
			t.Fatal(err)
		}
		if _, err := End(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	list, err := os.ReadDir(dir)
	var names []string
	for _, e := range list {
		if strings.HasSuffix(e.Name(), ".json") {
			names = append(names, e.Name())
		}
	}
	if err != nil || len(names) != kept || names[0] != "run-05.json" {
		t.Errorf("there are %q, %v", names, err)
	}
}

// TestMemoryOfANeighbour: a process that only takes more memory of its GPU is
// neither new there nor gone.
func TestMemoryOfANeighbour(t *testing.T) {
	before := State{GPUs: []string{"GPU-1, 77, python, 1000", "GPU-1, 78, python, 10"}}
	after := State{GPUs: []string{"GPU-1, 77, python, 1200", "GPU-1, 79, python, 10"}}
	d := Compare("run", before, after)
	if len(d.GPUs) != 1 || d.GPUs[0] != after.GPUs[1] || len(d.Missed) != 1 || d.Missed[0] != before.GPUs[1] {
		t.Errorf("new %q, gone %q; want 79 and 78", d.GPUs, d.Missed)
	}
}
