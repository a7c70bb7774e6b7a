// Package answers collects a server's greedy answers to fixed prompts, so that
// they can be compared with a baseline's: is the server still right when it is
// fast?
//
// Answers are compared by token ids where the server says them, in its answer
// or by /tokenize, else by characters; which it is stands in the Set, and unlike
// ones are not compared. Prompts are sent one at a time: a batch may change an
// answer. An error means that the server did not answer.
package answers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/bench/score"
	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
)

// The units that answers are compared in.
const (
	Own        = "token ids of the answer"
	Tokenized  = "token ids by /tokenize"
	Characters = "characters"
)

// Set are the answers to the prompts of one dataset, in their order.
type Set struct {
	Dataset string   `json:"dataset"` // digest
	Model   string   `json:"model"`
	Unit    string   `json:"unit"`
	Answers []Answer `json:"answers"`
}

// Answer is one answer.
type Answer struct {
	Text   string `json:"text"`
	Tokens []int  `json:"tokens"` // characters as code points, where that is the unit
	// Right says whether a graded prompt was answered rightly; nil without a
	// grade.
	Right *bool `json:"right,omitempty"`
}

// Collect asks the server all measured prompts of the Spec's dataset.
func Collect(ctx context.Context, host bench.Host, s bench.Spec) (Set, error) {
	out := Set{Model: s.Model}
	file, err := os.ReadFile(s.Prompts)
	if err != nil {
		return out, fmt.Errorf("reading dataset: %w", err)
	}
	prompts, err := dataset.Read(bytes.NewReader(file))
	if err != nil {
		return out, fmt.Errorf("%s: %w", s.Prompts, err)
	}
	out.Dataset = dataset.Digest(file)
	transport, base, header, err := bench.Transport(s, host)
	if err != nil {
		return out, err
	}
	defer transport.CloseIdleConnections()
	c := &client{http: &http.Client{Transport: transport, Timeout: 10 * time.Minute}, base: base, header: header, spec: s, ids: idsField[s.API]}
	for _, p := range prompts {
		if p.Warmup {
			continue
		}
		a, err := c.ask(ctx, p)
		if err != nil {
			return out, fmt.Errorf("asking prompt %d: %w", p.ID, err)
		}
		out.Answers = append(out.Answers, a)
	}
	out.Unit = c.unit
	return out, nil
}

// idsField is the field by which a server is asked for the ids of its answer.
// One that does not know it ignores or refuses it.
var idsField = map[bench.API]string{bench.Completions: "return_token_ids", bench.Chat: "return_token_ids", bench.LlamaCpp: "return_tokens"}

// client asks; its unit is found with the first answer and kept for all.
type client struct {
	http   *http.Client
	base   string
	header http.Header
	spec   bench.Spec
	ids    string // field that asks for ids; "" does not ask
	unit   string
}

func (c *client) ask(ctx context.Context, p dataset.Prompt) (Answer, error) {
	status, body, err := c.send(ctx, p)
	if err == nil && status >= 400 && status < 500 && c.ids != "" && c.unit == "" {
		c.ids = "" // a strict server; the unit then says another way
		status, body, err = c.send(ctx, p)
	}
	switch {
	case err != nil:
		return Answer{}, err
	case status != http.StatusOK:
		return Answer{}, &statusError{status, wire.Excerpt(body)}
	}
	text, err := c.spec.API.Text(body)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Text: text}
	if p.Answer != "" {
		right := Right(text, p.Answer)
		a.Right = &right
	}
	for _, way := range []struct {
		unit string
		of   func() ([]int, bool)
	}{
		{Own, func() ([]int, bool) { return ownIDs(body) }},
		{Tokenized, func() ([]int, bool) { return c.tokenize(ctx, text) }},
		{Characters, func() ([]int, bool) { return characters(text), true }},
	} {
		if c.unit != "" && c.unit != way.unit {
			continue
		}
		ids, ok := way.of()
		if ok {
			c.unit, a.Tokens = way.unit, ids
			return a, nil
		}
		if c.unit != "" {
			return a, fmt.Errorf("the server gave no %s, as it did before", c.unit)
		}
	}
	panic("answers: a text has no characters")
}

func (c *client) send(ctx context.Context, p dataset.Prompt) (int, []byte, error) {
	extra := map[string]any{}
	maps.Copy(extra, c.spec.Body)
	if c.ids != "" {
		extra[c.ids] = true
	}
	body, err := c.spec.API.Encode(wire.Ask{Prompt: p, Model: c.spec.Model, Whole: true, IgnoreEOS: c.spec.Rules.IgnoreEOS, Extra: extra})
	if err != nil {
		return 0, nil, err
	}
	return c.post(ctx, c.spec.Path, body)
}

func (c *client) post(ctx context.Context, path string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header = c.header.Clone()
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	return resp.StatusCode, b, err
}

// ownIDs reads the ids that stand in an answer; not ok without any.
func ownIDs(body []byte) ([]int, bool) {
	var v struct {
		Choices []struct {
			IDs []int `json:"token_ids"` // vLLM
		} `json:"choices"`
		Output []int `json:"output_ids"` // SGLang's own
		Tokens []int `json:"tokens"`     // llama.cpp's own
	}
	if json.Unmarshal(body, &v) != nil {
		return nil, false
	}
	ids := append(v.Output, v.Tokens...)
	if len(v.Choices) > 0 {
		ids = append(ids, v.Choices[0].IDs...)
	}
	return ids, len(ids) > 0
}

// tokenize asks for the ids of a text: prompt is vLLM's field, content
// llama.cpp's.
func (c *client) tokenize(ctx context.Context, text string) ([]int, bool) {
	for _, field := range []string{"prompt", "content"} {
		body, err := json.Marshal(map[string]any{field: text, "model": c.spec.Model, "add_special_tokens": false})
		if field == "content" {
			body, err = json.Marshal(map[string]any{field: text, "add_special": false})
		}
		if err != nil {
			return nil, false
		}
		status, b, err := c.post(ctx, "/tokenize", body)
		var v struct {
			Tokens []int `json:"tokens"`
		}
		if err == nil && status == http.StatusOK && json.Unmarshal(b, &v) == nil && (len(v.Tokens) > 0 || text == "") {
			return v.Tokens, true
		}
	}
	return nil, false
}

func characters(text string) []int {
	out := []int{}
	for _, r := range text {
		out = append(out, int(r))
	}
	return out
}

// Right says whether an answer has the expected one in it as words of its own,
// by case.
func Right(text, want string) bool {
	word := func(s string) string {
		return " " + strings.Join(strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" \t\r\n.,;:!?\"'()[]{}*", r) }), " ") + " "
	}
	return strings.Contains(word(text), word(want))
}

// Grade is the share of right answers to graded prompts with its bounds at 95 %;
// all is 0 where none is graded.
func (s Set) Grade() (right, all int, low, high float64) {
	for _, a := range s.Answers {
		if a.Right != nil {
			all++
			if *a.Right {
				right++
			}
		}
	}
	low, high = score.Share(right, all)
	return right, all, low, high
}

// Agree compares with a baseline's answers to the same prompts.
func (s Set) Agree(baseline Set) (score.Agreement, error) {
	switch {
	case s.Dataset != baseline.Dataset:
		return score.Agreement{}, fmt.Errorf("the answers are to other prompts than the baseline's: %s against %s", s.Dataset, baseline.Dataset)
	case s.Unit != baseline.Unit:
		return score.Agreement{}, fmt.Errorf("the answers are known by %s, and the baseline's by %s", s.Unit, baseline.Unit)
	}
	return score.Greedy(tokens(baseline), tokens(s))
}

func tokens(s Set) (out [][]int) {
	for _, a := range s.Answers {
		out = append(out, a.Tokens)
	}
	return out
}

// Read reads a file that Save has written.
func Read(path string) (s Set, err error) {
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, fmt.Errorf("reading answers: %w", err)
	}
	return s, nil
}

// Save writes the answers as JSON.
func (s Set) Save(path string) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing answers: %w", err)
	}
	return nil
}
