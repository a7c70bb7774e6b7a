package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/result"
)

// measured reports whether some row of the scenario has numbers, passing or not.
func (s Scenario) measured() bool { return len(s.results()) > 0 }

// results are the frameworks that have a row with numbers, each once.
func (s Scenario) results() (out []string) {
	for _, c := range s.Cells {
		if c.Row.Status == result.OK && !slices.Contains(out, c.Framework) {
			out = append(out, c.Framework)
		}
	}
	return out
}

// alone reports whether one framework has a result and no other has one: it is
// first, and nobody was beaten.
func (s Scenario) alone() bool { return len(s.results()) == 1 }

// others says why the other frameworks have no result, each with the classes of
// its rows.
func (v View) others(s Scenario) string {
	var parts []string
	for _, side := range v.selected() {
		var classes []string
		if slices.Contains(s.results(), side.Name) {
			continue
		}
		for _, c := range s.Cells {
			if class := string(c.Row.Class); c.Framework == side.Name && class != "" && !slices.Contains(classes, class) {
				classes = append(classes, class)
			}
		}
		text := side.Name + " has none"
		if classes != nil {
			text += fmt.Sprintf(" (%s)", strings.Join(classes, ", "))
		}
		parts = append(parts, text)
	}
	if parts == nil {
		return "no other framework is compared"
	}
	return strings.Join(parts, ", ")
}
