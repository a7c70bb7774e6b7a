package score

import (
	"math"
	"strings"
	"testing"
)

func TestGreedyByHand(t *testing.T) {
	base := [][]int{{1, 2, 3, 4}, {5, 6}, {7, 8, 9}, {1}}
	cand := [][]int{{1, 2, 3, 4}, {5, 6, 7}, {7, 1, 9}, {2}}
	a, err := Greedy(base, cand)
	// 4 + 2 + 1 + 0 tokens agree of 4 + 3 + 3 + 1; differences at 2, 1 and 0.
	if err != nil || a.Equal != 1 || math.Abs(a.Tokens-7./11) > 1e-12 || *a.First != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	if a, _ := Greedy(base, base); a.Equal != 4 || a.First != nil || a.Tokens != 1 {
		t.Errorf("%+v", a)
	}
	if _, err := Greedy(base, cand[:1]); err == nil || !strings.Contains(err.Error(), "4 of the baseline, 1") {
		t.Errorf("error %v", err)
	}
}

// TestWilson has the interval of 9 of 10, which textbooks give as 0.596 to 0.982.
func TestWilson(t *testing.T) {
	low, high := Share(9, 10)
	if math.Abs(low-.5958) > 1e-4 || math.Abs(high-.9821) > 1e-4 {
		t.Errorf("%v to %v", low, high)
	}
	if low, high := Share(0, 10); low != 0 || math.Abs(high-.2775) > 1e-4 {
		t.Errorf("%v to %v", low, high)
	}
}
