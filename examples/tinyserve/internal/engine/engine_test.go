package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/model"
	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/vocab"
)

var tiny = func() *model.Model {
	c, err := model.ReadConfig("../../../models/tiny")
	if err != nil {
		panic(err)
	}
	return model.New(c)
}()

// plain is a configuration in which nothing is shared.
var plain = Config{MaxSeqs: 1, MaxTokens: 256, MaxLen: 512, Threads: 1, Kernel: model.Kernels["blocked"]}

func newEngine(t *testing.T, c Config) *Engine {
	t.Helper()
	e, err := New(tiny, c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func submit(t *testing.T, e *Engine, r Request) *Handle {
	t.Helper()
	h, err := e.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// drive does what Run does, step by step, until all requests have ended, and
// calls before with the plan of each step.
func drive(e *Engine, before func(owners []*sequence, pieces []model.Piece)) {
	for {
		e.admit()
		if len(e.running) == 0 {
			return
		}
		if before != nil {
			before(e.plan())
		}
		e.step()
	}
}

// answer is what a request gave.
type answer struct {
	tokens []vocab.ID
	text   string
	finish Finish
	cached int
}

// read takes the events that have come.
func read(h *Handle) (a answer) {
	for len(h.Events) > 0 {
		e := <-h.Events
		a.tokens = append(a.tokens, e.Token)
		a.text += e.Text
		a.finish, a.cached = e.Finish, e.Cached
	}
	return a
}

// run returns the answer to one request.
func run(t *testing.T, e *Engine, r Request) answer {
	t.Helper()
	h := submit(t, e, r)
	drive(e, nil)
	return read(h)
}

// prompt returns n pseudo-random tokens.
func prompt(seed uint64, n int) []vocab.ID {
	source := rand.New(rand.NewPCG(seed, 2))
	ids := make([]vocab.ID, n)
	for i := range ids {
		ids[i] = source.Int32N(vocab.Size)
	}
	return ids
}

func TestStepsFollowTheBudget(t *testing.T) {
	c := plain
	c.MaxSeqs, c.MaxTokens = 2, 8
	e := newEngine(t, c)
	for i, n := range []int{20, 5, 3} {
		submit(t, e, Request{Prompt: prompt(uint64(i), n), MaxTokens: 3, IgnoreEOS: true})
	}
	names := map[int]string{20: "A", 5: "B", 3: "C"}
	var got []string
	drive(e, func(owners []*sequence, pieces []model.Piece) {
		var step []string
		for i, s := range owners {
			step = append(step, fmt.Sprintf("%s%d", names[len(s.Prompt)], len(pieces[i].Tokens)))
		}
		got = append(got, strings.Join(step, " "))
	})
	// By hand: A's prompt is read in 8 + 8 + 4, B's fills the third step's
	// budget, answers come before prompts, and C has to wait for A's slot.
	want := []string{"A8", "A8", "A4 B4", "A1 B1", "A1 B1", "B1 C3", "C1", "C1"}
	if !slices.Equal(got, want) {
		t.Errorf("steps %q\nwant  %q", got, want)
	}
	s := e.Stats()
	if s.Steps != 8 || s.PeakRunning != 2 || s.PeakTokens != 8 || s.PrefillTokens != 28 || s.Generated != 9 || s.Finished[Length] != 3 || s.BlocksUsed != 0 {
		t.Errorf("stats %+v", s)
	}
}

// TestAnswersDependOnWeightsAndPromptOnly is the server's invariant.
func TestAnswersDependOnWeightsAndPromptOnly(t *testing.T) {
	shared := prompt(9, 48)
	requests := []Request{
		{Prompt: append(slices.Clone(shared), prompt(1, 20)...)},
		{Prompt: append(slices.Clone(shared), prompt(2, 3)...)},
		{Prompt: prompt(3, 1)},
		{Prompt: prompt(4, 17), Temperature: 1, Seed: 5},
		{Prompt: slices.Clone(shared)},
		{Prompt: append(slices.Clone(shared[:32]), prompt(5, 30)...), Temperature: 0.7, Seed: 6},
	}
	var want [][]vocab.ID
	c := plain
	c.Kernel, c.MaxTokens = model.Kernels["naive"], 1
	for i := range requests {
		requests[i].MaxTokens, requests[i].IgnoreEOS = 12, true
		want = append(want, run(t, newEngine(t, c), requests[i]).tokens)
	}
	for name, kernel := range model.Kernels {
		for _, seqs := range []int{1, 3, 8} {
			for _, budget := range []int{8, 37, 256} {
				for _, prefix := range []bool{false, true} {
					for _, threads := range []int{1, 2} {
						if name == "naive" && (threads == 2 || budget == 37 || seqs != 3) {
							continue // slow; package model's tests cover it
						}
						if testing.Short() && (seqs != 3 || budget == 256) {
							continue
						}
						c := Config{seqs, budget, 128, threads, kernel, prefix}
						t.Run(fmt.Sprintf("%s_seqs%d_tokens%d_prefix%t_threads%d", name, seqs, budget, prefix, threads), func(t *testing.T) {
							e := newEngine(t, c)
							for round := range 2 {
								var handles []*Handle
								for _, r := range requests {
									handles = append(handles, submit(t, e, r))
								}
								drive(e, nil)
								for i, h := range handles {
									if got := read(h).tokens; !slices.Equal(got, want[i]) {
										t.Errorf("round %d request %d gave %v\nwant %v", round, i, got, want[i])
									}
								}
							}
							if hits := e.Stats().CachedTokens; (hits > 0) != prefix {
								t.Errorf("%d tokens came from the prefix cache", hits)
							}
						})
					}
				}
			}
		}
	}
}

func TestPrefixCacheCounts(t *testing.T) {
	c := plain
	c.Prefix = true
	e := newEngine(t, c)
	long := prompt(1, 40)
	for _, step := range []struct {
		name   string
		prompt []vocab.ID
		want   int
	}{
		{"first", long, 0},
		{"again_two_whole_blocks", long, 32},
		{"exactly_two_blocks_leave_one_to_compute", long[:32], 16},
		{"one_more_token", long[:33], 32},
		{"shorter_than_a_block", long[:16], 0},
		{"same_block_elsewhere", long[16:], 0},
		{"first_token_differs", append([]vocab.ID{long[0] ^ 1}, long[1:]...), 0},
	} {
		if got := run(t, e, Request{Prompt: step.prompt, MaxTokens: 2, IgnoreEOS: true}).cached; got != step.want {
			t.Errorf("%s: %d tokens cached, want %d", step.name, got, step.want)
		}
	}
	// An answer is cached too: 40 + 30 tokens are four whole blocks, of which
	// the last answer token is not computed.
	a := run(t, e, Request{Prompt: long, MaxTokens: 30, IgnoreEOS: true})
	next := append(append(slices.Clone(long), a.tokens...), prompt(2, 5)...)
	if got := run(t, e, Request{Prompt: next, MaxTokens: 1}).cached; got != 64 {
		t.Errorf("a second turn has %d tokens cached, want 64", got)
	}
}

func TestPrefixCacheEvictsTheOldest(t *testing.T) {
	c := plain
	c.Prefix, c.MaxLen = true, 64 // four blocks
	e := newEngine(t, c)
	a, b := prompt(1, 33), prompt(2, 33)
	ask := func(p []vocab.ID) int { return run(t, e, Request{Prompt: p, MaxTokens: 2, IgnoreEOS: true}).cached }
	// Each needs three blocks and leaves two worth keeping: both fit.
	if got := []int{ask(a), ask(b), ask(a), ask(b)}; !slices.Equal(got, []int{0, 0, 16, 16}) {
		// b's third block can only come from a's tail, and the other way round.
		t.Errorf("cached %v", got)
	}
	fresh := newEngine(t, plain)
	for _, p := range [][]vocab.ID{a, b} {
		r := Request{Prompt: p, MaxTokens: 20, IgnoreEOS: true}
		if got, want := run(t, e, r).tokens, run(t, fresh, r).tokens; !slices.Equal(got, want) {
			t.Errorf("after evictions %v, want %v", got, want)
		}
	}
}

func TestCancelFreesTheSlot(t *testing.T) {
	e := newEngine(t, plain)
	first := submit(t, e, Request{Prompt: prompt(1, 40), MaxTokens: 400, IgnoreEOS: true})
	second := submit(t, e, Request{Prompt: prompt(2, 4), MaxTokens: 1})
	third := submit(t, e, Request{Prompt: prompt(3, 4), MaxTokens: 1})
	e.admit()
	e.step()
	if s := e.Stats(); s.Running != 1 || s.Waiting != 2 || s.BlocksUsed != 28 { // ⌈440/16⌉
		t.Fatalf("stats %+v", s)
	}
	second.Cancel()
	first.Cancel()
	first.Cancel()
	e.admit()
	if s := e.Stats(); s.Running != 1 || s.Waiting != 0 || s.BlocksUsed != 1 || s.Canceled != 2 {
		t.Fatalf("stats %+v", s)
	}
	e.step()
	if len(second.Events) != 0 || read(third).finish != Length {
		t.Error("the canceled request ran, or the next one did not")
	}
}

func TestEndsAndTexts(t *testing.T) {
	e := newEngine(t, plain)
	r := Request{Prompt: prompt(1, 8), MaxTokens: 200, Temperature: 1, Seed: 3}
	a := run(t, e, r)
	// At temperature 1 EOS comes after some 64 tokens: 200 without one are
	// less likely than 5 %, and the seed is fixed.
	if a.finish != Stop || a.tokens[len(a.tokens)-1] != vocab.EOS {
		t.Fatalf("%d tokens, finish %q", len(a.tokens), a.finish)
	}
	r.IgnoreEOS = true
	b := run(t, e, r)
	if b.finish != Length || len(b.tokens) != 200 || !slices.Equal(b.tokens[:len(a.tokens)], a.tokens) {
		t.Errorf("with IgnoreEOS %d tokens, finish %q", len(b.tokens), b.finish)
	}
	if !strings.HasPrefix(b.text, a.text) || b.text != strings.ReplaceAll(vocab.Decode(b.tokens), "<|eos|>", "") {
		t.Errorf("text %q is not that of the tokens", b.text)
	}
	stop := a.text[5:8]
	r.Stop = []string{stop}
	if s := run(t, e, r); s.finish != Stop || s.text != a.text[:strings.Index(a.text, stop)] {
		t.Errorf("with stop %q: finish %q, text %q of %q", stop, s.finish, s.text, a.text)
	}
	r.Stop, r.Seed = nil, 4
	if slices.Equal(run(t, e, r).tokens, b.tokens) {
		t.Error("another seed drew the same 200 tokens")
	}
}

// TestGoldenTokens pins an answer, which holds on every machine. Package model's
// tests get the same tokens from the textbook formulas in float64.
func TestGoldenTokens(t *testing.T) {
	got := run(t, newEngine(t, plain), Request{Prompt: []vocab.ID{1, 300, 301, 302, 303}, MaxTokens: 16, IgnoreEOS: true}).tokens
	want := []vocab.ID{104, 296, 270, 38, 95, 271, 462, 42, 486, 429, 131, 455, 95, 341, 287, 130}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSubmitRefusesWhatDoesNotFit(t *testing.T) {
	e := newEngine(t, plain)
	for _, c := range []struct{ prompt, answer int }{{500, 13}, {512, 1}, {600, 1}, {1, math.MaxInt}} {
		_, err := e.Submit(Request{Prompt: prompt(1, c.prompt), MaxTokens: c.answer})
		var length *LengthError
		if !errors.As(err, &length) || length.Max != 512 || length.Prompt != c.prompt {
			t.Errorf("%+v gave %v", c, err)
		}
	}
	submit(t, e, Request{Prompt: prompt(1, 500), MaxTokens: 12})
	for _, c := range []Config{{MaxSeqs: 1, MaxTokens: 1, MaxLen: 4096}, {MaxSeqs: 9, MaxTokens: 8, MaxLen: 64}} {
		if _, err := New(tiny, c); err == nil {
			t.Errorf("New accepted %+v", c)
		}
	}
}

// last waits for a request's last event.
func last(t *testing.T, h *Handle) Event {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case e := <-h.Events:
			if e.Finish != "" {
				return e
			}
		case <-deadline:
			t.Fatal("no last event within 30 s")
		}
	}
}

func TestRunServesUntilItIsToldToStop(t *testing.T) {
	c := plain
	c.MaxSeqs, c.MaxLen = 2, 2048
	e := newEngine(t, c)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { e.Run(ctx); close(ended) }()
	if got := last(t, submit(t, e, Request{Prompt: prompt(1, 9), MaxTokens: 3, IgnoreEOS: true})).Finish; got != Length {
		t.Errorf("finish %q", got)
	}
	var handles []*Handle
	for i := range 4 { // two run, two wait
		handles = append(handles, submit(t, e, Request{Prompt: prompt(uint64(i), 9), MaxTokens: 2039, IgnoreEOS: true}))
	}
	<-handles[0].Events
	stop()
	<-ended
	for i, h := range handles {
		if got := last(t, h).Finish; got != Aborted {
			t.Errorf("request %d: finish %q", i, got)
		}
	}
	if _, err := e.Submit(Request{Prompt: prompt(1, 1), MaxTokens: 1}); !errors.Is(err, ErrStopped) {
		t.Errorf("Submit after the end gave %v", err)
	}
}
