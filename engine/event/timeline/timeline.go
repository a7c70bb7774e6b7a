// Package timeline reads the events of one apply as time: who ran when, the
// path that made it as long as it was, and why GPUs idled. It knows events and
// what the caller says of nodes; it reads no file and no clock.
package timeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/event"
)

// Span is one run of a node; a retried node has several.
type Span struct {
	Node, Task, State string
	From, To          time.Time
}

// Seconds is how long it ran.
func (s Span) Seconds() float64 { return s.To.Sub(s.From).Seconds() }

// Facts say what the events do not.
type Facts struct {
	Needs func(node string) []string // inputs and orders
	GPUs  func(node string) []string
}

// Line is an apply as time.
type Line struct {
	From, To time.Time
	Spans    []Span // by start
	facts    Facts
}

// Read makes a line of an apply's events, in their order. A node whose end is
// not told, because the apply was killed, runs until the last event.
func Read(events []event.Event, f Facts) Line {
	l := Line{facts: f}
	open := map[string]Span{}
	for i, e := range events {
		if i == 0 {
			l.From = e.Time
		}
		l.To = e.Time
		s, running := open[e.Node]
		switch e.Type {
		case event.NodeStarted:
			open[e.Node] = Span{Node: e.Node, Task: e.Task, From: e.Time}
		case event.NodeFinished, event.NodeRetry:
			if running {
				s.To, s.State = e.Time, cmp.Or(e.State, "retry")
				l.Spans = append(l.Spans, s)
				delete(open, e.Node)
			}
		}
	}
	for _, s := range open {
		s.To, s.State = l.To, "unfinished"
		l.Spans = append(l.Spans, s)
	}
	slices.SortFunc(l.Spans, func(a, b Span) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Node, b.Node)) })
	return l
}

// Step is one span of the critical path, and what it waited for before.
type Step struct {
	Span
	Waited time.Duration // between the end of the step before and its start
	For    string        // "its input", "GPU 0", "the host", "" at the first
}

// Critical is the path that made the apply as long as it was: the span that
// ended last, before it the one that it waited for longest, and so on.
func (l Line) Critical() []Step {
	var path []Step
	at := l.last(l.To)
	for at != nil {
		step := Step{Span: *at}
		before, why := l.before(*at)
		if before != nil {
			step.Waited, step.For = at.From.Sub(before.To), why
		} else {
			step.Waited = at.From.Sub(l.From)
		}
		path = append(path, step)
		at = before
	}
	slices.Reverse(path)
	return path
}

// last is the span that ended last, not after a time.
func (l Line) last(limit time.Time) *Span {
	var out *Span
	for i := range l.Spans {
		if s := &l.Spans[i]; !s.To.After(limit) && (out == nil || s.To.After(out.To)) {
			out = s
		}
	}
	return out
}

// before is the span that ended last among those that this one had to wait for:
// its inputs, and who held its GPUs or its task; nil if it waited for none.
func (l Line) before(s Span) (*Span, string) {
	needs, gpus := l.facts.Needs(s.Node), l.facts.GPUs(s.Node)
	var out *Span
	why := ""
	for i := range l.Spans {
		o := &l.Spans[i]
		if o.To.After(s.From) || !o.From.Before(s.From) || out != nil && !o.To.After(out.To) {
			continue
		}
		reason := ""
		switch {
		case slices.Contains(needs, o.Node):
			reason = "its input"
		case shared(gpus, l.facts.GPUs(o.Node)) != "":
			reason = "GPU " + shared(gpus, l.facts.GPUs(o.Node))
		default:
			continue
		}
		out, why = o, reason
	}
	return out, why
}

func shared(a, b []string) string {
	for _, x := range a {
		if slices.Contains(b, x) {
			return x
		}
	}
	return ""
}

// Idle is a stretch in which a GPU of the apply had nothing to do.
type Idle struct {
	GPU      string
	From, To time.Time
	Why      string
}

// Idles lists where each GPU idled, by GPU and time, with what ran meanwhile or
// was waited for. GPUs that no node of the apply had are not known of.
func (l Line) Idles() []Idle {
	busy := map[string][]Span{}
	for _, s := range l.Spans {
		for _, g := range l.facts.GPUs(s.Node) {
			busy[g] = append(busy[g], s)
		}
	}
	var out []Idle
	for _, g := range sortedKeys(busy) {
		at := l.From
		for _, s := range busy[g] {
			if s.From.After(at) {
				out = append(out, Idle{g, at, s.From, l.why(at, s)})
			}
			if s.To.After(at) {
				at = s.To
			}
		}
		if l.To.After(at) {
			out = append(out, Idle{g, at, l.To, "nothing that needs it was left"})
		}
	}
	return out
}

// why says what a span's start waited for since a time.
func (l Line) why(since time.Time, next Span) string {
	for i := len(l.Spans) - 1; i >= 0; i-- {
		s := l.Spans[i]
		if s.To.After(since) && !s.To.After(next.From) && slices.Contains(l.facts.Needs(next.Node), s.Node) {
			return next.Node + " waited for " + s.Node
		}
	}
	var ran []string
	for _, s := range l.Spans {
		if s.From.Before(next.From) && s.To.After(since) && s.Node != next.Node && len(ran) < 3 {
			ran = append(ran, s.Node)
		}
	}
	if len(ran) > 0 {
		return next.Node + " waited while " + strings.Join(ran, ", ") + " ran"
	}
	return "between tasks, before " + next.Node
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Text is the line for people: the critical path, then each GPU's share and its
// idle stretches.
func (l Line) Text() string {
	var b strings.Builder
	total := l.To.Sub(l.From)
	fmt.Fprintf(&b, "Apply of %s took %s.\nCritical path:\n", l.From.UTC().Format(time.RFC3339), round(total))
	for _, s := range l.Critical() {
		fmt.Fprintf(&b, "  %8s  %s", round(s.To.Sub(s.From)), s.Node)
		if s.State != "ok" {
			fmt.Fprintf(&b, "  (%s)", s.State)
		}
		if s.Waited > 0 && s.For != "" {
			fmt.Fprintf(&b, "  after %s for %s", round(s.Waited), s.For)
		} else if s.Waited > 0 {
			fmt.Fprintf(&b, "  %s after the start", round(s.Waited))
		}
		b.WriteByte('\n')
	}
	idle := map[string]time.Duration{}
	idles := l.Idles()
	for _, i := range idles {
		idle[i.GPU] += i.To.Sub(i.From)
	}
	gpus := map[string]bool{}
	for _, s := range l.Spans {
		for _, g := range l.facts.GPUs(s.Node) {
			gpus[g] = true
		}
	}
	for _, g := range sortedKeys(gpus) {
		fmt.Fprintf(&b, "GPU %s: busy %.0f %% of the time.\n", g, 100*(1-idle[g].Seconds()/max(total.Seconds(), 1e-9)))
		for _, i := range idles {
			if i.GPU == g {
				fmt.Fprintf(&b, "  idle %8s  %s\n", round(i.To.Sub(i.From)), i.Why)
			}
		}
	}
	return b.String()
}

func round(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }

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
)

// Chrome is the line in the trace format that Chrome and Perfetto open: a track
// for each task (and for what ran in this process), and one for each GPU with
// who held it and where it idled.
func (l Line) Chrome() ([]byte, error) {
	var out []traceEvent
	named := func(pid, tid int, kind, name string) {
		out = append(out, traceEvent{Name: kind, Ph: "M", Pid: pid, Tid: tid, Args: map[string]string{"name": name}})
	}
	named(pidTasks, 0, "process_name", "tasks")
	named(pidGPUs, 0, "process_name", "GPUs")
	micros := func(t time.Time) int64 { return t.Sub(l.From).Microseconds() }
	tracks := map[string]int{}
	add := func(pid, tid int, name string, from, to time.Time, args map[string]string) {
		out = append(out, traceEvent{Name: name, Ph: "X", Ts: micros(from), Dur: max(1, to.Sub(from).Microseconds()), Pid: pid, Tid: tid, Args: args})
	}
	track := func(pid int, name string) int {
		id, ok := tracks[name]
		if !ok {
			id = len(tracks) + 1
			tracks[name] = id
			named(pid, id, "thread_name", name)
		}
		return id
	}
	for _, s := range l.Spans {
		name := s.Task
		if name == "" {
			name = "in this process: " + s.Node // functions run side by side
		}
		add(pidTasks, track(pidTasks, name), s.Node, s.From, s.To, map[string]string{"state": s.State, "task": s.Task})
		for _, g := range l.facts.GPUs(s.Node) {
			add(pidGPUs, track(pidGPUs, "GPU "+g), s.Node, s.From, s.To, nil)
		}
	}
	for _, i := range l.Idles() {
		add(pidGPUs, track(pidGPUs, "GPU "+i.GPU), "idle", i.From, i.To, map[string]string{"why": i.Why})
	}
	b, err := json.Marshal(map[string]any{"displayTimeUnit": "ms", "traceEvents": out})
	if err != nil {
		return nil, fmt.Errorf("writing trace: %w", err)
	}
	return append(b, '\n'), nil
}
