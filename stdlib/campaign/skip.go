package campaign

import (
	"fmt"

	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/help"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/search"
)

// skip is why a candidate is not run.
type skip struct {
	addr   string
	reason string     // "" runs it
	at     lang.Range // what in the search space is the cause
	unfit  bool       // the program's help does not have what it is given
}

// skipReason says why a candidate cannot run: it uses another number of GPUs
// than the campaign's (R055), or this program's own help does not have what it
// is given (R058). Only searched flags can make a candidate skipped; an unknown
// name in the base flags is an error (CheckBase).
func skipReason(c *lang.Campaign, f Facts, fw lang.Framework, cand search.Candidate, given []help.Given) skip {
	if n, ok := fw.GPUCount(cand.Flags); ok && c.GPUs != nil && n != len(c.GPUs.IDs) {
		return skip{at: fw.Search.Range, reason: fmt.Sprintf("%s: it uses %s, and every framework of the campaign uses %d", result.BadFlagValue, result.Count(n, "GPU"), len(c.GPUs.IDs))}
	}
	text, ok := f.Helps[fw.Label]
	if !ok {
		return skip{}
	}
	searched := map[string]lang.Range{}
	for _, a := range fw.Search.Space {
		searched[FlagName(fw.Definition, a.Name)] = a.Range
	}
	for _, fi := range help.Check(help.Parse(text), given) {
		if at, ok := searched[fi.Flag]; ok {
			return skip{at: at, unfit: true, reason: string(fi.Class) + ": " + fi.Reason + hint(fi.Hint)}
		}
	}
	return skip{}
}

func hint(h string) string {
	if h == "" {
		return ""
	}
	return " (" + h + ")"
}

// skipWarnings say once for each cause which of a framework's candidates are
// skipped, and what that leaves of its search.
func skipWarnings(fw lang.Framework, skipped []skip, candidates int) lang.Diagnostics {
	var causes []string
	by := map[string][]skip{}
	for _, s := range skipped {
		if by[s.reason] == nil {
			causes = append(causes, s.reason)
		}
		by[s.reason] = append(by[s.reason], s)
	}
	var out lang.Diagnostics
	for _, reason := range causes {
		all := by[reason]
		text := all[0].addr + " is skipped: "
		if n := len(all) - 1; n > 0 {
			text = fmt.Sprintf("%s and %s of that search are skipped: ", all[0].addr, result.Count(n, "further candidate"))
		}
		text += reason + "."
		if all[0].unfit {
			text += fmt.Sprintf(" `sotabuild show help.%s.server` prints what it knows.", fw.Label)
		}
		if len(skipped) == candidates-1 {
			text += fmt.Sprintf(" Nothing of %q but its baseline is measured; that is no error, and apply ends with 0.", fw.Label)
		}
		out = append(out, lang.Diagnostic{Severity: lang.Warning, Code: "candidate_skipped", Summary: "Candidate is skipped", Detail: text, Range: all[0].at})
	}
	return out
}
