package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// maxDepth bounds nesting, so that a hostile answer cannot use up the stack.
const maxDepth = 200

// scanner walks one JSON text once, strictly (RFC 8259) and without
// allocation. It exists because a decoder that allocates on each event makes
// the garbage collector stop all streams for 20 ms, which the numbers would
// blame on the server. After an error every method returns at once, so callers
// look at err only at the end.
type scanner struct {
	b     []byte
	i     int
	depth int
	err   error
}

func (s *scanner) fail(what string) {
	if s.err == nil {
		s.err = fmt.Errorf("%s at byte %d", what, s.i)
	}
	s.i = len(s.b)
}

// peek returns the next byte that is no white space, 0 at the end. A zero byte
// begins no value, so only end has to tell the two apart.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// enter steps into an array or object that starts with open and says whether
// it has a first element; more steps over a comma or out.
//
//	for ok := s.enter('{', '}'); ok; ok = s.more('}') { switch string(s.key()) … }
func (s *scanner) enter(open, end byte) bool {
	if s.peek() != open {
		s.fail("no " + string(rune(open)))
		return false
	}
	if s.depth++; s.depth > maxDepth {
		s.fail("nesting too deep")
		return false
	}
	s.i++
	if s.peek() == end {
		s.i++
		s.depth--
		return false
	}
	return s.err == nil
}

func (s *scanner) more(end byte) bool {
	switch c := s.peek(); {
	case s.err != nil:
	case c == ',':
		s.i++
		return true
	case c == end:
		s.i++
		s.depth--
	default:
		s.fail("no comma")
	}
	return false
}

// key returns the next member's name and steps over the colon.
func (s *scanner) key() []byte {
	k := s.text()
	if s.peek() != ':' {
		s.fail("no colon")
		return nil
	}
	s.i++
	return k
}

// text returns the value of a string. It is a part of the scanned bytes unless
// it has escapes.
func (s *scanner) text() []byte {
	raw, plain := s.str()
	if plain || s.err != nil {
		return raw
	}
	var out string
	if err := json.Unmarshal(s.b[s.i-len(raw)-2:s.i], &out); err != nil {
		s.fail("bad string")
	}
	return []byte(out)
}

// str steps over a string and returns what stands between its quotes, and
// whether that is also its value.
func (s *scanner) str() (raw []byte, plain bool) {
	if s.peek() != '"' {
		s.fail("no string")
		return nil, true
	}
	plain = true
	b := s.b
	from := s.i + 1
	for j := from; j < len(b); j++ {
		if !special[b[j]] {
			continue
		}
		switch b[j] {
		case '"':
			s.i = j + 1
			return b[from:j], plain
		case '\\':
			plain = false
			n := escape(b[j+1:])
			if n == 0 {
				s.fail("bad escape")
				return nil, true
			}
			j += n
		default:
			s.fail("control character in a string")
			return nil, true
		}
	}
	s.fail("string without end")
	return nil, true
}

// special are the bytes that do not stand for themselves in a string.
var special = func() (is [256]bool) {
	for c := range 0x20 {
		is[c] = true
	}
	is['"'], is['\\'] = true, true
	return is
}()

// escape returns the length of the escape that b starts with, after the
// backslash; 0 if there is none.
func escape(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		if len(b) < 5 {
			return 0
		}
		for _, c := range b[1:5] {
			if !digit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
				return 0
			}
		}
		return 5
	}
	return 0
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// word steps over a literal if it comes next.
func (s *scanner) word(w string) bool {
	if s.peek() == w[0] && bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		s.i += len(w)
		return true
	}
	return false
}

// number steps over a number; whole says that it is a count.
func (s *scanner) number() (v int64, whole bool) {
	at := s.i
	if s.i < len(s.b) && s.b[s.i] == '-' {
		s.i++
	}
	digits := func() int {
		from := s.i
		for s.i < len(s.b) && digit(s.b[s.i]) {
			s.i++
		}
		return s.i - from
	}
	from := s.i
	n := digits()
	if n == 0 || n > 1 && s.b[from] == '0' {
		s.fail("bad number")
		return 0, false
	}
	whole = from == at && n <= 18
	for _, c := range s.b[from:s.i] {
		v = v*10 + int64(c-'0')
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		whole = false
		s.i++
		if digits() == 0 {
			s.fail("bad number")
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		whole = false
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if digits() == 0 {
			s.fail("bad number")
		}
	}
	return v, whole
}

// count reads a count; null is -1.
func (s *scanner) count() int64 {
	if s.word("null") {
		return -1
	}
	s.peek()
	v, whole := s.number()
	if !whole {
		s.fail("a count that is no whole number")
		return -1
	}
	return v
}

// filled steps over a value that holds output and says whether there is any: a
// string, array or object that is not empty. Null is none.
func (s *scanner) filled() bool {
	switch s.peek() {
	case '"':
		raw, _ := s.str()
		return len(raw) > 0
	case '[', '{':
		at := s.i
		s.skip()
		// Two brackets with nothing but white space between hold nothing.
		return s.err == nil && len(bytes.TrimSpace(s.b[at+1:s.i-1])) > 0
	}
	if !s.word("null") {
		s.fail("output that is no text")
	}
	return false
}

// skip steps over any value.
func (s *scanner) skip() {
	switch c := s.peek(); {
	case c == '{':
		for ok := s.enter('{', '}'); ok; ok = s.more('}') {
			s.str()
			if s.peek() != ':' {
				s.fail("no colon")
				return
			}
			s.i++
			s.skip()
		}
	case c == '[':
		for ok := s.enter('[', ']'); ok; ok = s.more(']') {
			s.skip()
		}
	case c == '"':
		s.str()
	case c == '-' || digit(c):
		s.number()
	default:
		if !s.word("null") && !s.word("true") && !s.word("false") {
			s.fail("no value")
		}
	}
}

// end returns the error of the walk; anything left over is one too.
func (s *scanner) end() error {
	if s.peek(); s.err == nil && s.i < len(s.b) {
		return errors.New("more than one JSON value")
	}
	return s.err
}
