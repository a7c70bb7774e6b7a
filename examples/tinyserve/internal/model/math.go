package model

import (
	"math"
	"math/rand/v2"
)

// The coefficients 1/i! of the exponential series.
const (
	c2 = 1.0 / 2
	c3 = c2 / 3
	c4 = c3 / 4
	c5 = c4 / 5
	c6 = c5 / 6
	c7 = c6 / 7
	c8 = c7 / 8
)

// exp returns eˣ, correct to about one unit in the last place of float32: 0
// below -87, and as for 88 above 88.
func exp(x float32) float32 {
	if !(x >= -87) {
		return 0
	}
	v := float64(min(x, 88))
	n := math.Floor(float64(v*math.Log2E) + 0.5)
	r := v - float64(n*math.Ln2) // |r| ≤ ln 2 / 2
	p := c7 + float64(r*c8)
	p = c6 + float64(r*p)
	p = c5 + float64(r*p)
	p = c4 + float64(r*p)
	p = c3 + float64(r*p)
	p = c2 + float64(r*p)
	p = 1 + float64(r*p)
	p = 1 + float64(r*p)
	return float32(p * math.Float64frombits(uint64(1023+int64(n))<<52))
}

// rotation holds cosine and sine of each position's angles, half of a head's
// dimension a position; and 1/√dim, by which scores are scaled.
type rotation struct {
	half     int
	scale    float32
	cos, sin []float32
}

// rotations returns the angles position · base^(-2i/dim) for 0 ≤ i < dim/2.
// dim is a power of two, so the root of the base is a chain of square roots.
func rotations(dim, positions int) rotation {
	r := rotation{half: dim / 2, scale: float32(1 / math.Sqrt(float64(dim)))}
	r.cos, r.sin = make([]float32, positions*r.half), make([]float32, positions*r.half)
	ratio := 1.0 / 10000
	for n := r.half; n > 1; n /= 2 {
		ratio = math.Sqrt(ratio)
	}
	angle := 1.0
	for i := range r.half {
		stepSin, stepCos := sincos(angle)
		sin, cos := 0.0, 1.0
		for p := range positions {
			r.cos[p*r.half+i], r.sin[p*r.half+i] = float32(cos), float32(sin)
			sin, cos = float64(sin*stepCos)+float64(cos*stepSin), float64(cos*stepCos)-float64(sin*stepSin)
		}
		angle *= ratio
	}
	return r
}

// sincos sums the series of sine and cosine, for 0 ≤ x ≤ 1.
func sincos(x float64) (sin, cos float64) {
	term := 1.0
	for i := 0; i < 20; i += 4 {
		cos += term
		term = term * x / float64(i+1)
		sin += term
		term = term * x / float64(i+2)
		cos -= term
		term = term * x / float64(i+3)
		sin -= term
		term = term * x / float64(i+4)
	}
	return sin, cos
}

// turn rotates the halves of each head of v to position p.
func (r rotation) turn(v []float32, p int) {
	cos, sin := r.cos[p*r.half:][:r.half], r.sin[p*r.half:][:r.half]
	for ; len(v) > 0; v = v[2*r.half:] {
		a, b := v[:r.half], v[r.half:2*r.half]
		for i := range a {
			x, y := a[i], b[i]
			a[i] = float32(x*cos[i]) - float32(y*sin[i])
			b[i] = float32(y*cos[i]) + float32(x*sin[i])
		}
	}
}

// normalize writes x / rms(x) · weight, vector by vector, to dst.
func normalize(dst, x, weight []float32) {
	n := len(weight)
	for at := 0; at < len(x); at += n {
		v, d := x[at:at+n], dst[at:at+n]
		var sum float32
		for _, e := range v {
			sum += float32(e * e)
		}
		rms := float32(math.Sqrt(float64(sum/float32(n) + normEps)))
		for i, e := range v {
			d[i] = e / rms * weight[i]
		}
	}
}

// Sample returns a token of logits: the first greatest one at temperature 0,
// else one drawn with source from their softmax at that temperature. It
// overwrites logits.
func Sample(logits []float32, temperature float32, source *rand.PCG) int32 {
	best := 0
	for i, l := range logits {
		if l > logits[best] {
			best = i
		}
	}
	if temperature == 0 {
		return int32(best)
	}
	top := logits[best]
	var sum float32
	for i, l := range logits {
		logits[i] = exp((l - top) / temperature)
		sum += logits[i]
	}
	point := float32(source.Uint64()>>40) / (1 << 24) * sum
	var upTo float32
	for i, p := range logits {
		if upTo += p; point < upTo {
			return int32(i)
		}
	}
	return int32(best) // the point was rounded up to the sum itself
}
