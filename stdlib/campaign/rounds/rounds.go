// Package rounds is what the loops beside a campaign's graph have in common:
// where they begin, what they wait for, how their plan reads. It knows no loop.
//
// Their rounds live outside the graph, at addresses of their own; the caller
// plans and applies them.
package rounds

import (
	"fmt"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/loop"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
)

// Loop is a loop of a campaign.
type Loop struct {
	Addr  string // where its rounds stand
	Bound int    // the most rounds; 0 where that is not known without Rounds
	Of    string // what it measures, for people; "" without Rounds
	// Rounds is nil while there is nothing to measure; Why says why, and
	// Undecided whether that may still come.
	Rounds    *loop.Loop
	Why       string
	Undecided bool
	// Whole says that a round is replaced as a whole: who could take one of its
	// samples again could choose among them.
	Whole bool
	// Framework is the label of the framework that a block of the rounds runs.
	Framework func(block string) string
}

// Config is what planning and running the rounds needs.
func Config(p *prepare.Prepared, r cache.Reader, o plan.Options) loop.Config {
	return loop.Config{Env: p.Graph.Env, Store: r, Options: o}
}

// View is the loop as far as the store knows it; zero without Rounds. replace
// names rounds of it.
func (l Loop) View(p *prepare.Prepared, r cache.Reader, replace []string, now time.Time) (loop.View, error) {
	if l.Rounds == nil {
		return loop.View{}, nil
	}
	return l.Rounds.Plan(Config(p, r, plan.Options{Replace: replace, Now: now}))
}

// Text is the plan of the loop for people.
func (l Loop) Text(v loop.View) string {
	switch {
	case l.Undecided:
		span := "…"
		switch {
		case l.Bound == 1:
			span = "1"
		case l.Bound > 1:
			span = fmt.Sprintf("1…%d", l.Bound)
		}
		return fmt.Sprintf("? %s.round[%s]  possible; %s\n", l.Addr, span, l.Why)
	case l.Rounds == nil:
		return fmt.Sprintf("- %s  %s\n", l.Addr, l.Why)
	}
	return v.Text()
}

// Has reports whether a name is one of the loop's rounds or lies in one.
func (l Loop) Has(name string) bool { return strings.HasPrefix(name, l.Addr+".") }

// Round is the round that a name lies in; "" where it names none.
func (l Loop) Round(name string) string {
	rest, ok := strings.CutPrefix(name, l.Addr+".round[")
	if number, _, closed := strings.Cut(rest, "]"); ok && closed {
		return l.Addr + ".round[" + number + "]"
	}
	return ""
}

// Split parts the names of nodes and blocks into those with one of the prefixes
// and the others.
func Split(names []string, prefixes ...string) (own, others []string) {
	for _, n := range names {
		mine := false
		for _, p := range prefixes {
			mine = mine || strings.HasPrefix(n, p)
		}
		if mine {
			own = append(own, n)
		} else {
			others = append(others, n)
		}
	}
	return own, others
}
