package winners

import (
	"fmt"
	"slices"

	"github.com/sotabuild/sotabuild/stdlib/result"
)

// equalCaches takes the place of those rows of one cell that found more of
// their prompts in a cache than the row that found least, by more than limit:
// their numbers are of less work (DESIGN 11.8). Rows that do not expose it stay,
// and are named by unknownCaches. Rows that do not pass are no measure.
func equalCaches(rows []*Judged, limit *float64) {
	if limit == nil {
		return
	}
	low := -1.
	for _, j := range rows {
		if c := j.Score.Cached; j.ranked() && c != nil && (low < 0 || *c < low) {
			low = *c
		}
	}
	for _, j := range rows {
		// A part in a billion is the rounding of shares.
		if c := j.Score.Cached; j.ranked() && c != nil && *c-low > *limit+1e-9 {
			j.Passed, j.Class = false, result.CacheUnequal
			j.Reasons = append(slices.Clone(j.Reasons), fmt.Sprintf("rejected: cache_unequal: %s of its prompt tokens came from a cache, and %s of a row that it is compared with; at most %s apart is allowed",
				short(*c), short(low), short(*limit)))
		}
	}
}

// unknownCaches says whether some passing rows expose their cached share and
// others do not: then nobody knows whether the caches were alike.
func unknownCaches(places []Place) bool {
	known, unknown := false, false
	for _, p := range places {
		if p.ranked() {
			known = known || p.Score.Cached != nil
			unknown = unknown || p.Score.Cached == nil
		}
	}
	return known && unknown
}
