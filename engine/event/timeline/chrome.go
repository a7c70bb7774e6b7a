package timeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// traceEvent is one entry of Chrome's trace format; times are microseconds.
type traceEvent struct {
	Name string            `json:"name"`
	Ph   string            `json:"ph"`
	Ts   int64             `json:"ts"`
	Dur  int64             `json:"dur,omitempty"`
	Pid  int               `json:"pid"`
	Tid  int               `json:"tid"`
	Args map[string]string `json:"args,omitempty"`
}

// The processes of a trace, which viewers show as groups of tracks.
const (
	pidTasks = 1
	pidGPUs  = 2
	pidQueue = 3
)

// Chrome is the line in the trace format that Chrome and Perfetto open: a track
// for each task (and for what ran in this process), on which its server's start
// comes before its nodes; one for each GPU, with who held it and where it idled;
// and one for each that waited in a queue while nothing but a place was missing.
func (l Line) Chrome() ([]byte, error) {
	var out []traceEvent
	micros := func(t time.Time) int64 { return t.Sub(l.From).Microseconds() }
	named := func(pid, tid int, kind, name string) {
		out = append(out, traceEvent{Name: kind, Ph: "M", Pid: pid, Tid: tid, Args: map[string]string{"name": name}})
	}
	named(pidTasks, 0, "process_name", "tasks")
	named(pidGPUs, 0, "process_name", "GPUs")
	named(pidQueue, 0, "process_name", "queue")
	tracks := map[string]int{}
	add := func(pid int, track, name string, from, to time.Time, args map[string]string) {
		id, ok := tracks[track]
		if !ok {
			id = len(tracks) + 1
			tracks[track] = id
			named(pid, id, "thread_name", track)
		}
		out = append(out, traceEvent{Name: name, Ph: "X", Ts: micros(from), Dur: max(1, to.Sub(from).Microseconds()), Pid: pid, Tid: id, Args: args})
	}
	drawn := map[string]time.Time{} // by task, up to where
	for _, i := range l.byEnd() {
		s := l.Spans[i]
		track := cmp.Or(s.Task, "in this process: "+s.Node) // functions run side by side
		part := func(name string, from, to time.Time, args map[string]string) {
			add(pidTasks, track, name, from, to, args)
			for _, g := range l.nodes[i].GPUs {
				add(pidGPUs, "GPU "+g, name, from, to, nil)
			}
		}
		from, begun := drawn[s.Task]
		if !begun || s.Task == "" {
			from = s.From
			if ready := l.ready(i); from.Sub(ready) >= queued {
				_, why := l.before(i)
				add(pidQueue, "queue: "+track, s.Node, ready, from, map[string]string{"until": why})
			}
			if !s.Up.IsZero() {
				part("server start", from, s.Up, nil)
				from = s.Up
			}
		}
		part(s.Node, from, s.To, map[string]string{"state": s.State, "task": s.Task})
		drawn[s.Task] = s.To
	}
	for _, i := range l.Idles() {
		add(pidGPUs, "GPU "+i.GPU, "idle", i.From, i.To, map[string]string{"why": i.Why})
	}
	b, err := json.Marshal(map[string]any{"displayTimeUnit": "ms", "traceEvents": out})
	if err != nil {
		return nil, fmt.Errorf("writing trace: %w", err)
	}
	return append(b, '\n'), nil
}

// queued is the shortest wait that is drawn.
const queued = time.Millisecond

// byEnd are the spans in the order of their ends: a task's nodes run one after
// the other, and the events tell only when each has ended.
func (l Line) byEnd() []int {
	order := make([]int, len(l.Spans))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return l.Spans[a].To.Compare(l.Spans[b].To) })
	return order
}
