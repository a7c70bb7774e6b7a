package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Count is a server's own count of the tokens of a text.
type Count func(text string) (int, error)

// ShareGPT reads the form [{"conversations":[{"from":"human","value":…},…]}]:
// the first question of each conversation, and an answer as long as the
// recorded one by the server's count. With output > 0 all answers are that long
// and count may be nil. Conversations without a question and an answer are left
// out. At most n; 0 is all.
func ShareGPT(r io.Reader, n, output int, count Count) ([]Prompt, error) {
	talks, err := conversations(r)
	if err != nil {
		return nil, err
	}
	var out []Prompt
	for i, t := range talks {
		if len(t) < 2 || t[0].Role != "user" || t[1].Role != "assistant" || t[0].Content == "" || n > 0 && len(out) == n {
			continue
		}
		p := Prompt{Text: t[0].Content, OutputLen: output}
		if output == 0 {
			if count == nil {
				return nil, errors.New("reading conversations: the answers' lengths need the server's count; give an output length instead")
			}
			if p.OutputLen, err = count(t[1].Content); err != nil {
				return nil, fmt.Errorf("counting answer %d: %w", i, err)
			}
		}
		if p.OutputLen > 0 {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("reading conversations: none has a question with an answer")
	}
	return out, nil
}

// Talks reads the same form as sessions: each question is a turn that carries
// all messages before it, answers frozen as recorded.
func Talks(r io.Reader, n, output int, think float64) ([]Prompt, error) {
	if output < 1 || !(think >= 0) {
		return nil, fmt.Errorf("answers of %d tokens, thinking %v s; write at least 1 and 0", output, think)
	}
	talks, err := conversations(r)
	if err != nil {
		return nil, err
	}
	var out []Prompt
	session := 0
	for _, t := range talks {
		if n > 0 && session == n {
			break
		}
		turn := 0
		for i, m := range t {
			if m.Role != "user" || m.Content == "" {
				continue
			}
			if turn++; turn == 1 {
				session++
			}
			p := Prompt{Messages: t[:i+1], OutputLen: output, Turn: Turn{Session: session, Number: turn}}
			if turn > 1 {
				p.Turn.Think = think
			}
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("reading conversations: none has a question")
	}
	return out, nil
}

func conversations(r io.Reader) (out [][]Message, err error) {
	var raw []struct {
		Conversations []struct {
			From  string `json:"from"`
			Value string `json:"value"`
		} `json:"conversations"`
	}
	if err := json.NewDecoder(r).Decode(&raw); err != nil {
		return nil, fmt.Errorf("reading conversations: %w", err)
	}
	roles := map[string]string{"human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant", "assistant": "assistant", "system": "system"}
	for _, c := range raw {
		var t []Message
		for _, m := range c.Conversations {
			if role := roles[m.From]; role != "" {
				t = append(t, Message{role, m.Value})
			}
		}
		out = append(out, t)
	}
	return out, nil
}

// Custom reads JSON lines {"prompt": text, token ids or messages,
// "output_len" or "max_tokens": n, "at_s": seconds of a trace, "answer": the right one, "body": {…}}. Lines without a length get
// output. At most n; 0 is all.
func Custom(r io.Reader, n, output int) ([]Prompt, error) {
	var out []Prompt
	d := json.NewDecoder(r)
	for line := 1; n == 0 || len(out) < n; line++ {
		var l struct {
			Prompt    json.RawMessage            `json:"prompt"`
			OutputLen int                        `json:"output_len"`
			MaxTokens int                        `json:"max_tokens"`
			At        *float64                   `json:"at_s"`
			Answer    string                     `json:"answer"`
			Body      map[string]json.RawMessage `json:"body"`
		}
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading custom dataset: line %d: %w", line, err)
		}
		p := Prompt{OutputLen: l.OutputLen, Body: l.Body, At: l.At, Answer: l.Answer}
		if p.OutputLen == 0 {
			p.OutputLen = l.MaxTokens
		}
		if p.OutputLen == 0 {
			p.OutputLen = output
		}
		raw := bytes.TrimSpace(l.Prompt)
		switch {
		case json.Unmarshal(raw, &p.Text) == nil && p.Text != "":
		case json.Unmarshal(raw, &p.Tokens) == nil && len(p.Tokens) > 0:
		case json.Unmarshal(raw, &p.Messages) == nil && len(p.Messages) > 0:
			p.Tokens = nil
		default:
			return nil, fmt.Errorf("reading custom dataset: line %d: prompt is neither a text nor token ids nor messages", line)
		}
		if p.OutputLen < 1 {
			return nil, fmt.Errorf("reading custom dataset: line %d: no output_len, and no length is given for all", line)
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, errors.New("reading custom dataset: it is empty")
	}
	return out, nil
}

// mooncakeBlock is the number of tokens that one hash of a mooncake trace
// stands for.
const mooncakeBlock = 512

// Mooncake reads a trace of JSON lines {"timestamp": ms, "input_length",
// "output_length", "hash_ids": […]}. Equal hashes become equal blocks of 512
// ids, so that prompts share prefixes as the recorded ones did.
func Mooncake(v Ids, r io.Reader, n int) ([]Prompt, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	var out []Prompt
	d := json.NewDecoder(r)
	tokens := 0
	for line := 1; n == 0 || len(out) < n; line++ {
		var l struct {
			Timestamp float64 `json:"timestamp"`
			Input     int     `json:"input_length"`
			Output    int     `json:"output_length"`
			Hashes    []int64 `json:"hash_ids"`
		}
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading trace: line %d: %w", line, err)
		}
		tokens += max(l.Input, 0)
		switch {
		case l.Input < 1 || l.Output < 1 || l.Timestamp < 0:
			return nil, fmt.Errorf("reading trace: line %d: %d tokens in, %d out at %v ms", line, l.Input, l.Output, l.Timestamp)
		case tokens > maxTokens:
			return nil, fmt.Errorf("reading trace: more than %d tokens; ask for fewer requests", maxTokens)
		case len(l.Hashes)*mooncakeBlock < l.Input && len(l.Hashes) > 0:
			return nil, fmt.Errorf("reading trace: line %d: %d hashes of %d tokens for %d", line, len(l.Hashes), mooncakeBlock, l.Input)
		}
		var ids []int
		for _, h := range l.Hashes {
			ids = append(ids, v.draw(v.source(fmt.Sprintf("mooncake %d", h)), mooncakeBlock)...)
		}
		if len(l.Hashes) == 0 {
			ids = v.draw(v.source(fmt.Sprintf("mooncake line %d", line)), l.Input)
		}
		at := l.Timestamp / 1e3
		out = append(out, Prompt{Tokens: ids[:l.Input], OutputLen: l.Output, At: &at})
	}
	if len(out) == 0 {
		return nil, errors.New("reading trace: it is empty")
	}
	return out, nil
}

// words are short and common: in most vocabularies each is one token with its
// space. Where it is not, RandomText's count finds out.
var words = strings.Fields(`the of and to in is that it was for on are as with his they at be this have from or one had by
 word but not what all were we when your can said there use an each which she do how their if will up other about out many then
 them these so some her would make like him into time has look two more write go see number no way could people my than first
 water been call who oil its now find long down day did get come made may part over new sound take only little work know place
 year live me back give most very after thing our just name good sentence man think say great where help through much before
 line right too mean old any same tell boy follow came want show also around form three small set put end does another well
 large must big even such because turn here why ask went men read need land different home us move try kind hand picture again
 change off play spell air away animal house point page letter mother answer found study still learn should world`)

// fillers bring a text that is a little short to its length; each is a token or
// none in any vocabulary, alone or joined to what stands before it.
var fillers = []string{" a", "a", ".", " the", "!"}

// RandomText makes a text of random words that the server counts as exactly n
// tokens. It asks count some times; a text that cannot be brought to n is an
// error that names the nearest count. Counting may put a text into the server's
// prefix cache, so what is counted begins with another letter than what is
// returned: a letter is as long as any other, and nothing after it is cached.
func RandomText(v Ids, name string, n int, count Count) (string, error) {
	src := v.source("text " + name)
	var picked []string
	for len(picked) < n+64 {
		picked = append(picked, words[below(src, uint64(len(words)))])
	}
	letter := string(rune('a' + below(src, 23))) // never x
	ask := func(text string) (int, error) {
		got, err := count("x" + text)
		if err != nil {
			return 0, fmt.Errorf("counting the tokens of a prompt: %w", err)
		}
		return got, nil
	}
	// The most words that are not too many: low fits, high does not.
	low, high, text, have := -1, len(picked)+1, "", 0
	for use := n; high-low > 1; use = min(max(use, low+1), high-1) {
		t := strings.Join(append([]string{""}, picked[:use]...), " ")
		got, err := ask(t)
		switch {
		case err != nil:
			return "", err
		case got == n:
			return letter + t, nil
		case got < n:
			low, text, have = use, t, got
		default:
			high = use
		}
		use += (n - got) * use / max(got, 1)
	}
	for range 256 {
		longer := false
		for _, f := range fillers {
			got, err := ask(text + f)
			switch {
			case err != nil:
				return "", err
			case got == n:
				return letter + text + f, nil
			case got < n && got > have:
				text, have, longer = text+f, got, true
			}
			if longer {
				break
			}
		}
		if !longer {
			break
		}
	}
	return "", fmt.Errorf("no text of random words has %d tokens by the server's count; the nearest has %d", n, have)
}
