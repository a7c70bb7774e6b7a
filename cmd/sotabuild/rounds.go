package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/loop"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/stdlib/campaign/loops"
	"github.com/sotabuild/sotabuild/stdlib/campaign/rounds"
)

// loopView is a loop beside the campaign's graph as far as the store knows it.
type loopView struct {
	rounds.Loop
	view loop.View // zero while there is nothing to measure
}

// loopViews are parallel to loops.Kinds; nil is a plan without loops.
type loopViews [][]loopView

// loops plans the loops of the campaign. replace names rounds of them. A round
// whose decision is broken is one to be run.
func (s *session) loops(replace []string) (views loopViews, err error) {
	err = reread(s.store, func([]string) {}, func() (err error) {
		views, err = s.loopsAsRead(replace)
		return err
	})
	return views, err
}

func (s *session) loopsAsRead(replace []string) (loopViews, error) {
	now := time.Now()
	all, err := loops.Of(s.Prepared, s.store, now)
	if err != nil {
		return nil, err
	}
	if err := known(all, replace); err != nil {
		return nil, err
	}
	out := make(loopViews, len(all))
	for i := range all {
		for _, l := range all[i] {
			v, err := l.View(s.Prepared, s.store, own(l, replace), now)
			if err != nil {
				return nil, misnamed(err)
			}
			out[i] = append(out[i], loopView{l, v})
		}
	}
	return out, nil
}

// own are the names that are of a loop's rounds.
func own(l rounds.Loop, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !l.Has(n) })
}

// misnamed makes an error about names in the options one of the command line.
func misnamed(err error) error {
	var wrong loop.NameError
	if errors.As(err, &wrong) {
		return fail(codeUsage, wrong, "`sotabuild plan` shows the rounds")
	}
	return err
}

// known refuses names that are of no loop's rounds, and those of one sample of a
// round that counts as a whole.
func known(all [][]rounds.Loop, names []string) error {
	list := slices.Concat(all...)
	for _, n := range names {
		i := slices.IndexFunc(list, func(l rounds.Loop) bool { return l.Has(n) })
		if i < 0 || list[i].Round(n) == "" {
			return fail(codeUsage, fmt.Errorf("%s: no loop of the campaign has that round", n), "`sotabuild plan` shows the rounds")
		}
		if round := list[i].Round(n); list[i].Whole && round != n {
			return fail(codeUsage, fmt.Errorf("%s is one sample of a round, and taking one again would choose among samples; write %s, which takes all of them again", n, round))
		}
	}
	return nil
}

// changes counts what apply would run of the rounds that can be planned now.
func (v loopViews) changes() int {
	n := 0
	for _, l := range slices.Concat(v...) {
		switch {
		case l.Undecided:
			n++
		default:
			n += l.view.Left().Changes()
		}
	}
	return n
}

// counts are the totals of the rounds that can be planned now, by what may run.
func (v loopViews) counts() plan.Counts {
	var sum plan.Counts
	for _, l := range slices.Concat(v...) {
		c := l.view.Left()
		sum.New += c.New
		sum.Stale += c.Stale
		sum.Later += c.Later
	}
	return sum
}

func (v loopViews) text() string {
	text := ""
	for _, l := range slices.Concat(v...) {
		text += l.Text(l.view)
	}
	return text
}

func (v loopViews) markdown() string {
	text := ""
	for i, kind := range v {
		if len(kind) > 0 {
			text += "\n" + loops.Kinds[i].Title + ":\n\n```\n" + loopViews{kind}.text() + "```\n"
		}
	}
	return text
}

// loopDocument is a loop in the plan's JSON.
type loopDocument struct {
	Address string      `json:"address"`
	Of      string      `json:"candidate,omitempty"`
	Bound   int         `json:"max_rounds,omitempty"`
	Over    bool        `json:"over"`
	Why     string      `json:"why,omitempty"` // there is nothing to measure
	Rounds  []roundPlan `json:"rounds"`
}

type roundPlan struct {
	Address  string        `json:"address"`
	Decision string        `json:"decision,omitempty"` // of a round that is over
	Plan     plan.Document `json:"plan"`
}

// documents are by the campaign's block.
func (v loopViews) documents(block string) []loopDocument {
	var out []loopDocument
	for i, kind := range v {
		if loops.Kinds[i].Block != block {
			continue
		}
		for _, l := range kind {
			d := loopDocument{Address: l.Addr, Of: l.Of, Bound: l.Bound, Over: l.view.Over, Why: l.Why}
			for _, round := range l.view.Rounds {
				x := roundPlan{Address: l.Rounds.Address(round.Number), Plan: round.Plan.Document(round.Graph)}
				if round.Decision != nil {
					x.Decision = round.Decision.Why
				}
				d.Rounds = append(d.Rounds, x)
			}
			out = append(out, d)
		}
	}
	return out
}

// Why an apply runs no rounds.
const (
	ofGraph    = "a saved plan and --target name nodes of the campaign's graph"
	underBound = "what a budget allows of a round is not known before it"
)

// withoutRounds is why an apply of this plan runs no rounds; "" where it does.
func (o planOptions) withoutRounds(b plan.Budget) string {
	switch {
	case len(o.targets) > 0 || o.out != "":
		return ofGraph
	case !b.Empty():
		return underBound
	}
	return ""
}

// replaceable refuses rounds that are to be replaced where no round runs.
func (o planOptions) replaceable(b plan.Budget) error {
	named, _ := rounds.Split(o.replace, loops.Prefixes()...)
	if why := o.withoutRounds(b); why != "" && len(named) > 0 {
		return fail(codeUsage, fmt.Errorf("%s cannot be replaced here: %s", strings.Join(named, ", "), why), "replace it by an apply without --target, --max-gpu-hours, --deadline and a saved plan")
	}
	return nil
}

// noteRounds says that the rounds which blocks of the campaign ask for do not run,
// where any is left.
func (a *app) noteRounds(beside loopViews, blocks []string, why string) {
	if beside.changes() > 0 {
		fmt.Fprintf(a.err, "note: the rounds of %s are not run: %s; `sotabuild apply` runs them\n", strings.Join(blocks, " and "), why)
	}
}

// runLoops runs the rounds that are not in the store, one loop after the other.
// A loop that comes to no answer does not keep the others from theirs. What a
// budget would allow of a round is not known before it, so with one no round
// starts.
func (r *run) runLoops(ctx context.Context, s *session, replace []string) error {
	all, err := loops.Of(s.Prepared, r.store, r.started) // a cell that ages while others run counts for its repeats too
	if err != nil {
		return err
	}
	if err := known(all, replace); err != nil {
		return err
	}
	for _, l := range slices.Concat(all...) {
		if err := r.runLoop(ctx, s, l, own(l, replace)); err != nil || r.total.Interrupted {
			return err
		}
	}
	return nil
}

func (r *run) runLoop(ctx context.Context, s *session, l rounds.Loop, replace []string) error {
	if l.Rounds == nil {
		fmt.Fprintf(r.app.err, "note: %s: %s\n", l.Addr, l.Why)
		return nil
	}
	c := rounds.Config(s.Prepared, r.store, plan.Options{Replace: replace, Now: r.started})
	if !r.budget.Empty() {
		v, err := l.Rounds.Plan(c)
		if err == nil && v.Left().Changes() > 0 {
			r.unstarted = append(r.unstarted, l.Addr)
		}
		return err
	}
	blocks, err := s.blocks()
	if err != nil {
		return err
	}
	broken := false
	_, err = l.Rounds.Run(ctx, c, func(ctx context.Context, g *compile.Graph, p *plan.Plan) error {
		prepared := *s.Prepared
		prepared.Graph = g
		round := *s
		round.Prepared = &prepared
		sum, err := r.exec(ctx, &round, p, func(block string) executors.Executor { return blocks["framework."+l.Framework(block)] })
		r.total.OK += sum.OK
		r.total.KeptFailures += sum.KeptFailures
		r.total.Failed += sum.Failed
		r.total.Blocked += sum.Blocked
		r.total.Cancelled += sum.Cancelled
		r.total.Unbegun += sum.Unbegun
		r.total.Seconds += sum.Seconds
		r.total.FailedNodes = append(r.total.FailedNodes, sum.FailedNodes...)
		r.total.Interrupted = sum.Interrupted
		if broken = err != nil; err == nil && sum.Interrupted {
			err = errors.New("interrupted") // the round's old decision may be there, and no other begins
		}
		return err
	})
	switch {
	case r.total.Interrupted:
		return nil
	case broken || errors.Is(err, context.Canceled):
		return err
	case err != nil:
		if wrong := misnamed(err); wrong != err {
			return wrong
		}
		r.unfound = append(r.unfound, fmt.Errorf("%s: %w", l.Addr, err))
	}
	return nil
}
