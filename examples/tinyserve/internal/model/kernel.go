package model

import (
	"fmt"
	"sync"
)

// product is the matrix product dst = x·wᵀ for a batch of vectors:
//
//	dst[t*rows+o] = Σ_k w[o*cols+k] · x[t*cols+k]   k ascending
//
// rows is a multiple of tile.
type product struct {
	dst, w, x         []float32
	rows, cols, batch int
}

// A Kernel computes the outputs from ≤ o < to of all vectors; both bounds are
// multiples of tile. All kernels give the same bits.
type Kernel func(p product, from, to int)

// Kernels are the kernels by their names on the command line.
var Kernels = map[string]Kernel{"naive": naive, "blocked": blocked}

// naive is the formula as it stands: each output is summed in memory.
func naive(p product, from, to int) {
	for t := range p.batch {
		for o := from; o < to; o++ {
			p.dst[t*p.rows+o] = 0
			for k := range p.cols {
				p.dst[t*p.rows+o] += float32(p.w[o*p.cols+k] * p.x[t*p.cols+k])
			}
		}
	}
}

// tile is the number of outputs that blocked computes at once.
const tile = 4

// blocked computes tile outputs at once: their sums are in registers and
// independent, which hides the latency of an addition, and an input that is
// loaded once serves all of them. The weights of a tile stay in the nearest
// cache for the whole batch. Eight sums at once, of more outputs or of two
// vectors, are slower: the compiler spills registers.
func blocked(p product, from, to int) {
	for o := from; o < to; o += tile {
		w := p.w[o*p.cols : (o+tile)*p.cols]
		for t := range p.batch {
			four(p.dst[t*p.rows+o:], w, p.x[t*p.cols:(t+1)*p.cols])
		}
	}
}

// four computes tile outputs of one vector. Slices of equal length let the
// compiler drop the bounds checks of the loop.
func four(dst, w, x []float32) {
	w0 := w[:len(x)]
	w1 := w[len(x):][:len(x)]
	w2 := w[2*len(x):][:len(x)]
	w3 := w[3*len(x):][:len(x)]
	var a0, a1, a2, a3 float32
	for k, v := range x {
		a0 += float32(w0[k] * v)
		a1 += float32(w1[k] * v)
		a2 += float32(w2[k] * v)
		a3 += float32(w3[k] * v)
	}
	dst[0], dst[1], dst[2], dst[3] = a0, a1, a2, a3
}

// multiply computes p with the runner's kernel, its outputs shared among the
// threads.
func (r *Runner) multiply(dst, w, x []float32, rows, cols, batch int) {
	if rows%tile != 0 || len(w) != rows*cols {
		panic(fmt.Sprintf("model: a product of %d×%d over %d weights", rows, cols, len(w)))
	}
	p := product{dst, w, x, rows, cols, batch}
	r.share(rows/tile, func(_, from, to int) { r.kernel(p, from*tile, to*tile) })
}

// share cuts [0, n) into one range a thread and waits until do has done all of
// them. With one thread no goroutine is started.
func (r *Runner) share(n int, do func(thread, from, to int)) {
	parts := min(r.threads, n)
	var wg sync.WaitGroup
	for i := 1; i < parts; i++ {
		wg.Go(func() { do(i, i*n/parts, (i+1)*n/parts) })
	}
	if n > 0 {
		do(0, 0, n/parts)
	}
	wg.Wait()
}
