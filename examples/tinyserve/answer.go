package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/engine"
)

// form is what differs between the two interfaces.
type form struct {
	chat          bool
	input         string // the field with the prompt
	prefix        string // of ids
	object, chunk string
}

var (
	completionForm = form{false, "prompt", "cmpl-", "text_completion", "text_completion"}
	chatForm       = form{true, "messages", "chatcmpl-", "chat.completion", "chat.completion.chunk"}
)

// answer builds the JSON of one request's answer.
type answer struct {
	form
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *counts  `json:"usage,omitempty"`

	prompt, generated, cached int
}

// choice has a Text for completions, a Message for a whole chat answer, a
// Delta for an event of a streamed one.
type choice struct {
	Index   int            `json:"index"`
	Text    *string        `json:"text,omitempty"`
	Message *message       `json:"message,omitempty"`
	Delta   *message       `json:"delta,omitempty"`
	Finish  *engine.Finish `json:"finish_reason"`
}

type message struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type counts struct {
	Prompt     int     `json:"prompt_tokens"`
	Completion int     `json:"completion_tokens"`
	Total      int     `json:"total_tokens"`
	Details    details `json:"prompt_tokens_details"`
}

type details struct {
	Cached int `json:"cached_tokens"`
}

func newAnswer(f form, model string, prompt int) *answer {
	return &answer{form: f, ID: fmt.Sprintf("%s%016x", f.prefix, rand.Uint64()), Created: time.Now().Unix(), Model: model, prompt: prompt}
}

func (a *answer) usage() *counts {
	return &counts{a.prompt, a.generated, a.prompt + a.generated, details{a.cached}}
}

// next waits for the request's next token. Its errors are a problem for the
// client, or that the client has gone away.
func (a *answer) next(r *http.Request, h *engine.Handle) (engine.Event, error) {
	select {
	case e := <-h.Events:
		if e.Finish == engine.Aborted {
			return e, unavailable(engine.ErrStopped)
		}
		a.generated++
		a.cached = e.Cached
		return e, nil
	case <-r.Context().Done():
		return engine.Event{}, r.Context().Err()
	}
}

// whole answers at once, when the last token has come.
func (a *answer) whole(w http.ResponseWriter, r *http.Request, h *engine.Handle) error {
	var text strings.Builder
	for {
		e, err := a.next(r, h)
		if err != nil {
			return err
		}
		text.WriteString(e.Text)
		if e.Finish == "" {
			continue
		}
		c := choice{Finish: &e.Finish}
		all := text.String()
		if a.chat {
			c.Message = &message{"assistant", &all}
		} else {
			c.Text = &all
		}
		a.Object, a.Choices, a.Usage = a.object, []choice{c}, a.usage()
		return reply(w, a)
	}
}

// stream answers with one event for each token that has text to show, as it
// comes. The headers come with the first token: a request that waits for a
// slot sees nothing. When the server stops, the stream ends with an error and
// without [DONE].
func (a *answer) stream(w http.ResponseWriter, r *http.Request, h *engine.Handle, withUsage bool) error {
	a.Object = a.chunk
	out := http.NewResponseController(w)
	// send writes one event. An error means that the client has gone.
	send := func(v any) error {
		data, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("encoding an event: %w", err)
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
			return err
		}
		return out.Flush()
	}
	for begun := false; ; begun = true {
		e, err := a.next(r, h)
		if p := (*problem)(nil); begun && errors.As(err, &p) {
			return send(map[string]any{"error": p})
		} else if err != nil {
			return err
		}
		if !begun {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			w.Header().Set("Cache-Control", "no-cache")
			if err := a.role(send); err != nil {
				return err
			}
		}
		if e.Held {
			continue
		}
		c := choice{Text: &e.Text}
		if a.chat {
			c = choice{Delta: &message{Content: &e.Text}}
		}
		if e.Finish != "" {
			c.Finish = &e.Finish
		}
		a.Choices = []choice{c}
		if err := send(a); err != nil {
			return err
		}
		if e.Finish != "" {
			return a.end(w, out, send, withUsage)
		}
	}
}

// role begins a chat's stream: an event with the role and no text, which is
// not a token.
func (a *answer) role(send func(any) error) error {
	if !a.chat {
		return nil
	}
	none := ""
	a.Choices = []choice{{Delta: &message{"assistant", &none}}}
	return send(a)
}

// end closes a stream that has said all.
func (a *answer) end(w http.ResponseWriter, out *http.ResponseController, send func(any) error, withUsage bool) error {
	if withUsage {
		a.Choices, a.Usage = []choice{}, a.usage()
		if err := send(a); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprint(w, "data: [DONE]\n\n"); err != nil {
		return err
	}
	return out.Flush()
}
