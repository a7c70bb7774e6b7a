package bench_test

import (
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/simserve"
)

// stamped computes the metrics that the server's own stamps give, apart from
// what the client read: the time a request arrived stands for its sending. out
// is the tokens of a request.
func stamped(stamps []simserve.Stamp, out int) map[string]float64 {
	spread := map[string][]float64{}
	first, last := stamps[0].Arrived, stamps[0].Arrived
	for _, s := range stamps {
		n := len(s.Writes)
		spread["ttft/send"] = append(spread["ttft/send"], s.Writes[0].Sub(s.Arrived).Seconds())
		spread["e2e"] = append(spread["e2e"], s.Writes[n-1].Sub(s.Arrived).Seconds())
		if out > 1 {
			spread["tpot/excl-first"] = append(spread["tpot/excl-first"], s.Writes[n-1].Sub(s.Writes[0]).Seconds()/float64(out-1))
		}
		for i := 1; i < n; i++ {
			spread["itl/event"] = append(spread["itl/event"], s.Writes[i].Sub(s.Writes[i-1]).Seconds())
		}
		if s.Arrived.Before(first) {
			first = s.Arrived
		}
		if w := s.Writes[n-1]; w.After(last) {
			last = w
		}
	}
	span := last.Sub(first).Seconds()
	want := map[string]float64{"request_throughput": float64(len(stamps)) / span, "output_throughput": float64(len(stamps)*out) / span}
	for id, v := range spread {
		slices.Sort(v)
		sum := 0.0
		for _, x := range v {
			sum += x
		}
		want[id+":mean"] = sum / float64(len(v))
		at := float64(len(v)-1) / 2
		want[id+":p50"] = (v[int(math.Floor(at))] + v[int(math.Ceil(at))]) / 2
	}
	return want
}

// TestSchedulesOverLoopback measures each schedule over a real connection and
// compares with the server's own write stamps: within 1 % or 0.2 ms. A crowded
// machine delays either side now and then, so one good run of some is asked
// for: a client that adds to its numbers has none.
func TestSchedulesOverLoopback(t *testing.T) {
	if os.Getenv("SOTABUILD_TIMING") == "" {
		t.Skip("agreement within 0.2 ms needs a machine with nothing else to do: SOTABUILD_TIMING=1")
	}
	for _, c := range schedules {
		t.Run(c.name, func(t *testing.T) {
			var off []string
			for range 40 {
				if off = c.overLoopback(t); off == nil {
					return
				}
			}
			t.Errorf("no run agrees with the server's stamps; the last:\n%s", strings.Join(off, "\n"))
		})
	}
}

// overLoopback returns where one run is further off than allowed.
func (c schedule) overLoopback(t *testing.T) (off []string) {
	t.Helper()
	var mu sync.Mutex
	var stamps []simserve.Stamp
	c.server.Model = "sim"
	c.server.Stamp = func(s simserve.Stamp) {
		mu.Lock()
		defer mu.Unlock()
		stamps = append(stamps, s)
	}
	h, err := simserve.Handler(c.server)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	// As many warm-up requests together as will be in flight: what it takes to
	// connect is part of a client's wait, but the server cannot see it.
	warm := c.n + 1
	s := spec(prompts(t, c.n, warm, c.out))
	s.URL, s.Load = srv.URL, c.load
	s.Load.Warmup = warm
	s.Rules.MaxSendLag = time.Minute // judged elsewhere
	rep, err := bench.Run(t.Context(), s)
	srv.Close()
	if err != nil || rep.Row.Status != result.OK && rep.Row.Class != result.ClientLimited && rep.Row.Class != result.RateNotReached {
		t.Fatalf("row is %s, error %v", describe(rep.Row), err)
	}
	var measured []simserve.Stamp
	for _, s := range stamps {
		if s.Request >= warm {
			measured = append(measured, s)
		}
	}
	for id, want := range stamped(measured, c.out) {
		got, ok := rep.Row.Metric(id)
		if d, known := result.Define(id); !ok && known {
			off = append(off, fmt.Sprintf("no %s", id))
		} else if ok && math.Abs(got-want) > .01*want && (d.Unit != result.Seconds || math.Abs(got-want) > 2e-4) {
			off = append(off, fmt.Sprintf("%s is %v, the server's stamps say %v", id, got, want))
		}
	}
	return off
}
