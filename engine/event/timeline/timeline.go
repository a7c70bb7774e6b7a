// Package timeline reads the events of one apply as time: who ran when, the
// path that made it as long as it was, and why GPUs idled. It knows events and
// what the caller says of nodes; it reads no file and no clock.
package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/event"
)

// Span is one run of a node; a retried node has several. Nodes of one task all
// run from its start.
type Span struct {
	Node  string    `json:"node"`
	Task  string    `json:"task,omitempty"`
	State string    `json:"state"`
	From  time.Time `json:"from"`
	Up    time.Time `json:"up,omitzero"` // when its task's servers had come up; zero without any
	To    time.Time `json:"to"`
	step  int       // of the apply: one waits for the whole one before it
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
	steps    []time.Time      // the starts of the apply's steps
	runs     map[string][]int // the spans of a node
	tasks    map[string][]int // the spans of a task
}

// fact is what is known of a span's node.
type fact struct {
	Node
	known bool
}

// Read makes a line of an apply's events, in their order. A node whose end is
// not told, because the apply was killed, runs until the last event.
func Read(events []event.Event, f Facts) Line {
	l := Line{runs: map[string][]int{}, tasks: map[string][]int{}}
	open := map[string]Span{}
	for i, e := range events {
		if i == 0 {
			l.From = e.Time
		}
		l.To = e.Time
		s, running := open[e.Node]
		switch e.Type {
		case event.ApplyStarted:
			l.steps = append(l.steps, e.Time)
		case event.ApplyFinished:
			l.counts = e.Counts
		case event.NodeStarted:
			open[e.Node] = Span{Node: e.Node, Task: e.Task, From: e.Time, step: len(l.steps)}
		case event.TaskUp:
			for node, s := range open {
				if s.Task == e.Task {
					s.Up = e.Time
					open[node] = s
				}
			}
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
	for i, s := range l.Spans {
		n, known := f(s.Node)
		l.nodes = append(l.nodes, fact{n, known})
		l.runs[s.Node] = append(l.runs[s.Node], i)
		if s.Task != "" {
			l.tasks[s.Task] = append(l.tasks[s.Task], i)
		}
	}
	return l
}

// Step is one span of the critical path, and what it waited for before.
type Step struct {
	Span
	Waited time.Duration `json:"waited_ns"`       // between the end of the span before and its start
	For    string        `json:"until,omitempty"` // what came with that end: "its input was there", "GPU 0 was free"; "" at the first
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
	needs, after := l.wants(at)
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

// wants are the inputs of a span's node and of all that share its task, and what
// has its turn before them.
func (l Line) wants(at int) (needs, after map[string]bool) {
	needs, after = map[string]bool{}, map[string]bool{}
	same := []int{at}
	if task := l.Spans[at].Task; task != "" {
		same = l.tasks[task]
	}
	for _, i := range same {
		add(needs, l.nodes[i].Needs)
		add(after, l.nodes[i].After)
	}
	return needs, after
}

// ready is when a span could have started, had its GPUs, its host and a slot been
// free: the last of its inputs was there, and its turn had come.
func (l Line) ready(at int) time.Time {
	s, out := l.Spans[at], l.From
	if s.step > 0 {
		out = l.steps[s.step-1]
	}
	needs, after := l.wants(at)
	needs[s.Node] = true // which was tried before
	for _, names := range []map[string]bool{needs, after} {
		for node := range names {
			for _, i := range l.runs[node] {
				if to := l.Spans[i].To; to.After(out) && !to.After(s.From) {
					out = to
				}
			}
		}
	}
	return out
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
	GPU  string    `json:"gpu"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Why  string    `json:"why"`
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

// DocumentVersion is the version of Document's JSON form.
const DocumentVersion = 1

// Document is a line for machines.
type Document struct {
	V        int       `json:"v"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Critical []Step    `json:"critical"`
	Idle     []Idle    `json:"idle"`
	Spans    []Span    `json:"spans"`
}

// Document is the line's form for machines.
func (l Line) Document() Document {
	return Document{
		V: DocumentVersion, From: l.From, To: l.To,
		Critical: append([]Step{}, l.Critical()...), Idle: append([]Idle{}, l.Idles()...), Spans: append([]Span{}, l.Spans...),
	}
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
		if !s.Up.IsZero() {
			fmt.Fprintf(&b, "; %s until its server was up", round(s.Up.Sub(s.From)))
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
		share := func(d time.Duration) float64 { return 100 * d.Seconds() / max(total.Seconds(), 1e-9) }
		fmt.Fprintf(&b, "GPU %s: busy %.0f %% of the time", g, share(total-idle[g]))
		if up := l.comingUp(g); up > 0 {
			fmt.Fprintf(&b, ", %.0f %% while servers came up", share(up))
		}
		b.WriteString(".\n")
		for _, i := range idles {
			if i.GPU == g && round(i.To.Sub(i.From)) != round(0) {
				fmt.Fprintf(&b, "  idle %8s  %s\n", round(i.To.Sub(i.From)), i.Why)
			}
		}
	}
	return b.String()
}

// comingUp is how long servers that hold a GPU took to come up.
func (l Line) comingUp(gpu string) time.Duration {
	var sum time.Duration
	for _, same := range l.tasks {
		if s := l.Spans[same[0]]; !s.Up.IsZero() && slices.Contains(l.nodes[same[0]].GPUs, gpu) {
			sum += s.Up.Sub(s.From)
		}
	}
	return sum
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
