package judge

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

func TestPercentilesAreLinear(t *testing.T) {
	upTo := func(n int) (out []float64) {
		for i := range n {
			out = append(out, float64(i+1))
		}
		return out
	}
	for _, c := range []struct {
		samples []float64
		p, want float64
	}{
		{upTo(10), 90, 9.1}, // 0.9 × 9 = 8.1: a tenth of the way from 9 to 10
		{upTo(10), 50, 5.5},
		{upTo(4), 50, 2.5},
		{upTo(5), 50, 3},
		{upTo(10), 0, 1},
		{upTo(10), 100, 10},
		{upTo(10), 99, 9.91},
		{upTo(80), 99, 79.21}, // the seeds' 80 requests: 0.79·x[78] + 0.21·x[79]
		{upTo(1), 99, 1},
		{[]float64{1, 2, 4, 8}, 75, 5}, // 2.25: 4 + 0.25 × 4
	} {
		if got := percentile(c.samples, c.p); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("p%v of %v is %v, want %v", c.p, c.samples, got, c.want)
		}
	}
	if _, ok := statistic(nil, "p50"); ok {
		t.Error("there is a median of nothing")
	}
	if got, ok := statistic(upTo(4), "mean"); !ok || got != (number{2.5, 4}) {
		t.Errorf("mean of 1..4 is %v", got)
	}
}

// good is n requests, sent each ms, that succeeded after 10 ms.
func good(n int) Cell {
	m := Cell{Asked: n, Rules: Rules{MinSuccess: .5, MaxSendLag: 10 * time.Millisecond}}
	for i := range n {
		at := time.Duration(i) * time.Millisecond
		s := Sample{Ask: &Ask{ID: i}, Scheduled: at, Due: at, Sent: at, End: at + 10*time.Millisecond, Closed: at + 10*time.Millisecond}
		s.Answer = wire.Answer{Marks: []time.Duration{s.End}, Usage: wire.Counts{Input: 3, Output: 1, Cached: -1}}
		m.Samples = append(m.Samples, s)
	}
	return m
}

// TestLateClientGivesNoNumber makes 3 of 100 sends late: the 99th percentile
// is among them.
func TestLateClientGivesNoNumber(t *testing.T) {
	for _, c := range []struct {
		late    time.Duration
		limited bool
	}{{9 * time.Millisecond, false}, {12 * time.Millisecond, true}} {
		m := good(100)
		for _, i := range []int{10, 20, 30} {
			m.Samples[i].Sent += c.late
		}
		r := m.Row()
		if (r.Class == result.ClientLimited) != c.limited || (len(r.Metrics) == 0) != c.limited {
			t.Errorf("late by %v: %s %s, %d metrics", c.late, r.Class, r.Reason, len(r.Metrics))
		}
		if got := *r.Facts.SendLagP99; math.Abs(got-c.late.Seconds()) > 1e-9 {
			t.Errorf("late by %v: the send lag is %v", c.late, got)
		}
	}
}

// TestWaitForASlotIsNoLag sends 100 requests 50 ms after their schedule, each
// at once when its slot was free.
func TestWaitForASlotIsNoLag(t *testing.T) {
	m := good(100)
	for i := range m.Samples {
		m.Samples[i].Due += 50 * time.Millisecond
		m.Samples[i].Sent = m.Samples[i].Due
	}
	if r := m.Row(); r.Class != "" || *r.Facts.SendLagP99 != 0 || math.Abs(*r.Facts.SentRate-1000) > 1e-6 {
		t.Errorf("%s %s, send lag %v", r.Class, r.Reason, *r.Facts.SendLagP99)
	}
}

// TestSentRateIsOfTheSchedule: half as fast as asked for is said, and is no rate
// where none was asked for.
func TestSentRateIsOfTheSchedule(t *testing.T) {
	m := good(100)
	for i := range m.Samples {
		m.Samples[i].Due *= 2
		m.Samples[i].Sent = m.Samples[i].Due
	}
	if r := m.Row(); r.Class != result.RateNotReached || r.Facts.SentRate == nil || math.Abs(*r.Facts.SentRate-500) > 1e-6 {
		t.Errorf("%s %s: %v", r.Class, r.Reason, r.Facts.SentRate)
	}
	for i := range m.Samples {
		m.Samples[i].Scheduled = -1
	}
	if r := m.Row(); r.Class != "" || r.Facts.SentRate != nil {
		t.Errorf("%s %s: %v", r.Class, r.Reason, r.Facts.SentRate)
	}
}

func TestBusyClientGivesNoNumber(t *testing.T) {
	for busy, class := range map[float64]result.Class{.85: "", .95: result.ClientLimited} {
		m := good(10)
		m.Busy = &busy
		if r := m.Row(); r.Class != class || *r.Facts.ClientBusy != busy {
			t.Errorf("busy %v: class %q", busy, r.Class)
		}
	}
	if r := good(10).Row(); r.Facts.ClientBusy != nil {
		t.Error("the CPU share was not observed, yet it is a number")
	}
}

// TestUnknownCacheIsNotZero mixes answers that count cached tokens with one
// that does not.
func TestUnknownCacheIsNotZero(t *testing.T) {
	m := good(4)
	for i := range m.Samples {
		m.Samples[i].Answer.Usage.Cached = 1
	}
	if r := m.Row(); r.Requests.Cached == nil || *r.Requests.Cached != 4 || math.Abs(*r.Facts.CacheHitShare-1./3) > 1e-12 {
		t.Errorf("requests are %+v", r.Requests)
	}
	m.Samples[2].Answer.Usage.Cached = -1
	if r := m.Row(); r.Requests.Cached != nil || r.Facts.CacheHitShare != nil {
		t.Errorf("one answer did not say: requests are %+v", r.Requests)
	}
}

// TestWorstClassNamesTheCell takes the most frequent one, of equals the first
// of the class table.
func TestWorstClassNamesTheCell(t *testing.T) {
	if got := Worst(map[result.Class]int{result.Truncated: 2, result.StreamError: 2, result.NoTokens: 1}); got != result.StreamError {
		t.Errorf("it is %s", got)
	}
	m := good(4)
	for i := range 3 {
		m.Samples[i].Failure = wire.Fail(result.Stalled, "silence")
	}
	r := m.Row()
	if r.Status != result.Timeout || r.Class != result.Stalled || !strings.Contains(r.Reason, "3 stalled; first: request 0: stalled: silence") {
		t.Errorf("%s %s %q", r.Status, r.Class, r.Reason)
	}
}

// TestStatusOfEveryClass walks the class table.
func TestStatusOfEveryClass(t *testing.T) {
	for _, c := range result.Classes {
		if got := Status(c.Class); got != c.Status || got == result.OK {
			t.Errorf("%s has status %s", c.Class, got)
		}
	}
}

// TestTokensInOneReadHaveNoTimePerToken: a buffered answer is no fast one. Two
// of four requests have 5 tokens over 40 ms, two have all 5 at once.
func TestTokensInOneReadHaveNoTimePerToken(t *testing.T) {
	m := good(4)
	for i := range m.Samples {
		s := &m.Samples[i]
		s.Answer.Usage.Output = 5
		first := s.End
		if i < 2 {
			s.End, s.Closed = s.End+40*time.Millisecond, s.Closed+40*time.Millisecond
		}
		gap := (s.End - first) / 4
		s.Answer.Marks = []time.Duration{first, first + gap, first + 2*gap, first + 3*gap, s.End}
	}
	r := m.Row()
	if v, ok := r.Metric("tpot/excl-first:p50"); !ok || math.Abs(v-.010) > 1e-9 {
		t.Errorf("TPOT p50 %v %v, want 10 ms of the two that have one", v, ok)
	}
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "2 of 4") {
		t.Errorf("warnings %v", r.Warnings)
	}
	m.Samples = m.Samples[2:]
	r = m.Row()
	if v, ok := r.Metric("tpot/excl-first:p50"); ok {
		t.Errorf("TPOT p50 is %v although no request has one", v)
	}
}
