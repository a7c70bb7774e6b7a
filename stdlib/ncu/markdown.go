package ncu

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/ncu/diagnosis"
)

// Markdown is the digest for people. Its last line is the next edit, or its
// last section the blocker.
func (d Digest) Markdown() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# NCU digest %s", d.Version)
	p("")
	d.head(p)
	if d.Blocker == nil {
		d.summary(p)
		d.table(p)
		d.bottleneck(p)
		d.evidence(p)
	} else {
		p("%s\n", stopHeading)
		p("%s on the %s's side: %s\n", d.Blocker.Code, d.Blocker.Side, oneLine(d.Blocker.Detail))
		p("What to do: %s.", oneLine(d.Blocker.Remedy))
	}
	if d.NextEdit != nil {
		p("\n%s\n", editHeading)
		e := d.NextEdit
		p("%s%s in %s because %s; expect %s; refuted if %s.", editLine, oneLine(e.Change), oneLine(e.Where()), oneLine(e.Why), oneLine(e.Expect), oneLine(e.Refuted))
	}
	return b.String()
}

type printer func(format string, args ...any)

func (d Digest) head(p printer) {
	var at []string
	if d.Round > 0 {
		at = append(at, fmt.Sprintf("round %d", d.Round))
	}
	if d.Stage != "" {
		at = append(at, "stage "+oneLine(d.Stage))
	}
	if d.SharePct > 0 {
		at = append(at, fmt.Sprintf("%.2f %% of the stage's GPU time", d.SharePct))
	}
	if d.Shapes != "" {
		at = append(at, "shapes "+oneLine(d.Shapes))
	}
	if at != nil {
		p("%s\n", strings.Join(at, " · "))
	}
}

func (d Digest) summary(p printer) {
	x := d.Delta
	old, now := d.time()
	switch x.Verdict {
	case "not comparable":
		p("**Not comparable**: %s.\n", strings.Join(x.Reasons, "; "))
	case "no change":
		p("**No change** (%s %s → %s, %+.1f %%, within the noise of %.1f %%).\n", x.By, old, now, x.DurationPct, x.NoisePct)
	default:
		p("**%.2f× %s** (%s %s → %s, %+.1f %%; noise %.1f %%).\n", max(x.Speedup, 1/x.Speedup), x.Verdict, x.By, old, now, x.DurationPct, x.NoisePct)
	}
	if s := x.Split; s != nil {
		p("Cycles × %.3f = instructions × %.3f · cycles per instruction × %.3f.\n", s.Cycles, s.Instructions, s.PerInst)
	}
	p("| | baseline | candidate |")
	p("| --- | --- | --- |")
	line := func(label string, f func(*Side) string) {
		p("| %s | %s | %s |", label, cell(f(d.Baseline)), cell(f(d.Candidate)))
	}
	line("kernel", func(s *Side) string { return strings.Join(s.Kernels, " + ") })
	line("GPU", func(s *Side) string { return s.Device + ", CC " + s.CC })
	line("ncu", func(s *Side) string { return s.Tool })
	line("launches", func(s *Side) string { return strconv.Itoa(s.Launches) })
	line("commit", func(s *Side) string { return orDash(s.Commit) })
	line("bottleneck", func(s *Side) string { return string(s.Result.Class) })
	p("")
	p("Paired %s.%s\n", pairedBy[d.Pairing.How], unpaired(d.Pairing.Unpaired))
	for _, w := range x.Warnings {
		p("- Warning: %s.", oneLine(w))
	}
	if x.Warnings != nil {
		p("")
	}
	p("A gain here alone is no success: the model's benchmark decides.\n")
}

var pairedBy = map[string]string{
	"exact":  "by name, grid and block",
	"family": "by function: version, arguments or shape differ",
	"named":  "because each side was named",
	"merged": "as one kernel that does the work of several; sums are compared",
}

func unpaired(list []string) string {
	if list == nil {
		return ""
	}
	return " Left out: " + oneLine(strings.Join(list, "; ")) + "."
}

// time is what the verdict went by, on both sides.
func (d Digest) time() (old, now string) {
	label := "duration"
	if d.Delta.Change != nil && d.Delta.By == "cycles" {
		label = "elapsed cycles"
	}
	for _, r := range d.Delta.Rows {
		if r.Label == label {
			return show(r.Baseline, r.Unit), show(r.Candidate, r.Unit)
		}
	}
	return "–", "–"
}

func (d Digest) table(p printer) {
	p("## Comparison\n")
	p("| counter | baseline | candidate | change | verdict |")
	p("| --- | ---: | ---: | ---: | --- |")
	for _, r := range d.Delta.Rows {
		change := "–"
		switch {
		case r.Delta == nil:
		case r.Unit == "%":
			change = fmt.Sprintf("%+.2f points", *r.Delta)
		case *r.Delta >= 900:
			change = fmt.Sprintf("× %.0f", 1+*r.Delta/100)
		default:
			change = fmt.Sprintf("%+.1f %%", *r.Delta)
		}
		p("| %s | %s | %s | %s | %s |", cell(r.Label), show(r.Baseline, r.Unit), show(r.Candidate, r.Unit), change, r.Verdict)
	}
	p("")
}

func (d Digest) bottleneck(p printer) {
	p("## Bottleneck\n")
	for _, s := range []struct {
		role string
		side *Side
	}{{"Baseline", d.Baseline}, {"Candidate", d.Candidate}} {
		r := s.side.Result
		p("%s: **%s**.\n", s.role, r.Class)
		for _, f := range r.Deciders {
			p("- decided by `%s` = %s%s: %s", f.Metric, show(&f.Value, f.Unit), against(f.Threshold), f.Reading)
		}
		for _, f := range r.Others {
			p("- also seen `%s` = %s%s: %s", f.Metric, show(&f.Value, f.Unit), against(f.Threshold), f.Reading)
		}
		p("- roofline: %s", roof(r.Roofline))
		p("- stalls: %s", stalls(r.Stalls))
		p("")
	}
}

func roof(r diagnosis.Roofline) string {
	if len(r.Missing) > 0 {
		known := ""
		if r.Intensity > 0 {
			known = fmt.Sprintf("; known are %.3g flop/byte (%s) and %s", r.Intensity, r.Pipe, show(&r.Achieved, "flop/s"))
		} else if r.Bytes > 0 && r.PeakBytes > 0 {
			known = fmt.Sprintf("; DRAM moved %s, its peak is %s", show(&r.Bytes, "byte"), show(&r.PeakBytes, "byte/s"))
		}
		return "unknown, not collected: " + strings.Join(r.Missing, ", ") + known
	}
	return fmt.Sprintf("%.3g flop/byte (%s), %s at %.3g; %s, %.1f %% of the roof there", r.Intensity, r.Pipe, r.Side, r.Ridge, show(&r.Achieved, "flop/s"), r.RoofPct)
}

func stalls(list []diagnosis.Stall) string {
	if list == nil {
		return "not collected"
	}
	var out []string
	for _, s := range list[:min(len(list), 5)] {
		out = append(out, fmt.Sprintf("%s %.1f %% (%.1f cycles)", oneLine(s.Reason), s.Share, s.Cycles))
	}
	return strings.Join(out, ", ")
}

// evidence lists the files and their flaws.
func (d Digest) evidence(p printer) {
	p("## Evidence\n")
	for _, s := range []*Side{d.Baseline, d.Candidate} {
		for _, f := range s.Report {
			p("- `%s` (%d bytes, sha256 %s…)", f.File, f.Bytes, f.SHA256[:12])
		}
		for _, n := range s.Notes {
			p("- note: %s, %d times (first: %s)", oneLine(n.Text), n.Count, oneLine(n.Example))
		}
	}
}

// show prints a value in the unit a reader expects; nil is "–", never 0.
func show(v *float64, unit string) string {
	if v == nil {
		return "–"
	}
	x := *v
	prefixes := map[string][]string{
		"ns": {"ns", "µs", "ms", "s"}, "byte": {"B", "kB", "MB", "GB", "TB"}, "byte/s": {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"},
		"flop/s": {"flop/s", "kflop/s", "Mflop/s", "Gflop/s", "Tflop/s"},
	}[unit]
	if unit == "%" {
		return fmt.Sprintf("%.2f %%", x)
	}
	if prefixes == nil {
		return strings.TrimSpace(plain(x) + " " + unit)
	}
	i := 0
	for math.Abs(x) >= 1000 && i < len(prefixes)-1 {
		x, i = x/1000, i+1
	}
	return strconv.FormatFloat(x, 'g', 5, 64) + " " + prefixes[i]
}

// plain keeps counts whole and rounds the rest to what a reader can use.
func plain(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	if math.Abs(x) >= 1 {
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// oneLine keeps foreign text from breaking lines or headings.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func cell(s string) string { return strings.ReplaceAll(oneLine(s), "|", `\|`) }
