package bench

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/bench/live"
	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Progress is the state of a run for somebody who looks on.
type Progress = live.Progress

// recent is the number of last requests whose failures are looked at, and
// how often saturation is.
const recent = 50

// watch sees requests begin and end, and ends the cell by its Stop rules. mu
// guards all fields below it.
type watch struct {
	rules judge.Rules
	start time.Time
	stop  context.CancelCauseFunc
	tally *live.Tally

	mu     sync.Mutex
	last   []result.Class // classes of the last requests that ended; "" is a success
	points []judge.Point  // by order of sending; TTFT 0 while unknown
}

// begin notes that request i is about to be sent, whose reader shows it by f. It
// returns the number of its point, -1 without a schedule.
func (w *watch) begin(i int, f *live.Flight, scheduled time.Duration) (point int) {
	now := time.Since(w.start)
	w.mu.Lock()
	defer w.mu.Unlock()
	inFlight := w.tally.Begin(i, f, now, scheduled >= 0)
	w.points = append(w.points, judge.Point{Sent: now.Seconds(), InFlight: float64(inFlight)})
	if scheduled < 0 {
		return -1
	}
	return len(w.points) - 1
}

func (w *watch) end(i, point int, s judge.Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	marks := s.Answer.Marks
	over := live.Ended{Flight: i, Failed: s.Failure.Class != "" && !s.CutOff, Cancelled: s.Cancelled, CutOff: s.CutOff, Sent: s.Sent, Lag: -1, Marks: marks, Output: s.Answer.Usage.Output}
	if s.Due >= 0 {
		over.Lag = max(0, s.Sent-s.Due)
	}
	ok := w.tally.End(over)
	if s.CutOff {
		return
	}
	w.last = append(w.last, s.Failure.Class)
	if s.Failure.Class != "" || s.Cancelled {
		w.failing()
		return
	}
	if point >= 0 && w.rules.Stop.Saturation {
		w.points[point].TTFT = (marks[0] - s.Sent).Seconds()
		if ok%recent == 0 {
			w.saturated()
		}
	}
}

// failing ends a cell whose last requests mostly fail.
func (w *watch) failing() {
	if w.rules.Stop.MaxFailing == 0 || len(w.last) < recent {
		return
	}
	by := map[result.Class]int{}
	failed := 0
	for _, c := range w.last[len(w.last)-recent:] {
		if c != "" {
			by[c]++
			failed++
		}
	}
	if float64(failed) > w.rules.Stop.MaxFailing*recent {
		w.stop(early{wire.Fail(judge.Worst(by), "%d of the last %d requests failed", failed, recent)})
	}
}

// saturated ends a cell whose queue grows. Requests whose first token is not
// yet there are left out; they are the last ones.
func (w *watch) saturated() {
	known := slices.DeleteFunc(slices.Clone(w.points), func(p judge.Point) bool { return p.TTFT == 0 })
	if !judge.Saturated(known) {
		return
	}
	p := known[len(known)-1]
	w.stop(early{wire.Fail(result.Saturated, "the queue grows: %.0f requests in flight and %.3f s to the first token after %.1f s, both still rising",
		p.InFlight, p.TTFT, p.Sent)})
}

// report calls see four times a second until ctx ends, and once more at the end.
func (w *watch) report(ctx context.Context, see func(Progress)) {
	t := time.NewTicker(250 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			see(w.tally.Now(time.Since(w.start)))
		case <-ctx.Done():
			see(w.tally.Now(time.Since(w.start)))
			return
		}
	}
}

// deadline is the cause that ends a cell that takes too long.
func deadline(total time.Duration, class result.Class) error {
	return early{wire.Fail(class, "the cell passed its deadline of %v, its warm-up counted", total)}
}
