package page

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// identity are the columns of the raw page that are no metrics.
var identity = []string{"ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context",
	"Stream", "Block Size", "Grid Size", "Device", "CC"}

// maxValues bounds memory: some 1,500 launches with the full set.
const maxValues = 4 << 20

// columns find fields by header name, because versions of ncu insert and drop
// columns. A field that a row lacks is empty.
type columns map[string]int

func (c columns) get(row []string, name string) string {
	if i, ok := c[name]; ok && i < len(row) {
		return row[i]
	}
	return ""
}

func (t *table) report() (Report, error) {
	c := columns{}
	for i, h := range t.header {
		if _, twice := c[h]; !twice {
			c[h] = i
		}
	}
	has := func(name string) bool { _, ok := c[name]; return ok }
	b := &builder{table: t, columns: c, at: map[launchID]int{}}
	switch {
	case has("Metric Name") && !has("Metric Value") && has("Average"):
		return Report{}, errors.New("reading ncu page: a per-kernel summary has no single launches; export it again without --print-summary")
	case has("Metric Name"):
		if missing := lacking(c, "Kernel Name", "Section Name", "Metric Unit", "Metric Value"); missing != "" {
			return Report{}, fmt.Errorf("reading ncu details page: the header has no column %s", missing)
		}
		b.kind = Details
		b.details()
	case slices.ContainsFunc(t.header, func(h string) bool { return strings.Contains(h, "__") }):
		if missing := lacking(c, "Kernel Name"); missing != "" {
			return Report{}, fmt.Errorf("reading ncu raw page: the header has no column %s", missing)
		}
		b.kind = Raw
		if err := b.raw(); err != nil {
			return Report{}, err
		}
	default:
		return Report{}, errors.New("reading ncu page: the header has neither \"Metric Name\" (details page) nor a metric column (raw page)")
	}
	if b.values > maxValues {
		return Report{}, fmt.Errorf("reading ncu page: more than %d values; export fewer launches or metrics", maxValues)
	}
	if err := b.convert(); err != nil {
		return Report{}, err
	}
	return Report{Launches: b.launches, Notes: t.notes.list}, nil
}

func lacking(c columns, names ...string) string {
	var out []string
	for _, n := range names {
		if _, ok := c[n]; !ok {
			out = append(out, strconv.Quote(n))
		}
	}
	return strings.Join(out, ", ")
}

// builder gathers rows into launches as text; convert then makes numbers of
// them, because the locale is known only after the last row.
type builder struct {
	*table
	columns
	kind      Kind
	values    int
	launches  []Launch
	at        map[launchID]int // index of the launch
	estimates []estimate
}

type estimate struct {
	launch, finding int
	text            string
}

// launch is the launch that a row belongs to, or nil when it names none.
func (b *builder) launch(row []string) *Launch {
	id, err := strconv.Atoi(strings.TrimSpace(b.get(row, "ID")))
	if err != nil || id < 0 {
		b.notes.add("rows without a launch id, dropped", strings.Join(row, ","))
		return nil
	}
	l := Launch{ID: id, Process: b.get(row, "Process ID"), Kernel: b.get(row, "Kernel Name"),
		CC: b.get(row, "CC"), Pages: []Kind{b.kind}, Metrics: Metrics{}}
	if l.Kernel == "" {
		b.notes.add("rows without a kernel name, dropped", strings.Join(row, ","))
		return nil
	}
	i, ok := b.at[l.identity()]
	if !ok {
		grid, gok := parseDim(b.get(row, "Grid Size"))
		block, bok := parseDim(b.get(row, "Block Size"))
		if gok && bok {
			l.Grid, l.Block = grid, block
		} else {
			b.notes.add("launches without a grid and block size", l.Kernel)
		}
		i = len(b.launches)
		b.at[l.identity()] = i
		b.launches = append(b.launches, l)
	}
	return &b.launches[i]
}

func (b *builder) details() {
	need := max(b.columns["Metric Name"], b.columns["Metric Value"])
	for _, row := range b.rows {
		if len(row) <= need {
			b.notes.add("rows cut off before the metric value, dropped", strings.Join(row, ","))
			continue
		}
		l := b.launch(row)
		if l == nil {
			continue
		}
		section, name, rule := b.get(row, "Section Name"), b.get(row, "Metric Name"), b.get(row, "Rule Name")
		if !slices.Contains(l.Sections, section) && name != "" {
			l.Sections = append(l.Sections, section)
		}
		if name != "" {
			b.put(l, metricName(section, name), b.get(row, "Metric Value"), b.get(row, "Metric Unit"))
		}
		if rule != "" {
			l.Findings = append(l.Findings, Finding{Section: section, Rule: rule, Kind: b.get(row, "Rule Type"),
				Text: b.get(row, "Rule Description"), Scope: b.get(row, "Estimated Speedup Type")})
			if e := b.get(row, "Estimated Speedup"); e != "" {
				b.estimates = append(b.estimates, estimate{b.at[l.identity()], len(l.Findings) - 1, e})
			}
		}
		if name == "" && rule == "" {
			b.notes.add("rows with neither metric nor rule", strings.Join(row, ","))
		}
	}
}

func (b *builder) raw() error {
	var units []string
	for _, row := range b.rows {
		if row[0] == "" { // the unit row has no id
			units = row
			continue
		}
		if units == nil {
			return errors.New("reading ncu raw page: no unit row below the header, so nothing can be converted to base units; export the page anew")
		}
		if len(row) != len(b.header) {
			b.notes.add("rows whose length is not the header's", fmt.Sprintf("%d of %d fields", len(row), len(b.header)))
		}
		l := b.launch(row)
		if l == nil {
			continue
		}
		for i, h := range b.header {
			if i >= len(row) || slices.Contains(identity, h) {
				continue
			}
			unit := ""
			if i < len(units) {
				unit = units[i]
			}
			b.put(l, h, row[i], unit)
		}
	}
	return nil
}

// absent are the ways of ncu to say that there is no value.
var absent = []string{"", "n/a", "no data", "nan", "-nan", "inf", "-inf"}

func (b *builder) put(l *Launch, name, text, unit string) {
	text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "(!)"))
	if slices.Contains(absent, strings.ToLower(text)) {
		return
	}
	if old, twice := l.Metrics[name]; twice {
		if old.Text != text || old.TextUnit != unit {
			b.notes.add("metrics printed twice with different values, first kept", name)
		}
		return
	}
	if b.values++; b.values <= maxValues {
		l.Metrics[name] = Metric{Text: text, TextUnit: unit}
	}
}

func (b *builder) convert() error {
	var cells []cell
	for i := range b.launches {
		for _, name := range b.launches[i].Metrics.Names() {
			cells = append(cells, cell{b.launches[i].Metrics[name].Text, wholeMetrics[name]})
		}
	}
	loc, err := localeOf(cells, b.plausible)
	if err != nil {
		return fmt.Errorf("reading ncu %s page: %w", b.kind, err)
	}
	if loc.guessed {
		b.notes.add("numbers read as English, though nothing in the file says whether a comma or a point is the decimal mark", "")
	}
	for i := range b.launches {
		m := b.launches[i].Metrics
		for _, name := range m.Names() {
			m[name] = b.measure(loc, name, m[name])
		}
	}
	for _, e := range b.estimates {
		if v, ok := loc.number(e.text, 0); ok {
			b.launches[e.launch].Findings[e.finding].Estimate = &v
		} else {
			b.notes.add("estimates that are no numbers", e.text)
		}
	}
	return nil
}

func (b *builder) measure(loc locale, name string, m Metric) Metric {
	unit, power, known := baseUnit(m.TextUnit)
	v, ok := loc.number(m.Text, power)
	m.Unit = unit
	if !ok {
		m.Words = true
		if strings.Trim(m.Text, "0123456789.,+-eE") == "" {
			b.notes.add("values that are no numbers in this file's locale", name+" = "+m.Text)
		}
		return m
	}
	if !known {
		b.notes.add("units that are not known, values kept as printed", m.TextUnit)
	}
	m.Value = v
	return m
}

// plausible tells whether duration × frequency is the number of cycles under a
// locale, within a tenth, in any launch.
func (b *builder) plausible(l locale) bool {
	for i := range b.launches {
		value := func(name string) float64 {
			m := b.launches[i].Metrics[name]
			_, power, _ := baseUnit(m.TextUnit)
			v, _ := l.number(m.Text, power)
			return v
		}
		ns, hz, cycles := value("gpu__time_duration.sum"), value("gpc__cycles_elapsed.avg.per_second"), value("gpc__cycles_elapsed.max")
		if want := ns * hz / 1e9; want > 0 && math.Abs(cycles-want) <= want/10 {
			return true
		}
	}
	return false
}
