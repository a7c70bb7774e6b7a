// Package page reads the CSV pages that Nsight Compute prints – details (long)
// and raw (wide) – into launches whose metrics carry base units.
//
// It knows the file: preambles, ragged rows, the raw page's unit row, locales,
// units, and which display name on the details page is which metric. It does
// not know what a number means for a kernel; that is package diagnosis.
//
// The main type is Report. Everything read is owned by the caller; nothing is
// kept and nothing is concurrent. What could not be read stands in
// Report.Notes with counts. An error means that there is no report at all: a
// *Refusal when the text is what ncu says instead of a table, an ordinary
// error when it is no page of ncu.
package page

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Kind is the page a table came from.
type Kind string

const (
	Details Kind = "details"
	Raw     Kind = "raw"
)

// Report is what one stream held. Launches are in file order.
type Report struct {
	Launches []Launch
	Notes    []Note
}

// Note is a flaw of the file that did not stop the reading, with how often it
// was seen and its first example.
type Note struct {
	Text    string `json:"text"`
	Count   int    `json:"count"`
	Example string `json:"example,omitempty"`
}

// Launch is one profiled kernel launch.
type Launch struct {
	ID       int
	Process  string // process id as printed
	Kernel   string // as printed
	Grid     Dim
	Block    Dim
	CC       string // compute capability, "9.0"; empty when the page lacks it
	Pages    []Kind // the pages merged into it, in order of reading
	Sections []string
	Metrics  Metrics
	Findings []Finding
}

type launchID struct {
	process, kernel string
	id              int
}

func (l *Launch) identity() launchID { return launchID{l.Process, l.Kernel, l.ID} }

// Dim is a grid or block size; the zero Dim is unknown.
type Dim [3]int

// Count is the number of blocks or threads, 0 when unknown.
func (d Dim) Count() int { return d[0] * d[1] * d[2] }

func (d Dim) String() string {
	if d == (Dim{}) {
		return "unknown"
	}
	return fmt.Sprintf("(%d, %d, %d)", d[0], d[1], d[2])
}

// Metric is one value. Value is in Unit, which is a base unit: ns, hz, byte,
// byte/s, sector/s, % and the counts as ncu names them. Text and TextUnit are
// what the file said.
type Metric struct {
	Value    float64 `json:"value"`
	Unit     string  `json:"unit,omitempty"`
	Text     string  `json:"text"`
	TextUnit string  `json:"text_unit,omitempty"`
	Words    bool    `json:"-"` // Text is no number ("CachePreferNone"); Value means nothing
}

// Metrics are keyed by metric name ("gpu__time_duration.sum"). Values of the
// details page whose metric is not known are keyed "Section/Display name".
// What the file left empty or called n/a is absent: missing is not zero.
type Metrics map[string]Metric

// Number is the value of the first of the names that is present as a number.
func (m Metrics) Number(names ...string) (float64, bool) {
	for _, n := range names {
		if v, ok := m[n]; ok && !v.Words {
			return v.Value, true
		}
	}
	return 0, false
}

// Names are the metrics' names, sorted.
func (m Metrics) Names() []string { return slices.Sorted(maps.Keys(m)) }

// Finding is one result of a rule that ncu ships.
type Finding struct {
	Section  string   // identifier, "SpeedOfLight"
	Rule     string   // "SOLBottleneck"
	Kind     string   // OPT, INF, WRN
	Text     string   // the rule's prose
	Scope    string   // of the estimate: global, local or empty
	Estimate *float64 // estimated speed-up in percent; nil when the rule gives none
}

// Refusal is what ncu printed instead of a table.
type Refusal struct {
	Code RefusalCode
	Text string // its ==ERROR== and ==WARNING== lines
}

// RefusalCode names why there is no table.
type RefusalCode string

const (
	NoPermission RefusalCode = "no_permission"     // ERR_NVGPUCTRPERM
	NoKernel     RefusalCode = "no_kernel_matched" // nothing was profiled
	ToolError    RefusalCode = "ncu_error"         // any other ==ERROR==
)

func (r *Refusal) Error() string {
	return fmt.Sprintf("ncu printed no table (%s): %s", r.Code, r.Text)
}

func parseDim(s string) (Dim, bool) {
	s = strings.TrimSpace(s)
	s = strings.TrimSuffix(strings.TrimPrefix(s, "("), ")")
	parts := strings.Split(s, ",")
	if len(parts) != 3 {
		return Dim{}, false
	}
	var d Dim
	product := 1.0
	for i, p := range parts {
		n, err := strconv.ParseUint(strings.TrimSpace(p), 10, 31)
		if err != nil || n == 0 {
			return Dim{}, false
		}
		d[i], product = int(n), product*float64(n)
	}
	return d, product < 1<<53 // more is no launch, and Count would overflow
}

// Merge joins pages of the same report: launches that agree in process, id,
// kernel and shape and come from different pages become one. The raw page has
// more digits, so its values win wherever both pages have a metric.
func Merge(reports ...Report) Report {
	var out Report
	at := map[launchID]int{}
	for _, r := range reports {
		out.Notes = append(out.Notes, r.Notes...)
		for _, l := range r.Launches {
			k := l.identity()
			if i, ok := at[k]; ok && !overlap(out.Launches[i].Pages, l.Pages) {
				out.Launches[i].join(l)
				continue
			}
			at[k] = len(out.Launches)
			out.Launches = append(out.Launches, l)
		}
	}
	return out
}

func overlap(a, b []Kind) bool {
	for _, x := range a {
		for _, y := range b {
			if x == y {
				return true
			}
		}
	}
	return false
}

func (l *Launch) join(o Launch) {
	raw := overlap(o.Pages, []Kind{Raw})
	merged := make(Metrics, len(l.Metrics)+len(o.Metrics))
	for n, m := range l.Metrics {
		merged[n] = m
	}
	for n, m := range o.Metrics {
		if _, ok := merged[n]; !ok || raw {
			merged[n] = m
		}
	}
	l.Metrics = merged
	l.Pages = append(l.Pages[:len(l.Pages):len(l.Pages)], o.Pages...)
	l.Sections = append(l.Sections, o.Sections...)
	l.Findings = append(l.Findings, o.Findings...)
	if l.Grid == (Dim{}) {
		l.Grid, l.Block = o.Grid, o.Block
	}
}
