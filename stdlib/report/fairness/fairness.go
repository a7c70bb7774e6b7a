// Package fairness writes the fairness diagnostics of a benchmark: who took
// part, and for each framework what has to be equal and what was observed
// (R036, R055, R084, R127–R132). A field that no program exposed is the words
// "not exposed", never an empty or equal-looking cell. It is a function of the
// report's View.
package fairness

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/report"
	"github.com/sotabuild/sotabuild/stdlib/report/markdown"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

const notExposed = "not exposed"

// field is one row of the comparison: what it is, and its values in a row.
type field struct {
	name string
	of   func(r *result.Row) string
}

// equal are the fields that must not differ between frameworks (R127).
var equal = []field{
	{"GPU count", func(r *result.Row) string { return strconv.Itoa(r.Subject.Hardware.GPUCount) }},
	{"visible GPU ids", func(r *result.Row) string { return strings.Join(r.Subject.Hardware.GPUIDs, ", ") }},
	{"GPU model", func(r *result.Row) string { return r.Subject.Hardware.GPUModel }},
	{"model", func(r *result.Row) string { return r.Subject.Model }},
	{"weights", func(r *result.Row) string { return r.Subject.Weights }},
	{"endpoint", func(r *result.Row) string { return r.Workload.Endpoint }},
	{"prompts", func(r *result.Row) string { return r.Workload.Dataset }},
	{"request shape", func(r *result.Row) string {
		return fmt.Sprintf("%d in, %d out, %s", r.Workload.InputLen, r.Workload.OutputLen, result.Count(r.Workload.NumPrompts, "prompt"))
	}},
}

// observed are the fields that explain a difference where a program exposes
// them (R128–R131).
var observed = []field{
	{"speculative accept length", func(r *result.Row) string { return number(r.Facts.SpecAccept) }},
	{"cached share of input tokens", func(r *result.Row) string { return number(r.Facts.CacheHitShare) }},
	{"scheduler and tokenizer times", func(*result.Row) string { return notExposed }},
	{"memory and offload", func(r *result.Row) string { return memory(r.Subject.Flags) }},
}

func number(v *float64) string {
	if v == nil {
		return notExposed
	}
	return strconv.FormatFloat(*v, 'g', 4, 64)
}

// memory are the flags that say how much memory is used and for what.
func memory(flags []result.Flag) string {
	var out []string
	for _, f := range flags {
		if n := strings.ToLower(f.Name); strings.Contains(n, "mem") || strings.Contains(n, "kv") || strings.Contains(n, "offload") || strings.Contains(n, "cache") {
			out = append(out, fmt.Sprintf("%s = %v", f.Name, f.Value))
		}
	}
	if out == nil {
		return notExposed
	}
	return strings.Join(out, ", ")
}

// Diagnostics is the text of benchmark/fairness/diagnostics.md.
func Diagnostics(v report.View) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Fairness diagnostics of %s\n\n", markdown.Code(v.Campaign))
	participants(&b, v.Sides)
	fmt.Fprintf(&b, "The same for all by declaration: tokenizer %s, precision %s, quantization %s, temperature %s, dataset %s, seed %d, warm-up %s.\n\n",
		markdown.Code(v.Model.Tokenizer), markdown.Text(v.Model.Precision), markdown.Text(v.Model.Quantization),
		strconv.FormatFloat(v.Workload.Temperature, 'g', -1, 64), markdown.Text(v.Workload.Dataset), v.Workload.Seed, result.Count(v.Workload.Warmup, "request"))
	for _, s := range v.Scenarios {
		fmt.Fprintf(&b, "## Scenario %s\n\n", markdown.Code(s.Name))
		compare(&b, "Equal", equal, s.Cells, true)
		compare(&b, "Observed", observed, s.Cells, false)
	}
	return []byte(b.String())
}

// participants lists the selected and the left-out frameworks (R036).
func participants(b *strings.Builder, sides []report.Side) {
	t := markdown.Table{Head: []string{"Framework", "State", "Reason", "Version", "Commit", "Software", "Helps"}}
	for _, s := range sides {
		var helps []string
		for _, h := range s.Helps {
			helps = append(helps, h.Path)
		}
		t.Rows = append(t.Rows, []string{markdown.Code(s.Name), string(s.State), markdown.Text(s.Reason), markdown.Text(s.Version),
			markdown.Code(s.Commit), markdown.Code(s.Software), markdown.Text(strings.Join(helps, ", "))})
	}
	t.Write(b)
}

// compare writes the distinct values of each field by framework. With verdict,
// a last column says whether they are one value, differ, or cannot be known.
func compare(b *strings.Builder, title string, fields []field, cells []report.Cell, verdict bool) {
	var names []string
	for _, c := range cells {
		if !slices.Contains(names, c.Framework) {
			names = append(names, c.Framework)
		}
	}
	if names == nil {
		b.WriteString("Nothing was measured.\n\n")
		return
	}
	t := markdown.Table{Head: []string{title}}
	for _, n := range names {
		t.Head = append(t.Head, markdown.Code(n))
	}
	if verdict {
		t.Head = append(t.Head, "Verdict")
	}
	for _, f := range fields {
		line, all := []string{f.name}, []string(nil)
		for _, n := range names {
			values := distinct(f, cells, n)
			all = append(all, values...)
			line = append(line, markdown.Text(strings.Join(values, "; ")))
		}
		if verdict {
			line = append(line, judge(all))
		}
		t.Rows = append(t.Rows, line)
	}
	t.Write(b)
}

func distinct(f field, cells []report.Cell, framework string) []string {
	var out []string
	for _, c := range cells {
		if c.Framework != framework || c.Row.Status != result.OK {
			continue
		}
		if v := f.of(c.Row); !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// judge: a field that is empty in any row is unknown, which is not equal (R127).
func judge(all []string) string {
	slices.Sort(all)
	all = slices.Compact(all)
	switch {
	case len(all) == 0:
		return "unknown: no row is ok"
	case slices.Contains(all, ""):
		return "unknown"
	case len(all) == 1:
		return "equal"
	}
	return "differs"
}
