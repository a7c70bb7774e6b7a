// Package scan reads the JSON of Chrome traces as bytes: a sliding window over
// a stream, events as slices of it, exact numbers and escapes. It is forgiving
// where exporters are known to be wrong, and it validates only what it needs.
//
// It knows JSON and the keys of a trace event; it knows no category and keeps
// nothing. A Window has one user at a time.
package scan

import (
	"errors"
	"io"
)

// Window is the part of the file in memory. Bytes before pos are done with;
// a slice of buf is valid until the next call of more.
type Window struct {
	r    io.Reader
	buf  []byte
	pos  int
	read int64 // bytes taken from r
	err  error // sticky; io.EOF at the end
}

const windowSize = 128 << 10 // fits the second-level cache; larger was not faster

// MaxEvent is the longest event or value that a Window holds, in bytes.
const MaxEvent = 16 << 20

// ErrTooLong is the error of a value longer than MaxEvent; SkipValue passes it.
var ErrTooLong = errors.New("longer than the window may grow")

// NewWindow makes an empty window over r; nothing is read before More.
func NewWindow(r io.Reader) *Window {
	return &Window{r: r, buf: make([]byte, 0, windowSize)}
}

// Rest is what is in memory and not yet consumed.
func (w *Window) Rest() []byte { return w.buf[w.pos:] }

// Advance consumes n bytes of Rest.
func (w *Window) Advance(n int) { w.pos += n }

// Total is how many bytes came from the stream so far.
func (w *Window) Total() int64 { return w.read }

// Offset is the place of the first byte of Rest in the stream.
func (w *Window) Offset() int64 { return w.read - int64(len(w.buf)-w.pos) }

// More reads on, keeping the unconsumed bytes. It grows the buffer only when
// they fill it, and fails with ErrTooLong at the limit.
func (w *Window) More() error {
	if w.err != nil {
		return w.err
	}
	if w.pos > 0 {
		n := copy(w.buf[:cap(w.buf)], w.buf[w.pos:])
		w.buf, w.pos = w.buf[:n], 0
	}
	if len(w.buf) == cap(w.buf) {
		if cap(w.buf) >= MaxEvent {
			return ErrTooLong
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

// Peek skips white space and returns the next byte without consuming it.
func (w *Window) Peek() (byte, error) {
	for {
		for w.pos < len(w.buf) {
			c := w.buf[w.pos]
			if !IsSpace(c) {
				return c, nil
			}
			w.pos++
		}
		if err := w.More(); err != nil {
			return 0, err
		}
	}
}

// SkipValue consumes one JSON value of any length without holding it.
func (w *Window) SkipValue() error {
	c, err := w.Peek()
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
				if IsSpace(c) || c == ',' || c == '}' || c == ']' {
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
		if err := w.More(); err != nil {
			return err
		}
	}
}

// Value returns one JSON value as a slice that is valid until the next read,
// or ErrTooLong, in which case nothing is consumed.
func (w *Window) Value() ([]byte, error) {
	if _, err := w.Peek(); err != nil {
		return nil, err
	}
	for {
		b := w.Rest()
		if n := skip(b, 0); n > 0 && (n < len(b) || w.err != nil) {
			w.pos += n
			return b[:n], nil
		}
		if err := w.More(); err != nil {
			return nil, err
		}
	}
}

// IsSpace takes every control byte for white space: one comparison in the
// innermost loop, and between tokens nothing else is legal.
func IsSpace(c byte) bool { return c <= ' ' }
