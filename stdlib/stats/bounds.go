package stats

import "math"

// bounds returns for each look the two-sided normal bound at which the error
// alpha is spent over the looks as alpha·t^power, t being the share of all runs
// seen (Lan and DeMets). It integrates the joint distribution of the statistic
// at the looks numerically (Armitage, McPherson and Rowe): a random walk that
// stops at the bound.
func bounds(looks []int, alpha, power float64) []float64 {
	last := float64(looks[len(looks)-1])
	out := make([]float64, len(looks))
	var walk density // of the sum of runs, in units of one run's noise, not stopped so far
	spent := 0.0
	for i, n := range looks {
		step := float64(n)
		if i > 0 {
			step -= float64(looks[i-1])
		}
		t := float64(n) / last
		spend := alpha*math.Pow(t, power) - spent
		spent += spend
		at := math.Sqrt(float64(n))
		// The bound is where the walk that leaves it has the mass to be spent.
		low, high := 0.0, 10.0
		for range 40 {
			mid := (low + high) / 2
			if walk.beyond(mid*at, step, i == 0) > spend {
				low = mid
			} else {
				high = mid
			}
		}
		out[i] = high
		walk = walk.next(high*at, step, i == 0)
	}
	return out
}

// density is a symmetric density on an equal grid over [−end, end].
type density struct {
	end float64
	p   []float64
}

// points is the size of the grid: the bounds are right to 1e-4.
const points = 401

func (d density) x(i int) float64 { return d.end * (2*float64(i)/(points-1) - 1) }

// weight is Simpson's.
func (d density) weight(i int) float64 {
	w := 2 * d.end / (points - 1) / 3
	switch {
	case i == 0 || i == points-1:
		return w
	case i%2 == 1:
		return 4 * w
	}
	return 2 * w
}

// beyond is the mass outside ±b after a further normal step of this variance.
func (d density) beyond(b, variance float64, first bool) float64 {
	sd := math.Sqrt(variance)
	if first {
		return tail(b / sd)
	}
	sum := 0.0
	for i, p := range d.p {
		sum += d.weight(i) * p * (upper((b-d.x(i))/sd) + upper((b+d.x(i))/sd))
	}
	return sum
}

// next is the density inside ±b after the step.
func (d density) next(b, variance float64, first bool) density {
	sd := math.Sqrt(variance)
	out := density{end: b, p: make([]float64, points)}
	for j := range out.p {
		if first {
			out.p[j] = normal(out.x(j), sd)
			continue
		}
		for i, p := range d.p {
			out.p[j] += d.weight(i) * p * normal(out.x(j)-d.x(i), sd)
		}
	}
	return out
}

func upper(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }

func normal(x, sd float64) float64 {
	return math.Exp(-x*x/(2*sd*sd)) / (sd * math.Sqrt(2*math.Pi))
}
