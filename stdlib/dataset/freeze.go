package dataset

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Freeze returns the file of any kind of set; r is the file that it is read
// from, nil for a kind without one. All sets but the plain random one, whose
// ids follow from the whole Spec, have a nonce that does.
func Freeze(s Spec, r io.Reader) ([]byte, error) {
	if s.Kind == "random" && !s.Form.Chat && s.Form.Spread == 0 && len(s.Form.Mix) == 0 && len(s.Form.Adapters) == 0 && s.Form.Cancel == 0 {
		return Generate(s)
	}
	v := Ids{Lo: s.VocabLo, Hi: s.VocabHi, Seed: s.Seed}
	prompts, err := s.prompts(v, r)
	if err != nil {
		return nil, err
	}
	for _, p := range prompts {
		if len(p.Tokens) > 0 {
			if err := v.check(); err != nil {
				return nil, fmt.Errorf("a prompt is of token ids: %w", err)
			}
		}
	}
	name := fmt.Sprintf("%s %s %d %d %d", s.Kind, s.Stream, s.InputLen, s.OutputLen, s.Prompts)
	if prompts, err = s.Form.Extras.Finish(v, name, s.Warmup, prompts); err != nil {
		return nil, err
	}
	return Write(prompts)
}

func (s Spec) prompts(v Ids, r io.Reader) ([]Prompt, error) {
	x := s.Form
	if r == nil && x.File != "" || r != nil && x.File == "" {
		return nil, fmt.Errorf("a set of kind %q is read from a file, or has none; this one has half of it", s.Kind)
	}
	switch s.Kind {
	case "random":
		if x.Chat {
			v.Lo, v.Hi = 0, len(words)
		}
		shapes, err := Shapes(s.InputLen, s.OutputLen, x.Spread, x.Mix)
		if err != nil {
			return nil, err
		}
		out, err := Mixture(v, shapes, s.Prompts)
		if err == nil && x.Chat {
			out = spell(v, out)
		}
		return out, err
	case "prefix":
		return Prefixes(v, max(1, x.Groups), x.Shared, s.InputLen-x.Shared, s.OutputLen, s.Prompts)
	case "sessions":
		return Sessions(v, max(1, s.Prompts/max(1, x.Turns)), x.Turns, s.InputLen, s.OutputLen, x.Think)
	case "sharegpt":
		return ShareGPT(r, s.Prompts, s.OutputLen, nil)
	case "multi-turn":
		return Talks(r, s.Prompts, s.OutputLen, x.Think)
	case "jsonl":
		return Custom(r, s.Prompts, s.OutputLen)
	case "mooncake":
		return Mooncake(v, r, s.Prompts)
	}
	return nil, fmt.Errorf("kind %q is not known; write one of %s", s.Kind, strings.Join(Kinds, ", "))
}

// Around are the bounds of lengths drawn around n.
func Around(n int, spread float64) [2]int {
	by := int(math.Floor(spread * float64(n)))
	return [2]int{max(1, n-by), n + by}
}

// spell turns token ids into as many common words, for endpoints that take no
// ids. In most vocabularies that is about as many tokens; how many it is, only
// the server can count.
func spell(v Ids, prompts []Prompt) []Prompt {
	out := slices.Clone(prompts)
	for i, p := range out {
		var text strings.Builder
		for _, t := range p.Tokens {
			text.WriteByte(' ')
			text.WriteString(words[t%len(words)])
		}
		out[i].Tokens, out[i].Text = nil, text.String()[1:]
	}
	return out
}

// Finish gives prompts what any set may have, warm-up prompts in front of them
// and a nonce of a run, which also sets the warm-up apart.
func (x Extras) Finish(v Ids, run string, warm int, prompts []Prompt) ([]Prompt, error) {
	if len(prompts) == 0 {
		return nil, errors.New("the set has no prompt")
	}
	var err error
	if x.Cancel > 0 {
		if prompts, err = Cancel(x.Cancel, x.CancelAfter, prompts); err != nil {
			return nil, err
		}
	}
	prompts = Adapters(x.Adapters, prompts)
	heat := warmUp(warm, prompts)
	if slices.ContainsFunc(prompts, func(p Prompt) bool { return p.InputLen > 0 }) {
		return append(heat, prompts...), nil // their counts are exact: a mark in front would change them
	}
	return append(Nonce(v, run+" warm-up", heat), Nonce(v, run, prompts)...), nil
}

// warmUp makes warm-up prompts from the first measured ones.
func warmUp(n int, from []Prompt) (out []Prompt) {
	for i := range n {
		p := from[i%len(from)]
		p.Warmup, p.Turn, p.At, p.Cancel = true, Turn{}, nil, 0
		if p.InputLen > 0 {
			p.Text, p.InputLen = fmt.Sprintf("warm-up %d: %s", i, p.Text), 0
		}
		out = append(out, p)
	}
	return out
}
