package repeat

import (
	"fmt"
	"math"
)

// Interval is a ratio with the bounds that its noise allows.
type Interval struct {
	Low    float64 `json:"low"`
	Middle float64 `json:"middle"`
	High   float64 `json:"high"`
}

// share is what a look may spend of Error: little when there are few samples,
// 1/10, 2/10, 3/10 and 4/10 of it at four looks. The shares of all looks add up
// to 1, so by Bonferroni the whole error is kept whatever the looks share.
func share(look, looks int) float64 {
	return float64(look) / float64(looks*(looks+1)/2)
}

// Judge compares two sides after a look, counted from 1 of looks. The interval
// of the ratio is Welch's, of the means of logarithms: run-to-run noise is a
// factor, and of noise that is symmetric as a factor the mean of logarithms is
// that of the median. Ahead and behind need the whole interval outside the
// band. A tie needs the two one-sided tests of equivalence, so its interval is
// that of twice the look's error. At the last look what is still open is
// unresolved.
func Judge(a, b []float64, band float64, look, looks int) (Verdict, Interval, error) {
	if len(a) < 2 || len(b) < 2 || band < 0 || look < 1 || look > looks {
		return Undecided, Interval{}, fmt.Errorf("judging %d and %d samples at look %d of %d with a band of %g", len(a), len(b), look, looks, band)
	}
	for _, v := range append(append([]float64(nil), a...), b...) {
		if !(v > 0) || math.IsInf(v, 0) {
			return Undecided, Interval{}, fmt.Errorf("a sample is %g; only positive numbers have a ratio", v)
		}
	}
	spend := Error * share(look, looks)
	wide := ratio(a, b, spend)
	low, high := 1/(1+band), 1+band
	switch {
	case wide.Low > high:
		return Ahead, wide, nil
	case wide.High < low:
		return Behind, wide, nil
	}
	if t := ratio(a, b, 2*spend); t.Low > low && t.High < high {
		return Tied, wide, nil
	}
	if look == looks {
		return Unresolved, wide, nil
	}
	return Undecided, wide, nil
}

// ratio is the interval of a over b that misses the true ratio with the chance
// alpha, half of it on each side.
func ratio(a, b []float64, alpha float64) Interval {
	ma, va := logs(a)
	mb, vb := logs(b)
	va, vb = va/float64(len(a)), vb/float64(len(b))
	d, se := ma-mb, math.Sqrt(va+vb)
	if se == 0 {
		return Interval{math.Exp(d), math.Exp(d), math.Exp(d)}
	}
	freedom := (va + vb) * (va + vb) / (va*va/float64(len(a)-1) + vb*vb/float64(len(b)-1))
	half := quantile(1-alpha/2, freedom) * se
	return Interval{math.Exp(d - half), math.Exp(d), math.Exp(d + half)}
}

// logs is the mean and the variance (by n-1) of the logarithms.
func logs(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += math.Log(v)
	}
	mean /= float64(len(x))
	for _, v := range x {
		d := math.Log(v) - mean
		variance += d * d
	}
	return mean, variance / float64(len(x)-1)
}

// quantile is Student's t: the value below which a share p, above one half,
// lies with so many degrees of freedom. By halving; 40 steps are exact to twelve digits.
func quantile(p, freedom float64) float64 {
	low, high := 0.0, 1.0
	for studentCDF(high, freedom) < p {
		low, high = high, 2*high
	}
	for range 40 {
		if mid := (low + high) / 2; studentCDF(mid, freedom) < p {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// studentCDF is for t ≥ 0.
func studentCDF(t, freedom float64) float64 {
	return 1 - incompleteBeta(freedom/2, 0.5, freedom/(freedom+t*t))/2
}

// incompleteBeta is the regularised incomplete beta function, by its continued
// fraction (Lentz's method), on the side where that converges fast.
func incompleteBeta(a, b, x float64) float64 {
	if x <= 0 || x >= 1 {
		return min(max(x, 0), 1)
	}
	if x > (a+1)/(a+b+2) {
		return 1 - incompleteBeta(b, a, 1-x)
	}
	ga, _ := math.Lgamma(a)
	gb, _ := math.Lgamma(b)
	gab, _ := math.Lgamma(a + b)
	front := math.Exp(gab-ga-gb+a*math.Log(x)+b*math.Log(1-x)) / a
	const tiny = 1e-300
	c, d := 1.0, 1/nonzero(1-(a+b)*x/(a+1), tiny)
	f := d
	for m := 1.0; m < 300; m++ {
		even := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		d = 1 / nonzero(1+even*d, tiny)
		c = nonzero(1+even/c, tiny)
		f *= c * d
		odd := -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		d = 1 / nonzero(1+odd*d, tiny)
		c = nonzero(1+odd/c, tiny)
		step := c * d
		f *= step
		if math.Abs(step-1) < 1e-15 {
			break
		}
	}
	return front * f
}

func nonzero(v, tiny float64) float64 {
	if math.Abs(v) < tiny {
		return tiny
	}
	return v
}
