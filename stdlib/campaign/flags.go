package campaign

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/help"
)

// FlagName is a flag's spelling on the command line of the framework.
func FlagName(d *lang.Definition, name string) string {
	if a, ok := d.Flags.Aliases[name]; ok {
		name = a
	}
	switch d.Server.FlagStyle {
	case "snake":
		return "--" + name
	case "go":
		return "-" + strings.ReplaceAll(name, "_", "-")
	}
	return "--" + strings.ReplaceAll(name, "_", "-")
}

// withFixed adds the definition's fixed flags that the candidate does not set
// itself, first.
func withFixed(d *lang.Definition, flags []lang.Flag) []lang.Flag {
	var out []lang.Flag
	for _, f := range d.Flags.Fixed {
		if !slices.ContainsFunc(flags, func(g lang.Flag) bool { return FlagName(d, g.Name) == FlagName(d, f.Name) }) {
			out = append(out, f)
		}
	}
	return append(out, flags...)
}

// Given renders the flags that a candidate passes, fixed ones first, in the
// order they stand. Null leaves a flag out; booleans follow the framework's
// own habit.
func Given(fw lang.Framework, flags []lang.Flag) []help.Given {
	d := fw.Definition
	var out []help.Given
	for _, f := range withFixed(d, flags) {
		name := FlagName(d, f.Name)
		switch {
		case f.Value.Kind == lang.Null:
		case f.Value.Kind == lang.Bool && d.Server.Booleans != "value":
			switch {
			case f.Value.Bool:
				out = append(out, help.Given{Name: name, Bare: true})
			case d.Server.Booleans == "pair":
				out = append(out, help.Given{Name: "--no-" + strings.TrimLeft(name, "-"), Bare: true})
			}
		default:
			out = append(out, help.Given{Name: name, Value: f.Value.Text()})
		}
	}
	return out
}

// Words are the arguments of given flags.
func Words(given []help.Given) []string {
	var out []string
	for _, g := range given {
		out = append(out, g.Name)
		if !g.Bare {
			out = append(out, g.Value)
		}
	}
	return out
}

// fill replaces {word} in a command template; {flags} as a word of its own
// becomes many. Words that the runner fills ({host}, {port}) stay.
func fill(template []string, values map[string]string, flags []string) []string {
	var pairs []string
	for k, v := range values {
		pairs = append(pairs, "{"+k+"}", v)
	}
	r := strings.NewReplacer(pairs...)
	var out []string
	for _, w := range template {
		if w == "{flags}" {
			out = append(out, flags...)
			continue
		}
		out = append(out, r.Replace(w))
	}
	return out
}

// value makes a typed flag value a fact of its own type, so that the number 1
// and the string "1" are different facts and 1 and 1.0 are one.
type value struct{ lang.Value }

// KeyFact implements key.Factor.
func (v value) KeyFact() (key.Type, string) {
	switch v.Kind {
	case lang.String:
		return key.Text, v.Str
	case lang.Int, lang.Bool:
		if v.Kind == lang.Bool {
			return key.Bool, v.Text()
		}
		return key.Int, v.Text()
	case lang.Float:
		return key.Float, v.Text()
	}
	return key.Absent, ""
}

// CheckBase checks every framework's base flags against its own help, where
// the help is known. An unknown name there is an error before anything starts
// (R058 as corrected, DESIGN 11.3).
func CheckBase(c *lang.Campaign, f Facts) lang.Diagnostics {
	var out lang.Diagnostics
	for _, fw := range Compared(c) {
		text, ok := f.Helps[fw.Label]
		if !ok {
			continue
		}
		known := help.Parse(text)
		for _, flag := range fw.Flags {
			given := Given(lang.Framework{Definition: withoutFixed(fw.Definition)}, []lang.Flag{flag})
			for _, fi := range help.Check(known, given) {
				out = append(out, lang.Diagnostic{
					Severity: lang.Error, Code: string(fi.Class), Summary: summaryOf(fi),
					Detail: fmt.Sprintf("Framework %q: %s.%s %s; `sotabuild show help.%s.server` prints what it knows.",
						fw.Label, fi.Reason, sentence(fi.Hint), instead(fi, flag), fw.Label),
					Range: flag.Range,
				})
			}
		}
	}
	return out
}

// instead says what to write in place of a flag that the program does not take.
func instead(fi help.Finding, f lang.Flag) string {
	switch {
	case fi.Class == "unknown_flag":
		return "Remove the flag or write one that the program has"
	case f.Value.Kind == lang.String && (f.Value.Str == "true" || f.Value.Str == "false"):
		return fmt.Sprintf("Write %s = %s, without quotes", f.Name, f.Value.Str)
	}
	return "Write a value that it takes, or remove the flag"
}

func withoutFixed(d *lang.Definition) *lang.Definition {
	c := *d
	c.Flags.Fixed = nil
	return &c
}

func summaryOf(fi help.Finding) string {
	if fi.Class == "unknown_flag" {
		return "Unknown server flag"
	}
	return "Server flag value not allowed"
}

func sentence(hint string) string {
	if hint == "" {
		return ""
	}
	if !strings.HasSuffix(hint, "?") {
		hint += "."
	}
	return " " + strings.ToUpper(hint[:1]) + hint[1:]
}
