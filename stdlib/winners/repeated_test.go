package winners

import (
	"slices"
	"testing"

	"github.com/sotabuild/sotabuild/engine/key"
)

// settled ranks rows a to e of 100, 99, 98, 97 and 60 requests/s, and settles
// them with what repeats say; d is the target.
func settled(said map[string]Repeated) (Ranking, map[string]int) {
	rate := map[string]float64{"a": 100, "b": 99, "c": 98, "d": 97, "e": 60}
	of := func(name string) key.Digest { return key.Sum([]byte(name)) }
	zero := 0
	r := Ranking{Cells: []Contest{{}}, Cell: &zero, Best: []key.Digest{of("a")}}
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		v := rate[name]
		r.Cells[0].Places = append(r.Cells[0].Places, Place{Rank: i + 1, Near: i == 1, Judged: Judged{Row: of(name), Verdict: Verdict{Passed: true}, Score: Score{RequestThroughput: &v}}})
	}
	by := map[key.Digest]Repeated{}
	for name, x := range said {
		by[of(name)] = x
	}
	out := r.Settle(by, func(d key.Digest) bool { return d == of("d") })
	ranks := map[string]int{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		for _, p := range out.Cells[0].Places {
			if p.Row == of(name) {
				ranks[name] = p.Rank
			}
		}
	}
	if r.Cells[0].Places[1].Rank != 2 || r.Cells[0].Places[1].Repeated != nil {
		panic("the ranking that was settled has changed")
	}
	return out, ranks
}

func TestRepeatsDecideTheRanking(t *testing.T) {
	of := func(names ...string) (out []key.Digest) {
		for _, n := range names {
			out = append(out, key.Sum([]byte(n)))
		}
		return out
	}
	for _, tc := range []struct {
		name       string
		said       map[string]Repeated
		best, open []key.Digest
		ranks      map[string]int
		gap        float64
	}{
		{"none", nil, of("a"), nil, map[string]int{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}, -1},
		{"tied", map[string]Repeated{"a": {Verdict: First}, "b": {Verdict: Tied, Ratio: .998}, "c": {Verdict: Behind, Ratio: .95}, "d": {Verdict: Behind, Ratio: .97}},
			of("a", "b"), nil, map[string]int{"a": 1, "b": 1, "d": 2, "c": 3, "e": 4}, .03},
		{"another_first", map[string]Repeated{"a": {Verdict: Behind, Ratio: .9}, "d": {Verdict: First}}, of("d"), nil,
			map[string]int{"d": 1, "a": 2, "b": 3, "c": 4, "e": 5}, 0},
		{"unresolved", map[string]Repeated{"a": {Verdict: First}, "b": {Verdict: Unresolved, Ratio: 1.1}, "c": {Verdict: Out, Why: "x"}}, nil, of("a", "b"),
			map[string]int{"a": 1, "b": 1, "c": 0, "d": 2, "e": 3}, -1},
	} {
		got, ranks := settled(tc.said)
		same := func(a, b []key.Digest) bool {
			return len(a) == len(b) && !slices.ContainsFunc(a, func(d key.Digest) bool { return !slices.Contains(b, d) })
		}
		if !same(got.Best, tc.best) || !same(got.Unresolved, tc.open) {
			t.Errorf("%s: best %v, unresolved %v", tc.name, got.Best, got.Unresolved)
		}
		for name, want := range tc.ranks {
			if ranks[name] != want {
				t.Errorf("%s: %s has rank %d, want %d", tc.name, name, ranks[name], want)
			}
		}
		if tc.gap >= 0 && (got.Share == nil || *got.Share < tc.gap-1e-9 || *got.Share > tc.gap+1e-9) {
			t.Errorf("%s: gap %v, want %v", tc.name, got.Share, tc.gap)
		}
	}
}
