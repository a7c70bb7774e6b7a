package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/vocab"
)

// tokens returns n pseudo-random token ids.
func tokens(seed uint64, n int) []int32 {
	source := rand.New(rand.NewPCG(seed, 1))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(source.IntN(vocab.Size))
	}
	return ids
}

// reference computes the logits of the last of ids in float64 and without a
// cache, batch, kernel or shared code: the textbook form of the architecture.
func reference(m *Model, ids []int32) []float64 {
	hidden, dim, kvDim := m.Hidden, m.Hidden/m.Heads, m.Hidden/m.Heads*m.KVHeads
	times := func(w []float32, x []float64) []float64 {
		y := make([]float64, len(w)/len(x))
		for o := range y {
			for k, v := range x {
				y[o] += float64(w[o*len(x)+k]) * v
			}
		}
		return y
	}
	norm := func(x []float64, w []float32) []float64 {
		sum, y := 0.0, make([]float64, len(x))
		for _, v := range x {
			sum += v * v
		}
		for i, v := range x {
			y[i] = v / math.Sqrt(sum/float64(len(x))+1e-5) * float64(w[i])
		}
		return y
	}
	rope := func(v []float64, pos int) {
		for i := range dim / 2 {
			s, c := math.Sincos(float64(pos) * math.Pow(10000, -2*float64(i)/float64(dim)))
			v[i], v[i+dim/2] = v[i]*c-v[i+dim/2]*s, v[i+dim/2]*c+v[i]*s
		}
	}
	xs := make([][]float64, len(ids))
	for p, id := range ids {
		xs[p] = make([]float64, hidden)
		for i := range hidden {
			xs[p][i] = float64(m.embed[int(id)*hidden+i])
		}
	}
	for _, l := range m.layers {
		qkv := make([][]float64, len(ids))
		for p, x := range xs {
			qkv[p] = times(l.qkv, norm(x, l.attnNorm))
			for h := range m.Heads + m.KVHeads {
				rope(qkv[p][h*dim:(h+1)*dim], p)
			}
		}
		for p := range xs {
			att := make([]float64, hidden)
			for h := range m.Heads {
				g := h / (m.Heads / m.KVHeads)
				sum := 0.0
				for s := range p + 1 {
					dot := 0.0
					for d := range dim {
						dot += qkv[p][h*dim+d] * qkv[s][hidden+g*dim+d]
					}
					e := math.Exp(dot / math.Sqrt(float64(dim)))
					sum += e
					for d := range dim {
						att[h*dim+d] += e * qkv[s][hidden+kvDim+g*dim+d]
					}
				}
				for d := range dim {
					att[h*dim+d] /= sum
				}
			}
			for i, v := range times(l.out, att) {
				xs[p][i] += v
			}
			gu := times(l.gateUp, norm(xs[p], l.ffnNorm))
			act := make([]float64, m.Intermediate)
			for i := range act {
				act[i] = gu[i] / (1 + math.Exp(-gu[i])) * gu[m.Intermediate+i]
			}
			for i, v := range times(l.down, act) {
				xs[p][i] += v
			}
		}
	}
	logits := times(m.head, norm(xs[len(xs)-1], m.norm))
	for i := range logits {
		logits[i] += float64(m.bias[i])
	}
	return logits
}

func TestLogitsAreThoseOfTheTextbook(t *testing.T) {
	m := New(tinyConfig(t))
	for _, n := range []int{1, 2, 17, 40} {
		ids := tokens(uint64(n), n)
		kv, tables := sequences(m, 1, n)
		got := NewRunner(m, kv, blocked, 1).Step([]Piece{{Tokens: ids, Blocks: tables[0], Logits: true}})[0]
		for i, want := range reference(m, ids) {
			if d := math.Abs(float64(got[i]) - want); d > 1e-4 {
				t.Fatalf("logit %d of %d tokens is %v, want %v", i, n, got[i], want)
			}
		}
	}
}

// TestTextbookGivesTheGoldenTokens has the tokens that package engine's tests
// pin for the server.
func TestTextbookGivesTheGoldenTokens(t *testing.T) {
	m := New(tinyConfig(t))
	ids := []int32{1, 300, 301, 302, 303}
	for i, want := range []int32{104, 296, 270, 38, 95, 271, 462, 42, 486, 429, 131, 455, 95, 341, 287, 130} {
		logits := reference(m, ids)
		if got := int32(slices.Index(logits, slices.Max(logits))); got != want {
			t.Fatalf("token %d is %d, want %d", i, got, want)
		}
		ids = append(ids, want)
	}
}

// bits makes float32 numbers comparable bit for bit.
func bits(v []float32) []uint32 {
	b := make([]uint32, len(v))
	for i, f := range v {
		b[i] = math.Float32bits(f)
	}
	return b
}

// decodeAll computes each prompt in chunks of at most chunk tokens, all
// prompts of a step together, then four tokens greedily, and returns the bits
// of all logits that follow a whole prompt.
func decodeAll(r *Runner, tables [][]int32, prompts [][]int32, chunk int) [][][]uint32 {
	seqs := make([][]int32, len(prompts))
	done := make([]int, len(prompts))
	logits := make([][][]uint32, len(prompts))
	for i := range prompts {
		seqs[i] = slices.Clone(prompts[i])
	}
	for {
		var pieces []Piece
		var owner []int
		for i, s := range seqs {
			if len(logits[i]) == 5 {
				continue
			}
			n := min(chunk, len(s)-done[i])
			pieces = append(pieces, Piece{Tokens: s[done[i] : done[i]+n], Start: done[i], Blocks: tables[i], Logits: done[i]+n == len(s)})
			owner = append(owner, i)
			done[i] += n
		}
		if len(pieces) == 0 {
			return logits
		}
		for j, l := range r.Step(pieces) {
			if l != nil {
				i := owner[j]
				logits[i] = append(logits[i], bits(l))
				seqs[i] = append(seqs[i], Sample(l, 0, nil))
			}
		}
	}
}

func TestLogitsDependOnWeightsAndTokensOnly(t *testing.T) {
	m := New(tinyConfig(t))
	prompts := [][]int32{tokens(1, 37), tokens(2, 5), tokens(3, 64), tokens(4, 18), tokens(5, 1)}
	const room = 80
	alone := make([][][]uint32, len(prompts))
	for i, p := range prompts {
		kv, tables := sequences(m, 1, room)
		alone[i] = decodeAll(NewRunner(m, kv, naive, 1), tables, [][]int32{p}, 1)[0]
	}
	for name, kernel := range Kernels {
		for _, threads := range []int{1, 3} {
			for _, chunk := range []int{1, 7, 16, 64} {
				for _, batch := range []int{1, 2, 5} {
					t.Run(fmt.Sprintf("%s_threads%d_chunk%d_batch%d", name, threads, chunk, batch), func(t *testing.T) {
						if testing.Short() && name == "naive" && chunk != 7 {
							t.Skip("short")
						}
						kv, tables := sequences(m, batch, room)
						r := NewRunner(m, kv, kernel, threads)
						for i, got := range decodeAll(r, tables, prompts[:batch], chunk) {
							for n := range got {
								if !slices.Equal(got[n], alone[i][n]) {
									t.Fatalf("logits %d after prompt %d differ from those of the naive kernel, alone, token by token", n, i)
								}
							}
						}
					})
				}
			}
		}
	}
}

func TestLogitsOverSharedBlocksAreTheSame(t *testing.T) {
	m := New(tinyConfig(t))
	ids := tokens(6, 45)
	kv, tables := sequences(m, 2, 48)
	r := NewRunner(m, kv, blocked, 1)
	want := bits(r.Step([]Piece{{Tokens: ids, Blocks: tables[0], Logits: true}})[0])
	shared := []int32{tables[0][0], tables[0][1], tables[1][0]}
	got := bits(r.Step([]Piece{{Tokens: ids[32:], Start: 32, Blocks: shared, Logits: true}})[0])
	if !slices.Equal(got, want) {
		t.Error("the logits over another sequence's first two blocks differ")
	}
}

func TestExpIsExact(t *testing.T) {
	for x := float32(-86); x < 88; x += 0.0137 {
		want := math.Exp(float64(x))
		if rel := math.Abs(float64(exp(x))-want) / want; rel > 6.1e-8 { // half a unit in the last place, and a little
			t.Fatalf("exp(%v) = %v, want %v (off by %g)", x, exp(x), want, rel)
		}
	}
	for x, want := range map[float32]float32{-88: 0, float32(math.Inf(-1)): 0, 0: 1, 1: math.E, 1000: exp(88)} {
		if exp(x) != want {
			t.Errorf("exp(%v) = %v, want %v", x, exp(x), want)
		}
	}
}

func TestRotationsAreSineAndCosine(t *testing.T) {
	const dim = 32
	r := rotations(dim, 4096)
	for p := range 4096 {
		for i := range dim / 2 {
			sin, cos := math.Sincos(float64(p) * math.Pow(10000, -2*float64(i)/dim))
			at := p*dim/2 + i
			if math.Abs(float64(r.sin[at])-sin) > 1e-7 || math.Abs(float64(r.cos[at])-cos) > 1e-7 {
				t.Fatalf("position %d pair %d: %v, %v, want %v, %v", p, i, r.sin[at], r.cos[at], sin, cos)
			}
		}
	}
}

func TestSample(t *testing.T) {
	if got := Sample([]float32{1, 3, 3, 2}, 0, nil); got != 1 {
		t.Errorf("greedy gave %d, want 1: the first of the greatest", got)
	}
	// ln 1, ln 2, ln 5: shares 1/8, 2/8, 5/8 at temperature 1. 8,000 draws have
	// a standard deviation below 0.0055.
	source, counts := rand.NewPCG(7, 0), [3]int{}
	for range 8000 {
		counts[Sample([]float32{0, 0.6931472, 1.609438}, 1, source)]++
	}
	for i, want := range []float64{0.125, 0.25, 0.625} {
		if share := float64(counts[i]) / 8000; math.Abs(share-want) > 0.022 {
			t.Errorf("token %d has share %.3f, want %.3f", i, share, want)
		}
	}
	// At half the temperature the shares are those of 1, 4, 25.
	counts = [3]int{}
	for range 8000 {
		counts[Sample([]float32{0, 0.6931472, 1.609438}, 0.5, source)]++
	}
	if share := float64(counts[2]) / 8000; math.Abs(share-25.0/30) > 0.022 {
		t.Errorf("token 2 has share %.3f at temperature 0.5, want %.3f", share, 25.0/30)
	}
}

func TestReadConfigSaysWhatIsWrong(t *testing.T) {
	good, err := os.ReadFile("../../../models/tiny/config.json")
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name, old, new string
		want           []string
	}{
		{"unknown_key", `"seed": 1`, `"seed": 1, "rope_theta": 5`, []string{"rope_theta"}},
		{"no_seed", `,
  "seed": 1`, "", []string{"seed is missing"}},
		{"two_wrong_at_once", `"hidden_size": 128,
  "num_hidden_layers": 2`, `"hidden_size": 0,
  "num_hidden_layers": -1`, []string{"hidden_size must be", "num_hidden_layers must be"}},
		{"vocabulary", `"vocab_size": 512`, `"vocab_size": 32000`, []string{"vocab_size must be 512"}},
		{"heads", `"num_attention_heads": 4`, `"num_attention_heads": 3`, []string{"must be a multiple of num_attention_heads (3)"}},
		{"head_dimension", `"hidden_size": 128`, `"hidden_size": 96`, []string{"power of two from 4 up, not 24"}},
		{"intermediate", `"intermediate_size": 320`, `"intermediate_size": 322`, []string{"multiple of 4, not 322"}},
		{"real_model", `"tinyserve"`, `"llama"`, []string{`model_type is "llama"`}},
		{"huge", `"num_hidden_layers": 2`, `"num_hidden_layers": 1024`, []string{"parameters; at most"}},
		{"not_json", `{`, `[`, []string{"config.json"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			text := strings.Replace(string(good), c.old, c.new, 1)
			if text == string(good) {
				t.Fatalf("%q is not in the config", c.old)
			}
			if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := ReadConfig(dir)
			if err == nil {
				t.Fatal("the config was accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
	if _, err := ReadConfig(t.TempDir()); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("a folder without config.json gave %v", err)
	}
}
