package conformance

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/event"
)

// TestACtrlCLetsTheRunningCellFinish: two servers of six cells each, a Ctrl-C in
// the first cell of whichever is first. That one is measured and recorded; the
// others never begin, are no failures, and are run by the next apply (DESIGN 7).
// The first cell takes almost two seconds by its schedule.
func TestACtrlCLetsTheRunningCellFinish(t *testing.T) {
	t.Parallel()
	campaign := strings.Replace(head(2, "slow"), "concurrency = [2]", "concurrency = [1, 2, 4]", 1) +
		framework("good", map[string]any{"mode": "none", "pace_us": 50000}, noSearch) +
		framework("slow", map[string]any{"mode": "none", "pace_us": 45000}, noSearch)
	s := newSite(t, fake(campaign))
	a := s.start()
	var events []event.Event
	struck := false
	for line := a.line(); line != ""; line = a.line() {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			continue // not of the engine
		}
		events = append(events, e)
		if e.Type == event.TaskStarted && strings.HasPrefix(e.Node, "bench.") && !struck {
			struck = true
			waitFor(t, "the first cell", func() bool {
				// Its log comes after the look whether it may begin; its mark
				// comes before, and may be taken back.
				logs, err := filepath.Glob(filepath.Join(s.dir, ".sotabuild/tasks", e.Task, "logs/[0-9a-f]*.log"))
				return err == nil && len(logs) > 0
			})
			if err := a.proc.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := a.wait()
	if r.code != 130 {
		t.Fatalf("exit code %d, want 130\n%s", r.code, r.err)
	}
	said := slices.IndexFunc(events, func(e event.Event) bool { return e.Type == event.TaskDraining })
	if said < 0 || events[said].Counts["left"] != 5 || !strings.HasPrefix(events[said].Node, "bench.") {
		t.Fatalf("what was said of the task: %+v", events)
	}
	first, ends := events[said].Node, map[string]string{}
	for _, e := range events {
		if e.Type == event.NodeFinished && strings.HasPrefix(e.Node, "bench.") {
			ends[e.Node] = strings.TrimSpace(e.State + " " + e.Class)
		}
	}
	for node, end := range ends {
		want := map[bool]string{true: "ok"}[node == first]
		switch {
		case want != "" && end != want:
			t.Errorf("%s, which ran at the Ctrl-C, ended as %s", node, end)
		case want == "" && !strings.HasPrefix(end, "cancelled"):
			t.Errorf("%s, which had not begun, ended as %s", node, end)
		}
	}
	if len(ends) != 12 {
		t.Errorf("%d cells ended, want 12: %v", len(ends), ends)
	}
	waitGone(t, s, time.Second)
	cached := 0
	for node, verdict := range kinds(s.plan(), "bench") {
		if verdict == "cached" {
			cached++
		} else if node == first {
			t.Errorf("%s has finished and is %s", node, verdict)
		}
	}
	if cached != 1 {
		t.Errorf("%d cells are cached, want the one that ran", cached)
	}

	again := s.must(0, "apply", "--json")
	started := slices.DeleteFunc(startedNodes(again.out), func(n string) bool { return !strings.HasPrefix(n, "bench.") })
	if len(started) != 11 || slices.Contains(started, first) {
		t.Errorf("the next apply ran %v, want the eleven other cells", started)
	}
	if strings.Contains(again.out, `"type":"node_retry"`) {
		t.Error("the next apply tried something again")
	}
	for _, r := range s.rows() {
		if r.get("status") != "ok" {
			t.Errorf("a row is %s", fmt.Sprint(r))
		}
	}
}

// kinds are the verdicts of a plan's nodes of one kind.
func kinds(p planned, kind string) map[string]string {
	out := map[string]string{}
	for _, n := range p.Nodes {
		if n.Kind == kind {
			out[n.Node] = n.Verdict
		}
	}
	return out
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) { // polling files: there is nothing to wait on
		if time.Now().After(late) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
