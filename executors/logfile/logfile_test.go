package logfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// write appends numbered lines of 100 bytes, as a server does by its own
// descriptor, and keeps the bound after each.
func write(t *testing.T, b *Bound, out *os.File, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if _, err := fmt.Fprintf(out, "%-99d\n", i); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 0 {
			if err := b.Keep(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestBeginningAndEndStay: of 40 MB a log of 1 MiB keeps its first quarter and
// at least its last half to the byte, and says how much is missing; on the disk
// it never holds much more than its bound.
func TestBeginningAndEndStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.log")
	b := New(path, 1<<20)
	if err := b.Keep(); err != nil {
		t.Fatalf("before the log is there: %v", err)
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	const lines = 400_000
	var whole bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&whole, "%-99d\n", i)
	}
	for at := 0; at < lines; at += lines / 10 {
		write(t, b, out, at, at+lines/10)
		info, err := out.Stat()
		if err != nil {
			t.Fatal(err)
		}
		// 1,000 lines come between two looks, and a block is not halved.
		if used := info.Sys().(*syscall.Stat_t).Blocks * 512; used > 1<<20+100_000+2*block {
			t.Errorf("after %d lines it holds %d bytes of the disk", at, used)
		}
		if want := int64(at+lines/10) * 100; info.Size() != want {
			t.Errorf("offsets moved: size %d, want %d", info.Size(), want)
		}
	}
	missing, err := b.Close()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := bytes.Cut(got, []byte("\n["))
	line, tail, ok2 := bytes.Cut(rest, []byte("]\n"))
	if want := fmt.Sprintf("%d bytes of this log are left out here: it was longer than 1048576", missing); !ok || !ok2 || string(line) != want {
		t.Fatalf("it says %q, want %q", line, want)
	}
	if len(head) != 256<<10 || !bytes.HasPrefix(whole.Bytes(), head) {
		t.Errorf("%d bytes of the beginning, and they are it: %t", len(head), bytes.HasPrefix(whole.Bytes(), head))
	}
	if len(tail) < 512<<10 || !bytes.HasSuffix(whole.Bytes(), tail) {
		t.Errorf("%d bytes of the end, and they are it: %t", len(tail), bytes.HasSuffix(whole.Bytes(), tail))
	}
	if int64(len(head)+len(tail))+missing != lines*100 {
		t.Errorf("%d + %d bytes are there and %d missing, of %d", len(head), len(tail), missing, lines*100)
	}
}

// TestShortLogIsNotTouched: up to its bound a log is whole.
func TestShortLogIsNotTouched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.log")
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	b := New(path, 1<<20)
	if err := b.Keep(); err != nil {
		t.Fatal(err)
	}
	missing, err := b.Close()
	if got, readErr := os.ReadFile(path); missing != 0 || err != nil || readErr != nil || !bytes.Equal(got, text) {
		t.Errorf("%d missing, %v, %v", missing, err, readErr)
	}
}

// TestLinkIsNotFollowed: a log that became a link leads nowhere.
func TestLinkIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(dir, "server.log")); err != nil {
		t.Fatal(err)
	}
	if err := New(filepath.Join(dir, "server.log"), 1<<20).Keep(); err == nil {
		t.Error("the link was followed")
	}
	if info, err := os.Stat(other); err != nil || info.Size() != 4<<20 {
		t.Errorf("the other file: %v %v", info, err)
	}
}
