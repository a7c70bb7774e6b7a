// Package match finds which kernel of a baseline is which of a candidate, and
// what their launches say together.
//
// It knows names, shapes and launches; it does not judge them. The main type
// is Group. Values are owned by the caller, except that groups share the
// metrics of the report they were made from; nothing is concurrent. An error
// of Pair means that the caller must name kernels more closely.
package match

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/ncu/page"
)

// Group is one kernel in one shape, with its launches in report order.
type Group struct {
	Name     string // canonical
	Grid     page.Dim
	Block    page.Dim
	Launches []page.Launch
}

func (g Group) String() string { return fmt.Sprintf("%s grid %v block %v", g.Name, g.Grid, g.Block) }

func (g Group) same(o Group) bool { return g.Name == o.Name && g.Grid == o.Grid && g.Block == o.Block }

// Groups are the kernels whose canonical or printed name matches, or their
// function's alone, which is what ncu's own --kernel-name looks at. In report
// order.
func Groups(r page.Report, re *regexp.Regexp) []Group {
	var out []Group
	for _, l := range r.Launches {
		g := Group{Name: page.Canonical(l.Kernel), Grid: l.Grid, Block: l.Block}
		if !re.MatchString(g.Name) && !re.MatchString(l.Kernel) && !re.MatchString(function(g.Name)) {
			continue
		}
		i := slices.IndexFunc(out, g.same)
		if i < 0 {
			i = len(out)
			out = append(out, g)
		}
		out[i].Launches = append(out[i].Launches, l)
	}
	return out
}

// function is a kernel's name without template arguments, parameters and
// namespaces.
func function(name string) string {
	if i := strings.IndexAny(name, "<("); i > 0 {
		name = name[:i]
	}
	return name[strings.LastIndex(name, ":")+1:]
}

// Pairing says why two kernels are compared.
type Pairing struct {
	// How is "exact" (name, grid and block agree), "family" (the same function
	// but for version, arguments or shape), "named" (the caller named one kernel
	// on each side) or "merged" (one kernel does the work of several).
	How      string   `json:"how"`
	Unpaired []string `json:"unpaired,omitempty"` // kernels that have no partner, baseline's first
}

// Match is the pair to compare. A side has several groups only when merged.
type Match struct {
	Pairing
	Baseline, Candidate []Group
}

// Pair finds the one comparison that both sides allow. Several are an error,
// because a digest is about one kernel. Named says that the caller chose the
// kernels of each side by name, so that unlike names may pair.
func Pair(b, c []Group, named bool) (Match, error) {
	var pairs []Match
	restB, restC := b, c
	for _, how := range []string{"exact", "family"} {
		var nextB []Group
		for _, g := range restB {
			i := slices.IndexFunc(restC, func(o Group) bool {
				return g.same(o) || how == "family" && page.Family(g.Name) == page.Family(o.Name)
			})
			if i < 0 {
				nextB = append(nextB, g)
				continue
			}
			pairs = append(pairs, Match{Pairing{How: how}, []Group{g}, []Group{restC[i]}})
			restC = slices.Delete(slices.Clone(restC), i, i+1)
		}
		restB = nextB
	}
	switch {
	case len(pairs) == 1:
		m := pairs[0]
		for _, g := range append(slices.Clone(restB), restC...) {
			m.Unpaired = append(m.Unpaired, g.String())
		}
		return m, notItself(m)
	case len(pairs) == 0 && len(restB) == 1 && len(restC) == 1 && named:
		return Match{Pairing{How: "named"}, restB, restC}, nil
	case len(pairs) == 0 && (len(restB) == 1 || len(restC) == 1) && named:
		return Match{Pairing{How: "merged"}, restB, restC}, nil
	case len(pairs) == 0:
		return Match{}, fmt.Errorf("no kernel of the baseline (%s) is one of the candidate (%s); name one on each side", List(b), List(c))
	}
	var both []Group
	for _, p := range pairs {
		both = append(both, p.Baseline[0])
	}
	return Match{}, fmt.Errorf("a digest is about one kernel and %d pair up: %s; name one with a regular expression", len(pairs), List(both))
}

// notItself refuses a pair of the very same launches.
func notItself(m Match) error {
	if m.How != "exact" || !slices.EqualFunc(m.Baseline[0].Launches, m.Candidate[0].Launches, sameLaunch) {
		return nil
	}
	return fmt.Errorf("baseline and candidate are the same launches of %s; a kernel is not compared with itself, so name another report or, within one report, another kernel on each side", m.Baseline[0])
}

func sameLaunch(a, b page.Launch) bool {
	if a.ID != b.ID || a.Process != b.Process || len(a.Metrics) != len(b.Metrics) {
		return false
	}
	for n, m := range a.Metrics {
		if b.Metrics[n] != m {
			return false
		}
	}
	return true
}

// additive metrics of merged kernels are summed; others have no meaning over
// several kernels and are absent.
var additive = map[string]bool{
	"gpu__time_duration.sum": true, "gpc__cycles_elapsed.max": true, "smsp__inst_executed.sum": true,
	"dram__bytes.sum": true, "dram__bytes_read.sum": true, "dram__bytes_write.sum": true,
}

// Metrics are the medians over a kernel's launches, of metrics that every
// launch has in the same unit; over several kernels, sums of the additive.
func Metrics(groups []Group) page.Metrics {
	if len(groups) == 1 {
		return medians(groups[0].Launches)
	}
	sum := page.Metrics{}
	for i, g := range groups {
		m := medians(g.Launches)
		for _, n := range m.Names() {
			if !additive[n] {
				continue
			}
			s, ok := sum[n]
			if i > 0 && (!ok || s.Unit != m[n].Unit) {
				continue
			}
			if i > 0 {
				s.Text += " + "
			}
			s.Value, s.Unit, s.TextUnit = s.Value+m[n].Value, m[n].Unit, m[n].TextUnit
			s.Text += m[n].Text
			sum[n] = s
		}
		for _, n := range sum.Names() {
			if _, ok := m[n]; !ok {
				delete(sum, n)
			}
		}
	}
	return sum
}

func medians(launches []page.Launch) page.Metrics {
	out := page.Metrics{}
	for name, first := range launches[0].Metrics {
		m, values, texts := first, []float64{first.Value}, []string{first.Text}
		whole := true
		for _, l := range launches[1:] {
			x, ok := l.Metrics[name]
			whole = whole && ok && x.Unit == m.Unit && x.Words == m.Words && (!x.Words || x.Text == m.Text)
			values, texts = append(values, x.Value), append(texts, x.Text)
		}
		if !whole {
			continue
		}
		m.Value = median(values)
		if !m.Words {
			m.Text = joinDistinct(texts)
		}
		out[name] = m
	}
	return out
}

func joinDistinct(texts []string) string {
	out := texts[0]
	for i, t := range texts[1:] {
		if !slices.Contains(texts[:i+1], t) {
			out += " | " + t
		}
	}
	return out
}

func median(values []float64) float64 {
	s := slices.SortedFunc(slices.Values(values), cmp.Compare[float64])
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// Spread is the range of a kernel's durations over their median, in percent.
func Spread(g Group) float64 {
	var d []float64
	for _, l := range g.Launches {
		if v, ok := l.Metrics.Number("gpu__time_duration.sum"); ok {
			d = append(d, v)
		}
	}
	if len(d) < 2 || median(d) == 0 {
		return 0
	}
	return 100 * (slices.Max(d) - slices.Min(d)) / median(d)
}

// List names at most twelve groups, for messages.
func List(groups []Group) string {
	var out []string
	for i, g := range groups {
		if i == 12 {
			out = append(out, fmt.Sprintf("%d more", len(groups)-i))
			break
		}
		out = append(out, g.String())
	}
	if out == nil {
		return "none"
	}
	return strings.Join(out, "; ")
}
