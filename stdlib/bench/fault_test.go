package bench_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/simserve"
)

// faulty says which class each fault of the simulated server must get, and a
// part of the reason.
var faulty = map[simserve.Fault]struct {
	class  result.Class
	reason string
}{
	simserve.HTTP500:      {result.HTTPStatus, "500 Internal Server Error"},
	simserve.Reset:        {result.ConnFailed, "no answer"},
	simserve.NotStream:    {result.BadStream, "application/json"},
	simserve.ErrorEvent:   {result.StreamError, "the engine is dead"},
	simserve.BadJSON:      {result.BadStream, "no completions answer"},
	simserve.Cut:          {result.Truncated, "after 4 token events"},
	simserve.Abort:        {result.Truncated, "abort"},
	simserve.NoFinish:     {result.Truncated, "no finish reason"},
	simserve.NoDone:       {result.Truncated, "no last event"},
	simserve.StallFirst:   {result.Stalled, "no token within 10m0s"},
	simserve.Stall:        {result.Stalled, "no further event within 1m0s"},
	simserve.StallEnd:     {result.Stalled, "no further event within 1m0s"},
	simserve.NoTokens:     {result.NoTokens, "no token"},
	simserve.ShortOutput:  {result.ShortOutput, "4 output tokens"},
	simserve.LongOutput:   {result.LongOutput, "9 output tokens"},
	simserve.PromptCount:  {result.PromptMismatch, "counted 9 prompt tokens, 8 were sent"},
	simserve.OutputCount:  {result.CountMismatch, "counts 4 output tokens, but 8 events"},
	simserve.NoUsage:      {result.CountMismatch, "no usage"},
	simserve.TwoChoices:   {result.BadStream, "choice 1"},
	simserve.LateToken:    {result.BadStream, "after the finish reason"},
	simserve.WrongModel:   {result.WrongModel, "another-model"},
	simserve.AnswersModel: {result.WrongModel, "another-model"},
	simserve.HTTP429:      {result.HTTPStatus, "429 Too Many Requests"},
	simserve.StallHead:    {result.Stalled, "no token within 10m0s"},
	simserve.Page:         {result.BadStream, "welcome to the gateway"},
	simserve.Empty:        {result.Truncated, "no finish reason after 0 token events"},
	simserve.ErrorFirst:   {result.StreamError, "no memory"},
	simserve.ErrorObject:  {result.StreamError, "the engine is dead"},
	simserve.ErrorClose:   {result.StreamError, "the engine is dead"},
	simserve.HalfEvent:    {result.Truncated, "inside an event"},
	simserve.DoneTwice:    {result.BadStream, "[DONE] came twice"},
	simserve.AfterDone:    {result.BadStream, "after the last one"},
	simserve.OddFinish:    {result.BadStream, "finish reason \"tired\""},
	simserve.UsageFalls:   {result.CountMismatch, "fell from 4 to 3"},
	simserve.CachedOver:   {result.CountMismatch, "9 cached of 8"},
}

// TestEveryFaultHasItsClass asks for 8 tokens from a server all of whose
// answers are faulty.
func TestEveryFaultHasItsClass(t *testing.T) {
	for _, f := range simserve.Faults {
		want, ok := faulty[f.Fault]
		if !ok {
			t.Errorf("no row says what class %s has", f.Fault)
			continue
		}
		for _, api := range []bench.API{bench.Completions, bench.Chat} {
			if api == bench.Chat && (f.Fault == simserve.PromptCount || f.Fault == simserve.CachedOver) {
				continue // nobody but the server can count the tokens of a text; the chat prompt is longer
			}
			t.Run(string(f.Fault)+"/"+string(api), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := spec(prompts(t, 3, 0, 8))
					if api == bench.Chat {
						s.API, s.Path = api, "/v1/chat/completions"
						s.Prompts = file(t, "chat.jsonl", `{"id":0,"text":"a question","output_len":8}`+"\n")
					}
					r := measure(t, simserve.Config{Model: "sim", Prefill: 10 * ms, Step: ms, Fault: f.Fault}, s).Row
					reason := strings.ReplaceAll(want.reason, "completions", string(api))
					if r.Class != want.class || !strings.Contains(r.Reason, reason) {
						t.Errorf("row is %s; want class %s, reason with %q", describe(r), want.class, reason)
					}
					if r.Status == result.OK || len(r.Metrics) > 0 {
						t.Errorf("a failed cell has numbers: %s", describe(r))
					}
					if r.Requests.Failed != r.Requests.Failures[want.class] {
						t.Errorf("failures are %+v", r.Requests)
					}
				})
			})
		}
	}
}

// TestEveryFaultHasItsClassInNativeForms: the same, where a form lets it show
// as what it is.
func TestEveryFaultHasItsClassInNativeForms(t *testing.T) {
	other := map[bench.API]map[simserve.Fault]result.Class{
		bench.SGLang: {
			simserve.LateToken:    result.LongOutput, // the whole text is in each event: one with more is no flaw but its length
			simserve.AnswersModel: "",                // no event names the model
		},
		bench.LlamaCpp: {},
	}
	for api, path := range map[bench.API]string{bench.SGLang: "/generate", bench.LlamaCpp: "/completion"} {
		for _, f := range append([]simserve.FaultRow{{Fault: simserve.None}}, simserve.Faults...) {
			for _, whole := range []bool{false, true} {
				if whole && f.Fault != simserve.None {
					continue // faults are of streams
				}
				t.Run(fmt.Sprintf("%s/%s/%v", api, f.Fault, whole), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := spec(prompts(t, 3, 0, 8))
						s.API, s.Path, s.Rules.NoStream = api, path, whole
						r := measure(t, simserve.Config{Model: "sim", Prefill: 10 * ms, Step: ms, Fault: f.Fault}, s).Row
						want, is := other[api][f.Fault]
						if !is {
							want = faulty[f.Fault].class
						}
						if r.Class != want || (r.Status == result.OK) != (want == "") {
							t.Errorf("row is %s; want class %q", describe(r), want)
						}
						if f.Fault == simserve.None && (number(t, r, "e2e:mean") != .017 || number(t, r, "output_throughput") != 24/.017) {
							t.Errorf("row is %+v", r.Metrics)
						}
					})
				})
			}
		}
	}
}

// TestFewFailuresAreKeptOutOfTheNumbers lets every fifth of ten requests
// fail. The failed ones end early, so a number over all of them would be lower.
func TestFewFailuresAreKeptOutOfTheNumbers(t *testing.T) {
	for _, c := range []struct {
		min float64
		ok  bool
	}{{.8, true}, {.81, false}} {
		synctest.Test(t, func(t *testing.T) {
			s := spec(prompts(t, 10, 0, 8))
			s.Rules.MinSuccess = c.min
			r := measure(t, simserve.Config{Model: "sim", Prefill: 10 * ms, Step: 10 * ms, Fault: simserve.Cut, Every: 5}, s).Row
			if r.Requests.OK != 8 || r.Requests.Failures[result.Truncated] != 2 || len(r.Requests.Examples) != 2 {
				t.Fatalf("row is %s", describe(r))
			}
			if !c.ok {
				if r.Status != result.Failed || r.Class != result.Truncated || len(r.Metrics) > 0 {
					t.Errorf("at min_success %v the row is %s", c.min, describe(r))
				}
				return
			}
			if r.Status != result.OK || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "2 truncated") {
				t.Errorf("row is %s with warnings %q", describe(r), r.Warnings)
			}
			for id, want := range map[string]float64{"e2e:mean": .08, "success_rate": .8, "request_throughput": 100, "output_throughput": 800} {
				if got := number(t, r, id); got != want {
					t.Errorf("%s is %v, want %v", id, got, want)
				}
			}
		})
	}
}

// TestWarmUpIsNeverCounted makes the warm-up requests or the others fail.
func TestWarmUpIsNeverCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spec(prompts(t, 4, 3, 8))
		s.Load.Warmup = 3
		r := measure(t, simserve.Config{Model: "sim", Fault: simserve.ErrorEvent, Every: 1000, After: 2}, s).Row
		if r.Class != result.StreamError || !strings.HasPrefix(r.Reason, "warm-up request") || r.Requests.OK+r.Requests.Failed != 0 {
			t.Errorf("after a failed warm-up request the row is %s", describe(r))
		}
		r = measure(t, simserve.Config{Model: "sim", Step: ms, Fault: simserve.ErrorEvent, Every: 1000, After: 3}, s).Row
		if r.Requests.OK != 3 || r.Requests.Failed != 1 {
			t.Errorf("after good warm-up requests the row is %s", describe(r))
		}
	})
}

// TestCellEndsAtItsDeadline gives a cell of 10 requests of 80 ms, one at a
// time, 300 ms.
func TestCellEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spec(prompts(t, 10, 0, 8))
		s.Load.Concurrency = ptr(1)
		s.Rules.Total = 300 * ms
		began := time.Now()
		rep := measure(t, simserve.Config{Model: "sim", Prefill: 10 * ms, Step: 10 * ms}, s)
		if r := rep.Row; r.Status != result.Timeout || r.Class != executors.ClassTimeout || r.Requests.OK != 3 ||
			!strings.Contains(r.Reason, "deadline of 300ms, its warm-up counted: 4 of 10 requests sent, 3 succeeded") || len(rep.Requests) != 4 {
			t.Errorf("row is %s", describe(r))
		}
		if d := time.Since(began); d != 300*ms {
			t.Errorf("it ended after %v", d)
		}
	})
}

// TestRateThatTheCapForbids asks for 100/s of a server that answers one
// request in 20 ms, one at a time.
func TestRateThatTheCapForbids(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spec(prompts(t, 50, 0, 1))
		s.Load = bench.Load{Arrival: bench.Constant, Rate: ptr(100.), Concurrency: ptr(1)}
		r := measure(t, simserve.Config{Model: "sim", Prefill: 20 * ms}, s).Row
		if r.Class != result.RateNotReached || len(r.Metrics) > 0 {
			t.Errorf("row is %s", describe(r))
		}
	})
}

// TestSecretsStayOut lets a server repeat the key it was sent.
func TestSecretsStayOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got string
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r.Header.Get("Authorization")
			http.Error(w, "bad key "+got, http.StatusUnauthorized)
		})
		s := spec(prompts(t, 1, 0, 1))
		s.Models = ""
		s.Headers = map[string]string{"Authorization": "Bearer env:API_KEY"}
		pipes := newPipes()
		srv := &http.Server{Handler: h}
		go func() { _ = srv.Serve(pipes) }()
		host := bench.Host{Dial: pipes.dial, Env: func(name string) (string, bool) { return "s3cret", name == "API_KEY" }}
		rep, err := host.Run(t.Context(), s)
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err != nil || got != "Bearer s3cret" {
			t.Fatalf("sent %q, error %v", got, err)
		}
		if all := describe(rep.Row) + rep.Requests[0].Reason; strings.Contains(all, "s3cret") || !strings.Contains(all, "bad key Bearer [secret]") {
			t.Errorf("the report says %s", all)
		}
		s.Headers["Authorization"] = "env:NOT_SET"
		if _, err := host.Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), `variable "NOT_SET", which is not set`) {
			t.Errorf("error is %v", err)
		}
	})
}
