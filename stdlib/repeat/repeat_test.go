package repeat

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/loop"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/stdlib/simserve"
)

// lab measures sides with the real scheduler and a real store.
type lab struct {
	t     *testing.T
	store *cache.Local
	order []string // sides in the order in which they were measured
}

func newLab(t *testing.T) *lab {
	t.Helper()
	store, err := cache.OpenLocal(filepath.Join(t.TempDir(), "store"), cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return &lab{t: t, store: store}
}

type sampleSpec struct {
	Side   string `key:"side"`
	Repeat int    `key:"repeat"`
}

// side is measured by a function of the repeat's number.
func (l *lab) side(name string, kind *compile.Kind) Side {
	return Side{Name: name, Output: "value",
		Node: func(addr string, n int) compile.Decl {
			return compile.Decl{Addr: addr, Kind: kind, Spec: sampleSpec{name, n}, Resources: compile.Resources{Quiet: true}}
		},
		Sample: func(b []byte) (float64, error) {
			var v float64
			_, err := fmt.Sscan(string(b), &v)
			return v, err
		}}
}

// kind measures all sides, one after the other.
func (l *lab) kind(measure func(side string, n int) float64) *compile.Kind {
	return &compile.Kind{Name: "sample", Version: 1, Purity: compile.Measured, Outputs: []string{"value"},
		Func: func(_ context.Context, j compile.Job) compile.Result {
			s := j.Spec.(sampleSpec)
			l.order = append(l.order, s.Side)
			return compile.Result{Outcome: cache.Outcome{State: cache.OK}, Outputs: []compile.Value{{Name: "value", Bytes: fmt.Append(nil, measure(s.Side, s.Repeat))}}}
		}}
}

func (l *lab) config() loop.Config {
	return loop.Config{Store: l.store, Env: compile.Env{Binding: []key.Fact{{Name: "env.cpu", Type: key.Text, Value: "x"}}}}
}

func (l *lab) run(lp *loop.Loop) (State, loop.Result) {
	l.t.Helper()
	res, err := lp.Run(l.t.Context(), l.config(), func(ctx context.Context, g *compile.Graph, p *plan.Plan) error {
		_, err := sched.Run(ctx, sched.Config{Graph: g, Plan: p, Store: l.store, Dir: l.t.TempDir(), Now: time.Now, Run: "r"})
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	var s State
	if err := json.Unmarshal(res.State, &s); err != nil {
		l.t.Fatal(err)
	}
	return s, res
}

var noise = Bounds{Threshold: 0.01, Min: 3, Max: 20}

// Scripted samples: a clear lead is seen at the first look, a small one later,
// an equal pair is tied, noise beyond the bound is unresolved.
func TestScripted(t *testing.T) {
	wobble := func(n int, size float64) float64 { return 1 + size*float64(n*7%11-5)/5 }
	for _, tc := range []struct {
		name    string
		a       func(n int) float64
		size    float64
		want    Verdict
		repeats int
	}{
		{"clear", func(int) float64 { return 150 }, 0.002, Ahead, 3},
		{"clear_behind", func(int) float64 { return 50 }, 0.002, Behind, 3},
		{"equal", func(int) float64 { return 100 }, 0.001, Tied, 3},
		{"small", func(int) float64 { return 103 }, 0.012, Ahead, 5},
		{"noisy", func(int) float64 { return 101 }, 0.2, Unresolved, 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			kind := l.kind(func(side string, n int) float64 {
				if side == "target" {
					return tc.a(n) * wobble(n, tc.size)
				}
				return 100 * wobble(n+5, tc.size)
			})
			lp := New("repeats", l.side("target", kind), l.side("leader", kind), noise)
			s, res := l.run(lp)
			if s.Verdict != tc.want || len(s.A) != tc.repeats || len(s.B) != tc.repeats || !res.Stopped {
				t.Errorf("%q after %d and %d repeats (%s), want %q after %d", s.Verdict, len(s.A), len(s.B), res.Why, tc.want, tc.repeats)
			}
			if got, want := strings.Join(l.order[:6], " "), "target leader leader target target leader"; got != want {
				t.Errorf("measured in the order %s, want %s", got, want)
			}
			measured := len(l.order)
			if again, _ := l.run(lp); again.Verdict != s.Verdict || len(l.order) != measured {
				t.Errorf("a second run measured %d times more and says %q", len(l.order)-measured, again.Verdict)
			}
			v, err := lp.Plan(l.config())
			if err != nil || !v.Over {
				t.Errorf("the plan is not over: %v", err)
			}
		})
	}
}

// A repeat that fails leaves no comparison, and says which one.
func TestFailedRepeat(t *testing.T) {
	l := newLab(t)
	kind := l.kind(func(string, int) float64 { return 1 })
	measure := kind.Func
	kind.Func = func(ctx context.Context, j compile.Job) compile.Result {
		if j.Spec.(sampleSpec).Repeat == 2 {
			return compile.Result{Outcome: cache.Outcome{State: cache.Rejected, Class: "throttled", Reason: "12 % of the time"}}
		}
		return measure(ctx, j)
	}
	lp := New("repeats", l.side("target", kind), l.side("leader", kind), noise)
	_, err := lp.Run(t.Context(), l.config(), func(ctx context.Context, g *compile.Graph, p *plan.Plan) error {
		_, err := sched.Run(ctx, sched.Config{Graph: g, Plan: p, Store: l.store, Dir: t.TempDir(), Now: time.Now, Run: "r"})
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "round[1]") || !strings.Contains(err.Error(), "throttled: 12 % of the time") {
		t.Errorf("%v; want the round and the reason", err)
	}
}

// Two simulated servers whose schedules say that one makes tokens twice as
// fast: 1 ms and 2 ms a token, each repeat a new life of its server.
func TestOnSimserve(t *testing.T) {
	l := newLab(t)
	steps := map[string]time.Duration{"target": 2 * time.Millisecond, "leader": time.Millisecond}
	kind := l.kind(func(side string, _ int) float64 {
		h, err := simserve.Handler(simserve.Config{Model: "m", Prefill: time.Millisecond, Step: steps[side]})
		if err != nil {
			panic(err)
		}
		srv := httptest.NewServer(h)
		defer srv.Close()
		began := time.Now()
		resp, err := http.Post(srv.URL+"/v1/completions", "application/json",
			strings.NewReader(`{"model":"m","prompt":[1,2,3],"max_tokens":40,"stream":true,"ignore_eos":true}`))
		if err != nil {
			panic(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(string(body), "[DONE]") {
			panic(fmt.Sprintf("%v: %s", err, body))
		}
		return 40 / time.Since(began).Seconds()
	})
	lp := New("repeats", l.side("target", kind), l.side("leader", kind), noise)
	v, err := lp.Plan(l.config())
	if err != nil || !strings.Contains(v.Text(), "repeats.round[2…4]  possible; round 1 decides") {
		t.Errorf("plan: %v\n%s", err, v.Text())
	}
	s, _ := l.run(lp)
	if s.Verdict != Behind {
		t.Errorf("%q with ratio %+v of %v and %v; by its schedule the target is half as fast", s.Verdict, s.Ratio, s.A, s.B)
	}
	if i := slices.IndexFunc(l.store.Records(), func(r *cache.Record) bool { return r.Node == "repeats.round[1].target[1]" }); i < 0 {
		t.Error("the first repeat has no address of its own")
	}
}
