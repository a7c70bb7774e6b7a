package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Progress is the state of a run for somebody who looks on. Latencies are of
// the requests that ended so far.
type Progress struct {
	Asked, Sent, OK, Failed int
	InFlight                int
	Elapsed                 time.Duration
	Output                  int64   // tokens of the successes so far
	TTFT, TPOT              float64 // medians in s; 0 while there is none
}

// recent is the number of last requests whose failures are looked at, and
// how often saturation is.
const recent = 50

// watch sees requests begin and end, and ends the cell by its Stop rules. mu
// guards all fields below it.
type watch struct {
	rules judge.Rules
	asked int
	start time.Time
	stop  context.CancelCauseFunc

	mu      sync.Mutex
	now     Progress
	last    []result.Class // classes of the last requests that ended; "" is a success
	points  []judge.Point  // by order of sending; TTFT 0 while unknown
	latency [2][]float64   // TTFT and TPOT of successes
}

// begin notes a request that is about to be sent and returns its number.
func (w *watch) begin(scheduled time.Duration) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now.Sent++
	w.now.InFlight++
	w.points = append(w.points, judge.Point{Sent: time.Since(w.start).Seconds(), InFlight: float64(w.now.InFlight)})
	if scheduled < 0 {
		return -1
	}
	return len(w.points) - 1
}

func (w *watch) end(i int, s judge.Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now.InFlight--
	w.last = append(w.last, s.Failure.Class)
	if s.Failure.Class != "" || s.Cancelled {
		if !s.Cancelled {
			w.now.Failed++
		}
		w.failing()
		return
	}
	w.now.OK++
	w.now.Output += s.Answer.Usage.Output
	marks := s.Answer.Marks
	ttft := (marks[0] - s.Sent).Seconds()
	w.latency[0] = append(w.latency[0], ttft)
	if n := s.Answer.Usage.Output; n > 1 {
		w.latency[1] = append(w.latency[1], (marks[len(marks)-1]-marks[0]).Seconds()/float64(n-1))
	}
	if i >= 0 && w.rules.Stop.Saturation {
		w.points[i].TTFT = ttft
		w.saturated()
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
	if w.now.OK%recent != 0 {
		return
	}
	known := slices.DeleteFunc(slices.Clone(w.points), func(p judge.Point) bool { return p.TTFT == 0 })
	if !judge.Saturated(known) {
		return
	}
	p := known[len(known)-1]
	w.stop(early{wire.Fail(result.Saturated, "the queue grows: %.0f requests in flight and %.3f s to the first token after %.1f s, both still rising",
		p.InFlight, p.TTFT, p.Sent)})
}

// progress is the state now. Medians cost a sort, some times a second.
func (w *watch) progress() Progress {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.now
	p.Asked, p.Elapsed = w.asked, time.Since(w.start)
	for i, to := range []*float64{&p.TTFT, &p.TPOT} {
		if v := slices.Clone(w.latency[i]); len(v) > 0 {
			slices.Sort(v)
			*to = v[len(v)/2]
		}
	}
	return p
}

// report calls see until ctx ends, and once more at the end.
func (w *watch) report(ctx context.Context, see func(Progress)) {
	t := time.NewTicker(250 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			see(w.progress())
		case <-ctx.Done():
			see(w.progress())
			return
		}
	}
}

// deadline is the cause that ends a cell that takes too long.
func deadline(total time.Duration, class result.Class) error {
	return early{wire.Fail(class, "the cell passed its deadline of %v", total)}
}

func (p Progress) String() string {
	return fmt.Sprintf("%d of %d sent, %d in flight, %d ok, %d failed", p.Sent, p.Asked, p.InFlight, p.OK, p.Failed)
}
