package repeat

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/loop"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/stdlib/simserve"
	"github.com/sotabuild/sotabuild/stdlib/stats"
)

// lab measures sides with the real scheduler and a real store.
type lab struct {
	t     *testing.T
	store *cache.Local
	order []string // sides with the repeat's number, in the order in which they were measured
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
		Sample: func(b []byte) (Sample, error) {
			text, rest, _ := strings.Cut(string(b), " ")
			word, why, _ := strings.Cut(rest, " ")
			v, err := strconv.ParseFloat(text, 64)
			s := Sample{Value: v}
			switch word {
			case "rejected":
				s.Rejected = why
			case "broken":
				s.Broken = why
			case "failing":
				s.Failing = why
			}
			return s, err
		}}
}

// kind measures all sides, one after the other: a number, or a number, a word
// and a reason.
func (l *lab) kind(measure func(side string, n int) string) *compile.Kind {
	return &compile.Kind{Name: "sample", Version: 1, Purity: compile.Measured, Outputs: []string{"value"},
		Func: func(_ context.Context, j compile.Job) compile.Result {
			s := j.Spec.(sampleSpec)
			l.order = append(l.order, s.Side+strconv.Itoa(s.Repeat))
			return compile.Result{Outcome: cache.Outcome{State: cache.OK}, Outputs: []compile.Value{{Name: "value", Bytes: []byte(measure(s.Side, s.Repeat))}}}
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

// verdict is what a side came to against the champion; "" of the champion.
func verdict(s State, i int) stats.Verdict {
	if i == s.Champion {
		return ""
	}
	return s.Sides[i].Verdict.Verdict
}

var noise = Bounds{Threshold: 0.01, Min: 3, Max: 20}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// contest makes one of named sides.
func (l *lab) contest(kind *compile.Kind, b Bounds, names ...string) *loop.Loop {
	c := Config{At: "repeat.chat", Bounds: b}
	for _, n := range names {
		c.Sides = append(c.Sides, l.side(n, kind))
	}
	return New(c)
}

// Scripted samples: a clear lead is seen at the first look, an equal pair is
// tied, noise beyond the bound is unresolved.
func TestScripted(t *testing.T) {
	wobble := func(n int, size float64) float64 { return 1 + size*float64(n*7%11-5)/5 }
	for _, tc := range []struct {
		name    string
		b       float64
		size    float64
		want    stats.Verdict // of b
		first   int
		repeats int
	}{
		{"clear", 66.7, 0.002, stats.Behind, 0, 3},
		{"the_other_one", 150, 0.002, stats.Behind, 1, 3},
		{"equal", 100, 0.001, stats.Tied, 0, 5},
		{"noisy", 99, 0.2, stats.Unresolved, 0, 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			kind := l.kind(func(side string, n int) string {
				if side == "leader" {
					return number(100 * wobble(n+5, tc.size))
				}
				return number(tc.b * wobble(n, tc.size))
			})
			lp := l.contest(kind, noise, "leader", "target")
			s, res := l.run(lp)
			other := s.Sides[1-tc.first]
			if s.Champion != tc.first || other.Verdict.Verdict != tc.want || len(s.Sides[0].Values) != tc.repeats || len(s.Sides[1].Values) != tc.repeats || !res.Stopped {
				t.Errorf("%+v (%s), want %q after %d and side %d first", s, res.Why, tc.want, tc.repeats, tc.first)
			}
			if got, want := strings.Join(l.order[:6], " "), "leader1 target1 target2 leader2 leader3 target3"; got != want {
				t.Errorf("measured in the order %s, want %s", got, want)
			}
			measured := len(l.order)
			if again, _ := l.run(lp); verdict(again, 1) != verdict(s, 1) || len(l.order) != measured {
				t.Errorf("a second run measured %d times more and says %+v", len(l.order)-measured, again)
			}
			v, err := lp.Plan(l.config())
			if err != nil || !v.Over {
				t.Errorf("the plan is not over: %v", err)
			}
		})
	}
}

// TestThreeSides: B turns out to be ahead of A, so that C is compared with B; D,
// which is far behind, is measured no more after the first look.
func TestThreeSides(t *testing.T) {
	l := newLab(t)
	speed := map[string]float64{"a": 100, "b": 103, "c": 103.2, "d": 92}
	kind := l.kind(func(side string, n int) string {
		return number(speed[side] * (1 + 0.003*float64(n*5%7-3)/3))
	})
	s, res := l.run(l.contest(kind, noise, "a", "b", "c", "d"))
	if s.Champion != 1 || verdict(s, 0) != stats.Behind || verdict(s, 2) != stats.Tied || verdict(s, 3) != stats.Behind {
		t.Errorf("%+v: %s", s, res.Why)
	}
	if got, want := strings.Join(l.order[:8], " "), "a1 b1 c1 d1 d2 c2 b2 a2"; got != want {
		t.Errorf("measured in the order %s, want %s", got, want)
	}
	if n := len(s.Sides[3].Values); n != 3 || len(s.Sides[2].Values) <= 3 || slices.Contains(l.order, "d4") {
		t.Errorf("the slowest was measured %d times: %v", n, l.order)
	}
}

// TestNoisyFirstSide: where nobody can say of the first side, the others are still
// told from each other: B is tied with C, and D is behind.
func TestNoisyFirstSide(t *testing.T) {
	l := newLab(t)
	noisy := []float64{100, 60, 160}
	kind := l.kind(func(side string, n int) string {
		if side == "a" {
			return number(noisy[n-1])
		}
		return number(map[string]float64{"b": 100, "c": 100.1, "d": 95}[side] * (1 + 0.0005*float64(n%3-1)))
	})
	s, res := l.run(l.contest(kind, Bounds{Threshold: 0.01, Min: 3, Max: 3}, "a", "b", "c", "d"))
	if s.Champion != 1 || verdict(s, 0) != stats.Unresolved || verdict(s, 2) != stats.Tied || verdict(s, 3) != stats.Behind {
		t.Errorf("%+v: %s", s, res.Why)
	}
}

// TestRejectedSamplesDoNotCount: of at most five repeats two are rejected, so that
// the first look has too few samples and the last one three pairs; no further
// server life is taken.
func TestRejectedSamplesDoNotCount(t *testing.T) {
	l := newLab(t)
	s, res := l.run(l.contest(rejecting(l), Bounds{Threshold: 0.01, Min: 3, Max: 5}, "a", "b"))
	if verdict(s, 1) != stats.Behind || s.Sides[1].Verdict.Repeats != 3 || len(s.Sides[0].Values) != 3 || len(s.Sides[0].Rejected) != 2 || len(l.order) != 10 {
		t.Errorf("%+v after %d lives: %s", s, len(l.order), res.Why)
	}
	if got := s.Sides[0].Rejected[1]; got != "repeat 4: throttled: 12 % of the time" {
		t.Errorf("rejected: %q", got)
	}
	l = newLab(t)
	if s, _ := l.run(l.contest(rejecting(l), Bounds{Threshold: 0.01, Min: 4, Max: 5}, "a", "b")); verdict(s, 1) != stats.Unresolved || s.Sides[1].Verdict.Repeats != 0 {
		t.Errorf("three samples, where four are the least: %+v", s)
	}
	// All of one side rejected: nobody can say, and no winner is made of it.
	l = newLab(t)
	kind := l.kind(func(side string, _ int) string {
		if side == "a" {
			return "0 rejected client_limited: as told"
		}
		return "100"
	})
	if s, _ := l.run(l.contest(kind, noise, "a", "b")); verdict(s, 1) != stats.Unresolved || len(l.order) != 40 {
		t.Errorf("%+v after %d lives", s, len(l.order))
	}
}

// rejecting measures 100 and 80, and rejects two repeats of the first side.
func rejecting(l *lab) *compile.Kind {
	return l.kind(func(side string, n int) string {
		switch {
		case side == "a" && (n == 2 || n == 4):
			return "0 rejected throttled: 12 % of the time"
		case side == "b":
			return number(80 + 0.1*float64(n))
		}
		return number(100 + 0.1*float64(n))
	})
}

// TestBrokenSides: a server that dies, or does not pass in most of its repeats,
// is out, and the other one stands.
func TestBrokenSides(t *testing.T) {
	for _, word := range []string{"broken server_died: as told", "failing TTFT p50 is above 5 ms"} {
		l := newLab(t)
		kind := l.kind(func(side string, _ int) string {
			if side == "a" {
				return "200 " + word
			}
			return "100"
		})
		s, res := l.run(l.contest(kind, noise, "a", "b"))
		if s.Champion != 1 || s.Sides[0].Broken == "" || !strings.Contains(res.Why, "a is out: ") || !res.Stopped || len(l.order) != 6 {
			t.Errorf("%+v: %s", s, res.Why)
		}
	}
}

// TestOtherBounds decides anew from the samples that are there: a wider band ties
// what was behind, a lower bound stops earlier, and nothing is measured.
func TestOtherBounds(t *testing.T) {
	l := newLab(t)
	kind := l.kind(func(side string, n int) string {
		if side == "a" {
			return number(103 + 0.3*float64(n%3))
		}
		return number(100 + 0.3*float64((n+1)%3))
	})
	s, _ := l.run(l.contest(kind, noise, "a", "b"))
	measured := len(l.order)
	if verdict(s, 1) != stats.Behind {
		t.Fatalf("%+v; 3 %% are more than the band", s)
	}
	wide := noise
	wide.Threshold = 0.1
	if s, _ := l.run(l.contest(kind, wide, "a", "b")); verdict(s, 1) != stats.Tied || len(l.order) != measured {
		t.Errorf("a band of 10 %%: %+v, %d measured more", s, len(l.order)-measured)
	}
	few := noise
	few.Max = 3
	if s, _ := l.run(l.contest(kind, few, "a", "b")); verdict(s, 1) != stats.Behind || s.Sides[1].Verdict.Repeats != 3 || len(l.order) != measured {
		t.Errorf("at most 3: %+v, %d measured more", s, len(l.order)-measured)
	}
}

// A repeat without a verdict leaves no decision, and says which one.
func TestNoVerdict(t *testing.T) {
	l := newLab(t)
	kind := l.kind(func(_ string, n int) string {
		if n == 2 {
			return "none"
		}
		return "1"
	})
	_, err := l.contest(kind, noise, "a", "b").Run(t.Context(), l.config(), func(ctx context.Context, g *compile.Graph, p *plan.Plan) error {
		_, err := sched.Run(ctx, sched.Config{Graph: g, Plan: p, Store: l.store, Dir: t.TempDir(), Now: time.Now, Run: "r"})
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "round[1]") || !strings.Contains(err.Error(), "repeat 2 of b") {
		t.Errorf("%v; want the round and the repeat", err)
	}
}

// listener is a network in memory.
type listener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error   { return nil }
func (l listener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// life is the rate, in answers a second, of a new server that takes prefill and
// then 1 ms for each of nine more tokens, one answer after the other.
func life(t *testing.T, prefill time.Duration) float64 {
	const answers = 4
	h, err := simserve.Handler(simserve.Config{Model: "m", Prefill: prefill, Step: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l := listener{make(chan net.Conn), make(chan struct{})}
	srv := &http.Server{Handler: h}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		l.conns <- far
		return near, nil
	}}}
	began := time.Now()
	for range answers {
		resp, err := client.Post("http://m/v1/completions", "application/json",
			strings.NewReader(`{"model":"m","prompt":[1,2,3],"max_tokens":10,"stream":true,"ignore_eos":true}`))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if resp.Body.Close(); err != nil || !strings.Contains(string(body), "[DONE]") {
			t.Fatalf("%v: %s", err, body)
		}
	}
	took := time.Since(began)
	client.CloseIdleConnections()
	close(l.done)
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	<-served
	return answers / took.Seconds()
}

// TestOnSimserve compares servers whose schedules are known, in virtual time: a
// prefill of 91 ms and nine steps are 100 ms an answer, 10 answers a second; 94
// ms are 3 % slower. Noise is drawn for each life.
func TestOnSimserve(t *testing.T) {
	for _, tc := range []struct {
		name   string
		a, b   time.Duration // prefill
		spread float64       // of a life's whole answer, standard deviation
		want   stats.Verdict // of b
		most   int           // repeats
	}{
		{"gap_of_3_percent", 91 * time.Millisecond, 94 * time.Millisecond, 0.005, stats.Behind, 10},
		{"gap_without_noise", 91 * time.Millisecond, 94 * time.Millisecond, 0, stats.Behind, 3},
		{"equal", 91 * time.Millisecond, 91 * time.Millisecond, 0.005, stats.Tied, 20},
		{"noisy", 91 * time.Millisecond, 94 * time.Millisecond, 0.1, stats.Unresolved, 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			values := map[string][]string{}
			synctest.Test(t, func(t *testing.T) {
				src := rand.New(rand.NewPCG(3, 1))
				for range noise.Max {
					for _, side := range []string{"a", "b"} {
						prefill := map[string]time.Duration{"a": tc.a, "b": tc.b}[side]
						late := time.Duration(tc.spread * src.NormFloat64() * float64(prefill+9*time.Millisecond))
						values[side] = append(values[side], number(life(t, prefill+late)))
					}
				}
			})
			if v, err := strconv.ParseFloat(values["a"][0], 64); tc.spread == 0 && (err != nil || math.Abs(v-10) > 1e-6) {
				t.Fatalf("100 ms an answer are %v answers a second", values["a"][0])
			}
			l := newLab(t)
			kind := l.kind(func(side string, n int) string { return values[side][n-1] })
			s, res := l.run(l.contest(kind, noise, "a", "b"))
			if s.Champion != 0 || verdict(s, 1) != tc.want || len(s.Sides[1].Values) > tc.most {
				t.Errorf("%+v: %s", s, res.Why)
			}
			if tc.want == stats.Unresolved && len(s.Sides[1].Values) != noise.Max {
				t.Errorf("unresolved after %d repeats of %d", len(s.Sides[1].Values), noise.Max)
			}
			if i := slices.IndexFunc(l.store.Records(), func(r *cache.Record) bool { return r.Node == "repeat.chat.round[1].b[1]" }); i < 0 {
				t.Error("the first repeat has no address of its own")
			}
		})
	}
}
