// Package show prints the values of the trace analyses as Markdown tables and
// as CSV. It decides columns, order of columns and number formats, and nothing
// else: every number comes from the value that is printed.
package show

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Table is one table. A cell is a string, an int, or one of the types below.
type Table struct {
	Title string
	Head  []string
	Rows  [][]any
	Notes []string // sentences below the table; not in CSV
	Empty string   // what to say when there are no rows
}

// Name is a kernel's name: cut for reading, whole for programs.
type Name string

const longestName = 120 // characters of a Name in Markdown

// Micros is nanoseconds, printed as microseconds.
type Micros int64

// Share is a fraction, printed as percent.
type Share float64

// Millis is nanoseconds, printed as milliseconds.
type Millis int64

// Markdown writes the table under a heading of the given level.
func (t Table) Markdown(w io.Writer, level int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n\n", strings.Repeat("#", level), t.Title)
	if len(t.Rows) == 0 {
		fmt.Fprintf(&b, "%s\n", t.Empty)
	} else {
		writeRow(&b, t.Head)
		b.WriteString(strings.Repeat("| --- ", len(t.Head)) + "|\n")
		for _, row := range t.Rows {
			cells := make([]string, len(row))
			for i, c := range row {
				cells[i] = human(c)
			}
			writeRow(&b, cells)
		}
	}
	for _, n := range t.Notes {
		fmt.Fprintf(&b, "\n%s\n", n)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

func writeRow(b *strings.Builder, cells []string) {
	for _, c := range cells {
		b.WriteString("| ")
		b.WriteString(strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ").Replace(c))
		b.WriteByte(' ')
	}
	b.WriteString("|\n")
}

// CSV writes a header and the rows, each led by the cells of lead.
func (t Table) CSV(w io.Writer, lead []string, leadHead []string) error {
	c := csv.NewWriter(w)
	if err := c.Write(append(append([]string{"table"}, leadHead...), t.Head...)); err != nil {
		return err
	}
	for _, row := range t.Rows {
		out := append([]string{t.Title}, lead...)
		for _, cell := range row {
			out = append(out, machine(cell))
		}
		if err := c.Write(out); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// human formats for reading: 226,599.4 µs, 84.75 %.
func human(cell any) string {
	switch v := cell.(type) {
	case Micros:
		return grouped(int64(v), 1000, 1) + " µs"
	case Millis:
		return grouped(int64(v), 1_000_000, 3)
	case Share:
		return fmt.Sprintf("%.2f %%", 100*float64(v))
	case Name:
		if r := []rune(string(v)); len(r) > longestName {
			return string(r[:longestName-1]) + "…"
		}
		return string(v)
	case int:
		return strconv.Itoa(v)
	}
	return fmt.Sprint(cell)
}

// machine formats for programs: microseconds with three decimals, fractions.
func machine(cell any) string {
	switch v := cell.(type) {
	case Micros:
		return fixed(int64(v), 1000, 3)
	case Millis:
		return fixed(int64(v), 1_000_000, 6)
	case Share:
		return strconv.FormatFloat(float64(v), 'f', 6, 64)
	case int:
		return strconv.Itoa(v)
	}
	return fmt.Sprint(cell)
}

// fixed divides exactly and rounds half up to the given decimals.
func fixed(v, unit int64, decimals int) string {
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	step := unit
	for range decimals {
		step /= 10
	}
	if step > 1 {
		v = (v + step/2) / step * step
	}
	frac := v % unit
	if step > 0 {
		frac /= step
	}
	return fmt.Sprintf("%s%d.%0*d", sign, v/unit, decimals, frac)
}

func grouped(v, unit int64, decimals int) string {
	s := fixed(v, unit, decimals)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	whole, frac, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return sign + whole + "." + frac
}
