package repeats

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/loop"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/repeat"
	"github.com/sotabuild/sotabuild/stdlib/report"
	"github.com/sotabuild/sotabuild/stdlib/stats"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// Found joins the finished rounds of every contest to their rows, for the
// report, by scenario; empty without a noise block.
func Found(p *prepare.Prepared, r cache.Reader, now time.Time) (map[string]*report.Repeats, error) {
	all, err := Of(p, r, now)
	if err != nil {
		return nil, err
	}
	out := map[string]*report.Repeats{}
	n := p.Campaign.Judge.Noise
	for _, x := range all {
		found := &report.Repeats{Threshold: n.Threshold, Max: n.MaxRepeats, Why: x.Why}
		for _, s := range x.Beyond {
			found.Beyond = append(found.Beyond, s.Cell.Framework)
		}
		out[x.Scenario.Name] = found
		if x.Rounds == nil {
			continue
		}
		v, err := x.View(p, r, nil, now)
		if err != nil {
			return nil, err
		}
		if err := x.fill(found, v, r); err != nil {
			return nil, fmt.Errorf("%s: %w", x.Addr, err)
		}
	}
	return out, nil
}

// fill adds the rounds that are over, and what they say together.
func (x Contest) fill(out *report.Repeats, v loop.View, r cache.Reader) error {
	for _, s := range x.Sides {
		out.Sides = append(out.Sides, report.Repeated{Framework: s.Cell.Framework, Candidate: s.Cell.Candidate.Name, Row: s.Row})
	}
	var last *loop.Decision
	for _, round := range v.Rounds {
		if round.Decision == nil {
			continue
		}
		last = round.Decision
		for i := range out.Sides {
			more, err := x.repeatsOf(i, round, r)
			if err != nil {
				return err
			}
			out.Sides[i].Repeats = append(out.Sides[i].Repeats, more...)
		}
	}
	if last == nil {
		return nil
	}
	state, err := repeat.Read(last.State)
	if err != nil {
		return err
	}
	out.Over, out.Why = v.Over, last.Why
	for i, run := range state.Sides {
		side := &out.Sides[i]
		side.Rejected, side.Failing = run.Rejected, run.Failing
		if out.Over {
			side.Said = x.said(state, i)
		}
	}
	return nil
}

// said is the last word on a side.
func (x Contest) said(s repeat.State, i int) winners.Repeated {
	run := s.Sides[i]
	c := run.Verdict
	out := winners.Repeated{Ratio: c.Ratio, Low: c.Low, High: c.High, Samples: c.Repeats}
	switch {
	case run.Broken != "":
		return winners.Repeated{Verdict: winners.Out, Samples: len(run.Values), Why: run.Broken}
	case i == s.Champion:
		return winners.Repeated{Verdict: winners.First, Samples: len(run.Values)}
	case c.Verdict == stats.Behind:
		out.Verdict = winners.Behind
	case c.Verdict == stats.Tied:
		out.Verdict = winners.Tied
	default:
		out.Verdict = winners.Unresolved
	}
	out.Against = x.Sides[run.Against].Row
	return out
}

// repeatsOf are the repeats of the i-th side in a round, by number.
func (x Contest) repeatsOf(i int, round loop.Round, r cache.Reader) ([]report.Repeat, error) {
	prefix := x.Rounds.Address(round.Number) + "." + x.Sides[i].Cell.Framework + "["
	type numbered struct {
		n int
		report.Repeat
	}
	var all []numbered
	for id := range round.Graph.Actions {
		a := &round.Graph.Actions[id]
		if !strings.HasPrefix(a.Addr, prefix) {
			continue
		}
		rec := round.Plan.Nodes[id].Record
		if rec == nil {
			return nil, fmt.Errorf("%s is over and has no row", a.Addr)
		}
		y := numbered{n: a.Spec.(Spec).Number, Repeat: report.Repeat{Address: a.Addr, Digest: rec.Output("row")}}
		b, err := r.Bytes(y.Digest)
		if err == nil {
			err = json.Unmarshal(b, &y.Row)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the row of %s: %w", a.Addr, err)
		}
		all = append(all, y)
	}
	slices.SortFunc(all, func(a, b numbered) int { return a.n - b.n })
	var out []report.Repeat
	for _, y := range all {
		out = append(out, y.Repeat)
	}
	return out, nil
}
