// Package repeat measures several sides again and again until it can say which
// one is best, or that they are equal, or that it cannot tell (DESIGN 8(1)).
//
// It is an engine loop: each round is one look. Between looks new repeats are
// measured, each a new life of its server, the sides interleaved A B B A so
// that drift falls on all of them. The decision of a look is package stats's,
// for each side against the champion: the one that no other is shown to be ahead
// of. Sides that are shown to be behind are measured no further.
//
// The package knows a sample as one positive number, of which more is better;
// what is measured is the caller's. A sample that was rejected counts for
// nothing and is kept in the state. Values are not changed once made.
package repeat

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/loop"
	"github.com/sotabuild/sotabuild/stdlib/stats"
)

// Bounds are those of the campaign's noise block.
type Bounds struct {
	Threshold float64 `json:"threshold"`   // the band: 0.01 is 1 %
	Min       int     `json:"min_repeats"` // before a difference counts
	Max       int     `json:"max_repeats"` // of each side, rejected ones among them; at least 2
}

func (b Bounds) rule() stats.Rule { return stats.Within(b.Threshold, b.Min, b.Max) }

// Sample is what one repeat gave.
type Sample struct {
	Value float64
	// Rejected says why the repeat is no sample; "" if it is one.
	Rejected string
	// Broken says why the side cannot be compared any more, such as that its
	// server died; "" if it can.
	Broken string
	// Failing says what the repeat does not keep though it is a sample, such as
	// a limit; "" if it keeps all. A side that fails in more than half of its
	// samples is broken.
	Failing string
}

// Side is one side of a comparison.
type Side struct {
	Name string // of letters, digits, _ and -; for addresses
	// Node declares the n-th repeat, from 1, at an address. Its spec must key
	// n, or the store would give the first repeat's result for all.
	Node   func(addr string, n int) compile.Decl
	Output string
	// Sample reads what a node's output holds. An error is a repeat that has to
	// be made again, and no decision.
	Sample func(output []byte) (Sample, error)
}

// Config is a comparison. Sides are at least two; where nothing else tells, the
// first one is the champion.
type Config struct {
	At     string // where its addresses begin
	Sides  []Side
	Bounds Bounds
	// Terms are what Sample judges by beside the output; keyed, so that others
	// decide anew. JSON; nil is nothing.
	Terms json.RawMessage
	// Shared are nodes that every round declares first, at addresses below the
	// round's; nil is none.
	Shared func(round string) []compile.Decl
}

// New is the loop that compares the sides.
func New(c Config) *loop.Loop {
	r := &repeats{Config: c, looks: c.Bounds.rule().Looks}
	start := State{Bounds: c.Bounds, Terms: c.Terms, Sides: make([]Run, len(c.Sides))}
	b, err := json.Marshal(start)
	if err != nil {
		panic("repeat: the start cannot be written as JSON: " + err.Error())
	}
	l := &loop.Loop{Name: "repeat", At: c.At, Version: version, Bound: len(r.looks), Start: b, Decide: r.decide}
	l.Declare = func(state []byte, round int) ([]compile.Decl, []compile.Input, error) {
		var s State
		if err := json.Unmarshal(state, &s); err != nil {
			return nil, nil, err
		}
		decls, take := r.declare(s, l.Address(round), round)
		return decls, take, nil
	}
	return l
}

// version is raised when a look says something else of the same samples.
const version = 2

type repeats struct {
	Config
	looks []int
}

// declare gives the repeats that are new at a look, in the order in which they
// run: A B C, then C B A, and so on. Each comes after the one before it.
func (r *repeats) declare(s State, prefix string, round int) (decls []compile.Decl, take []compile.Input) {
	if r.Shared != nil {
		decls = r.Shared(prefix)
	}
	playing := s.playing()
	from, last := 0, ""
	if round > 1 {
		from = r.looks[round-2]
	}
	for n := from + 1; n <= r.looks[round-1]; n++ {
		for k := range playing {
			i := playing[k]
			if n%2 == 0 {
				i = playing[len(playing)-1-k]
			}
			side := r.Sides[i]
			d := side.Node(prefix+"."+side.Name+"["+strconv.Itoa(n)+"]", n)
			d.Block = prefix + "." + side.Name
			if last != "" {
				d.Order = append(d.Order, last)
			}
			last = d.Addr
			decls = append(decls, d)
			take = append(take, compile.Input{Name: inputName(i, n), From: d.Addr, Output: side.Output})
		}
	}
	return decls, take
}

// inputName says which side's repeat an input is, without a label, so that a
// renamed side decides nothing anew.
func inputName(side, n int) string { return fmt.Sprintf("side_%d_repeat_%d", side, n) }

// decide adds the new samples and judges.
func (r *repeats) decide(b []byte, round int, got []loop.Got) (loop.Decision, error) {
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return loop.Decision{}, err
	}
	for i := range s.Sides {
		s.Sides[i].Looks = append(s.Sides[i].Looks, s.Sides[i].count())
	}
	for _, g := range got {
		var i, n int
		if _, err := fmt.Sscanf(g.Name, "side_%d_repeat_%d", &i, &n); err != nil {
			return loop.Decision{}, fmt.Errorf("reading which repeat %q is: %w", g.Name, err)
		}
		sample, err := r.Sides[i].Sample(g.Bytes)
		if err != nil {
			return loop.Decision{}, fmt.Errorf("repeat %d of %s: %w", n, r.Sides[i].Name, err)
		}
		s.Sides[i].add(n, round, sample)
	}
	if err := s.judge(round); err != nil {
		return loop.Decision{}, err
	}
	next, err := json.Marshal(s)
	return loop.Decision{Stop: !s.open(), Why: s.why(r.Sides), State: next}, err
}
