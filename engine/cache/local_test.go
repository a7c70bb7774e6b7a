package cache

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/engine/key"
)

func local(t testing.TB, dir string) *Local {
	t.Helper()
	l, err := OpenLocal(dir, Options{Command: "test"})
	must(t, err)
	return l
}

func reader(t testing.TB, dir string) *Snapshot {
	t.Helper()
	s, err := OpenReader(dir)
	must(t, err)
	return s
}

// memory is a folder in memory where there is one: the tests that open a store
// a thousand times would otherwise wait for the disk.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "cache-test-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return dir
}

// filled is a closed store of three records a, b, c with an output each, and
// the size of its journal after each of them.
func filled(t testing.TB) (dir string, sizes []int64) {
	t.Helper()
	dir = filepath.Join(memory(t), "store")
	l := local(t, dir)
	for _, name := range []string{"a", "b", "c"} {
		put(t, l, named(name, Output{"row", object(t, l, name), 1}))
		fi, err := os.Stat(dir + "/journal")
		must(t, err)
		sizes = append(sizes, fi.Size())
	}
	closing(t, l)
	return dir, sizes
}

func objectFile(dir string, d key.Digest) string {
	h := hex.EncodeToString(d[:])
	return filepath.Join(dir, "cas", h[:2], h[2:])
}

// nodes are the nodes whose record is found with its output readable.
func nodes(t testing.TB, s interface {
	Reader
}, names ...string) (found []string) {
	t.Helper()
	for _, name := range names {
		rs := s.Lookup(named(name).Key)
		if len(rs) == 0 {
			continue
		}
		if b, err := s.Bytes(rs[0].Output("row")); err != nil || string(b) != name {
			t.Errorf("output of %s: %q, %v", name, b, err)
		}
		found = append(found, name)
	}
	return found
}

func TestLayoutIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "store")
	must(t, os.MkdirAll(dir, 0o755)) // made by hand, too open
	l := local(t, dir)
	d := object(t, l, "x")
	put(t, l, named("a", Output{"row", d, 1}))
	want := map[string]fs.FileMode{"": 0o700, "cas": 0o700, "quarantine": 0o700, "tmp": 0o700, "id": 0o600, "journal": 0o600, "lock": 0o600}
	for name, mode := range want {
		fi, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if fi.Mode().Perm() != mode {
			t.Errorf("%q has mode %v, want %v", name, fi.Mode().Perm(), mode)
		}
	}
	path, err := l.Path(d)
	must(t, err)
	fi, err := os.Stat(path)
	must(t, err)
	if fi.Mode().Perm() != 0o444 || path != objectFile(dir, d) {
		t.Errorf("object %s has mode %v", path, fi.Mode().Perm())
	}
	if tmp, err := os.ReadDir(dir + "/tmp"); err != nil || len(tmp) != 0 {
		t.Errorf("left in tmp: %v, %v", tmp, err)
	}
	id := l.ID()
	closing(t, l)
	if again := local(t, dir); again.ID() != id || len(id) != 32 {
		t.Errorf("id %q, then %q", id, again.ID())
	} else {
		closing(t, again)
	}
}

// TestTornTail cuts the journal at every byte of its last two frames. What was
// acknowledged before the cut must be there, whole, and writing goes on.
func TestTornTail(t *testing.T) {
	dir, sizes := filled(t)
	whole, err := os.ReadFile(dir + "/journal")
	must(t, err)
	for cut := sizes[0]; cut <= sizes[2]; cut++ {
		must(t, os.WriteFile(dir+"/journal", whole[:cut], 0o600))
		want := []string{"a", "b", "c"}[:len(slices.DeleteFunc(slices.Clone(sizes), func(n int64) bool { return n > cut }))]
		torn := !slices.Contains(sizes, cut)

		s := reader(t, dir)
		if got := nodes(t, s, "a", "b", "c"); !slices.Equal(got, want) || len(s.Defects()) != 0 {
			t.Fatalf("cut at %d: a reader finds %q, want %q; defects %q", cut, got, want, s.Defects())
		}
		closing(t, s)

		l := local(t, dir)
		if got := nodes(t, l, "a", "b", "c"); !slices.Equal(got, want) || l.Serial() != uint64(len(want)) {
			t.Fatalf("cut at %d: a writer finds %q, want %q; serial %d", cut, got, want, l.Serial())
		}
		if said := strings.Join(l.Defects(), "\n"); strings.Contains(said, "no whole entry") != torn {
			t.Fatalf("cut at %d: torn is %v, said %q", cut, torn, said)
		}
		if (cut-sizes[0])%16 == 0 { // the writing that follows needs not be tried after each
			put(t, l, named("d", Output{"row", object(t, l, "d"), 1}))
			want = append(want, "d")
		}
		closing(t, l)
		l = local(t, dir)
		if got := nodes(t, l, "a", "b", "c", "d"); !slices.Equal(got, want) || len(l.Defects()) != 0 {
			t.Fatalf("cut at %d, opened again: %q, want %q; defects %q", cut, got, want, l.Defects())
		}
		closing(t, l)
	}
}

// TestFlippedByte flips every byte of the journal. The record it belongs to is
// lost, said and kept in quarantine; no other is.
func TestFlippedByte(t *testing.T) {
	dir, sizes := filled(t)
	whole, err := os.ReadFile(dir + "/journal")
	must(t, err)
	all := []string{"a", "b", "c"}
	for i := range whole {
		bad := slices.Clone(whole)
		bad[i] ^= 1 << (i % 8)
		must(t, os.WriteFile(dir+"/journal", bad, 0o600))
		hit := 0
		for int64(i) >= sizes[hit] {
			hit++
		}
		want := slices.Delete(slices.Clone(all), hit, hit+1)

		s := reader(t, dir)
		if got := nodes(t, s, all...); !slices.Equal(got, want) {
			t.Fatalf("byte %d flipped: a reader finds %q, want %q", i, got, want)
		}
		if said := len(s.Defects()); (said == 0) != (hit == 2) {
			t.Fatalf("byte %d flipped: a reader says %q", i, s.Defects())
		}
		closing(t, s)

		l := local(t, dir)
		if got := nodes(t, l, all...); !slices.Equal(got, want) || len(l.Defects()) != 1 {
			t.Fatalf("byte %d flipped: a writer finds %q, want %q, and says %q", i, got, want, l.Defects())
		}
		_, kept, ok := strings.Cut(l.Defects()[0], "copied to ")
		start := int64(0)
		if hit > 0 {
			start = sizes[hit-1]
		}
		if b, err := os.ReadFile(kept); !ok || err != nil || string(b) != string(bad[start:sizes[hit]]) {
			t.Fatalf("byte %d flipped: quarantine of %q holds %d bytes, %v", i, l.Defects()[0], len(b), err)
		}
		closing(t, l)
	}
}

func TestEntryOfAnotherVersionIsSaid(t *testing.T) {
	dir, _ := filled(t)
	l := local(t, dir)
	if _, err := l.journal.Append(99, []byte("from the future")); err != nil {
		t.Fatal(err)
	}
	closing(t, l)
	s := reader(t, dir)
	if said := s.Defects(); len(said) != 1 || !strings.Contains(said[0], "kind 99 is unknown") {
		t.Errorf("said %q", said)
	}
	if got := nodes(t, s, "a", "b", "c"); len(got) != 3 {
		t.Errorf("found %q", got)
	}
	closing(t, s)
}

// TestBrokenObject breaks an object in several ways. It is a miss from then on,
// its file is in quarantine, and storing it again heals it.
func TestBrokenObject(t *testing.T) {
	const text = "twelve bytes"
	for name, spoil := range map[string]func(path string) error{
		"flipped":    func(p string) error { return overwrite(p, "Twelve bytes") },
		"shorter":    func(p string) error { return overwrite(p, "twelve") },
		"empty":      func(p string) error { return overwrite(p, "") },
		"longer":     func(p string) error { return overwrite(p, text+"!") },
		"gone":       os.Remove,
		"all gone":   func(p string) error { return os.RemoveAll(filepath.Dir(p)) },
		"not a file": func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) },
	} {
		for _, how := range []string{"Bytes", "Path", "Object"} {
			dir := filepath.Join(t.TempDir(), "store")
			l := local(t, dir)
			d := object(t, l, text)
			put(t, l, named("a", Output{"row", d, int64(len(text))}))
			closing(t, l)
			must(t, spoil(objectFile(dir, d)))
			id := name + " " + how

			s := reader(t, dir)
			if _, err := s.Bytes(d); err == nil {
				t.Errorf("%s: a reader got the bytes", id)
			}
			if s.Lookup(named("a").Key) != nil || len(s.Defects()) == 0 {
				t.Errorf("%s: a reader found the record; said %q", id, s.Defects())
			}
			closing(t, s)

			l = local(t, dir)
			if name == "not a file" {
				if l.Lookup(named("a").Key) != nil || len(l.Defects()) == 0 {
					t.Errorf("%s: found the record; said %q", id, l.Defects())
				}
				closing(t, l)
				continue
			}
			switch how {
			case "Bytes":
				if _, err := l.Bytes(d); !errors.Is(err, ErrMissing) {
					t.Errorf("%s: %v", id, err)
				}
			case "Path":
				if _, err := l.Path(d); !errors.Is(err, ErrMissing) {
					t.Errorf("%s: %v", id, err)
				}
			}
			if how != "Object" && l.Lookup(named("a").Key) != nil {
				t.Errorf("%s: a record without its output was found", id)
			}
			object(t, l, text)
			if got, err := l.Bytes(d); err != nil || string(got) != text || len(l.Lookup(named("a").Key)) != 1 {
				t.Errorf("%s: not healed by storing again: %q, %v", id, got, err)
			}
			kept, err := os.ReadDir(dir + "/quarantine")
			must(t, err)
			if gone := strings.HasSuffix(name, "gone"); gone == (len(kept) == 1) || gone != (len(kept) == 0) {
				t.Errorf("%s: quarantine holds %v", id, kept)
			}
			if !strings.HasSuffix(name, "gone") && len(l.Defects()) == 0 {
				t.Errorf("%s: nothing was said", id)
			}
			closing(t, l)
		}
	}
}

// overwrite changes an object behind the store's back, which is not easy.
func overwrite(path, text string) error {
	return errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, 0o444))
}

func TestPathIsVerifiedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	l := local(t, dir)
	d := object(t, l, "x")
	closing(t, l)
	l = local(t, dir)
	path, err := l.Path(d)
	must(t, err)
	must(t, overwrite(path, "y"))
	if again, err := l.Path(d); err != nil || again != path {
		t.Errorf("verified twice: %v", err)
	}
	must(t, os.Remove(path))
	if _, err := l.Path(d); !errors.Is(err, ErrMissing) {
		t.Errorf("the path of a file that is gone: %v", err)
	}
	if _, err := l.Path(key.Sum([]byte("never"))); !errors.Is(err, ErrMissing) {
		t.Errorf("the path of what never was: %v", err)
	}
	t.Chdir(filepath.Dir(dir))
	s := reader(t, "store")
	defer closing(t, s)
	object(t, l, "x")
	if path, err := s.Path(d); err != nil || !filepath.IsAbs(path) {
		t.Errorf("path %q, %v", path, err)
	}
	closing(t, l)
}

func TestFolderMayBeDeletedAtAnyTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	old := local(t, dir)
	put(t, old, named("a", Output{"row", object(t, old, "a"), 1}))
	s := reader(t, dir)
	must(t, os.RemoveAll(dir))
	if got := nodes(t, s, "a"); got != nil {
		t.Errorf("found %q after deleting", got)
	}
	closing(t, s)
	if _, err := old.Put(context.Background(), named("b")); err == nil || !strings.Contains(err.Error(), "deleted") {
		t.Errorf("recorded into a deleted store: %v", err)
	}
	if _, _, err := old.Object(strings.NewReader("b")); err == nil || !strings.Contains(err.Error(), "deleted") {
		t.Errorf("stored into a deleted store: %v", err)
	}
	next := local(t, dir)
	if next.Serial() != 0 || next.ID() == old.ID() {
		t.Errorf("a new store has serial %d and the old id: %v", next.Serial(), next.ID() == old.ID())
	}
	put(t, next, named("a", Output{"row", object(t, next, "a"), 1}))
	// The old writer must not write into the new store.
	if err := old.Intend(Intent{ID: "x"}); err == nil {
		t.Error("the writer of the deleted store goes on in the new one")
	}
	closing(t, old)
	if err := old.Close(); err == nil {
		t.Error("closed twice")
	}
	if got := nodes(t, next, "a"); len(got) != 1 || len(next.Defects()) != 0 {
		t.Errorf("the new store: %q, %q", got, next.Defects())
	}
	closing(t, next)
}

func TestReaderOfNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	s := reader(t, dir)
	if s.Serial() != 0 || s.ID() != "" || s.Lookup(key.Key{1}) != nil {
		t.Error("a store that is not there is not empty")
	}
	closing(t, s)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading made the store: %v", err)
	}
}

// TestReaderSeesWhatWasThereWhenItOpened has a writer beside it.
func TestReaderSeesWhatWasThereWhenItOpened(t *testing.T) {
	dir, _ := filled(t)
	l := local(t, dir)
	s := reader(t, dir)
	put(t, l, named("d", Output{"row", object(t, l, "d"), 1}))
	if got := nodes(t, s, "a", "b", "c", "d"); len(got) != 3 || s.Serial() != 3 {
		t.Errorf("found %q", got)
	}
	closing(t, s)
	s = reader(t, dir)
	if got := nodes(t, s, "a", "b", "c", "d"); len(got) != 4 {
		t.Errorf("opened again: found %q", got)
	}
	closing(t, s)
	closing(t, l)
}

func TestLeftoversOfADeadWriterGo(t *testing.T) {
	dir, _ := filled(t)
	must(t, os.WriteFile(dir+"/tmp/object-1", []byte("half"), 0o600))
	closing(t, local(t, dir))
	if left, err := os.ReadDir(dir + "/tmp"); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestHalfWrittenFilesGo: what a process that was killed left beside the journal
// goes with the next writer, and what another is at stays.
func TestHalfWrittenFilesGo(t *testing.T) {
	dir, _ := filled(t)
	must(t, errors.Join(os.Mkdir(dir+"/host", 0o700), os.Mkdir(dir+"/events", 0o700)))
	old := time.Now().Add(-2 * halfWritten)
	for name, stays := range map[string]bool{
		".new-17": false, "files.tmp-4": false, "host/.task-9": false, "events/.new-1": false,
		"files": true, "compiled": true, "host/run.json": true, "events/run.jsonl": true,
	} {
		for _, young := range []bool{false, true} {
			path := filepath.Join(dir, name)
			if young {
				path += "0"
			}
			must(t, os.WriteFile(path, []byte("half"), 0o600))
			if !young {
				must(t, os.Chtimes(path, old, old))
			}
			closing(t, local(t, dir))
			if _, err := os.Stat(path); (err == nil) != (young || stays) {
				t.Errorf("%s, young: %v: %v", path, young, err)
			}
		}
	}
}

func TestFoldersThatAreRefused(t *testing.T) {
	home := t.TempDir()
	must(t, os.Chmod(home, 0o755))
	must(t, os.WriteFile(home+"/thesis.tex", nil, 0o600))
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	damaged, _ := filled(t)
	must(t, os.WriteFile(damaged+"/id", []byte("zz\n"), 0o600))
	for dir, want := range map[string]string{home: "thesis.tex", file: "not a directory", damaged: "id file holds"} {
		if _, err := OpenLocal(dir, Options{}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := OpenReader(damaged); err == nil {
		t.Error("a reader takes a folder with another's id")
	}
	private := t.TempDir() // what belongs beside a store may be there before it
	must(t, errors.Join(os.WriteFile(private+"/files", nil, 0o600), os.Chmod(private, 0o700)))
	closing(t, local(t, private))
	must(t, os.Chmod(private, 0o755))
	closing(t, local(t, private))
	if _, err := os.Stat(home + "/lock"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused folder was written to: %v", err)
	}
}

// TestPartsOfAnotherNature: a part of a store that is not what a writer made is an
// error that names it, to readers and writers, and nobody waits for a pipe.
func TestPartsOfAnotherNature(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"pipe":   func(path string) error { return unix.Mkfifo(path, 0o600) },
		"file":   func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		for part, folder := range map[string]bool{"id": false, "journal": false, "cas": true, "quarantine": true} {
			if folder == (name == "folder") || name == "file" && !folder {
				continue
			}
			dir, _ := filled(t)
			path := filepath.Join(dir, part)
			must(t, errors.Join(os.RemoveAll(path), make(path)))
			if l, err := OpenLocal(dir, Options{}); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("a writer takes a %s as %s: %v", name, part, err)
				if err == nil {
					closing(t, l)
				}
			}
			if folder {
				continue // a reader finds nothing there
			}
			if r, err := OpenReader(dir); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("a reader takes a %s as %s: %v", name, part, err)
				if err == nil {
					must(t, r.Close())
				}
			}
		}
	}
}

// TestFolderThatCannotBeWritten runs as a user without rights; root has them
// all, so it becomes nobody on one thread that ends with the goroutine.
func TestFolderThatCannotBeWritten(t *testing.T) {
	dir, _ := filled(t)
	parent := filepath.Dir(dir)
	must(t, os.Chmod(parent, 0o555))
	defer func() { must(t, os.Chmod(parent, 0o755)) }()
	errs := make(chan error, 3)
	go func() {
		defer close(errs)
		if os.Geteuid() == 0 {
			runtime.LockOSThread() // never unlocked: the thread is not used again
			if _, err := unix.SetfsuidRetUid(65534); err != nil {
				errs <- err
				return
			}
		}
		for _, d := range []string{parent + "/new", dir} {
			_, err := OpenLocal(d, Options{})
			errs <- err
		}
		if os.Geteuid() == 0 {
			_, err := OpenReader(dir)
			errs <- err
		}
	}()
	for err := range errs {
		// The owner may still open its own store below a parent it cannot write.
		if err == nil && os.Geteuid() == 0 || err != nil && (!errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "opening store "+parent)) {
			t.Errorf("got %v", err)
		}
	}
}

func TestVerify(t *testing.T) {
	dir, _ := filled(t)
	if rep, err := Verify(dir + "/none"); err != nil || rep.Records != 0 || rep.Objects != 0 {
		t.Errorf("a store that is not there: %+v, %v", rep, err)
	}
	l := local(t, dir)
	object(t, l, "of no record")
	closing(t, l)
	rep, err := Verify(dir)
	if diff := cmp.Diff(Report{Records: 3, Objects: 4, Bytes: 3 + 12}, rep); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	must(t, overwrite(objectFile(dir, key.Sum([]byte("a"))), "A"))
	must(t, os.Remove(objectFile(dir, key.Sum([]byte("b")))))
	must(t, os.WriteFile(filepath.Dir(objectFile(dir, key.Sum([]byte("c"))))+"/README", nil, 0o600))
	rep, err = Verify(dir)
	must(t, err)
	if rep.Records != 3 || rep.Objects != 3 {
		t.Errorf("%d records, %d objects", rep.Records, rep.Objects)
	}
	said := strings.Join(rep.Defects, "\n")
	for _, want := range []string{
		key.Sum([]byte("a")).String() + " holds other bytes", "record 1 of bench.a lacks its output \"row\"",
		key.Sum([]byte("b")).String() + " is missing", "record 2 of bench.b lacks", "README is no object",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("did not say %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, "bench.c") {
		t.Errorf("said something of what is sound:\n%s", said)
	}
	if _, err := os.Stat(objectFile(dir, key.Sum([]byte("a")))); err != nil {
		t.Errorf("verifying moved an object: %v", err)
	}
}

// BenchmarkOpen is 100,000 records of about a kilobyte. The goal is 80 ms.
func BenchmarkOpen(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "store")
	l := local(b, dir)
	r := named("x")
	r.Manifest = strings.Repeat("flag \"name\" i \"1\"\n", 20)
	var all []byte
	for i := range 100_000 {
		r.Serial, r.Key[0], r.Key[1], r.Key[2] = uint64(i+1), byte(i), byte(i>>8), byte(i>>16)
		r.Node = "bench.vllm[" + hex.EncodeToString(r.Key[:3]) + "]"
		must(b, checkRecord(&r))
		p := encodeRecord(&r)
		start := len(all)
		all = append(all, "\xf5SB\xff"...) // a frame by hand, because Append syncs
		all = binary.LittleEndian.AppendUint32(all, uint32(len(p)))
		all = append(all, 1, 0, 1, 0)
		all = append(all, p...)
		all = binary.LittleEndian.AppendUint64(all, xxhash.Sum64(all[start:]))
	}
	closing(b, l)
	must(b, os.WriteFile(dir+"/journal", all, 0o600))
	b.SetBytes(int64(len(all)))
	b.ReportAllocs()
	for b.Loop() {
		s := reader(b, dir)
		if s.Serial() != 100_000 || len(s.index.All()) != 100_000 {
			b.Fatal(s.Serial())
		}
		closing(b, s)
	}
}

func BenchmarkPut(b *testing.B) {
	l := local(b, filepath.Join(b.TempDir(), "store"))
	d := object(b, l, "x")
	for b.Loop() {
		put(b, l, named("x", Output{"row", d, 1}))
	}
	closing(b, l)
}

func BenchmarkLookup(b *testing.B) {
	l := local(b, filepath.Join(b.TempDir(), "store"))
	r := put(b, l, named("x", Output{"row", object(b, l, "x"), 1}))
	for b.Loop() {
		if len(l.Lookup(r.Key)) != 1 {
			b.Fatal("lost")
		}
	}
	closing(b, l)
}

func TestLockedErrorNamesItsHolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	since := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) func() time.Time { return func() time.Time { return since.Add(d) } }
	l, err := OpenLocal(dir, Options{Command: "sotabuild apply", Now: at(0)})
	must(t, err)
	_, err = OpenLocal(dir, Options{Command: "sotabuild gc", Now: at(83 * time.Second)})
	host, hostErr := os.Hostname()
	must(t, hostErr)
	var locked *LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("got %v", err)
	}
	want := &LockedError{Dir: dir, Holder: Holder{Pid: os.Getpid(), Host: host, Command: "sotabuild apply", Since: since}, Age: 83 * time.Second}
	if diff := cmp.Diff(want, locked); diff != "" {
		t.Error(diff)
	}
	if text := locked.Error(); !strings.Contains(text, "(sotabuild apply) for 1m23s") || !strings.Contains(text, dir) {
		t.Errorf("says %q", text)
	}
	closing(t, l)
	if b, err := os.ReadFile(dir + "/lock"); err != nil || len(b) != 0 {
		t.Errorf("a holder that left is still named: %q, %v", b, err)
	}
	closing(t, local(t, dir))
}

// TestUnreadableLockFile: what the file says is for people; the lock decides.
func TestUnreadableLockFile(t *testing.T) {
	dir, _ := filled(t)
	must(t, os.WriteFile(dir+"/lock", []byte("{ half"), 0o600))
	l := local(t, dir) // nobody holds it
	must(t, os.WriteFile(dir+"/lock", []byte("\x00"), 0o600))
	var locked *LockedError
	if _, err := OpenLocal(dir, Options{}); !errors.As(err, &locked) || locked.Holder.Pid != 0 {
		t.Errorf("got %v", err)
	}
	closing(t, l)
}

// A name is spent once, for good; the store's own name is given once, by
// whoever comes first.
func TestSpendAndName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	name, err := Name(dir)
	if err != nil || len(name) != idLen {
		t.Fatalf("Name: %q, %v", name, err)
	}
	for range 2 {
		l, err := OpenLocal(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if l.ID() != name {
			t.Errorf("store is called %q, was named %q", l.ID(), name)
		}
		if !l.Spent("plan 1") {
			if err := l.Spend("plan 1"); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Spend("plan 1"); !errors.Is(err, ErrSpent) {
			t.Errorf("spending twice: %v", err)
		}
		if l.Spent("plan 2") || l.Serial() != 0 || len(l.Defects()) > 0 {
			t.Errorf("serial %d, defects %v: a spent name is no record", l.Serial(), l.Defects())
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
