// Package wire is what goes over the wire between a load generator and a
// serving endpoint: request bodies, event streams and what their events say,
// up to the verdict on one answer. It stamps nothing and opens no connection.
//
// The main type is Answer: bytes go in with the time of their read, in any
// split, and the verdict comes out. An Answer belongs to one goroutine. There
// are no errors: what is wrong with an answer is a Failure with its class.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sotabuild/sotabuild/stdlib/dataset"
)

// API is the wire form of requests and answers.
type API string

// The wire forms.
const (
	Completions API = "completions" // OpenAI, text or token-id prompts, SSE
	Chat        API = "chat"        // OpenAI chat, SSE
	LlamaCpp    API = "llamacpp"    // llama.cpp's own /completion: no [DONE]
	SGLang      API = "sglang"      // SGLang's own /generate: each event has all of the text so far
)

// Counts are the server's own counts of tokens; -1 is "it did not say".
type Counts struct{ Input, Output, Cached int64 }

var uncounted = Counts{-1, -1, -1}

// event is what one data event says. Slices point into the event's bytes.
type event struct {
	token  bool   // it carries at least one token of output
	finish []byte // the finish reason
	last   bool   // the API promises that nothing follows
	choice int64  // highest index of a choice
	usage  Counts
	failed bool   // it is an error object
	detail []byte // the error's message
	model  []byte
}

// Reserved are the body's fields that Encode itself sets.
var Reserved = []string{"model", "prompt", "text", "input_ids", "messages", "n", "n_predict", "max_tokens",
	"max_completion_tokens", "temperature", "stream", "ignore_eos"}

// Ask is one request.
type Ask struct {
	Prompt      dataset.Prompt
	Model       string
	Temperature float64
	IgnoreEOS   bool
	Whole       bool           // no stream
	Extra       map[string]any // further fields, none of them Reserved
}

// Encode makes the body of a request. The temperature is always sent: without
// it each server would use its own. The prompt's own fields go over Extra.
func (a API) Encode(q Ask) ([]byte, error) {
	m := map[string]any{"stream": !q.Whole}
	maps.Copy(m, q.Extra)
	p := q.Prompt
	for k, v := range p.Body {
		if slices.Contains(Reserved, k) {
			return nil, fmt.Errorf("prompt %d has the field %q, which the client sets itself", p.ID, k)
		}
		m[k] = v
	}
	sampling := m
	if a == SGLang {
		sampling = map[string]any{"max_new_tokens": p.OutputLen}
		if given, is := m["sampling_params"].(map[string]any); is {
			maps.Copy(sampling, given)
		}
		m["sampling_params"] = sampling
	}
	sampling["temperature"] = q.Temperature
	if q.IgnoreEOS {
		sampling["ignore_eos"] = true
	}
	if err := a.prompt(m, p); err != nil {
		return nil, err
	}
	model := q.Model
	if p.Adapter != "" {
		model = p.Adapter
	}
	switch a {
	case LlamaCpp:
		m["n_predict"] = p.OutputLen
		return json.Marshal(m)
	case SGLang:
		if p.Adapter != "" {
			m["lora_path"] = p.Adapter
		}
		return json.Marshal(m)
	}
	m["model"], m["max_tokens"] = model, p.OutputLen
	if !q.Whole {
		options := map[string]any{"include_usage": true}
		if given, is := m["stream_options"].(map[string]any); is {
			maps.Copy(options, given)
		}
		m["stream_options"] = options
	}
	return json.Marshal(m)
}

// prompt sets the field that carries the prompt.
func (a API) prompt(m map[string]any, p dataset.Prompt) error {
	switch ids, chat := len(p.Tokens) > 0, len(p.Messages) > 0; {
	case a == Chat && ids:
		return fmt.Errorf("prompt %d is token ids, which chat cannot carry; use api %q or a text dataset", p.ID, Completions)
	case a == Chat && chat:
		m["messages"] = p.Messages
	case a == Chat:
		m["messages"] = []dataset.Message{{Role: "user", Content: p.Text}}
	case chat:
		return fmt.Errorf("prompt %d is a conversation, which only api %q can carry", p.ID, Chat)
	case a == SGLang && ids:
		m["input_ids"] = p.Tokens
	case a == SGLang:
		m["text"] = p.Text
	case ids:
		m["prompt"] = p.Tokens
	default:
		m["prompt"] = p.Text
	}
	return nil
}

// decode reads one data event. JSON null says nothing (llama.cpp sends it); an
// error is about the event's form.
func (a API) decode(data []byte) (event, error) {
	e := event{usage: uncounted}
	s := scanner{b: data}
	if s.word("null") {
		return e, s.end()
	}
	var kind, message []byte
	for ok := s.enter('{', '}'); ok; ok = s.more('}') {
		switch k := string(s.key()); k {
		case "error":
			e.failure(&s)
		case "object":
			kind = s.maybe()
		case "message":
			message = s.maybe()
		case "model":
			e.model = s.maybe()
		default:
			switch a {
			case LlamaCpp:
				e.native(&s, k)
			case SGLang:
				e.generated(&s, k)
			default:
				e.openAI(&s, k)
			}
		}
	}
	if string(kind) == "error" {
		e.failed, e.detail = true, message
	}
	return e, s.end()
}

// maybe reads a string; any other value is stepped over and is nil.
func (s *scanner) maybe() []byte {
	if s.peek() == '"' {
		return s.text()
	}
	s.skip()
	return nil
}

// failure reads the value of "error": null is none.
func (e *event) failure(s *scanner) {
	if s.word("null") {
		return
	}
	e.failed = true
	if s.peek() != '{' {
		at := s.i
		s.skip()
		e.detail = s.b[min(at, s.i):s.i]
		return
	}
	for ok := s.enter('{', '}'); ok; ok = s.more('}') {
		if string(s.key()) == "message" {
			e.detail = s.maybe()
		} else {
			s.skip()
		}
	}
}

func (e *event) openAI(s *scanner, key string) {
	switch {
	case key == "choices" && s.peek() == '[':
		for ok := s.enter('[', ']'); ok; ok = s.more(']') {
			e.readChoice(s)
		}
	case key == "usage" && s.peek() == '{':
		e.readUsage(s)
	default:
		s.skip()
	}
}

func (e *event) readChoice(s *scanner) {
	for ok := s.enter('{', '}'); ok; ok = s.more('}') {
		switch string(s.key()) {
		case "index":
			e.choice = max(e.choice, s.count())
		case "text", "token_ids":
			e.token = s.filled() || e.token
		case "delta", "message": // message: in a whole answer
			if !s.word("null") {
				e.readDelta(s)
			}
		case "finish_reason":
			e.finish = s.maybe()
		default:
			s.skip()
		}
	}
}

func (e *event) readDelta(s *scanner) {
	for ok := s.enter('{', '}'); ok; ok = s.more('}') {
		switch string(s.key()) {
		case "content", "reasoning_content", "reasoning", "refusal", "tool_calls", "function_call":
			e.token = s.filled() || e.token
		default: // the role is no token
			s.skip()
		}
	}
}

func (e *event) readUsage(s *scanner) {
	for ok := s.enter('{', '}'); ok; ok = s.more('}') {
		switch k := string(s.key()); {
		case k == "prompt_tokens":
			e.usage.Input = s.count()
		case k == "completion_tokens":
			e.usage.Output = s.count()
		case k == "prompt_tokens_details" && s.peek() == '{':
			e.usage.Cached = s.member("cached_tokens")
		default:
			s.skip()
		}
	}
}

// member reads one count of an object; -1 if it is not there.
func (s *scanner) member(name string) int64 {
	v := int64(-1)
	for ok := s.enter('{', '}'); ok; ok = s.more('}') {
		if string(s.key()) == name {
			v = s.count()
		} else {
			s.skip()
		}
	}
	return v
}

// generated reads SGLang's form. Its finish reason is an object.
func (e *event) generated(s *scanner, key string) {
	switch {
	case key == "text", key == "output_ids":
		e.token = s.filled() || e.token
	case key == "index":
		e.choice = max(e.choice, s.count())
	case key == "meta_info" && s.peek() == '{':
		for ok := s.enter('{', '}'); ok; ok = s.more('}') {
			switch k := string(s.key()); {
			case k == "prompt_tokens":
				e.usage.Input = s.count()
			case k == "completion_tokens":
				e.usage.Output = s.count()
			case k == "cached_tokens":
				e.usage.Cached = s.count()
			case k == "finish_reason" && s.peek() == '{':
				for ok := s.enter('{', '}'); ok; ok = s.more('}') {
					if string(s.key()) == "type" {
						e.finish = s.maybe()
					} else {
						s.skip()
					}
				}
			default:
				s.skip()
			}
		}
	default:
		s.skip()
	}
}

func (e *event) native(s *scanner, key string) {
	switch {
	case key == "content", key == "tokens":
		e.token = s.filled() || e.token
	case key == "index":
		e.choice = max(e.choice, s.count())
	case key == "stop":
		e.last = s.word("true")
		if !e.last {
			s.skip()
		}
	case key == "stop_type":
		e.finish = nativeFinish(s.maybe())
	case key == "tokens_predicted":
		e.usage.Output = s.count()
	case key == "tokens_evaluated":
		e.usage.Input = s.count()
	case key == "timings" && s.peek() == '{':
		e.usage.Cached = s.member("cache_n")
	default:
		s.skip()
	}
}

// nativeFinish gives llama.cpp's stop types the names of the OpenAI form.
func nativeFinish(stop []byte) []byte {
	switch string(stop) {
	case "limit":
		return []byte("length")
	case "eos", "word":
		return []byte("stop")
	case "none":
		return nil
	}
	return stop
}

// Models reads a model list: the ids, sorted, at least one.
func Models(body []byte) ([]string, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	if len(ids) == 0 {
		return nil, errors.New("it names no model")
	}
	slices.Sort(ids)
	return ids, nil
}
