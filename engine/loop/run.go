package loop

import (
	"context"
	"fmt"
	"strings"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/plan"
)

// View is a loop as far as the store knows it: finished rounds, and the one
// that is next, whose plan says what it would run.
type View struct {
	Loop   *Loop
	Rounds []Round // the last one is next unless Over
	Over   bool    // by its decision or its bound; nothing is to be run
}

// Plan replays the rounds that are in the store and plans the next one. It runs
// nothing. A round cannot be planned before the one before it has decided.
func (l *Loop) Plan(c Config) (View, error) {
	v := View{Loop: l}
	if err := l.check(c.Options); err != nil {
		return v, err
	}
	state := l.Start
	for number := 1; number <= l.Bound; number++ {
		r, err := l.round(state, number, c)
		if err != nil {
			return v, err
		}
		v.Rounds = append(v.Rounds, r)
		if r.Decision == nil {
			return v, nil
		}
		if r.Decision.Stop {
			break
		}
		state = r.Decision.State
	}
	v.Over = true
	return v, nil
}

// Left are the totals of the round that is next; zero of a loop that is over,
// and of the zero View.
func (v View) Left() plan.Counts {
	if v.Over || len(v.Rounds) == 0 {
		return plan.Counts{}
	}
	return v.Rounds[len(v.Rounds)-1].Plan.Counts
}

// Text is the view for people: a line for each finished round, the plan of the
// next one, and which rounds are possible after it.
func (v View) Text() string {
	var b strings.Builder
	for _, r := range v.Rounds {
		if r.Decision == nil {
			for _, line := range r.Plan.Lines(r.Graph) {
				b.WriteString(line.String() + "\n")
			}
			fmt.Fprintf(&b, "%s: %s.\n", v.Loop.Address(r.Number), r.Plan.Sum())
			if e := r.Plan.Estimate.String(); e != "" {
				b.WriteString(e + "\n")
			}
			if rest := v.Loop.Bound - r.Number; rest > 0 {
				fmt.Fprintf(&b, "? %s.round[%s]  possible; round %d decides\n", v.Loop.at(), span(r.Number+1, v.Loop.Bound), r.Number)
			}
			continue
		}
		fmt.Fprintf(&b, "= %s  %s\n", v.Loop.Address(r.Number), r.Decision.Why)
	}
	if v.Over {
		s := "s"
		if v.Loop.Bound == 1 {
			s = ""
		}
		fmt.Fprintf(&b, "Loop %s is over after %d of at most %d round%s.\n", v.Loop.at(), len(v.Rounds), v.Loop.Bound, s)
	}
	return b.String()
}

func span(from, to int) string {
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d…%d", from, to)
}

// Result is how a loop ended.
type Result struct {
	Rounds []Round
	// Stopped says that a decision stopped it; else the bound did, which is
	// not the goal (DESIGN 8(7)).
	Stopped bool
	Why     string // of the last decision
	State   []byte // the last one
}

// Run replays what is there and applies the rest, round by round. apply runs
// one plan to its end; what it could not finish leaves the round without a
// decision, which is an error that names the nodes. The end of ctx is checked
// between rounds.
func (l *Loop) Run(ctx context.Context, c Config, apply func(context.Context, *compile.Graph, *plan.Plan) error) (Result, error) {
	res := Result{State: l.Start}
	if err := l.check(c.Options); err != nil {
		return res, err
	}
	for number := 1; number <= l.Bound; number++ {
		if err := ctx.Err(); err != nil {
			return res, err
		}
		r, err := l.round(res.State, number, c)
		if err != nil {
			return res, err
		}
		if r.Decision == nil && r.Plan.Counts.Changes() > 0 {
			if err := apply(ctx, r.Graph, r.Plan); err != nil {
				return res, fmt.Errorf("running %s: %w", l.Address(number), err)
			}
			again := c.Options
			again.Replace = nil // they were replaced
			if err := l.plan(&r, c.Store, again); err != nil {
				return res, err
			}
		}
		res.Rounds = append(res.Rounds, r)
		if r.Decision == nil {
			return res, fmt.Errorf("%s came to no decision: %s", l.Address(number), unfinished(&r))
		}
		res.State, res.Why, res.Stopped = r.Decision.State, r.Decision.Why, r.Decision.Stop
		if res.Stopped {
			return res, nil
		}
	}
	return res, nil
}

// unfinished names the nodes that keep a round from deciding.
func unfinished(r *Round) string {
	var parts []string
	for _, line := range r.Plan.Lines(r.Graph) {
		parts = append(parts, line.String())
	}
	if len(parts) == 0 {
		return "its decision failed"
	}
	return strings.Join(parts, "; ")
}
