package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

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

// frontier draws all points, those that no other dominates joined by a line; of
// is what a point's throughput is of.
func frontier(of string, points []Point) Figure {
	f := Figure{Title: "Throughput of " + of + " against speed of a user", Unit: "tok/s for each user", Y: "tok/s of " + of,
		Note:   "Points on the line are not dominated by any other.",
		Series: []Series{{Label: "on the frontier", Form: "joined"}, {Label: "dominated", Form: "points"}}}
	on := Frontier(points)
	order := make([]int, len(points))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(points[a].PerUser, points[b].PerUser) })
	for _, i := range order {
		p := points[i]
		f.X, f.Names = append(f.X, number(p.PerUser)), append(f.Names, p.Name)
		v := [2]*number{nil, some(p.PerGPU)}
		if on[i] {
			v[0], v[1] = v[1], nil
		}
		for n := range v {
			f.Series[n].Values = append(f.Series[n].Values, v[n])
		}
	}
	return f
}

// entry is one line of the table beside a frontier.
type entry struct{ Name, Rank, Repeats, Throughput, User, TTFT, TPOT, Note string }

// table is what stands beside a frontier.
type table struct {
	Of   string
	Per  string // what throughputs are of
	Rows []entry
	// Repeated says that there is a column of how many repeats a row shows.
	Repeated bool
}

// repeats fills the column of repeats; cells are those of the rows.
func (t *table) repeats(cells []Cell) {
	t.Repeated = true
	for i, c := range cells {
		if c.Repeats != nil {
			t.Rows[i].Repeats = strconv.Itoa(*c.Repeats)
			if *c.Repeats == 0 {
				t.Rows[i].Note = "none of its repeats is a sample"
			}
		}
	}
}

// perGPU and perMachine are what throughputs are of, where some row has a GPU and
// where none has.
const (
	perGPU     = "a GPU"
	perMachine = "the machine"
)

// compare makes the frontier of rows and the table beside it. A row without
// both numbers stands in the table with its reason, and in no picture. Throughputs
// are of the machine where no row has a GPU; beside rows with some, a machine
// without counts as one. ranks may be nil.
func compare(of string, names, ranks []string, rows []result.Row) (table, []Figure) {
	t := table{Of: of, Per: perMachine}
	if slices.ContainsFunc(rows, func(r result.Row) bool { return r.Subject.Hardware.GPUCount > 0 }) {
		t.Per = perGPU
	}
	var points []Point
	var at []int // of each point in the table
	for i, r := range rows {
		e := entry{Name: names[i]}
		if ranks != nil {
			e.Rank = ranks[i]
		}
		ms := func(id string) string {
			if v, ok := r.Metric(id); ok {
				return fmt.Sprintf("%.2f", v*1e3)
			}
			return ""
		}
		e.TTFT, e.TPOT = ms("ttft/send:p50"), ms("tpot/excl-first:p50")
		all, ok := r.Metric("output_throughput")
		user, has := r.Metric("user_speed:p50")
		switch {
		case r.Status != result.OK:
			e.Note = fmt.Sprintf("%s: %s", r.Class, r.Reason)
		case !ok || !has:
			e.Note = "no speed of a user: no request has two tokens at two times"
		default:
			p := Point{names[i], all / float64(max(1, r.Subject.Hardware.GPUCount)), user}
			at = append(at, len(t.Rows))
			points = append(points, p)
			e.Throughput, e.User = fmt.Sprintf("%.1f", p.PerGPU), fmt.Sprintf("%.1f", p.PerUser)
		}
		t.Rows = append(t.Rows, e)
	}
	for i, on := range Frontier(points) {
		t.Rows[at[i]].Note = "dominated"
		if on {
			t.Rows[at[i]].Note = "on the frontier"
		}
	}
	if len(points) == 0 {
		return t, nil
	}
	return t, []Figure{frontier(t.Per, points)}
}

// Overview is a page of many runs with their frontier.
func Overview(names []string, rows []result.Row) []byte {
	t, figures := compare("Run", names, nil, rows)
	return render("overview", "Runs", map[string]any{"Points": t, "Figures": figures})
}
