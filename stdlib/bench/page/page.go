// Package page makes self-contained HTML pages: of a run, of several runs, of a
// campaign. A page has its numbers in tables and pictures by uPlot, a small
// chart library that is part of the binary: no page loads anything.
//
// Functions are pure; text from servers is escaped by html/template.
package page

import (
	"fmt"

	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Run is what a page is made of.
type Run struct {
	Row      result.Row
	Requests []judge.Request
	Parts    []result.Part
}

// HTML is the page of a run: its numbers, the distributions behind them, the
// requests over time and what failed.
func (r Run) HTML() []byte {
	row, cut := r.Row, ""
	if n := row.Requests.CutOff; n > 0 {
		cut = fmt.Sprintf(", %d cut off in flight", n)
	}
	data := map[string]any{
		"Head": fmt.Sprintf("%s. %s ok, %d failed%s in %.2f s. Prompts %s.", row.Time.Started.Format("2006-01-02 15:04:05 UTC"),
			result.Count(row.Requests.OK, "request"), row.Requests.Failed, cut, row.Time.Seconds, row.Workload.Dataset),
		"Numbers": numbers(row), "Figures": r.figures(), "Failures": failures("", r.Requests, 100), "Warnings": row.Warnings, "Bad": ""}
	if row.Status != result.OK {
		data["Bad"] = fmt.Sprintf("%s: %s", row.Class, row.Reason)
	}
	return render("run", fmt.Sprintf("%s, %s", row.Subject.Model, row.Workload.Kind), data)
}

func (r Run) figures() (out []Figure) {
	ttft, tpot, e2e := times(r.Requests)
	for _, h := range []struct {
		title string
		v     []float64
	}{{"Time to the first token", ttft}, {"Time per output token", tpot}, {"End to end", e2e}} {
		if len(h.v) > 1 {
			f := bars(h.title, h.v)
			f.Note = fmt.Sprintf("%d requests.", len(h.v))
			out = append(out, f)
		}
	}
	if len(r.Requests) > 0 {
		t := timeline(r.Requests)
		t.Note = "A request stands where it was sent; failed ones on the bottom line."
		out = append(out, t, inFlight(r.Requests))
	}
	return out
}
