package report

import (
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/result"
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

// TestPause: repeats that are in turns are said to have a pause between them where
// none ran for an hour, whichever side the two belong to; one that was not
// measured at all is no end of it.
func TestPause(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(after time.Duration, seconds float64) Repeat {
		return Repeat{Row: result.Row{Time: result.Times{Started: noon.Add(after), Seconds: seconds}}}
	}
	const never = "ratios"
	for name, tc := range map[string]struct {
		a, b []Repeat
		want string
	}{
		"OneSitting": {[]Repeat{at(0, 60), at(3*time.Hour, 60)}, []Repeat{at(2*time.Minute, 3600), at(90*time.Minute, 3600)}, ""},
		"NextDay":    {[]Repeat{at(0, 1800), at(21*time.Hour, 60)}, []Repeat{at(30*time.Minute, 1800), at(22*time.Hour, 60)}, "; 20 h passed between two of them, "},
		"NotRun":     {[]Repeat{at(0, 1800), {}, at(49*time.Hour, 60)}, nil, "; 2 d passed between two of them, "},
		"One":        {[]Repeat{at(0, 60)}, nil, ""},
		"None":       {nil, nil, ""},
	} {
		r := &Repeats{Over: true, Why: "shown", Sides: []Repeated{{Repeats: tc.a}, {Repeats: tc.b}}}
		if got := r.Note(); !strings.HasPrefix(got, "shown"+tc.want) || tc.want == "" && strings.Contains(got, never) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestGapUnresolved: where nobody wins, the target is not called the best
// because none is shown to be ahead of it.
func TestGapUnresolved(t *testing.T) {
	a, b := key.Sum([]byte("a")), key.Sum([]byte("b"))
	zero := 0.
	judged := func(d key.Digest) winners.Judged {
		return winners.Judged{Row: d}
	}
	s := Scenario{Cells: []Cell{{Framework: "a", Digest: a}, {Framework: "b", Digest: b}}, Ranking: winners.Ranking{Unresolved: []key.Digest{a, b}, Gap: winners.Gap{Share: &zero}}}
	s.Ranking.Cells = []winners.Contest{{Places: []winners.Place{{Judged: judged(a), Repeated: &winners.Repeated{Verdict: winners.First}},
		{Judged: judged(b), Repeated: &winners.Repeated{Verdict: winners.Unresolved, Ratio: 1, Low: 0.99, High: 1.01}}}}}
	for target, want := range map[string]string{"a": "unresolved: no other is shown", "b": "unresolved (ratio 1.0000"} {
		if got := s.gap(target); !strings.HasPrefix(got, want) {
			t.Errorf("gap of %s: %q, want %q", target, got, want)
		}
	}
}

// TestGapOfTied: a target that is tied is said to be tied, whoever of the two the
// other one is compared with; a target that is first alone has a gap of zero.
func TestGapOfTied(t *testing.T) {
	a, b := key.Sum([]byte("a")), key.Sum([]byte("b"))
	row := &result.Row{Status: result.OK}
	for _, tc := range []struct {
		share  float64
		target string
		best   []key.Digest
		second winners.Repeated
		want   string
	}{
		{0, "a", []key.Digest{a, b}, winners.Repeated{Verdict: winners.Tied, Ratio: 0.997, Low: 0.99, High: 1.004}, "0.0 % (tied)"},
		{0.003, "b", []key.Digest{a, b}, winners.Repeated{Verdict: winners.Tied, Ratio: 0.997, Low: 0.99, High: 1.004}, "0.3 % (tied: ratio 0.9970, 0.9900 to 1.0040)"},
		{0, "a", []key.Digest{a}, winners.Repeated{Verdict: winners.Behind, Ratio: 0.6}, "0.0 %"},
		{0.4, "b", []key.Digest{a}, winners.Repeated{Verdict: winners.Behind, Ratio: 0.6}, "40.0 %"},
	} {
		n := 0
		s := Scenario{Cells: []Cell{{Framework: "a", Digest: a, Row: row}, {Framework: "b", Digest: b, Row: row}}, Ranking: winners.Ranking{Best: tc.best, Cell: &n, Gap: winners.Gap{Share: &tc.share}}}
		s.Ranking.Cells = []winners.Contest{{Gap: s.Ranking.Gap, Places: []winners.Place{{Judged: winners.Judged{Row: a}, Repeated: &winners.Repeated{Verdict: winners.First}},
			{Judged: winners.Judged{Row: b}, Repeated: &tc.second}}}}
		if got := s.gap(tc.target); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
		if got := s.gapIn(0, tc.target); got != tc.want {
			t.Errorf("in its cell %q, want %q", got, tc.want)
		}
	}
}

// TestWithoutWinner: only repeats that are over and put every side out take a
// scenario's winner away; who is unresolved, or passes no limit, is a result.
func TestWithoutWinner(t *testing.T) {
	a := []key.Digest{key.Sum([]byte("a"))}
	cell := 0
	slow := Repeated{Failing: []string{"repeat 1", "repeat 3"}, Rejected: []string{"repeat 4"}, Said: winners.Repeated{Samples: 3}, Repeats: make([]Repeat, 4)}
	broken := Repeated{Failing: []string{"repeat 1"}, Said: winners.Repeated{Samples: 2}, Repeats: make([]Repeat, 3)}
	slowThenBroken := Repeated{Failing: []string{"repeat 1"}, Said: winners.Repeated{Samples: 1}, Repeats: make([]Repeat, 3)}
	over := &Repeats{Over: true, Sides: []Repeated{slow, broken}}
	v := View{Scenarios: []Scenario{
		{Name: "won", Repeats: over, Ranking: winners.Ranking{Cell: &cell, Best: a}},
		{Name: "unresolved", Repeats: over, Ranking: winners.Ranking{Cell: &cell, Unresolved: a}},
		{Name: "out", Repeats: over, Ranking: winners.Ranking{Cell: &cell}},
		{Name: "too_slow", Repeats: &Repeats{Over: true, Sides: []Repeated{slow, slow}}, Ranking: winners.Ranking{Cell: &cell}},
		{Name: "out_after_a_slow_one", Repeats: &Repeats{Over: true, Sides: []Repeated{slow, slowThenBroken}}, Ranking: winners.Ranking{Cell: &cell}},
		{Name: "going_on", Repeats: &Repeats{}, Ranking: winners.Ranking{Cell: &cell}},
		{Name: "none_passes", Repeats: &Repeats{Why: "no row passes"}},
		{Name: "not_repeated", Ranking: winners.Ranking{Cell: &cell}},
	}}
	if got := v.WithoutWinner(); len(got) != 2 || got[0].Name != "out" || got[1].Name != "out_after_a_slow_one" {
		t.Errorf("%+v; want those whose sides are all out, one of them because it broke", got)
	}
}
