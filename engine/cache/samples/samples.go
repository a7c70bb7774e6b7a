// Package samples judges the records of one key as samples of a measurement:
// whether there are enough of them, and young enough. It knows records, no
// metric; what it says is never part of a key.
package samples

import (
	"fmt"
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
}

// Judge returns the newest accepted sample when there are enough, else nil and
// a sentence for people, such as "needs 2 more samples; 1 rejected: throttled:
// 12 % of the time". samples are oldest first. A sample is accepted when its
// outcome is final and it is not too old.
func (r Rule) Judge(samples []*cache.Record, now time.Time) (*cache.Record, string) {
	var newest *cache.Record
	var lastRejected, lastFailed *cache.Record
	accepted, rejected, failed, old, future := 0, 0, 0, 0, 0
	for _, s := range samples {
		switch {
		case s.Outcome.State == cache.Rejected:
			rejected++
			lastRejected = s
		case !s.Outcome.Final():
			failed++
			lastFailed = s
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
		parts = append(parts, fmt.Sprintf("%d rejected%s: %s", rejected, theLast(rejected), lastRejected.Outcome.Text()))
	}
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed%s: %s", failed, theLast(failed), lastFailed.Outcome.Text()))
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
