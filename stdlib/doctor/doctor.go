// Package doctor looks at a host before anything is run on it: disk, limits,
// clocks, control groups, GPUs. Each check is a row of Host; who knows more of
// a campaign adds rows of its own.
//
// It changes nothing and starts nothing but nvidia-smi. It knows no campaign
// and no executor. What cannot be read is said to be unknown, never to be fine.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// State is what a row comes to.
type State string

// The states. Only Bad changes the exit code: something that was asked for
// cannot work.
const (
	OK      State = "ok"
	Absent  State = "absent"  // not there, and nobody asked for it
	Warning State = "warning" // it works, and measurements may suffer
	Bad     State = "bad"
	Unknown State = "unknown"
)

// Row is one finding.
type Row struct {
	Check string `json:"check"`
	Name  string `json:"name,omitempty"` // of one of several: a path, a framework
	State State  `json:"state"`
	Text  string `json:"text"`
	// Help is what to do, as a command where there is one; "" with OK.
	Help string `json:"help,omitempty"`
}

// Check is one thing that is looked at. Its rows bear its name.
type Check struct {
	Name string
	Doc  string
	Run  func(context.Context) []Row
}

// Run runs checks in their order. The check's name is put on each row.
func Run(ctx context.Context, checks []Check) []Row {
	var out []Row
	for _, c := range checks {
		for _, r := range c.Run(ctx) {
			r.Check = c.Name
			out = append(out, r)
		}
	}
	return out
}

// Fails reports whether any row is bad.
func Fails(rows []Row) bool {
	return slices.ContainsFunc(rows, func(r Row) bool { return r.State == Bad })
}

// Text is the rows for people, one a line, with what helps below it.
func Text(rows []Row) string {
	var b strings.Builder
	counts := map[State]int{}
	for _, r := range rows {
		counts[r.State]++
		name := r.Check
		if r.Name != "" {
			name += " " + r.Name
		}
		fmt.Fprintf(&b, "%-7s  %s: %s\n", r.State, name, r.Text)
		if r.Help != "" {
			fmt.Fprintf(&b, "         %s\n", r.Help)
		}
	}
	fmt.Fprintf(&b, "%d checked", len(rows))
	for _, s := range []State{Bad, Warning, Unknown, Absent} {
		if counts[s] > 0 {
			fmt.Fprintf(&b, ", %d %s", counts[s], s)
		}
	}
	b.WriteString(".\n")
	return b.String()
}
