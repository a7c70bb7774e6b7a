package live

import (
	"fmt"
	"strings"
	"time"
)

// Line is the state in a line, for a file.
func (p Progress) Line() string {
	s := fmt.Sprintf("%6.1f s  %d/%d sent  %d in flight  %d ok  %d failed", p.Elapsed.Seconds(), p.Sent, p.Asked, p.InFlight, p.OK, p.Failed)
	if p.CutOff > 0 {
		s += fmt.Sprintf("  %d cut off", p.CutOff)
	}
	if p.Output > 0 {
		s += fmt.Sprintf("  %.1f tok/s", perSecond(p.Output, p.Elapsed))
	}
	for _, r := range p.latencies() {
		if r.N > 0 {
			s += fmt.Sprintf("  %s p50 %s ms", r.name, figures(r.P50))
		}
	}
	if p.Left > 0 {
		s += "  " + left(p.Left)
	}
	return s
}

// Table is the state in lines for a terminal, the most important first. What
// nobody knows yet is a dash.
func (p Progress) Table() []string {
	done := fmt.Sprintf("%d of %d requests done, %d in flight, %d failed", p.over(), p.Asked, p.InFlight, p.Failed)
	if p.Cancelled > 0 {
		done += fmt.Sprintf(", %d cancelled as asked", p.Cancelled)
	}
	if p.CutOff > 0 {
		done += fmt.Sprintf(", %d cut off", p.CutOff)
	}
	lines := []string{
		fmt.Sprintf("  %-8s  %.1f s, %s", "time", p.Elapsed.Seconds(), left(p.Left)),
		fmt.Sprintf("  %-8s  %s", "requests", done),
		fmt.Sprintf("  %-8s  %s", "rate", p.rate()),
		fmt.Sprintf("  %-8s  %.1f tokens/s, %.0f events/s in the last second", "output", perSecond(p.Output, p.Elapsed), p.PerSecond),
		fmt.Sprintf("  %-8s  %12s  %12s  %9s", "", "p50", "p99", "n"),
	}
	for _, r := range append(p.latencies(), row{"send lag", p.Lag}) {
		lines = append(lines, fmt.Sprintf("  %-8s  %s  %s  %9d", r.name, r.cell(r.P50), r.cell(r.P99), r.N))
	}
	return lines
}

// rate is what was really sent a second beside what the schedule asked for.
func (p Progress) rate() string {
	if p.Due < 0 {
		return fmt.Sprintf("%.2f requests/s, no rate asked for", perSecond(int64(p.Sent), p.Elapsed))
	}
	return fmt.Sprintf("%.2f requests/s sent, %.2f due by the schedule", perSecond(int64(p.Kept), p.Elapsed), perSecond(int64(p.Due), p.Elapsed))
}

type row struct {
	name string
	Spread
}

func (p Progress) latencies() []row { return []row{{"TTFT", p.TTFT}, {"TPOT", p.TPOT}, {"ITL", p.ITL}} }

func (r row) cell(seconds float64) string {
	if r.N == 0 {
		return strings.Repeat(" ", 11) + "–"
	}
	return fmt.Sprintf("%9s ms", figures(seconds))
}

// figures are milliseconds with as many figures as a Spread knows.
func figures(seconds float64) string {
	switch v := seconds * 1e3; {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.0f", v)
	}
}

func left(d time.Duration) string {
	if d < 0 {
		return "end unknown"
	}
	return fmt.Sprintf("about %s left", d.Round(time.Second))
}

func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
