package help

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Valid says why a text is no snapshot of a program's flags (R056); nil if it
// is one. A list of --help and --version alone is none: that is what programs
// print that hide their flags behind another word or a sub-command.
func Valid(text string) error {
	flags := Parse(text)
	for _, f := range flags {
		own := append([]string{f.Name}, f.Aliases...)
		if !slices.Contains(own, "--help") && !slices.Contains(own, "--version") && !slices.Contains(own, "-h") {
			return nil
		}
	}
	if strings.TrimSpace(text) == "" {
		return fmt.Errorf("reading help: the text is empty")
	}
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if len(first) > 120 {
		first = strings.ToValidUTF8(first[:120], "") + "…"
	}
	hint := ""
	if strings.Contains(text, "--help=all") {
		hint = "; the text itself names --help=all"
	}
	if len(flags) > 0 {
		return fmt.Errorf("reading help: the text that starts with %q lists no flag but --help and --version%s", first, hint)
	}
	return fmt.Errorf("reading help: the text that starts with %q lists no flag%s", first, hint)
}

// Check returns the given flags that the program would not take as its help
// has it, in the order given; nil if it takes all. Abbreviations are refused
// even where the program guesses them (R058): what is not in the help is not
// known. A deprecated flag is not refused, one that is gone is.
func Check(known []Flag, given []Given) []Finding {
	var out []Finding
	for _, g := range given {
		if class, reason, hint := check(known, g); class != "" {
			out = append(out, Finding{g.Name, class, reason, hint})
		}
	}
	return out
}

func check(known []Flag, g Given) (class result.Class, reason, hint string) {
	f, negated, ok := find(known, g.Name)
	switch {
	case !ok:
		return result.UnknownFlag, fmt.Sprintf("the program's help lists no flag %s", g.Name), nearest(known, g.Name)
	case f.Gone():
		return result.UnknownFlag, fmt.Sprintf("the program's help says of %s: %q", g.Name, f.Removed), ""
	}
	reason = f.refuses(g, negated)
	if reason == "" {
		return "", "", ""
	}
	if f.Default != nil && *f.Default != "" {
		hint = "the default is " + *f.Default
	}
	return result.BadFlagValue, reason, hint
}

// find looks a spelling up. A key of a JSON flag (--flag.key) is that flag
// with any value.
func find(known []Flag, s string) (f Flag, negated, ok bool) {
	for _, f := range known {
		if f.Name == s || slices.Contains(f.Aliases, s) {
			return f, false, true
		}
		if slices.Contains(f.Negations, s) {
			return f, true, true
		}
	}
	for _, f := range known {
		for _, n := range append([]string{f.Name}, f.Aliases...) {
			if f.Keyed && strings.HasPrefix(s, n+".") {
				return Flag{Name: s, Type: Any, Meta: "VALUE"}, false, true
			}
		}
	}
	return Flag{}, false, false
}

// refuses says why the flag cannot be passed as given; "" if it can.
func (f Flag) refuses(g Given, negated bool) string {
	switch {
	case f.Type == None || negated:
		if !g.Bare {
			return fmt.Sprintf("%s takes no value, but %q was given", g.Name, g.Value)
		}
		return ""
	case g.Bare:
		// [X] of argparse and [=X] of clap: the value may be left out.
		if strings.HasPrefix(f.Meta, "[") && f.Choices == nil {
			return ""
		}
		return fmt.Sprintf("%s needs a value (%s)", g.Name, f.Meta)
	case f.Choices != nil && !slices.Contains(f.Choices, g.Value):
		return fmt.Sprintf("%s takes one of %s, not %q", g.Name, strings.Join(f.Choices, ", "), g.Value)
	case f.Type == Int:
		if _, err := strconv.ParseInt(g.Value, 10, 64); err != nil {
			return fmt.Sprintf("%s takes a whole number, not %q", g.Name, g.Value)
		}
	case f.Type == Float:
		if _, err := strconv.ParseFloat(g.Value, 64); err != nil {
			return fmt.Sprintf("%s takes a number, not %q", g.Name, g.Value)
		}
	}
	return ""
}

// nearest names the spelling that was probably meant: the same but for hyphens
// and underscores, else one that is near enough, of equals the first listed.
func nearest(known []Flag, s string) string {
	plain := func(s string) string { return strings.ReplaceAll(strings.TrimLeft(s, "-"), "_", "-") }
	want := plain(s)
	best, at := "", len(want)/3+1
	for _, f := range known {
		if f.Gone() {
			continue
		}
		for _, n := range slices.Concat([]string{f.Name}, f.Aliases, f.Negations) {
			if d := distance(want, plain(n)); d < at {
				best, at = n, d
			}
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

// distance is the number of bytes to insert, delete or replace. (The library
// that lang uses for it stays in that room.)
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
