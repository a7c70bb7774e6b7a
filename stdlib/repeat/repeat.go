// Package repeat measures two sides again and again until it can say which one
// is better, or that they are equal, or that it cannot tell (DESIGN 8(1)).
//
// It is an engine loop: each round is one look. Between looks new repeats are
// measured, each a new life of its server, the two sides interleaved ABBA so
// that drift falls on both; the decision of a look is Judge, a pure function of
// all samples so far. The error of all looks together is Error.
//
// The package knows a sample as one positive number; what is measured, and
// whether more of it is better, is the caller's. Values are not changed once
// made.
package repeat

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/loop"
)

// Looks are after how many repeats of each side the samples are judged, when
// the bounds of noise allow that many.
var Looks = []int{3, 5, 10, 20}

// Error is the chance, over all looks together, to call two equal sides unequal
// or two sides that differ by the band equal.
const Error = 0.05

// Bounds are those of the campaign's noise block.
type Bounds struct {
	Threshold float64 // the band: 0.01 is 1 %
	Min, Max  int     // repeats of each side
}

// looks are the repeats at each look: those of Looks within the bounds, and Max
// at last.
func (b Bounds) looks() []int {
	var out []int
	for _, n := range Looks {
		if n >= b.Min && n < b.Max {
			out = append(out, n)
		}
	}
	return append(out, max(b.Max, 2))
}

// Verdict is what the samples say of A against B.
type Verdict string

// The verdicts. Ahead and Behind are about the larger number.
const (
	Undecided  Verdict = ""           // more repeats are to come
	Ahead      Verdict = "ahead"      // A is larger by more than the band
	Behind     Verdict = "behind"     // A is smaller by more than the band
	Tied       Verdict = "tied"       // they differ by less than the band
	Unresolved Verdict = "unresolved" // the last look could not tell: no tie, and no reason to act
)

// State is what the loop knows after a look.
type State struct {
	A       []float64 `json:"a"` // the samples in the order they were taken
	B       []float64 `json:"b"`
	Verdict Verdict   `json:"verdict"`
	// Ratio is A over B, with the interval that the look's share of the error
	// allows.
	Ratio Interval `json:"ratio"`
}

// Side is one side of a comparison.
type Side struct {
	Name string // of letters, digits, _ and -; for addresses
	// Node declares the n-th repeat, from 1, at an address. Its spec must key
	// n, or the store would give the first repeat's result for all.
	Node   func(addr string, n int) compile.Decl
	Output string
	// Sample reads the number that a node's output holds.
	Sample func(output []byte) (float64, error)
}

// New is the loop that compares two sides under a name.
func New(name string, a, b Side, bounds Bounds) *loop.Loop {
	r := &repeats{sides: [2]Side{a, b}, bounds: bounds, looks: bounds.looks()}
	l := &loop.Loop{Name: name, Version: version, Bound: len(r.looks), Start: []byte(`{}`), Decide: r.decide}
	l.Declare = func(_ []byte, round int) ([]compile.Decl, []compile.Input, error) {
		decls, take := r.declare(l.Address(round), round)
		return decls, take, nil
	}
	return l
}

// version is raised when Judge says something else of the same samples.
const version = 1

type repeats struct {
	sides  [2]Side
	bounds Bounds
	looks  []int
}

// declare gives the repeats that are new at a look, in the order in which they
// run: A B, then B A, and so on.
func (r *repeats) declare(prefix string, round int) (decls []compile.Decl, take []compile.Input) {
	from := 0
	if round > 1 {
		from = r.looks[round-2]
	}
	for n := from + 1; n <= r.looks[round-1]; n++ {
		for _, i := range [2][2]int{{1, 0}, {0, 1}}[n%2] {
			s := r.sides[i]
			d := s.Node(prefix+"."+s.Name+"["+strconv.Itoa(n)+"]", n)
			if len(decls) > 0 {
				d.Order = append(d.Order, decls[len(decls)-1].Addr)
			}
			decls = append(decls, d)
			take = append(take, compile.Input{Name: [2]string{"a", "b"}[i], From: d.Addr, Output: s.Output})
		}
	}
	return decls, take
}

// decide adds the new samples and judges.
func (r *repeats) decide(b []byte, round int, got []loop.Got) (loop.Decision, error) {
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return loop.Decision{}, err
	}
	for _, g := range got {
		if g.Failed {
			return loop.Decision{}, fmt.Errorf("%s failed, so the sides cannot be compared", g.Addr)
		}
		side, list := r.sides[0], &s.A
		if g.Name == "b" {
			side, list = r.sides[1], &s.B
		}
		v, err := side.Sample(g.Bytes)
		if err != nil {
			return loop.Decision{}, fmt.Errorf("reading %s: %w", g.Addr, err)
		}
		*list = append(*list, v)
	}
	var err error
	if s.Verdict, s.Ratio, err = Judge(s.A, s.B, r.bounds.Threshold, round, len(r.looks)); err != nil {
		return loop.Decision{}, err
	}
	next, err := json.Marshal(s)
	return loop.Decision{Stop: s.Verdict != Undecided, Why: s.why(), State: next}, err
}

func (s State) why() string {
	verdict := string(s.Verdict)
	if s.Verdict == Undecided {
		verdict = "not decided yet"
	}
	return fmt.Sprintf("%s after %d repeats: ratio %.4f, between %.4f and %.4f", verdict, len(s.A), s.Ratio.Middle, s.Ratio.Low, s.Ratio.High)
}
