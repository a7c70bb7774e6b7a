package dataset

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
)

// maxTokens bounds one set: some 800 MB of text. More is a slip of the pen.
const maxTokens = 1 << 27

// Generate returns the set's file: JSON lines, a newline after each. Token ids
// are uniform and independent, so two prompts share a prefix only by chance,
// also across sets whose Specs differ in any field.
func Generate(s Spec) ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("generating dataset: %w", err)
	}
	src := s.source()
	lines := s.Warmup + s.Prompts
	var out []byte
	for id := range lines {
		out = append(out, `{"id":`...)
		out = strconv.AppendInt(out, int64(id), 10)
		if id < s.Warmup {
			out = append(out, `,"warmup":true`...)
		}
		out = append(out, `,"tokens":[`...)
		for i := range s.InputLen {
			if i > 0 {
				out = append(out, ',')
			}
			out = strconv.AppendInt(out, int64(s.VocabLo)+int64(below(src, uint64(s.VocabHi-s.VocabLo))), 10)
		}
		out = append(out, `],"output_len":`...)
		out = strconv.AppendInt(out, int64(s.OutputLen), 10)
		out = append(out, "}\n"...)
	}
	return out, nil
}

func (s Spec) check() error {
	switch {
	case s.Kind != "random":
		return fmt.Errorf("kind %q is not known; write \"random\"", s.Kind)
	case s.InputLen < 1:
		return fmt.Errorf("input_len is %d; a prompt needs at least 1 token", s.InputLen)
	case s.OutputLen < 1:
		return fmt.Errorf("output_len is %d; an answer needs at least 1 token", s.OutputLen)
	case s.Prompts < 1:
		return fmt.Errorf("prompts is %d; a set needs at least 1", s.Prompts)
	case s.Warmup < 0:
		return fmt.Errorf("warmup is %d; write 0 for none", s.Warmup)
	case s.VocabLo < 0:
		return fmt.Errorf("vocab_lo is %d; token ids start at 0", s.VocabLo)
	case s.VocabHi > math.MaxInt32:
		return fmt.Errorf("vocab_hi is %d; token ids end at %d", s.VocabHi, math.MaxInt32)
	case s.VocabHi-s.VocabLo < 2:
		// With one id all prompts are the same prompt: a test of the prefix cache.
		return fmt.Errorf("[vocab_lo, vocab_hi) is [%d, %d); it must hold at least 2 token ids", s.VocabLo, s.VocabHi)
	case s.InputLen > maxTokens, s.Prompts > maxTokens, s.Warmup > maxTokens,
		(s.Prompts+s.Warmup)*s.InputLen > maxTokens:
		return fmt.Errorf("%d prompts and %d warm-up prompts of %d tokens are more than %d tokens; ask for fewer or shorter ones",
			s.Prompts, s.Warmup, s.InputLen, maxTokens)
	}
	return nil
}

// source returns the set's own random numbers. Every field is part of the
// seed, framed with its length, so that no two Specs give the same stream.
// ChaCha8's output is specified; what is built on it here is our own, because
// the derived draws of math/rand/v2 are not promised to stay as they are.
func (s Spec) source() *rand.ChaCha8 {
	h := sha256.New()
	text := func(v string) {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(v))))
		h.Write([]byte(v))
	}
	text("sotabuild dataset 1")
	text(s.Kind)
	text(s.Stream)
	for _, v := range []int64{int64(s.InputLen), int64(s.OutputLen), int64(s.Prompts), int64(s.Warmup),
		int64(s.VocabLo), int64(s.VocabHi), s.Seed} {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(v)))
	}
	return rand.NewChaCha8([32]byte(h.Sum(nil)))
}

// below draws from [0, n) without bias: values of the last, incomplete range
// of n are drawn again.
func below(src *rand.ChaCha8, n uint64) uint64 {
	limit := math.MaxUint64 - math.MaxUint64%n
	for {
		if v := src.Uint64(); v < limit {
			return v % n
		}
	}
}
