package simserve_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/simserve"
)

const ms = time.Millisecond

func handler(t *testing.T, c simserve.Config) http.Handler {
	t.Helper()
	c.Model = "sim"
	h, err := simserve.Handler(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ask sends one request without a network and returns the whole answer.
func ask(t *testing.T, h http.Handler, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	return w
}

const prompt = `{"model":"sim","prompt":[5,6,7],"max_tokens":4,"stream":true}`

// TestScheduleIsExact reads the server's own stamps in virtual time: 3 prompt
// tokens of 5 ms after 20 ms of prefill, then a step of 10 ms each.
func TestScheduleIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []simserve.Stamp
		h := handler(t, simserve.Config{Prefill: 20 * ms, PerToken: 5 * ms, Step: 10 * ms, Stamp: func(s simserve.Stamp) { got = append(got, s) }})
		start := time.Now()
		ask(t, h, "/v1/completions", prompt)
		ask(t, h, "/v1/completions", prompt)
		for i, s := range got {
			at := time.Duration(i) * 65 * ms
			if s.Request != i || s.Arrived.Sub(start) != at || len(s.Writes) != 4 {
				t.Fatalf("stamp %d is %+v", i, s)
			}
			for j, w := range s.Writes {
				if want := at + 35*ms + time.Duration(j)*10*ms; w.Sub(start) != want {
					t.Errorf("request %d wrote token %d at %v, want %v", i, j, w.Sub(start), want)
				}
			}
		}
		if len(got) != 2 {
			t.Errorf("%d stamps", len(got))
		}
	})
}

// TestForms compares whole streams with what real servers send.
func TestForms(t *testing.T) {
	for _, c := range []struct {
		name string
		form simserve.Form
		path string
		body string
		want []string
	}{
		{"vllm", simserve.Form{PerEvent: 3}, "/v1/completions", prompt, []string{
			`{"choices":[{"finish_reason":null,"index":0,"text":" t t t"}],"id":"simserve","model":"sim"}`,
			`{"choices":[{"finish_reason":"length","index":0,"text":" t"}],"id":"simserve","model":"sim"}`,
			`{"choices":[],"id":"simserve","model":"sim","usage":{"completion_tokens":4,"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"total_tokens":7}}`,
			`[DONE]`}},
		{"llamacpp", simserve.Form{PerEvent: 4, Usage: simserve.UsageFinish}, "/v1/completions", prompt, []string{
			`{"choices":[{"finish_reason":null,"index":0,"text":" t t t t"}],"id":"simserve","model":"sim"}`,
			`{"choices":[{"finish_reason":"length","index":0,"text":""}],"id":"simserve","model":"sim","usage":{"completion_tokens":4,"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"total_tokens":7}}`,
			`[DONE]`}},
		{"chat_with_role", simserve.Form{PerEvent: 4, RoleFirst: true, Usage: simserve.UsageToken}, "/v1/chat/completions",
			`{"model":"sim","messages":[{"role":"user","content":"hello"}],"max_tokens":4,"stream":true}`, []string{
				`{"choices":[{"delta":{"content":"","role":"assistant"},"finish_reason":null,"index":0}],"id":"simserve","model":"sim"}`,
				`{"choices":[{"delta":{"content":" t t t t"},"finish_reason":"length","index":0}],"id":"simserve","model":"sim","usage":{"completion_tokens":4,"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":0},"total_tokens":9}}`,
				`[DONE]`}},
	} {
		w := ask(t, handler(t, simserve.Config{Form: c.form}), c.path, c.body)
		want := "data: " + strings.Join(c.want, "\n\ndata: ") + "\n\n"
		if got := w.Body.String(); got != want || w.Header().Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, want)
		}
	}
}

// TestSlotsQueue lets three requests meet one slot.
func TestSlotsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(t, simserve.Config{Slots: 1, Prefill: 100 * ms})
		start := time.Now()
		done := make(chan time.Duration)
		for range 3 {
			go func() {
				ask(t, h, "/v1/completions", `{"model":"sim","prompt":"a","max_tokens":1,"stream":true}`)
				done <- time.Since(start)
			}()
		}
		for i := range 3 {
			if got, want := <-done, time.Duration(i+1)*100*ms; got != want {
				t.Errorf("answer %d after %v, want %v", i, got, want)
			}
		}
	})
}

func TestHealthWaitsForTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(t, simserve.Config{StartDelay: time.Second})
		if w := ask(t, h, "/health", ""); w.Code != http.StatusServiceUnavailable {
			t.Errorf("at once the status is %d", w.Code)
		}
		time.Sleep(time.Second)
		if w := ask(t, h, "/health", ""); w.Code != http.StatusOK {
			t.Errorf("after a second the status is %d", w.Code)
		}
	})
}

// TestFaultsAreChosen counts which of eight requests fail.
func TestFaultsAreChosen(t *testing.T) {
	h := handler(t, simserve.Config{Fault: simserve.HTTP500, Every: 3, After: 1})
	var got []int
	for range 8 {
		got = append(got, ask(t, h, "/v1/completions", prompt).Code)
	}
	for i, code := range got {
		if want := map[bool]int{true: 500, false: 200}[i == 1 || i == 4 || i == 7]; code != want {
			t.Errorf("request %d has status %d, want %d", i, code, want)
		}
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	h := handler(t, simserve.Config{})
	for _, c := range []struct {
		body string
		code int
		want string
	}{
		{`{`, 400, "no request"},
		{`{"model":"sim","prompt":"a","stream":true}`, 400, "max_tokens"},
		{`{"model":"sim","prompt":"","max_tokens":1,"stream":true}`, 400, "prompt is empty"},
		{`{"model":"sim","prompt":{"a":1},"max_tokens":1,"stream":true}`, 400, "neither text nor token ids"},
		{`{"model":"other","prompt":"a","max_tokens":1,"stream":true}`, 404, "does not exist"},
	} {
		w := ask(t, h, "/v1/completions", c.body)
		var e struct{ Error struct{ Message string } }
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != c.code || !strings.Contains(e.Error.Message, c.want) {
			t.Errorf("%s: status %d, %s", c.body, w.Code, w.Body)
		}
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	for want, c := range map[string]simserve.Config{
		"no name":          {},
		"time is negative": {Model: "m", Step: -1},
		"number is":        {Model: "m", Slots: -1},
		`usage is "x"`:     {Model: "m", Form: simserve.Form{Usage: "x"}},
		`fault "x"`:        {Model: "m", Fault: "x"},
	} {
		if _, err := simserve.Handler(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestModelsNamesTheModel reads the list as a client does.
func TestModelsNamesTheModel(t *testing.T) {
	for fault, want := range map[simserve.Fault]string{simserve.None: "sim", simserve.WrongModel: "another-model", simserve.AnswersModel: "sim"} {
		w := ask(t, handler(t, simserve.Config{Fault: fault}), "/v1/models", "")
		var list struct{ Data []struct{ ID string } }
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Data) != 1 || list.Data[0].ID != want {
			t.Errorf("fault %q: %s", fault, w.Body)
		}
	}
}

// answerOver gets a real answer over a connection, with the error of its end.
func answerOver(t *testing.T, h http.Handler) (string, error) {
	t.Helper()
	srv := httptest.NewServer(h)
	defer srv.Close()
	resp, err := http.Post(srv.URL+"/v1/completions", "application/json", strings.NewReader(prompt))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(bufio.NewReader(resp.Body))
	return string(b), err
}

// TestConnectionsEndAsTheFaultSays looks at what only a connection shows.
func TestConnectionsEndAsTheFaultSays(t *testing.T) {
	if got, err := answerOver(t, handler(t, simserve.Config{Fault: simserve.Reset})); err == nil {
		t.Errorf("reset: got %q", got)
	}
	got, err := answerOver(t, handler(t, simserve.Config{Fault: simserve.Cut}))
	if err == nil || bytes.Count([]byte(got), []byte("data: ")) != 2 {
		t.Errorf("cut: got %q, error %v; want half of 4 events and an error", got, err)
	}
	if got, err := answerOver(t, handler(t, simserve.Config{Fault: simserve.NoDone})); err != nil || strings.Contains(got, "[DONE]") {
		t.Errorf("no_done: got %q, error %v", got, err)
	}
}

// TestBatchMakesStepsLonger: two requests at once, 3 tokens each, steps of 10 ms
// and 4 ms more for the other one.
func TestBatchMakesStepsLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stamps := make(chan simserve.Stamp, 2)
		h := handler(t, simserve.Config{Prefill: 20 * ms, Step: 10 * ms, Engine: simserve.Engine{BatchStep: 4 * ms}, Stamp: func(s simserve.Stamp) { stamps <- s }})
		start := time.Now()
		for range 2 {
			go ask(t, h, "/v1/completions", `{"model":"sim","prompt":[5],"max_tokens":3,"stream":true}`)
		}
		for range 2 {
			s := <-stamps
			for j, w := range s.Writes {
				if want := 20*ms + time.Duration(j)*14*ms; w.Sub(start) != want {
					t.Errorf("token %d at %v, want %v", j, w.Sub(start), want)
				}
			}
		}
	})
}

// TestPrefixCacheShortensThePrefill: 10 tokens of 5 ms, of which two blocks of
// four are cached the second time; a prompt of exactly the blocks computes one.
func TestPrefixCacheShortensThePrefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first []time.Duration
		h := handler(t, simserve.Config{PerToken: 5 * ms, Engine: simserve.Engine{CacheBlock: 4},
			Stamp: func(s simserve.Stamp) { first = append(first, s.Writes[0].Sub(s.Arrived)) }})
		for i, want := range []struct {
			ids    string
			cached string
			ttft   time.Duration
		}{{"1,2,3,4,5,6,7,8,9,10", "0", 50 * ms}, {"1,2,3,4,5,6,7,8,9,10", "8", 10 * ms}, {"1,2,3,4,5,6,7,8", "7", 5 * ms}, {"9,2,3,4,5,6,7,8", "0", 40 * ms}} {
			w := ask(t, h, "/v1/completions", `{"model":"sim","prompt":[`+want.ids+`],"max_tokens":1,"stream":true}`)
			if !strings.Contains(w.Body.String(), `"cached_tokens":`+want.cached+`}`) || first[i] != want.ttft {
				t.Errorf("request %d: first token after %v, want %v with %s cached: %s", i, first[i], want.ttft, want.cached, w.Body)
			}
		}
		page := ask(t, h, "/metrics", "").Body.String()
		for _, line := range []string{`vllm:prompt_tokens_total{model_name="sim"} 36`, `vllm:prefix_cache_hits_total{model_name="sim"} 15`,
			`vllm:generation_tokens_total{model_name="sim"} 4`, `vllm:time_to_first_token_seconds_sum{model_name="sim"} 0.105`} {
			if !strings.Contains(page, line) {
				t.Errorf("no line %s in\n%s", line, page)
			}
		}
	})
}

// TestBurstsAndCountsOnEveryEvent: seven tokens in bursts of 1, 3, 2 and again 1.
func TestBurstsAndCountsOnEveryEvent(t *testing.T) {
	h := handler(t, simserve.Config{Form: simserve.Form{Usage: simserve.UsageEvery}, Engine: simserve.Engine{Bursts: []int{1, 3, 2}}})
	body := ask(t, h, "/v1/completions", `{"model":"sim","prompt":[5],"max_tokens":7,"stream":true}`).Body.String()
	var counts []string
	for _, part := range strings.Split(body, `"completion_tokens":`)[1:] {
		counts = append(counts, part[:1])
	}
	if got := strings.Join(counts, " "); got != "1 4 6 7 7" {
		t.Errorf("counts are %s in %s", got, body)
	}
	if page := ask(t, h, "/metrics", "").Body.String(); !strings.Contains(page, `spec_decode_num_drafts_total{model_name="sim"} 4`) || !strings.Contains(page, `accepted_tokens_total{model_name="sim"} 3`) {
		t.Error(page)
	}
}

func TestTokenizeCountsBytes(t *testing.T) {
	for _, field := range []string{"prompt", "content"} {
		if got := ask(t, handler(t, simserve.Config{}), "/tokenize", `{"`+field+`":"ab"}`).Body.String(); got != `{"count":2,"tokens":[97,98]}` {
			t.Errorf("%s: %s", field, got)
		}
	}
}

// TestARequestAsksForItsFault by a header; an unknown one is refused.
func TestARequestAsksForItsFault(t *testing.T) {
	h := handler(t, simserve.Config{})
	for fault, code := range map[string]int{"http_429": 429, "": 200, "nonsense": 400} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/completions", strings.NewReader(prompt))
		r.Header.Set("X-Sim-Fault", fault)
		h.ServeHTTP(w, r)
		if w.Code != code {
			t.Errorf("%q: status %d, want %d", fault, w.Code, code)
		}
	}
	if n := len(simserve.Faults); n < 30 {
		t.Errorf("%d faults", n)
	}
}
