package bench_test

import (
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/simserve"
)

// schedule is one of them, with the metrics that follow.
type schedule struct {
	name   string
	server simserve.Config
	load   bench.Load
	n, out int
	want   map[string]float64
}

// schedules are servers whose schedule is known, so that every number follows
// by hand from prefill P, step S, tokens a request and the arrival. 8 prompt
// tokens a request.
var schedules = []schedule{
	{
		// One at a time: 4 × (100 + 15 × 10) ms = 1 s.
		"one_at_a_time", simserve.Config{Prefill: 100 * ms, Step: 10 * ms},
		bench.Load{Arrival: bench.Inf, Concurrency: ptr(1)}, 4, 16,
		map[string]float64{"request_throughput": 4, "output_throughput": 64, "total_throughput": 96, "success_rate": 1,
			"ttft/send:p50": .1, "ttft/send:mean": .1, "ttft/send:p90": .1, "ttft/send:p99": .1,
			"tpot/excl-first:p50": .01, "tpot/excl-first:mean": .01, "tpot/excl-first:p99": .01,
			"itl/event:p50": .01, "itl/event:p99": .01, "e2e:p50": .25, "e2e:mean": .25, "e2e:p99": .25, "concurrency/mean": 1},
	},
	{
		// Four at a time, 12 requests: three waves of 250 ms.
		"capped", simserve.Config{Prefill: 100 * ms, Step: 10 * ms},
		bench.Load{Arrival: bench.Inf, Concurrency: ptr(4)}, 12, 16,
		map[string]float64{"request_throughput": 16, "output_throughput": 256, "concurrency/mean": 4, "e2e:p99": .25},
	},
	{
		// All ten at once.
		"unlimited", simserve.Config{Prefill: 50 * ms, Step: 5 * ms},
		bench.Load{Arrival: bench.Inf}, 10, 11,
		map[string]float64{"request_throughput": 100, "output_throughput": 1100, "concurrency/mean": 10, "ttft/send:p50": .05, "e2e:p50": .1},
	},
	{
		// Two slots, ten at once: request i waits for its pair's turn, so the
		// times to the first token are 50, 50, 150, 150, … 450, 450 ms.
		"queue_in_the_server", simserve.Config{Prefill: 50 * ms, Step: 5 * ms, Slots: 2},
		bench.Load{Arrival: bench.Inf}, 10, 11,
		map[string]float64{"request_throughput": 20, "ttft/send:p50": .25, "ttft/send:mean": .25, "ttft/send:p99": .45,
			"ttft/send:p90": .45, "e2e:mean": .3, "concurrency/mean": 6},
	},
	{
		// A request each 100 ms lasts 50 ms: half of the time one is in
		// flight; from the first send to the last byte are 950 ms.
		"constant", simserve.Config{Prefill: 40 * ms, Step: 10 * ms},
		rate(bench.Constant, 10), 10, 2,
		map[string]float64{"request_throughput": 10 / .95, "ttft/send:p99": .04, "ttft/schedule:p50": .04, "ttft/schedule:p99": .04,
			"e2e:p50": .05, "concurrency/mean": .5 / .95},
	},
	{
		// A request each 100 ms lasts 250 ms: up to three overlap. 4 × 250 ms
		// over 550 ms.
		"constant_overlapping", simserve.Config{Prefill: 100 * ms, Step: 10 * ms},
		rate(bench.Constant, 10), 4, 16,
		map[string]float64{"request_throughput": 4 / .55, "concurrency/mean": 1 / .55, "ttft/send:p50": .1},
	},
	{
		// Three tokens an event, five events for 14 tokens: 4 gaps of 30 ms
		// over 13 tokens.
		"several_tokens_an_event", simserve.Config{Prefill: 20 * ms, Step: 30 * ms, Form: simserve.Form{PerEvent: 3}},
		bench.Load{Arrival: bench.Inf, Concurrency: ptr(1)}, 2, 14,
		map[string]float64{"output_throughput": 28 / .28, "tpot/excl-first:p50": .12 / 13, "itl/event:p50": .03, "e2e:p50": .14},
	},
	{
		// An event without a token at once is not the first token.
		"role_first", simserve.Config{Prefill: 100 * ms, Step: 10 * ms, Form: simserve.Form{RoleFirst: true}},
		bench.Load{Arrival: bench.Inf, Concurrency: ptr(1)}, 2, 3,
		map[string]float64{"ttft/send:p50": .1, "itl/event:p99": .01, "e2e:p50": .12},
	},
	{
		"usage_on_the_finish_event", simserve.Config{Prefill: 100 * ms, Step: 10 * ms, Form: simserve.Form{Usage: simserve.UsageFinish}},
		bench.Load{Arrival: bench.Inf, Concurrency: ptr(1)}, 2, 3,
		map[string]float64{"ttft/send:p50": .1, "itl/event:p99": .01, "e2e:p50": .12, "output_throughput": 25},
	},
	{
		"usage_on_the_last_token", simserve.Config{Prefill: 100 * ms, Step: 10 * ms, Form: simserve.Form{Usage: simserve.UsageToken}},
		bench.Load{Arrival: bench.Inf, Concurrency: ptr(1)}, 2, 3,
		map[string]float64{"ttft/send:p50": .1, "e2e:p50": .12, "output_throughput": 25},
	},
	{
		// 8 prompt tokens of 5 ms each.
		"prefill_by_length", simserve.Config{Prefill: 10 * ms, PerToken: 5 * ms, Step: 1 * ms},
		bench.Load{Arrival: bench.Inf}, 5, 1,
		map[string]float64{"ttft/send:p50": .05, "e2e:p50": .05, "total_throughput": 5 * 9 / .05},
	},
	{
		// A cap of one holds the constant rate back only by the 9 ms that are
		// allowed: at 100/s each request lasts 10.9 ms, so request i is 0.9·i
		// ms late and the last of eleven 9 ms. The schedule sees it, the send
		// does not: (0 + … + 9)/11 = 4.5 ms.
		"late_by_the_cap", simserve.Config{Prefill: 10900 * time.Microsecond},
		bench.Load{Arrival: bench.Constant, Rate: ptr(100.), Concurrency: ptr(1)}, 11, 1,
		map[string]float64{"ttft/send:p50": .0109, "ttft/schedule:p50": .0109 + .0045, "ttft/schedule:p99": .0109 + .00891},
	},
}

func rate(a string, r float64) bench.Load { return bench.Load{Arrival: a, Rate: &r} }

// TestSchedulesAreListed: the document names these schedules and no others, in
// this order.
func TestSchedulesAreListed(t *testing.T) {
	doc, err := os.ReadFile("../../docs/bench.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(doc), "## What is exact\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed, want []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(section, -1) {
		listed = append(listed, m[1])
	}
	for _, s := range schedules {
		want = append(want, s.name)
	}
	if len(want) != 12 || !slices.Equal(listed, want) {
		t.Errorf("docs/bench.md lists %q, want %q", listed, want)
	}
}

// TestSchedulesAreExact measures each in virtual time.
func TestSchedulesAreExact(t *testing.T) {
	for _, c := range schedules {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := spec(prompts(t, c.n, 2, c.out))
				s.Load = c.load
				s.Load.Warmup = 2
				c.server.Model = "sim"
				r := measure(t, c.server, s).Row
				if r.Status != result.OK || r.Requests.OK != c.n || r.Requests.Output != int64(c.n*c.out) || r.Requests.Input != int64(8*c.n) {
					t.Fatalf("row is %s", describe(r))
				}
				for id, want := range c.want {
					if got := number(t, r, id); math.Abs(got-want) > 1e-9*want {
						t.Errorf("%s is %v, want %v", id, got, want)
					}
				}
			})
		})
	}
}

// TestMetricsAreTheTable checks that a row has the table's rows in its order,
// with units and sample counts, and none that was not observed.
func TestMetricsAreTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spec(prompts(t, 5, 0, 4))
		s.Load = bench.Load{Arrival: bench.Poisson, Rate: ptr(50.)}
		r := measure(t, simserve.Config{Model: "sim", Prefill: 10 * ms, Step: ms}, s).Row
		var want, got []string
		for _, d := range result.Definitions {
			switch d.ID {
			case "output_throughput_per_gpu", "energy_per_token", "price_per_mtoken": // not the client's to know
			case "goodput": // without limits
			default:
				want = append(want, d.ID+" "+string(d.Unit))
			}
		}
		for _, m := range r.Metrics {
			got = append(got, m.ID+" "+string(m.Unit))
			n := 5
			if m.ID == "output_throughput/steady" {
				continue // those that were in flight meanwhile
			}
			if strings.HasPrefix(m.ID, "itl/") {
				n = 15 // three gaps a request
			}
			if m.N != n {
				t.Errorf("%s has %d samples, want %d", m.ID, m.N, n)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("metrics are\n%v, want\n%v", got, want)
		}
	})
}

// TestOneTokenHasNoTPOT checks that a metric without a sample is absent, not 0.
func TestOneTokenHasNoTPOT(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := measure(t, simserve.Config{Model: "sim", Prefill: 10 * ms}, spec(prompts(t, 3, 0, 1))).Row
		for _, id := range []string{"tpot/excl-first:p50", "tpot/excl-first:mean", "itl/event:p50", "ttft/schedule:p50"} {
			if v, ok := r.Metric(id); ok {
				t.Errorf("%s is %v; it cannot be known", id, v)
			}
		}
		if got := number(t, r, "ttft/send:p50"); got != .01 {
			t.Errorf("time to the first token is %v", got)
		}
	})
}

// TestRequestsAreSentOnSchedule compares real send times with the schedule, in
// virtual time, and with the server's own stamps.
func TestRequestsAreSentOnSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stamps := make(chan simserve.Stamp, 20)
		s := spec(prompts(t, 20, 0, 4))
		s.Load = bench.Load{Arrival: bench.Poisson, Rate: ptr(25.), Seed: 7}
		rep := measure(t, simserve.Config{Model: "sim", Prefill: 30 * ms, Step: 5 * ms, Stamp: func(s simserve.Stamp) { stamps <- s }}, s)
		if len(rep.Requests) != 20 {
			t.Fatalf("%d requests: %s", len(rep.Requests), describe(rep.Row))
		}
		for i, q := range rep.Requests {
			if q.ID != i || q.Sent != *q.Scheduled || math.Abs(*q.First-q.Sent-.03) > 1e-12 || math.Abs(*q.Last-q.Sent-.045) > 1e-12 {
				t.Errorf("request %d is %+v", i, q)
			}
		}
		for range 20 {
			st := <-stamps
			at := st.Arrived.Sub(rep.Row.Time.Started).Seconds()
			if q := rep.Requests[st.Request]; math.Abs(at-q.Sent) > 1e-9 || len(st.Writes) != 4 {
				t.Errorf("the server saw request %d at %v, it was sent at %v", st.Request, at, q.Sent)
			}
		}
		if lag := rep.Row.Facts.SendLagP99; lag == nil || *lag != 0 {
			t.Errorf("send lag is %v, want 0", lag)
		}
	})
}
