package scan

import "bytes"

// Event is one element of traceEvents as slices of the window. A nil slice is
// an absent field; of duplicate keys the last counts.
type Event struct {
	Phase, Cat, Name []byte // insides of the strings
	PID, TID         []byte // as spelled, with quotes
	TS, Dur          []byte // as spelled
	Args             []byte // the whole object, with braces
}

// Status is how a scan ended.
type Status uint8

// The ends of a scan.
const (
	Complete Status = iota
	Short           // the bytes end inside the event
	Broken          // this is no event
)

// Scan reads the event that begins at b[0] == '{' and returns its length.
// Unneeded values are skipped, not validated: that is most of the speed.
func (e *Event) Scan(b []byte) (int, Status) {
	*e = Event{}
	i := 1
	for {
		if i = Space(b, i); i >= len(b) {
			return 0, Short
		}
		switch b[i] {
		case '}':
			return i + 1, Complete
		case ',':
			i++
			continue
		case '"':
		default:
			return 0, Broken
		}
		end := shortEnd(b, i+1)
		if end < 0 {
			return 0, Short
		}
		key := b[i+1 : end]
		if i = Space(b, end+1); i >= len(b) {
			return 0, Short
		}
		if b[i] != ':' {
			return 0, Broken
		}
		if i = Space(b, i+1); i >= len(b) {
			return 0, Short
		}
		n := skip(b, i)
		if n == 0 || n >= len(b) {
			return 0, Short
		}
		if n < 0 {
			return 0, Broken
		}
		e.set(key, b[i:n])
		if i = Space(b, n); i >= len(b) {
			return 0, Short
		}
		if b[i] != ',' && b[i] != '}' {
			return 0, Broken
		}
	}
}

func (e *Event) set(key, value []byte) {
	switch string(key) {
	case "ph":
		e.Phase = Unquote(value)
	case "cat":
		e.Cat = Unquote(value)
	case "name":
		e.Name = Unquote(value)
	case "pid":
		e.PID = value
	case "tid":
		e.TID = value
	case "ts":
		e.TS = value
	case "dur":
		e.Dur = value
	case "args":
		e.Args = value
	}
}

// Space is the index of the first byte at or after i that is no white space.
func Space(b []byte, i int) int {
	for i < len(b) && IsSpace(b[i]) {
		i++
	}
	return i
}

// stringEnd is the index of the quote that closes the string whose inside
// begins at i, or -1.
func stringEnd(b []byte, i int) int {
	start := i
	for {
		j := bytes.IndexByte(b[i:], '"')
		if j < 0 {
			return -1
		}
		j += i
		k := j
		for k > start && b[k-1] == '\\' {
			k--
		}
		if (j-k)%2 == 0 {
			return j
		}
		i = j + 1
	}
}

// shortEnd is stringEnd for strings of a few bytes, such as keys, where a loop
// beats the call of a vector search.
func shortEnd(b []byte, i int) int {
	for j := i; j < len(b) && j < i+16; j++ {
		switch b[j] {
		case '"':
			return j
		case '\\':
			return stringEnd(b, i)
		}
	}
	return stringEnd(b, i)
}

// skip is the index after the value that begins at b[i]; 0 when the bytes end
// inside it, -1 when no value begins here. Bare tokens that JSON does not know
// (N/A, nan) are values, since exporters write them.
func skip(b []byte, i int) int {
	switch b[i] {
	case '"':
		return shortEnd(b, i+1) + 1
	case '{', '[':
		return skipNested(b, i)
	case ',', '}', ']', ':':
		return -1
	}
	for i++; i < len(b); i++ {
		if !stops[b[i]] {
			continue
		}
		if b[i] == '"' || b[i] == '{' || b[i] == '[' {
			return -1
		}
		return i
	}
	return 0
}

// stops is the bytes that end a number or another bare token.
var stops = [256]bool{
	',': true, '}': true, ']': true, '"': true, '{': true, '[': true,
	' ': true, '\n': true, '\t': true, '\r': true,
}

func skipNested(b []byte, i int) int {
	if n := flat(b, i); n > 0 {
		return n
	}
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			end := stringEnd(b, i+1)
			if end < 0 {
				return 0
			}
			i = end
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return 0
}

// flat is skipNested for an object without braces or escapes inside, which is
// what nine of ten events carry. It uses four vector searches in place of a
// loop over bytes: the first closing brace ends the object unless it stands in
// a string (odd number of quotes before it) or inner objects opened.
func flat(b []byte, i int) int {
	if b[i] != '{' {
		return 0
	}
	n := bytes.IndexByte(b[i:], '}')
	if n < 0 {
		return 0
	}
	s := b[i+1 : i+n]
	if bytes.IndexByte(s, '{') >= 0 || bytes.IndexByte(s, '\\') >= 0 || bytes.Count(s, []byte{'"'})%2 != 0 {
		return 0
	}
	return i + n + 1
}

// Fields calls visit for every key of the object b, inside text of the key and
// the value as spelled, and reports whether the object was well formed.
func Fields(b []byte, visit func(key, value []byte)) bool {
	if len(b) < 2 || b[0] != '{' {
		return false
	}
	for i := 1; i < len(b); {
		i = Space(b, i)
		if i >= len(b) || b[i] == '}' {
			return i == len(b)-1
		}
		if b[i] == ',' {
			i++
			continue
		}
		if b[i] != '"' {
			return false
		}
		end := stringEnd(b, i+1)
		if end < 0 {
			return false
		}
		key := b[i+1 : end]
		i = Space(b, end+1)
		if i >= len(b) || b[i] != ':' {
			return false
		}
		i = Space(b, i+1)
		if i >= len(b) {
			return false
		}
		n := skip(b, i)
		if n <= 0 {
			return false
		}
		visit(key, b[i:n])
		i = n
	}
	return false
}
