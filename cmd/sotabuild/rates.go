package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/loop"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/campaign/ratesearch"
)

// rateView is a rate search as far as the store knows it.
type rateView struct {
	search ratesearch.Search
	view   loop.View // zero while the search has no candidate
}

type rateViews []rateView

// rates plans the rate searches. replace names rounds of them.
func (s *session) rates(replace []string) (rateViews, error) {
	all, err := ratesearch.Of(s.Prepared, s.store, time.Now())
	if err != nil {
		return nil, err
	}
	own, err := replaced(all, replace)
	if err != nil {
		return nil, err
	}
	var out rateViews
	for i, search := range all {
		r := rateView{search: search}
		if search.Loop != nil {
			if r.view, err = search.Loop.Plan(ratesearch.Config(s.Prepared, s.store, plan.Options{Replace: own[i], Now: time.Now()})); err != nil {
				return nil, err
			}
		}
		out = append(out, r)
	}
	return out, nil
}

// replaced deals the names of rounds to their searches.
func replaced(all []ratesearch.Search, names []string) ([][]string, error) {
	out := make([][]string, len(all))
	for _, n := range names {
		found := false
		for i, s := range all {
			if len(n) > len(s.Addr()) && n[:len(s.Addr())+1] == s.Addr()+"." {
				out[i], found = append(out[i], n), true
			}
		}
		if !found {
			return nil, fail(codeUsage, fmt.Errorf("%s: no rate search of the campaign has that round", n), "`sotabuild plan` shows the rounds")
		}
	}
	return out, nil
}

// changes counts what apply would run of the rounds that can be planned now.
func (v rateViews) changes() int {
	n := 0
	for _, r := range v {
		switch {
		case r.search.Undecided:
			n++
		case r.search.Loop != nil && !r.view.Over:
			n += r.view.Rounds[len(r.view.Rounds)-1].Plan.Counts.Changes()
		}
	}
	return n
}

func (v rateViews) markdown() string {
	text := ""
	for _, r := range v {
		text += r.search.Text(r.view)
	}
	if text == "" {
		return ""
	}
	return "\nRounds of the rate search:\n\n```\n" + text + "```\n"
}

// rateDocument is a search in the plan's JSON.
type rateDocument struct {
	Address   string          `json:"address"`
	Candidate string          `json:"candidate,omitempty"`
	Bound     int             `json:"max_rounds"`
	Over      bool            `json:"over"`
	Why       string          `json:"why,omitempty"` // it has no candidate
	Rounds    []rateRoundPlan `json:"rounds"`
}

type rateRoundPlan struct {
	Address  string        `json:"address"`
	Decision string        `json:"decision,omitempty"` // of a round that is over
	Plan     plan.Document `json:"plan"`
}

func (v rateViews) documents() []rateDocument {
	var out []rateDocument
	for _, r := range v {
		d := rateDocument{Address: r.search.Addr(), Candidate: r.search.Candidate, Bound: r.search.Bound, Over: r.view.Over, Why: r.search.Why}
		for _, round := range r.view.Rounds {
			x := rateRoundPlan{Address: r.search.Loop.Address(round.Number), Plan: round.Plan.Document(round.Graph)}
			if round.Decision != nil {
				x.Decision = round.Decision.Why
			}
			d.Rounds = append(d.Rounds, x)
		}
		out = append(out, d)
	}
	return out
}

// searchRates runs the rounds that are not in the store, one search after the
// other. A search that comes to no answer does not keep the others from theirs.
// What a budget would allow of a round is not known before it, so with one no
// round starts.
func (r *run) searchRates(ctx context.Context, s *session, replace []string) error {
	all, err := ratesearch.Of(s.Prepared, r.store, time.Now())
	if err != nil {
		return err
	}
	own, err := replaced(all, replace)
	if err != nil {
		return err
	}
	blocks, err := s.blocks()
	if err != nil {
		return err
	}
	for i, search := range all {
		if search.Loop == nil {
			fmt.Fprintf(r.app.err, "note: %s: %s\n", search.Addr(), search.Why)
			continue
		}
		c := ratesearch.Config(s.Prepared, r.store, plan.Options{Replace: own[i], Now: time.Now()})
		if !r.budget.Empty() {
			v, err := search.Loop.Plan(c)
			if err != nil {
				return err
			}
			if !v.Over {
				r.total.Left++
			}
			continue
		}
		broken := false
		_, err := search.Loop.Run(ctx, c, func(ctx context.Context, g *compile.Graph, p *plan.Plan) error {
			round := *s
			round.Prepared = &prepare.Prepared{Campaign: s.Campaign, Facts: s.Facts, Declared: s.Declared, Graph: g}
			sum, err := r.exec(ctx, &round, p, func(string) executors.Executor { return blocks["framework."+search.Framework.Label] })
			r.total.OK += sum.OK
			r.total.KeptFailures += sum.KeptFailures
			r.total.Failed += sum.Failed
			r.total.Blocked += sum.Blocked
			r.total.Seconds += sum.Seconds
			r.total.FailedNodes = append(r.total.FailedNodes, sum.FailedNodes...)
			r.total.Interrupted = sum.Interrupted
			broken = err != nil
			return err
		})
		switch {
		case r.total.Interrupted:
			return nil
		case broken || errors.Is(err, context.Canceled):
			return err
		case err != nil:
			r.unfound = append(r.unfound, fmt.Errorf("%s: %w", search.Addr(), err))
		}
	}
	return nil
}
