package journal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// found is what a scan says of some bytes.
type found struct {
	Frames []Frame
	Gaps   []Span
	Tail   Span
}

func scan(t testing.TB, b []byte) (f found) {
	t.Helper()
	tail, err := Scan(bytes.NewReader(b), int64(len(b)), func(fr Frame) {
		fr.Payload = bytes.Clone(fr.Payload)
		f.Frames = append(f.Frames, fr)
	}, func(s Span) { f.Gaps = append(f.Gaps, s) })
	must(t, err)
	f.Tail = tail
	return f
}

// TestFrameIsPinned compares with bytes put together by hand: mark, length 2,
// version 1, kind 3, "hi", and the XXH64 of these 14 bytes with seed 0.
func TestFrameIsPinned(t *testing.T) {
	const want = "f55342ff" + "02000000" + "0100" + "0300" + "6869" + "a05903960d0896c9"
	if got := hex.EncodeToString(encode(3, []byte("hi"))); got != want {
		t.Errorf("frame %s, want %s", got, want)
	}
}

func TestAppendAndScan(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "journal"))
	must(t, err)
	defer f.Close()
	w, err := NewWriter(f, 0)
	must(t, err)
	payloads := [][]byte{[]byte("one"), {}, bytes.Repeat([]byte("x"), 3<<20), frameMark, encode(7, []byte("a frame within")), []byte("last")}
	var want []Frame
	for i, p := range payloads {
		at, err := w.Append(uint16(i), p)
		must(t, err)
		want = append(want, Frame{at, Version, uint16(i), p})
		got, err := Read(f, at)
		must(t, err)
		if !reflect.DeepEqual(want[i], got) {
			t.Fatalf("frame %d read back: %v, kind %d, %d bytes", i, got.Span, got.Kind, len(got.Payload))
		}
	}
	b, err := os.ReadFile(f.Name())
	must(t, err)
	got := scan(t, b)
	if !reflect.DeepEqual(want, got.Frames) || got.Gaps != nil || !got.Tail.Empty() || got.Tail.From != int64(len(b)) {
		t.Errorf("%d frames, gaps %v, tail %v of %d", len(got.Frames), got.Gaps, got.Tail, len(b))
	}
	if _, err := Read(f, Span{1, 40}); err == nil {
		t.Error("read a frame where none is")
	}
}

// TestFramesAfterDamageAreFound breaks the first of two frames so that the
// second begins on either side of every border the scanner reads up to.
func TestFramesAfterDamageAreFound(t *testing.T) {
	second := encode(2, []byte("second"))
	for d := -8; d <= 8; d++ {
		first := encode(1, make([]byte, scanChunk-headSize-sumSize+d))
		for _, at := range []int{0, 4, 7, 8, headSize, len(first) - 1} {
			b := append(bytes.Clone(first), second...)
			b[at] ^= 0x81
			got := scan(t, b)
			want := found{Frames: []Frame{{Span{int64(len(first)), int64(len(b))}, Version, 2, []byte("second")}},
				Gaps: []Span{{0, int64(len(first))}}, Tail: Span{int64(len(b)), int64(len(b))}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("border %+d, byte %d:\n%.500s", d, at, diff)
			}
		}
	}
}

func TestGapsAndTails(t *testing.T) {
	one, two := encode(1, []byte("one")), encode(2, []byte("two"))
	n := int64(len(one))
	for name, c := range map[string]struct {
		bytes  string
		frames int
		gaps   []Span
		tail   Span
	}{
		"empty":            {"", 0, nil, Span{0, 0}},
		"noise":            {"no frame here", 0, nil, Span{0, 13}},
		"zeros":            {string(one) + strings.Repeat("\x00", 512), 1, nil, Span{n, n + 512}},
		"mark only":        {string(one) + string(frameMark), 1, nil, Span{n, n + 4}},
		"noise between":    {string(one) + "noise" + string(two), 2, []Span{{n, n + 5}}, Span{2*n + 5, 2*n + 5}},
		"noise before":     {"noise" + string(one), 1, []Span{{0, 5}}, Span{n + 5, n + 5}},
		"torn in between":  {string(one[:9]) + string(two), 1, []Span{{0, 9}}, Span{n + 9, n + 9}},
		"huge length":      {string(frameMark) + "\xff\xff\xff\xff" + string(two), 1, []Span{{0, 8}}, Span{n + 8, n + 8}},
		"several, one gap": {string(one[:9]) + string(frameMark) + "x" + string(two), 1, []Span{{0, 14}}, Span{n + 14, n + 14}},
	} {
		got := scan(t, []byte(c.bytes))
		if len(got.Frames) != c.frames || got.Tail != c.tail {
			t.Errorf("%s: %d frames, tail %v, want %d, %v", name, len(got.Frames), got.Tail, c.frames, c.tail)
		}
		if diff := cmp.Diff(c.gaps, got.Gaps); diff != "" {
			t.Errorf("%s: gaps\n%s", name, diff)
		}
	}
}

func TestWriterCutsTheTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	one := encode(1, []byte("one"))
	must(t, os.WriteFile(path, append(bytes.Clone(one), "torn"...), 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	w, err := NewWriter(f, int64(len(one)))
	must(t, err)
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, one) {
		t.Errorf("before the first append: %q, %v", b, err)
	}
	if _, err := w.Append(2, make([]byte, maxPayload+1)); err == nil || !strings.Contains(err.Error(), "over the bound") {
		t.Errorf("a payload over the bound: %v", err)
	}
	_, err = w.Append(2, []byte("two"))
	must(t, err)
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, append(one, encode(2, []byte("two"))...)) {
		t.Errorf("after it: %q, %v", b, err)
	}
}

// TestWriterThatCannotWrite: after an error of unknown extent nothing more may
// be acknowledged.
func TestWriterThatCannotWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	f, err := os.Create(path)
	must(t, err)
	w, err := NewWriter(f, 0)
	must(t, err)
	must(t, f.Close())
	_, first := w.Append(1, []byte("x"))
	_, second := w.Append(1, []byte("x"))
	if !errors.Is(first, os.ErrClosed) || second == nil || !strings.Contains(second.Error(), "open the store again") {
		t.Errorf("first %v, second %v", first, second)
	}
	if _, err := NewWriter(f, 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a writer on a closed file: %v", err)
	}
}

type failing struct{ io.ReaderAt }

func (failing) ReadAt([]byte, int64) (int, error) { return 0, errors.New("input/output error") }

func TestUnreadableJournalIsAnError(t *testing.T) {
	_, err := Scan(failing{}, 100, func(Frame) { t.Error("a frame") }, func(Span) { t.Error("a gap") })
	if err == nil || !strings.Contains(err.Error(), "input/output error") {
		t.Errorf("got %v", err)
	}
}

// FuzzScan puts noise and frames together. Every frame must be found, unless
// the noise before it holds the mark; frames and gaps must tile the journal.
func FuzzScan(f *testing.F) {
	f.Add([]byte("noise"), []byte("payload"), uint64(1))
	f.Add(encode(1, []byte("whole"))[:9], encode(1, []byte("inner")), uint64(2))
	f.Add([]byte{0xf5, 'S', 'B', 0xff, 255, 255, 255, 255}, []byte{}, uint64(3))
	f.Fuzz(func(t *testing.T, noise, payload []byte, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var b []byte
		put := 0
		for range rng.IntN(5) {
			if rng.IntN(2) == 0 {
				b = append(b, noise...)
			}
			b = append(b, encode(uint16(rng.IntN(4)), payload)...)
			put++
		}
		b = append(b, noise[:rng.IntN(len(noise)+1)]...)
		got := scan(t, b)
		at, gaps := int64(0), got.Gaps
		for _, fr := range got.Frames {
			if len(gaps) > 0 && gaps[0].From == at {
				at, gaps = gaps[0].To, gaps[1:]
			}
			if fr.Span.From != at || !bytes.Equal(encode(fr.Kind, fr.Payload), b[fr.Span.From:fr.Span.To]) && fr.Version == Version {
				t.Fatalf("frame at %v, expected at %d", fr.Span, at)
			}
			at = fr.Span.To
		}
		if len(gaps) != 0 || got.Tail != (Span{at, int64(len(b))}) {
			t.Fatalf("gaps left %v, tail %v, scanned to %d of %d", gaps, got.Tail, at, len(b))
		}
		if !bytes.Contains(noise, frameMark) && len(got.Frames) < put {
			t.Fatalf("%d frames of %d found", len(got.Frames), put)
		}
	})
}
