package timeline

import (
	"encoding/json"
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
// 14–24 (which failed once from 13.5 to 14), and a sum 24–30.
func apply() Line {
	return Read([]event.Event{
		at(0, event.ApplyStarted, "", "", ""),
		at(0, event.NodeStarted, "help", "T1", ""), at(2, event.NodeFinished, "help", "", "ok"),
		at(3, event.NodeStarted, "a", "T2", ""), at(13, event.NodeFinished, "a", "", "ok"),
		at(13.5, event.NodeStarted, "b", "T3", ""), at(14, event.NodeRetry, "b", "", ""),
		at(14, event.NodeStarted, "b", "T4", ""), at(24, event.NodeFinished, "b", "", "ok"),
		at(24, event.NodeStarted, "sum", "", ""), at(30, event.NodeFinished, "sum", "", "ok"),
		at(30, event.ApplyFinished, "", "", ""),
	}, Facts{
		Needs: func(n string) []string {
			return map[string][]string{"a": {"help"}, "b": {"help"}, "sum": {"a", "b"}}[n]
		},
		GPUs: func(n string) []string {
			if n == "a" || n == "b" {
				return []string{"0"}
			}
			return nil
		},
	})
}

func TestText(t *testing.T) {
	want := `Apply of 2026-11-30T12:00:00Z took 30s.
Critical path:
        2s  help
       10s  a  after 1s for its input
     500ms  b  (retry)  after 500ms for GPU 0
       10s  b
        6s  sum
GPU 0: busy 68 % of the time.
  idle       3s  a waited for help
  idle    500ms  between tasks, before b
  idle       6s  nothing that needs it was left
`
	if d := cmp.Diff(want, apply().Text()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
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
			sum[e.Name] += e.Dur
			if e.Ts < 0 || e.Ts+e.Dur > 30_000_000 {
				t.Errorf("%s lies at %d for %d, outside of the apply", e.Name, e.Ts, e.Dur)
			}
		}
	}
	// Cells stand on their task's track and on the GPU's.
	want := map[string]int64{"help": 2e6, "a": 20e6, "b": 21e6, "sum": 6e6, "idle": 9.5e6}
	if d := cmp.Diff(want, sum); d != "" {
		t.Errorf("microseconds by name (-want +got):\n%s", d)
	}
}

// A killed apply tells no ends.
func TestUnfinished(t *testing.T) {
	l := Read([]event.Event{at(0, event.ApplyStarted, "", "", ""), at(1, event.NodeStarted, "a", "T", ""), at(4, event.Killing, "", "", "")},
		Facts{Needs: func(string) []string { return nil }, GPUs: func(string) []string { return nil }})
	if len(l.Spans) != 1 || l.Spans[0].State != "unfinished" || l.Spans[0].Seconds() != 3 {
		t.Errorf("%+v", l.Spans)
	}
	if empty := Read(nil, Facts{}); empty.Text() == "" || len(empty.Critical()) != 0 {
		t.Error("no events are no line")
	}
}
