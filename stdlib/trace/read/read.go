// Package read turns a torch-profiler Chrome trace into columns: GPU events,
// runtime calls, operators, Python frames, annotations. It streams: memory
// grows with the records that are kept, never with the file. Times are integer
// nanoseconds taken from the decimal text.
//
// It knows the file format and its damages, and nothing about stages, kernel
// names or layers. Odd input is read as far as it can be: what was lost is
// counted in Counts and said in Counts.Warnings. Only a file that is no trace
// is an error (ErrNoTrace). A Trace has one reader that builds it and is
// immutable afterwards, so it may be shared.
package read

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/klauspost/compress/gzip"

	"github.com/sotabuild/sotabuild/stdlib/trace/scan"
)

// ErrNoTrace is the error of a file that holds no trace events.
var ErrNoTrace = errors.New("no torch-profiler trace")

// Options of a reading. The zero value works.
type Options struct {
	// Progress, when not nil, is called about every 16 MiB with the bytes of the
	// file taken so far and its size (0 when unknown).
	Progress func(done, size int64)
}

// File reads the trace at path. It blocks until the file is read or ctx ends.
func File(ctx context.Context, path string, o Options) (*Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%q is a folder, not a trace", path)
	}
	sum := sha256.New()
	in := &meter{ctx: ctx, r: io.TeeReader(f, sum), size: info.Size(), report: o.Progress}
	t, err := Read(in, path)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return nil, fmt.Errorf("reading %q: %w", path, err)
	}
	t.Meta.SHA256 = hex.EncodeToString(sum.Sum(nil))
	t.Meta.Packed = in.done
	return t, nil
}

// meter counts bytes, reports progress and ends the reading with its context.
type meter struct {
	ctx          context.Context // of the one call that made the meter
	r            io.Reader
	done, size   int64
	lastReported int64
	report       func(done, size int64)
}

func (m *meter) Read(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.r.Read(p)
	m.done += int64(n)
	if m.report != nil && m.done-m.lastReported >= 16<<20 {
		m.lastReported = m.done
		m.report(m.done, m.size)
	}
	return n, err
}

// Read reads a trace from r, gzip or plain, whatever the name says. The name
// only appears in messages and in Meta.
func Read(r io.Reader, name string) (*Trace, error) {
	plain, err := inflate(r)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", name, err)
	}
	b := newBuilder(name, scan.NewWindow(plain))
	if err := b.file(); err != nil {
		return nil, fmt.Errorf("reading %q: %w", name, err)
	}
	if err := b.drain(); err != nil {
		return nil, fmt.Errorf("reading %q: %w", name, err)
	}
	return b.finish()
}

// drain reads what follows the last bracket: a damaged end of a gzip file
// shows only there, and a second document would be lost in silence.
func (b *builder) drain() error {
	if b.t.Counts.Partial {
		return nil // said already
	}
	extra := false
	for {
		_, err := b.w.Peek()
		if err == nil {
			extra = true
			b.w.Advance(len(b.w.Rest()))
			continue
		}
		if extra {
			b.warn("Bytes after the end of the JSON document were not read.")
		}
		if err == io.EOF {
			return nil
		}
		return b.cut(err, "after the events")
	}
}

// inflate looks at the first two bytes, because extensions lie.
func inflate(r io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(r, 256<<10)
	head, err := in.Peek(2)
	if len(head) == 0 && err == io.EOF {
		return nil, fmt.Errorf("%w: the file is empty", ErrNoTrace)
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(head) < 2 || head[0] != 0x1f || head[1] != 0x8b {
		return in, nil
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("%w: damaged gzip header: %w", ErrNoTrace, err)
	}
	return z, nil
}

// file reads the top level: an object with traceEvents among other keys in any
// order, or a bare array of events.
func (b *builder) file() error {
	w := b.w
	if err := w.More(); err != nil && !ended(err) {
		return err
	}
	if bytes.HasPrefix(w.Rest(), []byte("\xef\xbb\xbf")) {
		w.Advance(3)
	}
	// A Perfetto trace begins with a field tag that looks like a newline, and a
	// length.
	if r := w.Rest(); len(r) > 1 && r[0] == 0x0a && !bytes.ContainsRune([]byte(" \n\t\r{["), rune(r[1])) {
		return fmt.Errorf("%w: this looks like a Perfetto protobuf; export it as Chrome JSON", ErrNoTrace)
	}
	c, err := w.Peek()
	if err != nil {
		return b.noTrace(err, "it holds no JSON")
	}
	switch c {
	case '[':
		w.Advance(1)
		return b.events(true)
	case '{':
		w.Advance(1)
		return b.object()
	}
	return fmt.Errorf("%w: it begins with %q, a trace begins with { or [", ErrNoTrace, c)
}

func (b *builder) object() error {
	for {
		c, err := b.w.Peek()
		if err != nil {
			if !b.seen {
				return b.noTrace(err, "it ends before traceEvents")
			}
			return b.cut(err, "after traceEvents, inside the metadata")
		}
		switch c {
		case ',':
			b.w.Advance(1)
			continue
		case '}':
			b.w.Advance(1)
			if !b.seen {
				return fmt.Errorf("%w: the object has no traceEvents", ErrNoTrace)
			}
			return nil
		case '"':
		default:
			if !b.seen {
				return fmt.Errorf("%w: a key is expected at byte %d, not %q", ErrNoTrace, b.w.Offset(), c)
			}
			b.warn("The metadata after traceEvents is broken at byte %d; it was not read further.", b.w.Offset())
			return nil
		}
		if err := b.key(); err != nil {
			return err
		}
	}
}

func (b *builder) key() error {
	quoted, err := b.w.Value()
	if err != nil {
		return b.noTrace(err, "it ends inside a key")
	}
	key := string(scan.Unquote(quoted))
	if c, err := b.w.Peek(); err != nil || c != ':' {
		return b.noTrace(err, fmt.Sprintf("the key %q has no value", key))
	}
	b.w.Advance(1)
	if key == "traceEvents" {
		c, err := b.w.Peek()
		if err != nil || c != '[' {
			return b.noTrace(err, "traceEvents is no array")
		}
		b.w.Advance(1)
		return b.events(false)
	}
	value, err := b.w.Value()
	if errors.Is(err, scan.ErrTooLong) {
		b.warn("The metadata %q is longer than %d MiB and was skipped.", key, scan.MaxEvent>>20)
		err = b.w.SkipValue()
	}
	if err != nil {
		if b.seen {
			return b.cut(err, fmt.Sprintf("inside the metadata %q", key))
		}
		return b.noTrace(err, fmt.Sprintf("it ends inside %q, before traceEvents", key))
	}
	b.meta(key, value)
	return nil
}

// events reads the elements of the array until its bracket. A bare array may
// legally miss it.
func (b *builder) events(bare bool) error {
	b.seen = true
	w := b.w
	for {
		c, err := w.Peek()
		if err != nil {
			if bare && err == io.EOF {
				return nil
			}
			return b.cut(err, "inside traceEvents")
		}
		switch c {
		case ',':
			w.Advance(1)
			continue
		case ']':
			w.Advance(1)
			return nil
		case '{':
		default:
			if err := b.resync(); err != nil {
				return b.cut(err, "after a broken event")
			}
			continue
		}
		n, st := b.ev.Scan(w.Rest())
		switch st {
		case scan.Complete:
			b.add(&b.ev)
			w.Advance(n)
			continue
		case scan.Broken:
			err = b.resync()
		case scan.Short:
			if err = w.More(); errors.Is(err, scan.ErrTooLong) {
				b.t.Counts.TooLong++
				err = w.SkipValue()
			}
		}
		if err != nil {
			return b.cut(err, "inside an event")
		}
	}
}

// resync leaves a broken event for the next place where one begins as the
// first event of the file did.
func (b *builder) resync() error {
	b.t.Counts.Broken++
	b.w.Advance(1)
	if b.t.Counts.Broken > 100 && b.t.Counts.Broken*20 > b.t.Counts.Events {
		return fmt.Errorf("more than 5%% of the events are broken")
	}
	for {
		rest := b.w.Rest()
		for i := 0; i < len(rest); i++ {
			n := bytes.IndexByte(rest[i:], '{')
			if n < 0 {
				break
			}
			i += n
			j := scan.Space(rest, i+1)
			if j+4 > len(rest) {
				break
			}
			if string(rest[j:j+4]) == `"ph"` || string(rest[j:j+4]) == `"nam` || string(rest[j:j+4]) == `"cat` {
				b.w.Advance(i)
				return nil
			}
		}
		// The last bytes may hold the beginning of an event.
		if keep := min(len(rest), 64); len(rest) > keep {
			b.w.Advance(len(rest) - keep)
		}
		if err := b.w.More(); err != nil {
			return err
		}
	}
}

// cut records that the file ends early. What was read stays.
func (b *builder) cut(err error, where string) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	b.t.Counts.Partial = true
	why := "the file ends"
	if !ended(err) {
		why = "reading stopped (" + err.Error() + ")"
	}
	b.warn("Partial: %s %s after %d events and %d bytes of JSON.", why, where, b.t.Counts.Events, b.w.Total())
	return nil
}

func (b *builder) noTrace(err error, what string) error {
	if err != nil && !ended(err) {
		return fmt.Errorf("%w: %s: %w", ErrNoTrace, what, err)
	}
	return fmt.Errorf("%w: %s", ErrNoTrace, what)
}

// ended reports whether err is an end of data, early or not.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// finish sorts, checks and freezes.
func (b *builder) finish() (*Trace, error) {
	t := b.t
	if t.Counts.Events == 0 && t.Counts.Broken+t.Counts.TooLong > 0 {
		return nil, fmt.Errorf("reading %q: %w: none of %d elements is an event", t.Meta.Path, ErrNoTrace, t.Counts.Broken+t.Counts.TooLong)
	}
	for k, n := range b.kinds {
		t.Counts.ByKind = append(t.Counts.ByKind, KindCount{Cat: k.cat, Phase: k.phase, N: *n})
	}
	slices.SortFunc(t.Counts.ByKind, func(a, b KindCount) int {
		return cmp.Or(cmp.Compare(a.Cat, b.Cat), cmp.Compare(a.Phase, b.Phase))
	})
	slices.SortStableFunc(t.GPU, func(a, b GPU) int { return cmp.Compare(a.Start, b.Start) })
	b.clip()
	t.Meta.Raw = b.w.Total()
	b.say()
	return t, nil
}

// longest is the longest duration that is believed. ROCm writes durations that
// overflowed; no kernel runs for an hour.
const longest = int64(3600e9)

// clip cuts impossible durations at the next start on the same stream.
func (b *builder) clip() {
	next := map[[2]int32]int64{}
	for i := len(b.t.GPU) - 1; i >= 0; i-- {
		g := &b.t.GPU[i]
		key := [2]int32{g.Device, g.Stream}
		if g.Dur > longest {
			b.t.Counts.Clipped++
			if start, ok := next[key]; ok {
				g.Dur = start - g.Start
			} else {
				g.Dur = 0
			}
		}
		next[key] = g.Start
	}
}

// say turns the counters into sentences.
func (b *builder) say() {
	c := &b.t.Counts
	for _, s := range []struct {
		n    int
		text string
	}{
		{c.Broken, "%d elements were no events and were skipped."},
		{c.TooLong, "%d events were longer than 16 MiB and were skipped."},
		{c.NoTime, "%d events had no usable ts or dur and were left out."},
		{c.Negative, "%d negative durations were taken as 0."},
		{c.Clipped, "%d durations over an hour were cut at the next start on their stream."},
	} {
		if s.n > 0 {
			b.warn(s.text, s.n)
		}
	}
	if b.t.Names.Full() {
		b.warn("The table of names is full; later names are shown as %q.", noRoom)
	}
}

func (b *builder) warn(format string, args ...any) {
	b.t.Counts.Warnings = append(b.t.Counts.Warnings, fmt.Sprintf(format, args...))
}
