package archive

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
)

func store(t *testing.T) *cache.Local {
	t.Helper()
	l, err := cache.OpenLocal(filepath.Join(t.TempDir(), "store"), cache.Options{Command: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func put(t *testing.T, l *cache.Local, name string, state cache.State, outputs ...string) *cache.Record {
	t.Helper()
	var b key.Builder
	b.Text("name", "", name)
	m := b.Finish()
	r := cache.Record{Key: m.Key(), Node: "n." + name, Kind: "k", Manifest: m.Text(), Outcome: cache.Outcome{State: state, Class: "c", Reason: "<&>"},
		Time: cache.Span{Started: time.Unix(1, int64(l.Serial())), Seconds: 1.5}, Origin: cache.Origin{Host: "h", Tool: "t", Task: "x", Attempt: 1, Run: "r"},
		Observed: []cache.Observed{{Name: "kernel", Value: "6.1"}}, Warnings: []string{"w"}}
	for i, text := range outputs {
		d, n, err := l.Object(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		r.Outputs = append(r.Outputs, cache.Output{Name: fmt.Sprint("out", i), Digest: d, Size: n})
	}
	rec, err := l.Put(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// filled is a folder with three records of two keys: a twice, b failed.
func filled(t *testing.T) (folder fstest.MapFS, want []*cache.Record) {
	t.Helper()
	l := store(t)
	put(t, l, "not archived", cache.OK, "z")
	want = []*cache.Record{put(t, l, "a", cache.OK, "one", "two"), put(t, l, "b", cache.Failed, "two"), put(t, l, "a", cache.OK, "three", "two")}
	files := map[string][]byte{"help/two.txt": []byte("two"), "report.md": []byte("# report")}
	// In any order, and one of them named twice.
	if err := Files("tiny", []*cache.Record{want[2], want[0], want[1], want[0]}, l, files); err != nil {
		t.Fatal(err)
	}
	folder = fstest.MapFS{}
	for p, b := range files {
		folder[p] = &fstest.MapFile{Data: b, Mode: 0o644}
	}
	return folder, want
}

// What comes out is what went in, with outputs that have a file already stored
// only once, and a second import adds nothing.
func TestImportGivesBackWhatWasArchived(t *testing.T) {
	folder, want := filled(t)
	if len(folder) != 5 { // two files, the list, "one" and "three"
		t.Errorf("%d files", len(folder))
	}
	l := store(t)
	put(t, l, "mine", cache.OK, "mine")
	for i := range 2 {
		a, err := Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		n, err := a.Import(t.Context(), l)
		if err != nil || n != 3*(1-i) || len(a.Refused) > 0 || a.Name != "tiny" {
			t.Fatalf("import %d: %d, %v, refused %q", i, n, err, a.Refused)
		}
	}
	got := l.Records()[1:]
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(cache.Record{}, "Serial")); d != "" {
		t.Error(d)
	}
	if rs := l.Lookup(want[0].Key); len(rs) != 2 {
		t.Errorf("%d samples of a", len(rs))
	}
	if b, err := l.Bytes(got[2].Output("out0")); err != nil || string(b) != "three" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestImportAddsNoSampleTwice: a record that lost its output is whole again, and
// not there twice; nor is one that a list names twice.
func TestImportAddsNoSampleTwice(t *testing.T) {
	folder, want := filled(t)
	lines := strings.SplitAfter(string(folder[List].Data), "\n")
	folder[List].Data = []byte(strings.Join(append(lines, lines[1]), ""))
	l := store(t)
	for _, lost := range []string{"", "one", "two", "three"} {
		if lost != "" {
			if err := l.Remove(key.Sum([]byte(lost))); err != nil {
				t.Fatal(err)
			}
		}
		a, err := Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := a.Import(t.Context(), l); err != nil || n == 0 {
			t.Errorf("without %q: %d imported, %v", lost, n, err)
		}
		if as, bs := l.Lookup(want[0].Key), l.Lookup(want[1].Key); len(as) != 2 || len(bs) != 1 {
			t.Errorf("without %q: %d samples of a and %d of b, want 2 and 1", lost, len(as), len(bs))
		}
	}
}

// TestImportHidesNothingNewer: a result that the store has of the same key, and
// that was measured later, stays the newest.
func TestImportHidesNothingNewer(t *testing.T) {
	folder, want := filled(t)
	l := store(t)
	for range 4 {
		put(t, l, "filler", cache.OK, "f") // so that what follows started later
	}
	mine := put(t, l, "a", cache.OK, "mine")
	failed := put(t, l, "b", cache.Failed, "two") // no result, so the import's is as good
	a, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := a.Import(t.Context(), l); err != nil || n != 1 {
		t.Errorf("%d imported, %v; want b alone", n, err)
	}
	if rs := l.Lookup(want[0].Key); len(rs) != 1 || rs[0].Serial != mine.Serial {
		t.Errorf("of a there is %+v", rs)
	}
	if rs := l.Lookup(want[1].Key); len(rs) != 2 || rs[0].Serial != failed.Serial {
		t.Errorf("of b there is %+v", rs)
	}
}

// Damaged and foreign files are refused by name; what is whole is imported.
func TestImportRefusesByName(t *testing.T) {
	line := func(f fstest.MapFS, n int, edit func(string) string) {
		lines := strings.SplitAfter(string(f[List].Data), "\n")
		lines[n-1] = edit(lines[n-1])
		f[List].Data = []byte(strings.Join(lines, ""))
	}
	forge := func(body string) string {
		d := key.Sum([]byte(body))
		return fmt.Sprintf("%x %s\n", d[:], body)
	}
	one := objects + strings.TrimPrefix(key.Sum([]byte("one")).String(), "sha256:")
	for name, c := range map[string]struct {
		damage   func(fstest.MapFS)
		imported int
		says     string
	}{
		"flipped object": {func(f fstest.MapFS) { f[one].Data = []byte("One") }, 2, one + `, output "out0" of n.a: its bytes are not those`},
		"foreign help":   {func(f fstest.MapFS) { f["help/two.txt"].Data = []byte("another program") }, 0, "help/two.txt"},
		"missing object": {func(f fstest.MapFS) { delete(f, one) }, 2, one},
		"flipped line": {func(f fstest.MapFS) {
			line(f, 3, func(s string) string { return strings.Replace(s, "failed", "ok", 1) })
		}, 2, List + " line 3: its bytes"},
		"cut off": {func(f fstest.MapFS) { line(f, 4, func(s string) string { return "" }) }, 2, "has 2 records and says that it has 3"},
		"torn":    {func(f fstest.MapFS) { line(f, 4, func(s string) string { return s[:len(s)/2] }) }, 2, List + " line 4"},
		"forged key": {func(f fstest.MapFS) {
			line(f, 2, func(s string) string { return forge(strings.Replace(s[65:len(s)-1], "n.a", "n.x", 1)) })
		}, 3, ""},
		"forged manifest": {func(f fstest.MapFS) {
			line(f, 2, func(s string) string { return forge(strings.Replace(s[65:len(s)-1], `\"a\"`, `\"c\"`, 1)) })
		}, 2, "the key of n.a is not that of its manifest"},
		"leaves the folder": {func(f fstest.MapFS) {
			line(f, 2, func(s string) string { return forge(strings.Replace(s[65:len(s)-1], one, "../../etc/passwd", 1)) })
		}, 2, "../../etc/passwd"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			folder, _ := filled(t)
			c.damage(folder)
			a, err := Open(folder)
			if err != nil {
				t.Fatal(err)
			}
			l := store(t)
			n, err := a.Import(t.Context(), l)
			if err != nil || n != c.imported || len(l.Records()) != n {
				t.Errorf("imported %d, %v; want %d", n, err, c.imported)
			}
			if said := strings.Join(a.Refused, "\n"); !strings.Contains(said, c.says) || (c.says == "") != (said == "") {
				t.Errorf("refused %q, want %q", said, c.says)
			}
		})
	}
	for says, list := range map[string]string{
		"it has no " + List: "", "is empty": "-", "line 1": "no list\n", "has version 9": forge(`{"v":9}`),
	} {
		f := fstest.MapFS{}
		if list != "" {
			f[List] = &fstest.MapFile{Data: []byte(strings.TrimPrefix(list, "-"))}
		}
		if _, err := Open(f); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}
