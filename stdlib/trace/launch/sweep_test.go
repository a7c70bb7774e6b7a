package launch

import "testing"

// TestSweepIsBounded: deeper than any program nests, the innermost spans still
// answer, and what was left out is counted.
func TestSweepIsBounded(t *testing.T) {
	const n = deepest + 500
	var spans []span
	var probes []probe
	for i := range int32(n) {
		spans = append(spans, span{1, i, int64(i), 10 * n})
		probes = append(probes, probe{1, i, int64(i)})
	}
	seen := 0
	left := sweep(spans, probes, func(id int32, around []span) {
		seen++
		if in := around[len(around)-1]; in.id != id || len(around) > deepest {
			t.Fatalf("probe %d is in span %d, %d deep", id, in.id, len(around))
		}
	})
	if seen != n || left != 500 {
		t.Errorf("%d probes, %d spans left out; want %d and 500", seen, left, n)
	}
}
