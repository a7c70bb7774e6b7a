// Package show joins names to what the store holds, for reports and the run
// directory. What it makes is a view: it can be made again at any time and is
// never an input of anything.
package show

import (
	"encoding/json"
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
	"github.com/sotabuild/sotabuild/stdlib/campaign/ratesearch"
	"github.com/sotabuild/sotabuild/stdlib/campaign/repeats"
	"github.com/sotabuild/sotabuild/stdlib/report"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/search"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// View joins names to what the store holds for exactly this campaign on this
// host: for each cell the newest sample of its key, failed ones included. A
// cell that has none as it stands is open, which Notes say too: it was never
// measured, or what was measured does not count, such as a sample that was too
// old at since. Of an apply since is its beginning, because what was young enough
// then, or was taken in it, is its result however long it took; else it is now.
func View(p *prepare.Prepared, r cache.Reader, tool string, since, now time.Time) (report.View, error) {
	j := newJoiner(p, r, since)
	j.now = now
	c := p.Campaign
	v := report.View{
		Campaign: c.Name, Tool: tool, Smoke: c.Smoke, SLA: campaign.SLA(c),
		Model: report.Model{ID: c.Model.ID, Path: c.Model.Path, Revision: c.Model.Revision, Tokenizer: c.Model.Tokenizer,
			Precision: c.Model.Precision, Quantization: c.Model.Quantization, TrustRemoteCode: c.Model.TrustRemoteCode, MaxContext: c.Model.MaxContext},
		Workload: workloadOf(c.Load.Workload),
	}
	for _, w := range c.Load.Lanes {
		v.Lanes = append(v.Lanes, workloadOf(w))
	}
	if c.GPUs != nil {
		v.Hardware = report.Hardware{GPUModel: c.GPUs.Model, GPUIDs: c.GPUs.IDs, MultiNode: c.GPUs.MultiNode}
	}
	v.Sides = j.sides()
	repeated, err := repeats.Found(p, r, since)
	if err != nil {
		return report.View{}, err
	}
	for _, s := range c.Load.Scenarios {
		sc, err := j.scenario(s)
		if err != nil {
			return report.View{}, err
		}
		sc.Fairness = v.Fair(sc, c.Judge.Waived)
		sc.Repeats = repeated[s.Name]
		v.Scenarios = append(v.Scenarios, sc.Settled(c.Sides.Target))
	}
	if v.Rates, err = ratesearch.Found(p, r, since); err != nil {
		return report.View{}, err
	}
	if j.unmeasured > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("Not measured as the campaign stands now: %s; rankings are of the others.", result.Count(j.unmeasured, "cell")))
	}
	if good, ok := campaign.GoodLoad(j.p.Graph.Env.Recorded); ok {
		note := calibrationNote(good, rowsAbove(v, good))
		if v.Notes = append(v.Notes, note); good == 0 {
			v.Doubts = append(v.Doubts, note)
		}
	}
	return v, nil
}

// rowsAbove counts the rows with more output tokens a second than the load. A
// token is an event at most.
func rowsAbove(v report.View, good float64) (above int) {
	for _, s := range v.Scenarios {
		for _, c := range s.Cells {
			if rate, ok := c.Row.Metric("output_throughput"); ok && rate > good {
				above++
			}
		}
	}
	return above
}

// calibrationNote says what the client's stamps are worth; good is 0 where they
// were late at the lightest load already.
func calibrationNote(good float64, above int) string {
	switch {
	case good == 0:
		return fmt.Sprintf("The client was calibrated on this machine, and the 99th percentile of its read error was above 1 ms at the lightest load already: something else kept the machine busy. Latencies may be late by more than that in %s. Calibrate again when it is quiet: `sotabuild apply --replace calibrate.client`.", result.Count(above, "row"))
	case above > 0:
		return fmt.Sprintf("The client was calibrated on this machine: the 99th percentile of its read error is below 1 ms up to %.0f events/s. %s with more output tokens a second than that may show latencies that are late by more.", good, result.Count(above, "row"))
	}
	return fmt.Sprintf("The client was calibrated on this machine: the 99th percentile of its read error is below 1 ms up to %.0f events/s.", good)
}

func workloadOf(w lang.Workload) report.Workload {
	return report.Workload{Endpoint: w.Endpoint, Dataset: w.Dataset, Temperature: w.Temperature, Arrival: w.Arrival,
		Rate: w.Rate, Warmup: w.Warmup, Seed: w.Seed, Lane: w.Lane}
}

// joiner collects one view.
type joiner struct {
	p          *prepare.Prepared
	r          cache.Reader
	plan       *plan.Plan
	since      time.Time // of which the plan is
	now        time.Time
	unmeasured int
}

func newJoiner(p *prepare.Prepared, r cache.Reader, since time.Time) *joiner {
	j := &joiner{p: p, r: r, since: since, now: since}
	// The verdicts know which record is a node's; nothing is restricted, so
	// there is no address that could be wrong.
	j.plan, _ = plan.Make(p.Graph, r, plan.Options{Now: since})
	return j
}

// record is a node's record as the campaign stands: its hit, else the newest
// sample of its key, which may be a failed one; nil if there is none.
func (j *joiner) record(addr string) *cache.Record {
	id, ok := j.p.Graph.Lookup(addr)
	if !ok {
		return nil
	}
	n := j.plan.Nodes[id]
	if n.Record != nil {
		return n.Record
	}
	if n.Key.IsZero() {
		return nil
	}
	all := j.r.Lookup(n.Key)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// text reads a small output; "" where there is none.
func (j *joiner) text(addr, output string) (string, error) {
	rec := j.record(addr)
	if rec == nil || rec.Output(output).IsZero() {
		return "", nil
	}
	b, err := j.r.Bytes(rec.Output(output))
	if err != nil {
		return "", fmt.Errorf("reading %s of %s: %w", output, addr, err)
	}
	return string(b), nil
}

// sides lists who takes part, with the words of R038.
func (j *joiner) sides() []report.Side {
	c := j.p.Campaign
	var out []report.Side
	for _, fw := range campaign.Compared(c) {
		s := report.Side{Name: fw.Label, Definition: fw.Definition.Name, Target: fw.Label == c.Sides.Target,
			State: report.Selected, Dropped: search.Dropped(fw.Flags, fw.Search)}
		sw := j.p.Facts.Software[fw.Label]
		s.Image = sw.Place.Image
		if !sw.Digest.IsZero() {
			s.Software = sw.Digest.String()
		}
		if version, err := j.text(campaign.VersionAddr(fw), "version"); err == nil {
			s.Version = version
		}
		for _, h := range fw.Definition.Helps {
			if rec := j.record(campaign.HelpAddr(fw, h.Name)); rec != nil && rec.Outcome.State == cache.OK {
				s.Helps = append(s.Helps, report.Help{Name: h.Name, Path: helpPath(fw, h.Name), Digest: rec.Output("text")})
			}
		}
		out = append(out, s)
	}
	for _, name := range c.Sides.Excluded {
		out = append(out, report.Side{Name: name, State: report.Excluded, Reason: "by the user"})
	}
	for _, a := range c.Sides.Unsupported {
		out = append(out, report.Side{Name: a.Name, State: report.Unsupported, Reason: a.Reason})
	}
	for _, a := range c.Sides.Unavailable {
		out = append(out, report.Side{Name: a.Name, State: report.Unavailable, Reason: a.Reason})
	}
	return out
}

func helpPath(fw lang.Framework, name string) string { return "help/" + fw.Label + "_" + name + ".txt" }

func (j *joiner) scenario(s lang.Scenario) (report.Scenario, error) {
	out := report.Scenario{Name: s.Name, InputLen: s.InputLen, OutputLen: s.OutputLen, NumPrompts: s.NumPrompts, Mix: campaign.MixOf(s), Lane: campaign.LaneOf(j.p.Campaign.Load.Of(s))}
	byFramework := map[string][]winners.Input{}
	for _, cell := range j.p.Declared.Cells {
		if cell.Scenario.Name != s.Name {
			continue
		}
		rc, err := j.cell(cell)
		if err != nil {
			return out, err
		}
		if rc == nil {
			j.unmeasured++
			out.Open = append(out.Open, j.open(cell))
			continue
		}
		out.Cells = append(out.Cells, *rc)
		byFramework[cell.Framework] = append(byFramework[cell.Framework], winners.Input{Digest: rc.Digest, Row: *rc.Row})
	}
	out.Ranking = j.ranking(byFramework)
	return out, nil
}

// open is a cell without a result of now.
func (j *joiner) open(c campaign.Cell) report.Open {
	out := report.Open{Framework: c.Framework, Candidate: c.Candidate.Name, State: report.Never,
		Concurrency: report.Concurrency(result.Workload{Concurrency: c.Concurrency, Rate: j.p.Campaign.Load.Of(c.Scenario).Rate})}
	addr := c.Addr
	if id, _ := j.p.Graph.Lookup(addr); j.plan.Nodes[id].Verdict == plan.Cached {
		addr = c.Row // the gate behind it
	}
	id, _ := j.p.Graph.Lookup(addr)
	out.Why = j.plan.Why(j.p.Graph, id)
	if len(j.r.History(addr)) > 0 {
		out.State = report.Stale
	}
	return out
}

// ranking is computed from the rows by the very functions of the select and
// winners nodes, so that it is there before those nodes have run.
func (j *joiner) ranking(rows map[string][]winners.Input) winners.Ranking {
	sla := campaign.SLA(j.p.Campaign)
	var target key.Digest
	var sels []winners.SelectionInput
	for i, fw := range campaign.Compared(j.p.Campaign) {
		sel := winners.Select(rows[fw.Label], sla)
		// Only the order of ties depends on these digests.
		d := key.Sum([]byte{byte(i)})
		if fw.Label == j.p.Campaign.Sides.Target {
			target = d
		}
		sels = append(sels, winners.SelectionInput{Digest: d, Selection: sel})
	}
	return winners.Rank(target, sels, campaign.RulesOf(j.p.Campaign))
}

// cell is nil when the cell has no sample as it stands.
func (j *joiner) cell(c campaign.Cell) (*report.Cell, error) {
	out := &report.Cell{Framework: c.Framework, Candidate: c.Candidate.Name}
	if c.Skip != "" {
		return out, j.neverRun(c, out, c.SkipClass, strings.TrimPrefix(c.Skip, string(c.SkipClass)+": "))
	}
	rec := j.record(c.Addr)
	if rec != nil && rec.Outcome.State == cache.OK && j.toRun(c.Addr) && !j.countsSince(c.Addr, rec) {
		return nil, nil // such as a sample that is too old
	}
	if rec == nil || rec.Output("row").IsZero() {
		if ask := j.refused(c); ask != nil {
			return out, j.neverRun(c, out, result.Class(ask.Outcome.Class), ask.Node+": "+ask.Outcome.Reason)
		}
		return nil, nil
	}
	b, err := j.r.Bytes(rec.Output("row"))
	if err != nil {
		return nil, fmt.Errorf("reading the row of %s: %w", c.Addr, err)
	}
	digest := rec.Output("row")
	if c.Row != c.Addr {
		gate := j.record(c.Row)
		if gate == nil || gate.Output("row").IsZero() {
			return nil, nil // its accuracy is not known: it has no place yet
		}
		digest = gate.Output("row")
		if b, err = j.r.Bytes(digest); err != nil {
			return nil, fmt.Errorf("reading the row of %s: %w", c.Row, err)
		}
	}
	var row result.Row
	if err := json.Unmarshal(b, &row); err != nil {
		return nil, fmt.Errorf("reading the row of %s: %w", c.Addr, err)
	}
	row.Warnings = append(row.Warnings, elsewhere(rec, j.p.Graph.Env)...)
	out.Row, out.Digest = &row, digest
	if side := j.framework(c.Framework); side != nil && side.Definition.Version != nil {
		if row.Subject.Version, err = j.text(campaign.VersionAddr(*side), "version"); err != nil {
			return nil, err
		}
	}
	age := j.now.Sub(rec.Time.Started)
	out.Cached = &age
	out.Artifacts = report.Artifacts{Help: helpPath(*j.framework(c.Framework), "server")}
	if !rec.Output("requests").IsZero() {
		out.Artifacts.RawResult = "benchmark/raw/" + out.Digest.Short() + ".jsonl"
	}
	if rec.Origin.Task != "" {
		out.Artifacts.ServerLog = "benchmark/logs/" + rec.Origin.Task + "-server.log"
	}
	return out, nil
}

// elsewhere warns of what was another in a record's environment than it is now. It
// is what does not bind, or the record were no hit.
func elsewhere(rec *cache.Record, now compile.Env) (warnings []string) {
	was := map[string]string{}
	for _, o := range rec.Observed {
		was[o.Name] = o.Value
	}
	for _, o := range now.Recorded {
		name, ok := strings.CutPrefix(o.Name, "env.")
		if before, known := was[o.Name]; ok && known && before != o.Value {
			warnings = append(warnings, fmt.Sprintf("measured with %s %s, and this host has %s now", name, before, o.Value))
		}
	}
	return warnings
}

// toRun reports whether the plan would run a node.
func (j *joiner) toRun(addr string) bool {
	id, _ := j.p.Graph.Lookup(addr)
	v := j.plan.Nodes[id].Verdict
	return v == plan.New || v == plan.Stale || v == plan.Later
}

// countsSince reports whether a node's sample was taken since the view's
// beginning and is accepted, but for its age now.
func (j *joiner) countsSince(addr string, rec *cache.Record) bool {
	id, _ := j.p.Graph.Lookup(addr)
	if rec.Time.Started.Before(j.since) {
		return false
	}
	hit, _ := plan.Hit(&j.p.Graph.Actions[id], j.r.Lookup(j.plan.Nodes[id].Key), rec.Time.Started)
	return hit != nil
}

// refused is the failed question that keeps a cell from running: a program that
// does not say its help or version is never served with. nil if there is none.
func (j *joiner) refused(c campaign.Cell) *cache.Record {
	fw := *j.framework(c.Framework)
	asks := []string{campaign.HelpAddr(fw, "server")}
	if fw.Definition.Version != nil {
		asks = append(asks, campaign.VersionAddr(fw))
	}
	for _, addr := range asks {
		if rec := j.record(addr); rec != nil && rec.Outcome.State == cache.Failed {
			return rec
		}
	}
	return nil
}

// neverRun makes the row of a cell that was never run (R075).
func (j *joiner) neverRun(c campaign.Cell, out *report.Cell, class result.Class, reason string) error {
	id, _ := j.p.Graph.Lookup(c.Addr)
	spec := j.p.Graph.Actions[id].Spec.(campaign.BenchSpec)
	row := spec.SkippedRow(class, reason)
	b, err := json.Marshal(row)
	if err != nil {
		return fmt.Errorf("writing the row of %s, which was never run: %w", c.Addr, err)
	}
	out.Row, out.Digest = &row, key.Sum(b)
	return nil
}

func (j *joiner) framework(label string) *lang.Framework {
	all := j.p.Campaign.Frameworks
	i := slices.IndexFunc(all, func(f lang.Framework) bool { return f.Label == label })
	if i < 0 {
		return nil
	}
	return &all[i]
}
