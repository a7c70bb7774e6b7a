package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// examples has one event of each type, with every field that the type names.
func examples() []Event {
	at := func(ms int) time.Time { return time.Date(2026, 3, 4, 5, 6, 7, ms*1e6+1, time.UTC) }
	const bench = `bench.vllm["max_num_seqs=128"].chat`
	events := []Event{
		{Type: ApplyStarted, Counts: map[string]int{"new": 3, "cached": 2}, Text: "qwen"},
		{Type: NodeStarted, Node: bench, Kind: "bench", Attempt: 1, Task: "r1-ab-1"},
		{Type: NodeFinished, Node: bench, State: "failed", Class: "oom", Reason: "CUDA out of memory", Seconds: 81.5, Log: "/tasks/r1-ab-1/logs"},
		{Type: NodeCached, Node: "winners.chat", By: "winners.talk"},
		{Type: NodeBlocked, Node: "report", By: "help.vllm", Reason: "no_help"},
		{Type: NodeRetry, Node: bench, Attempt: 2, Class: "unhealthy", Reason: "not healthy within 600 s"},
		{Type: TaskStarted, Task: "r1-ab-1", Executor: "local", Node: bench, Log: "/tasks/r1-ab-1/logs"},
		{Type: TaskUp, Task: "r1-ab-1", Node: bench, Seconds: 74.5},
		{Type: TaskAdopted, Task: "r0-cd-7"},
		{Type: TaskReaped, Task: "r0-cd-7", Text: "was running"},
		{Type: Draining},
		{Type: TaskDraining, Task: "r1-ab-1", Node: bench, Counts: map[string]int{"left": 5}},
		{Type: TaskDraining, Task: "r1-ab-2", Text: "the daemon does not answer"},
		{Type: Killing},
		{Type: Warning, Text: "the host's clock went back", Node: bench},
		{Type: ApplyFinished, Counts: map[string]int{"ok": 3, "cached": 2}, Seconds: 93.25},
	}
	for i := range events {
		events[i].Time, events[i].Run = at(i), "r1"
	}
	return events
}

func TestEachTypeHasItsPinnedForm(t *testing.T) {
	var out bytes.Buffer
	lines := Lines{To: &out}
	for _, e := range examples() {
		lines.Event(e)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "events.jsonl")
	if os.Getenv("SOTABUILD_UPDATE") == "1" {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), out.String()); d != "" {
		t.Errorf("the JSON form moved (-want +got); a changed meaning raises Version:\n%s", d)
	}
}

func TestNoTypeIsMissingFromTheGolden(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[Type]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			if id, ok := v.Type.(*ast.Ident); ok && id.Name == "Type" {
				s, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				declared[Type(s)] = true
			}
		}
		return true
	})
	shown := map[Type]bool{}
	for _, e := range examples() {
		shown[e.Type] = true
	}
	if d := cmp.Diff(declared, shown); d != "" {
		t.Errorf("types declared and shown differ:\n%s", d)
	}
}

func TestALineReadsBackAsTheEvent(t *testing.T) {
	for _, e := range examples() {
		var out bytes.Buffer
		lines := Lines{To: &out}
		lines.Event(e)
		var got Event
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		e.V = Version
		if d := cmp.Diff(e, got); d != "" {
			t.Errorf("%s:\n%s", e.Type, d)
		}
	}
}

// full takes n writes and fails then, as a disk does.
type full struct {
	n   int
	out bytes.Buffer
}

var errFull = errors.New("no space left on device")

func (f *full) Write(p []byte) (int, error) {
	if f.n--; f.n < 0 {
		return 0, errFull
	}
	return f.out.Write(p)
}

func TestAFailedWriteIsKeptAndEndsTheOutput(t *testing.T) {
	disk := full{n: 1}
	lines := Lines{To: &disk}
	lines.Event(Event{Type: Draining})
	lines.Event(Event{Type: Killing})
	disk.n = 5 // Space again: the stream must not go on with a hole.
	lines.Event(Event{Type: ApplyFinished})
	if !errors.Is(lines.Err(), errFull) {
		t.Errorf("Err = %v, want the disk's error", lines.Err())
	}
	if got := bytes.Count(disk.out.Bytes(), []byte("\n")); got != 1 {
		t.Errorf("%d lines were written, want the first alone: %s", got, &disk.out)
	}
}

func TestANumberWithoutJSONFormIsAnError(t *testing.T) {
	var out bytes.Buffer
	lines := Lines{To: &out}
	lines.Event(Event{Type: NodeFinished, Seconds: math.NaN()})
	if lines.Err() == nil || out.Len() != 0 {
		t.Errorf("Err = %v with output %q, want an error and no output", lines.Err(), &out)
	}
}
