// Package loop is the iteration primitive: from a state to a subgraph, from its
// results by a predicate to the next state, at most Bound times.
//
// A round is a graph of its own, compiled when its turn comes; no graph changes
// while it runs. Its last node is the decision, a pure node whose inputs are
// the state and what the round gave, and whose output is the next state with a
// verdict. So rounds are addressable (NAME.round[3].…), history is replayed
// from the store without anything being decided again, an equal result of a
// repeated round cuts off what follows, and a changed predicate runs the cheap
// decisions anew and only those rounds whose state came out different.
//
// The package knows no metric and no statistics, and runs nothing by itself:
// the caller gives a function that applies one round's plan. State is bytes, so
// that it has a digest. Loop values may be used by several goroutines, a Run
// by one.
package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan"
)

// Loop says how a state becomes rounds. Declare and Decide must be functions of
// what they are given and nothing else.
type Loop struct {
	Name    string // of letters, digits, _ and -; the kind of its decisions, so that it is keyed
	At      string // where its addresses begin, never keyed; Name if it is ""
	Version int    // raised when Decide says something else of the same; keyed
	Bound   int    // the most rounds, at least 1
	Start   []byte // the first state; JSON
	// Declare gives the nodes of a round, counted from 1. Every address begins
	// with Address(round), and is of that block unless it has one that begins so
	// too. Take are the outputs that the decision gets, in this order and by
	// these names.
	Declare func(state []byte, round int) (decls []compile.Decl, take []compile.Input, err error)
	// Decide reads what the round gave. An error is a failed decision, and
	// ends the loop as failed.
	Decide func(state []byte, round int, got []Got) (Decision, error)
}

// Got is one output that a decision reads.
type Got struct {
	Name   string
	Addr   string
	Bytes  []byte
	Failed bool // its node failed; the output says why
}

// Decision is what follows from a round. Why is a sentence for people.
type Decision struct {
	Stop  bool            `json:"stop"`
	Why   string          `json:"why"`
	State json.RawMessage `json:"state"`
}

// Address is the address of a round and the block of its nodes.
func (l *Loop) Address(round int) string { return fmt.Sprintf("%s.round[%d]", l.at(), round) }

func (l *Loop) at() string {
	if l.At == "" {
		return l.Name
	}
	return l.At
}

// decisionSpec keys a decision by the state it starts from. The round's number
// is keyed because Decide may count.
type decisionSpec struct {
	State key.Digest `key:"state"`
	Round int        `key:"round"`
	bytes []byte     `key:"-"`
}

const (
	decisionName   = "decision"
	decisionOutput = "decision"
)

func (l *Loop) kind() *compile.Kind {
	return &compile.Kind{
		Name: "loop_" + l.Name, Version: l.Version, Purity: compile.Pure, Outputs: []string{decisionOutput},
		Func: func(_ context.Context, j compile.Job) compile.Result {
			d, err := l.decide(j)
			if err == nil {
				var b []byte
				if b, err = json.Marshal(d); err == nil {
					return compile.Result{Outcome: cache.Outcome{State: cache.OK}, Outputs: []compile.Value{{Name: decisionOutput, Bytes: b}}}
				}
			}
			return compile.Result{Outcome: cache.Outcome{State: cache.Failed, Class: "no_decision", Reason: err.Error()}}
		},
	}
}

func (l *Loop) decide(j compile.Job) (Decision, error) {
	s := j.Spec.(decisionSpec)
	got := make([]Got, len(j.Inputs))
	for i, in := range j.Inputs {
		b, err := j.Objects.Bytes(in.Digest)
		if err != nil {
			return Decision{}, err
		}
		got[i] = Got{in.Name, in.Addr, b, in.Failed}
	}
	d, err := l.Decide(s.bytes, s.Round, got)
	if err == nil && !json.Valid(d.State) {
		err = errors.New("the decision's state is no JSON")
	}
	return d, err
}

// compile builds the graph of a round from its state.
func (l *Loop) compile(state []byte, round int, env compile.Env) (*compile.Graph, error) {
	if l.Bound < 1 || l.Version < 1 || !json.Valid(state) {
		panic("loop: " + l.Name + " has no bound, no version, or a state that is no JSON")
	}
	decls, take, err := l.Declare(state, round)
	if err != nil {
		return nil, fmt.Errorf("declaring %s: %w", l.Address(round), err)
	}
	prefix := l.Address(round) + "."
	decls = slices.Clone(decls)
	for i := range decls {
		if !strings.HasPrefix(decls[i].Addr, prefix) {
			return nil, fmt.Errorf("declaring %s: node %s does not lie in it", l.Address(round), decls[i].Addr)
		}
		if !strings.HasPrefix(decls[i].Block, prefix) {
			decls[i].Block = l.Address(round)
		}
	}
	decls = append(decls, compile.Decl{
		Addr: prefix + decisionName, Kind: l.kind(), Block: l.Address(round), Inputs: take,
		Spec: decisionSpec{State: key.Sum(state), Round: round, bytes: state},
	})
	g, problems := compile.Build(decls, env)
	if len(problems) > 0 {
		var errs []error
		for _, p := range problems {
			errs = append(errs, errors.New(p.String()))
		}
		return nil, fmt.Errorf("compiling %s: %w", l.Address(round), errors.Join(errs...))
	}
	return g, nil
}

// Config is what planning and running a loop need from outside.
type Config struct {
	Env   compile.Env
	Store cache.Reader
	// Options apply to every round. A target or replacement that names a node
	// or block of this loop is given to its round only; other names are an
	// error, as is a target, which would leave a round without its decision.
	Options plan.Options
}

// Round is one round as it was planned or replayed.
type Round struct {
	Number int
	State  []byte // before it
	Graph  *compile.Graph
	Plan   *plan.Plan
	// Decision is there once the round is over.
	Decision *Decision
}

// round compiles and plans one round, and reads its decision if there is one.
func (l *Loop) round(state []byte, number int, c Config) (Round, error) {
	r := Round{Number: number, State: state}
	var err error
	if r.Graph, err = l.compile(state, number, c.Env); err != nil {
		return r, err
	}
	o := c.Options
	o.Replace = nil
	for _, name := range c.Options.Replace {
		_, missing := r.Graph.Select(name)
		switch {
		case name == l.Address(number):
			for i := range r.Graph.Actions {
				o.Replace = append(o.Replace, r.Graph.Actions[i].Addr)
			}
		case missing == nil:
			o.Replace = append(o.Replace, name)
		case strings.HasPrefix(name, l.Address(number)+"."):
			return r, NameError(missing.String())
		}
	}
	return r, l.plan(&r, c.Store, o)
}

// plan judges the round, and reads its decision if that is in the store.
func (l *Loop) plan(r *Round, store cache.Reader, o plan.Options) error {
	var problems []compile.Problem
	if r.Plan, problems = plan.Make(r.Graph, store, o); len(problems) > 0 {
		return fmt.Errorf("planning %s: %s", l.Address(r.Number), problems[0])
	}
	id, _ := r.Graph.Lookup(l.Address(r.Number) + "." + decisionName)
	n := r.Plan.Nodes[id]
	if r.Plan.Counts.Changes() > 0 || n.Verdict != plan.Cached || n.Record.Outcome.State != cache.OK {
		return nil
	}
	b, err := store.Bytes(n.Record.Output(decisionOutput))
	if errors.Is(err, cache.ErrMissing) {
		// Its bytes turned out broken just now; planned again it is a miss.
		r.Plan, _ = plan.Make(r.Graph, store, o)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the decision of %s: %w", l.Address(r.Number), err)
	}
	var d Decision
	if err := json.Unmarshal(b, &d); err != nil {
		return fmt.Errorf("reading the decision of %s: %w", l.Address(r.Number), err)
	}
	r.Decision = &d
	return nil
}

// NameError says what is wrong with a name in the options.
type NameError string

func (e NameError) Error() string { return string(e) }

// check refuses names that no round can have.
func (l *Loop) check(o plan.Options) error {
	if len(o.Targets) > 0 {
		return NameError(fmt.Sprintf("loop %s takes no targets: a round is run whole", l.at()))
	}
	for _, name := range o.Replace {
		number := 0
		if _, err := fmt.Sscanf(strings.TrimPrefix(name, l.at()), ".round[%d]", &number); err != nil ||
			!strings.HasPrefix(name, l.Address(number)) || number < 1 || number > l.Bound {
			return NameError(fmt.Sprintf("%s is no round of loop %s, which has at most %d; write %s for its first one", name, l.at(), l.Bound, l.Address(1)))
		}
	}
	return nil
}
