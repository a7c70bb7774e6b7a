package wire

import (
	"bytes"
	"fmt"
)

// maxEvent bounds one event: what is longer is no token stream.
const maxEvent = 16 << 20

// framer cuts an event stream into events in one pass (WHATWG: LF, CR and CRLF
// end lines, a colon starts a comment, data lines are joined by LF, an event
// without its empty line at the end of the stream does not count). How the
// bytes were split over reads changes nothing. The zero value is ready.
type framer struct {
	line []byte // the line so far
	data []byte // the data lines so far, each with its LF
	name []byte // the event field so far
	cr   bool   // the last byte was CR: an LF now belongs to it
	used bool   // a line was seen: no byte order mark any more
}

// feed takes the next bytes and calls emit for each event that they complete,
// in order. The slices are emit's only until it returns. The framer is of no
// use after an error.
func (f *framer) feed(b []byte, emit func(name, data []byte)) error {
	for len(b) > 0 {
		if f.cr {
			f.cr = false
			if b[0] == '\n' {
				b = b[1:]
				continue
			}
		}
		n := lineEnd(b)
		if n < 0 {
			f.line = append(f.line, b...)
			break
		}
		line := b[:n]
		if len(f.line) > 0 {
			f.line = append(f.line, line...)
			line = f.line
		}
		f.cr = b[n] == '\r'
		b = b[n+1:]
		// Most events are one line and its empty line in one read: they are
		// told where they are.
		if value, ok := bytes.CutPrefix(line, []byte("data: ")); ok && f.used && !f.cr && len(f.data) == 0 && len(b) > 0 && b[0] == '\n' {
			emit(f.name, value)
			f.line, f.name, b = f.line[:0], f.name[:0], b[1:]
			continue
		}
		f.endLine(line, emit)
	}
	if n := len(f.line) + len(f.data); n > maxEvent {
		return fmt.Errorf("an event of more than %d bytes", maxEvent)
	}
	return nil
}

// lineEnd returns where the first CR or LF is, or -1.
func lineEnd(b []byte) int {
	n := bytes.IndexByte(b, '\n')
	if n >= 0 {
		b = b[:n]
	}
	if r := bytes.IndexByte(b, '\r'); r >= 0 {
		return r
	}
	return n
}

// open says whether the stream ends here inside an event.
func (f *framer) open() bool { return len(f.line)+len(f.data) > 0 }

func (f *framer) endLine(line []byte, emit func(name, data []byte)) {
	f.line = f.line[:0]
	if !f.used {
		f.used = true
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
	}
	if len(line) == 0 {
		if len(f.data) > 0 {
			emit(f.name, f.data[:len(f.data)-1])
		}
		f.data, f.name = f.data[:0], f.name[:0]
		return
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "data":
		f.data = append(append(f.data, value...), '\n')
	case "event":
		f.name = append(f.name[:0], value...)
	}
}
