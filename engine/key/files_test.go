package key

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// build makes a tree. Names end in / for folders, * for executables; a value
// that begins with -> is a link.
func build(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, strings.TrimRight(name, "*"))
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(path, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if to, ok := strings.CutPrefix(text, "->"); ok {
			must(t, os.Symlink(to, path))
			continue
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, "*") {
			mode = 0o755
		}
		must(t, os.WriteFile(path, []byte(text), mode))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func digest(t testing.TB, d Digest, err error) Digest {
	t.Helper()
	must(t, err)
	return d
}

// later is a clock by which all files of a test are old.
func later() time.Time { return time.Now().Add(time.Hour) }

func open(t testing.TB, path string, now func() time.Time) *Files {
	t.Helper()
	f, err := openFiles(path, now)
	must(t, err)
	return f
}

var sampleTree = map[string]string{
	"a": "one", "run*": "#!", "empty/": "", "sub/b": "two", "link": "->../gone", "x y\n\xff": "",
}

// The constants were computed by a program in another language from the
// description at Tree and appendEntry.
func TestTreesArePinned(t *testing.T) {
	dir := t.TempDir()
	build(t, dir, sampleTree)
	f := open(t, "", time.Now)
	if got, want := digest2(t, f.Tree, dir), "sha256:5d00b4d44dc9b9bd2b5ba211295e8898ba40a2ee4d7ddcc358c1dda93e3b79a9"; got.String() != want {
		t.Errorf("tree %s, want %s", got, want)
	}
	if got, want := digest2(t, f.Tree, dir+"/run"), "sha256:a71f5424bd4b18be87f6ee253c2c44b385db20dee330589976e8675c1d9e1330"; got.String() != want {
		t.Errorf("file as tree %s, want %s", got, want)
	}
	if got, want := digest2(t, f.File, dir+"/a"), Sum([]byte("one")); got != want {
		t.Errorf("file %s, want %s", got, want)
	}
}

func digest2(t testing.TB, of func(string) (Digest, error), path string) Digest {
	t.Helper()
	d, err := of(path)
	return digest(t, d, err)
}

// TestWhatATreeIs compares trees with the sample: some edits must change the
// digest, some must not.
func TestWhatATreeIs(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(dir string) error
		same bool
	}{
		"nothing":          {func(string) error { return nil }, true},
		"touch":            {func(d string) error { return os.Chtimes(d+"/a", time.Unix(1, 0), time.Unix(1, 0)) }, true},
		"read only":        {func(d string) error { return os.Chmod(d+"/a", 0o400) }, true},
		"executable":       {func(d string) error { return os.Chmod(d+"/a", 0o744) }, false},
		"bytes":            {func(d string) error { return os.WriteFile(d+"/a", []byte("One"), 0o644) }, false},
		"name":             {func(d string) error { return os.Rename(d+"/a", d+"/A") }, false},
		"odd name":         {func(d string) error { return os.Rename(d+"/x y\n\xff", d+"/x y\n\xfe") }, false},
		"empty folder":     {func(d string) error { return os.Remove(d + "/empty") }, false},
		"one more":         {func(d string) error { return os.Mkdir(d+"/sub/more", 0o755) }, false},
		"hidden":           {func(d string) error { return os.WriteFile(d+"/.hidden", nil, 0o644) }, false},
		"ignored by git":   {func(d string) error { return os.WriteFile(d+"/.gitignore", []byte("*"), 0o644) }, false},
		"moved":            {func(d string) error { return os.Rename(d+"/sub/b", d+"/empty/b") }, false},
		"swapped contents": {func(d string) error { return swap(d+"/a", d+"/sub/b") }, false},
		"link's text": {func(d string) error {
			return remake(d+"/link", func(p string) error { return os.Symlink("../gone2", p) })
		}, false},
		"link to file": {func(d string) error {
			return remake(d+"/link", func(p string) error { return os.WriteFile(p, []byte("../gone"), 0o644) })
		}, false},
		"file to folder": {func(d string) error { return remake(d+"/a", func(p string) error { return os.Mkdir(p, 0o755) }) }, false},
	} {
		dir := t.TempDir()
		build(t, dir, sampleTree)
		f := open(t, "", later)
		before := digest2(t, f.Tree, dir)
		must(t, c.edit(dir))
		if after := digest2(t, f.Tree, dir); (after == before) != c.same {
			t.Errorf("%s: same is %v, want %v", name, after == before, c.same)
		}
		if again := digest2(t, open(t, "", later).Tree, dir); again != digest2(t, f.Tree, dir) {
			t.Errorf("%s: with and without memory differ", name)
		}
	}
}

func swap(a, b string) error {
	for _, m := range [][2]string{{a, a + "~"}, {b, a}, {a + "~", b}} {
		if err := os.Rename(m[0], m[1]); err != nil {
			return err
		}
	}
	return nil
}

func remake(path string, f func(string) error) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return f(path)
}

func TestTreeDoesNotKnowItsPlace(t *testing.T) {
	a, b := t.TempDir(), filepath.Join(t.TempDir(), "deeper", "elsewhere")
	build(t, a, sampleTree)
	build(t, b, sampleTree)
	f := open(t, "", time.Now)
	want := digest2(t, f.Tree, a)
	if got := digest2(t, f.Tree, b); got != want {
		t.Error("the same tree in two places has two digests")
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(a, link))
	if got := digest2(t, f.Tree, link); got != want {
		t.Error("a link to the tree has another digest than the tree")
	}
	t.Chdir(filepath.Dir(b))
	if got := digest2(t, f.Tree, "elsewhere/"); got != want {
		t.Error("a relative path has another digest")
	}
	if got := digest2(t, f.Tree, a+"/sub"); got == want {
		t.Error("a part has the digest of the whole")
	}
}

// TestUnchangedFilesAreNotReadAgain makes the bytes unreadable behind the
// stat's back, by a cache that was told another digest.
func TestUnchangedFilesAreNotReadAgain(t *testing.T) {
	dir, cache := t.TempDir(), filepath.Join(t.TempDir(), "deep", "files")
	build(t, dir, map[string]string{"a": "one", "sub/b": "two"})
	f := open(t, cache, later)
	tree := digest2(t, f.Tree, dir)
	digest2(t, f.File, dir+"/a")
	must(t, f.Close())

	// The kept digest of sub/b is replaced in the file, checksum and all, so
	// that a second run shows whether it believed the cache or read the file.
	f = open(t, cache, later)
	known := f.cache.Entries(dir + "/sub")
	if len(known) != 1 || known[0].Name != "b" || Digest(known[0].Digest) != Sum([]byte("two")) {
		t.Fatalf("remembered %+v", known)
	}
	e := known[0]
	e.Digest = Sum([]byte("a lie"))
	f.cache.Put(dir+"/sub", e)
	must(t, f.Close())

	f = open(t, cache, later)
	if got := digest2(t, f.File, dir+"/sub/b"); got != Sum([]byte("a lie")) {
		t.Error("an unchanged file was read again")
	}
	if got := digest2(t, f.Tree, dir); got == tree {
		t.Error("an unchanged file of a tree was read again")
	}
	for name, change := range map[string]func(p string) error{
		"mtime": func(p string) error { return os.Chtimes(p, time.Unix(5, 0), time.Unix(5, 0)) },
		"size":  func(p string) error { return os.WriteFile(p, []byte("two2"), 0o644) },
		"mode":  func(p string) error { return os.Chmod(p, 0o600) },
		"inode": func(p string) error {
			return remake(p, func(p string) error { return os.WriteFile(p, []byte("two"), 0o600) })
		},
	} {
		f := open(t, cache, later)
		must(t, change(dir+"/sub/b"))
		want, err := os.ReadFile(dir + "/sub/b")
		must(t, err)
		if got := digest2(t, f.File, dir+"/sub/b"); got != Sum(want) {
			t.Errorf("a file with another %s was not read again", name)
		}
	}
}

func TestRacyFilesAreReadAgain(t *testing.T) {
	for name, c := range map[string]struct {
		now   time.Duration // the clock's distance from the file's ctime
		mtime time.Duration // the mtime's distance from the clock
		racy  bool
	}{
		"just written":  {0, 0, true},
		"1.9 s old":     {1900 * time.Millisecond, -time.Hour, true},
		"2.1 s old":     {2100 * time.Millisecond, -time.Hour, false},
		"mtime ahead":   {time.Hour, time.Minute, true},
		"mtime young":   {time.Hour, -time.Second, true},
		"clock is back": {-time.Hour, -2 * time.Hour, true},
	} {
		dir := t.TempDir()
		path := dir + "/a"
		must(t, os.WriteFile(path, []byte("x"), 0o644))
		now := time.Now().Add(c.now)
		must(t, os.Chtimes(path, now.Add(c.mtime), now.Add(c.mtime)))
		fi, err := os.Stat(path)
		must(t, err)
		ctime := time.Unix(fi.Sys().(*syscall.Stat_t).Ctim.Unix())
		clock := ctime.Add(c.now)
		f := open(t, "", func() time.Time { return clock })
		digest2(t, f.File, path)
		digest2(t, f.Tree, dir)
		if remembered := len(f.cache.Entries(dir)) == 1; remembered == c.racy {
			t.Errorf("%s: remembered is %v, racy is %v", name, remembered, c.racy)
		}
	}
}

// TestDamagedCacheIsCold flips and cuts every byte of a cache file.
func TestDamagedCacheIsCold(t *testing.T) {
	dir, cache := t.TempDir(), filepath.Join(t.TempDir(), "files")
	build(t, dir, map[string]string{"a": "one", "sub/b": "two"})
	f := open(t, cache, later)
	want := digest2(t, f.Tree, dir)
	must(t, f.Close())
	if fi, err := os.Stat(cache); err != nil || fi.Mode() != 0o600 {
		t.Errorf("cache file: %v, %v", fi.Mode(), err)
	}
	good, err := os.ReadFile(cache)
	must(t, err)
	check := func(what string, b []byte) {
		must(t, os.WriteFile(cache, b, 0o600))
		f, err := openFiles(cache, later)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := digest2(t, f.Tree, dir); got != want {
			t.Fatalf("%s: wrong digest", what)
		}
	}
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 0x41
		check(fmt.Sprintf("byte %d flipped", i), bad)
		check(fmt.Sprintf("cut at %d", i), good[:i])
	}
	if entries, err := os.ReadDir(filepath.Dir(cache)); err != nil || len(entries) != 1 {
		t.Errorf("left behind beside the cache file: %v, %v", entries, err)
	}
}

func TestOddThingsAreErrors(t *testing.T) {
	dir := t.TempDir()
	build(t, dir, map[string]string{"sub/a": "x", "loop": "->loop"})
	must(t, syscall.Mkfifo(dir+"/pipe", 0o600))
	f := open(t, "", time.Now)
	for name, call := range map[string]func() (Digest, error){
		"no such":        func() (Digest, error) { return f.File(dir + "/nothing") },
		"is a folder":    func() (Digest, error) { return f.File(dir + "/sub") },
		"is a pipe":      func() (Digest, error) { return f.File(dir + "/pipe") },
		"a pipe":         func() (Digest, error) { return f.Tree(dir) },
		"too many":       func() (Digest, error) { return f.File(dir + "/loop") },
		"no such file":   func() (Digest, error) { return f.Tree(dir + "/nothing") },
		"without a name": func() (Digest, error) { return f.File("") },
	} {
		d, err := call()
		if err == nil || !d.IsZero() || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
	if _, err := OpenFiles(dir); err == nil {
		t.Error("a folder was opened as a cache file")
	}
}

// TestFileThatChangesWhileRead has a writer that never rests.
func TestFileThatChangesWhileRead(t *testing.T) {
	path := t.TempDir() + "/a"
	must(t, os.WriteFile(path, nil, 0o644))
	n := 0
	f := open(t, "", func() time.Time { // called before each reading
		n++
		must(t, os.Truncate(path, int64(n)<<26))
		return later()
	})
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := byte(0); ; i++ {
			select {
			case <-stop:
				return
			default:
				if err := os.Chmod(path, 0o600+os.FileMode(i%2)*0o44); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	_, err := f.File(path)
	close(stop)
	writer.Wait()
	if err == nil || !strings.Contains(err.Error(), "changed while it was read") {
		t.Errorf("got %v", err)
	}
}

func TestFilesFromManyGoroutines(t *testing.T) {
	dir, cache := t.TempDir(), filepath.Join(t.TempDir(), "files")
	build(t, dir, sampleTree)
	f := open(t, cache, later)
	want := digest2(t, open(t, "", later).Tree, dir)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if d, err := f.Tree(dir); err != nil || d != want {
					t.Errorf("tree %v, %v", d, err)
				}
				if d, err := f.File(dir + "/a"); err != nil || d != Sum([]byte("one")) {
					t.Errorf("file %v, %v", d, err)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestLargeFile compares with the system's own sha256sum.
func TestLargeFile(t *testing.T) {
	if os.Getenv("SOTABUILD_SLOW") == "" {
		t.Skip("set SOTABUILD_SLOW=1 to hash a file of 4 GiB and one byte")
	}
	path := t.TempDir() + "/large"
	must(t, os.WriteFile(path, nil, 0o644))
	must(t, os.Truncate(path, 4<<30+1))
	out, err := exec.Command("sha256sum", path).Output()
	must(t, err)
	if got := digest2(t, open(t, "", time.Now).File, path); got.String() != "sha256:"+string(out[:64]) {
		t.Errorf("got %s, sha256sum says %s", got, out[:64])
	}
}

// BenchmarkUnchangedTree is 100,000 unchanged files in 500 folders, opened from
// the kept cache each time. The goal is 0.25 s of CPU.
func BenchmarkUnchangedTree(b *testing.B) {
	dir, cache := b.TempDir(), filepath.Join(b.TempDir(), "files")
	for i := range 500 {
		sub := fmt.Sprintf("%s/%03d", dir, i)
		must(b, os.Mkdir(sub, 0o755))
		for j := range 200 {
			must(b, os.WriteFile(fmt.Sprintf("%s/file-%03d.json", sub, j), []byte{byte(j)}, 0o644))
		}
	}
	f := open(b, cache, later)
	digest2(b, f.Tree, dir)
	must(b, f.Close())
	b.ReportAllocs()
	for b.Loop() {
		f := open(b, cache, later)
		digest2(b, f.Tree, dir)
		must(b, f.Close())
	}
}
