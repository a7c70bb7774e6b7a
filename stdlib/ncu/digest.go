package ncu

import (
	"fmt"

	"github.com/sotabuild/sotabuild/stdlib/ncu/diagnosis"
	"github.com/sotabuild/sotabuild/stdlib/ncu/match"
	"github.com/sotabuild/sotabuild/stdlib/ncu/page"
)

// schema is the version of digest.json.
const schema = 1

// Digest is the comparison of two versions of one kernel. Either Blocker is
// set, or Baseline, Candidate, Delta and NextEdit are.
type Digest struct {
	Schema      int    `json:"schema"`
	Version     string `json:"version"` // set by Write
	KernelRegex string `json:"kernel_regex,omitempty"`
	Subject
	Pairing   *match.Pairing  `json:"pairing,omitempty"`
	Baseline  *Side           `json:"baseline"`
	Candidate *Side           `json:"candidate"`
	Delta     *Delta          `json:"delta"`
	Diagnosis []Reading       `json:"diagnosis"`
	Blocker   *Blocker        `json:"blocker"`
	NextEdit  *diagnosis.Edit `json:"next_edit"`
	files     []file
}

// Side is what was measured of one version.
type Side struct {
	Identity
	Commit   string           `json:"commit,omitempty"`
	Report   []Kept           `json:"report"`
	Launches int              `json:"launches"`
	Metrics  page.Metrics     `json:"metrics"` // of the rows; medians over launches. The rest is in the pages
	Result   diagnosis.Result `json:"bottleneck"`
	Notes    []page.Note      `json:"notes,omitempty"` // flaws of the files
}

// Identity is what the validity gate looks at.
type Identity struct {
	Kernels []string `json:"kernels"` // canonical name, grid and block; several when merged
	Device  string   `json:"device"`  // "unknown" on a page that does not name it
	CC      string   `json:"cc"`
	Tool    string   `json:"ncu_version"` // "unknown" for CSV, which does not carry it
	Shape   string   `json:"shape,omitempty"`
	Threads int      `json:"threads,omitempty"` // over all blocks; 0 is unknown
	SMHz    float64  `json:"sm_hz,omitempty"`   // 0 is unknown
}

// Kept is a file in the digest's reports folder.
type Kept struct {
	File   string `json:"file"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Delta is the difference between the sides.
type Delta struct {
	Comparable bool     `json:"comparable"`
	Reasons    []string `json:"not_comparable,omitempty"` // why not; empty when comparable
	Warnings   []string `json:"warnings,omitempty"`
	Verdict    string   `json:"verdict"` // faster, slower, no change, not comparable
	*Change             // nil when not comparable
	Split      *Split   `json:"cycles_split,omitempty"` // nil when not comparable or not collected
	Rows       []Row    `json:"rows,omitempty"`
}

// Change is what the verdict went by.
type Change struct {
	By          string  `json:"by"`           // duration, or cycles when the clocks differ
	Speedup     float64 `json:"speedup"`      // baseline / candidate
	DurationPct float64 `json:"duration_pct"` // change of what By names
	NoisePct    float64 `json:"noise_pct"`    // a smaller change is no change
}

// Split explains the ratio of cycles: instructions × cycles per instruction.
type Split struct {
	Cycles       float64 `json:"cycles_ratio"` // candidate / baseline, each
	Instructions float64 `json:"instructions_ratio"`
	PerInst      float64 `json:"cycles_per_instruction_ratio"`
}

// Row is one counter on both sides. A nil side was not collected.
type Row struct {
	Metric    string   `json:"metric"`
	Label     string   `json:"label"`
	Unit      string   `json:"unit,omitempty"`
	Baseline  *float64 `json:"baseline"`
	Candidate *float64 `json:"candidate"`
	Delta     *float64 `json:"delta"` // percent; points for shares
	Verdict   string   `json:"verdict"`
}

// Reading is a counter that decided a bottleneck, with its value on both sides.
type Reading struct {
	Metric    string   `json:"metric"`
	Baseline  *float64 `json:"baseline"`
	Candidate *float64 `json:"candidate"`
	Reading   string   `json:"reading"`
}

// Blocker is why there are no counters.
type Blocker struct {
	Code   string `json:"code"`
	Side   string `json:"side"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy"`
}

func (d *Digest) block(b *Blocker, fallback *diagnosis.Edit) {
	d.Blocker, d.NextEdit = b, fallback
}

// compare fills everything but the pairing.
func (d *Digest) compare(b, c side, o Options) {
	input := func(s side) diagnosis.Input {
		g := s.groups[0]
		in := diagnosis.Input{Kernel: g.Launches[0].Kernel, Metrics: match.Metrics(s.groups), File: s.File, MinBytes: o.MinBytes}
		if len(s.groups) > 1 {
			in.Metrics = g.Launches[0].Metrics // shares of peak do not add up; the first kernel speaks for them
		}
		in.Findings, in.Sections = g.Launches[0].Findings, g.Launches[0].Sections
		return in
	}
	bin, cin := input(b), input(c)
	cin.Gap, cin.Refuted, cin.Neighbour = o.Gap, o.Refuted, o.Neighbour
	bres, cres := diagnosis.Of(bin), diagnosis.Of(cin)
	d.Baseline, d.Candidate = d.side(b, bres), d.side(c, cres)
	d.Delta = compare(b, c, d.Baseline, d.Candidate)
	d.Diagnosis = readings(bres, cres, match.Metrics(b.groups), match.Metrics(c.groups))
	edit := cres.Edit
	switch d.Delta.Verdict {
	case "not comparable":
		edit = again(edit, d.Delta.Reasons)
	case "slower":
		edit = revert(edit, d.Delta)
	}
	if d.SharePct > 0 && edit.GainPct > 0 {
		edit.Expect += fmt.Sprintf(" (%.2f %% of the stage)", edit.GainPct*d.SharePct/100)
	}
	d.NextEdit = &edit
}

// again is the edit of a comparison that cannot be made.
func again(e diagnosis.Edit, reasons []string) diagnosis.Edit {
	e.ID, e.GainPct = "reprofile-pair", 0
	e.Change = "profile both versions again on one GPU with the same sections, clocks and shape"
	e.Why = "the two reports cannot be compared: " + reasons[0]
	e.Expect = "a comparison; no time by itself"
	e.Refuted = "the gate still names a reason"
	return e
}

// revert is the edit after a regression: going on from a worse kernel would
// hide what made it worse.
func revert(e diagnosis.Edit, d *Delta) diagnosis.Edit {
	worst := worstRow(d.Rows)
	e.ID, e.GainPct = "revert", 100*d.DurationPct/(100+d.DurationPct)
	e.Change = "revert the candidate, or correct what made it slower: " + worst
	e.Why = fmt.Sprintf("%s rose by %.1f %%, beyond the noise of %.1f %%", d.By, d.DurationPct, d.NoisePct)
	e.Expect = fmt.Sprintf("the baseline's time again, %.1f %% less than now", e.GainPct)
	e.Refuted = "the baseline is as slow in a second measurement"
	return e
}

func (d *Digest) side(s side, r diagnosis.Result) *Side {
	out := &Side{Identity: s.identity(), Commit: s.Commit, Launches: 0, Metrics: page.Metrics{}, Result: r, Notes: s.report.Notes}
	for _, g := range s.groups {
		out.Launches += len(g.Launches)
	}
	all := match.Metrics(s.groups)
	for _, row := range rows {
		for _, n := range row.names {
			if m, ok := all[n]; ok {
				out.Metrics[n] = m
			}
		}
	}
	for _, f := range s.files {
		out.Report = append(out.Report, kept(f))
	}
	return out
}

func (s side) identity() Identity {
	first := s.groups[0].Launches[0]
	id := Identity{Device: "unknown", CC: first.CC, Tool: "unknown", Shape: s.Shape}
	if m, ok := first.Metrics["device__attribute_display_name"]; ok {
		id.Device = m.Text
	}
	if s.tool != "" {
		id.Tool = s.tool
	}
	if id.CC == "" {
		id.CC = "unknown"
	}
	for _, g := range s.groups {
		id.Kernels = append(id.Kernels, g.String())
		id.Threads += g.Grid.Count() * g.Block.Count()
	}
	id.SMHz, _ = match.Metrics(s.groups[:1]).Number("gpc__cycles_elapsed.avg.per_second")
	return id
}

// readings joins what decided either side, the candidate's first.
func readings(b, c diagnosis.Result, bm, cm page.Metrics) []Reading {
	var out []Reading
	seen := map[string]bool{}
	add := func(role string, r diagnosis.Result) {
		for _, f := range r.Deciders {
			if seen[f.Metric] {
				continue
			}
			seen[f.Metric] = true
			out = append(out, Reading{Metric: f.Metric, Baseline: valueOf(f.Metric, b, bm), Candidate: valueOf(f.Metric, c, cm),
				Reading: fmt.Sprintf("%s: %s%s → %s", role, f.Reading, against(f.Threshold), r.Class)})
		}
	}
	add("candidate", c)
	add("baseline", b)
	return out
}

func against(threshold string) string {
	if threshold == "" {
		return ""
	}
	return " (" + threshold + ")"
}

// valueOf is a decided-on value of one side: what its diagnosis used, else the counter.
func valueOf(metric string, r diagnosis.Result, m page.Metrics) *float64 {
	for _, facts := range [][]diagnosis.Fact{r.Deciders, r.Others, r.Derived} {
		for _, f := range facts {
			if f.Metric == metric {
				return &f.Value
			}
		}
	}
	if v, ok := m.Number(metric); ok {
		return &v
	}
	return nil
}
