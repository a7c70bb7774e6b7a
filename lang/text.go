package lang

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text renders the diagnostics for people: severity and summary, the place,
// the source line with a caret, further places, and the detail. It ends with a
// line end unless there are none. Control characters of the source are shown
// as replacement characters, so that a file cannot drive a terminal.
func (d Diagnostics) Text(color bool) string {
	var b strings.Builder
	for i, x := range d {
		if i > 0 {
			b.WriteByte('\n')
		}
		x.text(&b, color)
	}
	return b.String()
}

const textWidth = 78

func (d Diagnostic) text(b *strings.Builder, color bool) {
	red, dim, off := "\x1b[1;31m", "\x1b[2m", "\x1b[0m"
	if d.Severity == Warning {
		red = "\x1b[1;33m"
	}
	if !color {
		red, dim, off = "", "", ""
	}
	word := "Error"
	if d.Severity == Warning {
		word = "Warning"
	}
	fmt.Fprintf(b, "%s%s: %s%s %s[%s]%s\n", red, word, d.Summary, off, dim, d.Code, off)
	if d.Range != (Range{}) {
		fmt.Fprintf(b, "  %son %s%s\n", dim, clean(d.Range.String()), off)
	}
	if d.Snippet != "" {
		number := fmt.Sprint(d.Range.Line)
		pad, caret := marker(d)
		fmt.Fprintf(b, "  %s%s |%s %s\n", dim, number, off, clean(d.Snippet))
		fmt.Fprintf(b, "  %s%s |%s %s%s%s%s\n", dim, strings.Repeat(" ", len(number)), off, pad, red, caret, off)
	}
	for _, r := range d.Related {
		fmt.Fprintf(b, "  %ssee %s%s\n", dim, clean(r.String()), off)
	}
	for _, l := range wrap(clean(d.Detail), textWidth-2) {
		fmt.Fprintf(b, "  %s\n", l)
	}
}

// String is file:line,column; only the file where there is no line.
func (r Range) String() string {
	if r.Line == 0 {
		return r.File
	}
	return fmt.Sprintf("%s:%d,%d", r.File, r.Line, r.Col)
}

// marker returns what stands before the caret, tabs kept so that it aligns,
// and the caret itself, as long as the range on its first line.
func marker(d Diagnostic) (pad, caret string) {
	var before strings.Builder
	col, width := 1, 0
	for _, r := range d.Snippet {
		if unicode.Is(unicode.Mn, r) { // combines with the one before: no column of its own
			continue
		}
		switch {
		case col >= d.Range.Col:
			width++
		case r == '\t':
			before.WriteByte('\t')
		default:
			before.WriteByte(' ')
		}
		col++
	}
	if d.Range.EndLine == d.Range.Line {
		width = min(width, d.Range.EndCol-d.Range.Col)
	}
	return before.String(), strings.Repeat("^", max(width, 1))
}

func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && r != '\n' && unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// wrap breaks text at spaces; lines that are there stay, and a line that
// starts with a space is kept whole: it is something to copy.
func wrap(text string, width int) []string {
	var lines []string
	for l := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(l, " ") {
			lines = append(lines, l)
			continue
		}
		row := ""
		for w := range strings.FieldsSeq(l) {
			if row != "" && utf8.RuneCountInString(row)+1+utf8.RuneCountInString(w) > width {
				lines = append(lines, row)
				row = ""
			}
			if row != "" {
				row += " "
			}
			row += w
		}
		lines = append(lines, row)
	}
	return lines
}
