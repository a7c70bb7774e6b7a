// Package search expands a bounded search into candidates. It is a pure
// function; it starts nothing and knows no server. (Package winners selects
// among the rows.)
package search

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/lang"
)

// Candidate is one set of server flags.
type Candidate struct {
	// Name is "baseline" or the searched flags that differ from the base, in
	// axis order: "max_num_seqs=128,threads=2".
	Name  string
	Flags []lang.Flag // base overridden, in base order, new names last
	Base  bool
}

// Baseline is the name of the candidate with the base flags alone.
const Baseline = "baseline"

// Expand returns the baseline first and then the product of the axes, the last
// one varying fastest, each laid over the base; what equals an earlier
// candidate is left out. At most s.MaxCandidates come back, baseline included
// (the reference implementation gives two for a bound of one; this one gives
// one). A search without axes, or with an empty axis, is the baseline alone.
//
// Two candidates are equal if they set the same flags to the same values; a
// null value leaves its flag out, so it equals the flag's absence. A bound below
// one on a search with axes, or an axis that stands twice, is a bug of the
// caller and panics.
func Expand(base []lang.Flag, s lang.Search) []Candidate {
	candidates := []Candidate{{Name: Baseline, Flags: slices.Clone(base), Base: true}}
	axes := axes(s)
	at := make([]int, len(axes))
	for more := len(axes) > 0; more && len(candidates) < s.MaxCandidates; more = next(at, axes) {
		if c := overlay(base, axes, at); c.Name != "" {
			candidates = append(candidates, c)
		}
	}
	return candidates
}

// Dropped is how many further candidates the bound cuts off, at most
// math.MaxInt.
func Dropped(base []lang.Flag, s lang.Search) int {
	axes := axes(s)
	if len(axes) == 0 {
		return 0
	}
	return max(0, total(base, axes)-s.MaxCandidates)
}

// axes returns the distinct axes of a search that has candidates beside the
// baseline, else none.
func axes(s lang.Search) []lang.Axis {
	axes := distinct(s.Space)
	if slices.ContainsFunc(axes, func(a lang.Axis) bool { return len(a.Values) == 0 }) {
		return nil
	}
	if len(axes) > 0 && s.MaxCandidates < 1 {
		panic(fmt.Sprintf("search: bound of %d candidates", s.MaxCandidates))
	}
	return axes
}

// distinct returns the axes with each value once. With unequal values on every
// axis no two points of the product are equal, so that only the baseline can
// be met again and the product is never enumerated beyond the bound.
func distinct(space []lang.Axis) []lang.Axis {
	var axes []lang.Axis
	for _, a := range space {
		if slices.ContainsFunc(axes, func(b lang.Axis) bool { return a.Name == b.Name }) {
			panic(fmt.Sprintf("search: axis %q stands twice", a.Name))
		}
		values := a.Values
		a.Values = nil
		for _, v := range values {
			if !slices.ContainsFunc(a.Values, v.Equal) {
				a.Values = append(a.Values, v)
			}
		}
		axes = append(axes, a)
	}
	return axes
}

// next steps to the following point, the last axis fastest; false at the end.
func next(at []int, axes []lang.Axis) bool {
	for i := len(at) - 1; i >= 0; i-- {
		if at[i]++; at[i] < len(axes[i].Values) {
			return true
		}
		at[i] = 0
	}
	return false
}

// total counts the distinct candidates, the baseline among them.
func total(base []lang.Flag, axes []lang.Axis) int {
	n, met := 1, true
	for _, a := range axes {
		if n > math.MaxInt/len(a.Values) {
			return math.MaxInt
		}
		n *= len(a.Values)
		met = met && slices.ContainsFunc(a.Values, value(base, a.Name).Equal)
	}
	if !met && n < math.MaxInt {
		n++
	}
	return n
}

// value is what the base sets a flag to; null if it does not.
func value(base []lang.Flag, name string) lang.Value {
	for _, f := range base {
		if f.Name == name {
			return f.Value
		}
	}
	return lang.Value{}
}

// overlay is the candidate of one point; its name is empty if it is the
// baseline again.
func overlay(base []lang.Flag, axes []lang.Axis, at []int) Candidate {
	c := Candidate{Flags: slices.Clone(base)}
	var name []string
	for i, a := range axes {
		v := a.Values[at[i]]
		if !v.Equal(value(base, a.Name)) {
			name = append(name, a.Name+"="+text(v))
		}
		j := slices.IndexFunc(c.Flags, func(f lang.Flag) bool { return f.Name == a.Name })
		if j < 0 {
			c.Flags = append(c.Flags, lang.Flag{Name: a.Name, Value: v, Range: a.Range})
		} else {
			c.Flags[j].Value, c.Flags[j].Range = v, a.Range
		}
	}
	c.Name = strings.Join(name, ",")
	return c
}

// text is a value in a name. A string is quoted where it could be taken for
// another value or for the name's own punctuation.
func text(v lang.Value) string {
	if v.Kind == lang.Null {
		return "null"
	}
	s := v.Text()
	if v.Kind != lang.String {
		return s
	}
	_, err := strconv.ParseFloat(s, 64)
	if err == nil || s == "" || s == "null" || s == "true" || s == "false" || strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || strings.ContainsRune(`,="\`, r) || !strconv.IsPrint(r)
	}) {
		return strconv.Quote(s)
	}
	return s
}
