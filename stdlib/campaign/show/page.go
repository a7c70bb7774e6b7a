package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/bench/page"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/report"
)

// PageFile is the page in the run directory.
const PageFile = "report.html"

// Page is the report as one page for a browser: the frontier of all cells, the
// distributions behind their numbers and what failed.
func Page(v report.View, p *prepare.Prepared, r cache.Reader, now time.Time) ([]byte, error) {
	files := map[string][]byte{}
	j := newJoiner(p, r, now)
	if err := j.requests(v, files); err != nil {
		return nil, err
	}
	return pageOf(v, files)
}

// pageOf makes the page of request logs by their paths in the run directory.
func pageOf(v report.View, files map[string][]byte) ([]byte, error) {
	c := page.Campaign{Title: "Benchmark of " + v.Campaign, Lines: []string{fmt.Sprintf("Model %s. Made by sotabuild %s.", v.Model.ID, v.Tool)}}
	if v.Smoke {
		c.Banner = append(c.Banner, "Flow check: nothing in this page is a result.")
	}
	c.Lines = append(c.Lines, v.Notes...)
	for _, s := range v.Scenarios {
		x := page.Scenario{Title: s.Title(), Winner: v.Winner(s), Repeats: repeatsOf(s)}
		for _, cell := range s.Ordered(v.SLA) {
			q, err := requestsOf(files[cell.Artifacts.RawResult])
			if err != nil {
				return nil, fmt.Errorf("reading requests of %s %s: %w", cell.Framework, cell.Candidate, err)
			}
			decided := s.Decided(cell)
			y := page.Cell{Name: fmt.Sprintf("%s %s, %s", cell.Framework, cell.Candidate, report.Concurrency(cell.Row.Workload)), Row: *decided.Row, Repeats: decided.Repeats, Requests: q}
			if n := s.Rank(cell.Digest); n > 0 {
				y.Rank = fmt.Sprint(n)
			}
			x.Cells = append(x.Cells, y)
		}
		c.Scenarios = append(c.Scenarios, x)
	}
	return c.HTML(), nil
}

// repeatsOf is the table of a scenario's repeats; nil where none are asked for.
func repeatsOf(s report.Scenario) *page.Grid {
	r := s.Repeats
	if r == nil {
		return nil
	}
	out := &page.Grid{Title: "Repeated runs", Note: r.Note() + ".", Head: report.RepeatsHead}
	for _, x := range r.Sides {
		out.Rows = append(out.Rows, x.Line(s))
	}
	if out.Rows != nil {
		out.Note += " " + report.AboutRepeats
	}
	return out
}

// requestsOf reads a request log; lines that begin with # are remarks.
func requestsOf(b []byte) ([]judge.Request, error) {
	var out []judge.Request
	for line := range bytes.Lines(b) {
		if len(bytes.TrimSpace(line)) == 0 || line[0] == '#' {
			continue
		}
		var q judge.Request
		if err := json.Unmarshal(line, &q); err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out, nil
}
