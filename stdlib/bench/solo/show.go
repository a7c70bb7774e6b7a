package solo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/bench/page"
	"github.com/sotabuild/sotabuild/stdlib/imports"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Write writes the report's files, the run in vLLM's form for scripts that read
// it, what the server and the GPUs said, and the page for people.
func (out Outcome) Write(dir string) error {
	if err := out.Outcome.Write(dir); err != nil {
		return err
	}
	theirs, err := imports.VLLM(out.Row)
	if err != nil {
		return err
	}
	for name, b := range map[string][]byte{"vllm.json": theirs, "report.html": page.Run{Row: out.Row, Requests: out.Requests, Parts: out.Parts}.HTML()} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return fmt.Errorf("writing result: %w", err)
		}
	}
	return nil
}

// Table is the outcome for a terminal.
func (out Outcome) Table() string {
	var b strings.Builder
	r := out.Row
	fmt.Fprintf(&b, "%s of %s: %s ok, %d failed", r.Workload.Kind, r.Subject.Model, result.Count(r.Requests.OK, "request"), r.Requests.Failed)
	if n := r.Requests.Cancelled; n > 0 {
		fmt.Fprintf(&b, ", %d cancelled as asked", n)
	}
	if n := r.Requests.CutOff; n > 0 {
		fmt.Fprintf(&b, ", %d cut off in flight", n)
	}
	fmt.Fprintf(&b, " in %.2f s\n", r.Time.Seconds)
	if r.Status != result.OK {
		fmt.Fprintf(&b, "no numbers: %s: %s\n", r.Class, r.Reason)
	}
	for _, m := range r.Metrics {
		d, _ := result.Define(m.ID)
		few := ""
		if n := judge.Needs(m.ID); m.N < n {
			few = fmt.Sprintf("  needs %d samples", n)
		}
		value, unit := m.Value, string(d.Unit)
		switch d.Unit {
		case result.Seconds:
			value, unit = value*1e3, "ms"
		case result.Share:
			unit = ""
		}
		fmt.Fprintf(&b, "  %-26s %12.3f %-8s n=%d%s\n", d.Title, value, unit, m.N, few)
	}
	if s := r.Facts.CacheHitShare; s != nil {
		fmt.Fprintf(&b, "  %-26s %12.3f\n", "Cached share of prompts", *s)
	}
	if s := r.Facts.SentRate; s != nil {
		fmt.Fprintf(&b, "  %-26s %12.3f 1/s\n", "Requests sent", *s)
	}
	if v := out.Server; v != nil && v.OverTTFT != nil {
		fmt.Fprintf(&b, "  %-26s %12.3f ms\n", "TTFT over the server's own", *v.OverTTFT*1e3)
	}
	for _, p := range out.Parts {
		fmt.Fprintf(&b, "  %s %s: %d ok, %d failed", p.By, p.Name, p.OK, p.Failed)
		for _, m := range p.Metrics {
			if m.ID == "ttft/send:p50" || m.ID == "e2e:p50" {
				d, _ := result.Define(m.ID)
				fmt.Fprintf(&b, ", %s %.3f ms", d.Title, m.Value*1e3)
			}
		}
		b.WriteByte('\n')
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "  warning: %s\n", w)
	}
	return b.String()
}
