// Package vocab is tinyserve's fixed vocabulary of 512 tokens: five specials,
// the 256 bytes, and 251 two-byte merges of frequent English letters. It turns
// text into ids and a stream of ids back into valid UTF-8, holding back what
// is not yet a whole character or may begin a stop string.
//
// It knows no model and no request. Encode and the tables are safe for
// concurrent use; a Decoder has one owner.
package vocab

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// ID is a token's number, in [0, Size).
type ID = int32

// The special tokens. No text encodes to them.
const (
	Pad ID = iota
	BOS
	EOS
	ImStart
	ImEnd
	firstByte
)

const (
	firstMerge = firstByte + 256
	// Size is the number of tokens.
	Size = 512
)

var specials = [firstByte]string{"<|pad|>", "<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>"}

// A merge is one byte of lead and one of follow, in this order, until the
// vocabulary is full.
const (
	lead   = " etaoinshrdlu"
	follow = "etaoinshrdlucmfwyg.,"
)

// pieces holds the bytes of each token; a special has none.
var pieces, merges = table()

func table() (pieces [Size]string, merges map[string]ID) {
	for b := range 256 {
		pieces[int(firstByte)+b] = string([]byte{byte(b)})
	}
	merges = map[string]ID{}
	next := firstMerge
	for _, a := range lead {
		for _, b := range follow {
			if next == Size {
				return pieces, merges
			}
			pieces[next] = string(a) + string(b)
			merges[pieces[next]] = next
			next++
		}
	}
	return pieces, merges
}

// Piece returns the bytes that a token stands for, "" for a special. It panics
// on an id outside [0, Size).
func Piece(id ID) string { return pieces[id] }

// Plain reports whether a token is printable ASCII or a line feed, so that its
// text can be shown at once.
func Plain(id ID) bool {
	for _, c := range []byte(pieces[id]) {
		if c != '\n' && (c < 0x20 || c > 0x7e) {
			return false
		}
	}
	return pieces[id] != ""
}

// Encode returns the tokens of text: from the left, a merge where one fits,
// else a byte. It never gives a special; names of specials in the text are
// ordinary characters.
func Encode(text string) []ID {
	ids := make([]ID, 0, len(text))
	for i := 0; i < len(text); {
		if i+2 <= len(text) {
			if id, ok := merges[text[i:i+2]]; ok {
				ids = append(ids, id)
				i += 2
				continue
			}
		}
		ids = append(ids, firstByte+ID(text[i]))
		i++
	}
	return ids
}

// Decode returns the text of ids, specials by their names and broken UTF-8 as
// U+FFFD, one for each byte.
func Decode(ids []ID) string {
	var raw []byte
	for _, id := range ids {
		if id < firstByte {
			raw = append(raw, specials[id]...)
			continue
		}
		raw = append(raw, pieces[id]...)
	}
	return valid(raw)
}

// Message is one turn of a chat.
type Message struct{ Role, Content string }

// Chat returns the prompt of a conversation in ChatML, BOS first, ready for
// the assistant's answer.
func Chat(messages []Message) []ID {
	ids := []ID{BOS}
	for _, m := range messages {
		ids = append(ids, ImStart)
		ids = append(ids, Encode(m.Role+"\n"+m.Content)...)
		ids = append(ids, ImEnd)
		ids = append(ids, Encode("\n")...)
	}
	ids = append(ids, ImStart)
	return append(ids, Encode("assistant\n")...)
}

// Decoder turns tokens into text, one after the other. The zero value has no
// stop strings.
type Decoder struct {
	// Stops are strings that end the text; the first found wins and is not
	// part of the text. None is empty.
	Stops   []string
	pending []byte // bytes not yet given out
}

// Add takes a token and returns the text that is now certain. Held means that
// nothing could be given because bytes wait for the rest of a character or of
// a stop string; a special gives "" and is not held. Stopped means that a stop
// string is complete: the text before it is returned and nothing is left.
func (d *Decoder) Add(id ID) (text string, held, stopped bool) {
	d.pending = append(d.pending, pieces[id]...)
	if at := d.stopAt(); at >= 0 {
		text = valid(d.pending[:at])
		d.pending = nil
		return text, false, true
	}
	n := len(d.pending) - d.maybeStop()
	n -= incomplete(d.pending[:n])
	text = valid(d.pending[:n])
	d.pending = slices.Delete(d.pending, 0, n)
	return text, text == "" && len(d.pending) > 0, false
}

// Flush returns what is held back, broken characters as U+FFFD.
func (d *Decoder) Flush() string {
	text := valid(d.pending)
	d.pending = nil
	return text
}

// stopAt returns the first index at which a stop string stands, or -1.
func (d *Decoder) stopAt() int {
	first := -1
	for _, s := range d.Stops {
		if at := strings.Index(string(d.pending), s); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

// maybeStop returns how many of the last bytes could begin a stop string.
func (d *Decoder) maybeStop() int {
	longest := 0
	for _, s := range d.Stops {
		for n := min(len(s)-1, len(d.pending)); n > longest; n-- {
			if strings.HasSuffix(string(d.pending), s[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// incomplete returns how many of the last bytes begin a character whose rest
// may still come.
func incomplete(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// valid replaces each byte that is not part of a character by U+FFFD. Byte by
// byte, unlike strings.ToValidUTF8, so that the text does not depend on where
// a stream was cut.
func valid(b []byte) string {
	var s strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		s.WriteRune(r)
		b = b[n:]
	}
	return s.String()
}
