package bench_test

import (
	"context"
	"io"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/bench/live"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/simserve"
)

// TestGrowingQueueEndsTheCell sends 25 requests a second to a server that does
// 20: the queue grows by 5 a second, without end.
func TestGrowingQueueEndsTheCell(t *testing.T) {
	for _, c := range []struct {
		rate  float64
		class result.Class
	}{{25, result.Saturated}, {17, ""}} {
		synctest.Test(t, func(t *testing.T) {
			s := spec(prompts(t, 2000, 0, 1))
			s.Load = bench.Load{Arrival: bench.Poisson, Rate: ptr(c.rate), Seed: 3}
			s.Rules.Stop.Saturation = true
			r := measure(t, simserve.Config{Model: "sim", Prefill: 50 * ms, Slots: 1}, s).Row
			if r.Class != c.class {
				t.Errorf("at %v/s the row is %s", c.rate, describe(r))
			}
			if c.class != "" && (r.Requests.OK > 900 || !strings.Contains(r.Reason, "the queue grows")) {
				t.Errorf("at %v/s it ended after %d requests: %s", c.rate, r.Requests.OK, r.Reason)
			}
		})
	}
}

// TestFailuresEndTheCell has every second request fail from the 101st on.
func TestFailuresEndTheCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spec(prompts(t, 1000, 0, 2))
		s.Load.Concurrency = ptr(1)
		s.Rules.MinSuccess, s.Rules.Stop.MaxFailing = .1, .3
		r := measure(t, simserve.Config{Model: "sim", Prefill: ms, Fault: simserve.HTTP500, Every: 2, After: 100}, s).Row
		// 16 failures among 50 are the first share above 0.3: request 131.
		if r.Class != result.HTTPStatus || !strings.Contains(r.Reason, "16 of the last 50 requests failed") || r.Requests.OK+r.Requests.Failed > 133 {
			t.Errorf("row is %s", describe(r))
		}
	})
}

const conversation = `{"id":0,"text":"one","output_len":4,"turn":{"session":1,"number":1}}
{"id":1,"text":"one two","output_len":4,"turn":{"session":1,"number":2,"think_s":0.5}}
{"id":2,"text":"three","output_len":4,"turn":{"session":2,"number":1}}
`

// TestTurnsFollowEachOther: a turn is sent half a second after the one before
// it ended; 10 ms prefill, 3 steps of 10 ms.
func TestTurnsFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spec(file(t, "p.jsonl", conversation))
		rep := measure(t, simserve.Config{Model: "sim", Prefill: 10 * ms, Step: 10 * ms}, s)
		if rep.Row.Status != result.OK || len(rep.Requests) != 3 {
			t.Fatalf("row is %s", describe(rep.Row))
		}
		q := rep.Requests
		if q[0].Sent != 0 || q[2].Sent != 0 || math.Abs(q[1].Sent-.54) > 1e-9 || q[1].Turn != 2 || q[1].Session != 1 {
			t.Errorf("requests are %+v", q)
		}
		if len(rep.Parts) != 2 || rep.Parts[0].Name != "1" || rep.Parts[0].OK != 2 || rep.Parts[1].OK != 1 {
			t.Fatalf("parts are %+v", rep.Parts)
		}
		for _, p := range rep.Parts {
			if v := part(p, "ttft/send:p50"); v != .01 {
				t.Errorf("turn %s has a TTFT of %v", p.Name, v)
			}
		}
	})
}

func part(p result.Part, id string) float64 {
	for _, m := range p.Metrics {
		if m.ID == id {
			return m.Value
		}
	}
	return math.NaN()
}

// TestCancelledIsNoFailure lets one of three clients leave after 25 ms.
func TestCancelledIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spec(file(t, "p.jsonl", `{"id":0,"text":"a","output_len":9}
{"id":1,"text":"b","output_len":9,"cancel_s":0.025}
{"id":2,"text":"c","output_len":9,"cancel_s":9}
`))
		rep := measure(t, simserve.Config{Model: "sim", Prefill: 10 * ms, Step: 10 * ms}, s)
		r := rep.Row
		if r.Status != result.OK || r.Requests.OK != 2 || r.Requests.Cancelled != 1 || r.Requests.Failed != 0 || !rep.Requests[1].Cancelled {
			t.Errorf("row is %s", describe(r))
		}
		if got := number(t, r, "success_rate"); got != 1 {
			t.Errorf("success rate is %v", got)
		}
	})
}

// TestCutOffIsNoFailure ends a run after 250 ms, by its user or by its deadline:
// of ten requests of 100 ms, two at a time, four have succeeded and two are in
// flight, which are neither successes nor failures.
func TestCutOffIsNoFailure(t *testing.T) {
	for class, total := range map[result.Class]time.Duration{executors.ClassInterrupted: 0, executors.ClassTimeout: 250 * ms} {
		synctest.Test(t, func(t *testing.T) {
			h, err := simserve.Handler(simserve.Config{Model: "sim", Prefill: 50 * ms, Step: 50 * ms})
			if err != nil {
				t.Fatal(err)
			}
			s := spec(prompts(t, 10, 0, 2))
			s.Load.Concurrency, s.Rules.Total = ptr(2), total
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if total == 0 {
				defer time.AfterFunc(250*ms, cancel).Stop()
			}
			rep := until(t, ctx, h, s)
			r := rep.Row
			if q := r.Requests; r.Class != class || q.OK != 4 || q.CutOff != 2 || q.Failed != 0 || q.Failures != nil {
				t.Errorf("row is %s, %+v", describe(r), q)
			}
			if !strings.HasSuffix(r.Reason, "6 of 10 requests sent, 4 succeeded, 2 cut off") {
				t.Errorf("reason is %q", r.Reason)
			}
			for i, q := range rep.Requests {
				if q.CutOff != (i >= 4) || q.CutOff != (q.Class == class) {
					t.Errorf("request %d is %+v", i, q)
				}
			}
		})
	}
}

// TestFailuresCutOffTheOthers: one request hangs while all others fail, so that
// the fiftieth ends the run, of whose failures the one that hangs is none.
func TestFailuresCutOffTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // a server sees a client leave once it has read all
			if asked.Add(1) == 1 {
				<-r.Context().Done()
				return
			}
			http.Error(w, "no", http.StatusInternalServerError)
		})
		s := spec(prompts(t, 1000, 0, 2))
		s.Models, s.Load.Concurrency = "", ptr(2)
		s.Rules.MinSuccess, s.Rules.Stop.MaxFailing = .1, .9
		r := against(t, h, s).Row
		if q := r.Requests; r.Class != result.HTTPStatus || q.OK != 0 || q.CutOff != 1 || q.Failed != q.Failures[result.HTTPStatus] || q.Failed < 50 || q.Failed > 51 {
			t.Errorf("row is %s, %+v", describe(r), q)
		}
	})
}

// TestGoodputByHand: of six requests in a queue of one slot the first three are
// answered within 35 ms of their sending: 10, 20, … 60 ms.
func TestGoodputByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spec(prompts(t, 6, 0, 1))
		s.Rules.Goodput = []judge.Limit{{ID: "ttft/send", Max: .035}}
		r := measure(t, simserve.Config{Model: "sim", Prefill: 10 * ms, Slots: 1}, s).Row
		if got := number(t, r, "goodput"); math.Abs(got-3/.06) > 1e-9 {
			t.Errorf("goodput is %v, want 50", got)
		}
		if l := r.Requests.Lengths; l == nil || l.InputP50 != 8 || l.OutputP95 != 1 {
			t.Errorf("lengths are %+v", l)
		}
	})
}

// TestWholeAnswers asks for no stream: an end and nothing before it.
func TestWholeAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(30 * ms) // virtual
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"choices":[{"index":0,"message":{"role":"assistant","content":"four tokens"},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`))
		})
		s := spec(file(t, "p.jsonl", `{"id":0,"text":"a","output_len":4}`+"\n"))
		s.API, s.Path, s.Models, s.Rules.NoStream = bench.Chat, "/v1/chat/completions", "", true
		r := against(t, h, s).Row
		if r.Status != result.OK || number(t, r, "e2e:p50") != .03 {
			t.Errorf("row is %s", describe(r))
		}
		if v, ok := r.Metric("ttft/send:p50"); ok {
			t.Errorf("there is a time to the first token: %v", v)
		}
	})
}

// TestSteadyThroughputByHand: two at a time, four requests of 100 ms prefill
// and 9 steps of 10 ms; steady is the whole span, so both agree.
func TestSteadyThroughputByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spec(prompts(t, 4, 0, 10))
		s.Load.Concurrency = ptr(2)
		r := measure(t, simserve.Config{Model: "sim", Prefill: 100 * ms, Step: 10 * ms}, s).Row
		if a, b := number(t, r, "output_throughput"), number(t, r, "output_throughput/steady"); math.Abs(a-40/.38) > 1e-9 || math.Abs(b-a) > 1e-9 {
			t.Errorf("whole %v, steady %v, want %v", a, b, 40/.38)
		}
	})
}

// TestWatchSees looks on while four requests of 1 s prefill and 4 steps of 500 ms
// run, two at a time: at 2.25 s there are tokens and times to the first one,
// though no request has ended.
func TestWatchSees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := newPipes()
		h, err := simserve.Handler(simserve.Config{Model: "sim", Prefill: time.Second, Step: 500 * ms})
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: h}
		go func() { _ = srv.Serve(pipes) }()
		var looks []bench.Progress
		host := bench.Host{Dial: pipes.dial, Env: func(string) (string, bool) { return "", false }, Watch: func(p bench.Progress) { looks = append(looks, p) }}
		s := spec(prompts(t, 4, 0, 5))
		s.Load.Concurrency = ptr(2)
		if _, err := host.Run(t.Context(), s); err != nil {
			t.Error(err)
		}
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		about := func(got live.Spread, n int64, want float64) bool {
			return got.N == n && math.Abs(got.P50/want-1) < .01 && math.Abs(got.P99/want-1) < .01
		}
		if len(looks) != 25 { // 6 s, four times a second, and the end
			t.Fatalf("%d looks", len(looks))
		}
		p := looks[8]
		if p.Elapsed != 2250*ms || p.Sent != 2 || p.InFlight != 2 || p.OK != 0 || p.Events != 6 || p.Output != 6 || p.TPOT.N != 0 || p.Left != -1 || !about(p.TTFT, 2, 1) {
			t.Errorf("at 2.25 s: %+v", p)
		}
		p = looks[24]
		if p.Asked != 4 || p.OK != 4 || p.InFlight != 0 || p.Output != 20 || p.Events != 20 || p.Left != 0 ||
			!about(p.TTFT, 4, 1) || !about(p.TPOT, 4, .5) || !about(p.ITL, 16, .5) || p.Lag.N != 2 || p.Lag.P99 != 0 {
			t.Errorf("at the end: %+v", p)
		}
	})
}
