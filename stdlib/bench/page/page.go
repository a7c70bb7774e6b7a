// Package page makes one self-contained HTML page of a run: its numbers, the
// distributions behind them, the requests over time and what failed. The
// pictures are SVG made here, so the page needs neither a network nor a script:
// a chart library would weigh a megabyte a page and show nothing more of four
// static pictures.
//
// Functions are pure; text from servers is escaped by html/template.
package page

import (
	"bytes"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Run is what a page is made of.
type Run struct {
	Row      result.Row
	Requests []judge.Request
	Parts    []judge.Part
}

// chart is one picture with what it shows.
type chart struct {
	Title, Note string
	SVG         template.HTML
}

// line is one number of the table.
type line struct{ Title, Value, Unit, N, ID string }

var layout = template.Must(template.New("run").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.Title}}</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;background:#fff}
table{border-collapse:collapse}td,th{padding:.15rem .8rem;text-align:left;border-bottom:1px solid #ddd}td.n{text-align:right;font-variant-numeric:tabular-nums}
.bad{color:#a40000}figure{margin:1.5rem 0}figcaption{color:#555}svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:#333}
@media (prefers-color-scheme:dark){body{background:#161616;color:#e6e6e6}td,th{border-color:#444}svg text{fill:#ccc}figcaption{color:#aaa}.bad{color:#ff8a80}}
</style>
<h1>{{.Title}}</h1>
<p>{{.Head}}</p>
{{if .Bad}}<p class="bad"><strong>No numbers.</strong> {{.Bad}}</p>{{end}}
{{if .Numbers}}<h2>Numbers</h2><table><tr><th>Metric<th>Value<th><th>Samples<th>Definition</tr>
{{range .Numbers}}<tr><td>{{.Title}}<td class="n">{{.Value}}<td>{{.Unit}}<td class="n">{{.N}}<td><code>{{.ID}}</code></tr>
{{end}}</table>{{end}}
{{range .Charts}}<figure><h2>{{.Title}}</h2>{{.SVG}}<figcaption>{{.Note}}</figcaption></figure>
{{end}}
{{if .Failures}}<h2>Failures</h2><table><tr><th>Request<th>Class<th>Reason</tr>
{{range .Failures}}<tr><td class="n">{{.ID}}<td>{{.Class}}<td>{{.Reason}}</tr>
{{end}}</table>{{end}}
{{range .Row.Warnings}}<p>Warning: {{.}}</p>{{end}}
</html>
`))

// HTML is the page of a run.
func (r Run) HTML() []byte {
	row := r.Row
	data := map[string]any{"Row": row, "Title": fmt.Sprintf("%s, %s", row.Subject.Model, row.Workload.Kind),
		"Head": fmt.Sprintf("%s. %d requests ok, %d failed in %.2f s. Prompts %s.", row.Time.Started.Format("2006-01-02 15:04:05 UTC"),
			row.Requests.OK, row.Requests.Failed, row.Time.Seconds, row.Workload.Dataset),
		"Numbers": numbers(row), "Charts": r.charts(), "Failures": r.failures()}
	if row.Status != result.OK {
		data["Bad"] = fmt.Sprintf("%s: %s", row.Class, row.Reason)
	}
	var b bytes.Buffer
	if err := layout.Execute(&b, data); err != nil {
		panic(fmt.Sprintf("page: the layout does not fit its data: %v", err))
	}
	return b.Bytes()
}

func numbers(row result.Row) (out []line) {
	for _, m := range row.Metrics {
		d, _ := result.Define(m.ID)
		v, unit := m.Value, string(d.Unit)
		switch d.Unit {
		case result.Seconds:
			v, unit = v*1e3, "ms"
		case result.Share:
			unit = ""
		}
		n := fmt.Sprint(m.N)
		if need := judge.Needs(m.ID); m.N < need {
			n += fmt.Sprintf(" (needs %d)", need)
		}
		out = append(out, line{d.Title, fmt.Sprintf("%.3f", v), unit, n, m.ID})
	}
	return out
}

// failures are the first hundred failed requests.
func (r Run) failures() (out []judge.Request) {
	for _, q := range r.Requests {
		if q.Class != "" && len(out) < 100 {
			out = append(out, q)
		}
	}
	return out
}

func (r Run) charts() (out []chart) {
	var ttft, tpot, e2e []float64
	for _, q := range r.Requests {
		if q.Class != "" || q.Cancelled || q.First == nil || q.Last == nil {
			continue
		}
		ttft = append(ttft, (*q.First-q.Sent)*1e3)
		e2e = append(e2e, (*q.Last-q.Sent)*1e3)
		if q.Output != nil && *q.Output > 1 {
			tpot = append(tpot, (*q.Last-*q.First)*1e3/float64(*q.Output-1))
		}
	}
	for _, h := range []struct {
		title string
		v     []float64
	}{{"Time to the first token", ttft}, {"Time per output token", tpot}, {"End to end", e2e}} {
		if len(h.v) > 1 {
			out = append(out, chart{h.title, fmt.Sprintf("Milliseconds; %d requests.", len(h.v)), histogram(h.v)})
		}
	}
	if len(r.Requests) > 0 {
		out = append(out, chart{"Requests over time", "Seconds from the start. A line is a request: grey until its first token, blue after it; red ones failed.", timeline(r.Requests)})
	}
	return out
}

const (
	width, height = 900., 240.
	left, bottom  = 50., 28.
)

// canvas collects SVG. All its text is numbers and our own words.
type canvas struct{ bytes.Buffer }

func (c *canvas) add(format string, args ...any) { fmt.Fprintf(&c.Buffer, format, args...) }

func (c *canvas) done(h float64) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %g %g" role="img">%s</svg>`, width, h, c.String()))
}

// axis writes five numbers along the bottom.
func (c *canvas) axis(low, high, h float64) {
	for i := range 5 {
		at := float64(i) / 4
		c.add(`<text x="%.1f" y="%.1f" text-anchor="middle">%.4g</text>`, left+at*(width-left-20), h-8, low+at*(high-low))
	}
}

// histogram has 40 bars of equal width.
func histogram(v []float64) template.HTML {
	const bars = 40
	low, high := slices.Min(v), slices.Max(v)
	if high == low {
		high = low + math.Max(1e-9, math.Abs(low)*.01)
	}
	var counts [bars]int
	for _, x := range v {
		counts[min(bars-1, int((x-low)/(high-low)*bars))]++
	}
	most := slices.Max(counts[:])
	var c canvas
	step := (width - left - 20) / bars
	for i, n := range counts {
		h := float64(n) / float64(most) * (height - bottom - 20)
		c.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#3b7dd8"><title>%d</title></rect>`,
			left+float64(i)*step, height-bottom-h, step-1, h, n)
	}
	c.add(`<text x="%.1f" y="16" text-anchor="end">%d</text>`, left-6, most)
	c.axis(low, high, height)
	return c.done(height)
}

// timeline has a line for each of at most 400 requests, evenly picked.
func timeline(all []judge.Request) template.HTML {
	every := (len(all) + 399) / 400
	end := 0.
	var picked []judge.Request
	for i, q := range all {
		if i%every == 0 {
			picked = append(picked, q)
		}
		if q.End != nil {
			end = math.Max(end, *q.End)
		}
		end = math.Max(end, q.Sent)
	}
	if end == 0 {
		end = 1
	}
	h := math.Max(height, float64(len(picked))*2+bottom+10)
	x := func(s float64) float64 { return left + s/end*(width-left-20) }
	var c canvas
	line := func(from, to, y float64, colour string) {
		c.add(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s" stroke-width="1.5"/>`, x(from), math.Max(x(to), x(from)+1), y, y, colour)
	}
	for i, q := range picked {
		y := 6 + float64(i)*(h-bottom-10)/float64(len(picked))
		to := q.Sent
		if q.End != nil {
			to = *q.End
		}
		switch {
		case q.Class != "":
			line(q.Sent, to, y, "#c62828")
		case q.First == nil:
			line(q.Sent, to, y, "#999")
		default:
			line(q.Sent, *q.First, y, "#999")
			line(*q.First, to, y, "#3b7dd8")
		}
	}
	c.axis(0, end, h)
	return c.done(h)
}
