// Package live is a run for somebody who looks on while it goes on: how many
// requests are where, how fast they come, how long they take, when it ends.
//
// It knows counts and times, but no server and no terminal. The main type is
// Tally. The readers of answers write only to the Flight of their request, by
// atomic stores and without a lock; everything that costs more is done by who
// calls Now, some times a second. There are no errors.
package live

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Flight is what the reader of one answer shows of it. It belongs beside what
// the reader writes anyway. The zero Flight is ready.
type Flight struct {
	first  atomic.Int64 // 1 + the offset of the first token in ns; 0 before it
	events atomic.Int64
}

// First says that the answer's first token came at an offset from the start of
// the run.
func (f *Flight) First(at time.Duration) { f.first.Store(1 + int64(at)) }

// Events says how many events with tokens have come so far.
func (f *Flight) Events(n int) { f.events.Store(int64(n)) }

// Spread is a distribution so far in seconds, to 1 % of each value; without
// samples (N is 0) it says nothing.
type Spread struct {
	N        int64
	P50, P99 float64
}

// Progress is the state of a run so far.
type Progress struct {
	Asked, Sent                   int
	OK, Failed, Cancelled, CutOff int // of those that are over
	InFlight                      int
	Elapsed                       time.Duration
	// Due is how many sendings the schedule wanted by now, Kept how many of
	// them began; -1 without a schedule.
	Due, Kept int
	Output    int64         // tokens of answers that ended well, and events of those under way: no fewer came
	Events    int64         // with tokens, of all answers
	PerSecond float64       // events in the last second
	TTFT      Spread        // of answers that have begun
	TPOT      Spread        // of those that ended well
	ITL       Spread        // gaps between their events
	Lag       Spread        // of sendings behind their due times
	Left      time.Duration // until the end, at this pace; negative while nobody knows
}

// over is how many requests have ended.
func (p Progress) over() int { return p.OK + p.Failed + p.Cancelled + p.CutOff }

// Ended is one request that is over.
type Ended struct {
	Flight                    int  // its number
	Failed, Cancelled, CutOff bool // none: a success
	Sent                      time.Duration
	Lag                       time.Duration   // negative: it had no due time
	Marks                     []time.Duration // of the events with tokens; not written any more
	Output                    int64           // tokens, as the server counted
}

// Tally counts a run. Begin, End and Now may be called at once; Now by one
// goroutine.
type Tally struct {
	schedule []time.Duration // ascending
	limit    time.Duration   // of the run; 0 is none

	mu    sync.Mutex // guards what follows
	now   Progress
	under []flying // in no order
	place []int    // in under, by flight
	fresh []Ended  // since the last look

	// Of who looks.
	ttft, tpot, itl, lag spread
	begun                []bool // by flight: the first token is counted
	ended                int64  // events of ended answers
	last                 []instant
}

// flying is a request under way.
type flying struct {
	flight int
	shown  *Flight
	sent   time.Duration
}

type instant struct {
	at     time.Duration
	events int64
}

// New counts a run of so many requests whose sendings are due at the offsets of
// schedule (nil: none), and which ends after limit (0: never).
func New(asked int, schedule []time.Duration, limit time.Duration) *Tally {
	t := &Tally{limit: limit, place: make([]int, asked), begun: make([]bool, asked)}
	t.now = Progress{Asked: asked, Due: -1, Kept: -1, Left: -1}
	if schedule != nil {
		t.schedule, t.now.Kept = slices.Sorted(slices.Values(schedule)), 0
	}
	return t
}

// Begin notes that request i is sent at an offset, by the schedule or not, and
// that f shows its answer. It returns how many are in flight with it.
func (t *Tally) Begin(i int, f *Flight, at time.Duration, scheduled bool) (inFlight int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.place[i] = len(t.under)
	t.under = append(t.under, flying{i, f, at})
	t.now.Sent++
	if scheduled {
		t.now.Kept++
	}
	return len(t.under)
}

// End notes that a request is over and returns how many were successes.
func (t *Tally) End(e Ended) (ok int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, last := t.place[e.Flight], len(t.under)-1
	t.under[i] = t.under[last]
	t.place[t.under[i].flight] = i
	t.under = t.under[:last]
	switch {
	case e.Cancelled:
		t.now.Cancelled++
	case e.CutOff:
		t.now.CutOff++
	case e.Failed:
		t.now.Failed++
	default:
		t.now.OK++
		t.now.Output += e.Output
	}
	t.fresh = append(t.fresh, e)
	return t.now.OK
}

// Now is the state at an offset from the start of the run.
func (t *Tally) Now(elapsed time.Duration) Progress {
	t.mu.Lock()
	p, fresh, under := t.now, t.fresh, slices.Clone(t.under)
	t.fresh = nil
	t.mu.Unlock()
	p.Elapsed, p.InFlight = elapsed, len(under)
	for _, e := range fresh {
		t.add(e)
	}
	p.Events = t.ended
	for _, u := range under {
		n := u.shown.events.Load()
		p.Events += n
		p.Output += n
		if first := u.shown.first.Load(); first > 0 && !t.begun[u.flight] {
			t.begun[u.flight] = true
			t.ttft.add(time.Duration(first-1) - u.sent)
		}
	}
	if t.schedule != nil {
		p.Due, _ = slices.BinarySearch(t.schedule, elapsed+1)
	}
	p.TTFT, p.TPOT, p.ITL, p.Lag = t.ttft.spread(), t.tpot.spread(), t.itl.spread(), t.lag.spread()
	p.PerSecond = t.pace(instant{elapsed, p.Events})
	p.Left = t.left(p)
	return p
}

// add takes over a request that is over.
func (t *Tally) add(e Ended) {
	t.ended += int64(len(e.Marks))
	if e.Lag >= 0 {
		t.lag.add(e.Lag)
	}
	if len(e.Marks) > 0 && !t.begun[e.Flight] {
		t.begun[e.Flight] = true
		t.ttft.add(e.Marks[0] - e.Sent)
	}
	if e.Failed || e.Cancelled || e.CutOff {
		return
	}
	for i := 1; i < len(e.Marks); i++ {
		t.itl.add(e.Marks[i] - e.Marks[i-1])
	}
	if n := time.Duration(e.Output); n > 1 && len(e.Marks) > 0 {
		t.tpot.add((e.Marks[len(e.Marks)-1] - e.Marks[0]) / (n - 1))
	}
}

// pace is the events a second since the look of a second ago, or the first one.
func (t *Tally) pace(now instant) float64 {
	t.last = append(t.last, now)
	for len(t.last) > 2 && now.at-t.last[1].at >= time.Second {
		t.last = t.last[1:]
	}
	from := t.last[0]
	if len(t.last) == 1 {
		from = instant{}
	}
	if now.at <= from.at {
		return 0
	}
	return float64(now.events-from.events) / (now.at - from.at).Seconds()
}

// left is the time to the end: the requests that are left at the pace of those
// that are over, not before the schedule's last sending has had as long as the
// others took, and not beyond the limit.
func (t *Tally) left(p Progress) time.Duration {
	over := p.over()
	switch {
	case over == p.Asked:
		return 0
	case over == 0:
		return -1
	}
	left := time.Duration(float64(p.Elapsed) / float64(over) * float64(p.Asked-over))
	if t.schedule != nil {
		// By Little's law a request takes the mean number in flight over the rate.
		left = max(0, t.schedule[len(t.schedule)-1]-p.Elapsed) + time.Duration(float64(p.InFlight)/float64(over)*float64(p.Elapsed))
	}
	if t.limit > 0 {
		left = min(left, max(0, t.limit-p.Elapsed))
	}
	return left
}
