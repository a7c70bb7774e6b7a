// Package ratesearch makes the campaign's rate_search block a loop of the
// engine: for the best candidate of each framework in each scenario, rounds of
// a new server life each, with requests of a Poisson process, until the highest
// rate that keeps the SLA stands in a bracket.
//
// It starts with what the selections of the campaign's graph say, so a search
// has no candidate before they are decided. Rounds live outside that graph, at
// rate.FRAMEWORK.SCENARIO.round[N]; the caller applies them. Which rate comes
// next is package rate's to say.
package ratesearch

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/loop"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/bench/arrival"
	"github.com/sotabuild/sotabuild/stdlib/bench/rate"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/campaign/rounds"
	"github.com/sotabuild/sotabuild/stdlib/report"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/search"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// version is raised when Decide says something else of the same rounds.
const version = 1

// Prefix begins the addresses of all rounds.
const Prefix = "rate."

// Search is the search of one framework in one scenario. Its loop is of the best
// candidate.
type Search struct {
	rounds.Loop
	Side     lang.Framework
	Scenario lang.Scenario
}

// Of are the searches of a campaign, by framework and scenario of the main lane as declared; nil
// without a rate_search block.
func Of(p *prepare.Prepared, r cache.Reader, now time.Time) ([]Search, error) {
	c := p.Campaign
	if c.Judge.Rate == nil {
		return nil, nil
	}
	made, problems := plan.Make(p.Graph, r, plan.Options{Now: now})
	if len(problems) > 0 {
		return nil, errors.New(problems[0].String())
	}
	var out []Search
	for _, fw := range campaign.Compared(c) {
		for _, sc := range c.Load.Main() {
			s := Search{Side: fw, Scenario: sc, Loop: rounds.Loop{Addr: Prefix + fw.Label + "." + sc.Name, Bound: c.Judge.Rate.Rounds,
				Framework: func(string) string { return fw.Label }}}
			if err := s.choose(p, r, made); err != nil {
				return nil, fmt.Errorf("%s: %w", s.Addr, err)
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// choose finds the candidate, and makes the loop of its rounds.
func (s *Search) choose(p *prepare.Prepared, r cache.Reader, made *plan.Plan) error {
	i := slices.IndexFunc(p.Declared.Selects, func(x campaign.Select) bool {
		return x.Framework == s.Side.Label && x.Scenario == s.Scenario.Name
	})
	addr := p.Declared.Selects[i].Addr
	record := func(addr string) *cache.Record {
		id, ok := p.Graph.Lookup(addr)
		if !ok || made.Nodes[id].Verdict != plan.Cached {
			return nil
		}
		return made.Nodes[id].Record
	}
	rec := record(addr)
	if rec == nil {
		s.Undecided, s.Why = true, addr+" decides of which candidate"
		return nil
	}
	b, err := r.Bytes(rec.Output("selection"))
	if err != nil {
		return err
	}
	var sel winners.Selection
	if err := json.Unmarshal(b, &sel); err != nil {
		return fmt.Errorf("reading %s: %w", addr, err)
	}
	if len(sel.Best) == 0 {
		s.Why = "no candidate keeps the SLA"
		return nil
	}
	for _, cell := range p.Declared.Cells {
		if cell.Framework != s.Side.Label || cell.Scenario.Name != s.Scenario.Name || cell.Skip != "" {
			continue
		}
		if rec := record(cell.Row); rec != nil && rec.Output("row") == sel.Best[0] {
			s.Of, s.Rounds = cell.Candidate.Name, s.loop(p, cell.Candidate)
			return nil
		}
	}
	return fmt.Errorf("%s names a row that no cell has", addr)
}

// state carries the rule, so that a changed SLA decides anew.
type state struct {
	Rule   rate.Rule    `json:"rule"`
	Points []rate.Point `json:"points"`
}

func (s state) next() rate.Step { return s.Rule.Next(rate.State{Points: s.Points}) }

// RuleOf is what a campaign searches for: its limits of times, by median.
func RuleOf(c *lang.Campaign) rate.Rule {
	b, sla := c.Judge.Rate, campaign.SLA(c)
	r := rate.Rule{Start: b.Start, Rounds: b.Rounds, Within: b.Within}
	for _, l := range []struct {
		id  string
		max *float64
	}{{"ttft/send:p50", sla.MaxP50TTFT}, {"tpot/excl-first:p50", sla.MaxP50TPOT}, {"e2e:p50", sla.MaxP50E2E}} {
		if l.max != nil {
			r.Limits = append(r.Limits, rate.Limit{ID: l.id, Max: *l.max})
		}
	}
	return r
}

func (s *Search) loop(p *prepare.Prepared, cand search.Candidate) *loop.Loop {
	start, err := json.Marshal(state{Rule: RuleOf(p.Campaign)})
	if err != nil {
		panic("ratesearch: a rule cannot be written as JSON: " + err.Error())
	}
	l := &loop.Loop{Name: "rate_search", At: s.Addr, Version: version, Bound: s.Bound, Start: start, Decide: decide}
	l.Declare = func(b []byte, round int) ([]compile.Decl, []compile.Input, error) {
		var st state
		if err := json.Unmarshal(b, &st); err != nil {
			return nil, nil, err
		}
		at := st.next().Rate
		decls := Round(p.Campaign, p.Facts, s.Side, cand, s.Scenario, at, l.Address(round))
		return decls, []compile.Input{{Name: "row", From: decls[len(decls)-1].Addr, Output: "row"}}, nil
	}
	return l
}

// Round declares the nodes of one round, the measurement last.
func Round(c *lang.Campaign, f campaign.Facts, fw lang.Framework, cand search.Candidate, sc lang.Scenario, at float64, prefix string) []compile.Decl {
	if n := c.Judge.Rate.NumPrompts; n > 0 {
		sc.NumPrompts = n
	}
	spec := campaign.NewBenchSpec(c, f, fw, cand, sc, nil)
	spec.Load.Arrival, spec.Load.Rate, spec.Load.Burstiness, spec.Load.Ramp, spec.Load.RampTo = arrival.Poisson, &at, nil, "", nil
	spec.Life.Workload.Arrival, spec.Life.Workload.Rate = arrival.Poisson, &at
	prompts := compile.Decl{Addr: prefix + ".prompts", Kind: campaign.DatasetKind, Spec: campaign.DatasetSpec(c, f, sc, "rate")}
	cell := compile.Decl{
		Addr: prefix + ".bench", Kind: campaign.BenchKind, Spec: spec, Batch: prefix,
		Resources: compile.Resources{Quiet: true}, Timeout: campaign.CellTimeout(sc),
		Inputs: []compile.Input{{Name: "prompts", From: prompts.Addr, Output: "prompts"}},
	}
	if c.GPUs != nil {
		cell.Resources.GPUs = c.GPUs.IDs
	}
	return []compile.Decl{prompts, cell}
}

// decide judges the round's row by the rule.
func decide(b []byte, _ int, got []loop.Got) (loop.Decision, error) {
	var s state
	if err := json.Unmarshal(b, &s); err != nil {
		return loop.Decision{}, err
	}
	var row result.Row
	if err := json.Unmarshal(got[0].Bytes, &row); err != nil {
		return loop.Decision{}, fmt.Errorf("reading %s: %w", got[0].Addr, err)
	}
	at := s.next().Rate
	point, err := s.Rule.Outcome(at, row)
	if err != nil {
		return loop.Decision{}, err
	}
	s.Points = append(s.Points, point)
	step := s.next()
	why := fmt.Sprintf("%.4g requests/s keeps the SLA", at)
	if !point.Kept {
		why = fmt.Sprintf("%.4g requests/s breaks the SLA: %s", at, point.Why)
	}
	if step.Rate == 0 {
		why += "; " + step.Why
	}
	next, err := json.Marshal(s)
	return loop.Decision{Stop: step.Rate == 0, Why: why, State: next}, err
}

// Found joins the finished rounds of every search to their rows, for the report.
func Found(p *prepare.Prepared, r cache.Reader, now time.Time) ([]report.Rate, error) {
	all, err := Of(p, r, now)
	if err != nil {
		return nil, err
	}
	var out []report.Rate
	for _, s := range all {
		found := report.Rate{Framework: s.Side.Label, Scenario: s.Scenario.Name, Candidate: s.Of, Why: s.Why}
		if s.Rounds != nil {
			v, err := s.View(p, r, nil, now)
			if err != nil {
				return nil, err
			}
			if err := fill(&found, v, r); err != nil {
				return nil, err
			}
		}
		out = append(out, found)
	}
	return out, nil
}

// fill adds the rounds that are over, and what they say together.
func fill(out *report.Rate, v loop.View, r cache.Reader) error {
	for _, round := range v.Rounds {
		if round.Decision == nil {
			continue
		}
		var s state
		if err := json.Unmarshal(round.Decision.State, &s); err != nil {
			return fmt.Errorf("reading the decision of %s: %w", v.Loop.Address(round.Number), err)
		}
		point := s.Points[len(s.Points)-1]
		x := report.RateRound{Address: v.Loop.Address(round.Number), Rate: point.Rate, Kept: point.Kept, Why: point.Why}
		d, ok := digest(round, x.Address+".bench")
		if !ok {
			return fmt.Errorf("%s is over and has no row", x.Address)
		}
		b, err := r.Bytes(d)
		if err != nil {
			return fmt.Errorf("reading the row of %s: %w", x.Address, err)
		}
		if err := json.Unmarshal(b, &x.Row); err != nil {
			return fmt.Errorf("reading the row of %s: %w", x.Address, err)
		}
		x.Digest = d
		out.Rounds = append(out.Rounds, x)
		step := s.next()
		out.Best, out.Why, out.Over = step.Best, step.Why, round.Decision.Stop
		if !point.Kept && (out.Broke == nil || point.Rate < *out.Broke) {
			out.Broke = &point.Rate
		}
	}
	return nil
}

func digest(r loop.Round, addr string) (key.Digest, bool) {
	id, ok := r.Graph.Lookup(addr)
	if !ok || r.Plan.Nodes[id].Record == nil {
		return key.Digest{}, false
	}
	return r.Plan.Nodes[id].Record.Output("row"), true
}
