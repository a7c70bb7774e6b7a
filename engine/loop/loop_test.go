package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/sched"
)

// scripted is a loop whose rounds each run one node that gives a number; it
// stops when their sum reaches a goal.
type scripted struct {
	t     *testing.T
	store *cache.Local
	gives map[int]int // by the sum that a round starts from
	goal  int
	fails bool
	ran   []string // addresses of what was run, decisions too
	loop  *Loop
}

type state struct {
	Sum int `json:"sum"`
}

type workSpec struct {
	From int `key:"from"`
}

func newScripted(t *testing.T) *scripted {
	t.Helper()
	store, err := cache.OpenLocal(filepath.Join(t.TempDir(), "store"), cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s := &scripted{t: t, store: store, gives: map[int]int{0: 1, 1: 2, 3: 4, 7: 8}, goal: 7}
	s.loop = &Loop{Name: "count", Version: 1, Bound: 5, Start: []byte(`{"sum":0}`), Declare: s.declare, Decide: s.decide}
	return s
}

func (s *scripted) declare(b []byte, round int) ([]compile.Decl, []compile.Input, error) {
	var st state
	if err := json.Unmarshal(b, &st); err != nil {
		return nil, nil, err
	}
	kind := &compile.Kind{Name: "work", Version: 1, Purity: compile.Pure, Outputs: []string{"number"},
		Func: func(_ context.Context, j compile.Job) compile.Result {
			if s.fails {
				return compile.Result{Outcome: cache.Outcome{State: cache.Failed, Class: "broken", Reason: "as told"}}
			}
			return compile.Result{Outcome: cache.Outcome{State: cache.OK},
				Outputs: []compile.Value{{Name: "number", Bytes: fmt.Append(nil, s.gives[j.Spec.(workSpec).From])}}}
		}}
	addr := s.loop.Address(round) + ".work"
	return []compile.Decl{{Addr: addr, Kind: kind, Spec: workSpec{st.Sum}}},
		[]compile.Input{{Name: "number", From: addr, Output: "number"}}, nil
}

func (s *scripted) decide(b []byte, round int, got []Got) (Decision, error) {
	var st state
	if err := json.Unmarshal(b, &st); err != nil {
		return Decision{}, err
	}
	n := 0
	if _, err := fmt.Sscan(string(got[0].Bytes), &n); err != nil {
		return Decision{}, err
	}
	st.Sum += n
	next, err := json.Marshal(st)
	return Decision{Stop: st.Sum >= s.goal, Why: fmt.Sprintf("the sum is %d of %d", st.Sum, s.goal), State: next}, err
}

func (s *scripted) config(replace ...string) Config {
	return Config{Store: s.store, Options: plan.Options{Replace: replace}}
}

// apply runs a plan with the real scheduler.
func (s *scripted) apply(ctx context.Context, g *compile.Graph, p *plan.Plan) error {
	for i, n := range p.Nodes {
		if n.Verdict != plan.Cached {
			s.ran = append(s.ran, g.Actions[i].Addr)
		}
	}
	_, err := sched.Run(ctx, sched.Config{Graph: g, Plan: p, Store: s.store, Dir: s.t.TempDir(), Now: time.Now, Run: "r"})
	return err
}

func (s *scripted) run(replace ...string) Result {
	s.t.Helper()
	s.ran = nil
	res, err := s.loop.Run(s.t.Context(), s.config(replace...), s.apply)
	if err != nil {
		s.t.Fatal(err)
	}
	return res
}

func round(n int) []string {
	return []string{fmt.Sprintf("count.round[%d].work", n), fmt.Sprintf("count.round[%d].decision", n)}
}

func rounds(from, to int) (all []string) {
	for n := from; n <= to; n++ {
		all = append(all, round(n)...)
	}
	return all
}

func (s *scripted) wantRan(want ...string) {
	s.t.Helper()
	if !slices.Equal(s.ran, want) {
		s.t.Errorf("ran %v, want %v", s.ran, want)
	}
}

// 0 → 1 → 3 → 7 reaches the goal in the third round; a second run replays.
func TestRunsUntilThePredicateHolds(t *testing.T) {
	s := newScripted(t)
	res := s.run()
	if !res.Stopped || res.Why != "the sum is 7 of 7" || string(res.State) != `{"sum":7}` || len(res.Rounds) != 3 {
		t.Errorf("%+v", res)
	}
	s.wantRan(rounds(1, 3)...)
	if h := s.store.History("count.round[2].work"); len(h) != 1 {
		t.Errorf("round 2 has %d records under its address, want 1", len(h))
	}
	again := s.run()
	if !again.Stopped || string(again.State) != string(res.State) {
		t.Errorf("replayed: %+v", again)
	}
	s.wantRan()
}

func TestBound(t *testing.T) {
	s := newScripted(t)
	s.loop.Bound = 2
	res := s.run()
	if res.Stopped || len(res.Rounds) != 2 || string(res.State) != `{"sum":3}` {
		t.Errorf("%+v: a bound is no goal reached", res)
	}
	s.loop.Bound = 5
	s.run()
	s.wantRan(round(3)...) // the rounds before were replayed
}

// A plan shows what is decided, what is next, and what is possible.
func TestPlanText(t *testing.T) {
	s := newScripted(t)
	text := func() string {
		t.Helper()
		v, err := s.loop.Plan(s.config())
		if err != nil {
			t.Fatal(err)
		}
		return v.Text()
	}
	none := "Estimate: none, as nothing like it was run before.\n"
	if got, want := text(), "+ count.round[1].work  never run  +1 downstream\ncount.round[1]: 1 new, 1 later.\n"+none+
		"? count.round[2…5]  possible; round 1 decides\n"; got != want {
		t.Errorf("before:\n%s\nwant\n%s", got, want)
	}
	s.loop.Bound = 1
	s.run()
	s.loop.Bound = 2
	if got := text(); !strings.HasPrefix(got, "= count.round[1]  the sum is 1 of 7\n") || !strings.Contains(got, "count.round[2].work") || strings.Contains(got, "possible") {
		t.Errorf("after the first of two:\n%s", got)
	}
	s.loop.Bound = 5
	s.run()
	if got, want := text(), "= count.round[1]  the sum is 1 of 7\n= count.round[2]  the sum is 3 of 7\n= count.round[3]  the sum is 7 of 7\n"+
		"Loop count is over after 3 of at most 5 rounds.\n"; got != want {
		t.Errorf("at the end:\n%s\nwant\n%s", got, want)
	}
}

// A round that is replaced and gives the same makes nothing after it run; one
// that gives something else does.
func TestReplaceARound(t *testing.T) {
	s := newScripted(t)
	s.run()
	s.run("count.round[2]")
	s.wantRan(round(2)...)
	s.gives[1] = 5 // 1 + 5 is 6, from where the script gives nothing: 6, 6, 6
	res := s.run("count.round[2].work")
	if res.Stopped || string(res.State) != `{"sum":6}` {
		t.Errorf("%+v", res)
	}
	// The work of rounds 4 and 5 has the key of that of round 3.
	s.wantRan(append(rounds(2, 3), round(4)[1], round(5)[1])...)
	for _, name := range []string{"count.round[0]", "count.round[6]", "other.round[1]", "work", "count.round", "count.round[2].wrok"} {
		var wrong NameError
		if _, err := s.loop.Run(t.Context(), s.config(name), s.apply); !errors.As(err, &wrong) {
			t.Errorf("replacing %s: %v", name, err)
		}
	}
}

// Another predicate decides anew and runs only what has another state.
func TestChangedPredicate(t *testing.T) {
	s := newScripted(t)
	s.run()
	s.goal, s.loop.Version = 15, 2
	res := s.run()
	if !res.Stopped || string(res.State) != `{"sum":15}` {
		t.Errorf("%+v", res)
	}
	s.wantRan("count.round[1].decision", "count.round[2].decision", "count.round[3].decision", "count.round[4].work", "count.round[4].decision")
}

func TestFailures(t *testing.T) {
	s := newScripted(t)
	s.fails = true
	_, err := s.loop.Run(t.Context(), s.config(), s.apply)
	if err == nil || !strings.Contains(err.Error(), "count.round[1] came to no decision") || !strings.Contains(err.Error(), "as told") {
		t.Errorf("a failed node: %v", err)
	}
	s.fails = false
	s.gives[0] = 1
	s.run()
	broken := errors.New("no machine")
	_, err = s.loop.Run(t.Context(), s.config("count.round[1]"), func(context.Context, *compile.Graph, *plan.Plan) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("apply failed: %v", err)
	}
	s.loop.Declare = func([]byte, int) ([]compile.Decl, []compile.Input, error) {
		return []compile.Decl{{Addr: "elsewhere", Kind: s.loop.kind()}}, nil, nil
	}
	if _, err := s.loop.Plan(s.config()); err == nil || !strings.Contains(err.Error(), "elsewhere does not lie in it") {
		t.Errorf("a node outside its round: %v", err)
	}
}

// A lost decision is decided again from the kept results.
func TestLostDecision(t *testing.T) {
	s := newScripted(t)
	s.run()
	r := s.store.History("count.round[2].decision")[0]
	if err := s.store.Remove(r.Outputs[0].Digest); err != nil {
		t.Fatal(err)
	}
	if res := s.run(); !res.Stopped {
		t.Errorf("%+v", res)
	}
	s.wantRan("count.round[2].decision")
}

// TestBlocksOfARound: a node may have a block of its own below its round, and is
// replaced with the round all the same; a block elsewhere is not one of it.
func TestBlocksOfARound(t *testing.T) {
	s := newScripted(t)
	declare := s.loop.Declare
	for given, want := range map[string]string{"count.round[1].side": "count.round[1].side", "framework.x": "count.round[1]", "": "count.round[1]"} {
		s.loop.Declare = func(b []byte, round int) ([]compile.Decl, []compile.Input, error) {
			d, take, err := declare(b, round)
			d[0].Block = strings.Replace(given, "round[1]", fmt.Sprintf("round[%d]", round), 1)
			return d, take, err
		}
		s.run()
		v, err := s.loop.Plan(s.config("count.round[1]"))
		if err != nil {
			t.Fatal(err)
		}
		g := v.Rounds[0].Graph
		id, _ := g.Lookup("count.round[1].work")
		if got := g.Actions[id].Block; got != want {
			t.Errorf("block %q became %q, want %q", given, got, want)
		}
		if n := v.Rounds[0].Plan.Counts.Changes(); n != 2 {
			t.Errorf("block %q: replacing the round runs %d nodes, want its work and its decision", given, n)
		}
	}
}
