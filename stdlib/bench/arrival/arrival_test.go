package arrival

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func times(t *testing.T, l Load, n int) []time.Duration {
	t.Helper()
	if err := errors.Join(l.Check()...); err != nil {
		t.Fatal(err)
	}
	out, err := l.Times(n, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func ptr[T any](v T) *T { return &v }

func TestConstantIsExact(t *testing.T) {
	if got := times(t, Load{Arrival: Constant, Rate: ptr(50.)}, 4); !slices.Equal(got, []time.Duration{0, 20e6, 40e6, 60e6}) {
		t.Errorf("constant: %v", got)
	}
	if got := times(t, Load{Arrival: Inf}, 4); got != nil {
		t.Errorf("inf: %v", got)
	}
}

// TestRandomGaps checks mean 1/rate and standard deviation 1/(rate·√shape) of
// 40,000 gaps to 3 %.
func TestRandomGaps(t *testing.T) {
	for _, c := range []struct {
		load  Load
		shape float64
	}{
		{Load{Arrival: Poisson, Rate: ptr(50.)}, 1},
		{Load{Arrival: Gamma, Rate: ptr(50.), Burstiness: ptr(1.)}, 1},
		{Load{Arrival: Gamma, Rate: ptr(50.), Burstiness: ptr(.25)}, .25},
		{Load{Arrival: Gamma, Rate: ptr(50.), Burstiness: ptr(4.)}, 4},
	} {
		const n = 40000
		at := times(t, c.load, n+1)
		mean, square := 0.0, 0.0
		for i := range at[1:] {
			gap := (at[i+1] - at[i]).Seconds()
			if gap < 0 {
				t.Fatal("not ascending")
			}
			mean += gap / n
			square += gap * gap / n
		}
		sd, want := math.Sqrt(square-mean*mean), .02/math.Sqrt(c.shape)
		if at[0] != 0 || math.Abs(mean-.02) > .03*want || math.Abs(sd-want) > .03*want {
			t.Errorf("%+v: first %v, mean gap %v, deviation %v, want 0.02 and %v", c.load, at[0], mean, sd, want)
		}
		if !slices.Equal(at, times(t, c.load, n+1)) {
			t.Error("the same load gives another schedule")
		}
		c.load.Seed = 1
		if slices.Equal(at, times(t, c.load, n+1)) {
			t.Error("another seed gives the same schedule")
		}
	}
}

// TestRampsByHand: five requests from 1/s to 3/s have the rates 1, 1.5, 2, 2.5
// before the gaps; from 1/s to 16/s exponentially 1, 2, 4, 8.
func TestRampsByHand(t *testing.T) {
	for form, want := range map[string][]float64{Linear: {0, 1, 1 + 1/1.5, 1 + 1/1.5 + .5, 1 + 1/1.5 + .5 + .4}, Exponential: {0, 1, 1.5, 1.75, 1.875}} {
		to := map[string]float64{Linear: 3, Exponential: 16}[form]
		for i, at := range times(t, Load{Arrival: Constant, Ramp: &Ramp{form, 1, to}}, 5) {
			if math.Abs(at.Seconds()-want[i]) > 1e-9 {
				t.Errorf("%s: request %d is due at %v, want %v s", form, i, at, want[i])
			}
		}
	}
}

func TestTraceStartsAtZero(t *testing.T) {
	got, err := Load{Arrival: Trace}.Times(3, []time.Duration{5e9, 6e9, 6e9})
	if err != nil || !slices.Equal(got, []time.Duration{0, 1e9, 1e9}) {
		t.Errorf("%v, %v", got, err)
	}
	for want, at := range map[string][]time.Duration{"1 of 3 have one": {0}, "do not ascend": {0, 2, 1}} {
		if _, err := (Load{Arrival: Trace}).Times(3, at); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestBadLoads(t *testing.T) {
	for want, l := range map[string]Load{
		`arrival is "x"`:        {Arrival: "x"},
		`"inf" has no rate`:     {Arrival: Inf, Rate: ptr(1.)},
		`"trace" has no rate`:   {Arrival: Trace, Rate: ptr(1.)},
		`"gamma" needs a rate`:  {Arrival: Gamma, Burstiness: ptr(1.)},
		"both given":            {Arrival: Poisson, Rate: ptr(1.), Ramp: &Ramp{Linear, 1, 2}},
		`ramp is "steep"`:       {Arrival: Poisson, Ramp: &Ramp{"steep", 1, 2}},
		"ramp from 0":           {Arrival: Poisson, Ramp: &Ramp{Linear, 0, 2}},
		"burstiness belongs to": {Arrival: Poisson, Rate: ptr(1.), Burstiness: ptr(1.)},
		"burstiness is 0":       {Arrival: Gamma, Rate: ptr(1.), Burstiness: ptr(0.)},
		"warmup is -1":          {Arrival: Inf, Warmup: -1},
		"concurrency is 0":      {Arrival: Inf, Concurrency: ptr(0)},
		"rate is NaN":           {Arrival: Constant, Rate: ptr(math.NaN())},
	} {
		if err := errors.Join(l.Check()...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
