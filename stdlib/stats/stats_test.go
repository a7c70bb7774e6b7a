package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func planned(t *testing.T, r Rule) Plan {
	t.Helper()
	p, err := NewPlan(r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBoundsSpendTheError checks against what is known: one look is the plain
// quantile, and Pocock's constant bound for two equal looks (2.178) spends
// 0.0296 of 0.05 at the first; here the first of two spends a quarter, 0.0125.
func TestBoundsSpendTheError(t *testing.T) {
	if got := bounds([]int{7}, .05, 2)[0]; math.Abs(got-1.95996) > 1e-4 {
		t.Errorf("one look: %v, want 1.95996", got)
	}
	b := bounds([]int{10, 20}, .05, 2)
	if math.Abs(tail(b[0])-.0125) > 1e-9 {
		t.Errorf("the first look spends %v, want 0.0125", tail(b[0]))
	}
	b = bounds([]int{3, 5, 10, 20}, .05, 2)
	for i, spent := range []float64{.05 * .0225} {
		if math.Abs(tail(b[i])-spent) > 1e-9 {
			t.Errorf("look %d spends %v, want %v", i, tail(b[i]), spent)
		}
	}
	// A walk without drift leaves the bounds in 5 % of all cases.
	src := rand.New(rand.NewPCG(1, 2))
	out := 0
	const walks = 1000000
	for range walks {
		sum, n := 0.0, 0
		for i, look := range []int{3, 5, 10, 20} {
			sum += src.NormFloat64() * math.Sqrt(float64(look-n))
			n = look
			if math.Abs(sum) > b[i]*math.Sqrt(float64(n)) {
				out++
				break
			}
		}
	}
	// Three standard errors of a share of 5 % in a million.
	if got := float64(out) / walks; math.Abs(got-.05) > .00066 {
		t.Errorf("a walk leaves the bounds in %v of all cases, want 0.05", got)
	}
}

// noisy makes runs of a system: log-normal with this spread.
func noisy(src *rand.Rand, n int, centre, sigma float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = centre * math.Exp(sigma*src.NormFloat64())
	}
	return out
}

// TestSimulatedCampaigns is the goal that the rule was made for: at a
// run-to-run spread of at most 1 %, equal systems give a false winner in at
// most 28 of 400 comparisons and end as tied in at least 80 %, and a gap of 3 %
// is found in at least 90 %. At 1 % the true share of ties is 82.7 % (20,000
// comparisons); 2,000 are enough to see that it is above 80 %.
func TestSimulatedCampaigns(t *testing.T) {
	plan := planned(t, Standard(20))
	for sigma, n := range map[float64]int{.0025: 400, .005: 400, .01: 2000} {
		src := rand.New(rand.NewPCG(20, 7))
		var equal, gap = map[Verdict]int{}, map[Verdict]int{}
		for range n {
			a := noisy(src, 20, 1000, sigma)
			c, err := plan.Judge(a, noisy(src, 20, 1000, sigma), true)
			if err != nil {
				t.Fatal(err)
			}
			equal[c.Verdict]++
			if c, err = plan.Judge(a, noisy(src, 20, 970, sigma), true); err != nil {
				t.Fatal(err)
			}
			gap[c.Verdict]++
		}
		t.Logf("spread %v: equal %v, gap %v", sigma, equal, gap)
		if wrong := equal[Ahead] + equal[Behind]; wrong*400 > 28*n || equal[Tied]*10 < n*8 {
			t.Errorf("spread %v: equal systems end as %v; want at most 28 winners and at least 320 ties in 400", sigma, equal)
		}
		if gap[Ahead]*10 < n*9 || gap[Behind] > 0 {
			t.Errorf("spread %v: a gap of 3 %% ends as %v; want at least 90 %% ahead", sigma, gap)
		}
	}
}

// TestLoudNoiseMakesNoWinners is the case that a plain bootstrap, stopped at
// the first separation, gets wrong in 11 %.
func TestLoudNoiseMakesNoWinners(t *testing.T) {
	src := rand.New(rand.NewPCG(5, 5))
	got := map[Verdict]int{}
	plan := planned(t, Standard(20))
	for range 400 {
		c, err := plan.Judge(noisy(src, 20, 1, .05), noisy(src, 20, 1, .05), true)
		if err != nil {
			t.Fatal(err)
		}
		got[c.Verdict]++
	}
	if got[Ahead]+got[Behind] > 28 || got[Unresolved] < 360 {
		t.Errorf("at 5 %% noise equal systems end as %v", got)
	}
}

// TestErrorOfAllLooks: over all looks together equal systems get a winner in at
// most 5 % at noise with outliers, and a pair whose true ratio lies on the
// band's edge a verdict in at most 5 % on each side. A gap of twice the band is
// hardly ever missed. 1,500 comparisons tell 5 % from 7 % at three standard
// errors.
func TestErrorOfAllLooks(t *testing.T) {
	normal := func(src *rand.Rand) float64 { return 0.005 * src.NormFloat64() }
	outliers := func(src *rand.Rand) float64 { // one run in twenty is 15 % slower
		v := 0.01 * src.NormFloat64()
		if src.IntN(20) == 0 {
			v -= 0.15
		}
		return v
	}
	const trials = 1500
	plan := planned(t, Standard(20))
	for _, tc := range []struct {
		name  string
		noise func(*rand.Rand) float64
		ratio float64
		wrong []Verdict
		most  float64 // share of wrong verdicts
		right Verdict
		least float64
	}{
		{"equal_with_outliers", outliers, 1, []Verdict{Ahead, Behind}, 0.07, "", 0},
		{"on_the_edge", normal, 1.01, []Verdict{Ahead, Tied, Behind}, 0.14, "", 0},
		{"two_percent_apart", normal, 1.02, []Verdict{Tied, Behind}, 0.07, Ahead, 0.9},
		{"equal", normal, 1, []Verdict{Ahead, Behind}, 0.07, Tied, 0.8},
	} {
		src := rand.New(rand.NewPCG(8, 1))
		got := map[Verdict]int{}
		for range trials {
			var a, b []float64
			for range 20 {
				a, b = append(a, tc.ratio*math.Exp(tc.noise(src))), append(b, math.Exp(tc.noise(src)))
			}
			c, err := plan.Judge(a, b, true)
			if err != nil {
				t.Fatal(err)
			}
			got[c.Verdict]++
		}
		wrong := 0
		for _, v := range tc.wrong {
			wrong += got[v]
		}
		if float64(wrong) > tc.most*trials || float64(got[tc.right]) < tc.least*trials {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

func TestLooksWithinBounds(t *testing.T) {
	for _, tc := range []struct {
		min, max int
		want     []int
	}{{3, 20, []int{3, 5, 10, 20}}, {5, 12, []int{5, 10, 12}}, {3, 3, []int{3}}, {2, 2, []int{2}}, {30, 40, []int{40}}} {
		if got := Within(0.02, tc.min, tc.max); !slices.Equal(got.Looks, tc.want) || got.Band != 0.02 {
			t.Errorf("from %d to %d: %+v, want looks at %v", tc.min, tc.max, got, tc.want)
		}
	}
}

// TestDriftFallsOnBoth lets a machine slow down by 0.3 % a run while equal
// systems take turns.
func TestDriftFallsOnBoth(t *testing.T) {
	var runs [2][]float64
	for i, who := range Order(20) {
		runs[who] = append(runs[who], 1000*math.Pow(.997, float64(i)))
	}
	c, err := planned(t, Standard(20)).Judge(runs[0], runs[1], true)
	if err != nil || c.Verdict == Ahead || c.Verdict == Behind || math.Abs(c.Ratio-1) > 1e-3 {
		t.Errorf("%v, error %v", c, err)
	}
}

func TestOrderIsABBA(t *testing.T) {
	if got := Order(4); !slices.Equal(got, []int{0, 1, 1, 0, 0, 1, 1, 0}) {
		t.Errorf("order is %v", got)
	}
}

// TestVerdictsByHand uses runs without noise, where each verdict follows from
// the ratio alone.
func TestVerdictsByHand(t *testing.T) {
	plan := planned(t, Standard(5))
	flat := func(v float64, n int) []float64 { return slices.Repeat([]float64{v}, n) }
	for _, c := range []struct {
		name    string
		a, b    []float64
		higher  bool
		want    Verdict
		repeats int
	}{
		{"faster", flat(1020, 3), flat(1000, 3), true, Ahead, 3},
		{"slower", flat(980, 3), flat(1000, 3), true, Behind, 3},
		{"lower_latency", flat(980, 3), flat(1000, 3), false, Ahead, 3},
		{"higher_latency", flat(1020, 3), flat(1000, 3), false, Behind, 3},
		{"within_the_band", flat(1009, 3), flat(1000, 3), true, Tied, 3},
		{"too_few", flat(1100, 2), flat(1000, 9), true, Open, 0},
		// 90 to 110 % of noise around a gap of 2 %: nobody can say.
		{"unresolved", []float64{90, 110, 100, 112, 92}, []float64{98, 88, 108, 110, 89}, true, Unresolved, 5},
		// The outlier widens the interval of the first look, so 10 % are not
		// yet called there.
		{"outlier", []float64{1100, 1101, 800}, []float64{1000, 1001, 1000}, true, Open, 3},
	} {
		got, err := plan.Judge(c.a, c.b, c.higher)
		if err != nil || got.Verdict != c.want || got.Repeats != c.repeats {
			t.Errorf("%s: %v, error %v; want %s after %d", c.name, got, err, c.want, c.repeats)
		}
	}
}

// TestFirstDecisionStands adds runs that would have said something else.
func TestFirstDecisionStands(t *testing.T) {
	a := append(slices.Repeat([]float64{1100}, 3), slices.Repeat([]float64{900}, 17)...)
	c, err := planned(t, Standard(20)).Judge(a, slices.Repeat([]float64{1000}, 20), true)
	if err != nil || c.Verdict != Ahead || c.Repeats != 3 {
		t.Errorf("%v, error %v", c, err)
	}
}

func TestIntervalByHand(t *testing.T) {
	// Logarithms 0, 1, 2 against 0: all differences 0, 1, 2 three times over,
	// median 1; deviations 1 and 0; variance 1/3·π/3; df = 2.
	e := shift([]float64{1, math.E, math.E * math.E}, []float64{1, 1, 1})
	if math.Abs(e.log-1) > 1e-12 || math.Abs(e.se-math.Sqrt(math.Pi)/3) > 1e-12 || math.Abs(e.df-2) > 1e-12 {
		t.Errorf("estimate is %+v", e)
	}
	// Student's t with 2 degrees of freedom at 2.5 % is 4.302653.
	if got := e.half(1.959964) / e.se; math.Abs(got-4.302653) > 1e-4 {
		t.Errorf("the bound is %v standard errors, want 4.302653", got)
	}
}

func TestRefusedInput(t *testing.T) {
	plan := planned(t, Standard(20))
	for want, a := range map[string][]float64{"run 2 of A is 0": {1, 0}, "run 1 of A is NaN": {math.NaN()}} {
		if _, err := plan.Judge(a, []float64{1, 2, 3}, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
	for want, r := range map[string]Rule{
		"band is 0":   {Error: .05, Looks: []int{3}},
		"error is 0":  {Band: .01, Looks: []int{3}},
		"must ascend": {Band: .01, Error: .05, Looks: []int{5, 5}},
		"at least 2":  {Band: .01, Error: .05, Looks: []int{1}},
	} {
		if _, err := NewPlan(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
}
