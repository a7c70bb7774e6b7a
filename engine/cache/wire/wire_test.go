package wire

import (
	"math"
	"testing"
	"time"
)

// The bytes, by hand: a varint of 300 is ac 02, a zigzag of -1 is 01.
func TestBytes(t *testing.T) {
	var b Buffer
	b.Uint(300)
	b.Int(-1)
	b.Bool(true)
	b.Text("hé")
	b.Float(1)
	if got, want := string(b), "\xac\x02\x01\x01\x03h\xc3\xa9\x00\x00\x00\x00\x00\x00\xf0\x3f"; got != want {
		t.Errorf("%x, want %x", got, want)
	}
}

func TestReadsWhatWasWritten(t *testing.T) {
	when := time.Date(1969, 12, 31, 23, 59, 59, 999999999, time.UTC)
	var b Buffer
	for _, v := range []uint64{0, 1, 127, 128, math.MaxUint64} {
		b.Uint(v)
	}
	for _, v := range []int64{0, -1, math.MinInt64, math.MaxInt64} {
		b.Int(v)
	}
	b.Text("")
	b.Sum([32]byte{1, 31: 2})
	b.Time(when)
	b.Float(math.Inf(-1))
	b.Bool(false)
	r := NewReader(b)
	for _, want := range []uint64{0, 1, 127, 128, math.MaxUint64} {
		if got := r.Uint(); got != want {
			t.Errorf("uint %d, want %d", got, want)
		}
	}
	for _, want := range []int64{0, -1, math.MinInt64, math.MaxInt64} {
		if got := r.Int(); got != want {
			t.Errorf("int %d, want %d", got, want)
		}
	}
	if s, sum, at, f, no := r.Text(), r.Sum(), r.Time(), r.Float(), r.Bool(); s != "" || sum != [32]byte{1, 31: 2} || at != when || !math.IsInf(f, -1) || no {
		t.Errorf("%q %x %v %g %v", s, sum, at, f, no)
	}
	if err := r.End(); err != nil {
		t.Error(err)
	}
}

// Nothing that was cut, lengthened or is not in the shortest form passes.
func TestRefuses(t *testing.T) {
	read := func(r *Reader) {
		r.Text()
		for range r.Count(32) {
			r.Sum()
		}
		r.Bool()
	}
	var b Buffer
	b.Text("text")
	b.Uint(2)
	b.Sum([32]byte{})
	b.Sum([32]byte{})
	b.Bool(true)
	r := NewReader(b)
	if read(r); r.End() != nil {
		t.Fatal("the whole is refused")
	}
	bad := [][]byte{append(b[:len(b):len(b)], 0), append(b[:len(b)-1:len(b)-1], 2), {0x84, 0x00}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}}
	for n := range b {
		bad = append(bad, b[:n])
	}
	for _, c := range bad {
		r := NewReader(c)
		if read(r); r.End() == nil {
			t.Errorf("%x passes", c)
		}
	}
}
