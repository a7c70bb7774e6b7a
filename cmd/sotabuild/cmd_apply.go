package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/plan/saved"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/hoststate"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign/loops"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/campaign/rounds"
	"github.com/sotabuild/sotabuild/stdlib/campaign/show"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

func applyCommand(a *app) *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use: "apply [PLAN]", Short: "Run what is stale, and only that; or exactly what a saved plan says", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var bound *saved.Plan
			if len(args) == 1 {
				p, err := a.readPlan(args[0], &o)
				if err != nil {
					return err
				}
				bound = &p
			}
			budget, err := o.budget(cmd, time.Now())
			if err != nil {
				return err
			}
			c, err := a.load()
			if err != nil {
				return err
			}
			if err := prepare.Runnable(c); err != nil {
				return fail(codeUsage, err)
			}
			store, err := cache.OpenLocal(a.storeDir(), cache.Options{Command: "sotabuild apply"})
			if err != nil {
				return err
			}
			err = a.apply(cmd.Context(), store, c, o, bound, budget)
			if cerr := store.Close(); err == nil {
				err = cerr
			}
			return err
		},
	}
	o.register(cmd)
	cmd.Flags().StringVar(&o.trace, "trace", "", "write what ran when to this file, as a Chrome trace (ui.perfetto.dev opens it)")
	return cmd
}

// budget reads the bounds of a run. A bound that is written and empty, such as
// that of an unset variable, is refused: it must not read as none.
func (o planOptions) budget(cmd *cobra.Command, now time.Time) (plan.Budget, error) {
	var b plan.Budget
	if cmd.Flags().Changed("max-gpu-hours") {
		hours, err := strconv.ParseFloat(o.gpuHours, 64)
		if err != nil || !(hours > 0) || math.IsInf(hours, 0) {
			return b, fail(codeUsage, fmt.Errorf("--max-gpu-hours %q: write a positive number of hours; without the flag there is no bound", o.gpuHours))
		}
		b.GPUSeconds = hours * 3600
	}
	if !cmd.Flags().Changed("deadline") {
		return b, nil
	}
	if at, err := time.Parse(time.RFC3339, o.deadline); err == nil {
		b.Deadline = at
		return b, nil
	}
	d, err := lang.ParseDuration(o.deadline)
	if err != nil || d <= 0 {
		return b, fail(codeUsage, fmt.Errorf("--deadline %q: write a span such as 90m, or a time such as 2026-12-01T06:00:00Z", o.deadline))
	}
	b.Deadline = now.Add(d)
	return b, nil
}

// readPlan reads a saved plan and takes over its options and variables.
func (a *app) readPlan(path string, o *planOptions) (saved.Plan, error) {
	if len(o.targets)+len(o.replace) > 0 {
		return saved.Plan{}, fail(codeUsage, errors.New("a saved plan has its own targets and replacements; leave --target and --replace out"))
	}
	p, err := saved.Read(path)
	if err != nil {
		return p, fail(codeUsage, err)
	}
	o.targets, o.replace = p.Options.Targets, p.Options.Replace
	return p, a.fixInputs(p)
}

// apply runs the campaign in two steps where help texts are missing: first the
// helps, then, with every flag checked, the rest (DESIGN 11.2). A saved plan
// that no longer holds is refused before anything starts.
func (a *app) apply(ctx context.Context, store *cache.Local, c *lang.Campaign, o planOptions, bound *saved.Plan, budget plan.Budget) error {
	interrupt, stop := interrupts()
	defer stop()
	var s *session
	err := preparing(ctx, interrupt, func(ctx context.Context) (err error) {
		if _, err = a.pull(ctx, c); err == nil {
			s, err = a.open(ctx, store, c)
		}
		return err
	})
	if err != nil {
		return err
	}
	if bound != nil {
		if err := a.bind(s, store, *bound, o); err != nil {
			return err
		}
	}
	r := run{app: a, budget: budget, store: store, id: newRunID(), interrupt: interrupt, started: time.Now(), ends: map[string]event.Event{}}
	if len(s.Unasked) > 0 {
		sum, err := r.once(ctx, s, planOptions{targets: s.Unasked})
		if err != nil {
			return err
		}
		r.total = sum
		if sum.Interrupted {
			return r.finish(s)
		}
		// A program without a help fails for itself: the others are measured.
		if s, err = a.open(ctx, store, c); err != nil {
			return err
		}
		if bound != nil {
			if err := a.follows(s, *bound, o); err != nil {
				return err
			}
		}
	}
	o.givenUp = r.total.FailedNodes
	inRounds, others := rounds.Split(o.replace, loops.Prefixes()...)
	o.replace = others
	sum, err := r.once(ctx, s, o)
	if err != nil {
		return err
	}
	r.total = r.add(sum)
	switch blocks := s.Rounds; {
	case blocks == nil && inRounds == nil || r.total.Interrupted:
	case bound != nil || len(o.targets) > 0:
		a.noteRounds(blocks, ofGraph)
	default:
		if err := r.runLoops(ctx, s, inRounds); err != nil {
			return err
		}
	}
	a.remember(s.ground)
	if o.trace != "" {
		if err := writeTrace(s, r.id, o.trace); err != nil {
			return err
		}
	}
	return r.finish(s)
}

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
	looked    bool                   // at the host, before the first task
}

// once plans and runs.
func (r *run) once(ctx context.Context, s *session, o planOptions) (sched.Summary, error) {
	p, err := makePlan(s.Graph, s.store, o)
	if err != nil {
		return sched.Summary{}, err
	}
	r.plan, r.ranBefore = p, 0
	for i := range p.Nodes {
		if _, ran := r.ends[s.Graph.Actions[i].Addr]; ran && p.Nodes[i].Verdict == plan.Cached {
			r.ranBefore++
		}
	}
	p.Budget = r.budget
	if p.Counts.Changes() > 0 && !r.app.json {
		if err := r.app.showPlan(r.app.out, s.Outline, p, order(s.Graph, s.store, p), nil, false); err != nil {
			return sched.Summary{}, err
		}
	}
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
		screen.event(e)
	}
	sum, err := sched.Run(ctx, sched.Config{
		Graph: s.Graph, Plan: p, Store: r.store, Events: sink, Dir: s.tasks(),
		Executor: executor, Elsewhere: s.places.elsewhere,
		Run: r.id, Tool: version(), Host: hostname(), Now: time.Now, Interrupt: r.interrupt,
		Unchanged: prepare.Unchanged(s.files, s.imageOf(ctx)),
	})
	screen.close()
	if cerr := runLog.close(); err == nil {
		err = cerr
	}
	return sum, err
}

// finish writes the run directory, prints the result and decides the exit
// code.
func (r *run) finish(s *session) error {
	a := r.app
	st := a.style(a.out)
	v, err := show.View(s.Prepared, r.store, version(), time.Now())
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
		fmt.Fprintf(a.out, "%s\n", st.bold(totals(r.total, time.Since(r.started))))
		fmt.Fprintf(a.out, "Report: %s\n", filepath.Join(relative(dir), "final_report.md"))
	}
	for _, n := range r.total.FailedNodes {
		r.explainFailure(n)
		fmt.Fprintf(a.err, "hint: `sotabuild explain '%s'` shows what it was and what is recorded of it\n", n)
	}
	switch {
	case r.total.Interrupted:
		return fail(codeInterrupted, fmt.Errorf("interrupted; what was finished is kept"), "`sotabuild apply` goes on where it stopped")
	case len(r.total.FailedNodes) > 0:
		return done(codeNodeFailed)
	case len(r.unfound) > 0:
		return fail(codeNodeFailed, errors.Join(r.unfound...), "`sotabuild apply` measures that round again")
	case r.total.Left > 0:
		return fail(codeGate, errors.New(result.Count(r.total.Left, "node")+" did not fit into the budget"),
			"`sotabuild plan` shows them, the next `sotabuild apply` goes on with them")
	}
	return r.unanswered(s, v)
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

// explainFailure says node, cause, last log lines.
func (r *run) explainFailure(addr string) {
	w := r.app.err
	end := r.ends[addr]
	cause := end.Class + ": " + end.Reason
	if h := r.store.History(addr); end.Type == "" && len(h) > 0 { // It failed for good in an earlier run.
		o := h[len(h)-1].Outcome
		cause = o.Class + ": " + o.Reason
	}
	fmt.Fprintf(w, "\n%s failed: %s\n", addr, cause)
	if log := tellingLog(end.Log); log != "" {
		fmt.Fprintf(w, "last lines of %s:\n", relative(log))
		for _, l := range lastLines(log, 10) {
			fmt.Fprintf(w, "    %s\n", l)
		}
	}
}

// tellingLog picks the log that says most in a task's folder of logs: the
// server's, else the longest of the others; "" if there is none.
func tellingLog(dir string) string {
	best, size := "", int64(0)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		st, err := e.Info()
		if err != nil || st.Size() == 0 {
			continue
		}
		if strings.HasPrefix(e.Name(), "server.") {
			return filepath.Join(dir, e.Name())
		}
		if st.Size() > size {
			best, size = filepath.Join(dir, e.Name()), st.Size()
		}
	}
	return best
}

// lastLines reads the end of a file; an unreadable one is said so.
func lastLines(path string, n int) []string {
	f, err := os.Open(path)
	if err != nil {
		return []string{err.Error()}
	}
	defer f.Close()
	const tail = 16 << 10
	if st, err := f.Stat(); err == nil && st.Size() > tail {
		if _, err := f.Seek(-tail, io.SeekEnd); err != nil {
			return []string{err.Error()}
		}
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return []string{err.Error()}
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return lines[max(0, len(lines)-n):]
}

func totals(s sched.Summary, d time.Duration) string {
	text := fmt.Sprintf("Applied: %s run, %d cached", result.Count(s.OK+s.KeptFailures+s.Failed, "node"), s.Cached)
	if n := s.KeptFailures; n > 0 {
		text += ", " + result.Count(n, "failed candidate") + " kept"
	}
	for _, p := range []struct {
		n    int
		word string
	}{{s.Failed, "failed"}, {s.Blocked, "blocked"}, {s.Cancelled, "cancelled"}, {s.Left, "left by the budget"}} {
		if p.n > 0 {
			text += fmt.Sprintf(", %d %s", p.n, p.word)
		}
	}
	return text + fmt.Sprintf(" in %s.", d.Round(10*time.Millisecond))
}

// add puts the second step's summary on the first's. What the first step ran is
// cached in the second, and is counted once; so is a program that failed in
// both.
func (r *run) add(b sched.Summary) sched.Summary {
	a := r.total
	b.Cached -= r.ranBefore
	b.OK += a.OK
	b.Left += a.Left
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

// interrupts turns SIGINT and SIGTERM into the scheduler's three steps.
func interrupts() (<-chan struct{}, func()) {
	sig := make(chan os.Signal, 3)
	signal.Notify(sig, os.Interrupt, syscall.SIGTERM)
	out := make(chan struct{})
	end := make(chan struct{})
	go func() {
		for {
			select {
			case <-sig:
				select {
				case out <- struct{}{}:
				case <-end:
					return
				}
			case <-end:
				return
			}
		}
	}()
	return out, func() { signal.Stop(sig); close(end) }
}

// preparing does what comes before any task: the first interrupt ends it, and
// nothing was started.
func preparing(ctx context.Context, interrupt <-chan struct{}, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	interrupted := false
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-interrupt:
			interrupted = true
			cancel()
		case <-ctx.Done():
		}
	}()
	err := do(ctx)
	cancel()
	<-ended
	if interrupted {
		return fail(codeInterrupted, errors.New("interrupted before anything was started"), "`sotabuild apply` begins again")
	}
	return err
}

// interruptibly does something that makes files or images: a Ctrl-C ends it, so
// that what is half made is removed, and a second one the process.
func interruptibly(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	err := do(ctx)
	if ctx.Err() != nil && err != nil {
		return fail(codeInterrupted, errors.New("interrupted; what was half made is removed"))
	}
	return err
}

func newRunID() string {
	b := make([]byte, 4)
	rand.Read(b) // never fails (crypto/rand)
	return time.Now().UTC().Format("20060102t150405") + "-" + hex.EncodeToString(b)
}

// hostname labels records; an unknown one is said so.
func hostname() string {
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "unknown"
}

// relative is a path as short as it can be from here.
func relative(p string) string {
	wd, err := os.Getwd()
	if err != nil {
		return p
	}
	if r, err := filepath.Rel(wd, p); err == nil && !strings.HasPrefix(r, "../../..") {
		return r
	}
	return p
}

// runLog keeps every event of a run, one JSON line each.
type runLog struct {
	f   *os.File
	err error
}

func openRunLog(store, id string) (*runLog, error) {
	dir := filepath.Join(store, "events")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of run logs: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, id+".jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the run log: %w", err)
	}
	return &runLog{f: f}, nil
}

func (l *runLog) write(e event.Event) {
	b, err := json.Marshal(e)
	if err == nil {
		_, err = l.f.Write(append(b, '\n'))
	}
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("writing the run log: %w", err)
	}
}

func (l *runLog) close() error {
	if err := l.f.Close(); l.err == nil {
		l.err = err
	}
	return l.err
}
