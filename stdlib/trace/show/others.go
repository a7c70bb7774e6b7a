package show

import (
	"fmt"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/trace/diff"
	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
	"github.com/sotabuild/sotabuild/stdlib/trace/pipeline"
)

// Pipeline is the nine parts of a layer report as tables, in order.
func Pipeline(r pipeline.Report) []Table {
	out := []Table{metadata(r), architecture(r), passTable(r), chosen(r), layerTable(r), clusterTable(r)}
	for _, f := range r.Flows {
		out = append(out, flowTable(f))
	}
	for _, d := range r.Differences {
		out = append(out, differenceTable(d))
	}
	return append(out, rangeTable(r), conclusion(r))
}

func metadata(r pipeline.Report) Table {
	m := r.Metadata
	t := Table{Title: "1. Metadata", Head: []string{"Field", "Value"}}
	add := func(k, v string) {
		if v != "" {
			t.Rows = append(t.Rows, []any{k, v})
		}
	}
	add("trace", m.Input.Path)
	add("sha256", m.Input.SHA256)
	add("framework", m.Framework)
	if m.Rank >= 0 {
		add("rank", fmt.Sprint(m.Rank))
	}
	for _, d := range m.Input.Devices {
		add("device", d.Name)
	}
	add("config sha256", m.Config)
	return t
}

func architecture(r pipeline.Report) Table {
	a := r.Architecture
	t := Table{Title: "2. Architecture", Head: []string{"Field", "Value"}}
	if a.Model != "" {
		t.Rows = append(t.Rows, []any{"model", a.Model})
	}
	t.Rows = append(t.Rows, []any{"layers", fmt.Sprintf("%d (%s)", a.Layers.N, a.Layers.Note)})
	for _, s := range a.Types {
		t.Rows = append(t.Rows, []any{"kind, by " + a.Source, s})
	}
	t.Notes = r.Notes
	return t
}

func passTable(r pipeline.Report) Table {
	t := Table{
		Title: "3. Passes",
		Head:  []string{"Pass", "Name", "Stage", "Start(ms)", "Wall", "Busy", "Layers", "Mean layer", "Evidence", "Note"},
	}
	for _, p := range r.Passes {
		t.Rows = append(t.Rows, []any{p.Index, p.Name, p.Stage, Millis(p.Start), Micros(p.Wall), Micros(p.Busy), p.Layers, Micros(p.Mean), p.Evidence, p.Note})
	}
	return t
}

func chosen(r pipeline.Report) Table {
	return Table{
		Title: "4. Chosen pass", Head: []string{"Pass", "Reason"},
		Rows: [][]any{{r.Chosen.Index, r.Chosen.Reason}},
	}
}

// columns is the families that any layer spends time in, in display order.
func columns(r pipeline.Report) []kernel.Family {
	var out []kernel.Family
	for _, f := range kernel.Families() {
		for _, l := range r.Layers {
			if l.ByFamily[f] > 0 {
				out = append(out, f)
				break
			}
		}
	}
	return out
}

func layerTable(r pipeline.Report) Table {
	families := columns(r)
	t := Table{Title: "5. Layers", Head: []string{"L", "Type", "Wall", "Busy", "Sum"}}
	for _, f := range families {
		t.Head = append(t.Head, string(f))
	}
	t.Head = append(t.Head, "Collectives", "Kernels")
	for _, l := range r.Layers {
		row := []any{l.Index, l.Type, Micros(l.Wall), Micros(l.Busy), Micros(l.Sum)}
		for _, f := range families {
			row = append(row, Micros(l.ByFamily[f]))
		}
		t.Rows = append(t.Rows, append(row, l.Collectives, l.Kernels))
	}
	return t
}

func clusterTable(r pipeline.Report) Table {
	families := columns(r)
	t := Table{Title: "6. Clusters", Head: []string{"Type", "Layers", "Avg wall", "Avg sum"}}
	for _, f := range families {
		t.Head = append(t.Head, string(f)+" %")
	}
	t.Head = append(t.Head, "Representative", "Slowest", "Hot kernels")
	for _, c := range r.Clusters {
		row := []any{c.Type, list(c.Layers), Micros(c.Wall), Micros(c.Sum)}
		for _, f := range families {
			row = append(row, Share(c.Shares[f]))
		}
		var hot []string
		for _, h := range c.Hot[:min(3, len(c.Hot))] {
			hot = append(hot, fmt.Sprintf("%s %s", human(Name(h.Kernel)), human(Share(h.Share))))
		}
		t.Rows = append(t.Rows, append(row, c.Representative, c.Slowest, strings.Join(hot, "; ")))
	}
	return t
}

// list prints 0–3, 7, 9–11.
func list(n []int) string {
	var parts []string
	for i := 0; i < len(n); {
		j := i
		for j+1 < len(n) && n[j+1] == n[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, fmt.Sprint(n[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d–%d", n[i], n[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

func flowTable(f pipeline.Flow) Table {
	t := Table{
		Title: fmt.Sprintf("7. Compute flow of layer %d (%s; %s)", f.Layer, f.Type, f.Why),
		Head:  []string{"#", "Half", "Category", "Simplified Name", "dur(us)", "%", "ts_rel(ms)", "Input Dims"},
	}
	for _, s := range f.Steps {
		t.Rows = append(t.Rows, []any{s.Number, s.Half, string(s.Family), s.Name, fixed(s.Dur, 1000, 3), Share(s.Share), Millis(s.At), orDash(s.Dims)})
	}
	return t
}

func differenceTable(d pipeline.Diff) Table {
	return Table{
		Title: fmt.Sprintf("7. Layer %d against layer %d", d.B, d.A),
		Head:  []string{"Wall difference", fmt.Sprintf("Only in layer %d", d.A), fmt.Sprintf("Only in layer %d", d.B)},
		Rows:  [][]any{{Micros(d.Wall), orDash(strings.Join(d.OnlyA, ", ")), orDash(strings.Join(d.OnlyB, ", "))}},
	}
}

func rangeTable(r pipeline.Report) Table {
	t := Table{
		Title: "8. Perfetto ranges", Head: []string{"What", "From (s)", "To (s)", "Start (absolute ns)", "Query"},
		Notes: []string{"Perfetto hides slices that overlap on one track; the tables here count them."},
	}
	for _, x := range r.Ranges {
		t.Rows = append(t.Rows, []any{x.What, fixed(x.From, 1_000_000_000, 9), fixed(x.To, 1_000_000_000, 9), fmt.Sprint(x.Start), x.Query})
	}
	return t
}

func conclusion(r pipeline.Report) Table {
	return Table{Title: "9. Conclusion", Head: []string{"Conclusion"}, Empty: r.Conclusion}
}

// Diff is the tables of one compared stage; rows that explain less than cutoff
// of the gap are summed in one row, so that the table still adds up.
func Diff(s diff.Stage, cutoff float64) []Table {
	var out []Table
	unit := ""
	if s.PerPass {
		unit = " a pass"
	}
	for _, x := range s.Tables {
		t := Table{
			Title: "By " + x.By,
			Head:  []string{x.By, "A", "B", "Calls A", "Calls B", "Difference" + unit, "Share of the gap", "Only in"},
		}
		rest := diff.Row{Key: "(rest)"}
		n := 0
		for _, r := range x.Rows {
			if size := r.Explained; size > -cutoff && size < cutoff && len(x.Rows) > 10 {
				rest.A, rest.B = rest.A+r.A, rest.B+r.B
				rest.CallsA, rest.CallsB = rest.CallsA+r.CallsA, rest.CallsB+r.CallsB
				rest.Delta += r.Delta
				rest.Explained += r.Explained
				n++
				continue
			}
			t.Rows = append(t.Rows, diffRow(r))
		}
		if n > 0 {
			rest.Key = fmt.Sprintf("(%d smaller)", n)
			t.Rows = append(t.Rows, diffRow(rest))
		}
		out = append(out, t)
	}
	return out
}

func diffRow(r diff.Row) []any {
	return []any{r.Key, Micros(r.A), Micros(r.B), r.CallsA, r.CallsB, Micros(round(r.Delta)), Share(r.Explained), r.OnlyIn}
}

func round(f float64) int64 {
	if f < 0 {
		return -int64(-f + 0.5)
	}
	return int64(f + 0.5)
}
