// Package samples judges the records of one key as samples of a measurement:
// whether there are enough of them, and young enough. It knows records, no
// metric; what it says is never part of a key.
package samples

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
)

// Rule says which samples of a key make a result. Samples are append-only; a
// rule hides none and is no part of any key.
type Rule struct {
	Samples int // how many must be accepted; 0 is 1
	// MaxAge is how old a sample may be; 0: any age. One from the future, taken
	// before the clock was put back, is as far off as it looks: up to MaxAge it
	// counts, beyond nobody knows its age.
	MaxAge time.Duration
	// Bounds must all hold of an ok sample, else it is rejected.
	Bounds []Bound
	// Wanting is why no sample counts on this host, whatever it says: such as
	// files that are gone. "" is nothing.
	Wanting string
}

// Bound is a number that was observed with a sample. A sample of which it is not
// known does not pass.
type Bound struct {
	Fact string  // name of the observation
	Most float64 // inclusive
	// Class and Reason are those of the rejection.
	Class, Reason string
}

func (b Bound) holds(s *cache.Record) bool {
	for _, o := range s.Observed {
		if o.Name == b.Fact {
			v, err := strconv.ParseFloat(o.Value, 64)
			return err == nil && v <= b.Most
		}
	}
	return false
}

// broken is the first bound that a sample does not keep, as its rejection.
func (r Rule) broken(s *cache.Record) (cache.Outcome, bool) {
	if s.Outcome.State == cache.OK {
		for _, b := range r.Bounds {
			if !b.holds(s) {
				return cache.Outcome{State: cache.Rejected, Class: b.Class, Reason: b.Reason}, true
			}
		}
	}
	return cache.Outcome{}, false
}

// Judge returns the newest accepted sample when there are enough, else nil and
// a sentence for people, such as "needs 2 more samples; 1 rejected: throttled:
// 12 % of the time". samples are oldest first. A sample is accepted when its
// outcome is final and it is not too old.
func (r Rule) Judge(samples []*cache.Record, now time.Time) (*cache.Record, string) {
	if r.Wanting != "" {
		return nil, r.Wanting
	}
	var newest *cache.Record
	var lastRejected, lastFailed cache.Outcome
	accepted, rejected, failed, old, future := 0, 0, 0, 0, 0
	for _, s := range samples {
		outcome := s.Outcome
		if beyond, ok := r.broken(s); ok {
			outcome = beyond
		}
		switch {
		case outcome.State == cache.Rejected:
			rejected++
			lastRejected = outcome
		case !outcome.Final():
			failed++
			lastFailed = outcome
		case r.MaxAge > 0 && now.Sub(s.Time.Started) > r.MaxAge:
			old++
		case r.MaxAge > 0 && s.Time.Started.Sub(now) > r.MaxAge:
			future++
		default:
			accepted++
			newest = s
		}
	}
	need := max(1, r.Samples)
	if accepted >= need {
		return newest, ""
	}
	parts := []string{fmt.Sprintf("needs %d more %s", need-accepted, plural(need-accepted, "sample"))}
	if rejected > 0 {
		parts = append(parts, fmt.Sprintf("%d rejected%s: %s", rejected, theLast(rejected), lastRejected.Text()))
	}
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed%s: %s", failed, theLast(failed), lastFailed.Text()))
	}
	if old > 0 {
		parts = append(parts, fmt.Sprintf("%d older than %s", old, ageText(r.MaxAge)))
	}
	if future > 0 {
		parts = append(parts, fmt.Sprintf("%d more than %s in the future: was the clock put back?", future, ageText(r.MaxAge)))
	}
	return nil, strings.Join(parts, "; ")
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

func theLast(n int) string {
	if n == 1 {
		return ""
	}
	return ", the last"
}

// ageText writes whole days as people set them.
func ageText(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day == 0 {
		return fmt.Sprintf("%d %s", d/day, plural(int(d/day), "day"))
	}
	return d.String()
}
