// Package profile records the steps of tinyserve's engine and writes them as a
// Chrome trace of the form that torch's profiler writes, so that what reads a
// real server's traces reads these.
//
// All times are measured on the machine's monotonic clock. A "kernel" is one of
// the server's own functions on the CPU, and what stands for its launch is the
// time that the step spent between the function before and this one. There is
// no device, and the trace's device name says so.
//
// With shapes each function also has an operator around it, with the shapes of
// its inputs; without, a trace has what one of a server that replays GPU graphs
// has: launches and kernels.
//
// A Recorder may be used by many goroutines; a Step belongs to the one that
// computes it.
package profile

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// maxSteps bounds the memory of a recording that nobody ends: some 40 records
// a step. Later steps are counted and not kept.
const maxSteps = 10_000

// Recorder keeps the steps of one recording.
type Recorder struct {
	began  time.Time
	shapes bool // operators and their shapes are written

	mu      sync.Mutex // guards what follows
	steps   []*Step
	dropped int
}

// New begins a recording.
func New(shapes bool) *Recorder { return &Recorder{began: time.Now(), shapes: shapes} }

// Step is one step that is being computed.
type Step struct {
	rec       *Recorder
	name      string
	start     time.Time
	end, last time.Time
	laps      []lap
	pause     time.Time // end of the lap before, as it was measured
}

// lap is one function: called, begun, ended.
type lap struct {
	op, kernel         string
	shapes             [][2]int
	called, start, end time.Time
}

// Begin begins a step.
func (r *Recorder) Begin(name string) *Step {
	now := time.Now()
	return &Step{rec: r, name: name, start: now, pause: now, last: time.Now()}
}

// Lap says that a function has just ended. It began when the lap before was
// written down.
func (s *Step) Lap(op, kernel string, shapes ...[2]int) {
	end := time.Now()
	s.laps = append(s.laps, lap{op, kernel, shapes, s.pause, s.last, end})
	s.pause, s.last = end, time.Now()
}

// End keeps the step.
func (s *Step) End() {
	s.end = time.Now()
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	if len(s.rec.steps) == maxSteps {
		s.rec.dropped++
		return
	}
	s.rec.steps = append(s.rec.steps, s)
}

// event is one complete event of the trace. Times are microseconds from the
// beginning of the recording.
type event struct {
	Phase    string         `json:"ph"`
	Category string         `json:"cat"`
	Name     string         `json:"name"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Start    json.Number    `json:"ts"`
	Duration json.Number    `json:"dur"`
	Args     map[string]any `json:"args,omitempty"`
}

// device is the number of the only one, stream that of its only stream.
const device, stream = 0, 7

func (r *Recorder) events() []event {
	host := os.Getpid()
	var out []event
	add := func(category, name string, process, thread int, from, to time.Time, args map[string]any) {
		out = append(out, event{"X", category, name, process, thread, micros(from.Sub(r.began)), micros(to.Sub(from)), args})
	}
	id := 0
	for _, s := range r.steps {
		add("user_annotation", s.name, host, host, s.start, s.end, nil)
		for _, l := range s.laps {
			id++
			if r.shapes {
				add("cpu_op", "tinyserve::"+l.op, host, host, l.called, l.end,
					map[string]any{"External id": id, "Input Dims": l.shapes, "Input type": slices.Repeat([]string{"float"}, len(l.shapes))})
			}
			add("cuda_runtime", "tinyserveLaunchKernel", host, host, l.called, l.start, map[string]any{"External id": id, "correlation": id})
			add("kernel", l.kernel, device, stream, l.start, l.end,
				map[string]any{"External id": id, "correlation": id, "device": device, "stream": stream})
		}
	}
	return out
}

// micros writes a duration as microseconds, exact to the nanosecond.
func micros(d time.Duration) json.Number {
	return json.Number(fmt.Sprintf("%d.%03d", d.Nanoseconds()/1000, d.Nanoseconds()%1000))
}

// Write writes the trace to a new file of dir, which it makes, and returns the
// file's path. The name appears when the file is complete.
func (r *Recorder) Write(dir string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	doc := map[string]any{
		"schemaVersion":       1,
		"deviceProperties":    []any{map[string]any{"id": device, "name": "no device: functions of tinyserve on the CPU"}},
		"distributedInfo":     map[string]any{"rank": 0, "world_size": 1},
		"displayTimeUnit":     "ms",
		"baseTimeNanoseconds": r.began.UnixNano(),
		"steps_not_recorded":  r.dropped,
		"traceEvents":         r.events(),
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("writing trace: %w", err)
	}
	path := filepath.Join(dir, fmt.Sprintf("tinyserve.rank0.%d.pt.trace.json.gz", r.began.UnixNano()))
	f, err := os.CreateTemp(dir, ".trace-*")
	if err != nil {
		return "", fmt.Errorf("writing trace: %w", err)
	}
	z := gzip.NewWriter(f)
	err = errors.Join(json.NewEncoder(z).Encode(doc), z.Close(), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return "", fmt.Errorf("writing trace: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return path, nil
}
