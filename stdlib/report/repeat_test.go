package report

import (
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// TestEvidence: a winner rests on as many repeats as each side has, and those
// that are out are named.
func TestEvidence(t *testing.T) {
	side := func(name string, verdict winners.RepeatedWord, samples int) Repeated {
		return Repeated{Framework: name, Said: winners.Repeated{Verdict: verdict, Samples: samples}}
	}
	for want, sides := range map[string][]Repeated{
		" by 3 repeats of each":                                                     {side("a", winners.First, 3), side("b", winners.Behind, 3)},
		" by 3 to 10 repeats of each":                                               {side("a", winners.First, 10), side("b", winners.Behind, 3), side("c", winners.Tied, 10)},
		" by 5 repeats, without b, which did not come through its own":              {side("a", winners.First, 5), side("b", winners.Out, 2)},
		" by 5 to 7 repeats of each, without c, which did not come through its own": {side("a", winners.First, 7), side("b", winners.Tied, 5), side("c", winners.Out, 0)},
		"": {side("a", winners.Out, 1), side("b", winners.Out, 0)},
	} {
		if got := (Scenario{Repeats: &Repeats{Over: true, Sides: sides}}).evidence(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
