// Package wire writes and reads numbers and texts as bytes, each framed by its
// length: what a journal's payloads are made of. Reading a record this way
// takes a tenth of the time of JSON, and a plan reads one for every node. It
// knows no record. A Reader that meets something wrong says so once, at the
// end, and gives zero values until then.
package wire

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// Buffer is what is written. The zero value is empty.
type Buffer []byte

// Uint adds a number that is not negative.
func (b *Buffer) Uint(v uint64) { *b = binary.AppendUvarint(*b, v) }

// Int adds a number.
func (b *Buffer) Int(v int64) { *b = binary.AppendVarint(*b, v) }

// Float adds a number by its bits.
func (b *Buffer) Float(v float64) { *b = binary.LittleEndian.AppendUint64(*b, math.Float64bits(v)) }

// Bool adds a truth value.
func (b *Buffer) Bool(v bool) {
	if v {
		b.Uint(1)
	} else {
		b.Uint(0)
	}
}

// Text adds a text, byte for byte.
func (b *Buffer) Text(s string) {
	b.Uint(uint64(len(s)))
	*b = append(*b, s...)
}

// Sum adds 32 bytes.
func (b *Buffer) Sum(v [32]byte) { *b = append(*b, v[:]...) }

// Time adds a moment in UTC, with nanoseconds.
func (b *Buffer) Time(t time.Time) {
	b.Int(t.Unix())
	b.Uint(uint64(t.Nanosecond()))
}

// Reader reads what a Buffer holds, in the same order. Texts share the memory
// of what is read.
type Reader struct {
	text string
	bad  bool
}

// NewReader reads a copy of b.
func NewReader(b []byte) *Reader { return &Reader{text: string(b)} }

// take returns the next n bytes.
func (r *Reader) take(n uint64) string {
	if n > uint64(len(r.text)) {
		r.bad, r.text = true, ""
		return ""
	}
	s := r.text[:n]
	r.text = r.text[n:]
	return s
}

// Uint reads a number that is not negative.
func (r *Reader) Uint() uint64 {
	var v uint64
	for i := range min(len(r.text), binary.MaxVarintLen64) {
		c := r.text[i]
		if i == 9 && c > 1 || c == 0 && i > 0 {
			break // too large, or not the shortest form
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			r.text = r.text[i+1:]
			return v
		}
	}
	r.bad, r.text = true, ""
	return 0
}

// Int reads a number.
func (r *Reader) Int() int64 {
	u := r.Uint()
	return int64(u>>1) ^ -int64(u&1)
}

// Float reads a number by its bits.
func (r *Reader) Float() float64 {
	s := r.take(8)
	if len(s) < 8 {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64([]byte(s)))
}

// Bool reads a truth value.
func (r *Reader) Bool() bool {
	v := r.Uint()
	r.bad = r.bad || v > 1
	return v == 1
}

// Text reads a text.
func (r *Reader) Text() string { return r.take(r.Uint()) }

// Sum reads 32 bytes.
func (r *Reader) Sum() (v [32]byte) {
	copy(v[:], r.take(32))
	return v
}

// Time reads a moment.
func (r *Reader) Time() time.Time {
	sec, nsec := r.Int(), r.Uint()
	if nsec >= 1e9 {
		r.bad, nsec = true, 0
	}
	return time.Unix(sec, int64(nsec)).UTC()
}

// Count reads how many things of at least size bytes follow.
func (r *Reader) Count(size int) int {
	n := r.Uint()
	if n > uint64(len(r.text)/size) {
		r.bad, r.text = true, ""
		return 0
	}
	return int(n)
}

// End says whether everything was read and made sense.
func (r *Reader) End() error {
	if r.bad || r.text != "" {
		return errors.New("its bytes make no sense")
	}
	return nil
}
