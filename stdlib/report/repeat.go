package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/report/markdown"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// Repeats are the repeated runs of a scenario's winner and of what could be as
// good.
type Repeats struct {
	Threshold float64    `json:"threshold"` // share within which two are tied
	Max       int        `json:"max_repeats"`
	Over      bool       `json:"over"`          // the verdicts stand in the ranking
	Why       string     `json:"why,omitempty"` // what the last look said, or why there is none
	Sides     []Repeated `json:"sides,omitempty"`
	// Beyond are frameworks that are too far behind by one run to be repeated.
	Beyond []string `json:"beyond,omitempty"`
}

// Repeated is the best candidate of a framework with its repeats.
type Repeated struct {
	Framework string           `json:"framework"`
	Candidate string           `json:"candidate"`
	Row       key.Digest       `json:"row"` // by which it stands in the ranking
	Said      winners.Repeated `json:"said"`
	Rejected  []string         `json:"rejected,omitempty"` // repeats that are no samples, with why
	Failing   []string         `json:"failing,omitempty"`  // samples that do not keep the SLA, with why
	// Medians are over the samples of each metric those that have it, which N
	// counts; nil before the repeats are over.
	Medians []result.Metric `json:"medians,omitempty"`
	Repeats []Repeat        `json:"repeats"`
}

// failing reports whether the side is out because most of its samples do not
// keep the SLA. One of which a repeat is neither a sample nor rejected broke.
func (r Repeated) failing() bool {
	return 2*len(r.Failing) > r.Said.Samples && len(r.Repeats) == r.Said.Samples+len(r.Rejected)
}

// Repeat is one server life that was measured.
type Repeat struct {
	Address string     `json:"address"`
	Digest  key.Digest `json:"digest"` // of the row
	Row     result.Row `json:"row"`
}

// said are the verdicts by row, once they are final.
func (r *Repeats) said() map[key.Digest]winners.Repeated {
	if r == nil || !r.Over {
		return nil
	}
	out := map[key.Digest]winners.Repeated{}
	for _, s := range r.Sides {
		out[s.Row] = s.Said
	}
	return out
}

// Settled is the scenario with the verdicts of its repeats in the ranking, once
// they are final, and their medians; without a winner while cells are open, and
// without a gap where nobody was beaten.
func (s Scenario) Settled(target string) Scenario {
	if s.Open != nil {
		s.Ranking, s.Ahead = s.undecided()
		return s
	}
	s.Ranking = s.Ranking.Settle(s.Repeats.said(), func(d key.Digest) bool {
		for _, c := range s.with(d) {
			if c.Framework == target {
				return true
			}
		}
		return false
	})
	if s.Repeats != nil && s.Repeats.Over {
		r := *s.Repeats
		r.Sides = slices.Clone(r.Sides)
		for i := range r.Sides {
			r.Sides[i].Medians = r.Sides[i].medians()
		}
		s.Repeats = &r
	}
	if g := s.Ranking.Gap; g.Share != nil && s.alone() {
		s.Ranking.Gap = winners.Gap{None: "no other framework has a result"}
		s.Ranking.Cells = slices.Clone(s.Ranking.Cells)
		for i := range s.Ranking.Cells {
			if c := &s.Ranking.Cells[i]; c.Share != nil {
				c.Gap = s.Ranking.Gap
			}
		}
	}
	return s
}

// place is where a row stands; the zero value if it does not.
func (s Scenario) place(d key.Digest) winners.Place {
	for _, c := range s.Ranking.Cells {
		for _, p := range c.Places {
			if p.Row == d {
				return p
			}
		}
	}
	return winners.Place{}
}

// word is what repeats say of a row, in brackets; "" where they say nothing
// that the rank does not.
func (s Scenario) word(d key.Digest) string {
	if x := s.place(d).Repeated; x != nil && (x.Verdict == winners.Unresolved || len(s.Ranking.Unresolved) > 0) {
		return " (unresolved)"
	}
	switch {
	case s.alone():
		return " (the only one with a result)"
	case s.tied():
		return " (tied)"
	}
	return ""
}

// tied reports whether several share the first place.
func (s Scenario) tied() bool { return len(s.names(s.Ranking.Best)) > 1 }

// leading are the rows that the winner column names.
func (s Scenario) leading() []key.Digest {
	if s.Ranking.Best != nil {
		return s.Ranking.Best
	}
	return s.Ranking.Unresolved
}

// gap is where the target stands in words: by repeats where they say it.
func (s Scenario) gap(target string) string {
	for _, d := range s.leading() {
		x := s.place(d).Repeated
		for _, c := range s.with(d) {
			switch {
			case c.Framework != target:
			case x != nil && x.Verdict == winners.Unresolved:
				return fmt.Sprintf("unresolved (%s)", interval(*x))
			case s.Ranking.Best == nil:
				return "unresolved: no other is shown to be ahead of the target, nor it of all others"
			case x != nil && x.Verdict == winners.Tied:
				return fmt.Sprintf("%s (tied: %s)", gap(s.Ranking.Gap), interval(*x))
			case s.tied() && s.Ranking.Share != nil:
				return gap(s.Ranking.Gap) + " (tied)"
			}
		}
	}
	return gap(s.Ranking.Gap)
}

// gapIn is the target's gap in a cell, the winner's one as its scenario has it.
func (s Scenario) gapIn(n int, target string) string {
	if s.Ranking.Cell != nil && *s.Ranking.Cell == n {
		return s.gap(target)
	}
	return gap(s.Ranking.Cells[n].Gap)
}

// interval is a ratio with its bounds on paper.
func interval(x winners.Repeated) string {
	if x.Ratio == 0 {
		return missing
	}
	return fmt.Sprintf("ratio %.4f, %.4f to %.4f", x.Ratio, x.Low, x.High)
}

// evidence is the clause that says what the winner of a scenario rests on.
func (s Scenario) evidence() string {
	r := s.Repeats
	switch {
	case r == nil:
		return ""
	case !r.Over && len(r.Sides) > 0:
		return " by one run of each (the repeats are not over)"
	case !r.Over:
		return ""
	}
	var samples []int
	var out []string
	for _, x := range r.Sides {
		if x.Said.Verdict == winners.Out {
			out = append(out, x.Framework)
		} else {
			samples = append(samples, x.Said.Samples)
		}
	}
	if len(samples) == 0 {
		return ""
	}
	least, most := slices.Min(samples), slices.Max(samples)
	text := " by " + result.Count(most, "repeat")
	if least < most {
		text = fmt.Sprintf(" by %d to %d repeats", least, most)
	}
	if len(samples) > 1 {
		text += " of each"
	}
	if len(out) > 0 {
		text += ", without " + strings.Join(out, " and ") + ", which did not come through its own"
	}
	return text
}

// repeats shows what the repeated runs say, with every sample.
func (v View) repeats(b *strings.Builder) {
	t := markdown.Table{First: 3, Head: append([]string{"Scenario"}, RepeatsHead...)}
	var notes []string
	for _, s := range v.Scenarios {
		if s.Repeats == nil {
			continue
		}
		for _, x := range s.Repeats.Sides {
			line := x.Line(s)
			for i, text := range line {
				line[i] = markdown.Text(text)
				if i < 2 || i == 3 && text != missing { // who it is, and against whom
					line[i] = markdown.Code(text)
				}
			}
			t.Rows = append(t.Rows, append([]string{markdown.Code(s.Name)}, line...))
		}
		notes = append(notes, fmt.Sprintf("Scenario %s: %s.\n\n", markdown.Code(s.Name), markdown.Text(s.Repeats.Note())))
	}
	if notes == nil {
		return
	}
	b.WriteString("## Repeated runs\n\n")
	if t.Rows != nil {
		t.Write(b)
	}
	b.WriteString(strings.Join(notes, ""))
	if t.Rows != nil {
		b.WriteString(AboutRepeats + "\n\n")
	}
}

// AboutRepeats explains the table of repeats.
const AboutRepeats = "Each repeat is a server life of its own, in turns with the others' (A B B A), with the prompts of the winner's cell. The run that a candidate was chosen by is no sample. " +
	"The ratio is of request throughputs, the median of all pairs of samples. First, tied and unresolved share a rank."

// Note is where the repeats stand, in words.
func (r *Repeats) Note() string {
	note := r.Why
	if !r.Over && len(r.Sides) > 0 {
		note = "the repeats are not over, so the winner is by one run of each"
	}
	if len(r.Beyond) > 0 {
		note += fmt.Sprintf("; more than %.4g %% behind by one run, so not repeated: %s", 1000*r.Threshold, strings.Join(r.Beyond, ", "))
	}
	if b := r.pause(); b >= longPause {
		note += fmt.Sprintf("; %s passed between two of them, so what drifts on this host may be in the ratios", span(b))
	}
	return note
}

// longPause is how long no repeat may run before it is said: as those of an
// apply that was stopped, whose next one goes on from there. Repeats are in turns
// so that drift falls on all sides alike, and a pause ends that.
const longPause = time.Hour

// pause is the longest time between two repeats in which none ran.
func (r *Repeats) pause() (longest time.Duration) {
	var ran []result.Times
	for _, x := range r.Sides {
		for _, y := range x.Repeats {
			if !y.Row.Time.Started.IsZero() {
				ran = append(ran, y.Row.Time)
			}
		}
	}
	slices.SortFunc(ran, func(a, b result.Times) int { return a.Started.Compare(b.Started) })
	for i := 1; i < len(ran); i++ {
		end := ran[i-1].Started.Add(time.Duration(ran[i-1].Seconds * float64(time.Second)))
		longest = max(longest, ran[i].Started.Sub(end))
	}
	return longest
}

// RepeatsHead are the headings of the columns that Line gives.
var RepeatsHead = []string{"Framework", "Candidate", "Verdict", "Against", "Ratio", "Interval", "Samples", "Req/s of each", "Not counted, not kept"}

// Line is a side's line in a table of the scenario's repeats, as plain text.
func (x Repeated) Line(s Scenario) []string {
	ratio, bounds, against := missing, missing, missing
	if x.Said.Ratio != 0 {
		ratio, bounds = fmt.Sprintf("%.4f", x.Said.Ratio), fmt.Sprintf("%.4f to %.4f", x.Said.Low, x.Said.High)
	}
	for _, y := range s.Repeats.Sides {
		if y.Row == x.Said.Against {
			against = y.Framework
		}
	}
	var values, not []string
	for _, r := range x.Repeats {
		if c := (Cell{Row: &r.Row}); r.Row.Status == result.OK {
			values = append(values, c.paper("request_throughput"))
		}
	}
	not = append(append(not, x.Rejected...), x.Failing...)
	if x.Said.Why != "" {
		not = append(not, x.Said.Why)
	}
	verdict := string(x.Said.Verdict)
	if verdict == "" {
		verdict = "not over"
	}
	return []string{x.Framework, x.Candidate, verdict, against, ratio, bounds, strconv.Itoa(x.Said.Samples), strings.Join(values, ", "), strings.Join(not, "; ")}
}

// RepeatRows is one line a repeat, as JSON; nil without any. Metrics of rows
// that are not ok are left out.
func (v View) RepeatRows() ([]byte, error) {
	var b bytes.Buffer
	for _, s := range v.Scenarios {
		if s.Repeats == nil {
			continue
		}
		for _, x := range s.Repeats.Sides {
			for _, r := range x.Repeats {
				line, err := json.Marshal(struct {
					Framework string `json:"framework"`
					Scenario  string `json:"scenario"`
					Candidate string `json:"candidate"`
					Repeat
				}{x.Framework, s.Name, x.Candidate, r.quiet()})
				if err != nil {
					return nil, fmt.Errorf("writing the row of %s: %w", r.Address, err)
				}
				b.Write(append(line, '\n'))
			}
		}
	}
	return b.Bytes(), nil
}

// quiet is the repeat without the numbers of a row that is not ok (R076).
func (r Repeat) quiet() Repeat {
	if r.Row.Status != result.OK {
		r.Row.Metrics, r.Row.Parts = nil, nil
	}
	return r
}

// Quiet are the repeats without the numbers of rows that are not ok; nil of nil.
func (r *Repeats) Quiet() *Repeats {
	if r == nil {
		return nil
	}
	out := *r
	out.Sides = nil
	for _, x := range r.Sides {
		var all []Repeat
		for _, y := range x.Repeats {
			all = append(all, y.quiet())
		}
		x.Repeats = all
		out.Sides = append(out.Sides, x)
	}
	return &out
}
