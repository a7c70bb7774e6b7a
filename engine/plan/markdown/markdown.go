// Package markdown writes a plan as the comment of a pull request: what counts
// first, the details folded, never longer than asked and never cut without
// saying so. It knows plans and graphs; it reads and writes nothing.
package markdown

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/plan"
)

// Limit is the most characters that a comment of the common forges may have.
const Limit = 65_536

// Plan is the comment: totals and estimate, then a table of the lines of the
// plan for people (root causes first), then a folded list of every node that
// may run. It has at most limit characters; what had to be left out is counted
// in its last lines. A limit below 1,000 panics.
func Plan(title string, p *plan.Plan, g *compile.Graph, limit int) string {
	if limit < 1000 {
		panic(fmt.Sprintf("markdown: no plan fits into %d characters", limit))
	}
	w := writer{left: limit - reserve}
	w.line("### Plan for " + code(clip(title, maxTitle)))
	w.line("")
	w.line("**" + text(p.Totals()) + "**")
	if e := p.Estimate.String(); e != "" {
		w.line("")
		w.line(text(e))
	}
	lines := p.Lines(g)
	if len(lines) > 0 {
		w.line("")
		w.line("| | node | why |\n| --- | --- | --- |")
		w.rows("lines", len(lines), func(i int) string {
			return fmt.Sprintf("| %s | %s | %s |", code(string(rune(lines[i].Mark))), cell(code(lines[i].Addr)), cell(text(lines[i].Text)))
		})
	}
	w.details(p, g)
	return w.b.String()
}

const (
	// reserve is kept for what says that something was left out.
	reserve  = 400
	maxTitle = 200
)

// details is the folded list of what may run.
func (w *writer) details(p *plan.Plan, g *compile.Graph) {
	var list []int
	for i, n := range p.Nodes {
		if n.Verdict == plan.New || n.Verdict == plan.Stale || n.Verdict == plan.Later {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		return
	}
	const closing = "</details>"
	open := fmt.Sprintf("\n<details><summary>Nodes that may run: %d</summary>\n", len(list))
	w.left -= len(closing) + 1
	if !w.fits(open) {
		w.over(fmt.Sprintf("\n*The list of %d nodes is left out: it does not fit into this comment.*", len(list)))
		return
	}
	w.line(open)
	w.rows("nodes", len(list), func(i int) string {
		n := &p.Nodes[list[i]]
		return "- " + code(string(rune(n.Verdict))+" "+g.Actions[list[i]].Addr)
	})
	w.over(closing)
}

// writer counts characters, as the forges do.
type writer struct {
	b    strings.Builder
	left int
}

func (w *writer) fits(s string) bool { return utf8.RuneCountInString(s)+1 <= w.left }

func (w *writer) line(s string) {
	w.left -= utf8.RuneCountInString(s) + 1
	w.b.WriteString(s + "\n")
}

// over writes what is reserved for.
func (w *writer) over(s string) { w.b.WriteString(s + "\n") }

// rows writes as many rows as fit and says how many did not.
func (w *writer) rows(what string, n int, row func(i int) string) {
	for i := range n {
		s := row(i)
		if !w.fits(s) {
			w.over(fmt.Sprintf("\n*%d more %s are left out: they do not fit into this comment.*", n-i, what))
			return
		}
		w.line(s)
	}
}

func clip(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return string(r[:most-1]) + "…"
}

// code is inline code, whatever back-quotes are in it; nothing in it is read as
// Markdown, a mention or HTML.
func code(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// cell keeps a table's columns.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// escape takes the meaning from what Markdown, HTML and forges read.
var escape = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`,
	"<", "&lt;", ">", "&gt;", "#", `\#`, "@", "&#64;", "~", `\~`, "\n", " ", "\r", " ")

// text is plain text; a very long reason is clipped and shows that by its
// ellipsis.
func text(s string) string { return escape.Replace(clip(s, maxText)) }

const maxText = 500
