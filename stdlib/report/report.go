package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/report/markdown"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// shown are the metrics of the report's tables, in display order.
var shown = []string{"request_throughput", "output_throughput", "total_throughput", "output_throughput_per_gpu",
	"ttft/send:p50", "ttft/send:p99", "tpot/excl-first:p50", "tpot/excl-first:p99", "e2e:p50", "success_rate"}

// Markdown is the report for people: who wins where and by how much, every row,
// every failed request, and how all of it was made.
func (v View) Markdown() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmark of %s\n\n", markdown.Code(v.Campaign))
	v.banner(&b)
	v.summaryLine(&b)
	v.winnersTable(&b)
	for _, s := range v.Scenarios {
		v.scenario(&b, s)
		v.parts(&b, s)
	}
	v.repeats(&b)
	v.rates(&b)
	v.fairness(&b)
	v.failing(&b)
	v.failedRequests(&b)
	v.warnings(&b)
	v.frameworks(&b)
	v.scenarios(&b)
	v.candidates(&b)
	v.definitions(&b)
	return []byte(b.String())
}

func (v View) summaryLine(b *strings.Builder) {
	var rivals []string
	for _, s := range v.selected() {
		if !s.Target {
			rivals = append(rivals, markdown.Code(s.Name))
		}
	}
	against := "no competitor"
	if rivals != nil {
		against = strings.Join(rivals, ", ")
	}
	on := "on the CPU"
	if n := len(v.Hardware.GPUIDs); n > 0 {
		on = fmt.Sprintf("on %d × %s", n, markdown.Text(v.Hardware.GPUModel))
	}
	fmt.Fprintf(b, "Target %s against %s, model %s, %s. Made by sotabuild %s.\n\n"+
		"This is the fixed benchmark. Whether the target reached the state of the art is the loop's verdict and not part of it.\n\n", markdown.Code(v.target()), against, markdown.Code(v.Model.ID), on, markdown.Text(v.Tool))
}

func (v View) winnersTable(b *strings.Builder) {
	b.WriteString("## Winners\n\n")
	g := markdown.Table{First: 4, Right: 4, Head: []string{"Scenario", "Concurrency", "Winner", "Candidate",
		"Req/s", "Output tok/s", "TTFT p50 (ms)", "TPOT p50 (ms)", "The target's gap"}}
	v.repeatsColumn(&g)
	var beside []string
	for _, s := range v.Scenarios {
		if s.Lane != "" { // It never enters this table (R073).
			beside = append(beside, fmt.Sprintf("%s: none: lane %s has a table of its own and no winner.\n\n", markdown.Code(s.Name), markdown.Code(s.Lane)))
			continue
		}
		if s.leading() == nil {
			g.Rows = append(g.Rows, v.withRepeats(g, []string{markdown.Code(s.Name), missing, s.nobody(), missing, missing, missing, missing, missing, gap(s.Ranking.Gap)}, Cell{}))
		}
		for _, d := range s.leading() {
			for _, c := range s.with(d) {
				c = s.Decided(c)
				g.Rows = append(g.Rows, v.withRepeats(g, []string{markdown.Code(s.Name), Concurrency(c.Row.Workload), markdown.Code(c.Framework) + s.word(d) + v.label(c), markdown.Code(c.Candidate),
					c.paper("request_throughput"), c.paper("output_throughput"), c.paper("ttft/send:p50"), c.paper("tpot/excl-first:p50"), s.gap(v.target())}, c))
			}
		}
	}
	if g.Rows != nil {
		g.Write(b)
	}
	b.WriteString(strings.Join(beside, ""))
	for _, s := range v.Scenarios {
		if s.unfair() != nil {
			fmt.Fprintf(b, "Scenario %s is not shown to be a fair comparison: see Fairness below.\n\n", markdown.Code(s.Name))
		}
	}
	for _, s := range v.Scenarios {
		if s.Repeats != nil && len(s.Repeats.Sides) > 0 {
			fmt.Fprintf(b, "%s: %s. See Repeated runs below.\n\n", markdown.Code(s.Name), markdown.Text(v.Winner(s)))
		}
	}
	b.WriteString("A scenario's winner is the best row over its concurrency cells that passes the SLA. " +
		"The gap is (best − target) / best on request throughput within the winner's cell; where repeats decided it is 1 − the target's ratio under Repeated runs, and not below 0.\n\n")
	v.medianNote(b)
	for _, n := range v.Notes {
		fmt.Fprintf(b, "Note: %s\n\n", markdown.Text(n))
	}
}

// nobody says why a scenario has no winner.
func (s Scenario) nobody() string {
	switch {
	case s.Open != nil:
		return "none yet: " + s.toMeasure()
	case s.Ranking.Cell != nil:
		return "none: see Repeated runs"
	case !s.measured():
		return "none: no framework has a result"
	}
	return "none passes the SLA"
}

// gap is how far the target is behind, or why that is not defined.
func gap(g winners.Gap) string {
	if g.Share == nil {
		return "not defined (" + markdown.Text(g.None) + ")"
	}
	return percent(*g.Share)
}

func (v View) scenario(b *strings.Builder, s Scenario) {
	fmt.Fprintf(b, "## Scenario %s\n\n%s, %s.\n\n", markdown.Code(s.Name), s.lengths(), result.Count(s.NumPrompts, "prompt"))
	g := markdown.Table{First: 6, Head: []string{"Concurrency", "Rank", "Framework", "Candidate", "Status", "SLA"}}
	var ids []string
	for _, id := range shown {
		if slices.ContainsFunc(s.Cells, func(c Cell) bool { _, ok := c.number(id); return ok }) {
			ids = append(ids, id)
			g.Head = append(g.Head, heading(id))
		}
	}
	g.Right = len(ids)
	g.Head = append(g.Head, "Requests ok", "Measured (UTC)", "Row")
	v.repeatsColumn(&g)
	for _, c := range s.Ordered(v.SLA) {
		cells := []string{Concurrency(c.Row.Workload), rank(s.Rank(c.Digest)), markdown.Code(c.Framework), markdown.Code(c.Candidate), v.status(c), v.slaIn(s, c)}
		c = s.Decided(c)
		for _, id := range ids {
			cells = append(cells, c.paper(id))
		}
		when := missing
		if !c.Row.Time.Started.IsZero() {
			when = c.Row.Time.Started.UTC().Format("2006-01-02 15:04")
		}
		g.Rows = append(g.Rows, v.withRepeats(g, append(cells, c.requests(), when, "`"+c.Digest.Short()+"`"), c))
	}
	if g.Rows == nil {
		b.WriteString("No rows.\n\n")
		s.open(b)
		return
	}
	g.Write(b)
	s.open(b)
	for n, c := range s.Ranking.Cells {
		if c.Workload.Dataset == "" {
			continue // its rows were never run
		}
		fmt.Fprintf(b, "Concurrency %s: the target's gap is %s.%s\n", Concurrency(c.Workload), s.gapIn(n, v.target()), s.caveats(c))
	}
	if s.Ranking.Cells != nil {
		b.WriteByte('\n')
	}
}

// caveats are what a contest's ranks do not say by themselves.
func (s Scenario) caveats(c winners.Contest) string {
	var near, unequal []string
	for _, p := range c.Places {
		for _, cell := range s.with(p.Row) {
			name := markdown.Code(cell.Framework) + " " + markdown.Code(cell.Candidate)
			switch {
			case p.Near:
				near = append(near, name)
			case p.Class == result.CacheUnequal:
				unequal = append(unequal, name)
			}
		}
	}
	out := ""
	if near != nil {
		out += fmt.Sprintf(" Within the noise threshold of the best, so that one run of each does not tell them apart: %s.", strings.Join(near, ", "))
	}
	if unequal != nil {
		out += fmt.Sprintf(" Not ranked, because more of their prompts came from a cache (`cache_unequal`): %s.", strings.Join(unequal, ", "))
	}
	if c.CacheNotShown {
		out += " Some servers do not expose their cached share: that the caches were alike is not shown."
	}
	return out
}

// heading is a metric's title with its unit on paper.
func heading(id string) string {
	d, _ := result.Define(id)
	if d.Unit == result.Seconds {
		return d.Title + " (ms)"
	}
	return d.Title
}

// requests is how many succeeded of how many; a row without requests has none.
func requests(r *result.Row) string {
	if q := r.Requests; q.OK+q.Failed+q.CutOff == 0 {
		return missing
	}
	return fmt.Sprintf("%d of %d", r.Requests.OK, r.Workload.NumPrompts)
}

// requests are those of a row, or of all its repeats.
func (c Cell) requests() string {
	if c.Repeats == nil {
		return requests(c.Row)
	}
	all := *c.Row
	all.Workload.NumPrompts *= *c.Repeats
	return requests(&all)
}

// failedRequests lists every class of failed requests, also of rows that
// passed, with the examples that were kept.
func (v View) failedRequests(b *strings.Builder) {
	b.WriteString("## Failed requests\n\n")
	g := markdown.Table{First: 5, Right: 2, Head: []string{"Framework", "Candidate", "Scenario", "Concurrency", "Class", "Failed", "Of", "Meaning", "Examples"}}
	for _, s := range v.Scenarios {
		for _, c := range s.Cells {
			for i, class := range failures(c.Row) {
				row, _ := result.Lookup(class)
				examples := ""
				if i == 0 {
					examples = strings.Join(c.Row.Requests.Examples, "\n")
				}
				g.Rows = append(g.Rows, []string{markdown.Code(c.Framework), markdown.Code(c.Candidate), markdown.Text(s.Name), Concurrency(c.Row.Workload), markdown.Code(string(class)),
					strconv.Itoa(c.Row.Requests.Failures[class]), strconv.Itoa(c.Row.Workload.NumPrompts), markdown.Text(row.Meaning), markdown.Text(examples)})
			}
		}
	}
	if g.Rows == nil {
		b.WriteString("None.\n\n")
		return
	}
	g.Write(b)
}

// failures are the classes of a row's failed requests in the order of the
// class table; classes that are not in it come last, sorted.
func failures(r *result.Row) []result.Class {
	place := func(c result.Class) int {
		i := slices.IndexFunc(result.Classes, func(row result.ClassRow) bool { return row.Class == c })
		if i < 0 {
			return len(result.Classes)
		}
		return i
	}
	sorted := slices.Sorted(maps.Keys(r.Requests.Failures))
	slices.SortStableFunc(sorted, func(a, b result.Class) int { return place(a) - place(b) })
	return sorted
}

func (v View) warnings(b *strings.Builder) {
	g := markdown.Table{Head: []string{"Framework", "Candidate", "Scenario", "Concurrency", "Warning"}}
	for _, s := range v.Scenarios {
		for _, c := range s.Cells {
			for _, w := range c.Row.Warnings {
				g.Rows = append(g.Rows, []string{markdown.Code(c.Framework), markdown.Code(c.Candidate), markdown.Text(s.Name), Concurrency(c.Row.Workload), markdown.Text(w)})
			}
		}
	}
	if g.Rows != nil {
		b.WriteString("## Warnings\n\n")
		g.Write(b)
	}
}

// candidates shows each candidate once: its flags and the commands of its
// first cell that has any.
func (v View) candidates(b *strings.Builder) {
	b.WriteString("## Candidates\n\n")
	var once []Cell
	for _, s := range v.Scenarios {
		for _, c := range s.Cells {
			i := slices.IndexFunc(once, func(o Cell) bool { return o.Framework == c.Framework && o.Candidate == c.Candidate })
			switch {
			case i < 0:
				once = append(once, c)
			case len(once[i].Row.Server.Command) == 0:
				once[i] = c
			}
		}
	}
	for _, c := range once {
		fmt.Fprintf(b, "### %s %s\n\nFlags: %s\n\n", markdown.Code(c.Framework), markdown.Code(c.Candidate), flags(c.Row.Subject.Flags))
		v.commands(b, c)
	}
}

func flags(fs []result.Flag) string {
	if len(fs) == 0 {
		return "none."
	}
	var parts []string
	for _, f := range fs {
		value := "null"
		if f.Value != nil {
			value = fmt.Sprint(f.Value)
		}
		parts = append(parts, markdown.Code(f.Name+" = "+value))
	}
	return strings.Join(parts, ", ")
}

// WithoutResult names what gave no number at all, as "FRAMEWORK in SCENARIO",
// in the order of the View; nil if every selected framework has one in every
// scenario. A number that fails the SLA is a result.
func (v View) WithoutResult() []string {
	var out []string
	for _, s := range v.Scenarios {
		for _, side := range v.selected() {
			if !s.of(side.Name, v.SLA).Measured() {
				out = append(out, side.Name+" in "+s.Name)
			}
		}
	}
	return out
}

// WithoutWinner are the scenarios that had a winner by one run of each, and none
// of whose sides came through its repeats, in the order of the View. One where
// all sides fail the SLA, by one run or by their repeats, has a result and is not
// among them.
func (v View) WithoutWinner() []Scenario {
	var out []Scenario
	for _, s := range v.Scenarios {
		if s.Ranking.Cell != nil && s.Repeats != nil && s.Repeats.Over && s.leading() == nil &&
			slices.ContainsFunc(s.Repeats.Sides, func(r Repeated) bool { return !r.failing() }) {
			out = append(out, s)
		}
	}
	return out
}
