package read

import (
	"errors"
	"io"
)

// window is the part of the file in memory. Bytes before pos are done with;
// a slice of buf is valid until the next call of more.
type window struct {
	r    io.Reader
	buf  []byte
	pos  int
	read int64 // bytes taken from r
	err  error // sticky; io.EOF at the end
}

const (
	windowSize = 128 << 10
	maxEvent   = 16 << 20
)

var errTooLong = errors.New("longer than the window may grow")

func newWindow(r io.Reader) *window {
	return &window{r: r, buf: make([]byte, 0, windowSize)}
}

// rest is what is in memory and not yet consumed.
func (w *window) rest() []byte { return w.buf[w.pos:] }

// more reads on, keeping the unconsumed bytes. It grows the buffer only when
// they fill it, and fails with errTooLong at the limit.
func (w *window) more() error {
	if w.err != nil {
		return w.err
	}
	if w.pos > 0 {
		n := copy(w.buf[:cap(w.buf)], w.buf[w.pos:])
		w.buf, w.pos = w.buf[:n], 0
	}
	if len(w.buf) == cap(w.buf) {
		if cap(w.buf) >= maxEvent {
			return errTooLong
		}
		grown := make([]byte, len(w.buf), 2*cap(w.buf))
		copy(grown, w.buf)
		w.buf = grown
	}
	n := 0
	for tries := 0; n == 0 && w.err == nil; tries++ {
		if tries == 100 {
			w.err = io.ErrNoProgress
			break
		}
		n, w.err = w.r.Read(w.buf[len(w.buf):cap(w.buf)])
	}
	w.buf = w.buf[:len(w.buf)+n]
	w.read += int64(n)
	if n > 0 {
		return nil
	}
	return w.err
}

// peek skips white space and returns the next byte without consuming it.
func (w *window) peek() (byte, error) {
	for {
		for w.pos < len(w.buf) {
			c := w.buf[w.pos]
			if !isSpace(c) {
				return c, nil
			}
			w.pos++
		}
		if err := w.more(); err != nil {
			return 0, err
		}
	}
}

// skipValue consumes one JSON value of any length without holding it.
func (w *window) skipValue() error {
	c, err := w.peek()
	if err != nil {
		return err
	}
	depth, quoted, escaped := 0, false, false
	scalar := c != '{' && c != '[' && c != '"'
	for {
		for ; w.pos < len(w.buf); w.pos++ {
			c := w.buf[w.pos]
			switch {
			case escaped:
				escaped = false
			case quoted:
				escaped = c == '\\'
				if c == '"' {
					quoted = false
					if depth == 0 {
						w.pos++
						return nil
					}
				}
			case scalar:
				if isSpace(c) || c == ',' || c == '}' || c == ']' {
					return nil
				}
			case c == '"':
				quoted = true
			case c == '{' || c == '[':
				depth++
			case c == '}' || c == ']':
				if depth--; depth <= 0 {
					w.pos++
					return nil
				}
			}
		}
		if err := w.more(); err != nil {
			return err
		}
	}
}

// value returns one JSON value as a slice that is valid until the next read,
// or errTooLong, in which case nothing is consumed.
func (w *window) value() ([]byte, error) {
	if _, err := w.peek(); err != nil {
		return nil, err
	}
	for {
		b := w.rest()
		if n := skip(b, 0); n > 0 && (n < len(b) || w.err != nil) {
			w.pos += n
			return b[:n], nil
		}
		if err := w.more(); err != nil {
			return nil, err
		}
	}
}

// isSpace takes every control byte for white space: one comparison in the
// innermost loop, and between tokens nothing else is legal.
func isSpace(c byte) bool { return c <= ' ' }
