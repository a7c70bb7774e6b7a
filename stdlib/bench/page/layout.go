package page

import (
	"bytes"
	"fmt"
	"html/template"
	"maps"
	"math"
	"strconv"
	"sync"

	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// layouts share head and figures. The policy in the head keeps a page from
// loading anything, whatever stands in it.
var layouts = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("pages").Parse(`{{define "head"}}<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{{.Title}}</title>
<style>{{.Style}}
body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;background:#fff}
table{border-collapse:collapse}td,th{padding:.15rem .8rem;text-align:left;border-bottom:1px solid #ddd}td.n{text-align:right;font-variant-numeric:tabular-nums}
.bad{color:#a40000}figure{margin:1.5rem 0}figcaption{color:#555}.wide{overflow-x:auto}
@media (prefers-color-scheme:dark){body{background:#161616;color:#e6e6e6}td,th{border-color:#444}figcaption{color:#aaa}.bad{color:#ff8a80}}
</style>
<h1>{{.Title}}</h1>{{end}}
{{define "foot"}}<script>{{.Library}}</script><script>{{.Script}}</script></html>
{{end}}
{{define "figures"}}{{range .}}<figure><h3>{{.Title}}</h3><div data-figure><script type="application/json">{{.}}</script></div><figcaption>{{.Note}}</figcaption></figure>
{{end}}{{end}}
{{define "failures"}}{{if .}}<h2>Failures</h2><div class="wide"><table><tr><th>Request<th>Class<th>Reason</tr>
{{range .}}<tr><td>{{.Name}}<td>{{.Class}}<td>{{.Reason}}</tr>
{{end}}</table></div>{{end}}{{end}}
{{define "run"}}{{template "head" .}}
<p>{{.Head}}</p>
{{if .Bad}}<p class="bad"><strong>No numbers.</strong> {{.Bad}}</p>{{end}}
{{if .Numbers}}<h2>Numbers</h2><table><tr><th>Metric<th>Value<th><th>Samples<th>Definition</tr>
{{range .Numbers}}<tr><td>{{.Title}}<td class="n">{{.Value}}<td>{{.Unit}}<td class="n">{{.N}}<td><code>{{.ID}}</code></tr>
{{end}}</table>{{end}}
{{template "figures" .Figures}}
{{template "failures" .Failures}}
{{range .Warnings}}<p>Warning: {{.}}</p>{{end}}
{{template "foot" .}}{{end}}
{{define "points"}}<div class="wide"><table><tr><th>{{.Of}}<th>Rank{{if .Repeated}}<th>Repeats{{end}}<th>tok/s of {{.Per}}<th>tok/s a user<th>TTFT p50, ms<th>TPOT p50, ms<th></tr>
{{$t := .}}{{range .Rows}}<tr><td>{{.Name}}<td class="n">{{.Rank}}{{if $t.Repeated}}<td class="n">{{.Repeats}}{{end}}<td class="n">{{.Throughput}}<td class="n">{{.User}}<td class="n">{{.TTFT}}<td class="n">{{.TPOT}}<td>{{.Note}}</tr>
{{end}}</table></div>{{if .Repeated}}<p>A row with repeats shows the median of each number over them; every other row shows its one run.</p>{{end}}{{end}}
{{define "grid"}}{{with .}}<h3>{{.Title}}</h3>{{if .Rows}}<div class="wide"><table><tr>{{range .Head}}<th>{{.}}{{end}}</tr>
{{range .Rows}}<tr>{{range .}}<td>{{.}}{{end}}</tr>
{{end}}</table></div>{{end}}<p>{{.Note}}</p>{{end}}{{end}}
{{define "overview"}}{{template "head" .}}
{{template "figures" .Figures}}
{{template "points" .Points}}
{{template "foot" .}}{{end}}
{{define "campaign"}}{{template "head" .}}
{{range .Banner}}<p class="bad"><strong>{{.}}</strong></p>{{end}}
{{range .Lines}}<p>{{.}}</p>{{end}}
{{range .Scenarios}}<h2>{{.Title}}</h2>
<p>{{.Winner}}</p>
{{template "points" .Points}}
{{template "grid" .Repeats}}
{{template "figures" .Figures}}
{{end}}
{{template "failures" .Failures}}
{{template "foot" .}}{{end}}
`))
})

func render(name, title string, data map[string]any) []byte {
	all := assets()
	all["Title"] = title
	maps.Copy(all, data)
	var b bytes.Buffer
	if err := layouts().ExecuteTemplate(&b, name, all); err != nil {
		panic(fmt.Sprintf("page: the layout %s does not fit its data: %v", name, err))
	}
	return b.Bytes()
}

// failure is one line of the table of failures.
type failure struct {
	Name, Reason string
	Class        result.Class
}

// failures are the first failed requests, at most so many; prefix names where
// they belong.
func failures(prefix string, all []judge.Request, most int) (out []failure) {
	for _, q := range all {
		if q.Failed() && len(out) < most {
			out = append(out, failure{prefix + label(q), q.Reason, q.Class})
		}
	}
	return out
}

func label(q judge.Request) string { return "request " + strconv.Itoa(q.ID) }

// line is one number of the table.
type line struct{ Title, Value, Unit, N, ID string }

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
		n := strconv.Itoa(m.N)
		if need := judge.Needs(m.ID); m.N < need {
			n += fmt.Sprintf(" (needs %d)", need)
		}
		out = append(out, line{d.Title, fmt.Sprintf("%.3f", v), unit, n, m.ID})
	}
	return out
}

func appendNumber(v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null")
	}
	return strconv.AppendFloat(nil, v, 'g', 6, 64)
}
