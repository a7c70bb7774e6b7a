package model

import "fmt"

// Piece is a run of tokens of one sequence to compute in a step.
type Piece struct {
	Tokens []int32 // at least one
	Start  int     // position of the first, from 0; those before are in the cache
	// Blocks holds positions i·BlockSize and up in Blocks[i]; it covers at
	// least all positions up to the last token's.
	Blocks []int32
	Logits bool // whether the last token's logits are wanted
}

// Runner computes steps. It has one user at a time.
type Runner struct {
	// Lap, where it is set, is called after each function of a step with the
	// operation that it was, the function's name, and the shapes of its inputs.
	// It changes no bit.
	Lap func(op, kernel string, shapes ...[2]int)

	model   *Model
	kv      *KV
	kernel  Kernel
	threads int
	buffers
}

// buffers are reused by each step, grown when a step is larger.
type buffers struct {
	x, h, qkv, att, gateUp, act []float32
	logits                      []float32
	scores                      [][]float32 // a thread
	at                          []place
}

// place is where one row of a step belongs.
type place struct {
	piece    *Piece
	position int
}

// NewRunner returns a runner of m over kv. threads is at least 1.
func NewRunner(m *Model, kv *KV, kernel Kernel, threads int) *Runner {
	r := &Runner{model: m, kv: kv, kernel: kernel, threads: threads}
	group := m.Heads / m.KVHeads
	longest := (m.MaxPositions + BlockSize - 1) / BlockSize * BlockSize
	for range threads {
		r.scores = append(r.scores, make([]float32, group*longest))
	}
	return r
}

// Step computes all pieces, puts their keys and values into the cache, and
// returns the wanted logits, a piece each, nil where not wanted. They are
// valid until the next step, and the caller may overwrite them.
func (r *Runner) Step(pieces []Piece) [][]float32 {
	m := r.model
	r.gather(pieces)
	rows := len(r.at)
	state := [2]int{rows, m.Hidden}
	r.lap("embedding", "embedding_gather", [2]int{m.VocabSize, m.Hidden})
	kvDim := m.kvDim()
	for l := range m.layers {
		w := &m.layers[l]
		normalize(r.h, r.x, w.attnNorm)
		r.lap("input_norm", "rmsnorm", state)
		r.multiply(r.qkv, w.qkv, r.h, m.Hidden+2*kvDim, m.Hidden, rows)
		r.lap("qkv_proj", "matmul", state, [2]int{m.Hidden, m.Hidden + 2*kvDim})
		r.store(l)
		r.lap("rotary", "rope_store_kv_cache", [2]int{rows, m.Hidden + 2*kvDim})
		r.share(rows*m.KVHeads, func(thread, from, to int) { r.attend(l, thread, from, to) })
		r.lap("attention", "paged_attention", state)
		r.multiply(r.h, w.out, r.att, m.Hidden, m.Hidden, rows)
		r.lap("o_proj", "matmul", state, [2]int{m.Hidden, m.Hidden})
		add(r.x, r.h)
		r.lap("residual", "elementwise_add", state, state)
		normalize(r.h, r.x, w.ffnNorm)
		r.lap("post_attention_norm", "rmsnorm", state)
		r.multiply(r.gateUp, w.gateUp, r.h, 2*m.Intermediate, m.Hidden, rows)
		r.lap("gate_up_proj", "matmul", state, [2]int{m.Hidden, 2 * m.Intermediate})
		r.swiglu()
		r.lap("activation", "silu_and_mul", [2]int{rows, 2 * m.Intermediate})
		r.multiply(r.h, w.down, r.act, m.Hidden, m.Intermediate, rows)
		r.lap("down_proj", "matmul", [2]int{rows, m.Intermediate}, [2]int{m.Intermediate, m.Hidden})
		add(r.x, r.h)
		r.lap("residual", "elementwise_add", state, state)
	}
	return r.readOut(pieces)
}

func (r *Runner) lap(op, kernel string, shapes ...[2]int) {
	if r.Lap != nil {
		r.Lap(op, kernel, shapes...)
	}
}

// gather lays the pieces' tokens out as rows.
func (r *Runner) gather(pieces []Piece) {
	m := r.model
	r.at = r.at[:0]
	for i := range pieces {
		p := &pieces[i]
		if end := p.Start + len(p.Tokens); len(p.Tokens) == 0 || end > m.MaxPositions || end > len(p.Blocks)*BlockSize {
			panic(fmt.Sprintf("model: a piece of positions %d to %d with %d blocks and a limit of %d positions",
				p.Start, end, len(p.Blocks), m.MaxPositions))
		}
		for j := range p.Tokens {
			r.at = append(r.at, place{p, p.Start + j})
		}
	}
	rows := len(r.at)
	r.x = sized(r.x, rows*m.Hidden)
	r.h = sized(r.h, rows*m.Hidden)
	r.qkv = sized(r.qkv, rows*(m.Hidden+2*m.kvDim()))
	r.att = sized(r.att, rows*m.Hidden)
	r.gateUp = sized(r.gateUp, rows*2*m.Intermediate)
	r.act = sized(r.act, rows*m.Intermediate)
	for t, at := range r.at {
		id := int(at.piece.Tokens[at.position-at.piece.Start])
		copy(r.x[t*m.Hidden:], m.embed[id*m.Hidden:(id+1)*m.Hidden])
	}
}

// store turns queries and keys to their positions and puts keys and values
// into the cache.
func (r *Runner) store(l int) {
	m, kv := r.model, r.kv
	kvDim := m.kvDim()
	width := m.Hidden + 2*kvDim
	for t, at := range r.at {
		row := r.qkv[t*width : (t+1)*width]
		m.angles.turn(row[:m.Hidden+kvDim], at.position)
		keys, values := row[m.Hidden:][:kvDim], row[m.Hidden+kvDim:]
		block, slot := at.piece.Blocks[at.position/BlockSize], at.position%BlockSize
		for h := range kv.heads {
			to := kv.at(block, l, h) + slot*kv.dim
			copy(kv.keys[to:to+kv.dim], keys[h*kv.dim:])
			copy(kv.values[to:to+kv.dim], values[h*kv.dim:])
		}
	}
}

// swiglu writes silu(gate) · up to act.
func (r *Runner) swiglu() {
	n := r.model.Intermediate
	for t := range r.at {
		gate, up := r.gateUp[2*t*n:][:n], r.gateUp[(2*t+1)*n:][:n]
		act := r.act[t*n:][:n]
		for i, g := range gate {
			act[i] = g / (1 + exp(-g)) * up[i]
		}
	}
}

// readOut returns the logits of the pieces that want them.
func (r *Runner) readOut(pieces []Piece) [][]float32 {
	m := r.model
	wanted, row := 0, -1
	for _, p := range pieces {
		row += len(p.Tokens)
		if p.Logits {
			// wanted ≤ row, so no row is overwritten before it is read.
			copy(r.x[wanted*m.Hidden:], r.x[row*m.Hidden:(row+1)*m.Hidden])
			wanted++
		}
	}
	r.logits = sized(r.logits, wanted*m.VocabSize)
	normalize(r.h[:wanted*m.Hidden], r.x[:wanted*m.Hidden], m.norm)
	r.lap("final_norm", "rmsnorm", [2]int{wanted, m.Hidden})
	r.multiply(r.logits, m.head, r.h, m.VocabSize, m.Hidden, wanted)
	r.lap("lm_head", "matmul", [2]int{wanted, m.Hidden}, [2]int{m.Hidden, m.VocabSize})
	out := make([][]float32, len(pieces))
	next := r.logits
	for i, p := range pieces {
		if p.Logits {
			out[i], next = next[:m.VocabSize], next[m.VocabSize:]
			add(out[i], m.bias)
		}
	}
	return out
}

// add adds b to a.
func add(a, b []float32) {
	for i := range a {
		a[i] += b[i]
	}
}

// sized returns a slice of n numbers, buf's memory where it is large enough.
func sized(buf []float32, n int) []float32 {
	if cap(buf) < n {
		return make([]float32, n)
	}
	return buf[:n]
}
