package lang

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// Type is what an attribute takes. decode returns nil after it has told what
// is wrong.
type Type struct {
	Name   string // for people: "whole number ≥ 1"
	decode func(*given) any
}

// The types of attributes.
var (
	textType = Type{Name: "text", decode: func(g *given) any {
		s, ok := g.text("a text in quotes")
		switch {
		case !ok:
			return nil
		case s == "":
			return g.wrong("the text is empty. Leave the attribute out instead.")
		case strings.ContainsAny(s, "\x00\n\r"):
			return g.wrong("the text holds a line end or a zero byte. Write it on one line.")
		}
		return s
	}}
	boolType = Type{Name: "true or false", decode: func(g *given) any {
		if !g.is(cty.Bool) {
			return g.wrongType("true or false, without quotes")
		}
		return g.value.True()
	}}
	pathType = Type{Name: "path, relative to the campaign's folder", decode: func(g *given) any {
		s, ok := textType.decode(g).(string)
		if !ok {
			return nil
		}
		if strings.HasPrefix(s, "~") {
			return g.wrong("%q is not expanded: the same file must mean the same everywhere. Write the path from the root or from the campaign's folder.", s)
		}
		return absolute(g.dir, s)
	}}
	// hubType keeps an id and a path apart by how the text begins.
	hubType = Type{Name: "hub id, or path that begins with / or ./", decode: func(g *given) any {
		s, ok := textType.decode(g).(string)
		switch {
		case !ok:
			return nil
		case s == "." || strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") || strings.HasPrefix(s, "~"):
			return pathType.decode(g)
		}
		return s
	}}
	shareType = Type{Name: "share, 0 < x ≤ 1", decode: func(g *given) any {
		f, ok := g.number("a share such as 0.01 for 1 %")
		if ok && (f <= 0 || f > 1) {
			return g.wrong("%v is no share. Write a number above 0 and up to 1: 1 %% is 0.01.", f)
		}
		return orNil(f, ok)
	}}
	partType = Type{Name: "share, 0 ≤ x ≤ 1", decode: func(g *given) any {
		f, ok := g.number("a share such as 0.02 for 2 %")
		if ok && (f < 0 || f > 1) {
			return g.wrong("%v is no share. Write a number from 0 to 1: 1 %% is 0.01.", f)
		}
		return orNil(f, ok)
	}}
	positiveType = Type{Name: "number > 0", decode: func(g *given) any {
		f, ok := g.number("a number")
		if ok && f <= 0 {
			return g.wrong("%v is not above 0.", f)
		}
		return orNil(f, ok)
	}}
	numberType = Type{Name: "number ≥ 0", decode: func(g *given) any {
		f, ok := g.number("a number")
		if ok && f < 0 {
			return g.wrong("%v is below 0.", f)
		}
		return orNil(f, ok)
	}}
	millisType = Type{Name: "number > 0", decode: func(g *given) any {
		if g.is(cty.String) {
			g.p.add(cUnit, g.at, "%q is a bare number of milliseconds, as its name says. Write 2000 instead of \"2s\".", g.row.Name)
			return nil
		}
		f, ok := g.number("a number of milliseconds")
		switch {
		case !ok:
			return nil
		case f <= 0 || f > 1e9:
			return g.wrong("%v ms is no limit. Write a number above 0, or leave the attribute out for no limit.", f)
		}
		return time.Duration(math.Round(f * float64(time.Millisecond)))
	}}
	durationType = Type{Name: "duration with a unit, \"30m\"", decode: func(g *given) any {
		if g.is(cty.Number) {
			g.p.add(cUnit, g.at, "%q is a duration and needs its unit. Write it in quotes, such as \"30m\", \"2h\" or \"7d\".", g.row.Name)
			return nil
		}
		s, ok := g.text("a duration such as \"30m\"")
		if !ok {
			return nil
		}
		d, err := parseDuration(s)
		if err != nil {
			g.p.add(cUnit, g.at, "%q: %v.", g.row.Name, err)
			return nil
		}
		return d
	}}
	bytesType = Type{Name: "amount of memory with a unit, \"16g\"", decode: func(g *given) any {
		if g.is(cty.Number) {
			g.p.add(cUnit, g.at, "%q is an amount of memory and needs its unit. Write it in quotes, such as \"16g\".", g.row.Name)
			return nil
		}
		s, ok := g.text("an amount of memory such as \"16g\"")
		if !ok {
			return nil
		}
		n, err := parseBytes(s)
		if err != nil {
			g.p.add(cUnit, g.at, "%q: %v.", g.row.Name, err)
			return nil
		}
		return n
	}}
	seedType = Type{Name: "whole number", decode: func(g *given) any {
		n, ok := g.whole()
		return orNil(n, ok)
	}}
	urlsType = Type{Name: "list of addresses", decode: func(g *given) any {
		if list, _ := g.words(func(string) string { return "" }); strings.Contains(strings.Join(list, ""), "@") {
			g.p.add(cSecret, g.at, "%q holds a name or password. Write http://HOST:PORT alone; a campaign is read by many.", g.row.Name)
			return nil
		}
		return g.distinct(func(s string) string {
			rest, ok := strings.CutPrefix(s, "http://")
			if !ok {
				rest, ok = strings.CutPrefix(s, "https://")
			}
			if !ok || rest == "" || strings.ContainsAny(s, " \t\"'?#") || strings.HasSuffix(s, "/") {
				return "write it as http://HOST:PORT, without a final slash"
			}
			return ""
		})
	}}
	commandType = Type{Name: "command, a list of words", decode: func(g *given) any {
		if g.is(cty.String) {
			g.p.add(cWrongType, g.at, "%q is a list of words, because no shell takes part. Write [%s].", g.row.Name, quoteAll(strings.Fields(g.value.AsString())))
			return nil
		}
		return orNil(g.words(notEmpty))
	}}
	namesType = Type{Name: "list of framework names", decode: func(g *given) any {
		return g.distinct(nameProblem)
	}}
	rolesType  = Type{Name: "list of roles of processes", decode: namesType.decode}
	fieldsType = Type{Name: "list of names of fields", decode: namesType.decode}
	globsType  = Type{Name: "list of paths within the checkout, with *", decode: func(g *given) any {
		return g.distinct(func(s string) string {
			if s == "" || strings.HasPrefix(s, "/") || slices.Contains(strings.Split(s, "/"), "..") {
				return "write a path within the checkout, such as \"src/**\""
			}
			return ""
		})
	}}
	adaptersType = Type{Name: "list of names of adapters", decode: func(g *given) any {
		return g.distinct(func(s string) string {
			if strings.TrimSpace(s) != s || s == "" {
				return "write the name that the server gives the adapter"
			}
			return ""
		})
	}}
	envNamesType = Type{Name: "list of names of environment variables", decode: func(g *given) any {
		names := g.distinct(func(s string) string { return "" })
		for _, n := range asStrings(names) {
			if !envName.MatchString(n) {
				g.p.add(cSecret, g.at, "%q takes names of environment variables and nothing else. Write only the name, such as \"HF_TOKEN\", and set the value in the environment. If a real secret stands here, revoke it.", g.row.Name)
				return nil
			}
		}
		return names
	}}
	nameType = Type{Name: "name", decode: func(g *given) any {
		s, ok := textType.decode(g).(string)
		if !ok {
			return nil
		}
		if why := nameProblem(s); why != "" {
			return g.wrong("%q is no name: %s.", s, why)
		}
		return s
	}}
	revisionType = Type{Name: "40 hexadecimal digits", decode: func(g *given) any {
		s, ok := g.text("a text of 40 hexadecimal digits")
		if ok && !revision.MatchString(s) {
			return g.wrong("%q is no full revision. Branches and short ids move or clash; write the 40 hexadecimal digits.", s)
		}
		return orNil(s, ok)
	}}
	regexpType = Type{Name: "regular expression (RE2)", decode: func(g *given) any {
		s, ok := textType.decode(g).(string)
		if !ok {
			return nil
		}
		if _, err := regexp.Compile(s); err != nil {
			return g.wrong("%v. The syntax is RE2; a backslash is written twice in HCL.", err)
		}
		return s
	}}
	urlPathType = Type{Name: "path of an address, \"/health\"", decode: func(g *given) any {
		s, ok := textType.decode(g).(string)
		if ok && (!strings.HasPrefix(s, "/") || strings.ContainsAny(s, " #")) {
			return g.wrong("%q is no path of an address. Start it with a slash, such as \"/health\".", s)
		}
		return orNil(s, ok)
	}}
)

var (
	envName  = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	revision = lazyregexp.New(`^[0-9a-f]{40}$`)
	plain    = bounded{64, lazyregexp.New(`^[a-z][a-z0-9_]*$`)}
	flagName = bounded{128, lazyregexp.New(`^[A-Za-z][A-Za-z0-9_.]*$`)}
)

// bounded is a pattern of texts of at most so many bytes. A bound in the
// pattern itself would be multiplied out at every start of the program.
type bounded struct {
	most int
	*lazyregexp.Regexp
}

// MatchString reports whether s is short enough and fits.
func (b bounded) MatchString(s string) bool { return len(s) <= b.most && b.Regexp.MatchString(s) }

func nameProblem(s string) string {
	if !plain.MatchString(s) {
		return "names have small letters, digits and underscores, start with a letter and end within 64"
	}
	return ""
}

func notEmpty(s string) string {
	if s == "" || strings.ContainsAny(s, "\x00\n\r") {
		return "write a text that is not empty and has no line end"
	}
	return ""
}

// countType is a whole number of at least low.
func countType(low int64) Type {
	return Type{Name: fmt.Sprintf("whole number ≥ %d", low), decode: func(g *given) any {
		n, ok := g.whole()
		if ok && (n < low || n > 1<<40) {
			return g.wrong("%d is not allowed. Write a whole number of at least %d.", n, low)
		}
		return orNil(int(n), ok)
	}}
}

// choiceType is one of a list of words.
func choiceType(choices ...string) Type {
	return Type{Name: oneOf(choices), decode: func(g *given) any {
		s, ok := g.text("one of " + oneOf(choices))
		if ok && !slices.Contains(choices, s) {
			return g.wrong("%q is none of the choices. Write %s. %s", s, oneOf(choices), didYouMean(s, choices))
		}
		return orNil(s, ok)
	}}
}

func orNil[V any](v V, ok bool) any {
	if !ok {
		return nil
	}
	return v
}

func asStrings(v any) []string {
	s, _ := v.([]string)
	return s
}

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(quoted, ", ")
}
