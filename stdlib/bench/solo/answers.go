package solo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/bench/score"
	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
)

// Answers are a server's greedy answers to fixed prompts, by the prompts'
// digest: only answers to the same prompts are compared.
type Answers struct {
	Dataset string   `json:"dataset"`
	Model   string   `json:"model"`
	Texts   []string `json:"texts"`
}

// Ask collects greedy answers, one request at a time, without a nonce: the
// prompts are the same in every run.
func Ask(ctx context.Context, host bench.Host, o Options) (Answers, error) {
	var out Answers
	o.Rules.NoStream, o.Rules.Temperature, o.Load.Warmup = true, 0, 0
	srv, err := connect(ctx, host, &o)
	if err != nil {
		return out, err
	}
	prompts, digest, err := o.fixed(srv.count(ctx))
	if err != nil {
		return out, err
	}
	out.Dataset, out.Model = digest, o.Model
	for i, p := range prompts {
		body, err := o.API.Encode(wire.Ask{Prompt: p, Model: o.Model, Whole: true, IgnoreEOS: o.Rules.IgnoreEOS, Extra: o.Body})
		if err != nil {
			return out, err
		}
		status, b, err := srv.do(ctx, http.MethodPost, o.Path, body)
		if err != nil {
			return out, fmt.Errorf("asking prompt %d: %w", i, err)
		}
		if status != http.StatusOK {
			return out, fmt.Errorf("asking prompt %d: status %d: %s", i, status, wire.Excerpt(b))
		}
		text, err := o.API.Text(b)
		if err != nil {
			return out, fmt.Errorf("asking prompt %d: %w", i, err)
		}
		out.Texts = append(out.Texts, text)
	}
	return out, nil
}

// Agree compares with a baseline's answers, character by character: the
// client has no tokenizer.
func (a Answers) Agree(baseline Answers) (score.Agreement, error) {
	if a.Dataset != baseline.Dataset {
		return score.Agreement{}, fmt.Errorf("the answers are to other prompts than the baseline's: %s against %s", a.Dataset, baseline.Dataset)
	}
	return score.Greedy(runes(baseline.Texts), runes(a.Texts))
}

func runes(texts []string) (out [][]rune) {
	for _, t := range texts {
		out = append(out, []rune(t))
	}
	return out
}

// ReadAnswers reads a file that Save has written.
func ReadAnswers(path string) (a Answers, err error) {
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	if err != nil {
		return a, fmt.Errorf("reading answers: %w", err)
	}
	return a, nil
}

// Save writes the answers as JSON.
func (a Answers) Save(path string) error {
	b, err := json.MarshalIndent(a, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing answers: %w", err)
	}
	return nil
}
