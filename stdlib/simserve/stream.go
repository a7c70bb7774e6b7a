package simserve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// request is what the client asked for.
type request struct {
	Model     string          `json:"model"`
	Prompt    json.RawMessage `json:"prompt"`
	Messages  []message       `json:"messages"`
	MaxTokens int             `json:"max_tokens"`
	Stream    bool            `json:"stream"`
	input     int
}

type message struct {
	Content string `json:"content"`
}

// parse reads and checks a request; the text says what is wrong with it.
func parse(r *http.Request, chat bool) (q request, wrong string) {
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return q, "the body is no request: " + err.Error()
	}
	var ids []int
	var text string
	switch {
	case !q.Stream:
		return q, "this server only streams; send \"stream\": true"
	case q.MaxTokens < 1:
		return q, "max_tokens must be at least 1"
	case chat:
		for _, m := range q.Messages {
			q.input += len(m.Content)
		}
	case json.Unmarshal(q.Prompt, &ids) == nil:
		q.input = len(ids)
	case json.Unmarshal(q.Prompt, &text) == nil:
		q.input = len(text)
	}
	if q.input == 0 {
		return q, "the prompt is empty or neither text nor token ids"
	}
	return q, ""
}

func (s *server) generate(w http.ResponseWriter, r *http.Request, chat bool) {
	stamp := Stamp{Request: int(s.seen.Add(1) - 1), Arrived: time.Now()}
	if s.Stamp != nil {
		defer func() { s.Stamp(stamp) }()
	}
	q, wrong := parse(r, chat)
	fault := s.fault(stamp.Request)
	switch {
	case wrong != "":
		refuse(w, http.StatusBadRequest, wrong)
		return
	case q.Model != s.Model:
		refuse(w, http.StatusNotFound, fmt.Sprintf("the model %q does not exist", q.Model))
		return
	case fault == HTTP500:
		refuse(w, http.StatusInternalServerError, "the engine is dead")
		return
	case fault == Reset:
		panic(http.ErrAbortHandler)
	case fault == NotStream:
		answer(w, http.StatusOK, object{"choices": []object{{"index": 0, "text": "all at once", "finish_reason": "length"}}})
		return
	}
	if s.slots != nil {
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	stamp.Writes = s.play(w, r, s.script(q, chat, fault))
}

// play writes a script on its schedule and returns the times of the events
// with tokens. It ends early when the client leaves.
func (s *server) play(w http.ResponseWriter, r *http.Request, p script) (writes []time.Time) {
	slot := time.Now()
	out := http.NewResponseController(w)
	for _, l := range p.lines {
		if !until(r.Context(), slot.Add(l.at)) {
			return writes
		}
		if l.token {
			writes = append(writes, time.Now())
		}
		if _, err := w.Write(l.bytes()); err != nil {
			return writes
		}
		if err := out.Flush(); err != nil {
			return writes
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
