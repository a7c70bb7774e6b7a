// Package markdown writes tables, code spans and blocks around foreign text, so
// that no text can leave its place: a cell cannot end its table, nor a command
// its block. It knows nothing of what it writes.
package markdown

import "strings"

// Missing stands where there is no value. It is never a zero.
const Missing = "–"

// Table is a Markdown table with one stretch of columns aligned right.
type Table struct {
	Head  []string
	First int // index of the first column of the stretch
	Right int // how many columns it has
	Rows  [][]string
}

// Write appends the table and an empty line. Cells must be made by Text or Code,
// or be plain by construction.
func (t Table) Write(b *strings.Builder) {
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + strings.ReplaceAll(c, "|", `\|`) + " ")
		}
		b.WriteString("|\n")
	}
	line(t.Head)
	rule := make([]string, len(t.Head))
	for i := range rule {
		rule[i] = "---"
		if i >= t.First && i < t.First+t.Right {
			rule[i] = "---:"
		}
	}
	line(rule)
	for _, r := range t.Rows {
		line(r)
	}
	b.WriteByte('\n')
}

var escaper = strings.NewReplacer(`\`, `\\`, "&", "&amp;", "<", "&lt;", ">", "&gt;", "\r\n", "<br>", "\n", "<br>", "\r", "<br>", "`", "\\`", "*", `\*`, "[", `\[`)

// Text is foreign text in a cell or line.
func Text(s string) string {
	if s == "" {
		return Missing
	}
	return escaper.Replace(s)
}

// Code is foreign text as a code span; line ends become spaces.
func Code(s string) string {
	if s == "" {
		return Missing
	}
	s = strings.NewReplacer("\r", " ", "\n", " ").Replace(s)
	ticks := strings.Repeat("`", longest(s)+1)
	if len(ticks) > 1 {
		return ticks + " " + s + " " + ticks
	}
	return ticks + s + ticks
}

// Block is a fenced block that its text cannot end.
func Block(language, text string) string {
	fence := strings.Repeat("`", max(3, longest(text)+1))
	return fence + language + "\n" + strings.TrimSuffix(text, "\n") + "\n" + fence + "\n"
}

// longest is the length of the longest run of backticks.
func longest(s string) int {
	n, run := 0, 0
	for _, r := range s {
		if run++; r != '`' {
			run = 0
		}
		n = max(n, run)
	}
	return n
}
