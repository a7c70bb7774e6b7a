// Package journal is an append-only file of checksummed frames. It knows kinds
// as numbers and payloads as bytes, not what they mean.
//
// A frame that was appended is on the disk when Append returns. What is not a
// whole frame – torn by a crash, flipped by a disk – is told apart from what
// is, and the frames after it are still found. Writer has one owner at a time
// (the caller's lock); any number of readers may Scan a prefix meanwhile.
package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cespare/xxhash/v2"
)

// A journal is a sequence of frames and nothing else, all little-endian:
//
//	4 bytes mark, u32 length of the payload, u16 version, u16 kind,
//	payload, u64 XXH64 of everything before it
//
// The mark holds bytes that no UTF-8 text has, so that after a damaged frame
// the next whole one can be found again, and an empty file is an empty journal.
const (
	headSize = 12
	sumSize  = 8
	// maxPayload bounds what a damaged length can make us read.
	maxPayload = 64 << 20
)

// Version is the version that Append writes.
const Version = 1

var frameMark = []byte{0xf5, 'S', 'B', 0xff}

// Frame is one whole frame of a journal.
type Frame struct {
	Span    Span
	Version uint16
	Kind    uint16
	Payload []byte // of a scan: valid until the next frame
}

// Span is a stretch of a journal in bytes, [From, To).
type Span struct{ From, To int64 }

// Empty reports whether there is nothing in it.
func (s Span) Empty() bool { return s.From == s.To }

// Scan visits the whole frames of the first size bytes in order. gap is called
// for what stands between them and is none; what stands after the last one is
// the tail: cut by a crash, or being written right now.
func Scan(r io.ReaderAt, size int64, visit func(Frame), gap func(Span)) (tail Span, err error) {
	s := scanner{r: r, size: size, chunk: scanChunk, end: size}
	for {
		f, bad, err := s.scan()
		if err != nil || f.Span.Empty() {
			return bad, err
		}
		if !bad.Empty() {
			gap(bad)
		}
		visit(f)
	}
}

// Read returns the frame at a span that a scan or Append gave.
func Read(r io.ReaderAt, at Span) (Frame, error) {
	s := scanner{r: r, chunk: 1, end: at.To}
	return s.read(at)
}

func (s *scanner) read(at Span) (Frame, error) {
	s.size = at.To
	f, err := s.frameAt(at.From)
	if err == nil && f.Span.Empty() {
		err = fmt.Errorf("reading journal at byte %d: its checksum does not fit", at.From)
	}
	if err != nil {
		return Frame{}, err
	}
	return f, nil
}

// Reader reads frames at spans. It is fastest for spans one after the other,
// which it reads ahead. It is not safe for concurrent use.
type Reader struct {
	s    scanner
	last int64 // where the last frame ended
}

// NewReader reads frames of r.
func NewReader(r io.ReaderAt) *Reader { return &Reader{s: scanner{r: r, chunk: 1}} }

// ahead is how far a frame may lie behind the last one to be read with what
// comes after it.
const ahead = 64 << 10

// Read returns the frame at a span, valid until the next call. Nothing at or
// after end is read: a writer may be at it.
func (r *Reader) Read(at Span, end int64) (Frame, error) {
	r.s.chunk, r.s.end = 1, end
	if at.From >= r.last && at.From-r.last < ahead {
		r.s.chunk = ahead
	}
	r.last = at.To
	return r.s.read(at)
}

// Writer appends frames to a file. The zero Writer is not usable. It is not
// safe for concurrent use.
type Writer struct {
	f      *os.File
	end    int64
	failed error // why nothing more can be written
}

// NewWriter appends to f from end on, which is the end of its last whole
// frame. What stands there is cut off. The caller closes f.
func NewWriter(f *os.File, end int64) (*Writer, error) {
	if err := errors.Join(f.Truncate(end), f.Sync()); err != nil {
		return nil, fmt.Errorf("cutting the journal at byte %d: %w", end, err)
	}
	return &Writer{f: f, end: end}, nil
}

// Append adds a frame and returns where it stands, after it is on the disk.
// After an error the journal is as before; where that is not certain every
// later Append is an error too.
func (w *Writer) Append(kind uint16, payload []byte) (Span, error) {
	at, err := w.Add(kind, payload)
	if err == nil {
		err = w.Sync()
	}
	if err != nil {
		return Span{}, err
	}
	return at, nil
}

// Add is Append without waiting for the disk: the frame is there for good after
// the next Sync.
func (w *Writer) Add(kind uint16, payload []byte) (Span, error) {
	if w.failed != nil {
		return Span{}, w.failed
	}
	if len(payload) > maxPayload {
		return Span{}, fmt.Errorf("writing the journal: an entry of %d bytes is over the bound of %d; large data belongs into outputs", len(payload), maxPayload)
	}
	b := encode(kind, payload)
	if _, err := w.f.WriteAt(b, w.end); err != nil {
		// A part of it may be there. It must not stay before the next frame.
		if cut := w.f.Truncate(w.end); cut != nil {
			w.failed = fmt.Errorf("the journal could not be cut back after a failed write; open the store again: %w", cut)
		}
		return Span{}, errors.Join(fmt.Errorf("writing the journal: %w", err), w.failed)
	}
	at := Span{w.end, w.end + int64(len(b))}
	w.end = at.To
	return at, nil
}

// Sync waits until what was added is on the disk.
func (w *Writer) Sync() error {
	if w.failed != nil {
		return w.failed
	}
	if err := w.f.Sync(); err != nil {
		// What is on the disk is unknown now, and a second sync may wrongly
		// report success.
		w.failed = fmt.Errorf("syncing the journal; open the store again: %w", err)
	}
	return w.failed
}

func encode(kind uint16, payload []byte) []byte {
	return AppendFrame(make([]byte, 0, headSize+len(payload)+sumSize), kind, payload)
}

// AppendFrame adds a frame to bytes that hold whole frames, for a journal that
// is written anew.
func AppendFrame(b []byte, kind uint16, payload []byte) []byte {
	start := len(b)
	b = append(b, frameMark...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint16(b, Version)
	b = binary.LittleEndian.AppendUint16(b, kind)
	b = append(b, payload...)
	return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b[start:]))
}

// scanner finds the whole frames of the first size bytes of a journal.
type scanner struct {
	r    io.ReaderAt
	size int64
	next int64 // where the next frame should begin
	// chunk is how much is read at once, if it lies before end.
	chunk, end int64

	buf   []byte // the bytes from start on
	start int64
}

// scan returns the next whole frame, and the bytes before it that are none.
// At the end the frame is zero, and what is left of the journal is in bad.
func (s *scanner) scan() (f Frame, bad Span, err error) {
	from := s.next
	for at := from; ; {
		f, err := s.frameAt(at)
		if err != nil {
			return Frame{}, Span{}, err
		}
		if !f.Span.Empty() {
			s.next = f.Span.To
			return f, Span{from, at}, nil
		}
		if at, err = s.mark(at + 1); err != nil {
			return Frame{}, Span{}, err
		}
		if at >= s.size {
			s.next = s.size
			return Frame{}, Span{from, s.size}, nil
		}
	}
}

// frameAt returns the frame that begins at off, zero if there is no whole one.
func (s *scanner) frameAt(off int64) (Frame, error) {
	head, err := s.bytes(off, headSize)
	if err != nil || head == nil || !bytes.HasPrefix(head, frameMark) {
		return Frame{}, err
	}
	n := int64(binary.LittleEndian.Uint32(head[4:]))
	if n > maxPayload {
		return Frame{}, nil
	}
	size := headSize + n + sumSize
	b, err := s.bytes(off, size)
	if err != nil || b == nil {
		return Frame{}, err
	}
	if xxhash.Sum64(b[:size-sumSize]) != binary.LittleEndian.Uint64(b[size-sumSize:]) {
		return Frame{}, nil
	}
	return Frame{Span{off, off + size}, binary.LittleEndian.Uint16(b[8:]), binary.LittleEndian.Uint16(b[10:]),
		b[headSize : size-sumSize]}, nil
}

// mark finds the next frame mark at or after off; the size if there is none.
func (s *scanner) mark(off int64) (int64, error) {
	for off < s.size {
		n := min(scanChunk, s.size-off)
		b, err := s.bytes(off, n)
		if err != nil {
			return 0, err
		}
		if i := bytes.Index(b, frameMark); i >= 0 {
			return off + int64(i), nil
		}
		if off+n == s.size {
			break
		}
		off += n - int64(len(frameMark)) + 1 // a mark may lie across the border
	}
	return s.size, nil
}

const scanChunk = 1 << 20

// bytes returns n bytes from off, nil if the journal ends before. They are
// valid until the next call.
func (s *scanner) bytes(off, n int64) ([]byte, error) {
	if off+n > s.size {
		return nil, nil
	}
	if off < s.start || off+n > s.start+int64(len(s.buf)) {
		want := max(n, min(s.chunk, s.end-off))
		if int64(cap(s.buf)) < want {
			s.buf = make([]byte, want)
		}
		s.buf, s.start = s.buf[:want], off
		if _, err := s.r.ReadAt(s.buf, off); err != nil {
			s.buf = s.buf[:0]
			return nil, fmt.Errorf("reading journal at byte %d: %w", off, err)
		}
	}
	return s.buf[off-s.start:][:n], nil
}
