// Package repeats makes the campaign's noise block a loop of the engine: the
// winner of each scenario and what could be as good is measured again and again,
// each repeat a new server life, until it is shown who is ahead, or that they
// are tied, or that nobody can say (DESIGN 8(1); R123).
//
// It starts with what the campaign's graph ranks, so a scenario has nothing to
// repeat before that is decided. Rounds live outside that graph, at
// repeat.SCENARIO.round[N]; the caller applies them. What the samples say is
// package stats's to decide, by package repeat's loop. The run that a candidate
// was chosen by is no sample: the best of many runs is too good.
package repeats

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/campaign/rounds"
	"github.com/sotabuild/sotabuild/stdlib/repeat"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// Prefix begins the addresses of all rounds.
const Prefix = "repeat."

// Reach is how many times the noise threshold a row may be behind the winner,
// each by one run, to be repeated: beyond it no noise that could be tolerated
// makes it as good, and its server lives are saved.
const Reach = 10

// NoiseOfOneRun is the share behind up to which a row is repeated whatever the
// threshold is: a small one asks for a finer difference, and one run of each does
// not become less noisy by it.
const NoiseOfOneRun = 0.1

// Contest is the repeats of one scenario.
type Contest struct {
	rounds.Loop
	Scenario lang.Scenario
	Sides    []Side // the winner by one run first
	Beyond   []Side // ranked, and too far behind to be repeated
}

// Side is the best candidate of a framework in the winner's cell.
type Side struct {
	Cell campaign.Cell
	Row  key.Digest
	// Behind is the share of the winner's request throughput that it lacks, each
	// by one run.
	Behind float64
}

// Of are the contests of a campaign, one a scenario of the main lane as declared; nil where no
// noise block is written.
func Of(p *prepare.Prepared, r cache.Reader, now time.Time) ([]Contest, error) {
	c := p.Campaign
	if !c.Judge.Noise.Written {
		return nil, nil
	}
	made, problems := plan.Make(p.Graph, r, plan.Options{Now: now})
	if len(problems) > 0 {
		return nil, errors.New(problems[0].String())
	}
	find := finder{p, r, made}
	var out []Contest
	for _, s := range c.Load.Main() {
		x := Contest{Loop: rounds.Loop{Addr: Prefix + s.Name, Whole: true}, Scenario: s}
		if err := find.fill(&x); err != nil {
			return nil, fmt.Errorf("%s: %w", x.Addr, err)
		}
		out = append(out, x)
	}
	return out, nil
}

// finder reads what the campaign's graph has decided.
type finder struct {
	p    *prepare.Prepared
	r    cache.Reader
	made *plan.Plan
}

// record is a node's hit; nil if it has none.
func (f finder) record(addr string) *cache.Record {
	id, ok := f.p.Graph.Lookup(addr)
	if !ok || f.made.Nodes[id].Verdict != plan.Cached {
		return nil
	}
	return f.made.Nodes[id].Record
}

// fill finds the sides, and makes the loop of their rounds.
func (f finder) fill(x *Contest) error {
	i := slices.IndexFunc(f.p.Declared.Winners, func(w campaign.Winner) bool { return w.Scenario == x.Scenario.Name })
	addr := f.p.Declared.Winners[i].Addr
	rec := f.record(addr)
	if rec == nil {
		x.Undecided, x.Why = true, addr+" decides of which candidates"
		return nil
	}
	b, err := f.r.Bytes(rec.Output("ranking"))
	if err != nil {
		return err
	}
	var ranking winners.Ranking
	if err := json.Unmarshal(b, &ranking); err != nil {
		return fmt.Errorf("reading %s: %w", addr, err)
	}
	if ranking.Cell == nil {
		x.Why = ranking.None
		return nil
	}
	if err := f.sides(x, ranking.Cells[*ranking.Cell]); err != nil {
		return err
	}
	switch {
	case len(x.Sides) < 2 && len(x.Beyond) > 0:
		x.Why = fmt.Sprintf("nothing to repeat: by one run of each every other framework is more than %.4g %% behind", 100*f.reach())
	case len(x.Sides) < 2:
		x.Why = "nothing to repeat: no other framework has a row that passes in the winner's cell"
	default:
		f.loop(x)
	}
	return nil
}

func (f finder) reach() float64 { return reach(f.p.Campaign.Judge.Noise.Threshold) }

func reach(threshold float64) float64 { return max(NoiseOfOneRun, Reach*threshold) }

// sides are the frameworks' best rows of a cell, each framework once.
func (f finder) sides(x *Contest, contest winners.Contest) error {
	top := 0.
	seen := map[string]bool{}
	for _, place := range contest.Places {
		if place.Rank == 0 {
			continue
		}
		i := slices.IndexFunc(f.p.Declared.Cells, func(c campaign.Cell) bool {
			if c.Scenario.Name != x.Scenario.Name || c.Skip != "" || seen[c.Framework] {
				return false
			}
			rec := f.record(c.Row)
			return rec != nil && rec.Output("row") == place.Row
		})
		if i < 0 {
			continue // a second candidate of a framework that is tied with its first
		}
		s := Side{Cell: f.p.Declared.Cells[i], Row: place.Row}
		seen[s.Cell.Framework] = true
		if throughput := *place.Score.RequestThroughput; len(x.Sides) == 0 {
			top = throughput
		} else {
			s.Behind = (top - throughput) / top
		}
		if s.Behind > f.reach() {
			x.Beyond = append(x.Beyond, s)
		} else {
			x.Sides = append(x.Sides, s)
		}
	}
	if len(x.Sides) == 0 {
		return errors.New("the ranking names a row that no cell has")
	}
	return nil
}

// loop makes the rounds of a contest.
func (f finder) loop(x *Contest) {
	c := f.p.Campaign
	n := c.Judge.Noise
	sla := campaign.SLA(c)
	terms, err := json.Marshal(sla)
	if err != nil {
		panic("repeats: limits cannot be written as JSON: " + err.Error())
	}
	conf := repeat.Config{At: x.Addr, Bounds: repeat.Bounds{Threshold: n.Threshold, Min: n.MinRepeats, Max: n.MaxRepeats}, Terms: terms}
	conf.Shared = func(round string) []compile.Decl {
		return []compile.Decl{{Addr: round + promptsNode, Kind: campaign.DatasetKind,
			Spec: campaign.CellDataset(c, f.p.Facts, x.Scenario, x.Sides[0].Cell.Concurrency)}}
	}
	var names []string
	var cells []campaign.BenchSpec
	for _, s := range x.Sides {
		cells = append(cells, f.cell(s))
	}
	contest := among(cells)
	for i, s := range x.Sides {
		names = append(names, s.Cell.Framework+" "+s.Cell.Candidate.Name)
		conf.Sides = append(conf.Sides, repeat.Side{Name: s.Cell.Framework, Output: "row", Node: f.node(s, cells[i], contest),
			Sample: func(b []byte) (repeat.Sample, error) { return sample(b, sla) }})
	}
	x.Rounds = repeat.New(conf)
	x.Bound, x.Of = x.Rounds.Bound, strings.Join(names, " and ")
	x.Framework = func(block string) string { return block[strings.LastIndexByte(block, '.')+1:] }
}

// promptsNode is the frozen prompts, below a round: those of the cell.
const promptsNode = ".prompts"

// cell is what the repeats of a side measure.
func (f finder) cell(s Side) campaign.BenchSpec {
	c := f.p.Campaign
	fw := c.Frameworks[slices.IndexFunc(c.Frameworks, func(x lang.Framework) bool { return x.Label == s.Cell.Framework })]
	return campaign.NewBenchSpec(c, f.p.Facts, fw, s.Cell.Candidate, s.Cell.Scenario, s.Cell.Concurrency)
}

// node declares the repeats of a side.
func (f finder) node(s Side, cell campaign.BenchSpec, contest key.Digest) func(addr string, n int) compile.Decl {
	c := f.p.Campaign
	return func(addr string, n int) compile.Decl {
		round := addr[:strings.LastIndexByte(addr, '.')]
		d := compile.Decl{
			Addr: addr, Kind: Kind, Batch: addr, Resources: compile.Resources{Quiet: true}, Timeout: campaign.CellTimeout(s.Cell.Scenario),
			Spec:   Spec{cell, n, contest},
			Inputs: []compile.Input{{Name: "prompts", From: round + promptsNode, Output: "prompts"}},
		}
		if c.GPUs != nil {
			d.Resources.GPUs = c.GPUs.IDs
		}
		return d
	}
}

// metric is the first that ranks.
const metric = "request_throughput"

// sample reads a repeat's row.
func sample(b []byte, sla winners.SLA) (repeat.Sample, error) {
	var row result.Row
	if err := json.Unmarshal(b, &row); err != nil {
		return repeat.Sample{}, fmt.Errorf("reading its row: %w", err)
	}
	words := fmt.Sprintf("%s: %s", row.Class, row.Reason)
	class, known := result.Lookup(row.Class)
	switch v, ok := row.Metric(metric); {
	case row.Status != result.OK && known && class.Reject:
		return repeat.Sample{Rejected: words}, nil
	case row.Status != result.OK && known && class.Keep:
		return repeat.Sample{Broken: words}, nil
	case row.Status != result.OK:
		return repeat.Sample{}, fmt.Errorf("it has no verdict: %s", words)
	case !ok || !(v > 0):
		return repeat.Sample{Broken: "its row has no request throughput"}, nil
	default:
		return repeat.Sample{Value: v, Failing: strings.Join(winners.Judge(&row, sla).Reasons, "; ")}, nil
	}
}
