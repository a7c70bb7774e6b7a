package objects

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/engine/cache/durable"
	"github.com/sotabuild/sotabuild/engine/key"
)

func store(t *testing.T, writer bool) (s *Store, dir string, said *[]string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"cas", "tmp", "quarantine"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	said = new([]string)
	var mu sync.Mutex
	return New(dir, writer, durable.Disk{}, func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		*said = append(*said, fmt.Sprintf(format, args...))
	}), dir, said
}

// TestReplacedWhileReadIsNotQuarantined has a reader that finds a broken object
// after somebody stored it again: the new file must stay.
func TestReplacedWhileReadIsNotQuarantined(t *testing.T) {
	s, dir, said := store(t, true)
	d := key.Sum([]byte("right"))
	if err := errors.Join(os.Mkdir(filepath.Dir(s.file(d)), 0o700), os.WriteFile(s.file(d), []byte("wrong"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r, err := s.Open(d)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, _, err := s.Put(strings.NewReader("right")); err != nil { // quarantines and replaces
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	n, err := r.Read(buf)
	for err == nil {
		n, err = r.Read(buf[n:])
	}
	if !errors.Is(err, ErrMissing) {
		t.Errorf("the old bytes were read without an error: %v", err)
	}
	if got, err := s.Bytes(d); err != nil || string(got) != "right" {
		t.Errorf("after that the object is %q, %v", got, err)
	}
	if kept, err := os.ReadFile(filepath.Join(dir, "quarantine", strings.TrimPrefix(d.String(), "sha256:"))); string(kept) != "wrong" {
		t.Errorf("quarantine holds %q, %v", kept, err)
	}
	if len(*said) != 1 {
		t.Errorf("said %q", *said)
	}
}

// TestReaderMovesNothing: only a writer may quarantine.
func TestReaderMovesNothing(t *testing.T) {
	s, dir, said := store(t, false)
	d := key.Sum([]byte("right"))
	if err := errors.Join(os.Mkdir(filepath.Dir(s.file(d)), 0o700), os.WriteFile(s.file(d), []byte("wrong"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Bytes(d); !errors.Is(err, ErrMissing) {
			t.Errorf("got %v", err)
		}
		if s.Has(d, 5) {
			t.Error("a broken object is there")
		}
	}
	left, err := os.ReadDir(filepath.Join(dir, "quarantine"))
	if err != nil || len(left) != 0 || len(*said) != 1 {
		t.Errorf("quarantine %v, %v, said %q", left, err, *said)
	}
	if _, err := os.Stat(s.file(d)); err != nil {
		t.Error(err)
	}
}

// TestSameObjectFromManyGoroutines: all get its digest, one file is there.
func TestSameObjectFromManyGoroutines(t *testing.T) {
	s, dir, said := store(t, true)
	text := strings.Repeat("x", 300_000)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			d, n, err := s.Put(strings.NewReader(text))
			if err != nil || n != 300_000 || d != key.Sum([]byte(text)) {
				t.Errorf("put %s of %d, %v", d, n, err)
				return
			}
			if b, err := s.Bytes(d); err != nil || string(b) != text {
				t.Errorf("read %d bytes, %v", len(b), err)
			}
		})
	}
	all.Wait()
	if tmp, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(tmp) != 0 || len(*said) != 0 {
		t.Errorf("left in tmp %v, %v; said %q", tmp, err, *said)
	}
}

// TestWhatIsNoFileIsMissing puts in an object's place, or in that of its folder,
// what no writer makes. It is a miss that nobody waits for; a writer moves it
// away, as often as it comes, and stores the object again.
func TestWhatIsNoFileIsMissing(t *testing.T) {
	d := key.Sum([]byte("right"))
	object := func(make func(string) error) func(s *Store) error {
		return func(s *Store) error {
			return errors.Join(os.MkdirAll(filepath.Dir(s.file(d)), 0o700), make(s.file(d)))
		}
	}
	folder := func(make func(string) error) func(s *Store) error {
		return func(s *Store) error {
			return errors.Join(os.RemoveAll(filepath.Dir(s.file(d))), make(filepath.Dir(s.file(d))))
		}
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.WriteFile(copied, []byte("right"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := func(path string) error { return os.MkdirAll(path+"/in", 0o700) }
	link := func(to string) func(string) error {
		return func(path string) error { return os.Symlink(to, path) }
	}
	for name, damage := range map[string]func(s *Store) error{
		"empty folder":         object(func(path string) error { return os.Mkdir(path, 0o700) }),
		"folder":               object(full),
		"pipe":                 object(func(path string) error { return unix.Mkfifo(path, 0o600) }),
		"link":                 object(link(copied)),
		"loop":                 object(link("loop")),
		"dangling link":        object(link("/nowhere/at/all")),
		"its folder is a file": folder(func(path string) error { return os.WriteFile(path, nil, 0o600) }),
		"its folder is a link": folder(link("/nowhere/at/all")),
		"its folder is a pipe": folder(func(path string) error { return unix.Mkfifo(path, 0o600) }),
	} {
		t.Run(name, func(t *testing.T) {
			w, dir, said := store(t, true)
			for n := range 3 {
				if err := damage(w); err != nil {
					t.Fatal(err)
				}
				for role, s := range map[string]*Store{"reader": New(dir, false, durable.Disk{}, w.defect), "writer": New(dir, true, durable.Disk{}, w.defect)} {
					if s.Has(d, 5) {
						t.Errorf("a %s has it", role)
					}
					if _, err := s.Bytes(d); !errors.Is(err, ErrMissing) {
						t.Errorf("a %s gets %v", role, err)
					}
				}
				if len(*said) <= n {
					t.Errorf("said %q", *said)
				}
				w = New(dir, true, durable.Disk{}, w.defect)
				if _, _, err := w.Put(strings.NewReader("right")); err != nil {
					t.Fatalf("storing it again: %v", err)
				}
				if b, err := New(dir, false, durable.Disk{}, w.defect).Bytes(d); err != nil || string(b) != "right" {
					t.Errorf("stored again it is %q, %v", b, err)
				}
				if err := os.Remove(w.file(d)); err != nil {
					t.Fatal(err)
				}
			}
			for _, line := range *said {
				if strings.Contains(line, "cannot be quarantined") {
					t.Error(line)
				}
			}
		})
	}
}
