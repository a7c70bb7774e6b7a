package report

import (
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/report/markdown"
)

// parts shows a scenario's numbers by adapter and by turn, if it has any.
func (v View) parts(b *strings.Builder, s Scenario) {
	ids := []string{"ttft/send:p50", "tpot/excl-first:p50", "e2e:p50"}
	t := markdown.Table{First: 5, Right: 2 + len(ids), Head: []string{"Concurrency", "Framework", "Candidate", "By", "Name", "Ok", "Failed"}}
	for _, id := range ids {
		t.Head = append(t.Head, heading(id))
	}
	for _, c := range s.Ordered(v.SLA) {
		for _, p := range c.Row.Parts {
			row := *c.Row
			row.Metrics = p.Metrics
			part := Cell{Row: &row}
			line := []string{Concurrency(c.Row.Workload), markdown.Code(c.Framework), markdown.Code(c.Candidate), p.By, markdown.Code(p.Name), strconv.Itoa(p.OK), strconv.Itoa(p.Failed)}
			for _, id := range ids {
				line = append(line, part.paper(id))
			}
			t.Rows = append(t.Rows, line)
		}
	}
	if t.Rows == nil {
		return
	}
	of := ""
	if v.repeated() {
		of = ", of the run that a candidate was chosen by"
	}
	b.WriteString("By adapter and by turn" + of + ":\n\n")
	t.Write(b)
}
