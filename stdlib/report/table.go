package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// terminal are the columns of the terminal's table in display order. Where
// there is no room, those with the highest drop go first; zero never goes.
var terminal = []struct {
	head  string
	right bool
	drop  int
	of    func(l line) string
}{
	{"Scenario", false, 0, func(l line) string { return l.scenario }},
	{"Conc.", true, 0, func(l line) string { return Concurrency(l.row.Row.Workload) }},
	{"#", true, 0, func(l line) string { return rank(l.place.Rank) }},
	{"Framework", false, 0, func(l line) string { return l.row.Framework }},
	{candidate, false, 0, func(l line) string { return l.row.Candidate }},
	{repeatsHead, true, 0, func(l line) string { return l.shown.repeats() }},
	{"Req/s", true, 0, func(l line) string { return l.shown.paper("request_throughput") }},
	{"Out tok/s", true, 2, func(l line) string { return l.shown.paper("output_throughput") }},
	{"TTFT p50 ms", true, 1, func(l line) string { return l.shown.paper("ttft/send:p50") }},
	{"TPOT p50 ms", true, 1, func(l line) string { return l.shown.paper("tpot/excl-first:p50") }},
	{"Requests ok", true, 3, func(l line) string { return l.shown.requests() }},
	{"Verdict", false, 0, func(l line) string { return l.verdict }},
	{"Measured", false, 4, func(l line) string { return age(l.shown.Cached) }},
}

// line is a row of the terminal's table: its one run, and what is shown of it.
type line struct {
	scenario   string
	place      winners.Place
	row, shown Cell
	verdict    string
}

// candidate is the heading of the one column that is wrapped.
const candidate = "Candidate"

// Table is the table of winners for a terminal of a width in columns; 0 is any
// width. Each scenario has the best row of each framework in each cell, ranked
// within the cell, and a line that says how far the target is behind. Where
// columns were left out for lack of room a line says so.
func (v View) Table(width int) string {
	var out string
	for from := 5; from > 0; from-- {
		out = v.table(from, width)
		if width <= 0 || widest(out) <= width {
			break
		}
	}
	var b strings.Builder
	if v.Smoke {
		b.WriteString("Flow check: nothing in this table is a result.\n")
	}
	b.WriteString(out)
	if v.repeated() {
		b.WriteString("Rows with repeats show the medians of them, the others one run.\n")
	}
	for _, s := range v.Scenarios {
		fmt.Fprintf(&b, "%s: %s\n", s.Name, v.Winner(s))
	}
	for _, d := range v.Doubts {
		fmt.Fprintf(&b, "Note: %s\n", d)
	}
	if rows := v.warned(); rows != nil {
		fmt.Fprintf(&b, "The report has warnings of what leads here: %s\n", strings.Join(rows, ", "))
	}
	return b.String()
}

// warned are the leading rows that have warnings, by scenario.
func (v View) warned() (rows []string) {
	for _, s := range v.Scenarios {
		for _, d := range s.leading() {
			if of := s.with(d); slices.ContainsFunc(of, func(c Cell) bool { return len(c.Row.Warnings) > 0 }) {
				for _, name := range s.names([]key.Digest{d}) {
					rows = append(rows, s.Name+": "+name)
				}
			}
		}
	}
	return rows
}

func widest(s string) int {
	n := 0
	for line := range strings.Lines(s) {
		n = max(n, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
	}
	return n
}

// table renders without the columns whose drop is at least from.
func (v View) table(from, width int) string {
	var left []string
	kept, head := terminal[:0:0], []string(nil)
	for _, c := range terminal {
		if c.drop >= from {
			left = append(left, c.head)
			continue
		}
		if c.head == repeatsHead && !v.repeated() {
			continue
		}
		kept, head = append(kept, c), append(head, c.head)
	}
	rows := [][]string{head, nil} // A row without cells is a rule.
	for i, s := range v.Scenarios {
		if i > 0 {
			rows = append(rows, nil)
		}
		for _, contest := range s.Ranking.Cells {
			for _, p := range contest.Places {
				for _, c := range s.with(p.Row) {
					var row []string
					l := line{s.Name, p, c, s.Decided(c), v.verdict(p, c)}
					for _, col := range kept {
						text := col.of(l)
						if col.head == candidate && width > 0 {
							text = wrap(text, max(12, width/4))
						}
						row = append(row, text)
					}
					rows = append(rows, row)
				}
			}
		}
	}
	right := make([]bool, len(kept))
	for i, c := range kept {
		right[i] = c.right
	}
	out := align(rows, right)
	if left != nil {
		out += fmt.Sprintf("(no room for: %s)\n", strings.Join(left, ", "))
	}
	return out
}

// wrap breaks a text into lines of at most n runes, after a comma where one is
// near enough.
func wrap(s string, n int) string {
	var lines []string
	for r := []rune(s); ; {
		if len(r) <= n {
			return strings.Join(append(lines, string(r)), "\n")
		}
		cut := n
		for i := n; i > n/2; i-- {
			if r[i-1] == ',' {
				cut = i
				break
			}
		}
		lines, r = append(lines, string(r[:cut])), r[cut:]
	}
}

// align writes rows of cells, which may have several lines, under each other.
func align(rows [][]string, right []bool) string {
	widths := make([]int, len(right))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], widest(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		if row == nil {
			for i, w := range widths {
				if i > 0 {
					b.WriteString("  ")
				}
				b.WriteString(strings.Repeat("─", w))
			}
			b.WriteByte('\n')
			continue
		}
		height := 1
		cells := make([][]string, len(row))
		for i, cell := range row {
			cells[i] = strings.Split(cell, "\n")
			height = max(height, len(cells[i]))
		}
		for n := range height {
			var line strings.Builder
			for i := range row {
				text := ""
				if n < len(cells[i]) {
					text = cells[i][n]
				}
				pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
				if right[i] {
					text = pad + text
				} else {
					text += pad
				}
				if i > 0 {
					line.WriteString("  ")
				}
				line.WriteString(text)
			}
			b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		}
	}
	return b.String()
}

func rank(n int) string {
	if n == 0 {
		return missing
	}
	return strconv.Itoa(n)
}

// Winner says who won a scenario and where the target stands.
func (v View) Winner(s Scenario) string {
	if s.leading() == nil {
		switch {
		case s.Lane != "":
			return "lane " + s.Lane + ": a table of its own, without a winner"
		case len(s.Cells) == 0 && !slices.ContainsFunc(s.Open, func(o Open) bool { return o.State == Stale }):
			return "nothing is measured yet"
		case s.Open != nil:
			return s.soFar()
		case s.Ranking.Cell != nil:
			return "no winner: " + s.Repeats.Why
		}
		if !s.measured() {
			return "no winner: no framework has a result"
		}
		return "no row passes the SLA"
	}
	who := s.names(s.leading())
	if s.Ranking.Best == nil {
		return fmt.Sprintf("unresolved between %s%s; gap of %s: %s", strings.Join(who, " and "), s.evidence(), v.target(), s.gap(v.target()))
	}
	verb := "wins" + s.evidence()
	switch {
	case s.alone():
		verb = "is the only one with a result: " + v.others(s)
	case len(who) > 1:
		verb = "are tied" + s.evidence()
	}
	return fmt.Sprintf("%s %s; gap of %s: %s", strings.Join(who, " and "), verb, v.target(), s.gap(v.target()))
}

// names are the cells of rows, each once.
func (s Scenario) names(rows []key.Digest) (out []string) {
	for _, d := range rows {
		for _, c := range s.with(d) {
			if name := fmt.Sprintf("%s (%s, concurrency %s)", c.Framework, c.Candidate, Concurrency(c.Row.Workload)); !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// verdict is short enough for a column: pass, fails SLA, or the row's status. A
// row whose repeats did not come through has no rank, whatever its own run says.
func (v View) verdict(p winners.Place, c Cell) string {
	switch {
	case p.Repeated != nil && p.Repeated.Verdict == winners.Out:
		return "out by repeats" + v.label(c)
	case p.Repeated != nil:
		return "pass" + v.label(c)
	case winners.Judge(c.Row, v.SLA).Passed:
		return "pass" + v.label(c)
	case c.Row.Status == result.OK:
		return "fails SLA" + v.label(c)
	}
	return v.status(c)
}

// age is how old a cached row is.
func age(d *time.Duration) string {
	if d == nil {
		return "now"
	}
	return "cached, " + span(*d)
}

// span is a length of time in its largest unit.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}
