package page

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// TestLibraryIsAsPublished: the bytes of uPlot 1.6.32's npm package, whose
// licence stands beside them.
func TestLibraryIsAsPublished(t *testing.T) {
	for _, f := range []struct{ name, text, want string }{
		{"uPlot.iife.min.js", uPlot, "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"},
		{"uPlot.min.css", uPlotStyle, "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"},
	} {
		if sum := sha256.Sum256([]byte(f.text)); hex.EncodeToString(sum[:]) != f.want {
			t.Errorf("%s has the digest %x", f.name, sum)
		}
	}
	if !strings.Contains(uPlot, "uPlot (v1.6.32)") {
		t.Error("another version")
	}
}

// figures reads the figures of a page as its script does.
func figures(t *testing.T, html string) (out []Figure) {
	t.Helper()
	for _, m := range regexp.MustCompile(`<script type="application/json">(.*?)</script>`).FindAllStringSubmatch(html, -1) {
		var f Figure
		if err := json.Unmarshal([]byte(m[1]), &f); err != nil {
			t.Fatalf("%v in %s", err, m[1])
		}
		for _, s := range f.Series {
			if len(s.Values) != len(f.X) {
				t.Errorf("series %q has %d values for %d places", s.Label, len(s.Values), len(f.X))
			}
		}
		if !slices.IsSorted(f.X) {
			t.Errorf("places are not in order: %v", f.X)
		}
		out = append(out, f)
	}
	return out
}

// there counts the values that are drawn.
func there(s Series) (n int) {
	for _, v := range s.Values {
		if v != nil {
			n++
		}
	}
	return n
}

func TestFrontierByHand(t *testing.T) {
	points := []Point{{"a", 10, 1}, {"b", 8, 2}, {"dominated", 7, 1.5}, {"b again", 8, 2}, {"same user, worse", 5, 2}, {"c", 1, 3}, {"same gpu as a, slower", 10, .5}}
	if got := Frontier(points); !slices.Equal(got, []bool{true, true, false, true, false, true, false}) {
		t.Errorf("frontier is %v", got)
	}
	if len(Frontier(nil)) != 0 {
		t.Error("there is a frontier of nothing")
	}
	f := frontier(perGPU, points)
	if there(f.Series[0]) != 4 || there(f.Series[1]) != 3 {
		t.Errorf("%d points are on the frontier and %d below it, want 4 and 3", there(f.Series[0]), there(f.Series[1]))
	}
	if want := []string{"same gpu as a, slower", "a", "dominated", "b", "b again", "same user, worse", "c"}; !slices.Equal(f.Names, want) {
		t.Errorf("in the order %q", f.Names)
	}
}

func ptr(v float64) *float64 { return &v }

// requests are ten of 100 ms to the first token and 100 ms a token, one a
// second, and one that failed.
func requests() (q []judge.Request) {
	n := int64(5)
	for i := range 10 {
		at := float64(i)
		q = append(q, judge.Request{ID: i, Sent: at, First: ptr(at + .1), Last: ptr(at + .5), End: ptr(at + .5), Tokens: judge.Tokens{Output: &n}})
	}
	return append(q, judge.Request{ID: 10, Sent: 3, End: ptr(3.2), Class: result.StreamError, Reason: "<script>alert(1)</script>"})
}

// loads is what would make a page fetch something.
var loads = regexp.MustCompile(`(?i)<link|<img|<iframe|\ssrc=|\shref=|@import|url\(|fetch\(|XMLHttpRequest`)

// TestPageIsOneFile checks that it loads nothing, escapes what a server said
// and draws every request.
func TestPageIsOneFile(t *testing.T) {
	row := result.Row{Status: result.OK, Subject: result.Subject{Model: "m<b>"}, Metrics: []result.Metric{{ID: "ttft/send:p99", Value: .1, Unit: result.Seconds, N: 10}}}
	b := string(Run{Row: row, Requests: requests()}.HTML())
	if m := loads.FindString(b); m != "" {
		t.Errorf("the page contains %q", m)
	}
	for _, not := range []string{"m<b>", "<script>alert"} {
		if strings.Contains(b, not) {
			t.Errorf("the page contains %q", not)
		}
	}
	for _, want := range []string{"100.000", "10 (needs 100)", "&lt;script&gt;", "Time to the first token", "End to end", "default-src &#39;none&#39;"} {
		if !strings.Contains(b, want) && !strings.Contains(b, strings.ReplaceAll(want, "&#39;", "'")) {
			t.Errorf("the page lacks %q", want)
		}
	}
	f := figures(t, b)
	if len(f) != 5 {
		t.Fatalf("%d figures, want three distributions, the requests and those in flight", len(f))
	}
	sum := 0.
	for _, v := range f[0].Series[0].Values {
		sum += float64(*v)
	}
	if sum != 10 {
		t.Errorf("the distribution holds %v requests, want 10", sum)
	}
	if line := f[3]; there(line.Series[0]) != 10 || there(line.Series[1]) != 1 || *line.Series[0].Values[0] != 100 {
		t.Errorf("the timeline: %+v", line)
	}
	most := 0.
	for _, v := range f[4].Series[0].Values {
		most = max(most, float64(*v))
	}
	if most != 2 { // the failed one beside one other
		t.Errorf("%v requests in flight at most, want 2", most)
	}
	failed := string(Run{Row: result.Row{Status: result.Failed, Class: result.Stalled, Reason: "silence"}}.HTML())
	if !strings.Contains(failed, "No numbers") || !strings.Contains(failed, "stalled: silence") {
		t.Error("a failed run does not say so")
	}
}

// TestPageOfACutRun: a request that the end of the run cut off is among no
// failures and in no distribution, and is said.
func TestPageOfACutRun(t *testing.T) {
	cut := judge.Request{ID: 11, Sent: 9, First: ptr(9.1), Last: ptr(9.2), Class: executors.ClassInterrupted, Reason: "stopped by the user", CutOff: true}
	row := result.Row{Status: result.Failed, Class: executors.ClassInterrupted, Reason: "stopped", Requests: result.Requests{OK: 10, Failed: 1, CutOff: 1}}
	b := string(Run{Row: row, Requests: append(requests(), cut)}.HTML())
	if !strings.Contains(b, "10 requests ok, 1 failed, 1 cut off in flight") || strings.Contains(b, "stopped by the user") {
		t.Errorf("the page counts it as something else:\n%s", b)
	}
	line := figures(t, b)[3]
	if there(line.Series[0]) != 10 || there(line.Series[1]) != 1 {
		t.Errorf("the timeline: %+v", line)
	}
}

func measured(gpus int, all, user float64) result.Row {
	return result.Row{Status: result.OK, Subject: result.Subject{Hardware: result.Hardware{GPUCount: gpus}},
		Metrics: []result.Metric{{ID: "output_throughput", Value: all}, {ID: "user_speed:p50", Value: user}}}
}

func TestOverviewKeepsFailedRuns(t *testing.T) {
	b := string(Overview([]string{"fast", "slow", "dead"}, []result.Row{measured(2, 200, 10), measured(2, 100, 5), {Class: result.Stalled, Reason: "silence"}}))
	for _, want := range []string{`<td>fast<td class="n"><td class="n">100.0<td class="n">10.0`, "on the frontier", `<td>slow<td class="n"><td class="n">50.0<td class="n">5.0`, "dominated", "<td>stalled: silence"} {
		if !strings.Contains(b, want) {
			t.Errorf("the page lacks %q:\n%s", want, b)
		}
	}
}

// TestCampaignPage: all cells are in the table, those with numbers in the
// frontier, ties on it, failed ones among the failures.
func TestCampaignPage(t *testing.T) {
	c := Campaign{Title: "c", Banner: []string{"Flow check"}, Scenarios: []Scenario{{Title: "chat", Winner: "vllm wins", Cells: []Cell{
		{Name: "vllm a", Rank: "1", Row: measured(1, 100, 10), Requests: requests()},
		{Name: "vllm b", Rank: "2", Row: measured(1, 100, 10), Requests: requests()},
		{Name: "sglang a", Rank: "3", Row: measured(1, 90, 9), Requests: requests()},
		{Name: "sglang b", Row: result.Row{Status: result.OOM, Class: "oom", Reason: "out of memory"}},
	}}}}
	b := string(c.HTML())
	if m := loads.FindString(b); m != "" {
		t.Errorf("the page contains %q", m)
	}
	f := figures(t, b)
	if len(f) != 6 {
		t.Fatalf("%d figures, want the frontier, three distributions and two of the best cell", len(f))
	}
	if there(f[0].Series[0]) != 2 || there(f[0].Series[1]) != 1 {
		t.Errorf("frontier: %+v", f[0])
	}
	if len(f[1].Series) != 3 || float64(*f[1].Series[0].Values[50]) != 100 {
		t.Errorf("distributions: %+v", f[1])
	}
	for _, want := range []string{"Flow check", "vllm wins", "sglang b", "<td>chat, sglang b<td>oom<td>out of memory", "chat, vllm a, request 10"} {
		if !strings.Contains(b, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Count(b, "on the frontier</tr>") != 2 {
		t.Error("two cells tie on the frontier")
	}
}

// TestRepeatsOnThePage: throughputs are of the machine where there is no GPU; rows
// say how many repeats they are the medians of, the repeats have a table, and
// curves of one run are said to be that.
func TestRepeatsOnThePage(t *testing.T) {
	five, none := 5, 0
	cells := []Cell{{Name: "a", Rank: "1", Row: measured(0, 100, 10), Repeats: &five, Requests: requests()}, {Name: "b", Row: result.Row{Status: result.OK}, Repeats: &none}, {Name: "c", Row: measured(0, 90, 9)}}
	grid := &Grid{Title: "Repeated runs", Note: "a is <first>.", Head: []string{"Framework", "Samples"}, Rows: [][]string{{"a", "5"}, {"b", "0"}}}
	b := string(Campaign{Title: "c", Scenarios: []Scenario{{Title: "chat", Cells: cells, Repeats: grid}}}.HTML())
	for _, want := range []string{"<th>Rank<th>Repeats<th>tok/s of the machine<th>", `<td>a<td class="n">1<td class="n">5<td class="n">100.0<`, `<td>b<td class="n"><td class="n">0<td class="n"><`, "none of its repeats is a sample",
		`<td>c<td class="n"><td class="n"><td class="n">90.0<`, "<h3>Repeated runs</h3>", "<th>Framework<th>Samples</tr>", "<tr><td>a<td>5</tr>", "a is &lt;first&gt;.", "the median of each number over them",
		"Of the run that a candidate was chosen by, not of its repeats.", "Throughput of the machine against speed of a user"} {
		if !strings.Contains(b, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	b = string(Campaign{Title: "c", Scenarios: []Scenario{{Title: "chat", Cells: []Cell{{Name: "a", Row: measured(2, 100, 10), Requests: requests()}}}}}.HTML())
	for _, not := range []string{"Repeat", "the machine", "chosen by"} {
		if strings.Contains(b, not) {
			t.Errorf("without repeats and with GPUs the page says %q", not)
		}
	}
	if !strings.Contains(b, "<th>tok/s of a GPU<th>") {
		t.Error("the page does not say that throughputs are of a GPU")
	}
}
