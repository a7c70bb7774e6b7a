// Package model is tinyserve's transformer: random weights from a seed,
// RMSNorm, rotary positions, grouped-query attention over a paged key/value
// cache, SwiGLU.
//
// The invariant: the logits of a token are a function of the weights and of
// the tokens before it, bit for bit, on every machine. Which other sequences
// share a step, how a prompt is cut into chunks, which kernel and how many
// threads compute it, and whether its keys and values come from a cache, can
// change the speed only. Four rules keep it so:
//
//   - every reduction (matrix product, norm, softmax, attention) adds float32
//     numbers in ascending order of index into one accumulator; kernels may
//     interleave different outputs, never split one output's sum;
//   - a product is rounded before it is added (float32(a*b) + c), else the
//     compiler may fuse the two on some machines;
//   - each output is written by one thread;
//   - exp, sine and cosine are computed here from operations that IEEE 754
//     defines exactly, since the standard library's may differ in the last bit.
//
// A Model is immutable and may be shared. A Runner (step.go) has scratch
// memory and one user at a time. The package knows no request, no schedule and
// no text. Misuse of its API panics.
package model

import (
	"math"
	"math/rand/v2"

	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/vocab"
)

const (
	vocabSize = vocab.Size
	normEps   = 1e-5
	// logitSpread is the standard deviation of the logits before the bias.
	logitSpread = 2
	// eosRate is roughly the chance of EOS per token at temperature 1.
	eosRate = 1.0 / 64
	// never is a bias that keeps a token from being sampled.
	never = -40
)

// Model is the weights. A matrix of r rows and c columns is r·c numbers, row
// after row; row o gives output o.
type Model struct {
	Config
	embed  []float32 // vocab × hidden
	layers []layer
	norm   []float32 // hidden
	head   []float32 // vocab × hidden
	bias   []float32 // vocab
	angles rotation
}

type layer struct {
	attnNorm []float32 // hidden
	qkv      []float32 // (hidden + 2·kvDim) × hidden: queries, keys, values
	out      []float32 // hidden × hidden
	ffnNorm  []float32 // hidden
	gateUp   []float32 // 2·intermediate × hidden: gates, then ups
	down     []float32 // hidden × intermediate
}

// New makes the model of c, which must come from ReadConfig.
func New(c Config) *Model {
	w := weights{rand.NewPCG(*c.Seed, 0)}
	m := &Model{Config: c, angles: rotations(c.headDim(), c.MaxPositions)}
	m.embed = w.matrix(c.VocabSize, c.Hidden, math.Sqrt(float64(c.Hidden)))
	for range c.Layers {
		// Layers write little to the residual stream, so that the logits keep
		// their spread whatever the depth.
		m.layers = append(m.layers, layer{
			attnNorm: w.nearOne(c.Hidden),
			qkv:      w.matrix(c.Hidden+2*c.kvDim(), c.Hidden, 1),
			out:      w.matrix(c.Hidden, c.Hidden, 0.5),
			ffnNorm:  w.nearOne(c.Hidden),
			gateUp:   w.matrix(2*c.Intermediate, c.Hidden, 1),
			down:     w.matrix(c.Hidden, c.Intermediate, 0.5),
		})
	}
	m.norm = w.nearOne(c.Hidden)
	m.head = w.matrix(c.VocabSize, c.Hidden, logitSpread)
	m.bias = bias()
	return m
}

// bias lets only printable tokens and EOS be sampled: lone bytes from 0x80 up
// would make a server hold text back until a character is whole, and streams
// would show gaps that no trained model shows.
func bias() []float32 {
	b := make([]float32, vocabSize)
	printable := 0
	for id := range vocab.ID(vocabSize) {
		if vocab.Plain(id) {
			printable++
		} else {
			b[id] = never
		}
	}
	// EOS has its own spread; its mean chance against printable others of the
	// same spread is that of their number.
	b[vocab.EOS] = float32(math.Round(16*math.Log(eosRate*float64(printable))) / 16)
	return b
}

// weights draws numbers from a source whose sequence Go keeps stable.
type weights struct{ source *rand.PCG }

// unit returns a multiple of 2⁻²³ in [-1, 1): exact in float32.
func (w weights) unit() float32 {
	return float32(int64(w.source.Uint64()>>40)-1<<23) / (1 << 23)
}

// matrix returns uniform numbers with mean 0 and standard deviation
// gain/√columns, so that a product with a vector of unit numbers has standard
// deviation gain.
func (w weights) matrix(rows, columns int, gain float64) []float32 {
	scale := float32(gain * math.Sqrt(3/float64(columns)))
	m := make([]float32, rows*columns)
	for i := range m {
		m[i] = w.unit() * scale
	}
	return m
}

// nearOne returns a norm's weights, in [0.75, 1.25).
func (w weights) nearOne(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = 1 + w.unit()/4
	}
	return v
}
