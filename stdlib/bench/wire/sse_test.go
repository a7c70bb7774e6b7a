package wire

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// events cuts text into events, fed in pieces of n bytes (0: at once), and
// shows each as name|data.
func events(t *testing.T, text string, n int) (out []string, open bool) {
	t.Helper()
	if n == 0 {
		n = max(len(text), 1)
	}
	var f framer
	for piece := range slices.Chunk([]byte(text), n) {
		if err := f.feed(piece, func(name, data []byte) { out = append(out, string(name)+"|"+string(data)) }); err != nil {
			t.Fatal(err)
		}
	}
	return out, f.open()
}

// TestFraming has the forms of the event stream standard (WHATWG HTML 9.2),
// among them its own examples.
func TestFraming(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
		open       bool
	}{
		{"lf", "data: a\n\ndata: b\n\n", []string{"|a", "|b"}, false},
		{"crlf", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}, false},
		{"cr", "data: a\r\rdata: b\r\r", []string{"|a", "|b"}, false},
		{"mixed", "data: a\r\n\ndata: b\n\r\n", []string{"|a", "|b"}, false},
		{"no_space", "data:a\n\n", []string{"|a"}, false},
		{"one_space_only", "data:  a \n\n", []string{"| a "}, false},
		{"two_lines", "data: YHOO\ndata: +2\ndata: 10\n\n", []string{"|YHOO\n+2\n10"}, false},
		{"field_without_colon", "data\n\ndata\ndata\n\ndata:", []string{"|", "|\n"}, true},
		{"comments", ": ping\n\n:\n\ndata: a\n: in between\ndata: b\n\n", []string{"|a\nb"}, false},
		{"name", "event: error\ndata: a\n\ndata: b\n\n", []string{"error|a", "|b"}, false},
		{"name_without_data", "event: x\n\ndata: b\n\n", []string{"|b"}, false},
		{"other_fields", "id: 1\nretry: 5\nfoo: x\ndata: a\n\n", []string{"|a"}, false},
		{"field_names_are_exact", "Data: x\n data: y\ndata : z\n\n", nil, false},
		{"mark", "\uFEFFdata: a\n\n", []string{"|a"}, false},
		{"mark_only_at_the_start", "\n\uFEFFdata: a\n\n", nil, false},
		{"colons_in_data", "data: {\"a\":1}\n\n", []string{`|{"a":1}`}, false},
		{"unfinished_event", "data: a\n\ndata: b\n", []string{"|a"}, true},
		{"unfinished_line", "data: a\n\nda", []string{"|a"}, true},
		{"empty_lines", "\n\n\r\n\r\r", nil, false},
		{"nothing", "", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{0, 1, 2, 7} {
				got, open := events(t, c.text, n)
				if !slices.Equal(got, c.want) || open != c.open {
					t.Errorf("in pieces of %d: %q open %v, want %q open %v", n, got, open, c.want, c.open)
				}
			}
		})
	}
}

// TestHugeEventIsRefused feeds an event without end.
func TestHugeEventIsRefused(t *testing.T) {
	a := NewAnswer(Completions, nil, 0)
	piece := bytes.Repeat([]byte("data: "), 1<<18)
	for i := range 20 {
		if _, ok := a.Feed(0, piece); !ok {
			if i*len(piece) > maxEvent {
				t.Errorf("refused only after %d bytes", i*len(piece))
			}
			if f := a.Verdict(1, 1, true); f.Class != "bad_stream" || !strings.Contains(f.Reason, "more than 16777216 bytes") {
				t.Errorf("failure is %+v", f)
			}
			return
		}
	}
	t.Error("never refused")
}

// FuzzSSE checks that no split of a stream changes its events.
func FuzzSSE(f *testing.F) {
	f.Add("data: a\r\n\r\ndata: b\n\n: c\n\n", uint8(1), uint8(3))
	f.Add("\uFEFFdata:a\rdata\r\revent: e\ndata: b\n\n", uint8(2), uint8(5))
	files, err := filepath.Glob("../testdata/*/*stream*.http")
	if err != nil || len(files) == 0 {
		f.Fatalf("%d captures, %v", len(files), err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b[:min(len(b), 4096)]), uint8(7), uint8(64))
	}
	f.Fuzz(func(t *testing.T, text string, n, m uint8) {
		want, open := events(t, text, 0)
		for _, n := range []int{int(n), int(m), 1} {
			got, openToo := events(t, text, n)
			if !slices.Equal(got, want) || open != openToo {
				t.Fatalf("in pieces of %d: %q open %v; at once: %q open %v", n, got, openToo, want, open)
			}
		}
		for _, e := range want {
			if strings.ContainsRune(e, '\r') {
				t.Fatalf("a line end inside the event %q", e)
			}
		}
	})
}
