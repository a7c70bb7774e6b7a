package timeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/event"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(sec float64, t event.Type, node, task, state string) event.Event {
	return event.Event{Time: start.Add(time.Duration(sec * float64(time.Second))), Type: t, Node: node, Task: task, State: state}
}

// An apply of 30 seconds, by hand: help 0–2, then on GPU 0 cell a 3–13, cell b
// 14–24 (which failed once from 13.5 to 14), and a sum 24–30. The servers of a and
// b were up after 4 and 1 s.
func apply() Line {
	return Read([]event.Event{
		at(0, event.ApplyStarted, "", "", ""),
		at(0, event.NodeStarted, "help", "T1", ""), at(2, event.NodeFinished, "help", "", "ok"),
		at(3, event.NodeStarted, "a", "T2", ""), at(7, event.TaskUp, "a", "T2", ""), at(13, event.NodeFinished, "a", "", "ok"),
		at(13.5, event.NodeStarted, "b", "T3", ""), at(14, event.NodeRetry, "b", "", ""),
		at(14, event.NodeStarted, "b", "T4", ""), at(15, event.TaskUp, "b", "T4", ""), at(24, event.NodeFinished, "b", "", "ok"),
		at(24, event.NodeStarted, "sum", "", ""), at(30, event.NodeFinished, "sum", "", "ok"),
		at(30, event.ApplyFinished, "", "", ""),
	}, of(map[string]Node{
		"help": {}, "a": {Needs: []string{"help"}, GPUs: []string{"0"}}, "b": {Needs: []string{"help"}, GPUs: []string{"0"}}, "sum": {Needs: []string{"a", "b"}},
	}))
}

func of(nodes map[string]Node) Facts {
	return func(addr string) (Node, bool) {
		n, ok := nodes[addr]
		return n, ok
	}
}

func TestText(t *testing.T) {
	want := `Apply of 2026-11-30T12:00:00Z took 30s.
Critical path:
        2s  help
       10s  a  1s after its input was there; 4s until its server was up
     500ms  b  (retry)  500ms after GPU 0 was free
       10s  b  when it was tried again; 1s until its server was up
        6s  sum  when its input was there
GPU 0: busy 68 % of the time, 17 % while servers came up.
  idle       3s  a waited for help
  idle    500ms  between tasks, before b
  idle       6s  nothing that needs it was left
`
	if d := cmp.Diff(want, apply().Text()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// An apply of three steps, by hand. Servers have the host alone, so the second
// waits for the first and not for its prompts, which were there long before; a
// step waits for the one before it; the last one's nodes are of a round that the
// campaign no longer has.
func TestWhatWasWaitedFor(t *testing.T) {
	span := func(from, to float64, node, task string) []event.Event {
		return []event.Event{at(from, event.NodeStarted, node, task, ""), at(to, event.NodeFinished, node, "", "ok")}
	}
	begin := func(sec float64) []event.Event { return []event.Event{at(sec, event.ApplyStarted, "", "", "")} }
	l := Read(slices.Concat(
		begin(0), span(0, 2, "help", "T1"),
		begin(3), span(3, 4, "check", ""), span(3, 5, "prompts", ""), span(5, 9, "one", "T2"), span(10, 20, "two", "T3"), span(20, 21, "winners", ""), span(21, 22, "turn", ""),
		begin(22), span(23, 26, "round.one", "T4"), span(26.5, 27, "round.two", "T5"),
	), of(map[string]Node{
		"help": {}, "turn": {After: []string{"winners"}}, "check": {Needs: []string{"help"}}, "prompts": {},
		"one": {Needs: []string{"check", "prompts"}, Quiet: true}, "two": {Needs: []string{"check", "prompts"}, Quiet: true},
		"winners": {Needs: []string{"one", "two"}},
	}))
	want := `Apply of 2026-11-30T12:00:00Z took 27s.
Critical path:
        2s  help
        2s  prompts  1s after the step before it was over
        4s  one  when its input was there
       10s  two  1s after the host was free
        1s  winners  when its input was there
        1s  turn  when its turn came
        3s  round.one  1s after the step before it was over
     500ms  round.two  500ms after what ran before it was over
`
	if d := cmp.Diff(want, l.Text()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestNothingRan(t *testing.T) {
	done := at(1, event.ApplyFinished, "", "", "")
	done.Counts = map[string]int{"cached": 24, "blocked": 2, "ok": 0}
	l := Read([]event.Event{at(0, event.ApplyStarted, "", "", ""), done}, of(nil))
	if got, want := l.Text(), "Apply of 2026-11-30T12:00:00Z took 1s.\nNothing ran: 24 cached, 2 blocked.\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestChrome(t *testing.T) {
	b, err := apply().Chrome()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		TraceEvents []struct {
			Name, Ph string
			Ts, Dur  int64
			Pid      int
		} `json:"traceEvents"`
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	sum := map[string]int64{}
	for _, e := range got.TraceEvents {
		if e.Ph == "X" {
			sum[map[int]string{pidTasks: "", pidGPUs: "GPU: ", pidQueue: "queue: "}[e.Pid]+e.Name] += e.Dur
			if e.Ts < 0 || e.Ts+e.Dur > 30_000_000 {
				t.Errorf("%s lies at %d for %d, outside of the apply", e.Name, e.Ts, e.Dur)
			}
		}
	}
	// What holds a GPU stands on its task's track and on the GPU's, after its
	// server's start; a queued for 1 s and b, behind it, for 11.5 s.
	want := map[string]int64{
		"help": 2e6, "server start": 5e6, "a": 6e6, "b": 9.5e6, "sum": 6e6,
		"GPU: server start": 5e6, "GPU: a": 6e6, "GPU: b": 9.5e6, "GPU: idle": 9.5e6,
		"queue: a": 1e6, "queue: b": 11.5e6,
	}
	if d := cmp.Diff(want, sum); d != "" {
		t.Errorf("microseconds by name (-want +got):\n%s", d)
	}
}

// Cells of one server run one after the other: on its track each begins where the
// one before it ended, the first when the server is up.
func TestCellsOfATaskFollowOneAnother(t *testing.T) {
	b, err := Read([]event.Event{
		at(0, event.ApplyStarted, "", "", ""),
		at(1, event.NodeStarted, "one", "T", ""), at(1, event.NodeStarted, "two", "T", ""), at(4, event.TaskUp, "one", "T", ""),
		at(10, event.NodeFinished, "two", "T", "ok"), at(12, event.NodeFinished, "one", "T", "ok"),
	}, of(map[string]Node{"one": {}, "two": {}})).Chrome()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		TraceEvents []struct {
			Name, Ph string
			Ts, Dur  int64
			Pid      int
		} `json:"traceEvents"`
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, e := range got.TraceEvents {
		if e.Ph == "X" && e.Pid == pidTasks {
			parts = append(parts, fmt.Sprintf("%s %d-%d", e.Name, e.Ts/1e6, (e.Ts+e.Dur)/1e6))
		}
	}
	if want := []string{"server start 1-4", "two 4-10", "one 10-12"}; !slices.Equal(parts, want) {
		t.Errorf("%v, want %v", parts, want)
	}
}

// A killed apply tells no ends.
func TestUnfinished(t *testing.T) {
	l := Read([]event.Event{at(0, event.ApplyStarted, "", "", ""), at(1, event.NodeStarted, "a", "T", ""), at(4, event.Killing, "", "", "")},
		of(nil))
	if len(l.Spans) != 1 || l.Spans[0].State != "unfinished" || l.Spans[0].Seconds() != 3 {
		t.Errorf("%+v", l.Spans)
	}
	if empty := Read(nil, nil); empty.Text() == "" || len(empty.Critical()) != 0 {
		t.Error("no events are no line")
	}
}
