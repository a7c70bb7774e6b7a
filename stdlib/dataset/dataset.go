// Package dataset makes frozen prompts: an artefact with a digest that every
// framework is measured on. The same Spec gives the same bytes on every
// machine. It knows no server and no campaign.
//
// The file is JSON lines, one Prompt a line, warm-up prompts first, ids equal
// to the line's number from 0. Functions are pure and safe to call from any
// goroutine; an error says what is wrong with the Spec or with which line.
package dataset

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Spec is one frozen set. All of it is keyed by the dataset node.
type Spec struct {
	Kind      string `key:"dataset" json:"kind"`          // one of Kinds
	InputLen  int    `key:"input_len" json:"input_len"`   // tokens, exact
	OutputLen int    `key:"output_len" json:"output_len"` // tokens, exact
	Prompts   int    `key:"prompts" json:"prompts"`
	Warmup    int    `key:"warmup" json:"warmup"`     // further prompts, first in the file
	VocabLo   int    `key:"vocab_lo" json:"vocab_lo"` // token ids are drawn from [lo, hi)
	VocabHi   int    `key:"vocab_hi" json:"vocab_hi"`
	Seed      int64  `key:"seed" json:"seed"`
	// Stream sets apart sets of one seed that one server life sees (cells of
	// one scenario at several concurrencies), so that no prefix is shared.
	Stream string `key:"stream" json:"stream"`
	Form   Form   `key:"form" json:"form,omitzero"`
}

// Form is what a set has beside lengths and numbers; the zero value is
// nothing.
type Form struct {
	Chat bool   `key:"chat" json:"chat,omitempty"` // texts instead of token ids
	File string `key:"file" json:"file,omitempty"` // digest of the file that it is read from
	Path string `key:"-" json:"-"`                 // where that file lies
	// Spread draws lengths from (1 − Spread)·n to (1 + Spread)·n.
	Spread float64 `key:"spread" json:"spread,omitempty"`
	// Mix are further shapes of a random set; InputLen and OutputLen are those of
	// the rest.
	Mix    []Part  `key:"mix" json:"mix,omitempty"`
	Groups int     `key:"groups" json:"groups,omitempty"` // of prompts that share their first Shared tokens
	Shared int     `key:"shared" json:"shared,omitempty"`
	Turns  int     `key:"turns" json:"turns,omitempty"`
	Think  float64 `key:"think_s" json:"think_s,omitempty"` // mean seconds between turns
	Extras `key:"extras" json:"extras,omitzero"`
}

// Part is a share of the prompts that has lengths of its own.
type Part struct {
	Share float64 `key:"share" json:"share"`
	In    int     `key:"input_len" json:"input_len"`   // tokens
	Out   int     `key:"output_len" json:"output_len"` // tokens
}

// Shapes are a mixture: the parts, and lengths in and out for what they leave,
// all widened by a spread. Parts that leave nothing are an error.
func Shapes(in, out int, spread float64, parts []Part) ([]Shape, error) {
	shapes := []Shape{{Weight: 1, In: Around(in, spread), Out: Around(out, spread)}}
	for i, p := range parts {
		if !(p.Share > 0) || p.In < 1 || p.Out < 1 {
			return nil, fmt.Errorf("part %d of the mixture is %v of %d tokens in and %d out; write a share above 0 and lengths from 1", i+1, p.Share, p.In, p.Out)
		}
		shapes[0].Weight -= p.Share
		shapes = append(shapes, Shape{Weight: p.Share, In: Around(p.In, spread), Out: Around(p.Out, spread)})
	}
	if shapes[0].Weight < 1e-9 {
		return nil, fmt.Errorf("the parts of the mixture have shares of %.6g together; what they leave of 1 has the lengths %d in and %d out, so write less than 1", 1-shapes[0].Weight, in, out)
	}
	return shapes, nil
}

// Describe is a mixture in words; "" without parts.
func Describe(parts []Part) string {
	var words []string
	for _, p := range parts {
		words = append(words, fmt.Sprintf("%.6g of %d in, %d out", p.Share, p.In, p.Out))
	}
	return strings.Join(words, "; ")
}

// Extras are what any set may have: adapters that prompts ask for in turn, and
// a share of requests that the client leaves.
type Extras struct {
	Adapters    []string `key:"adapters" json:"adapters,omitempty"`
	Cancel      float64  `key:"cancel" json:"cancel,omitempty"` // share
	CancelAfter float64  `key:"cancel_after_s" json:"cancel_after_s,omitempty"`
}

// Kinds lists what Freeze makes, in the words of campaigns.
var Kinds = []string{"random", "prefix", "sessions", "sharegpt", "multi-turn", "jsonl", "mooncake"}

// Random says whether the prompts of a kind carry no meaning.
func Random(kind string) bool {
	return kind == "random" || kind == "prefix" || kind == "sessions" || kind == "mooncake"
}

// Prompt is one line of the file (JSON lines). It has either Tokens, Text or
// Messages.
type Prompt struct {
	ID        int       `json:"id"` // the line, from 0
	Warmup    bool      `json:"warmup,omitempty"`
	Tokens    []int     `json:"tokens,omitempty"`
	Text      string    `json:"text,omitempty"`
	Messages  []Message `json:"messages,omitempty"`
	InputLen  int       `json:"input_len,omitempty"` // what the server must count for a text; 0 is not known
	OutputLen int       `json:"output_len"`
	At        *float64  `json:"at_s,omitempty"` // seconds from the start of the trace; nil outside of one
	Turn      Turn      `json:"turn,omitzero"`
	Adapter   string    `json:"adapter,omitempty"` // model to ask for instead of the cell's
	// Body are frozen further fields of the request, such as a schema or tools.
	Body   map[string]json.RawMessage `json:"body,omitempty"`
	Cancel float64                    `json:"cancel_s,omitempty"` // seconds after which the client leaves; 0 never
	Answer string                     `json:"answer,omitempty"`   // the right one of a graded prompt; never sent
}

// Message is one message of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Turn is a prompt's place in a session; the zero value is outside of one. A
// turn is sent when the one before it has ended and its thinking time is over.
type Turn struct {
	Session int     `json:"session"` // from 1
	Number  int     `json:"number"`  // from 1
	Think   float64 `json:"think_s,omitempty"`
}
