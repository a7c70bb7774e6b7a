package model

// attend computes attention of layer l for the pairs from ≤ row·heads+head <
// to of row and key/value head, in the scratch memory of one thread.
func (r *Runner) attend(l, thread, from, to int) {
	m, kv := r.model, r.kv
	group := m.Heads / m.KVHeads
	width := m.Hidden + 2*m.kvDim()
	scores := r.scores[thread]
	for pair := from; pair < to; pair++ {
		t, h := pair/kv.heads, pair%kv.heads
		at := r.at[t]
		// The query heads of a group are neighbours: a batch of vectors for
		// the kernel, with a block's keys as the matrix. All of a block is
		// computed; scores beyond the position are never read.
		first := h * group * kv.dim
		queries := r.qkv[t*width+first:][:group*kv.dim]
		for b := range at.position/BlockSize + 1 {
			p := product{rows: BlockSize, cols: kv.dim, batch: group, x: queries}
			p.w = kv.keys[kv.at(at.piece.Blocks[b], l, h):][:kv.perHead]
			p.dst = scores[b*group*BlockSize:][:group*BlockSize]
			r.kernel(p, 0, BlockSize)
		}
		for g := range group {
			out := r.att[t*m.Hidden+first+g*kv.dim:][:kv.dim]
			r.mix(out, attention{scores[g*BlockSize:], group * BlockSize, at.position + 1}, at.piece.Blocks, l, h)
		}
	}
}

// attention is one head's scores for positions 0 ≤ p < n, in blocks that begin
// stride numbers apart.
type attention struct {
	scores    []float32
	stride, n int
}

// block returns the scores of block b's positions.
func (a attention) block(b int) []float32 {
	return a.scores[b*a.stride:][:min(BlockSize, a.n-b*BlockSize)]
}

// blocks returns the number of blocks.
func (a attention) blocks() int { return (a.n + BlockSize - 1) / BlockSize }

// softmax turns scores into weights, scaled by scale before, and returns the
// weights' sum, by which they are not yet divided.
func (a attention) softmax(scale float32) float32 {
	top := a.scores[0]
	for b := range a.blocks() {
		for _, s := range a.block(b) {
			top = max(top, s)
		}
	}
	var sum float32
	for b := range a.blocks() {
		block := a.block(b)
		for i, s := range block {
			block[i] = exp((s - top) * scale)
			sum += block[i]
		}
	}
	return sum
}

// mix writes the values of all positions, weighted by attention, to out.
func (r *Runner) mix(out []float32, a attention, blocks []int32, l, h int) {
	kv := r.kv
	sum := a.softmax(r.model.angles.scale)
	clear(out)
	for b := range a.blocks() {
		values := kv.values[kv.at(blocks[b], l, h):][:kv.perHead]
		for i, w := range a.block(b) {
			v := values[i*kv.dim:][:len(out)]
			for d := range out {
				out[d] += float32(w * v[d])
			}
		}
	}
	for d := range out {
		out[d] /= sum
	}
}
