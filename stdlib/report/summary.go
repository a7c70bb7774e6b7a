package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/report/markdown"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// Summary is benchmark/summary.md: the three tables of the seeds (R082), with
// their titles and headings, and the cell's concurrency beside each row.
func (v View) Summary() []byte {
	var b strings.Builder
	b.WriteString("# Benchmark summary\n\n")
	v.banner(&b)
	v.medianNote(&b)
	v.bestByFramework(&b)
	v.crossFramework(&b)
	v.failing(&b)
	v.definitions(&b)
	return []byte(b.String())
}

// banner stands at the head of every text of a smoke campaign (R070).
func (v View) banner(b *strings.Builder) {
	if v.Smoke {
		b.WriteString("**Flow check: this run shows that the pieces work together. Nothing in it is a result.**\n\n")
	}
}

// cpus are the processors of the hosts that rows were measured on, each once,
// sorted; nil where no row knows its own.
func (v View) cpus() []string {
	found := map[string]bool{}
	for _, s := range v.Scenarios {
		for _, c := range s.Cells {
			if h := c.Row.Subject.Hardware; h.CPU != "" {
				found[fmt.Sprintf("%s, %s", h.CPU, result.Count(h.Cores, "core"))] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func (v View) bestByFramework(b *strings.Builder) {
	b.WriteString("## Best Commands By Framework\n\n")
	for _, side := range v.selected() {
		fmt.Fprintf(b, "### %s\n\n", markdown.Code(side.Name))
		g := markdown.Table{First: 5, Right: 10, Head: []string{"Scenario", "Concurrency", "Candidate", "Status", "SLA", "Req/s", "Output tok/s", "Total tok/s", "P50 TTFT ms", "P50 TPOT ms",
			"Success rate", "Accept len", "Pre-scheduler ms", "Cache hit", "GPUs", "Server command", "Artifacts"}}
		v.repeatsColumn(&g)
		var none, failed, open []string
		for _, s := range v.Scenarios {
			of := s.of(side.Name, v.SLA)
			best := of.Best
			switch n := s.openOf(side.Name); {
			case n > 0:
				open = append(open, fmt.Sprintf("%s (%s)", markdown.Code(s.Name), result.Count(n, "cell")))
			case !of.Measured():
				failed = append(failed, markdown.Code(s.Name))
			case best == nil:
				none = append(none, markdown.Code(s.Name))
			}
			for _, c := range v.cellsOf(s, side.Name, best) {
				sla := v.slaIn(s, c)
				c = s.Decided(c)
				g.Rows = append(g.Rows, v.withRepeats(g, []string{markdown.Text(s.Name), Concurrency(c.Row.Workload), markdown.Code(c.Candidate), v.status(c), sla,
					c.paper("request_throughput"), c.paper("output_throughput"), c.paper("total_throughput"), c.paper("ttft/send:p50"), c.paper("tpot/excl-first:p50"),
					c.paper("success_rate"), optional(c.AcceptLength()), missing, optional(c.CacheHit()), c.gpus(),
					markdown.Code(Quote(c.Row.Server.Command)), c.Artifacts.markdown()}, c))
			}
		}
		if g.Rows != nil {
			g.Write(b)
		}
		if failed != nil {
			fmt.Fprintf(b, "No candidate has a result in %s.\n\n", strings.Join(failed, ", "))
		}
		if none != nil {
			fmt.Fprintf(b, "No candidate passes the SLA in %s.\n\n", strings.Join(none, ", "))
		}
		if open != nil {
			fmt.Fprintf(b, "To be measured as the campaign stands now: %s.\n\n", strings.Join(open, ", "))
		}
	}
}

// crossFramework is a table of the main lane, and one of every other lane.
func (v View) crossFramework(b *strings.Builder) {
	for _, lane := range v.lanes() {
		title := "Cross-Framework Best Comparison"
		if lane != "" {
			title = "Lane " + markdown.Code(lane) + ", beside the common comparison"
		}
		v.crossOf(b, lane, title)
	}
}

func (v View) crossOf(b *strings.Builder, lane, title string) {
	b.WriteString("## " + title + "\n\nOnly equal cells are compared; the rank counts within a cell.\n\n")
	g := markdown.Table{First: 6, Right: 8, Head: []string{"Scenario", "Concurrency", "Rank", "Framework", "Candidate", "SLA", "Req/s", "Output tok/s", "P50 TTFT ms", "P50 TPOT ms",
		"Accept len", "Pre-scheduler ms", "Cache hit", "GPUs", "Server command"}}
	v.repeatsColumn(&g)
	measured := false
	for _, s := range v.Scenarios {
		if s.Lane != lane {
			continue
		}
		measured = measured || s.measured()
		for _, contest := range s.Ranking.Cells {
			for _, p := range contest.Places {
				if p.Rank == 0 {
					continue
				}
				for _, c := range s.with(p.Row) {
					sla := v.slaIn(s, c)
					c = s.Decided(c)
					g.Rows = append(g.Rows, v.withRepeats(g, []string{markdown.Text(s.Name), Concurrency(c.Row.Workload), strconv.Itoa(p.Rank), markdown.Code(c.Framework), markdown.Code(c.Candidate), sla,
						c.paper("request_throughput"), c.paper("output_throughput"), c.paper("ttft/send:p50"), c.paper("tpot/excl-first:p50"),
						optional(c.AcceptLength()), missing, optional(c.CacheHit()), c.gpus(), markdown.Code(Quote(c.Row.Server.Command))}, c))
				}
			}
		}
	}
	switch {
	case g.Rows == nil && !measured:
		b.WriteString("No row has a result.\n\n")
		return
	case g.Rows == nil:
		b.WriteString("No row passes the SLA.\n\n")
		return
	}
	g.Write(b)
}

// failing is the third table; with no such candidate a sentence says so.
func (v View) failing(b *strings.Builder) {
	b.WriteString("## Failed Or SLA-Failing Candidates\n\n")
	g := markdown.Table{Head: []string{"Framework", "Candidate", "Scenario", "Concurrency", "Status", "SLA", "Reason"}}
	for _, s := range v.Scenarios {
		for _, c := range s.Cells {
			verdict := winners.Judge(c.Row, v.SLA)
			if verdict.Passed {
				continue
			}
			g.Rows = append(g.Rows, []string{markdown.Code(c.Framework), markdown.Code(c.Candidate), markdown.Text(s.Name), Concurrency(c.Row.Workload),
				v.status(c), "fail", markdown.Text(strings.Join(verdict.Reasons, "; "))})
		}
	}
	if g.Rows == nil {
		b.WriteString("None.\n\n")
		return
	}
	g.Write(b)
}

// sla is the verdict on a row, computed here and never read from it.
func (v View) sla(c Cell) string {
	if winners.Judge(c.Row, v.SLA).Passed {
		return "pass"
	}
	return "fail"
}

func (v View) cellsOf(s Scenario, framework string, rows []key.Digest) []Cell {
	var out []Cell
	for _, d := range rows {
		for _, c := range s.with(d) {
			if c.Framework == framework {
				out = append(out, c)
			}
		}
	}
	return out
}

func (a Artifacts) markdown() string {
	var parts []string
	for _, f := range []struct{ name, path string }{{"server log", a.ServerLog}, {"raw result", a.RawResult}, {"server help", a.Help}, {"benchmark help", a.BenchHelp}} {
		if f.path != "" {
			parts = append(parts, f.name+": "+markdown.Code(f.path))
		}
	}
	if parts == nil {
		return missing
	}
	return strings.Join(parts, "<br>")
}

// definitions explains every number of the document: the metrics that some row
// shows, and what the dash means.
func (v View) definitions(b *strings.Builder) {
	used := map[string]bool{}
	for _, s := range v.Scenarios {
		for _, c := range s.Cells {
			for _, d := range result.Definitions {
				if _, ok := c.number(d.ID); ok {
					used[d.ID] = true
				}
			}
		}
	}
	b.WriteString("## Definitions\n\n")
	g := markdown.Table{Head: []string{"Metric", "Id", "Unit", "Better", "Definition"}}
	for _, d := range result.Definitions {
		if used[d.ID] {
			g.Rows = append(g.Rows, []string{markdown.Text(d.Title), markdown.Code(d.ID), paperUnit(d.Unit), better(d.Better), markdown.Text(d.Formula)})
		}
	}
	if g.Rows != nil {
		g.Write(b)
		b.WriteString("t0 is the moment before a request is sent and a connection for it sought, t1 the read of the first event that carries a token, tN the read of the last one, N the server's own count of output tokens. " +
			"Percentiles are linear ones over the successful requests of the cell. ")
	}
	b.WriteString("Accept len is tokens per step of speculation, cache hit the cached share of the input tokens. " +
		missing + " means that there is no number: not measured, not exposed, or of a row that is not ok. It is not zero.\n")
}

// paperUnit is the unit on paper: latencies are shown in milliseconds.
func paperUnit(u result.Unit) string {
	switch u {
	case result.Seconds:
		return "ms"
	case result.Share:
		return "1 (share or count)"
	}
	return string(u)
}

func better(d result.Direction) string {
	switch d {
	case result.Higher:
		return "higher"
	case result.Lower:
		return "lower"
	}
	return "neither"
}

// WinningCommands is benchmark/winning-commands.md: for the winner of each
// framework in each scenario the exact commands (R083, R086). A shell that
// reads a block gets the argv of the digest.
func (v View) WinningCommands() []byte {
	var b strings.Builder
	b.WriteString("# Winning commands\n\n")
	v.banner(&b)
	for _, side := range v.selected() {
		for _, s := range v.Scenarios {
			fmt.Fprintf(&b, "## %s, %s\n\n", markdown.Code(side.Name), markdown.Code(s.Name))
			of := s.of(side.Name, v.SLA)
			best := v.cellsOf(s, side.Name, of.Best)
			switch n := s.openOf(side.Name); {
			case n > 0:
				fmt.Fprintf(&b, "To be measured as the campaign stands now: %s; what follows is the best so far.\n\n", result.Count(n, "cell"))
			case !of.Measured():
				b.WriteString("No candidate has a result.\n\n")
			case best == nil:
				b.WriteString("No candidate passes the SLA.\n\n")
			}
			for _, c := range best {
				fmt.Fprintf(&b, "Candidate %s, concurrency %s, row `%s`%s.\n\n", markdown.Code(c.Candidate), Concurrency(c.Row.Workload), c.Digest.Short(), v.label(c))
				v.commands(&b, c)
			}
		}
	}
	return []byte(b.String())
}

// label is the smoke label of a row, as an apposition.
func (v View) label(c Cell) string {
	if v.IsSmoke(c) {
		return " (flow check)"
	}
	return ""
}

func (v View) commands(b *strings.Builder, c Cell) {
	for _, cmd := range []struct {
		name string
		argv []string
	}{{"Server", c.Row.Server.Command}, {"Benchmark", c.Row.Server.Client}} {
		if len(cmd.argv) == 0 {
			fmt.Fprintf(b, "%s: no command was recorded.\n\n", cmd.name)
			continue
		}
		fmt.Fprintf(b, "%s (argv %s):\n\n%s\n", cmd.name, argvDigest(cmd.argv), markdown.Block("sh", Quote(cmd.argv)))
	}
}

// Manifest is manifest.md: what the campaign fixes before anything is measured
// (R019, R021, R036, T01).
func (v View) Manifest() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Manifest of %s\n\n", markdown.Code(v.Campaign))
	v.banner(&b)
	yes := map[bool]string{true: "yes", false: "no"}
	context := missing
	if v.Model.MaxContext > 0 {
		context = strconv.Itoa(v.Model.MaxContext) + " tokens"
	}
	section(&b, "Model", [][2]string{
		{"model", markdown.Code(v.Model.ID)}, {"path", markdown.Code(v.Model.Path)}, {"revision", markdown.Code(v.Model.Revision)}, {"tokenizer", markdown.Code(v.Model.Tokenizer)},
		{"precision", markdown.Text(v.Model.Precision)}, {"quantization", markdown.Text(v.Model.Quantization)},
		{"trust_remote_code", yes[v.Model.TrustRemoteCode]}, {"max_context", context},
	})
	hardware := [][2]string{{"gpu_model", missing + " (a CPU campaign)"}}
	if v.Hardware.GPUModel != "" {
		hardware = [][2]string{{"gpu_model", markdown.Text(v.Hardware.GPUModel)}, {"gpu_count", strconv.Itoa(len(v.Hardware.GPUIDs))},
			{"visible_ids", markdown.Text(strings.Join(v.Hardware.GPUIDs, ", "))}, {"multi_node", yes[v.Hardware.MultiNode]}}
	}
	if cpus := v.cpus(); cpus != nil {
		hardware = append(hardware, [2]string{"cpu", markdown.Text(strings.Join(cpus, "; "))})
	}
	section(&b, "Hardware", hardware)
	v.frameworks(&b)
	section(&b, "Workload", v.Workload.facts())
	for _, w := range v.Lanes {
		section(&b, "Lane "+markdown.Code(w.Lane), w.facts())
	}
	v.scenarios(&b)
	section(&b, "SLA", v.limits())
	b.WriteString("## Rules\n\nRows are ranked by: status ok, SLA passed, request throughput, output throughput, low TTFT p50, low TPOT p50, few GPUs. " +
		"A missing metric ranks behind every value. Only equal cells are compared. " +
		"The gap is (best − target) / best on request throughput, among the rows that are ok and pass the SLA as computed from their numbers.\n")
	return []byte(b.String())
}

func (w Workload) facts() [][2]string {
	rate := missing
	if w.Rate != nil {
		rate = figure(*w.Rate) + " requests/s"
	}
	return [][2]string{
		{"endpoint", markdown.Text(w.Endpoint)}, {"dataset", markdown.Text(w.Dataset)}, {"temperature", strconv.FormatFloat(w.Temperature, 'g', -1, 64)},
		{"arrival", markdown.Text(w.Arrival)}, {"request rate", rate}, {"warm-up", result.Count(w.Warmup, "request")},
		{"seed", strconv.FormatInt(w.Seed, 10)}, {"lane", markdown.Text(w.Lane)},
	}
}

func section(b *strings.Builder, title string, facts [][2]string) {
	fmt.Fprintf(b, "## %s\n\n", title)
	g := markdown.Table{Head: []string{"Fact", "Value"}}
	for _, f := range facts {
		g.Rows = append(g.Rows, f[:])
	}
	g.Write(b)
}

func (v View) frameworks(b *strings.Builder) {
	fmt.Fprintf(b, "## Frameworks\n\ntarget_framework: %s\n\n", markdown.Code(v.target()))
	g := markdown.Table{Head: []string{"Framework", "Definition", "Role", "State", "Reason", "Version", "Commit", "Software", "Image", "Help"}}
	for _, s := range v.Sides {
		role := "competitor"
		if s.Target {
			role = "target"
		}
		var helps []string
		for _, h := range s.Helps {
			helps = append(helps, markdown.Code(h.Path))
		}
		help := missing
		if helps != nil {
			help = strings.Join(helps, "<br>")
		}
		g.Rows = append(g.Rows, []string{markdown.Code(s.Name), markdown.Code(s.Definition), role, string(s.State), markdown.Text(s.Reason), markdown.Text(s.Version), markdown.Code(s.Commit), markdown.Code(s.Software), markdown.Code(s.Image), help})
	}
	g.Write(b)
	for _, s := range v.Sides {
		if s.Dropped > 0 {
			fmt.Fprintf(b, "The search bound of %s cut off %s.\n\n", markdown.Code(s.Name), result.Count(s.Dropped, "further candidate"))
		}
	}
}

func (v View) scenarios(b *strings.Builder) {
	b.WriteString("## Scenarios\n\n")
	g := markdown.Table{First: 1, Right: 3, Head: []string{"Scenario", "Input (tokens)", "Output (tokens)", "Prompts", "Prompts' digest, by concurrency"}}
	for _, s := range v.Scenarios {
		var digests []string
		for _, c := range s.Ranking.Cells {
			digests = append(digests, Concurrency(c.Workload)+": "+markdown.Code(c.Workload.Dataset))
		}
		sets := missing
		if digests != nil {
			sets = strings.Join(digests, "<br>")
		}
		g.Rows = append(g.Rows, []string{markdown.Code(s.Name), strconv.Itoa(s.InputLen), strconv.Itoa(s.OutputLen), strconv.Itoa(s.NumPrompts), sets + mixed(s)})
	}
	g.Write(b)
}

// mixed says the further shapes below the digests.
func mixed(s Scenario) string {
	if s.Mix == "" {
		return ""
	}
	return "<br>mixed with " + markdown.Text(s.Mix)
}

func (v View) limits() [][2]string {
	var out [][2]string
	for _, l := range []struct {
		name string
		max  *float64
	}{{"max_p50_ttft_ms", v.SLA.MaxP50TTFT}, {"max_p50_tpot_ms", v.SLA.MaxP50TPOT}, {"max_p50_e2e_ms", v.SLA.MaxP50E2E}} {
		value := "no limit"
		if l.max != nil {
			value = strconv.FormatFloat(Milli(*l.max), 'g', -1, 64) + " ms"
		}
		out = append(out, [2]string{l.name, value})
	}
	return append(out, [2]string{"min_success_rate", strconv.FormatFloat(v.SLA.MinSuccess, 'g', -1, 64)})
}
