package repeat

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/stats"
)

// State is what the loop knows after a look.
type State struct {
	Bounds Bounds          `json:"bounds"`
	Terms  json.RawMessage `json:"terms,omitempty"`
	Sides  []Run           `json:"sides"` // in the order of the loop's
	// Champion is the side that no other is shown to be ahead of, and that the
	// others are compared with; -1 if there is none.
	Champion int `json:"champion"`
}

// Run is one side so far.
type Run struct {
	Values   []float64 `json:"values"`             // of the samples, in the order they were taken
	Looks    []int     `json:"looks"`              // how many of them there were at each look
	Rejected []string  `json:"rejected,omitempty"` // repeats that are no samples, with why
	Failing  []string  `json:"failing,omitempty"`  // samples that do not keep a limit, with which
	Broken   string    `json:"broken,omitempty"`   // why the side is out of the comparison
	// Verdict is this side against Against; zero for the champion and for a side
	// that is broken. One that is behind stays so: who is ahead of the champion
	// is ahead of it too.
	Verdict stats.Comparison `json:"verdict,omitzero"`
	Against int              `json:"against"`
}

func (r *Run) count() int { return len(r.Values) }

// add takes the n-th repeat, of a round, in.
func (r *Run) add(n, round int, s Sample) {
	switch {
	case r.Broken != "":
	case s.Broken != "":
		r.Broken = fmt.Sprintf("repeat %d: %s", n, s.Broken)
	case s.Rejected != "":
		r.Rejected = append(r.Rejected, fmt.Sprintf("repeat %d: %s", n, s.Rejected))
	default:
		if s.Failing != "" {
			r.Failing = append(r.Failing, fmt.Sprintf("repeat %d: %s", n, s.Failing))
		}
		r.Values = append(r.Values, s.Value)
		r.Looks[round-1] = r.count()
	}
}

// behind reports whether the side is out because another one is ahead of it.
func (r *Run) behind() bool { return r.Verdict.Verdict == stats.Behind }

// playing are the sides that are measured in the next round: those that can
// still be the best. A tied one goes on while others are open, so that a new
// champion is compared with it by repeats of the same time.
func (s State) playing() []int {
	var out []int
	for i := range s.Sides {
		if r := &s.Sides[i]; r.Broken == "" && !r.behind() {
			out = append(out, i)
		}
	}
	return out
}

// open reports whether a further look could decide something.
func (s State) open() bool {
	return slices.ContainsFunc(s.Sides, func(r Run) bool { return r.Verdict.Verdict == stats.Open })
}

// judge compares the sides after a round.
func (s *State) judge(round int) error {
	for i := range s.Sides {
		if r := &s.Sides[i]; r.Broken == "" && 2*len(r.Failing) > r.count() {
			r.Broken = fmt.Sprintf("it does not pass in %d of %d repeats; %s", len(r.Failing), r.count(), r.Failing[len(r.Failing)-1])
		}
	}
	play := s.playing()
	pairs, err := s.pairs(play, round)
	if err != nil {
		return err
	}
	s.Champion = champion(play, pairs, s.Champion)
	for i := range s.Sides {
		r := &s.Sides[i]
		switch {
		case i == s.Champion || r.Broken != "":
			r.Verdict, r.Against = stats.Comparison{}, 0
		case !r.behind():
			r.Verdict, r.Against = pairs[[2]int{i, s.Champion}], s.Champion
		}
	}
	return nil
}

// pairs compares each side with each other.
func (s *State) pairs(play []int, round int) (map[[2]int]stats.Comparison, error) {
	out := map[[2]int]stats.Comparison{}
	plans := map[string]stats.Plan{}
	for _, i := range play {
		for _, j := range play {
			if i == j {
				continue
			}
			c, err := s.compare(i, j, round, plans)
			if err != nil {
				return nil, err
			}
			out[[2]int{i, j}] = c
		}
	}
	return out, nil
}

// champion is the side that the fewest others are ahead of; of several the one
// that most others are told from or tied with, so that the verdicts are not those
// against the noisiest; of several the one that was it, else the first. -1 is none.
func champion(play []int, pairs map[[2]int]stats.Comparison, was int) int {
	best, least := -1, [3]int{}
	for _, i := range play {
		rank := [3]int{0, 0, 1}
		for _, j := range play {
			switch pairs[[2]int{j, i}].Verdict {
			case stats.Ahead:
				rank[0]++
			case stats.Behind, stats.Tied:
				rank[1]--
			}
		}
		if i == was {
			rank[2] = 0
		}
		if best < 0 || slices.Compare(rank[:], least[:]) < 0 {
			best, least = i, rank
		}
	}
	return best
}

// compare judges side i against side j. Looks are at as many samples as both had
// then: where some were rejected, a look had fewer than it was planned for, and there
// is none with fewer than the bounds ask for. plans keeps the bounds of looks, which take milliseconds.
func (s *State) compare(i, j, round int, plans map[string]stats.Plan) (stats.Comparison, error) {
	a, b := &s.Sides[i], &s.Sides[j]
	planned := s.Bounds.rule()
	rule := stats.Rule{Band: planned.Band, Error: planned.Error}
	for k, n := range planned.Looks {
		if k < round {
			n = min(a.Looks[k], b.Looks[k])
		}
		if n >= max(2, s.Bounds.Min) && (len(rule.Looks) == 0 || n > rule.Looks[len(rule.Looks)-1]) {
			rule.Looks = append(rule.Looks, n)
		}
	}
	none := stats.Comparison{Verdict: stats.Unresolved, Band: rule.Band, Higher: true}
	if len(rule.Looks) == 0 {
		return none, nil
	}
	looks := fmt.Sprint(rule.Looks)
	plan, ok := plans[looks]
	if !ok {
		var err error
		if plan, err = stats.NewPlan(rule); err != nil {
			return none, err
		}
		plans[looks] = plan
	}
	return plan.Judge(a.Values, b.Values, true)
}

// Why is a sentence on where the comparison stands; sides give the names.
func (s State) why(sides []Side) string {
	if s.Champion < 0 {
		return s.broken(sides)
	}
	by := map[stats.Verdict][]string{}
	for i, r := range s.Sides {
		if r.Verdict.Verdict == "" {
			continue
		}
		c := r.Verdict
		text := sides[i].Name
		if c.Repeats > 0 {
			text += fmt.Sprintf(" (ratio %.4f, %.4f to %.4f, %d repeats)", c.Ratio, c.Low, c.High, c.Repeats)
		}
		if r.Against != s.Champion {
			text += " behind " + sides[r.Against].Name
		}
		by[c.Verdict] = append(by[c.Verdict], text)
	}
	name := sides[s.Champion].Name
	var parts []string
	for _, w := range []struct {
		verdict stats.Verdict
		before  string
	}{{stats.Behind, name + " is ahead of "}, {stats.Tied, name + " is tied with "}, {stats.Unresolved, "unresolved between " + name + " and "},
		{stats.Open, "not decided yet between " + name + " and "}} {
		if list := by[w.verdict]; list != nil {
			parts = append(parts, w.before+strings.Join(list, ", "))
		}
	}
	if text := s.broken(sides); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func (s State) broken(sides []Side) string {
	var parts []string
	for i, r := range s.Sides {
		if r.Broken != "" {
			parts = append(parts, fmt.Sprintf("%s is out: %s", sides[i].Name, r.Broken))
		}
	}
	return strings.Join(parts, "; ")
}

// Read reads a state that a decision holds.
func Read(b []byte) (State, error) {
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("reading the state of repeats: %w", err)
	}
	if len(s.Sides) == 0 {
		return s, errors.New("the state of repeats has no sides")
	}
	return s, nil
}
