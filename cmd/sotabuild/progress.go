package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/engine/sched/work"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// progress shows a run: on a terminal a list of what runs now below the lines
// of what has finished, elsewhere plain lines, with --json the events
// themselves. One mutex guards it: events come from the scheduler, ticks from
// the clock.
type progress struct {
	w       io.Writer
	st      style
	json    bool
	live    bool
	mu      sync.Mutex
	running []running
	folders map[string]string // of tasks that run and have a server, by task
	drawn   int               // lines
	total   int               // nodes that the plan does not have yet
	done    int               // of them
	began   time.Time         // the step of the apply
	ticker  *time.Ticker
	stop    chan struct{}
	stopped sync.WaitGroup
}

type running struct {
	node, task string
	since      time.Time
}

func newProgress(a *app, s *session) *progress {
	p := &progress{w: a.out, st: a.style(a.out), json: a.json, folders: map[string]string{}, stop: make(chan struct{})}
	p.live = !a.json && redraws(a.out)
	if p.live {
		p.ticker = time.NewTicker(200 * time.Millisecond)
		p.stopped.Add(1)
		go p.tick()
	}
	return p
}

func (p *progress) tick() {
	defer p.stopped.Done()
	for {
		select {
		case <-p.ticker.C:
			p.mu.Lock()
			p.erase()
			p.draw()
			p.mu.Unlock()
		case <-p.stop:
			return
		}
	}
}

// close leaves the terminal as it found it.
func (p *progress) close() {
	close(p.stop)
	p.stopped.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		p.ticker.Stop()
		p.erase()
	}
}

// event is the scheduler's sink.
func (p *progress) event(e event.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(e)
	if p.json {
		b, err := json.Marshal(e)
		if err != nil {
			panic("event cannot be written as JSON: " + err.Error())
		}
		fmt.Fprintf(p.w, "%s\n", b)
		return
	}
	p.erase()
	p.line(e)
	p.draw()
}

// unsaid is an event that the screen has nothing more to say about.
func (p *progress) unsaid(e event.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(e)
}

// count keeps how many nodes are done: those that ended, that need not run after
// all, or that never will in this apply. What was left to the next one is not.
func (p *progress) count(e event.Event) {
	switch {
	case e.Type == event.ApplyStarted:
		p.total, p.done, p.began = 0, 0, e.Time
		for _, verdict := range []string{"new", "stale", "later", "blocked"} {
			p.total += e.Counts[verdict]
		}
	case e.Type == event.NodeCached || e.Type == event.NodeBlocked || e.Type == event.NodeFinished && e.State != "cancelled":
		p.done++
	}
}

// line prints what an event means to a person, if anything.
func (p *progress) line(e event.Event) {
	switch e.Type {
	case event.NodeStarted:
		p.running = append(p.running, running{e.Node, e.Task, e.Time})
	case event.TaskStarted:
		if dir := filepath.Dir(e.Log); p.live && serving(dir) {
			p.folders[e.Task] = dir
		}
		p.print("▶ ", e.Node, "started, logs in "+relative(e.Log))
	case event.NodeFinished:
		p.drop(e.Node, e.Time)
		mark, text := p.st.green("✓"), fmt.Sprintf("%.1f s", e.Seconds)
		switch e.State {
		case "ok":
		case "cancelled":
			mark, text = notRun(p.st, e)
		default:
			mark, text = p.st.red("✗"), fmt.Sprintf("%s: %s", e.Class, e.Reason)
		}
		p.print(mark+" ", e.Node, text)
	case event.NodeCached:
		text := "same inputs after all, kept"
		if e.By != "" {
			text = "has the result of " + e.By + ": the same inputs"
		}
		p.print(p.st.dim("= "), e.Node, text)
	case event.NodeBlocked:
		text := "blocked by " + e.By
		if e.By == e.Node {
			text = "blocked: " + e.Reason
		}
		p.print(p.st.red("! "), e.Node, text)
	case event.NodeRetry:
		p.drop(e.Node, e.Time)
		p.print(p.st.yellow("↻ "), e.Node, fmt.Sprintf("attempt %d after %s: %s", e.Attempt, e.Class, e.Reason))
	case event.TaskAdopted:
		p.print(p.st.yellow("↺ "), e.Task, "left by an earlier run; its finished steps are kept")
	case event.TaskReaped:
		p.print(p.st.yellow("↺ "), e.Task, e.Text)
	case event.Draining:
		p.print(p.st.yellow("! "), "interrupt", "what runs now finishes, nothing more begins; once more to stop it")
	case event.TaskDraining:
		p.print(p.st.yellow("! "), cmp.Or(e.Node, e.Task), draining(e))
	case event.Killing:
		p.print(p.st.yellow("! "), "interrupt", "stopping what runs; once more to leave at once")
	case event.Warning:
		p.print(p.st.yellow("! "), e.Node, "warning: "+e.Text)
	}
}

// draining says what becomes of a task that was asked to end.
func draining(e event.Event) string {
	left := e.Counts["left"]
	switch {
	case e.Text != "":
		return e.Text
	case e.Node == "":
		return "ends; left to the next apply: " + result.Count(left, "node")
	case left == 0:
		return "finishes; it is the last of its task"
	}
	return "finishes; left to the next apply: " + result.Count(left, "more node") + " of its task"
}

// notRun is the mark and the words of a node that came to no end.
func notRun(st style, e event.Event) (mark, text string) {
	switch {
	case e.Class == sched.LeftOut:
		return st.yellow("○"), "left by the budget: " + e.Reason
	case e.Class == "" && e.Reason == "":
		return st.yellow("○"), "not started"
	case e.Reason == work.Left:
		return st.yellow("○"), e.Reason
	}
	return st.yellow("■"), cmp.Or(e.Reason, e.Class)
}

func (p *progress) print(mark, node, text string) {
	fmt.Fprintf(p.w, "%s%s  %s\n", mark, node, p.st.dim(oneLine(text)))
}

// drop takes a node from the list. The next one of its task begins when it ended.
func (p *progress) drop(node string, now time.Time) {
	at := slices.IndexFunc(p.running, func(r running) bool { return r.node == node })
	if at < 0 {
		return
	}
	task := p.running[at].task
	p.running = slices.Delete(p.running, at, at+1)
	if next := slices.IndexFunc(p.running, func(r running) bool { return r.task == task }); task != "" && next >= 0 {
		p.running[next].since = now
	}
}

// erase and draw keep the list of running nodes at the bottom of a terminal. What
// was typed meanwhile, such as a Ctrl-C, may have moved the cursor.
func (p *progress) erase() {
	if p.drawn > 0 {
		fmt.Fprintf(p.w, "\r\x1b[%dA\x1b[J", p.drawn)
		p.drawn = 0
	}
}

func (p *progress) draw() {
	if !p.live || p.done >= p.total {
		return
	}
	cols, lines := width(p.w), p.lines()
	if most := max(1, height(p.w)-2); len(lines) > most { // what has left the screen cannot be drawn again
		rest := len(lines) - most + 1
		lines = append(lines[:most-1], fmt.Sprintf("  … and %d more", rest))
	}
	lines = append(lines, fmt.Sprintf("  %d of %s done, %s", p.done, result.Count(p.total, "node"), time.Since(p.began).Round(time.Second)))
	for _, l := range lines {
		fmt.Fprintln(p.w, clip(l, cols))
	}
	p.drawn = len(lines)
}

// lines are a line for each running node.
func (p *progress) lines() []string {
	var lines []string
	seen := map[string]bool{}
	for _, r := range p.running {
		stage := ""
		if dir, ok := p.folders[r.task]; ok {
			stage = phase(dir, !seen[r.task])
			seen[r.task] = true
		}
		lines = append(lines, fmt.Sprintf("  %s  %s  %s", r.node, time.Since(r.since).Round(time.Second), stage))
	}
	return lines
}

// clip cuts a line to the width, so that it never wraps.
func clip(s string, cols int) string {
	r := []rune(s)
	if len(r) < cols {
		return s
	}
	return string(r[:max(0, cols-2)]) + "…"
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// width is the terminal's, or 120 where there is none.
func width(w io.Writer) int {
	if f, ok := file(w); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return 120
}
