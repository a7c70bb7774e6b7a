// Package dataset makes frozen prompts: an artefact with a digest that every
// framework is measured on. The same Spec gives the same bytes on every
// machine. It knows no server and no campaign.
//
// The file is JSON lines, one Prompt a line, warm-up prompts first, ids equal
// to the line's number from 0. Functions are pure and safe to call from any
// goroutine; an error says what is wrong with the Spec or with which line.
package dataset

import "encoding/json"

// Spec is one frozen set. All of it is keyed by the dataset node.
type Spec struct {
	Kind      string `key:"dataset" json:"kind"`          // random
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
