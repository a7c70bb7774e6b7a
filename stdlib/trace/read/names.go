package read

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/sotabuild/sotabuild/stdlib/trace/scan"
)

// Names interns text. Id 0 is the empty text. Its size is bounded: past the
// limit every new text becomes the same placeholder, and Full says so.
type Names struct {
	plain   map[string]uint32 // spelled without a backslash
	escaped map[string]uint32 // as spelled in the file, with escapes
	texts   []string
	size    int
	full    uint32 // id of the placeholder, 0 while there is room
	scratch []byte
}

const (
	maxNames    = 64 << 20 // bytes of text
	maxNameText = 16 << 10 // bytes of one text; longest kernel symbols are near 8 KiB
	noRoom      = "(name table full)"
)

func newNames() *Names {
	return &Names{
		plain:   map[string]uint32{"": 0},
		escaped: map[string]uint32{},
		texts:   []string{""},
	}
}

// Text is the text of id.
func (n *Names) Text(id uint32) string { return n.texts[id] }

// Len is the number of different texts.
func (n *Names) Len() int { return len(n.texts) }

// Full reports whether texts were lost to the size limit.
func (n *Names) Full() bool { return n.full != 0 }

// intern takes the inside of a JSON string.
func (n *Names) intern(raw []byte) uint32 {
	if bytes.IndexByte(raw, '\\') < 0 {
		if id, ok := n.plain[string(raw)]; ok {
			return id
		}
		return n.add(raw)
	}
	if id, ok := n.escaped[string(raw)]; ok {
		return id
	}
	text := scan.Unescape(raw)
	id, ok := n.plain[string(text)]
	if !ok {
		id = n.add(text)
	}
	if id != n.full || n.full == 0 {
		n.escaped[string(raw)] = id
		n.size += len(raw)
	}
	return id
}

// internFrame is intern for Python frames, whose names hold object addresses
// ("<built-in method x of Y object at 0x7f…>") that would fill the table.
func (n *Names) internFrame(raw []byte) uint32 {
	i := bytes.Index(raw, []byte(" 0x"))
	if i < 0 {
		return n.intern(raw)
	}
	out := n.scratch[:0]
	for i >= 0 {
		j := i + 3
		for j < len(raw) && isHex(raw[j]) {
			j++
		}
		if j-i-3 >= 6 {
			out = append(append(out, raw[:i]...), " 0x…"...)
		} else {
			out = append(out, raw[:j]...)
		}
		raw = raw[j:]
		i = bytes.Index(raw, []byte(" 0x"))
	}
	n.scratch = append(out, raw...)
	return n.intern(n.scratch)
}

func (n *Names) add(text []byte) uint32 {
	if n.full != 0 {
		return n.full
	}
	if n.size+len(text) > maxNames {
		n.full = uint32(len(n.texts))
		n.texts = append(n.texts, noRoom)
		return n.full
	}
	key := string(text)
	s := key
	if len(s) > maxNameText {
		s = s[:maxNameText] + "…"
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	id := uint32(len(n.texts))
	n.texts = append(n.texts, s)
	n.plain[key] = id
	n.size += len(key) + 32
	return id
}

func isHex(c byte) bool {
	return c-'0' < 10 || c|0x20-'a' < 6
}
