package winners

import (
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// served is a row of so many requests/s with a cached share; below 0 it is not
// exposed.
func served(name string, rate, cached float64) Input {
	in := row(name, 0, fast(rate, rate*1000, 100, 10))
	if cached >= 0 {
		in.Row.Facts.CacheHitShare = &cached
	}
	return in
}

// ranks ranks single rows, the target first; a rank of 0 is none.
func ranks(t *testing.T, r Rules, rows ...Input) (Contest, map[string]Place) {
	t.Helper()
	var in []SelectionInput
	for i, x := range rows {
		in = append(in, SelectionInput{key.Sum([]byte{byte(i)}), Select([]Input{x}, seeds)})
	}
	got := Rank(in[0].Digest, in, r)
	out := map[string]Place{}
	for _, p := range got.Cells[0].Places {
		for _, name := range []string{"a", "b", "c"} {
			if key.Sum([]byte(name)) == p.Row {
				out[name] = p
			}
		}
	}
	return got.Cells[0], out
}

// TestCachedPromptsAreLessWork: 30 % of b's prompts were cached and 1 % of
// a's: at 2 percentage points b has no place, although it is faster; at 40 it
// wins. The rows of one framework are held to the same.
func TestCachedPromptsAreLessWork(t *testing.T) {
	a, b := served("a", 10, .01), served("b", 15, .30)
	c, got := ranks(t, Rules{CachedShare: p(.02)}, a, b)
	if got["a"].Rank != 1 || got["b"].Rank != 0 || got["b"].Class != result.CacheUnequal || !strings.Contains(got["b"].Reasons[0], "0.3 of its prompt tokens") {
		t.Errorf("a %+v, b %+v", got["a"], got["b"])
	}
	if c.Share == nil || *c.Share != 0 {
		t.Errorf("gap %+v: the target is the best that is left", c.Gap)
	}
	if c, _ = ranks(t, Rules{CachedShare: p(.02)}, b, a); c.None != "the target has no row in the cell that passes the SLA" {
		t.Errorf("gap %+v: the target's row has no number here", c.Gap)
	}
	if _, got = ranks(t, Rules{CachedShare: p(.4)}, a, b); got["b"].Rank != 1 || got["a"].Rank != 2 {
		t.Errorf("a %+v, b %+v", got["a"], got["b"])
	}
	if _, got = ranks(t, Rules{CachedShare: p(.02)}, served("a", 10, .01), served("b", 15, .03)); got["b"].Rank != 1 {
		t.Errorf("exactly 2 points apart: %+v", got["b"])
	}
	sla := seeds
	sla.CachedShare = p(.02)
	if s := Select([]Input{a, b}, sla); len(s.Best) != 1 || s.Best[0] != a.Digest {
		t.Errorf("best %v of %+v", s.Best, s.Cells)
	}
}

// TestUnknownIsNotEqual: a share that is not exposed takes no place away, and
// is said.
func TestUnknownIsNotEqual(t *testing.T) {
	c, got := ranks(t, Rules{CachedShare: p(.02)}, served("a", 10, .01), served("b", 15, -1))
	if !c.CacheNotShown || got["a"].Rank != 2 || got["b"].Rank != 1 {
		t.Errorf("%+v", c)
	}
	if c, _ = ranks(t, Rules{CachedShare: p(.02)}, served("a", 10, -1), served("b", 15, -1)); c.CacheNotShown {
		t.Error("nobody exposes it")
	}
}

// TestNearTheBest: 0.8 % below the best is within 1 %, 1.2 % is not.
func TestNearTheBest(t *testing.T) {
	_, got := ranks(t, Rules{Noise: .01}, served("a", 100, -1), served("b", 99.2, -1), served("c", 98.8, -1))
	if got["a"].Near || !got["b"].Near || got["c"].Near || got["c"].Rank != 3 {
		t.Errorf("%+v", got)
	}
}

// TestALaneHasNoWinner (R073).
func TestALaneHasNoWinner(t *testing.T) {
	a := served("a", 10, -1)
	a.Row.Workload.Lane = "agentic"
	got := Rank(key.Sum([]byte{0}), []SelectionInput{{key.Sum([]byte{0}), Select([]Input{a}, seeds)}}, Rules{})
	if got.Best != nil || got.Cell != nil || got.Share != nil || !strings.Contains(got.None, `lane "agentic"`) || got.Cells[0].Places[0].Rank != 1 {
		t.Errorf("%+v", got)
	}
}
