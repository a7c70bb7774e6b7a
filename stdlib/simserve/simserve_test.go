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
		{`{"model":"sim","prompt":"a","max_tokens":1}`, 400, "only streams"},
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
