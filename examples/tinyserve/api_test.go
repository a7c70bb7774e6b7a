package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/engine"
	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/model"
	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/vocab"
)

// start serves the tiny model with a configuration, until the test ends.
func start(t *testing.T, c engine.Config) *httptest.Server {
	t.Helper()
	config, err := model.ReadConfig("../models/tiny")
	if err != nil {
		t.Fatal(err)
	}
	c.Threads, c.Kernel = 1, model.Kernels["blocked"]
	e, err := engine.New(model.New(config), c)
	if err != nil {
		t.Fatal(err)
	}
	s := newServer("tiny", c.MaxLen, t.TempDir(), true)
	s.engine.Store(e)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { e.Run(ctx); close(ended) }()
	web := httptest.NewServer(s)
	t.Cleanup(func() { stop(); <-ended; web.Close() })
	return web
}

var usual = engine.Config{MaxSeqs: 4, MaxTokens: 64, MaxLen: 2048, Prefix: true}

// call sends a request and returns status, content type and body.
func call(t *testing.T, method, url, body string) (int, string, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	all, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.StatusCode, w.Header.Get("Content-Type"), string(all)
}

// wire is an answer or event as a client reads it.
type wire struct {
	Object  string
	Model   string
	Choices []struct {
		Text           string
		Message, Delta struct{ Role, Content string }
		Finish         *string `json:"finish_reason"`
	}
	Usage *counts
	Error *problem
}

func post(t *testing.T, url, body string) wire {
	t.Helper()
	status, _, text := call(t, "POST", url, body)
	if status != 200 {
		t.Fatalf("status %d: %s", status, text)
	}
	var w wire
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		t.Fatal(err)
	}
	return w
}

// events reads a stream, and whether it ended with [DONE].
func events(t *testing.T, body io.Reader) (list []wire, done bool) {
	t.Helper()
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			if lines.Text() != "" {
				t.Errorf("a line without data: %q", lines.Text())
			}
			continue
		}
		if done {
			t.Errorf("%q after [DONE]", data)
		}
		if done = data == "[DONE]"; done {
			continue
		}
		var w wire
		if err := json.Unmarshal([]byte(data), &w); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		list = append(list, w)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return list, done
}

func TestCompletionStream(t *testing.T) {
	web := start(t, usual)
	const ask = `{"model":"tiny","prompt":"a server takes","max_tokens":9,"temperature":0,"ignore_eos":true`
	whole := post(t, web.URL+"/v1/completions", ask+"}")
	status, kind, body := call(t, "POST", web.URL+"/v1/completions", ask+`,"stream":true,"stream_options":{"include_usage":true}}`)
	list, done := events(t, strings.NewReader(body))
	if status != 200 || kind != "text/event-stream; charset=utf-8" || !done {
		t.Fatalf("status %d, type %q, done %t", status, kind, done)
	}
	if len(list) != 10 { // nine tokens and the usage
		t.Fatalf("%d events: %s", len(list), body)
	}
	var text string
	for i, e := range list[:9] {
		if len(e.Choices) != 1 || e.Choices[0].Text == "" || e.Usage != nil || e.Object != "text_completion" || e.Model != "tiny" {
			t.Errorf("event %d is %+v", i, e)
		}
		if last := e.Choices[0].Finish != nil; last != (i == 8) {
			t.Errorf("event %d has a finish reason: %t", i, last)
		}
		text += e.Choices[0].Text
	}
	if f := *list[8].Choices[0].Finish; f != "length" {
		t.Errorf("finish %q", f)
	}
	if end := list[9]; len(end.Choices) != 0 || !strings.Contains(body, `"choices":[],"usage"`) {
		t.Errorf("the usage event is %+v", end)
	}
	// By the vocabulary: BOS, "a", " s", "er", "v", "er", " t", "a", "k", "es".
	if got, want := *list[9].Usage, (counts{10, 9, 19, details{0}}); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
	if w := whole; w.Choices[0].Text != text || *w.Choices[0].Finish != "length" || *w.Usage != *list[9].Usage {
		t.Errorf("not streamed: %+v, streamed text %q", w, text)
	}
	_, _, body = call(t, "POST", web.URL+"/v1/completions", ask+`,"stream":true}`)
	if list, done := events(t, strings.NewReader(body)); len(list) != 9 || !done {
		t.Errorf("without include_usage %d events, done %t", len(list), done)
	}
}

func TestChatStream(t *testing.T) {
	web := start(t, usual)
	const ask = `{"messages":[{"role":"user","content":"hi"}],"max_completion_tokens":6,"temperature":0,"ignore_eos":true`
	whole := post(t, web.URL+"/v1/chat/completions", ask+"}")
	_, _, body := call(t, "POST", web.URL+"/v1/chat/completions", ask+`,"stream":true,"stream_options":{"include_usage":true}}`)
	list, done := events(t, strings.NewReader(body))
	if len(list) != 8 || !done { // role, six tokens, usage
		t.Fatalf("%d events, done %t: %s", len(list), done, body)
	}
	if d := list[0].Choices[0].Delta; d.Role != "assistant" || d.Content != "" || !strings.Contains(body, `"delta":{"role":"assistant","content":""}`) {
		t.Errorf("first event %+v", list[0])
	}
	var text string
	for _, e := range list[1:7] {
		text += e.Choices[0].Delta.Content
	}
	if w := whole.Choices[0]; w.Message.Role != "assistant" || w.Message.Content != text || whole.Object != "chat.completion" || list[0].Object != "chat.completion.chunk" {
		t.Errorf("not streamed %+v, streamed text %q", w, text)
	}
	if n := len(vocab.Chat([]vocab.Message{{Role: "user", Content: "hi"}})); whole.Usage.Prompt != n {
		t.Errorf("%d prompt tokens, want %d", whole.Usage.Prompt, n)
	}
	parts := `{"messages":[{"role":"user","content":[{"type":"text","text":"h"},{"type":"text","text":"i"}]}],"max_tokens":6,"temperature":0,"ignore_eos":true}`
	if got := post(t, web.URL+"/v1/chat/completions", parts).Choices[0].Message.Content; got != text {
		t.Errorf("content in parts gives %q, want %q", got, text)
	}
}

func TestPromptForms(t *testing.T) {
	web := start(t, usual)
	ids, err := json.Marshal(append([]vocab.ID{vocab.BOS}, vocab.Encode("what is")...))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, p := range []string{`"what is"`, `["what is"]`, string(ids), "[" + string(ids) + "]"} {
		w := post(t, web.URL+"/v1/completions", fmt.Sprintf(`{"prompt":%s,"temperature":0,"n":1,"top_p":1,"logprobs":null}`, p))
		if w.Usage.Completion != 16 && *w.Choices[0].Finish != "stop" { // the interface's default
			t.Errorf("%s gave %d tokens", p, w.Usage.Completion)
		}
		texts = append(texts, w.Choices[0].Text)
	}
	if len(slices.Compact(texts)) != 1 {
		t.Errorf("four forms of one prompt gave %q", texts)
	}
}

func TestSeedAndEnds(t *testing.T) {
	web := start(t, usual)
	ask := func(more string) wire {
		return post(t, web.URL+"/v1/completions", `{"prompt":"seed","max_tokens":400`+more+`}`)
	}
	a, b := ask(`,"temperature":1,"seed":-7`), ask(`,"temperature":1,"seed":-7`)
	if a.Choices[0].Text != b.Choices[0].Text {
		t.Error("one seed gave two answers")
	}
	// EOS comes after some 64 tokens: 400 without it have a chance of 0.2 %,
	// and the seed is fixed.
	if *a.Choices[0].Finish != "stop" || a.Usage.Completion >= 400 {
		t.Errorf("finish %q after %d tokens", *a.Choices[0].Finish, a.Usage.Completion)
	}
	long := ask(`,"temperature":1,"seed":-7,"ignore_eos":true`)
	if *long.Choices[0].Finish != "length" || long.Usage.Completion != 400 || !strings.HasPrefix(long.Choices[0].Text, a.Choices[0].Text) {
		t.Errorf("with ignore_eos %+v", long)
	}
	stop := long.Choices[0].Text[20:23]
	cut := ask(fmt.Sprintf(`,"temperature":1,"seed":-7,"ignore_eos":true,"stop":[%q]`, stop))
	if want, _, _ := strings.Cut(long.Choices[0].Text, stop); cut.Choices[0].Text != want || *cut.Choices[0].Finish != "stop" {
		t.Errorf("with stop %q: %q", stop, cut.Choices[0].Text)
	}
}

func TestBadRequests(t *testing.T) {
	web := start(t, usual)
	big := `{"prompt":"` + strings.Repeat("x", maxBody) + `"}`
	long := `{"prompt":[` + strings.Repeat("7,", 2039) + `7],"max_tokens":9}`
	cases := []struct {
		name, path, body string
		status           int
		want             string // in the message
		param            string
	}{
		{"not_json", "completions", `{"prompt":`, 400, "not a JSON object", ""},
		{"not_an_object", "completions", `[1]`, 400, "not a JSON object", ""},
		{"null", "completions", `null`, 400, "not a JSON object", ""},
		{"two_objects", "completions", `{"prompt":"a"}{}`, 400, "follows", ""},
		{"too_large", "completions", big, 413, "larger than 4194304 bytes", ""},
		{"no_prompt", "completions", `{}`, 400, "prompt is missing", "prompt"},
		{"empty_prompt", "completions", `{"prompt":""}`, 400, "prompt is missing or empty", "prompt"},
		{"empty_ids", "completions", `{"prompt":[]}`, 400, "prompt is empty", "prompt"},
		{"two_prompts", "completions", `{"prompt":["a","b"]}`, 400, "one text", "prompt"},
		{"nested", "completions", `{"prompt":[[[1]]]}`, 400, "one text", "prompt"},
		{"null_id", "completions", `{"prompt":[1,null]}`, 400, "one text", "prompt"},
		{"id_too_large", "completions", `{"prompt":[1,512]}`, 400, "token id 512 is out of the vocabulary, which has 0 to 511", "prompt"},
		{"id_negative", "completions", `{"prompt":[-1]}`, 400, "token id -1", "prompt"},
		{"other_model", "completions", `{"prompt":"a","model":"gpt"}`, 404, `"gpt" does not exist; this server has "tiny"`, "model"},
		{"several_answers", "completions", `{"prompt":"a","n":2}`, 400, "n is not supported; leave it out or give 1", "n"},
		{"top_p", "completions", `{"prompt":"a","top_p":0.9}`, 400, "top_p is not supported", "top_p"},
		{"misspelt", "completions", `{"prompt":"a","ignore_eso":true}`, 400, `unknown field "ignore_eso"; known are`, "ignore_eso"},
		{"no_tokens", "completions", `{"prompt":"a","max_tokens":0}`, 400, "at least 1, not 0", "max_tokens"},
		{"tokens_text", "completions", `{"prompt":"a","max_tokens":"many"}`, 400, "max_tokens must be a whole number", "max_tokens"},
		{"tokens_huge", "completions", `{"prompt":"a","max_tokens":9223372036854775807}`, 400, "maximum context length is 2048", "prompt"},
		{"too_long", "completions", long, 400, "maximum context length is 2048 tokens, but the request needs 2049: 2040 of the prompt and 9 of the answer", "prompt"},
		{"cold", "completions", `{"prompt":"a","temperature":-1}`, 400, "temperature must be", "temperature"},
		{"empty_stop", "completions", `{"prompt":"a","stop":["x",""]}`, 400, "empty text", "stop"},
		{"usage_without_stream", "completions", `{"prompt":"a","stream_options":{"include_usage":true}}`, 400, "needs stream", "stream_options"},
		{"stream_option", "completions", `{"prompt":"a","stream":true,"stream_options":{"continuous_usage_stats":true}}`, 400, "include_usage and nothing else", "stream_options"},
		{"no_messages", "chat/completions", `{}`, 400, "messages is missing", "messages"},
		{"role", "chat/completions", `{"messages":[{"role":"robot","content":"a"}]}`, 400, `role "robot"`, "messages"},
		{"picture", "chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400, "messages must be", "messages"},
		{"prompt_in_chat", "chat/completions", `{"prompt":"a"}`, 400, `unknown field "prompt"`, "prompt"},
		{"two_limits", "chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":1,"max_completion_tokens":2}`, 400, "not both", "max_completion_tokens"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			status, kind, body := call(t, "POST", web.URL+"/v1/"+c.path, c.body)
			var w struct{ Error *problem }
			if err := json.Unmarshal([]byte(body), &w); err != nil || w.Error == nil {
				t.Fatalf("body %q: %v", body, err)
			}
			param := ""
			if w.Error.Param != nil {
				param = *w.Error.Param
			}
			if status != c.status || w.Error.Status != c.status || kind != "application/json" || param != c.param || !strings.Contains(w.Error.Message, c.want) {
				t.Errorf("status %d, type %q, error %+v about %q\nwant %d, %q about %q", status, kind, *w.Error, param, c.status, c.want, c.param)
			}
		})
	}
	for path, want := range map[string]int{"/v1/completions": 405, "/nowhere": 404, "/v1/nowhere": 404} {
		if status, kind, body := call(t, "GET", web.URL+path, ""); status != want || kind != "application/json" || !strings.Contains(body, `{"error":{"code":`) {
			t.Errorf("GET %s: %d %s", path, status, body)
		}
	}
	if status, _, _ := call(t, "POST", web.URL+"/health", ""); status != 405 {
		t.Errorf("POST /health: %d", status)
	}
}

func FuzzParse(f *testing.F) {
	for _, body := range []string{
		`{"prompt":"a","stop":["x"],"seed":1}`, `{"prompt":[[1,2]],"stream":true,"stream_options":{"include_usage":true}}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`, `{"messages":[{"role":"user"}]}`, `{"prompt":[null]}`,
	} {
		f.Add(body, true)
		f.Add(body, false)
	}
	f.Fuzz(func(t *testing.T, body string, chat bool) {
		_, q, err := parse(strings.NewReader(body), chat, "tiny", 2048)
		if p := (*problem)(nil); err != nil && (!errors.As(err, &p) || p.Status < 400) {
			t.Errorf("%q gave %v", body, err)
		}
		if err == nil && (len(q.Prompt) == 0 || q.MaxTokens < 1) {
			t.Errorf("%q gave %+v", body, q)
		}
	})
}

func TestTokenize(t *testing.T) {
	web := start(t, usual)
	for _, c := range []struct{ path, body, want string }{
		{"tokenize", `{"prompt":"Aet"}`, `{"count":3,"max_model_len":2048,"tokens":[1,70,282]}`},
		{"tokenize", `{"prompt":"Aet","add_special_tokens":false,"model":"tiny"}`, `{"count":2,"max_model_len":2048,"tokens":[70,282]}`},
		{"tokenize", `{"prompt":"","add_special_tokens":false}`, `{"count":0,"max_model_len":2048,"tokens":[]}`},
		{"detokenize", `{"tokens":[1,70,282,2]}`, `{"prompt":"\u003c|bos|\u003eAet\u003c|eos|\u003e"}`},
	} {
		if _, _, got := call(t, "POST", web.URL+"/"+c.path, c.body); strings.TrimSpace(got) != c.want {
			t.Errorf("%s %s gave %s, want %s", c.path, c.body, got, c.want)
		}
	}
	if status, _, body := call(t, "POST", web.URL+"/detokenize", `{"tokens":[999]}`); status != 400 || !strings.Contains(body, "token id 999") {
		t.Errorf("%d %s", status, body)
	}
	_, _, models := call(t, "GET", web.URL+"/v1/models", "")
	if !strings.Contains(models, `"id":"tiny"`) || !strings.Contains(models, `"max_model_len":2048`) || !strings.Contains(models, `"meta":{"n_vocab":512}`) {
		t.Errorf("models %s", models)
	}
}

// metric reads one number of /metrics.
func metric(t *testing.T, web *httptest.Server, name string) string {
	t.Helper()
	_, _, body := call(t, "GET", web.URL+"/metrics", "")
	for line := range strings.Lines(body) {
		if v, ok := strings.CutPrefix(line, "tinyserve:"+name+" "); ok {
			return strings.TrimSpace(v)
		}
	}
	t.Fatalf("no metric %s in %s", name, body)
	return ""
}

// eventually polls a metric until it has a value.
func eventually(t *testing.T, web *httptest.Server, name, want string) {
	t.Helper()
	got := ""
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if got = metric(t, web, name); got == want {
			return
		}
	}
	t.Fatalf("%s is %s after 30 s, want %s", name, got, want)
}

func TestPrefixCacheAndMetrics(t *testing.T) {
	web := start(t, usual)
	ids := bytes.Repeat([]byte("300,"), 100)
	ask := fmt.Sprintf(`{"prompt":[%s301],"max_tokens":3,"temperature":0,"ignore_eos":true}`, ids)
	for i, want := range []int{0, 96} { // 101 tokens: six whole blocks of 16
		if got := post(t, web.URL+"/v1/completions", ask).Usage.Details.Cached; got != want {
			t.Errorf("request %d: %d tokens cached, want %d", i, got, want)
		}
	}
	for name, want := range map[string]string{
		"prompt_tokens_total":                             "202",
		"prompt_tokens_cached_total":                      "96",
		"generation_tokens_total":                         "6",
		`request_success_total{finished_reason="length"}`: "2",
		`request_success_total{finished_reason="stop"}`:   "0",
		"step_tokens_max":                                 "64", // 101 in two chunks
		"engine_steps_total":                              "7",  // 64, 37 and two; 5 and two
	} {
		if got := metric(t, web, name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	off := start(t, engine.Config{MaxSeqs: 1, MaxTokens: 64, MaxLen: 256})
	for range 2 {
		if got := post(t, off.URL+"/v1/completions", ask).Usage.Details.Cached; got != 0 {
			t.Errorf("%d tokens cached without a prefix cache", got)
		}
	}
}

// TestClientsThatLeaveFreeTheSlot has one slot: a second request gets nothing,
// not even headers, before the first one's client has gone.
func TestClientsThatLeaveFreeTheSlot(t *testing.T) {
	for _, stream := range []bool{true, false} {
		t.Run(fmt.Sprintf("stream_%t", stream), func(t *testing.T) {
			web := start(t, engine.Config{MaxSeqs: 1, MaxTokens: 64, MaxLen: 2048})
			ctx, leave := context.WithCancel(t.Context())
			body := fmt.Sprintf(`{"prompt":"a","max_tokens":2000,"ignore_eos":true,"stream":%t}`, stream)
			r, err := http.NewRequestWithContext(ctx, "POST", web.URL+"/v1/completions", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			left := make(chan struct{})
			go func() {
				defer close(left)
				if w, err := http.DefaultClient.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, w.Body) // ends when the context does
					w.Body.Close()
				}
			}()
			eventually(t, web, "num_requests_running", "1")
			second := make(chan wire, 1)
			go func() { second <- post(t, web.URL+"/v1/completions", `{"prompt":"b","max_tokens":1}`) }()
			eventually(t, web, "num_requests_waiting", "1")
			if len(second) != 0 {
				t.Error("the second request was answered while the slot was taken")
			}
			leave()
			<-left
			if got := (<-second).Usage.Completion; got != 1 {
				t.Errorf("the second request got %d tokens", got)
			}
			eventually(t, web, "num_requests_running", "0")
			for name, want := range map[string]string{"request_canceled_total": "1", "kv_cache_usage_perc": "0"} {
				if got := metric(t, web, name); got != want {
					t.Errorf("%s is %s, want %s", name, got, want)
				}
			}
		})
	}
}

func TestManyClientsGetTheAnswerOfOne(t *testing.T) {
	web := start(t, usual)
	ask := func(i int) string {
		return post(t, web.URL+"/v1/completions", fmt.Sprintf(`{"prompt":[%d,9,8],"max_tokens":20,"temperature":0}`, 300+i)).Choices[0].Text
	}
	var alone []string
	for i := range 12 {
		alone = append(alone, ask(i))
	}
	together := make([]chan string, 12)
	for i := range together {
		together[i] = make(chan string, 1)
		go func() { together[i] <- ask(i) }()
	}
	for i, c := range together {
		if got := <-c; got != alone[i] {
			t.Errorf("request %d gave %q among others, %q alone", i, got, alone[i])
		}
	}
	if got := metric(t, web, "step_seqs_max"); got != "4" {
		t.Errorf("at most %s sequences ran at once, want 4", got)
	}
}
