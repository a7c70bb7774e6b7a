package samples

import (
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func sample(age time.Duration, o cache.Outcome) *cache.Record {
	return &cache.Record{Time: cache.Span{Started: noon.Add(-age)}, Outcome: o}
}

func TestJudge(t *testing.T) {
	const day = 24 * time.Hour
	ok := cache.Outcome{State: cache.OK}
	throttled := cache.Outcome{State: cache.Rejected, Reason: "throttled 12 % of the time"}
	timeout := cache.Outcome{State: cache.Failed, Class: "timeout"}
	oom := cache.Outcome{State: cache.Failed, Class: "oom", Keep: true}
	capped := []Bound{{Fact: "power_cap_share", Most: 0.01, Class: "throttled", Reason: "power capped"}}
	observed := func(share string) *cache.Record {
		r := sample(1, ok)
		r.Observed = []cache.Observed{{Name: "power_cap_share", Value: share}}
		return r
	}
	for _, tc := range []struct {
		name    string
		rule    Rule
		samples []*cache.Record
		want    int // index of the result; -1: none
		text    string
	}{
		{"none", Rule{}, nil, -1, "needs 1 more sample"},
		{"one", Rule{}, []*cache.Record{sample(400*day, ok)}, 0, ""},
		{"the_newest", Rule{}, []*cache.Record{sample(3, ok), sample(2, ok), sample(1, throttled)}, 1, ""},
		{"a_kept_failure_is_a_sample", Rule{}, []*cache.Record{sample(1, oom)}, 0, ""},
		{"of_the_design", Rule{Samples: 3}, []*cache.Record{sample(2, ok), sample(1, throttled)}, -1,
			"needs 2 more samples; 1 rejected: throttled 12 % of the time"},
		{"enough", Rule{Samples: 2}, []*cache.Record{sample(3, ok), sample(2, throttled), sample(1, ok)}, 2, ""},
		{"too_old", Rule{MaxAge: 30 * day}, []*cache.Record{sample(30*day+1, ok)}, -1, "needs 1 more sample; 1 older than 30 days"},
		{"just_not_too_old", Rule{MaxAge: 30 * day}, []*cache.Record{sample(30*day, ok)}, 0, ""},
		{"the_clock_was_put_back_a_little", Rule{MaxAge: 30 * day}, []*cache.Record{sample(-day, ok)}, 0, ""},
		{"from_the_far_future", Rule{MaxAge: time.Hour}, []*cache.Record{sample(-day, ok)}, -1,
			"needs 1 more sample; 1 more than 1h0m0s in the future: was the clock put back?"},
		{"from_the_future_of_any_age", Rule{}, []*cache.Record{sample(-400*day, ok)}, 0, ""},
		{"everything", Rule{Samples: 2, MaxAge: 90 * time.Minute}, []*cache.Record{sample(day, ok), sample(5, timeout), sample(4, timeout), sample(3, throttled), sample(1, ok)}, -1,
			"needs 1 more sample; 1 rejected: throttled 12 % of the time; 2 failed, the last: timeout; 1 older than 1h30m0s"},
		{"within_a_bound", Rule{Bounds: capped}, []*cache.Record{observed("0.01"), observed("0.02")}, 0, ""},
		{"beyond_a_bound_or_not_known", Rule{Bounds: capped}, []*cache.Record{observed("0.011"), observed("much"), sample(1, ok)}, -1,
			"needs 1 more sample; 3 rejected, the last: throttled: power capped"},
		{"a_kept_failure_was_not_measured", Rule{Bounds: capped}, []*cache.Record{sample(1, oom)}, 0, ""},
		{"wanting_here", Rule{Wanting: "the folder is gone"}, []*cache.Record{sample(1, ok)}, -1, "the folder is gone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, text := tc.rule.Judge(tc.samples, noon)
			var want *cache.Record
			if tc.want >= 0 {
				want = tc.samples[tc.want]
			}
			if got != want || text != tc.text {
				t.Errorf("%v, %q; want %v, %q", got, text, want, tc.text)
			}
		})
	}
}
