package sample

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// Kernel is one kernel of a made-up trace. Times are nanoseconds.
type Kernel struct {
	Name       string
	Start, Dur int64
	Stream     int
	Launch     int64 // start of its launch; 0: 1 µs before Start
	Op, Dims   string
	Types      string
	Graph      bool // all kernels with Graph share one launch
}

// Step is one annotated step of a made-up trace, on the launching thread.
type Step struct {
	Name       string
	Start, End int64
}

// Make writes a trace file of the kernels and reads it.
func Make(t testing.TB, steps []Step, kernels []Kernel) *read.Trace {
	t.Helper()
	tr, err := read.Read(strings.NewReader(Text(t, steps, kernels)), "made-up.json")
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// Text is the file that Make reads.
func Text(t testing.TB, steps []Step, kernels []Kernel) string {
	t.Helper()
	var events []map[string]any
	us := func(ns int64) json.Number {
		b, err := json.Marshal(float64(ns) / 1000)
		if err != nil {
			t.Fatal(err)
		}
		return json.Number(b)
	}
	add := func(cat, name string, pid, tid int, start, dur int64, args map[string]any) {
		events = append(events, map[string]any{
			"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": us(start), "dur": us(dur), "args": args,
		})
	}
	for _, s := range steps {
		add("user_annotation", s.Name, 1, 1, s.Start, s.End-s.Start, nil)
	}
	graphAt := int64(0)
	for i, k := range kernels {
		id := 100 + i
		at := k.Launch
		if at == 0 {
			at = k.Start - 1000
		}
		switch {
		case k.Graph && graphAt != 0:
			id = 99
		case k.Graph:
			graphAt, id = at, 99
			add("cuda_runtime", "cudaGraphLaunch", 1, 1, at, 500, map[string]any{"correlation": id})
		default:
			add("cuda_runtime", "cudaLaunchKernel", 1, 1, at, 500, map[string]any{"correlation": id})
		}
		if k.Op != "" {
			var dims, types any
			if k.Dims != "" {
				dims = json.RawMessage(k.Dims)
			}
			if k.Types != "" {
				types = json.RawMessage(k.Types)
			}
			add("cpu_op", k.Op, 1, 1, at-100, 900, map[string]any{"External id": id, "Input Dims": dims, "Input type": types})
		}
		add("kernel", k.Name, 0, k.Stream, k.Start, k.Dur, map[string]any{"device": 0, "stream": k.Stream, "correlation": id})
	}
	b, err := json.Marshal(map[string]any{
		"schemaVersion": 1, "deviceProperties": []any{map[string]any{"id": 0, "name": "NVIDIA H200"}}, "traceEvents": events,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
