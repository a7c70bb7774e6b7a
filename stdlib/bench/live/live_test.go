package live

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

func about(got, want float64) bool { return math.Abs(got/want-1) < .01 }

// TestSpreadIsRightToOnePercent against sorted durations of every size.
func TestSpreadIsRightToOnePercent(t *testing.T) {
	for _, unit := range []time.Duration{1, 37, time.Microsecond, 733 * time.Microsecond, ms, time.Second} {
		var s spread
		for i := range 1000 {
			s.add(time.Duration(1000-i) * unit)
		}
		if got := s.spread(); got.N != 1000 || !about(got.P50, 500*unit.Seconds()) || !about(got.P99, 990*unit.Seconds()) {
			t.Errorf("1 to 1000 times %v: %+v", unit, got)
		}
	}
	var s spread
	for _, d := range []time.Duration{-1, 0, 1000 * time.Hour} {
		s.add(d)
	}
	if got := s.spread(); got.P50 != 0 || got.P99 < 3600 {
		t.Errorf("beyond the ends: %+v", got)
	}
	if got := (&spread{}).spread(); got != (Spread{}) {
		t.Errorf("nothing: %+v", got)
	}
}

// TestTallyByHand: six requests are due each second from 0. The first takes 1 s
// to its first token and has 11 tokens in 0.1 s steps, one a step, one fails, one
// is under way with 3 events; the fourth is late by 0.5 s.
func TestTallyByHand(t *testing.T) {
	schedule := []time.Duration{5 * time.Second, 0, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}
	n := New(6, schedule, 0)
	var marks []time.Duration
	for i := range 11 {
		marks = append(marks, time.Second+time.Duration(i)*100*ms)
	}
	var f, failed, silent, late Flight
	n.Begin(0, &f, 0, true)
	f.First(marks[0])
	f.Events(4)
	if p := n.Now(1300 * ms); p.Events != 4 || p.Output != 4 || p.TTFT.N != 1 || p.ITL.N != 0 || p.Due != 2 || p.Kept != 1 || p.Left != -1 {
		t.Errorf("at 1.3 s: %+v", p)
	}
	n.Begin(1, &failed, time.Second, true)
	if ok := n.End(Ended{Flight: 0, Sent: 0, Lag: 0, Marks: marks, Output: 11}); ok != 1 {
		t.Errorf("%d ok", ok)
	}
	n.Begin(2, &silent, 2*time.Second, true)
	n.End(Ended{Flight: 1, Failed: true, Sent: time.Second, Lag: 0})
	if inFlight := n.Begin(3, &late, 3500*ms, true); inFlight != 2 {
		t.Errorf("%d in flight", inFlight)
	}
	late.First(3600 * ms)
	late.Events(3)
	p := n.Now(4 * time.Second)
	if p.Asked != 6 || p.Sent != 4 || p.OK != 1 || p.Failed != 1 || p.InFlight != 2 || p.Due != 5 || p.Kept != 4 || p.Events != 14 || p.Output != 14 ||
		p.TTFT.N != 2 || !about(p.TTFT.P50, .1) || !about(p.TTFT.P99, 1) || p.TPOT.N != 1 || !about(p.TPOT.P50, .1) || p.ITL.N != 10 || p.Lag.N != 2 {
		t.Errorf("at 4 s: %+v", p)
	}
	// The last is sent in 1 s and takes 2 in flight / (2 done / 4 s) = 4 s.
	if p.Left != 5*time.Second || !about(p.PerSecond, 10/2.7) {
		t.Errorf("%v left, %v events/s", p.Left, p.PerSecond)
	}
	text := strings.Join(p.Table(), "\n")
	for _, want := range []string{"4.0 s, about 5s left", "2 of 6 requests done, 2 in flight, 1 failed", "1.00 requests/s sent, 1.25 due by the schedule",
		"3.5 tokens/s, 4 events/s", "TTFT            100 ms       1002 ms          2", "send lag       0.00 ms"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestCutOffIsOver: what the end of the run cut off is over, and no failure.
func TestCutOffIsOver(t *testing.T) {
	n := New(2, nil, 0)
	n.Begin(0, &Flight{}, 0, false)
	n.End(Ended{Flight: 0, CutOff: true, Lag: -1})
	p := n.Now(time.Second)
	if p.CutOff != 1 || p.Failed != 0 || p.OK != 0 || !strings.Contains(p.Table()[1], "1 of 2 requests done, 0 in flight, 0 failed, 1 cut off") || !strings.Contains(p.Line(), "0 failed  1 cut off") {
		t.Errorf("%+v\n%s\n%q", p, p.Line(), p.Table())
	}
}

// TestLeftHasALimit: one of ten done after a second, by pace nine more.
func TestLeftHasALimit(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{0: 9 * time.Second, 4 * time.Second: 3 * time.Second} {
		n := New(10, nil, limit)
		n.Begin(0, &Flight{}, 0, false)
		n.End(Ended{Flight: 0, Lag: -1, Marks: []time.Duration{ms}, Output: 1})
		p := n.Now(time.Second)
		if p.Left != want || p.Due != -1 || !slices.ContainsFunc(p.Table(), func(l string) bool { return strings.Contains(l, "no rate asked for") }) {
			t.Errorf("limit %v: %+v", limit, p)
		}
		// Nobody knows a TPOT of one token.
		if !slices.ContainsFunc(p.Table(), func(l string) bool { return strings.Contains(l, "TPOT") && strings.Contains(l, "–") }) {
			t.Errorf("%q", p.Table())
		}
	}
}
