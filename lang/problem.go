package lang

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
)

// A code is the stable id of a kind of problem, with its constant summary.
type code struct{ id, summary string }

// The codes. A summary has at most six words and holds no user data.
var (
	cRead          = code{"unreadable", "Cannot read file"}
	cTooLarge      = code{"too_large", "Input too large"}
	cSyntax        = code{"syntax", "Invalid syntax"}
	cExpression    = code{"expression", "Invalid expression"}
	cUnknownName   = code{"unknown_name", "Unknown name"}
	cUnknownFunc   = code{"unknown_function", "Unknown function"}
	cLater         = code{"later_value", "Value known only later"}
	cCycle         = code{"cycle", "Locals refer to each other"}
	cUnknownAttr   = code{"unknown_attribute", "Unknown attribute"}
	cUnknownBlock  = code{"unknown_block", "Unknown block"}
	cDuplicate     = code{"duplicate", "Defined twice"}
	cMissing       = code{"missing", "Something required is missing"}
	cLabel         = code{"label", "Wrong label"}
	cWrongType     = code{"wrong_type", "Wrong type"}
	cBadValue      = code{"bad_value", "Value not allowed"}
	cUnit          = code{"unit", "Wrong or missing unit"}
	cVariable      = code{"variable", "Wrong variable value"}
	cUnusedVar     = code{"unused_variable", "Value for no variable"}
	cForEach       = code{"for_each", "Wrong for_each"}
	cExclusive     = code{"exclusive", "Only one of these"}
	cUnknownFw     = code{"unknown_framework", "Unknown framework"}
	cSides         = code{"sides", "Wrong comparison"}
	cCompareNeeded = code{"compare_required", "Competitors must be written"}
	cNoPart        = code{"takes_no_part", "Framework takes no part"}
	cNoCompetitor  = code{"no_competitor", "Nothing to compare with"}
	cScenario      = code{"scenario_not_fixed", "Scenarios are not the default"}
	cContext       = code{"context_too_short", "Context length too short"}
	cFlag          = code{"flag", "Flag not allowed here"}
	cSearch        = code{"search", "Unequal or unbounded search"}
	cSearchCut     = code{"search_cut", "Search space is cut"}
	cGPUs          = code{"gpu_count", "GPU count differs"}
	cVocab         = code{"vocab", "Vocabulary unknown"}
	cProcess       = code{"process", "Processes make no system"}
	cVerify        = code{"verification_required", "Verification must be asked for"}
	cLoop          = code{"loop", "Loop cannot work"}
	cSecret        = code{"secret_value", "Secret value in campaign"}
	cDefinition    = code{"definition", "Wrong framework definition"}
	cShadow        = code{"shadows_builtin", "Name of a built-in definition"}
	cUnfamiliar    = code{"unfamiliar_word", "Word is not a known one"}
)

// problems collects what a load finds wrong. The zero value works.
type problems struct{ list Diagnostics }

// add records an error; the format's text is the detail.
func (p *problems) add(c code, r Range, format string, args ...any) *Diagnostic {
	return p.put(Error, c, r, format, args...)
}

// warn records a warning.
func (p *problems) warn(c code, r Range, format string, args ...any) {
	p.put(Warning, c, r, format, args...)
}

func (p *problems) put(s Severity, c code, r Range, format string, args ...any) *Diagnostic {
	p.list = append(p.list, Diagnostic{
		Severity: s, Code: c.id, Summary: c.summary, Range: r,
		Detail: strings.TrimSpace(fmt.Sprintf(format, args...)),
	})
	return &p.list[len(p.list)-1]
}

// hcl takes over what the HCL library found.
func (p *problems) hcl(c code, ds hcl.Diagnostics) {
	for _, d := range ds {
		if d.Severity != hcl.DiagError {
			continue
		}
		var r Range
		if d.Subject != nil {
			r = rangeOf(*d.Subject)
		}
		p.add(c, r, "%s: %s", d.Summary, d.Detail)
	}
}

// maxProblems bounds what is shown of one load: a file that is no campaign at
// all has a problem on every line.
const maxProblems = 200

// finish returns the problems in order of file and place, each once, with the
// source lines filled in.
func (p *problems) finish(sources []source) Diagnostics {
	slices.SortStableFunc(p.list, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.Range.File, b.Range.File),
			cmp.Compare(a.Range.Line, b.Range.Line),
			cmp.Compare(a.Range.Col, b.Range.Col),
			cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Detail, b.Detail),
		)
	})
	list := slices.CompactFunc(p.list, func(a, b Diagnostic) bool {
		return a.Range == b.Range && a.Code == b.Code && a.Detail == b.Detail
	})
	if len(list) > maxProblems {
		more, severity := len(list)-maxProblems, Warning
		if list[maxProblems:].HasErrors() {
			severity = Error
		}
		list = append(list[:maxProblems:maxProblems], Diagnostic{
			Severity: severity, Code: cTooLarge.id, Summary: cTooLarge.summary, Range: list[maxProblems].Range,
			Detail: fmt.Sprintf("%d further problems are not shown. Fix the first ones and load again.", more),
		})
	}
	type place struct {
		file string
		line int
	}
	secret := map[place]bool{} // lines that hold a secret are never shown
	for _, d := range list {
		secret[place{d.Range.File, d.Range.Line}] = secret[place{d.Range.File, d.Range.Line}] || d.Code == cSecret.id
	}
	for i, d := range list {
		if !secret[place{d.Range.File, d.Range.Line}] {
			list[i].Snippet = line(sources, d.Range)
		}
	}
	return list
}

// Quote adds source lines to diagnostics that another room made of a campaign's
// ranges.
func Quote(files []File, list Diagnostics) Diagnostics {
	sources := make([]source, 0, len(files))
	for _, f := range files {
		sources = append(sources, source{f.Name, f.Bytes})
	}
	for i, d := range list {
		if d.Snippet == "" {
			list[i].Snippet = line(sources, d.Range)
		}
	}
	return list
}

// maxSnippet is the length in bytes of the longest source line that is shown.
const maxSnippet = 500

func line(sources []source, r Range) string {
	for _, s := range sources {
		if s.name != r.File || r.Line < 1 {
			continue
		}
		rest, n := s.bytes, r.Line
		for ; n > 1; n-- {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				return ""
			}
			rest = rest[i+1:]
		}
		text, _, _ := bytes.Cut(rest, []byte("\n"))
		text = bytes.TrimSuffix(text, []byte("\r"))
		if len(text) > maxSnippet {
			return ""
		}
		return strings.ToValidUTF8(string(text), "\uFFFD")
	}
	return ""
}

func rangeOf(r hcl.Range) Range {
	return Range{File: r.Filename, Line: r.Start.Line, Col: r.Start.Column, EndLine: r.End.Line, EndCol: r.End.Column}
}

// DidYouMean is a sentence with the nearest of names, or "" if none is near.
func DidYouMean(given string, names []string) string { return didYouMean(given, names) }

// didYouMean is a sentence with the nearest of names, or "" if none is near.
func didYouMean(given string, names []string) string {
	if best := nearest(given, names); best != "" {
		return fmt.Sprintf("Did you mean %q?", best)
	}
	return ""
}

// nearest returns the name with the smallest edit distance, at most a third of
// the longer word and three; the first one wins.
func nearest(given string, names []string) string {
	best, bestDistance := "", 4
	for _, n := range names {
		if strings.EqualFold(n, given) {
			return n
		}
		if abs(len(n)-len(given)) > 3 || len(given) > 64 {
			continue
		}
		d := distance(strings.ToLower(given), n)
		if d < bestDistance && 3*d <= max(len(given), len(n)) {
			best, bestDistance = n, d
		}
	}
	return best
}

// distance is the edit distance of two words, where two neighbours that are
// swapped are one edit.
func distance(a, b string) int {
	if len(a) == len(b) {
		for i := 1; i < len(a); i++ {
			if a[:i-1] == b[:i-1] && a[i-1] == b[i] && a[i] == b[i-1] && a[i+1:] == b[i+1:] {
				return 1
			}
		}
	}
	return levenshtein.Distance(a, b, nil)
}

func abs(n int) int { return max(n, -n) }

// oneOf renders names for a sentence: "a", "b" or "c".
func oneOf(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	if len(quoted) < 2 {
		return strings.Join(quoted, "")
	}
	return strings.Join(quoted[:len(quoted)-1], ", ") + " or " + quoted[len(quoted)-1]
}
