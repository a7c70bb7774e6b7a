package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// maxBusy is the share of the client's own cores above which its stamps are
// late and no number of it may stand.
const maxBusy = 0.9

// minRate is the share of the scheduled rate that must really be sent.
const minRate = 0.99

// measured is what a cell's verdict and numbers are made of.
type measured struct {
	spec    Spec
	asked   int // requests that should be sent
	samples []sample
	busy    *float64 // CPU share of the client's own cores; nil: not observed
	resent  int64
	ended   wire.Failure // the cell was ended from outside
}

// row judges the cell. Subject, workload, server and start time are left to
// the caller.
func (m measured) row() result.Row {
	r := result.Row{Version: result.RowVersion, Status: result.OK, Requests: m.count()}
	r.Time.Seconds = m.span().Seconds()
	r.Facts.ClientBusy = m.busy
	lag := m.lag()
	if lag != nil {
		v := percentile(lag, 99)
		r.Facts.SendLagP99 = &v
	}
	if q := r.Requests; q.Cached != nil && q.Input > 0 {
		share := float64(*q.Cached) / float64(q.Input)
		r.Facts.CacheHitShare = &share
	}
	if m.resent > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d requests were sent a second time because the server had closed a kept connection", m.resent))
	}
	f := m.verdict(r)
	if f.Class != "" {
		r.Status, r.Class, r.Reason = status(f.Class), f.Class, f.Reason
		return r
	}
	if r.Requests.Failed > 0 {
		r.Warnings = append(r.Warnings, m.failures(r.Requests))
	}
	r.Metrics = m.metrics()
	return r
}

func (m measured) verdict(r result.Row) wire.Failure {
	q, rules := r.Requests, m.spec.Rules
	lag, rate := r.Facts.SendLagP99, m.rate()
	switch {
	case m.ended.Class != "" && (len(m.samples) < m.asked || q.Failures[m.ended.Class] > 0):
		return wire.Fail(m.ended.Class, "%s: %d of %d requests sent, %d succeeded",
			m.ended.Reason, len(m.samples), m.asked, q.OK)
	case float64(q.OK)/float64(len(m.samples)) < rules.MinSuccess:
		return wire.Fail(worst(q.Failures), "%s", m.failures(q))
	case lag != nil && *lag > rules.MaxSendLag.Seconds():
		return wire.Fail(result.ClientLimited, "the client sent late: the 99th percentile of the send lag is %.1f ms, at most %v is allowed",
			*lag*1e3, rules.MaxSendLag)
	case m.busy != nil && *m.busy > maxBusy:
		return wire.Fail(result.ClientLimited, "the client used %.0f %% of its cores, at most %.0f %% is allowed", *m.busy*100, maxBusy*100)
	case rate < minRate:
		return wire.Fail(result.RateNotReached, "requests were sent at %.1f %% of the scheduled rate, because the concurrency cap held them back", rate*100)
	}
	return wire.Failure{}
}

// count counts requests by outcome, and tokens over successes.
func (m measured) count() result.Requests {
	var q result.Requests
	cached := int64(0)
	known := true
	for _, s := range m.samples {
		if f := s.failure; f.Class != "" {
			q.Failed++
			if q.Failures == nil {
				q.Failures = map[result.Class]int{}
			}
			q.Failures[f.Class]++
			if len(q.Examples) < 5 {
				q.Examples = append(q.Examples, fmt.Sprintf("request %d: %s: %s", s.ask.id, f.Class, f.Reason))
			}
			continue
		}
		u := s.answer.Usage
		q.OK++
		q.Input += u.Input
		q.Output += u.Output
		known = known && u.Cached >= 0
		cached += max(u.Cached, 0)
	}
	if known && q.OK > 0 {
		q.Cached = &cached
	}
	return q
}

// failures says in a sentence what failed, in the order of the class table.
func (m measured) failures(q result.Requests) string {
	var by []string
	for _, c := range result.Classes {
		if n := q.Failures[c.Class]; n > 0 {
			by = append(by, fmt.Sprintf("%d %s", n, c.Class))
		}
	}
	return fmt.Sprintf("%d of %d requests failed, a success rate of %v is asked for: %s; first: %s",
		q.Failed, len(m.samples), m.spec.Rules.MinSuccess, strings.Join(by, ", "), q.Examples[0])
}

// worst is the most frequent class; of equals the first of the class table.
func worst(by map[result.Class]int) (worst result.Class) {
	for _, c := range result.Classes {
		if by[c.Class] > by[worst] {
			worst = c.Class
		}
	}
	return worst
}

// status is the class table's word for a class.
func status(c result.Class) result.Status {
	i := slices.IndexFunc(result.Classes, func(r result.ClassRow) bool { return r.Class == c })
	if i < 0 {
		panic(fmt.Sprintf("bench: class %q is not in the table", c))
	}
	return result.Classes[i].Status
}

// lag returns the sorted real minus due send times in seconds; nil where
// nothing was due.
func (m measured) lag() []float64 {
	var out []float64
	for _, s := range m.samples {
		if s.due >= 0 {
			out = append(out, max(0, s.sent-s.due).Seconds())
		}
	}
	slices.Sort(out)
	return out
}

// rate is the share of the scheduled rate at which requests were really sent;
// 1 where there is no schedule. The allowed send lag is not held against it.
func (m measured) rate() float64 {
	n := len(m.samples)
	if n < 2 || m.samples[0].scheduled < 0 {
		return 1
	}
	want := m.samples[n-1].scheduled - m.samples[0].scheduled
	real := m.samples[n-1].sent - m.samples[0].sent - m.spec.Rules.MaxSendLag
	if real <= want {
		return 1
	}
	return want.Seconds() / real.Seconds()
}

// span is the time from the first send to the last byte of any answer.
func (m measured) span() time.Duration {
	first, last := m.window()
	return max(0, last-first)
}

func (m measured) window() (first, last time.Duration) {
	for i, s := range m.samples {
		if i == 0 || s.sent < first {
			first = s.sent
		}
		last = max(last, s.end)
	}
	return first, last
}
