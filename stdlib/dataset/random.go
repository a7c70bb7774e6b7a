package dataset

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Ids is where random token ids come from: uniform from [Lo, Hi), seeded by
// Seed and the name of what they are for.
type Ids struct {
	Lo, Hi int
	Seed   int64
}

func (v Ids) check() error {
	if v.Lo < 0 || v.Hi > math.MaxInt32 || v.Hi-v.Lo < 2 {
		return fmt.Errorf("token ids are from [%d, %d); it must hold at least 2 ids, from 0", v.Lo, v.Hi)
	}
	return nil
}

func (v Ids) source(name string) *rand.ChaCha8 {
	b := binary.LittleEndian.AppendUint64([]byte("sotabuild prompts 1 "+name+"\x00"), uint64(v.Seed))
	return rand.NewChaCha8(sha256.Sum256(b))
}

func (v Ids) draw(src *rand.ChaCha8, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = v.Lo + int(below(src, uint64(v.Hi-v.Lo)))
	}
	return out
}

// Shape is one kind of request in a mixture. Lengths are tokens, drawn
// uniformly from both bounds inclusive: a ratio would mean another workload in
// each tool that has one.
type Shape struct {
	Weight float64
	In     [2]int
	Out    [2]int
}

// Mixture makes n prompts of several shapes: as many of each as its weight says,
// rounded by the largest remainder, in an order that is drawn.
func Mixture(v Ids, shapes []Shape, n int) ([]Prompt, error) {
	total := 0.0
	for i, s := range shapes {
		if !(s.Weight > 0) || s.In[0] < 1 || s.In[1] < s.In[0] || s.Out[0] < 1 || s.Out[1] < s.Out[0] || s.In[1] > maxTokens {
			return nil, fmt.Errorf("shape %d is %+v; write a weight above 0 and lengths from 1, ascending", i+1, s)
		}
		total += s.Weight
	}
	if err := v.check(); err != nil || len(shapes) == 0 || n < 1 {
		return nil, errors.Join(err, fmt.Errorf("%d prompts of %d shapes; write at least 1 of each", n, len(shapes)))
	}
	src := v.source("mixture")
	var out []Prompt
	for _, i := range deal(src, shapes, total, n) {
		s := shapes[i]
		out = append(out, Prompt{Tokens: v.draw(src, between(src, s.In)), OutputLen: between(src, s.Out)})
	}
	return out, nil
}

// deal is which of the shapes each of n prompts has.
func deal(src *rand.ChaCha8, shapes []Shape, total float64, n int) []int {
	out := make([]int, 0, n)
	if len(shapes) == 1 {
		for range n {
			share(src) // sets of one shape that were frozen before drew it too
			out = append(out, 0)
		}
		return out
	}
	order := make([]int, len(shapes))
	rest := make([]float64, len(shapes))
	for i, s := range shapes {
		exact := s.Weight / total * float64(n)
		whole := int(exact + 1e-9)
		order[i], rest[i] = i, exact-float64(whole)
		out = append(out, slices.Repeat([]int{i}, whole)...)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for i := 0; len(out) < n; i++ {
		out = append(out, order[i%len(order)])
	}
	for i := n - 1; i > 0; i-- { // Fisher and Yates
		j := int(below(src, uint64(i+1)))
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// share draws from [0, 1).
func share(src *rand.ChaCha8) float64 { return float64(src.Uint64()>>11) / (1 << 53) }

func between(src *rand.ChaCha8, b [2]int) int {
	return b[0] + int(below(src, uint64(b[1]-b[0]+1)))
}

// Prefixes makes n prompts in groups that share their first tokens, the groups
// in turn, so that a prefix cache is asked for all of them at once.
func Prefixes(v Ids, groups, prefix, suffix, output, n int) ([]Prompt, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	if min(groups, prefix, suffix, output, n) < 1 {
		return nil, fmt.Errorf("%d prompts in %d groups with %d + %d tokens in, %d out; each is at least 1", n, groups, prefix, suffix, output)
	}
	src := v.source("prefix")
	var heads [][]int
	for range groups {
		heads = append(heads, v.draw(src, prefix))
	}
	var out []Prompt
	for i := range n {
		out = append(out, Prompt{Tokens: slices.Concat(heads[i%groups], v.draw(src, suffix)), OutputLen: output})
	}
	return out, nil
}

// Sessions makes conversations of token ids: each turn's prompt is the one
// before, a frozen answer of the asked length and new tokens. think is drawn
// exponentially with that mean, in seconds.
func Sessions(v Ids, sessions, turns, input, output int, think float64) ([]Prompt, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	if min(sessions, turns, input, output) < 1 || !(think >= 0) {
		return nil, fmt.Errorf("%d sessions of %d turns, %d tokens in and %d out, thinking %v s; each is at least 1, time at least 0", sessions, turns, input, output, think)
	}
	src := v.source("sessions")
	var out []Prompt
	for s := range sessions {
		var ids []int
		for t := range turns {
			turn := Turn{Session: s + 1, Number: t + 1}
			if t > 0 {
				ids = append(ids, v.draw(src, output)...)
				turn.Think = -think * math.Log(1-share(src))
			}
			ids = append(ids, v.draw(src, input)...)
			out = append(out, Prompt{Tokens: slices.Clone(ids), OutputLen: output, Turn: turn})
		}
	}
	return out, nil
}

// nonceLen is how many tokens make a prompt unlike all others: 8 of even two
// hundred ids collide once in 10^18.
const nonceLen = 8

// Nonce makes prompts that no other run has sent, so that no cached prefix of
// an earlier run answers them: the first tokens are replaced by ones that
// follow from the run's name, so that lengths stay; a text gets a line in front.
// Prompts that shared a prefix go on sharing it, within this run.
func Nonce(v Ids, run string, prompts []Prompt) []Prompt {
	out := slices.Clone(prompts)
	for i, p := range out {
		switch {
		case len(p.Tokens) > 0:
			// The replacement follows from what it replaces.
			n := min(nonceLen, len(p.Tokens))
			src := v.source(fmt.Sprintf("nonce %q %v", run, p.Tokens[:n]))
			out[i].Tokens = slices.Concat(v.draw(src, n), p.Tokens[n:])
		case p.Text != "":
			out[i].Text = mark(run, p.Text) + p.Text
		default:
			out[i].Messages = slices.Clone(p.Messages)
			out[i].Messages[0].Content = mark(run, p.Messages[0].Content) + p.Messages[0].Content
		}
	}
	return out
}

func mark(run, text string) string {
	start := text[:min(len(text), 256)]
	sum := sha256.Sum256([]byte(run + "\x00" + start))
	return fmt.Sprintf("[%x]\n", sum[:6])
}

// Adapters gives each prompt one of the named adapters, in turn.
func Adapters(names []string, prompts []Prompt) []Prompt {
	out := slices.Clone(prompts)
	for i := range out {
		if len(names) > 0 {
			out[i].Adapter = names[i%len(names)]
		}
	}
	return out
}

// Cancel lets the client leave this share of the prompts after so many seconds,
// spread evenly. Turns of sessions are never cancelled.
func Cancel(part, after float64, prompts []Prompt) ([]Prompt, error) {
	if !(part >= 0 && part <= 1) || !(after > 0) {
		return nil, fmt.Errorf("cancelling a share of %v after %v s; write a share of 1 and a time above 0", part, after)
	}
	out := slices.Clone(prompts)
	for i := range out {
		if math.Floor(float64(i+1)*part) > math.Floor(float64(i)*part) && out[i].Turn.Session == 0 {
			out[i].Cancel = after
		}
	}
	return out, nil
}
