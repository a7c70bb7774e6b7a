package page

import (
	"encoding/xml"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

func TestFrontierByHand(t *testing.T) {
	points := []Point{{"a", 10, 1}, {"b", 8, 2}, {"dominated", 7, 1.5}, {"b again", 8, 2}, {"same user, worse", 5, 2}, {"c", 1, 3}, {"same gpu as a, slower", 10, .5}}
	if got := Frontier(points); !slices.Equal(got, []bool{true, true, false, true, false, true, false}) {
		t.Errorf("frontier is %v", got)
	}
	if len(Frontier(nil)) != 0 {
		t.Error("there is a frontier of nothing")
	}
	svg := string(FrontierSVG(points))
	if n := strings.Count(svg, `fill="#3b7dd8"`); n != 4 {
		t.Errorf("%d points are drawn on the frontier, want 4", n)
	}
}

func ptr(v float64) *float64 { return &v }

// TestPageIsOneFile checks that it loads nothing, escapes what a server said
// and draws every request.
func TestPageIsOneFile(t *testing.T) {
	n := int64(5)
	var q []judge.Request
	for i := range 10 {
		at := float64(i)
		q = append(q, judge.Request{ID: i, Sent: at, First: ptr(at + .1), Last: ptr(at + .5), End: ptr(at + .5), Tokens: judge.Tokens{Output: &n}})
	}
	q = append(q, judge.Request{ID: 10, Sent: 3, Class: result.StreamError, Reason: "<script>alert(1)</script>"})
	row := result.Row{Status: result.OK, Subject: result.Subject{Model: "m<b>"}, Metrics: []result.Metric{{ID: "ttft/send:p99", Value: .1, Unit: result.Seconds, N: 10}}}
	b := string(Run{Row: row, Requests: q}.HTML())
	for _, not := range []string{"<script", "http://", "https://", "<link", "m<b>"} {
		if strings.Contains(b, not) {
			t.Errorf("the page contains %q", not)
		}
	}
	for _, want := range []string{"100.000", "10 (needs 100)", "&lt;script&gt;", "Time to the first token", "End to end"} {
		if !strings.Contains(b, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	svg := b[strings.LastIndex(b, "<svg"):]
	svg = svg[:strings.Index(svg, "</svg>")+6]
	d := xml.NewDecoder(strings.NewReader(svg))
	lines := 0
	for {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "line" {
			lines++
		}
	}
	if lines != 21 { // two a success, one a failure
		t.Errorf("%d lines are drawn", lines)
	}
	failed := string(Run{Row: result.Row{Status: result.Failed, Class: result.Stalled, Reason: "silence"}}.HTML())
	if !strings.Contains(failed, "No numbers") || !strings.Contains(failed, "stalled: silence") {
		t.Error("a failed run does not say so")
	}
}

func TestOverviewKeepsFailedRuns(t *testing.T) {
	row := func(all, user float64) result.Row {
		return result.Row{Status: result.OK, Subject: result.Subject{Hardware: result.Hardware{GPUCount: 2}},
			Metrics: []result.Metric{{ID: "output_throughput", Value: all}, {ID: "user_speed:p50", Value: user}}}
	}
	b := string(Overview([]string{"fast", "slow", "dead"}, []result.Row{row(200, 10), row(100, 5), {Class: result.Stalled, Reason: "silence"}}))
	for _, want := range []string{"<td>fast<td>100.0<td>10.0<td>on the frontier", "<td>slow<td>50.0<td>5.0<td></tr>", "<td>dead<td><td><td>stalled silence"} {
		if !strings.Contains(b, want) {
			t.Errorf("the page lacks %q:\n%s", want, b)
		}
	}
}
