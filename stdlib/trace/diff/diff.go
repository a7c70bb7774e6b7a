// Package diff compares two traces stage by stage: where the time of one goes
// that the other does not spend. Each table divides the same gap another way –
// by family, operator, place in the layer, and kernel – and its rows sum to
// the gap exactly. It computes values and prints nothing.
package diff

import (
	"cmp"
	"slices"

	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	"github.com/sotabuild/sotabuild/stdlib/trace/layers"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
)

// Side is one of the two traces.
type Side struct {
	Profile *profile.Profile
	Layers  *layers.Result // nil when no passes were found
}

// Stage is the comparison of one stage.
type Stage struct {
	Stage   launch.Stage `json:"stage"`
	A       Total        `json:"a"`
	B       Total        `json:"b"`
	Gap     float64      `json:"gap_ns"` // B − A, a pass each if both sides know their passes, else in all
	PerPass bool         `json:"per_pass"`
	Tables  []Table      `json:"tables"`
	Note    string       `json:"note,omitempty"`
	num     int64        // Gap = num / den
	den     int64
}

// Total is the GPU time of one side.
type Total struct {
	Time   int64 `json:"time_ns"`
	Events int   `json:"events"`
	Passes int   `json:"passes"` // 0: not known
}

// Table divides the gap by one dimension.
type Table struct {
	By   string `json:"by"`
	Rows []Row  `json:"rows"` // by size of the difference
}

// Row is one part of the gap.
type Row struct {
	Key       string  `json:"key"`
	A         int64   `json:"a_ns"`
	B         int64   `json:"b_ns"`
	CallsA    int     `json:"a_calls"`
	CallsB    int     `json:"b_calls"`
	Delta     float64 `json:"delta_ns"`  // in the unit of Stage.Gap
	Explained float64 `json:"explained"` // share of the gap; 0 when there is no gap
	OnlyIn    string  `json:"only_in,omitempty"`
	num       int64
}

// dimension names the part of a trace that an event belongs to.
type dimension struct {
	by  string
	key func(s Side, places []string, e int32) string
}

var dimensions = []dimension{
	{"family", func(s Side, _ []string, e int32) string { return string(s.Profile.Classes[e].Family) }},
	{"place in the pass", func(_ Side, places []string, e int32) string { return places[e] }},
	{"operator", func(s Side, _ []string, e int32) string { return cmp.Or(s.Profile.Op(e), "(unknown)") }},
	{"kernel family", func(s Side, _ []string, e int32) string { return s.Profile.Symbol(e).Family }},
}

// Build compares every stage that either side has.
func Build(a, b Side) []Stage {
	placesA, placesB := places(a), places(b)
	var out []Stage
	for _, stage := range launch.Stages {
		ea, eb := events(a, stage), events(b, stage)
		if len(ea)+len(eb) == 0 {
			continue
		}
		s := Stage{Stage: stage, A: total(a, stage, ea), B: total(b, stage, eb)}
		na, nb := int64(s.A.Passes), int64(s.B.Passes)
		s.PerPass = na > 0 && nb > 0 && stage != launch.None
		if !s.PerPass {
			na, nb = 1, 1
			s.Note = "the passes of one side are not known: totals are compared"
			if len(ea) == 0 || len(eb) == 0 {
				s.Note = "the stage is in one trace only"
			}
		}
		s.num, s.den = s.B.Time*na-s.A.Time*nb, na*nb
		s.Gap = float64(s.num) / float64(s.den)
		for _, d := range dimensions {
			s.Tables = append(s.Tables, table(d, s, [2]Side{a, b}, [2][]string{placesA, placesB}, [2][]int32{ea, eb}, [2]int64{na, nb}))
		}
		out = append(out, s)
	}
	return out
}

func events(s Side, stage launch.Stage) []int32 {
	var out []int32
	for i, e := range s.Profile.Links.Events {
		if e.Stage == stage {
			out = append(out, int32(i))
		}
	}
	return out
}

func total(s Side, stage launch.Stage, events []int32) Total {
	t := Total{Events: len(events)}
	for _, e := range events {
		t.Time += s.Profile.Trace.GPU[e].Dur
	}
	if s.Layers.Known() {
		for _, p := range s.Layers.Passes {
			if p.Stage == stage {
				t.Passes++
			}
		}
	}
	return t
}

func table(d dimension, s Stage, sides [2]Side, places [2][]string, events [2][]int32, passes [2]int64) Table {
	rows := map[string]*Row{}
	for i, side := range sides {
		for _, e := range events[i] {
			key := d.key(side, places[i], e)
			r := rows[key]
			if r == nil {
				r = &Row{Key: key}
				rows[key] = r
			}
			dur := side.Profile.Trace.GPU[e].Dur
			if i == 0 {
				r.A += dur
				r.CallsA++
				r.num -= dur * passes[1]
			} else {
				r.B += dur
				r.CallsB++
				r.num += dur * passes[0]
			}
		}
	}
	t := Table{By: d.by}
	for _, r := range rows {
		r.Delta = float64(r.num) / float64(s.den)
		if s.num != 0 {
			r.Explained = float64(r.num) / float64(s.num)
		}
		switch {
		case r.CallsA == 0:
			r.OnlyIn = "B"
		case r.CallsB == 0:
			r.OnlyIn = "A"
		}
		t.Rows = append(t.Rows, *r)
	}
	slices.SortFunc(t.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(abs(b.num), abs(a.num)), cmp.Compare(a.Key, b.Key))
	})
	return t
}

// Sums reports whether every table divides the gap without a rest.
func (s Stage) Sums() bool {
	for _, t := range s.Tables {
		var sum int64
		for _, r := range t.Rows {
			sum += r.num
		}
		if sum != s.num {
			return false
		}
	}
	return true
}

// places names where each event of a side stands: the half of a layer, before
// or after the layers, outside every pass.
func places(s Side) []string {
	out := make([]string, len(s.Profile.Trace.GPU))
	for i := range out {
		out[i] = "outside passes"
	}
	if !s.Layers.Known() {
		return out
	}
	for _, p := range s.Layers.Passes {
		for _, e := range p.Prologue {
			out[e] = "before the layers"
		}
		for _, e := range p.Epilogue {
			out[e] = "after the layers"
		}
		for _, l := range p.Layers {
			ffn := s.Layers.FFN(l)
			for i, e := range l.Events {
				half := "attention half: "
				if i >= ffn {
					half = "ffn half: "
				}
				out[e] = half + string(s.Profile.Classes[e].Family)
			}
		}
	}
	return out
}

func abs(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}
