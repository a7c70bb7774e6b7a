package simserve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// request is what the client asked for.
type request struct {
	Model     string          `json:"model"`
	Prompt    json.RawMessage `json:"prompt"`
	Messages  []message       `json:"messages"`
	MaxTokens int             `json:"max_tokens"`
	Stream    bool            `json:"stream"`
	// The native forms' own names.
	Predict  int             `json:"n_predict"`
	Text     json.RawMessage `json:"text"`
	Ids      json.RawMessage `json:"input_ids"`
	Sampling struct {
		Tokens int `json:"max_new_tokens"`
	} `json:"sampling_params"`

	tokens []int // of the prompt
	input  int   // their count
	cached int   // of them, found in the prefix cache
}

type message struct {
	Content string `json:"content"`
}

// parse reads and checks a request; the text says what is wrong with it.
func parse(r *http.Request, form api) (q request, wrong string) {
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return q, "the body is no request: " + err.Error()
	}
	switch form {
	case sglang:
		q.MaxTokens, q.Prompt = q.Sampling.Tokens, q.Ids
		if q.Ids == nil {
			q.Prompt = q.Text
		}
	case llamacpp:
		q.MaxTokens = q.Predict
	}
	var text string
	switch {
	case q.MaxTokens < 1:
		return q, "max_tokens must be at least 1"
	case form == chat:
		for _, m := range q.Messages {
			text += m.Content
		}
	case json.Unmarshal(q.Prompt, &q.tokens) == nil:
	case json.Unmarshal(q.Prompt, &text) == nil:
	}
	for _, b := range []byte(text) {
		q.tokens = append(q.tokens, int(b))
	}
	q.input = len(q.tokens)
	if q.input == 0 {
		return q, "the prompt is empty or neither text nor token ids"
	}
	return q, ""
}

func (s *server) generate(w http.ResponseWriter, r *http.Request, form api) {
	stamp := Stamp{Request: int(s.seen.Add(1) - 1), Arrived: time.Now()}
	if s.Stamp != nil {
		defer func() { s.Stamp(stamp) }()
	}
	q, wrong := parse(r, form)
	fault, ok := s.fault(stamp.Request, r)
	switch {
	case !ok:
		refuse(w, http.StatusBadRequest, fmt.Sprintf("the fault %q is not known", fault))
		return
	case wrong != "":
		refuse(w, http.StatusBadRequest, wrong)
		return
	case q.Model != s.Model && (form == completions || form == chat || q.Model != ""):
		refuse(w, http.StatusNotFound, fmt.Sprintf("the model %q does not exist", q.Model))
		return
	case refused(w, r, fault):
		return
	}
	s.count.waiting.Add(1)
	left := s.wait(r)
	s.count.waiting.Add(-1)
	if left {
		return
	}
	defer s.leave()
	if s.cache != nil {
		q.cached = s.cache.take(q)
	}
	p := s.script(q, form, fault)
	if q.Stream {
		w.Header().Set("Content-Type", "text/event-stream")
		stamp.Writes = s.play(w, r, p)
	} else if stamp.Writes = s.wholly(w, r, p, q, form); stamp.Writes == nil {
		return
	}
	s.count.add(q, stamp, s.Engine.Bursts != nil)
}

// refused answers a request whose fault leaves no stream, and says whether it
// did.
func refused(w http.ResponseWriter, r *http.Request, fault Fault) bool {
	switch fault {
	case HTTP500:
		refuse(w, http.StatusInternalServerError, "the engine is dead")
	case HTTP429:
		refuse(w, http.StatusTooManyRequests, "too many requests")
	case Reset:
		panic(http.ErrAbortHandler)
	case StallHead:
		<-r.Context().Done()
	case NotStream:
		answer(w, http.StatusOK, object{"choices": []object{{"index": 0, "text": "all at once", "finish_reason": "length"}}})
	case Page:
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>welcome to the gateway</html>"))
	case Empty:
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
	default:
		return false
	}
	return true
}

// wait waits for a slot and says whether the client left before.
func (s *server) wait(r *http.Request) (left bool) {
	if s.slots != nil {
		select {
		case s.slots <- struct{}{}:
		case <-r.Context().Done():
			return true
		}
	}
	s.batch.Add(1)
	return false
}

func (s *server) leave() {
	s.batch.Add(-1)
	if s.slots != nil {
		<-s.slots
	}
}

// wholly answers without a stream, when the last event would have been
// written. Faults are those of streams: here only the counts can be wrong.
func (s *server) wholly(w http.ResponseWriter, r *http.Request, p script, q request, form api) []time.Time {
	if !until(r.Context(), time.Now().Add(p.lines[len(p.lines)-1].at)) {
		return nil
	}
	c := object{"index": 0, "finish_reason": "length"}
	text := strings.Repeat(" t", q.MaxTokens)
	if form == chat {
		c["message"] = object{"role": "assistant", "content": text}
	} else {
		c["text"] = text
	}
	whole := script{lines: []line{{body: object{"model": s.Model, "choices": []object{c}, "usage": usage(q, q.MaxTokens, None)}}}}
	whole.native(form, q, s.Model, None)
	at := time.Now()
	answer(w, http.StatusOK, whole.lines[0].body)
	return []time.Time{at}
}

// play writes a script on its schedule and returns the times of the events
// with tokens. It ends early when the client leaves.
func (s *server) play(w http.ResponseWriter, r *http.Request, p script) (writes []time.Time) {
	slot := time.Now()
	out := http.NewResponseController(w)
	longer := time.Duration(0) // by the other requests of the batch so far
	for _, l := range p.lines {
		text := l.bytes() // before the wait, so that it costs no time after it
		if !until(r.Context(), slot.Add(l.at+longer)) {
			return writes
		}
		if l.token {
			writes = append(writes, time.Now())
		}
		if _, err := w.Write(text); err != nil {
			return writes
		}
		if err := out.Flush(); err != nil {
			return writes
		}
		if l.token {
			longer += s.Engine.BatchStep * time.Duration(s.batch.Load()-1)
		}
	}
	switch p.end {
	case cutOff:
		panic(http.ErrAbortHandler) // net/http ends the connection without the last chunk
	case hang:
		<-r.Context().Done()
	}
	return writes
}
