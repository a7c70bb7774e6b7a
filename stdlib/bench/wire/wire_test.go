package wire

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sotabuild/sotabuild/stdlib/dataset"
)

// TestDecode has the forms of single events, from captures and documents.
func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name  string
		api   API
		data  string
		token bool
		fin   string
		usage Counts
		fails string // message of an error object
		last  bool
	}{
		{"text", Completions, `{"choices":[{"index":0,"text":"a","finish_reason":null}]}`, true, "", uncounted, "", false},
		{"space_is_text", Completions, `{"choices":[{"text":" "}]}`, true, "", uncounted, "", false},
		{"empty_text", Completions, `{"choices":[{"text":""}]}`, false, "", uncounted, "", false},
		{"ids_without_text", Completions, `{"choices":[{"text":"","token_ids":[7]}]}`, true, "", uncounted, "", false},
		{"no_ids", Completions, `{"choices":[{"text":"","token_ids":[ ]}]}`, false, "", uncounted, "", false},
		{"usage_on_content", Completions, `{"usage":{"completion_tokens":3,"prompt_tokens":2},"choices":[{"text":"a","finish_reason":"stop"}]}`, true, "stop", Counts{2, 3, -1}, "", false},
		{"usage_alone", Completions, `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":4,"prompt_tokens_details":{"audio":1,"cached_tokens":2}}}`, false, "", Counts{5, 4, 2}, "", false},
		{"usage_null", Completions, `{"choices":[],"usage":null}`, false, "", uncounted, "", false},
		{"usage_without_details", Completions, `{"usage":{"prompt_tokens":5,"completion_tokens":null,"prompt_tokens_details":null}}`, false, "", Counts{5, -1, -1}, "", false},
		{"key_inside_text", Completions, `{"choices":[{"text":"\"usage\":{\"completion_tokens\":9}"}]}`, true, "", uncounted, "", false},
		{"key_inside_other_object", Completions, `{"x":{"usage":{"completion_tokens":9},"error":{}},"choices":[]}`, false, "", uncounted, "", false},
		{"escaped_key", Completions, `{"\u0063hoices":[{"te\u0078t":"a"}]}`, true, "", uncounted, "", false},
		{"escaped_finish", Completions, `{"choices":[{"finish_reason":"len\u0067th"}]}`, false, "length", uncounted, "", false},
		{"role", Chat, `{"choices":[{"delta":{"role":"assistant","content":""}}]}`, false, "", uncounted, "", false},
		{"role_null", Chat, `{"choices":[{"delta":{"role":"assistant","content":null}}]}`, false, "", uncounted, "", false},
		{"content", Chat, `{"choices":[{"delta":{"content":"a"}}]}`, true, "", uncounted, "", false},
		{"reasoning_content", Chat, `{"choices":[{"delta":{"reasoning_content":"a","content":null}}]}`, true, "", uncounted, "", false},
		{"reasoning", Chat, `{"choices":[{"delta":{"reasoning":"a"}}]}`, true, "", uncounted, "", false},
		{"tool_call", Chat, `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}}]}`, true, "", uncounted, "", false},
		{"no_tool_call", Chat, `{"choices":[{"delta":{"tool_calls":[],"content":""}}]}`, false, "", uncounted, "", false},
		{"null_delta", Chat, `{"choices":[{"delta":null,"finish_reason":"stop"}]}`, false, "stop", uncounted, "", false},
		{"progress", Completions, `{"choices":[{"text":""}],"prompt_progress":{"total":82,"processed":1}}`, false, "", uncounted, "", false},
		{"error", Completions, `{"error":{"code":500,"message":"dead"}}`, false, "", uncounted, "dead", false},
		{"error_text", Completions, `{"error":"dead"}`, false, "", uncounted, `"dead"`, false},
		{"error_null", Completions, `{"error":null,"choices":[]}`, false, "", uncounted, "", false},
		{"object_error", Completions, `{"object":"error","message":"dead","code":400}`, false, "", uncounted, "dead", false},
		{"null", Completions, `null`, false, "", uncounted, "", false},
		{"native", LlamaCpp, `{"index":0,"content":"a","tokens":[],"stop":false,"tokens_predicted":1,"tokens_evaluated":8}`, true, "", Counts{8, 1, -1}, "", false},
		{"native_half_character", LlamaCpp, `{"content":"","tokens":[226],"stop":false}`, true, "", uncounted, "", false},
		{"native_end", LlamaCpp, `{"content":"","stop":true,"stop_type":"limit","tokens_predicted":4,"tokens_evaluated":8,"timings":{"cache_n":7}}`, false, "length", Counts{8, 4, 7}, "", true},
		{"native_eos", LlamaCpp, `{"content":"","stop":true,"stop_type":"eos"}`, false, "stop", uncounted, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := c.api.decode([]byte(c.data))
			if err != nil {
				t.Fatal(err)
			}
			if e.token != c.token || string(e.finish) != c.fin || e.usage != c.usage || e.failed != (c.fails != "") || string(e.detail) != c.fails || e.last != c.last {
				t.Errorf("event is %+v (finish %q, detail %q)", e, e.finish, e.detail)
			}
		})
	}
}

// TestDecodeRefuses has events that no API promises.
func TestDecodeRefuses(t *testing.T) {
	for _, data := range []string{
		``, `[]`, `7`, `{`, `{"choices":[{"text":"a"}]`, `{"choices":[{"text":"a"}]}}`, `{"a":1} {"b":2}`, `{"a":1,}`, `{,}`, `{"a" 1}`,
		`{'a':1}`, `{"a":01}`, `{"a":+1}`, `{"a":.5}`, `{"a":1.}`, `{"a":1e}`, `{"a":tru}`, `{"a":"\x"}`, `{"a":"\u12"}`, "{\"a\":\"\n\"}", `{"a":"b}`,
		`{"usage":{"completion_tokens":1.5}}`, `{"usage":{"completion_tokens":"4"}}`, `{"usage":{"completion_tokens":-1}}`,
		`{"choices":[{"text":7}]}`, `{"choices":[{"index":"0"}]}`, `{"choices":[7]}`, `nullx`, "null\x00", "{}\x00", `{"a":` + strings.Repeat("[", 300),
	} {
		if e, err := Completions.decode([]byte(data)); err == nil {
			t.Errorf("%s is taken for %+v", data, e)
		}
	}
}

// TestScanningDoesNotAllocate is why the scanner exists.
func TestScanningDoesNotAllocate(t *testing.T) {
	data := []byte(`{"id":"cmpl-1","object":"text_completion","created":1796037039,"model":"tiny","choices":[{"index":0,"text":" \"wit\u00e9","logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`)
	if n := testing.AllocsPerRun(100, func() {
		if e, err := Completions.decode(data); err != nil || !e.token {
			t.Fatal(e, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

// FuzzScan compares the scanner with an independent parser: whether a text is
// JSON at all, and what a count in it is.
func FuzzScan(f *testing.F) {
	for _, s := range []string{`{"usage":{"completion_tokens":4}}`, `{"a":[1,-2.5e+3,true,false,null,"\u00e9\\"]}`, `[{}]`, `"x`, `{"a":1,}`, `0`, `-0.0e0`} {
		f.Add([]byte(s))
	}
	files, err := filepath.Glob("../testdata/*/*stream*.http")
	if err != nil || len(files) == 0 {
		f.Fatalf("%d captures, %v", len(files), err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				f.Add([]byte(strings.TrimSpace(data)))
				break
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := scanner{b: data}
		s.skip()
		err := s.end()
		if deep := strings.Count(string(data), "[") + strings.Count(string(data), "{"); deep >= maxDepth {
			return
		}
		valid := jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		if valid != (err == nil) {
			t.Fatalf("%q: error %v, another parser says valid is %v", data, err, valid)
		}
		var o struct {
			Usage *struct {
				Output *int64 `json:"completion_tokens"`
			} `json:"usage"`
			Choices []struct {
				Text  *string `json:"text"`
				IDs   []int   `json:"token_ids"`
				Delta *struct {
					Content *string `json:"content"`
				} `json:"delta"`
				Finish *string `json:"finish_reason"`
			} `json:"choices"`
		}
		e, err := Completions.decode(data)
		if err != nil || jsonv2.Unmarshal(data, &o) != nil {
			return // not of this shape
		}
		var token bool
		for _, c := range o.Choices {
			token = token || c.Text != nil && *c.Text != "" || len(c.IDs) > 0 || c.Delta != nil && c.Delta.Content != nil && *c.Delta.Content != ""
		}
		if token && !e.token {
			t.Fatalf("%s: a token was missed", data)
		}
		if o.Usage != nil && o.Usage.Output != nil && e.usage.Output != *o.Usage.Output {
			t.Fatalf("%s: %d output tokens, another parser says %d", data, e.usage.Output, *o.Usage.Output)
		}
		if n := len(o.Choices); n > 0 && o.Choices[n-1].Finish != nil && string(e.finish) != *o.Choices[n-1].Finish {
			t.Fatalf("%s: finish reason %q, another parser says %q", data, e.finish, *o.Choices[n-1].Finish)
		}
	})
}

// TestBodies compares whole requests with what the APIs take.
func TestBodies(t *testing.T) {
	ids := dataset.Prompt{Tokens: []int{1, 38, 288}, OutputLen: 12}
	text := dataset.Prompt{Text: "a question", OutputLen: 10}
	for _, c := range []struct {
		api  API
		ask  Ask
		want string
	}{
		{Completions, Ask{Prompt: ids, Model: "tiny", IgnoreEOS: true},
			`{"ignore_eos":true,"max_tokens":12,"model":"tiny","prompt":[1,38,288],"stream":true,"stream_options":{"include_usage":true},"temperature":0}`},
		{Completions, Ask{Prompt: text, Model: "tiny", Temperature: .5, Extra: map[string]any{"top_k": json.Number("3"), "min_tokens": 10}},
			`{"max_tokens":10,"min_tokens":10,"model":"tiny","prompt":"a question","stream":true,"stream_options":{"include_usage":true},"temperature":0.5,"top_k":3}`},
		{Chat, Ask{Prompt: text, Model: "tiny"},
			`{"max_tokens":10,"messages":[{"role":"user","content":"a question"}],"model":"tiny","stream":true,"stream_options":{"include_usage":true},"temperature":0}`},
		{LlamaCpp, Ask{Prompt: ids, Model: "tiny", IgnoreEOS: true},
			`{"ignore_eos":true,"n_predict":12,"prompt":[1,38,288],"stream":true,"temperature":0}`},
	} {
		got, err := c.api.Encode(c.ask)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, error %v; want %s", c.api, got, err, c.want)
		}
		var m map[string]any
		if err := json.Unmarshal(got, &m); err != nil {
			t.Error(err)
		}
		for k := range m {
			if _, extra := c.ask.Extra[k]; !extra && k != "stream_options" && !slices.Contains(Reserved, k) {
				t.Errorf("%s sets %q, which is not reserved", c.api, k)
			}
		}
	}
	if _, err := Chat.Encode(Ask{Prompt: ids}); err == nil {
		t.Error("chat takes token ids")
	}
}

// TestModels reads the lists of three servers.
func TestModels(t *testing.T) {
	body := func(path string) []byte {
		b, err := os.ReadFile(filepath.Join("../testdata", path))
		if err != nil {
			t.Fatal(err)
		}
		if _, after, ok := strings.Cut(string(b), "\r\n\r\n"); ok {
			return []byte(after)
		}
		return b
	}
	for path, want := range map[string]string{"llamacpp/models.http": "tiny", "vllm/models.http": "tiny", "h200/sglang_0.5.17.models.json": "dense8b"} {
		if got, err := Models(body(path)); err != nil || !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, error %v", path, got, err)
		}
	}
	for _, bad := range []string{``, `{}`, `{"data":[]}`, `[]`} {
		if got, err := Models([]byte(bad)); err == nil {
			t.Errorf("%s names %q", bad, got)
		}
	}
}

// TestTokenGaps spreads gaps of 30 ms and 40 ms over the tokens that the events
// brought, where the server said how many, from the first event on.
func TestTokenGaps(t *testing.T) {
	event := func(counted int) string {
		usage := ""
		if counted > 0 {
			usage = fmt.Sprintf(`,"usage":{"prompt_tokens":1,"completion_tokens":%d}`, counted)
		}
		return `data: {"choices":[{"index":0,"text":"a"}]` + usage + "}\n\n"
	}
	for _, c := range []struct {
		name    string
		counted [3]int
		usage   int // in an event without a token; 0: none
		want    []float64
	}{
		{"counted", [3]int{1, 3, 4}, 0, []float64{.015, .015, .04}},
		{"two_at_first", [3]int{2, 3, 7}, 0, []float64{.03, .01, .01, .01, .01}},
		{"one_each", [3]int{}, 3, []float64{.03, .04}},
		{"not_counted_and_more_than_events", [3]int{}, 5, nil},
		{"counted_late", [3]int{0, 3, 5}, 0, nil},
		{"counted_between", [3]int{0, 3, 0}, 5, nil},
		{"not_counted_last", [3]int{1, 3, 0}, 5, nil},
		{"not_counted", [3]int{}, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := NewAnswer(Completions, nil, 0)
			for i, at := range []time.Duration{10e6, 40e6, 80e6} {
				a.Feed(at, []byte(event(c.counted[i])))
			}
			if c.usage > 0 {
				a.Feed(90e6, fmt.Appendf(nil, "data: {\"choices\":[],\"usage\":{\"completion_tokens\":%d}}\n\n", c.usage))
			}
			got, ok := a.TokenGaps()
			if ok != (c.want != nil) || !slices.Equal(got, c.want) {
				t.Errorf("%v, %v, want %v", got, ok, c.want)
			}
		})
	}
}
