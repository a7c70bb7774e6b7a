// Package budget counts what a run uses of its bounds, and says of a task
// whether it still fits. It knows seconds and GPUs, no nodes; time is given to
// it. A Spending has one owner.
package budget

import (
	"fmt"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/plan"
)

// Spending is what a run has used.
type Spending struct {
	Budget plan.Budget
	// Past are the records of a kind, for nodes that have no past themselves.
	Past func(kind string) []*cache.Record

	used     float64 // GPU-seconds of what ended
	reserved float64 // of what runs, by its estimate
	longest  map[string]plan.Past
}

// Cost is what a task is expected to take.
type Cost struct {
	Seconds float64
	Known   bool // false: nothing like it was run before
	GPUs    int
}

func (c Cost) gpuSeconds() float64 { return c.Seconds * float64(c.GPUs) }

// Cost adds up what the nodes of a task took the last time, after the longest time
// that its servers then took to come up. A node without a past, which is zero,
// counts as the longest of its kind.
func (s *Spending) Cost(kind string, nodes []plan.Past, gpus int) Cost {
	c := Cost{Known: true, GPUs: gpus}
	setup := 0.0
	for _, one := range nodes {
		if one.Seconds == 0 {
			one = s.longestOf(kind)
		}
		c.Known = c.Known && one.Seconds > 0
		c.Seconds += one.Seconds
		setup = max(setup, one.Setup)
	}
	c.Seconds += setup
	return c
}

func (s *Spending) longestOf(kind string) plan.Past {
	if v, ok := s.longest[kind]; ok {
		return v
	}
	var longest plan.Past
	for _, r := range s.Past(kind) {
		longest.Seconds = max(longest.Seconds, r.Time.Seconds)
		longest.Setup = max(longest.Setup, r.Time.Setup)
	}
	if s.longest == nil {
		s.longest = map[string]plan.Past{}
	}
	s.longest[kind] = longest
	return longest
}

// Fit is how many of a task's nodes, in their order, fit into the rest, and why
// those after them do not.
func (s *Spending) Fit(kind string, nodes []plan.Past, gpus int, now time.Time) (n int, why string) {
	for n = len(nodes); n > 0; n-- {
		refused := s.Refuses(s.Cost(kind, nodes[:n], gpus), now)
		if refused == "" {
			return n, why
		}
		if why == "" {
			why = refused // of all of them
		}
	}
	return 0, why
}

// Refuses says why a task does not fit; "" if it may start. One of which
// nothing is known may start as long as anything is left at all.
func (s *Spending) Refuses(c Cost, now time.Time) string {
	took := time.Duration(c.Seconds * float64(time.Second))
	switch left := s.Budget.Deadline.Sub(now); {
	case s.Budget.Deadline.IsZero():
	case left <= 0:
		return "over the deadline: no time is left"
	case took > left:
		return fmt.Sprintf("over the deadline: %s are left, and it would take about %s", round(left), round(took))
	}
	switch rest := s.Budget.GPUSeconds - s.used - s.reserved; {
	case s.Budget.GPUSeconds == 0 || c.GPUs == 0:
	case rest <= 0:
		return "over the budget: no GPU-hours are left"
	case c.gpuSeconds() > rest:
		s := "s"
		if c.GPUs == 1 {
			s = ""
		}
		return fmt.Sprintf("over the budget: %.3f GPU-hours are left, and it would take about %s on %d GPU%s", rest/3600, round(took), c.GPUs, s)
	}
	return ""
}

func round(d time.Duration) time.Duration {
	if d < time.Minute {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// Begin reserves what a task is expected to take.
func (s *Spending) Begin(c Cost) { s.reserved += c.gpuSeconds() }

// End counts what it really took in the place of that.
func (s *Spending) End(c Cost, took time.Duration) {
	s.reserved -= c.gpuSeconds()
	s.used += took.Seconds() * float64(c.GPUs)
}
