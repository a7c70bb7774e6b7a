// Package score says whether a candidate still answers as well: agreement of
// greedy answers with those of the baseline, and shares of right answers with
// their interval. It knows answers, and no server. Functions are pure.
package score

import (
	"fmt"
	"math"
	"slices"
)

// Agreement is how greedy answers to the same prompts agree.
type Agreement struct {
	Prompts int `json:"prompts"`
	Equal   int `json:"equal"` // answers without a difference
	// Tokens are the shares of tokens before the first difference, over all.
	Tokens float64 `json:"agreeing_tokens"`
	// First is the median place of the first difference among unequal answers,
	// in tokens from 0; nil if all are equal.
	First *float64 `json:"first_difference,omitempty"`
	// Low and High bound the share of equal answers at 95 %.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Greedy compares answers, prompt by prompt; tokens may be ids or pieces of
// text. An answer that is shorter differs where it ends. After the first
// difference greedy answers have nothing to do with each other, so nothing
// after it is looked at.
func Greedy[T comparable](baseline, candidate [][]T) (Agreement, error) {
	if len(baseline) != len(candidate) || len(baseline) == 0 {
		return Agreement{}, fmt.Errorf("comparing answers: %d of the baseline, %d of the candidate; it takes as many, at least 1", len(baseline), len(candidate))
	}
	a := Agreement{Prompts: len(baseline)}
	agreed, all := 0, 0
	var first []float64
	for i, want := range baseline {
		got := candidate[i]
		n := 0
		for n < min(len(want), len(got)) && want[n] == got[n] {
			n++
		}
		agreed += n
		all += max(len(want), len(got))
		if n == len(want) && n == len(got) {
			a.Equal++
		} else {
			first = append(first, float64(n))
		}
	}
	if all > 0 {
		a.Tokens = float64(agreed) / float64(all)
	}
	if n := len(first); n > 0 {
		slices.Sort(first)
		m := (first[(n-1)/2] + first[n/2]) / 2
		a.First = &m
	}
	a.Low, a.High = Share(a.Equal, a.Prompts)
	return a, nil
}

// Share bounds a share of right answers at 95 % (Wilson); of no answers it is
// everything.
func Share(right, all int) (low, high float64) {
	if all == 0 {
		return 0, 1
	}
	const z = 1.959963984540054
	n, p := float64(all), float64(right)/float64(all)
	mid := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(0, mid-half), min(1, mid+half)
}
