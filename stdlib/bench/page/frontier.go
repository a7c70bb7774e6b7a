package page

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Point is one cell: how much a GPU makes against how fast a user is served.
type Point struct {
	Name    string
	PerGPU  float64 // tokens/s
	PerUser float64 // tokens/s
}

// Frontier returns which points no other one dominates, in the order given. A
// point is dominated when another is at least as good in both and better in
// one; equal points do not dominate each other and are both on it.
func Frontier(points []Point) []bool {
	out := make([]bool, len(points))
	order := make([]int, len(points))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(points[b].PerUser, points[a].PerUser), cmp.Compare(points[b].PerGPU, points[a].PerGPU))
	})
	best := math.Inf(-1) // of PerGPU among strictly faster users
	for i := 0; i < len(order); {
		// Points of one PerUser: only the best of them, all that are equal to it.
		first := points[order[i]]
		j := i
		for ; j < len(order) && points[order[j]].PerUser == first.PerUser; j++ {
			out[order[j]] = points[order[j]].PerGPU == first.PerGPU && first.PerGPU > best
		}
		best = math.Max(best, first.PerGPU)
		i = j
	}
	return out
}

// FrontierSVG draws all points with the frontier through the undominated ones.
func FrontierSVG(points []Point) template.HTML {
	if len(points) == 0 {
		return ""
	}
	on := Frontier(points)
	x1, y1 := 0., 0.
	for _, p := range points {
		x1, y1 = math.Max(x1, p.PerUser), math.Max(y1, p.PerGPU)
	}
	x := func(p Point) float64 { return left + p.PerUser/math.Max(x1, 1e-9)*(width-left-20) }
	y := func(p Point) float64 { return height - bottom - p.PerGPU/math.Max(y1, 1e-9)*(height-bottom-16) }
	var c canvas
	var line []Point
	for i, p := range points {
		colour := "#999"
		if on[i] {
			colour = "#3b7dd8"
			line = append(line, p)
		}
		c.add(`<circle cx="%.1f" cy="%.1f" r="4" fill="%s"><title>%s: %.4g tok/s a GPU, %.4g a user</title></circle>`,
			x(p), y(p), colour, template.HTMLEscapeString(p.Name), p.PerGPU, p.PerUser)
	}
	slices.SortFunc(line, func(a, b Point) int { return cmp.Compare(a.PerUser, b.PerUser) })
	c.add(`<polyline fill="none" stroke="#3b7dd8" points="`)
	for _, p := range line {
		c.add("%.1f,%.1f ", x(p), y(p))
	}
	c.add(`"/><text x="%.1f" y="14" text-anchor="end">%.4g</text>`, left-6, y1)
	c.axis(0, x1, height)
	return c.done(height)
}

var overview = template.Must(template.New("frontier").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Frontier</title>
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}svg{width:100%;height:auto}td,th{padding:.15rem .8rem;text-align:left}</style>
<h1>Throughput of a GPU against speed of a user</h1>
{{.SVG}}
<p>Output tokens/s for each GPU (up) and tokens/s for each user (right). Blue points are not dominated by any other.</p>
<table><tr><th>Run<th>tok/s a GPU<th>tok/s a user<th></tr>
{{range .Rows}}<tr><td>{{.Name}}<td>{{.GPU}}<td>{{.User}}<td>{{.Note}}</tr>
{{end}}</table></html>
`))

// Overview is a page of many runs with their frontier. A run without both
// numbers stands in the table with its reason, and in no picture. Without GPUs
// the whole machine counts as one.
func Overview(names []string, rows []result.Row) []byte {
	type entry struct{ Name, GPU, User, Note string }
	var points []Point
	var table []entry
	var at []int // of each point in the table
	for i, r := range rows {
		all, ok := r.Metric("output_throughput")
		user, has := r.Metric("user_speed:p50")
		if !ok || !has {
			table = append(table, entry{Name: names[i], Note: fmt.Sprintf("%s %s", r.Class, r.Reason)})
			continue
		}
		p := Point{names[i], all / float64(max(1, r.Subject.Hardware.GPUCount)), user}
		at = append(at, len(table))
		points = append(points, p)
		table = append(table, entry{Name: names[i], GPU: fmt.Sprintf("%.1f", p.PerGPU), User: fmt.Sprintf("%.1f", p.PerUser)})
	}
	for i, on := range Frontier(points) {
		if on {
			table[at[i]].Note = "on the frontier"
		}
	}
	var b bytes.Buffer
	if err := overview.Execute(&b, map[string]any{"SVG": FrontierSVG(points), "Rows": table}); err != nil {
		panic(fmt.Sprintf("page: the overview does not fit its data: %v", err))
	}
	return b.Bytes()
}
