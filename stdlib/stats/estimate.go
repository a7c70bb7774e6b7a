package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// estimate is the shift of log A against log B.
type estimate struct {
	log  float64 // Hodges–Lehmann: the median of all differences
	se   float64 // its standard error
	df   float64 // Welch's degrees of freedom
	a, b float64 // run-to-run standard deviations of the logarithms
}

// pseudo is the variance of the Hodges–Lehmann estimate over that of the mean
// for normal noise (π/3). The plain ratio of the two medians would cost 57 %
// more variance and leave equal systems unresolved; the ratio of means would
// follow a single outlier.
const pseudo = math.Pi / 3

// shift estimates from equally many runs, at least two, all positive. The
// spread is taken from the standard deviations: an outlier makes the interval
// wider, never the centre wrong.
func shift(a, b []float64) estimate {
	x, y := logs(a), logs(b)
	n := float64(len(x))
	diffs := make([]float64, 0, len(x)*len(y))
	for _, u := range x {
		for _, v := range y {
			diffs = append(diffs, u-v)
		}
	}
	e := estimate{log: median(diffs), a: deviation(x), b: deviation(y)}
	va, vb := e.a*e.a/n, e.b*e.b/n
	e.se = math.Sqrt(pseudo * (va + vb))
	if va+vb > 0 {
		e.df = (va + vb) * (va + vb) / ((va*va + vb*vb) / (n - 1))
	}
	return e
}

// half is half the width of the interval whose two-sided normal bound is z:
// the same tail, taken from Student's distribution. Runs that are equal to the
// last bit have no width.
func (e estimate) half(z float64) float64 {
	if e.se == 0 {
		return 0
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: e.df}
	return -t.Quantile(tail(z)/2) * e.se
}

// tail is the two-sided tail of the normal distribution beyond z.
func tail(z float64) float64 { return math.Erfc(z / math.Sqrt2) }

func logs(v []float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = math.Log(x)
	}
	return out
}

func median(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// deviation is the sample standard deviation (n − 1).
func deviation(v []float64) float64 {
	mean, sum := 0.0, 0.0
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		sum += (x - mean) * (x - mean)
	}
	if sum < 1e-28 { // rounding of the logarithm is no noise
		return 0
	}
	return math.Sqrt(sum / float64(len(v)-1))
}
