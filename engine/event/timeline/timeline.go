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
	step              int // of the apply: one waits for the whole one before it
}

// Seconds is how long it ran.
func (s Span) Seconds() float64 { return s.To.Sub(s.From).Seconds() }

// Node is what the events do not say of a node.
type Node struct {
	Needs []string // inputs
	After []string // what has its turn before, and is no input
	GPUs  []string
	Quiet bool // alone on the host
}

// Facts are by address; false is a node that nothing is known of any more.
type Facts func(node string) (Node, bool)

// Line is an apply as time.
type Line struct {
	From, To time.Time
	Spans    []Span // by start
	nodes    []fact // of the spans
	counts   map[string]int
}

// fact is what is known of a span's node.
type fact struct {
	Node
	known bool
}

// Read makes a line of an apply's events, in their order. A node whose end is
// not told, because the apply was killed, runs until the last event.
func Read(events []event.Event, f Facts) Line {
	var l Line
	step := 0
	open := map[string]Span{}
	for i, e := range events {
		if i == 0 {
			l.From = e.Time
		}
		l.To = e.Time
		s, running := open[e.Node]
		switch e.Type {
		case event.ApplyStarted:
			step++
		case event.ApplyFinished:
			l.counts = e.Counts
		case event.NodeStarted:
			open[e.Node] = Span{Node: e.Node, Task: e.Task, From: e.Time, step: step}
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
	for _, s := range l.Spans {
		n, known := f(s.Node)
		l.nodes = append(l.nodes, fact{n, known})
	}
	return l
}

// Step is one span of the critical path, and what it waited for before.
type Step struct {
	Span
	Waited time.Duration // between the end of the span before and its start
	For    string        // what came with that end: "its input was there", "GPU 0 was free"; "" at the first
}

// Critical is the path that made the apply as long as it was: the span that
// ended last, before it the one that it waited for longest, and so on.
func (l Line) Critical() []Step {
	var path []Step
	at := l.last()
	for at >= 0 {
		step := Step{Span: l.Spans[at]}
		before, why := l.before(at)
		if before >= 0 {
			step.Waited, step.For = step.From.Sub(l.Spans[before].To), why
		} else {
			step.Waited = step.From.Sub(l.From)
		}
		path = append(path, step)
		at = before
	}
	slices.Reverse(path)
	return path
}

// last is the index of the span that ended last, -1 of none.
func (l Line) last() int {
	out := -1
	for i, s := range l.Spans {
		if out < 0 || s.To.After(l.Spans[out].To) {
			out = i
		}
	}
	return out
}

// before is the span that ended last among those that a span had to wait for,
// and what its end brought: an input of it or of what shares its task, a GPU, the
// host, the end of a step of the apply; -1 if it waited for none.
func (l Line) before(at int) (int, string) {
	s := l.Spans[at]
	needs, after := map[string]bool{}, map[string]bool{}
	for i, o := range l.Spans {
		if i == at || o.Task == s.Task && s.Task != "" {
			add(needs, l.nodes[i].Needs)
			add(after, l.nodes[i].After)
		}
	}
	out, why, rank := -1, "", 0
	for i, o := range l.Spans {
		if o.To.After(s.From) || !o.From.Before(s.From) || out >= 0 && o.To.Before(l.Spans[out].To) {
			continue
		}
		reason, first := l.freed(i, at, needs, after)
		if reason == "" || out >= 0 && !o.To.After(l.Spans[out].To) && first >= rank {
			continue
		}
		out, why, rank = i, reason, first
	}
	return out, why
}

// freed is what the end of one span brought to another, "" for nothing, and how
// early it counts among others of the same moment.
func (l Line) freed(from, to int, needs, after map[string]bool) (string, int) {
	o, s, of, is := l.Spans[from], l.Spans[to], l.nodes[from], l.nodes[to]
	gpu := shared(is.GPUs, of.GPUs)
	switch {
	case o.step < s.step:
		return "the step before it was over", 0
	case o.Node == s.Node:
		return "it was tried again", 0
	case needs[o.Node]:
		return "its input was there", 1
	case after[o.Node]:
		return "its turn came", 1
	case gpu != "":
		return "GPU " + gpu + " was free", 2
	case is.Quiet || of.Quiet:
		return "the host was free", 3
	case !is.known:
		return "what ran before it was over", 4
	}
	return "", 0
}

func add(set map[string]bool, names []string) {
	for _, n := range names {
		set[n] = true
	}
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
	busy := map[string][]int{}
	for i := range l.Spans {
		for _, g := range l.nodes[i].GPUs {
			busy[g] = append(busy[g], i)
		}
	}
	var out []Idle
	for _, g := range sortedKeys(busy) {
		at := l.From
		for _, i := range busy[g] {
			s := l.Spans[i]
			if s.From.After(at) {
				out = append(out, Idle{g, at, s.From, l.why(at, i)})
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
func (l Line) why(since time.Time, at int) string {
	next := l.Spans[at]
	for i := len(l.Spans) - 1; i >= 0; i-- {
		s := l.Spans[i]
		if s.To.After(since) && !s.To.After(next.From) && (slices.Contains(l.nodes[at].Needs, s.Node) || slices.Contains(l.nodes[at].After, s.Node)) {
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
	fmt.Fprintf(&b, "Apply of %s took %s.\n", l.From.UTC().Format(time.RFC3339), round(total))
	if len(l.Spans) == 0 {
		return b.String() + l.idle()
	}
	b.WriteString("Critical path:\n")
	for _, s := range l.Critical() {
		fmt.Fprintf(&b, "  %8s  %s", round(s.To.Sub(s.From)), s.Node)
		if s.State != "ok" {
			fmt.Fprintf(&b, "  (%s)", s.State)
		}
		switch waited := round(s.Waited); {
		case s.For == "" && s.Waited > 0:
			fmt.Fprintf(&b, "  %s after the start", waited)
		case s.For != "" && waited != round(0):
			fmt.Fprintf(&b, "  %s after %s", waited, s.For)
		case s.For != "":
			fmt.Fprintf(&b, "  when %s", s.For)
		}
		b.WriteByte('\n')
	}
	idle := map[string]time.Duration{}
	idles := l.Idles()
	for _, i := range idles {
		idle[i.GPU] += i.To.Sub(i.From)
	}
	gpus := map[string]bool{}
	for _, n := range l.nodes {
		for _, g := range n.GPUs {
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

// idle says why an apply has no path.
func (l Line) idle() string {
	var parts []string
	for _, name := range []string{"cached", "failed", "blocked", "left", "cancelled"} {
		if n := l.counts[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, name))
		}
	}
	if parts == nil {
		return "Nothing ran.\n"
	}
	return "Nothing ran: " + strings.Join(parts, ", ") + ".\n"
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
	for i, s := range l.Spans {
		name := s.Task
		if name == "" {
			name = "in this process: " + s.Node // functions run side by side
		}
		add(pidTasks, track(pidTasks, name), s.Node, s.From, s.To, map[string]string{"state": s.State, "task": s.Task})
		for _, g := range l.nodes[i].GPUs {
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
