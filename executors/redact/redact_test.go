package redact

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func find(t *testing.T) Secrets {
	t.Setenv("LONG", "token-123456")
	t.Setenv("SHORT", "token-1")
	s, err := Find([]string{"SHORT", "LONG"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Whatever the borders of the chunks are, the text is the same.
func TestCopyAtEveryBorder(t *testing.T) {
	s := find(t)
	text := "a token-123456 b token-1 token-12345 token-toktoken-123456 end tok"
	want := "a [LONG redacted] b [SHORT redacted] [SHORT redacted]2345 token-tok[LONG redacted] end tok"
	for i := range text {
		for j := i; j <= len(text); j++ {
			var out bytes.Buffer
			r := io.MultiReader(strings.NewReader(text[:i]), strings.NewReader(text[i:j]), strings.NewReader(text[j:]))
			if err := s.Copy(&out, r); err != nil || out.String() != want {
				t.Fatalf("cut at %d and %d: %q, %v; want %q", i, j, out.String(), err, want)
			}
		}
	}
	if got := s.Text(text); got != want {
		t.Errorf("in one piece: %q, want %q", got, want)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestFullDiskDoesNotStopTheReading(t *testing.T) {
	r := strings.NewReader(strings.Repeat("x", 1<<20))
	if err := find(t).Copy(full{}, r); err == nil || err.Error() != "disk full" {
		t.Errorf("the error is %v", err)
	}
	if r.Len() != 0 {
		t.Errorf("%d bytes were not read", r.Len())
	}
}

func TestFindRefuses(t *testing.T) {
	t.Setenv("TINY", "abc")
	_, err := Find([]string{"TINY", "NOT_SET"})
	if err == nil || !strings.Contains(err.Error(), "TINY has 3 bytes") || !strings.Contains(err.Error(), "NOT_SET is not set") {
		t.Errorf("the error is %v", err)
	}
}

func TestSinkDoesNotWaitForWhoeverHoldsThePipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	k, err := find(t).Open(path)
	if err != nil {
		t.Fatal(err)
	}
	k.Child.WriteString("so far token-123456\n")
	if err := k.Finish(50 * time.Millisecond); err != nil { // the write end is still open
		t.Error(err)
	}
	k.Handed()
	if got, err := os.ReadFile(path); string(got) != "so far [LONG redacted]\n" {
		t.Errorf("the file holds %q, %v", got, err)
	}
}
