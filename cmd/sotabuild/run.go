package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/hoststate"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/campaign/show"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// run is one apply in progress.
type run struct {
	app       *app
	store     *cache.Local
	id        string
	interrupt <-chan struct{}
	started   time.Time
	budget    plan.Budget
	total     sched.Summary
	plan      *plan.Plan             // the last one
	ranBefore int                    // nodes that are cached in plan because this apply ran them
	ends      map[string]event.Event // the last word on each finished node
	unfound   []error                // loops that came to no answer
	unstarted []string               // loops of which the budget let no round start
	looked    bool                   // at the host, before the first task
	replaces  bool                   // it was told to run what is cached
	trace     string                 // where what ran when is written; "" is nowhere
	alone     bool                   // the graph is run without its rounds
}

// ask plans and runs what the plan of the rest needs to know.
func (r *run) ask(ctx context.Context, s *session) (sched.Summary, error) {
	p, err := makePlan(s.Graph, s.store, planOptions{targets: s.Unasked})
	if err != nil {
		return sched.Summary{}, err
	}
	if p.Counts.Changes() > 0 && !r.app.json {
		r.app.writeLines(r.app.out, p.Lines(s.Graph), "First step: "+p.Counts.ToRun()+"; the rest is planned with what is learned here.", p.Estimate)
		unasked(r.app.out, s.Outline, p)
	}
	return r.start(ctx, s, p)
}

// once plans and runs.
func (r *run) once(ctx context.Context, s *session, o planOptions) (sched.Summary, error) {
	p, err := makePlan(s.Graph, s.store, o)
	if err != nil {
		return sched.Summary{}, err
	}
	if p.Counts.Changes() > 0 && !r.app.json {
		p.Budget = r.budget
		asked := s.Outline
		asked.Unasked = nil // ask did, also where nothing answered
		if err := r.app.showPlan(r.app.out, asked, p, order(s.Graph, s.store, p), nil, false); err != nil {
			return sched.Summary{}, err
		}
	}
	return r.start(ctx, s, p)
}

// start runs a plan of the campaign's graph.
func (r *run) start(ctx context.Context, s *session, p *plan.Plan) (sched.Summary, error) {
	r.plan, r.ranBefore = p, 0
	for i := range p.Nodes {
		if _, ran := r.ends[s.Graph.Actions[i].Addr]; ran && p.Nodes[i].Verdict == plan.Cached {
			r.ranBefore++
		}
	}
	p.Budget = r.budget
	blocks, err := s.blocks()
	if err != nil {
		return sched.Summary{}, err
	}
	if p.Counts.Changes() > 0 && !r.looked {
		if err := hoststate.Begin(ctx, show.HostFolder(s.dir), r.id); err != nil {
			return sched.Summary{}, err
		}
		r.looked = true
		if err := r.warnBeside(s.tasks()); err != nil {
			return sched.Summary{}, err
		}
	}
	return r.exec(ctx, s, p, func(block string) executors.Executor { return blocks[block] })
}

// warnBeside names the tasks of other stores that run on this host: within a
// store a measurement has its host alone, and nobody sees to that between two.
// folder holds the tasks of this one.
func (r *run) warnBeside(folder string) error {
	all, err := hoststate.Tasks()
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(all, func(p hoststate.Process) bool {
		_, err := os.Lstat(filepath.Join(folder, p.Task))
		return err == nil
	})
	if len(others) == 0 {
		return nil
	}
	p, more := others[0], ""
	if n := len(others) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more", n)
	}
	_, err = fmt.Fprintf(r.app.err, "warning: pid %d on this host (%s) is of %s, a task of another store%s: what is measured beside it may be slower than it is; "+
		"end it or wait, unless it has CPUs and GPUs of its own\n", p.Pid, p.Name, p.Task, more)
	return err
}

func (r *run) exec(ctx context.Context, s *session, p *plan.Plan, executor func(block string) executors.Executor) (sched.Summary, error) {
	runLog, err := openRunLog(s.dir, r.id)
	if err != nil {
		return sched.Summary{}, err
	}
	screen := newProgress(r.app, s)
	sink := func(e event.Event) {
		runLog.write(e)
		if e.Type == event.NodeFinished {
			r.ends[e.Node] = e
		}
		if before, failed := r.ends[e.Node]; !r.app.json && failed && e.Type == event.NodeBlocked && e.By == e.Node && before.State != "ok" {
			screen.unsaid(e) // not tried again, and its failure stands on the screen
			return
		}
		screen.event(e)
	}
	sum, err := sched.Run(ctx, sched.Config{
		Graph: s.Graph, Plan: p, Store: r.store, Events: sink, Dir: s.tasks(),
		Executor: executor, Elsewhere: s.places.elsewhere,
		Name: s.Name, Run: r.id, Tool: version(), Host: hostname(), Now: time.Now, Interrupt: r.interrupt,
		Unchanged: prepare.Unchanged(s.files, s.imageOf(ctx)),
	})
	screen.close()
	if cerr := runLog.close(); err == nil {
		err = cerr
	}
	return sum, err
}

// finish writes the run directory and the trace, prints the result and decides the
// exit code.
func (r *run) finish(s *session) error {
	err := r.conclude(s)
	if r.trace == "" {
		return err
	}
	if traced := writeTrace(s, r.id, r.trace); err == nil {
		err = traced
	} else if traced != nil {
		fmt.Fprintf(r.app.err, "warning: %v\n", traced)
	}
	return err
}

func (r *run) conclude(s *session) error {
	a := r.app
	st := a.style(a.out)
	v, err := show.View(s.Prepared, r.store, version(), r.started, time.Now())
	if err != nil {
		return err
	}
	if err := r.lookAgain(s.dir); err != nil {
		return err
	}
	dir, err := show.WriteRun(v, s.Prepared, r.store, s.tasks(), time.Now())
	if err != nil {
		return err
	}
	if !a.json {
		fmt.Fprint(a.out, v.Table(width(a.out)))
		fmt.Fprintf(a.out, "%s\n", st.bold(r.totals(time.Since(r.started))))
		fmt.Fprintf(a.out, "Report: %s\n", filepath.Join(relative(dir), "final_report.md"))
	}
	for _, n := range r.total.FailedNodes {
		r.explainFailure(n)
		fmt.Fprintf(a.err, "hint: `sotabuild explain '%s'` shows what it was and what is recorded of it\n", n)
	}
	switch {
	case r.total.Interrupted:
		return fail(codeInterrupted, errors.New("interrupted; what was finished is kept"), "`sotabuild apply` goes on where it stopped"+r.again())
	case len(r.total.FailedNodes) > 0:
		return done(codeNodeFailed)
	case len(r.unfound) > 0:
		return fail(codeNodeFailed, errors.Join(r.unfound...), "`sotabuild apply` measures that round again")
	case r.total.Left > 0 || r.unstarted != nil:
		return r.leftOver()
	}
	return r.unanswered(s, v)
}

// again says what the next apply does not do by itself: what is cached is run
// again only by those that are told to.
func (r *run) again() string {
	if !r.replaces {
		return ""
	}
	return "; what was to be replaced and has not run needs --replace again"
}

// leftOver says what a budget left, and what goes on with it: what did not fit
// may fit the next time, and rounds never do.
func (r *run) leftOver() error {
	var causes, hints []string
	if n := r.total.Left; n > 0 {
		causes = append(causes, result.Count(n, "node")+" did not fit into the budget")
		hints = append(hints, "`sotabuild plan` shows what is left, the next `sotabuild apply` goes on with it"+r.again())
	}
	if r.unstarted != nil {
		causes = append(causes, "no round of "+strings.Join(r.unstarted, ", ")+" was started: "+underBound+", so under one none starts, however much of it is left")
		hints = append(hints, "`sotabuild apply` without --deadline and --max-gpu-hours runs the rounds")
	}
	return fail(codeGate, errors.New(strings.Join(causes, "\n")), hints...)
}

// lookAgain compares the host with what it was before this apply, and before
// earlier ones that were killed, and says what is not as it was. Nothing is
// touched: the next apply ends what a task of ours left (R079).
func (r *run) lookAgain(store string) error {
	if !r.looked {
		return nil
	}
	list, err := hoststate.End(context.Background(), show.HostFolder(store))
	for _, rec := range list {
		d := hoststate.Compare(rec.Run, rec.Before, *rec.After)
		if d.Empty() {
			continue
		}
		which := "this apply"
		if rec.Run != r.id {
			which = "the apply " + rec.Run + ", which was killed"
		}
		fmt.Fprintf(r.app.err, "warning: the host is not as it was before %s:\n", which)
		for _, line := range d.Lines() {
			fmt.Fprintf(r.app.err, "  %s\n", line)
		}
	}
	return err
}

// totals is the sum of an apply, which took d.
func (r *run) totals(d time.Duration) string {
	s := r.total
	text := fmt.Sprintf("Applied: %s run, %d cached", result.Count(s.OK+s.KeptFailures+s.Failed, "node"), s.Cached)
	if n := s.KeptFailures; n > 0 {
		text += ", " + result.Count(n, "failed candidate") + " kept"
	}
	for _, p := range []struct {
		n    int
		word string
	}{{s.Failed, "failed"}, {s.Blocked, "blocked"}, {s.Cancelled, "interrupted"}, {s.Unbegun, "left to the next apply"}, {s.Left, "left by the budget"}} {
		if p.n > 0 {
			text += fmt.Sprintf(", %d %s", p.n, p.word)
		}
	}
	if n := len(r.unstarted); n > 0 {
		text += ", no round of " + result.Count(n, "loop") + " started"
	}
	return text + fmt.Sprintf(" in %s.", d.Round(10*time.Millisecond))
}

// add puts the second step's summary on the first's. What the first step ran is
// cached in the second, and is counted once; so are a program that failed in both,
// and what the budget left in the first, which the second left or ran.
func (r *run) add(b sched.Summary) sched.Summary {
	a := r.total
	b.Cached -= r.ranBefore
	b.OK += a.OK
	b.Interrupted = b.Interrupted || a.Interrupted
	b.Seconds += a.Seconds
	for _, n := range a.FailedNodes {
		if !slices.Contains(b.FailedNodes, n) {
			b.FailedNodes = append(b.FailedNodes, n)
			b.Failed++
			b.Blocked-- // given up, it blocks itself
		}
	}
	return b
}
