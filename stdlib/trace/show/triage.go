package show

import (
	"fmt"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
	"github.com/sotabuild/sotabuild/stdlib/trace/triage"
)

// Triage is the tables of one stage: the three of the contract first, with the
// columns of the seeds (R146), then families, bounds, idle time.
func Triage(s triage.Stage, cutoff float64) []Table {
	return []Table{
		kernelTable(s, cutoff), overlapTable(s), fuseTable(s, cutoff), familyTable(s), boundTable(s, cutoff), idleTable(s),
	}
}

func kernelTable(s triage.Stage, cutoff float64) Table {
	t := Table{
		Title: "Kernel Table",
		Head:  []string{"Kernel", "Category", "GPU time", "Share", "Launches", "Python location (site share)", "CPU op"},
		Empty: "No kernel reaches the cut-off.",
	}
	below, belowTime := 0, int64(0)
	for _, r := range s.Kernels {
		if r.Share < cutoff {
			below++
			belowTime += r.Time
			continue
		}
		t.Rows = append(t.Rows, []any{Name(r.Kernel), category(r.Class), Micros(r.Time), Share(r.Share), r.Count, locations(r.Sites), ops(r)})
	}
	if below > 0 {
		share := 0.0
		if s.Times.Sum > 0 {
			share = float64(belowTime) / float64(s.Times.Sum)
		}
		t.Notes = append(t.Notes, fmt.Sprintf("%d rows below %s: total %s, %s.", below, percent(cutoff), human(Micros(belowTime)), human(Share(share))))
	}
	return t
}

// KernelCSV is every kernel of a stage, uncut, with the columns that do not
// fit a page.
func KernelCSV(s triage.Stage) Table {
	t := kernelTable(s, -1)
	t.Notes = nil
	t.Head = append(t.Head, "Rule", "Place", "Kernel share of file", "Min", "Median", "P95", "Max", "Bound")
	for i, r := range s.Kernels {
		bound := ""
		if r.Bound != nil {
			bound = r.Bound.String()
		}
		t.Rows[i][1] = string(r.Class.Family)
		t.Rows[i] = append(t.Rows[i], r.Class.Rule, r.Place, Share(r.OfAll), Micros(r.Each.Min), Micros(r.Each.Median), Micros(r.Each.P95), Micros(r.Each.Max), bound)
	}
	return t
}

func percent(f float64) string { return fmt.Sprintf("%.1f %%", 100*f) }

// category is the family with the rule that decided it.
func category(c kernel.Class) string {
	if c.Rule == string(c.Family) {
		return c.Rule
	}
	return fmt.Sprintf("%s (%s)", c.Family, c.Rule)
}

// locations is up to two sites; a kernel that is mostly unresolved or spread
// over many sites says so.
func locations(sites []triage.Site) string {
	var parts []string
	known, shown := 0, map[string]bool{}
	for _, s := range sites {
		if s.Location == "" {
			continue
		}
		known++
		if len(parts) < 2 && !shown[s.Location] {
			shown[s.Location] = true
			share := 0.0
			for _, o := range sites {
				if o.Location == s.Location {
					share += o.Share
				}
			}
			mark := ""
			if s.Weak {
				mark = "~"
			}
			parts = append(parts, fmt.Sprintf("%s%s (%.0f %%)", mark, s.Location, 100*share))
		}
	}
	switch {
	case known == 0:
		return "unresolved"
	case len(sites) > 4 && sites[0].Share < 0.5:
		return fmt.Sprintf("mixed sites (%d): %s", len(sites), strings.Join(parts, "; "))
	}
	return strings.Join(parts, "; ")
}

// ops is the operators and where in the layers they launched the kernel.
func ops(r triage.KernelRow) string {
	var names []string
	seen := map[string]bool{}
	for _, s := range r.Sites {
		if s.Op != "" && !seen[s.Op] && len(names) < 3 {
			seen[s.Op] = true
			names = append(names, s.Op)
		}
	}
	out := strings.Join(names, ", ")
	if out == "" {
		out = "unknown"
	}
	if r.Place != "" {
		out += "; " + r.Place
	}
	return out
}

func overlapTable(s triage.Stage) Table {
	t := Table{
		Title: "Overlap Opportunity Table",
		Head:  []string{"Priority", "Verdict", "Kernel", "Python scope", "Formal signal", "Dep risk", "Recommendation"},
		Empty: "No kernel of this stage has headroom or is hidden enough to be left alone.",
	}
	for _, r := range s.Overlap {
		base := "busy"
		if r.Verdict == "idle" {
			base = "the passes' windows"
		}
		signal := fmt.Sprintf("%s, %s of %s; exclusive %s, hidden %s; gain ≤ %s", human(Micros(r.Time)), human(Share(r.Share)), base,
			percent(part(r.Exclusive, r.Time)), percent(part(r.Hidden, r.Time)), human(Micros(r.Gain)))
		t.Rows = append(t.Rows, []any{r.Priority, r.Verdict, Name(r.Kernel), orDash(r.Location), signal, r.Risk, r.Advice})
	}
	if !s.Idle.Claimed {
		t.Notes = append(t.Notes, "Idle time is not claimed: "+s.Idle.Reason+".")
	}
	c := s.Comm
	note := fmt.Sprintf("Communication: %s, hidden by compute %s", human(Micros(c.Time)), human(Micros(c.Hidden)))
	if c.Reason != "" {
		note += " (" + c.Reason + ")"
	}
	t.Notes = append(t.Notes, note+".")
	return t
}

func part(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func fuseTable(s triage.Stage, cutoff float64) Table {
	t := Table{
		Title: "Fuse Opportunity Table",
		Head:  []string{"Pattern", "Confidence", "Related GPU time", "Share", "Evidence kernels", "Current location", "Candidate fused path", "Rationale"},
		Empty: "No known pattern stands in order and adjacent in the layers of this stage.",
	}
	if s.NoFuse != "" {
		t.Empty = "Fuse patterns are not looked for: " + s.NoFuse + "."
	}
	below := 0
	for _, r := range s.Fuse {
		if r.Share < cutoff {
			below++
			continue
		}
		state := fmt.Sprintf("%s · %s", r.State, r.Note)
		why := r.Why
		if r.Gain > 0 {
			why += "; gain ≤ " + human(Micros(r.Gain))
		}
		if r.Versions != "" {
			why += "; versions: " + r.Versions
		}
		t.Rows = append(t.Rows, []any{r.Pattern, state, Micros(r.Time), Share(r.Share), evidence(r.Kernels), orDash(r.Location), r.Path, why})
	}
	if below > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%d patterns below %s.", below, percent(cutoff)))
	}
	return t
}

func familyTable(s triage.Stage) Table {
	t := Table{
		Title: "Families",
		Head:  []string{"Family", "GPU time", "Share", "Launches", "Kernels", "Largest implementations"},
	}
	for _, f := range s.Families {
		var largest []string
		for _, x := range f.Symbols[:min(3, len(f.Symbols))] {
			largest = append(largest, fmt.Sprintf("%s %s", x.Symbol, human(Share(x.Share))))
		}
		t.Rows = append(t.Rows, []any{string(f.Family), Micros(f.Time), Share(f.Share), f.Count, f.Kernels, strings.Join(largest, "; ")})
	}
	return t
}

func boundTable(s triage.Stage, cutoff float64) Table {
	t := Table{
		Title: "Bounds",
		Head:  []string{"Kernel", "Category", "Shapes", "Known", "Reached and bound"},
		Empty: "No matrix product, attention, MoE, norm or collective reaches the cut-off.",
	}
	for _, r := range s.Kernels {
		if r.Bound != nil && r.Share >= cutoff {
			t.Rows = append(t.Rows, []any{Name(r.Kernel), string(r.Class.Family), orDash(r.Bound.Work.Shape), Share(r.Bound.Known), r.Bound.String()})
		}
	}
	return t
}

func idleTable(s triage.Stage) Table {
	t := Table{
		Title: "Idle",
		Head:  []string{"Cause", "Time", "Share of window", "Gaps", "Advice"},
		Empty: "Idle time is not claimed: " + s.Idle.Reason + ".",
	}
	if !s.Idle.Claimed {
		return t
	}
	t.Empty = "The device is never idle inside the passes of this stage."
	for _, c := range s.Idle.Causes {
		t.Rows = append(t.Rows, []any{c.Cause, Micros(c.Time), Share(part(c.Time, s.Idle.Window)), c.Gaps, c.Advice})
	}
	return t
}

// evidence is the kernels of a chain, each cut so that all are seen.
func evidence(kernels []string) string {
	short := make([]string, len(kernels))
	for i, k := range kernels {
		if r := []rune(k); len(r) > 60 {
			k = string(r[:59]) + "…"
		}
		short[i] = k
	}
	return strings.Join(short, " → ")
}
