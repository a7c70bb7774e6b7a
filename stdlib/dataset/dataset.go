// Package dataset makes frozen prompts: an artefact with a digest that every
// framework is measured on. The same Spec gives the same bytes on every
// machine. It knows no server and no campaign.
//
// The file is JSON lines, one Prompt a line, warm-up prompts first, ids equal
// to the line's number from 0. Functions are pure and safe to call from any
// goroutine; an error says what is wrong with the Spec or with which line.
package dataset

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

// Prompt is one line of the file (JSON lines). It has either Tokens or Text.
type Prompt struct {
	ID        int    `json:"id"` // the line, from 0
	Warmup    bool   `json:"warmup,omitempty"`
	Tokens    []int  `json:"tokens,omitempty"`
	Text      string `json:"text,omitempty"`
	OutputLen int    `json:"output_len"`
}
