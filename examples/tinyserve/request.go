package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/engine"
	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/vocab"
)

// maxBody bounds a request's body, in bytes.
const maxBody = 4 << 20

// problem is an answer of class 4xx or 5xx, as OpenAI's errors look.
type problem struct {
	Status  int     `json:"code"`
	Type    string  `json:"type"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
}

func (p *problem) Error() string { return p.Message }

// badRequest is a 400 about one field, or about none if param is empty.
func badRequest(param, format string, a ...any) *problem {
	p := &problem{Status: http.StatusBadRequest, Type: "BadRequestError", Message: fmt.Sprintf(format, a...)}
	if param != "" {
		p.Param = &param
	}
	return p
}

// neutral are fields of OpenAI and vLLM that tinyserve does not have, with the
// values that ask for nothing. Any other value is refused: a server that
// ignores what it is asked for gives answers to another question.
var neutral = map[string][]string{
	"n": {"1"}, "best_of": {"1"}, "echo": {"false"}, "suffix": {`""`}, "logprobs": {"false"}, "top_logprobs": {"0"},
	"top_p": {"1", "1.0"}, "top_k": {"0", "-1"}, "min_p": {"0", "0.0"}, "min_tokens": {"0"},
	"presence_penalty": {"0", "0.0"}, "frequency_penalty": {"0", "0.0"}, "repetition_penalty": {"1", "1.0"},
	"logit_bias": {"{}"}, "tools": {"[]"}, "use_beam_search": {"false"},
}

// decode reads a JSON object into fields, by name. null is as if absent.
func decode(r io.Reader, fields map[string]any) error {
	var body map[string]json.RawMessage
	d := json.NewDecoder(r)
	err := d.Decode(&body)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("something follows the object")
		}
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return &problem{Status: http.StatusRequestEntityTooLarge, Type: "BadRequestError",
			Message: fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit)}
	}
	if err == nil && body == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		return badRequest("", "the body is not a JSON object: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(body)) {
		raw := body[name]
		if string(raw) == "null" {
			continue
		}
		if allowed, ok := neutral[name]; ok {
			if !slices.Contains(allowed, string(raw)) {
				return badRequest(name, "%s is not supported; leave it out or give %s", name, allowed[0])
			}
			continue
		}
		to, ok := fields[name]
		if !ok {
			return badRequest(name, "unknown field %q; known are %s", name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if err := json.Unmarshal(raw, to); err != nil {
			return badRequest(name, "%s must be %s", name, kind(to))
		}
	}
	return nil
}

// kind says what a field holds.
func kind(to any) string {
	switch to.(type) {
	case *int, *int64, **int, **int64:
		return "a whole number"
	case *float64:
		return "a number"
	case *bool:
		return "true or false"
	case *promptField:
		return "one text, or one list of token ids (whole numbers)"
	case *texts:
		return "a text or a list of texts"
	case *[]messageField:
		return "a list of objects with role and content, both texts (content may be a list of text parts)"
	case *tokenList:
		return "a list of token ids (whole numbers)"
	case *streamOptions:
		return "an object that holds include_usage and nothing else"
	default:
		return "a text"
	}
}

// generation is a request for an answer, of either interface.
type generation struct {
	Model         string
	Prompt        promptField
	Messages      []messageField
	MaxTokens     *int
	MaxCompletion *int
	Temperature   float64
	Seed          *int64
	IgnoreEOS     bool
	Stop          texts
	Stream        bool
	StreamOptions streamOptions
	User          string // for the caller's records; not used
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

func (o *streamOptions) UnmarshalJSON(raw []byte) error {
	type plain streamOptions
	return strict(raw, (*plain)(o))
}

// texts is a text or a list of texts.
type texts []string

func (t *texts) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(t))
}

// tokenList is a list of token ids.
type tokenList []int64

func (l *tokenList) UnmarshalJSON(raw []byte) error {
	if bytes.Contains(raw, []byte("null")) {
		return errors.New("null is no token") // it would be read as token 0
	}
	return json.Unmarshal(raw, (*[]int64)(l))
}

// promptField is a text, or token ids, or a list of one such.
type promptField struct {
	text string
	ids  tokenList // nil if text is meant
}

func (p *promptField) UnmarshalJSON(raw []byte) error {
	if p.one(raw) {
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) != 1 || !p.one(list[0]) {
		return errors.New("not one prompt")
	}
	return nil
}

// one reads a text or ids. What fails to decode leaves parts behind, so it
// must not decode into p itself.
func (p *promptField) one(raw []byte) bool {
	var q promptField
	if json.Unmarshal(raw, &q.text) == nil {
		*p = q
		return true
	}
	if json.Unmarshal(raw, &q.ids) == nil {
		*p = promptField{ids: q.ids}
		return true
	}
	return false
}

// messageField is a chat message; its content is a text or a list of text
// parts.
type messageField struct{ vocab.Message }

func (m *messageField) UnmarshalJSON(raw []byte) error {
	var plain struct {
		Role, Name string
		Content    json.RawMessage
	}
	if err := strict(raw, &plain); err != nil {
		return err
	}
	m.Role = plain.Role
	if json.Unmarshal(plain.Content, &m.Content) == nil {
		return nil
	}
	var parts []struct{ Type, Text string }
	if err := strict(plain.Content, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		if p.Type != "text" {
			return fmt.Errorf("a part of type %q", p.Type)
		}
		m.Content += p.Text
	}
	return nil
}

// strict decodes JSON that holds no other fields than to.
func strict(raw []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

// parse reads a generation and turns it into a request of the engine. limit is
// the most tokens of prompt and answer together.
func parse(r io.Reader, chat bool, served string, limit int) (generation, engine.Request, error) {
	g := generation{Temperature: 1}
	fields := map[string]any{
		"model": &g.Model, "max_tokens": &g.MaxTokens, "max_completion_tokens": &g.MaxCompletion, "temperature": &g.Temperature,
		"seed": &g.Seed, "ignore_eos": &g.IgnoreEOS, "stop": &g.Stop, "stream": &g.Stream, "stream_options": &g.StreamOptions, "user": &g.User,
	}
	if chat {
		fields["messages"] = &g.Messages
	} else {
		fields["prompt"] = &g.Prompt
	}
	var none engine.Request
	if err := decode(r, fields); err != nil {
		return g, none, err
	}
	if g.Model != "" && g.Model != served {
		p := badRequest("model", "the model %q does not exist; this server has %q", g.Model, served)
		p.Status, p.Type = http.StatusNotFound, "NotFoundError"
		return g, none, p
	}
	ids, err := g.prompt(chat)
	if err != nil {
		return g, none, err
	}
	q := engine.Request{Prompt: ids, Temperature: float32(g.Temperature), IgnoreEOS: g.IgnoreEOS, Stop: g.Stop, Seed: rand.Uint64()}
	if g.Seed != nil {
		q.Seed = uint64(*g.Seed)
	}
	switch {
	case g.MaxTokens != nil && g.MaxCompletion != nil:
		return g, none, badRequest("max_completion_tokens", "give max_tokens or max_completion_tokens, not both")
	case g.MaxTokens != nil:
		q.MaxTokens = *g.MaxTokens
	case g.MaxCompletion != nil:
		q.MaxTokens = *g.MaxCompletion
	case chat:
		q.MaxTokens = max(1, limit-len(ids))
	default:
		q.MaxTokens = 16 // as in OpenAI's interface
	}
	return g, q, check(g, q)
}

// check refuses what cannot be meant.
func check(g generation, q engine.Request) error {
	switch {
	case q.MaxTokens < 1:
		return badRequest("max_tokens", "max_tokens must be at least 1, not %d", q.MaxTokens)
	case g.Temperature < 0 || g.Temperature > 100:
		return badRequest("temperature", "temperature must be between 0 and 100, not %v", g.Temperature)
	case slices.Contains(q.Stop, ""):
		return badRequest("stop", "stop holds an empty text, which would end every answer at once")
	case len(q.Stop) > 16:
		return badRequest("stop", "stop holds %d texts; at most 16 are allowed", len(q.Stop))
	case g.StreamOptions.IncludeUsage && !g.Stream:
		return badRequest("stream_options", "stream_options needs stream: true")
	}
	return nil
}

// prompt returns the prompt's tokens. A text begins with BOS; ids are taken as
// they are.
func (g *generation) prompt(chat bool) ([]vocab.ID, error) {
	if chat {
		return chatPrompt(g.Messages)
	}
	if g.Prompt.ids != nil {
		return tokenIDs("prompt", g.Prompt.ids)
	}
	if g.Prompt.text == "" {
		return nil, badRequest("prompt", "prompt is missing or empty")
	}
	return append([]vocab.ID{vocab.BOS}, vocab.Encode(g.Prompt.text)...), nil
}

func chatPrompt(fields []messageField) ([]vocab.ID, error) {
	if len(fields) == 0 {
		return nil, badRequest("messages", "messages is missing or empty")
	}
	var messages []vocab.Message
	for i, f := range fields {
		if !slices.Contains([]string{"system", "developer", "user", "assistant"}, f.Role) {
			return nil, badRequest("messages", "message %d has role %q; it must be system, developer, user or assistant", i, f.Role)
		}
		messages = append(messages, f.Message)
	}
	return vocab.Chat(messages), nil
}

// tokenIDs checks ids that a client gave.
func tokenIDs(param string, ids tokenList) ([]vocab.ID, error) {
	if len(ids) == 0 {
		return nil, badRequest(param, "%s is empty", param)
	}
	out := make([]vocab.ID, len(ids))
	for i, id := range ids {
		if id < 0 || id >= vocab.Size {
			return nil, badRequest(param, "token id %d is out of the vocabulary, which has 0 to %d", id, vocab.Size-1)
		}
		out[i] = vocab.ID(id)
	}
	return out, nil
}
