package judge

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

// Row judges the cell. Subject, workload, server and start time are left to
// the caller.
func (m Cell) Row() result.Row {
	r := result.Row{Version: result.RowVersion, Status: result.OK, Requests: m.count()}
	r.Time.Seconds = m.span().Seconds()
	r.Facts.ClientBusy = m.Busy
	lag := m.lag()
	if lag != nil {
		v := percentile(lag, 99)
		r.Facts.SendLagP99 = &v
	}
	r.Facts.SentRate = m.sent()
	if q := r.Requests; q.Cached != nil && q.Input > 0 {
		share := float64(*q.Cached) / float64(q.Input)
		r.Facts.CacheHitShare = &share
	}
	if m.Resent > 0 {
		r.Warnings = append(r.Warnings, result.Count(int(m.Resent), "request")+" sent a second time because the server had closed a kept connection")
	}
	f := m.verdict(r)
	if f.Class != "" {
		r.Status, r.Class, r.Reason = Status(f.Class), f.Class, f.Reason
		return r
	}
	if r.Requests.Failed > 0 {
		r.Warnings = append(r.Warnings, m.failures(r.Requests))
	}
	if n := m.atOnce(); n > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d answers came with all tokens in one read: they have no time per token", n, r.Requests.OK))
	}
	r.Metrics = m.metrics()
	return r
}

func (m Cell) verdict(r result.Row) wire.Failure {
	q, rules := r.Requests, m.Rules
	lag, rate := r.Facts.SendLagP99, m.rate()
	switch {
	case m.Ended.Class != "" && (len(m.Samples) < m.Asked || q.CutOff > 0 || q.Failures[m.Ended.Class] > 0):
		f := wire.Fail(m.Ended.Class, "%s: %d of %d requests sent, %d succeeded", m.Ended.Reason, len(m.Samples), m.Asked, q.OK)
		if q.CutOff > 0 {
			f.Reason += fmt.Sprintf(", %d cut off", q.CutOff)
		}
		return f
	case float64(q.OK)/float64(q.OK+q.Failed) < rules.MinSuccess:
		return wire.Fail(Worst(q.Failures), "%s", m.failures(q))
	case lag != nil && *lag > rules.MaxSendLag.Seconds():
		return wire.Fail(result.ClientLimited, "the client sent late: the 99th percentile of the send lag is %.1f ms, at most %v is allowed",
			*lag*1e3, rules.MaxSendLag)
	case m.Busy != nil && *m.Busy > maxBusy:
		return wire.Fail(result.ClientLimited, "the client used %.0f %% of its cores, at most %.0f %% is allowed", *m.Busy*100, maxBusy*100)
	case rate < minRate:
		return wire.Fail(result.RateNotReached, "requests were sent at %.1f %% of the scheduled rate, because the concurrency cap held them back", rate*100)
	}
	return wire.Failure{}
}

// count counts requests by outcome, and tokens over successes.
func (m Cell) count() result.Requests {
	var q result.Requests
	cached := int64(0)
	known := true
	for _, s := range m.Samples {
		if s.Cancelled {
			q.Cancelled++
			continue
		}
		if s.CutOff {
			q.CutOff++
			continue
		}
		if f := s.Failure; f.Class != "" {
			q.Failed++
			if q.Failures == nil {
				q.Failures = map[result.Class]int{}
			}
			q.Failures[f.Class]++
			if len(q.Examples) < 5 {
				q.Examples = append(q.Examples, fmt.Sprintf("request %d: %s: %s", s.Ask.ID, f.Class, f.Reason))
			}
			continue
		}
		u := s.Answer.Usage
		q.OK++
		q.Input += u.Input
		q.Output += u.Output
		known = known && u.Cached >= 0
		cached += max(u.Cached, 0)
	}
	if known && q.OK > 0 {
		q.Cached = &cached
	}
	q.Lengths = m.lengths()
	return q
}

// failures says in a sentence what failed, in the order of the class table.
func (m Cell) failures(q result.Requests) string {
	var by []string
	for _, c := range result.Classes {
		if n := q.Failures[c.Class]; n > 0 {
			by = append(by, fmt.Sprintf("%d %s", n, c.Class))
		}
	}
	return fmt.Sprintf("%d of %d requests failed, a success rate of %v is asked for: %s; first: %s",
		q.Failed, q.OK+q.Failed, m.Rules.MinSuccess, strings.Join(by, ", "), q.Examples[0])
}

// Worst is the most frequent class; of equals the first of the class table.
func Worst(by map[result.Class]int) (most result.Class) {
	for _, c := range result.Classes {
		if by[c.Class] > by[most] {
			most = c.Class
		}
	}
	return most
}

// Status is the class table's word for a class.
func Status(c result.Class) result.Status {
	i := slices.IndexFunc(result.Classes, func(r result.ClassRow) bool { return r.Class == c })
	if i < 0 {
		panic(fmt.Sprintf("judge: class %q is not in the table", c))
	}
	return result.Classes[i].Status
}

// lag returns the sorted real minus due send times in seconds; nil where
// nothing was due.
func (m Cell) lag() []float64 {
	var out []float64
	for _, s := range m.Samples {
		if s.Due >= 0 {
			out = append(out, max(0, s.Sent-s.Due).Seconds())
		}
	}
	slices.Sort(out)
	return out
}

// scheduled are the first and the last request with a schedule and how many
// there are.
func (m Cell) scheduled() (first, last *Sample, n int) {
	for i := range m.Samples {
		if s := &m.Samples[i]; s.Scheduled >= 0 {
			if first == nil {
				first = s
			}
			last = s
			n++
		}
	}
	return first, last, n
}

// sent is the rate at which requests with a schedule were really sent; nil where
// there are none, or no time between them.
func (m Cell) sent() *float64 {
	first, last, n := m.scheduled()
	if n < 2 || last.Sent <= first.Sent {
		return nil
	}
	v := float64(n-1) / (last.Sent - first.Sent).Seconds()
	return &v
}

// rate is the share of the scheduled rate at which requests were really sent;
// 1 where there is no schedule. The allowed send lag is not held against it.
func (m Cell) rate() float64 {
	first, last, n := m.scheduled()
	if n < 2 {
		return 1
	}
	want := last.Scheduled - first.Scheduled
	real := last.Sent - first.Sent - m.Rules.MaxSendLag
	if real <= want {
		return 1
	}
	return want.Seconds() / real.Seconds()
}

// lengths are the median and the 95th percentile of the successes' token
// counts, so that mixed datasets can be told apart later (R144).
func (m Cell) lengths() *result.Lengths {
	var in, out []float64
	for _, s := range m.Samples {
		if s.good() {
			in, out = append(in, float64(s.Answer.Usage.Input)), append(out, float64(s.Answer.Usage.Output))
		}
	}
	if len(in) == 0 {
		return nil
	}
	slices.Sort(in)
	slices.Sort(out)
	return &result.Lengths{InputP50: percentile(in, 50), InputP95: percentile(in, 95), OutputP50: percentile(out, 50), OutputP95: percentile(out, 95)}
}

// span is the time from the first send to the last byte of any answer.
func (m Cell) span() time.Duration {
	first, last := m.window()
	return max(0, last-first)
}

func (m Cell) window() (first, last time.Duration) {
	for i, s := range m.Samples {
		if i == 0 || s.Sent < first {
			first = s.Sent
		}
		last = max(last, s.End)
	}
	return first, last
}
