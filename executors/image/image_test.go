package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// amd is the platform of all images written by hand.
var amd = Platform{OS: "linux", Architecture: "amd64"}

// e is one entry of a layer written by hand.
type e struct {
	name, text string
	kind       byte // 0 is a file, or a folder where the name ends in /
	mode       int64
}

// tarOf writes a layer as tar would, in this order.
func tarOf(t testing.TB, entries ...e) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, x := range entries {
		h := &tar.Header{Name: x.name, Typeflag: x.kind, Mode: x.mode, ModTime: time.Unix(1e9, 0)}
		if h.Typeflag == 0 && strings.HasSuffix(x.name, "/") {
			h.Typeflag = tar.TypeDir
		} else if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(x.text))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if h.Typeflag == tar.TypeSymlink || h.Typeflag == tar.TypeLink {
			h.Linkname = x.text
		}
		must(t, w.WriteHeader(h))
		if h.Typeflag == tar.TypeReg {
			_, err := w.Write([]byte(x.text))
			must(t, err)
		}
	}
	must(t, w.Close())
	return b.Bytes()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

const configJSON = `{"architecture":"amd64","os":"linux","created":"1970-01-01T00:00:00Z","config":%s,"rootfs":{"type":"layers","diff_ids":[%s]}}`

// archive writes a docker-archive of layers by hand: neither our code nor the
// library's.
func archive(t testing.TB, config string, layers ...[]byte) string {
	t.Helper()
	var ids, names []string
	parts := []e{}
	for i, l := range layers {
		ids = append(ids, `"sha256:`+sum(l)+`"`)
		names = append(names, fmt.Sprintf(`"%d/layer.tar"`, i))
		parts = append(parts, e{name: fmt.Sprintf("%d/layer.tar", i), text: string(l)})
	}
	parts = append(parts, e{name: "config.json", text: fmt.Sprintf(configJSON, config, strings.Join(ids, ","))},
		e{name: "manifest.json", text: `[{"Config":"config.json","RepoTags":["x:1"],"Layers":[` + strings.Join(names, ",") + `]}]`})
	return "docker-archive:" + file(t, tarOf(t, parts...))
}

func file(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	must(t, os.WriteFile(path, b, 0o600))
	return path
}

// extract opens and unpacks.
func extract(t testing.TB, ref string) (string, error) {
	t.Helper()
	i, err := Open(context.Background(), ref, amd)
	if err != nil {
		return "", err
	}
	return i.Extract(context.Background(), t.TempDir())
}

// list is a tree as text by name: the bytes of a file, "->" and the text of a
// link, "/" of a folder.
func list(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		switch {
		case d.IsDir():
			out[name] = "/"
		case d.Type()&fs.ModeSymlink != 0:
			text, err := os.Readlink(p)
			out[name] = "->" + text
			return err
		default:
			text, err := os.ReadFile(p)
			out[name] = string(text)
			return err
		}
		return nil
	}))
	return out
}

// TestLayers stacks layers as the image specification says.
func TestLayers(t *testing.T) {
	type layers = [][]e
	for name, c := range map[string]struct {
		layers layers
		want   map[string]string
	}{
		"one": {layers{{{name: "a/"}, {name: "a/f", text: "1"}}}, map[string]string{"a": "/", "a/f": "1"}},
		"parents are made, names are cleaned": {layers{{{name: "./x/y/f", text: "1"}, {name: "/g", text: "2"}}},
			map[string]string{"x": "/", "x/y": "/", "x/y/f": "1", "g": "2"}},
		"higher wins":            {layers{{{name: "f", text: "1"}}, {{name: "f", text: "2"}}}, map[string]string{"f": "2"}},
		"last of one layer wins": {layers{{{name: "f", text: "1"}, {name: "f", text: "2"}}}, map[string]string{"f": "2"}},
		"whiteout": {layers{{{name: "d/f", text: "1"}, {name: "d/g", text: "2"}}, {{name: "d/.wh.f"}}},
			map[string]string{"d": "/", "d/g": "2"}},
		"whiteout of a folder": {layers{{{name: "d/e/f", text: "1"}}, {{name: "d/.wh.e"}}}, map[string]string{"d": "/"}},
		"whiteout leaves its own layer": {layers{{{name: "f", text: "1"}}, {{name: "f", text: "2"}, {name: ".wh.f"}}},
			map[string]string{"f": "2"}},
		"whiteout of nothing": {layers{{{name: "f", text: "1"}}, {{name: ".wh.g"}, {name: "none/.wh.h"}}}, map[string]string{"f": "1", "none": "/"}},
		"opaque": {layers{{{name: "d/f", text: "1"}, {name: "d/e/g", text: "2"}}, {{name: "d/e/h", text: "3"}, {name: "d/.wh..wh..opq"}}},
			map[string]string{"d": "/", "d/e": "/", "d/e/h": "3"}},
		"file over folder": {layers{{{name: "d/f", text: "1"}}, {{name: "d", text: "2"}}}, map[string]string{"d": "2"}},
		"folder over file": {layers{{{name: "d", text: "1"}}, {{name: "d/"}, {name: "d/f", text: "2"}}}, map[string]string{"d": "/", "d/f": "2"}},
		"folder over link": {layers{{{name: "r/f", text: "1"}, {name: "d", text: "r", kind: tar.TypeSymlink}}, {{name: "d/"}}},
			map[string]string{"r": "/", "r/f": "1", "d": "/"}},
		"file over link, not through it": {layers{{{name: "r", text: "1"}, {name: "d", text: "r", kind: tar.TypeSymlink}}, {{name: "d", text: "2"}}},
			map[string]string{"r": "1", "d": "2"}},
		"through a link": {layers{{{name: "run/"}, {name: "var/run", text: "/run", kind: tar.TypeSymlink}}, {{name: "var/run/f", text: "1"}}},
			map[string]string{"run": "/", "run/f": "1", "var": "/", "var/run": "->/run"}},
		"link above the root stays": {layers{{{name: "d/l", text: "../../../etc/x", kind: tar.TypeSymlink}}}, map[string]string{"d": "/", "d/l": "->../../../etc/x"}},
		"hard link into a lower layer": {layers{{{name: "f", text: "1"}}, {{name: "g", text: "f", kind: tar.TypeLink}}},
			map[string]string{"f": "1", "g": "1"}},
		"hard link keeps what was": {layers{{{name: "f", text: "1"}, {name: "g", text: "f", kind: tar.TypeLink}}, {{name: "f", text: "2"}}},
			map[string]string{"f": "2", "g": "1"}},
		"devices below dev":  {layers{{{name: "dev/null", kind: tar.TypeChar}, {name: "f", text: "1"}}}, map[string]string{"dev": "/", "f": "1"}},
		"aufs's bookkeeping": {layers{{{name: ".wh..wh.plnk/"}, {name: "f", text: "1"}}}, map[string]string{"f": "1"}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			var all [][]byte
			for _, l := range c.layers {
				all = append(all, tarOf(t, l...))
			}
			dir, err := extract(t, archive(t, "{}", all...))
			must(t, err)
			if diff := cmp.Diff(c.want, list(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAttributesAreKept(t *testing.T) {
	dir, err := extract(t, archive(t, "{}", tarOf(t, e{name: "d/", mode: 0o1777}, e{name: "d/f", text: "x", mode: 0o4755}, e{name: "d/g", mode: 0o600})))
	must(t, err)
	for name, want := range map[string]fs.FileMode{
		"d": fs.ModeDir | fs.ModeSticky | 0o777, "d/f": fs.ModeSetuid | 0o755, "d/g": 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode() != want || info.ModTime().Unix() != 1e9 {
			t.Errorf("%s has mode %s and time %d, want %s and 1000000000", name, info.Mode(), info.ModTime().Unix(), want)
		}
	}
}

// TestHostileImages: each is refused with its reason, and nothing is written
// outside, and nothing half unpacked stays.
func TestHostileImages(t *testing.T) {
	layer := func(entries ...e) func(testing.TB) string {
		return func(t testing.TB) string { return archive(t, "{}", tarOf(t, entries...)) }
	}
	good := func(t testing.TB) []byte { return tarOf(t, e{name: "f", text: strings.Repeat("x", 5000)}) }
	raw := func(t testing.TB, parts ...e) string { return "docker-archive:" + file(t, tarOf(t, parts...)) }
	manifest := e{name: "manifest.json", text: `[{"Config":"c","Layers":["l"]}]`}
	for name, c := range map[string]struct {
		ref  func(testing.TB) string
		want string
	}{
		"name above":            {layer(e{name: "../evil", text: "x"}), "leads out of the image"},
		"name above, hidden":    {layer(e{name: "a/../../evil", text: "x"}), "leads out of the image"},
		"whiteout above":        {layer(e{name: ".wh..."}, e{name: ".wh..", text: "x"}), "hides no file"},
		"hard link above":       {layer(e{name: "l", text: "../../etc/passwd", kind: tar.TypeLink}), "out of the image"},
		"hard link to itself":   {layer(e{name: "l", text: "l", kind: tar.TypeLink}), "hard link to itself"},
		"hard link to nothing":  {layer(e{name: "l", text: "gone", kind: tar.TypeLink}), "no such file"},
		"hard link through one": {layer(e{name: "s", text: "/etc", kind: tar.TypeSymlink}, e{name: "l", text: "s/passwd", kind: tar.TypeLink}), "no such file"},
		"links in a circle":     {layer(e{name: "a", text: "b", kind: tar.TypeSymlink}, e{name: "b", text: "a", kind: tar.TypeSymlink}, e{name: "a/f", text: "x"}), "more than 40 links"},
		"device":                {layer(e{name: "sda", kind: tar.TypeBlock}), "outside /dev"},
		"pipe":                  {layer(e{name: "p", kind: tar.TypeFifo}), "outside /dev"},
		"root is a file":        {layer(e{name: ".", text: "x"}), "root of an image is a folder"},
		"folder is a file":      {layer(e{name: "f", text: "x"}, e{name: "f/g", text: "x"}), "no folder"},
		"not what it says": {func(t testing.TB) string {
			b, err := os.ReadFile(strings.TrimPrefix(archive(t, "{}", good(t)), "docker-archive:"))
			must(t, err)
			return "docker-archive:" + file(t, bytes.Replace(b, []byte("xxxx"), []byte("xxXx"), 1))
		}, "the image says"},
		"cut off": {func(t testing.TB) string {
			b, err := os.ReadFile(strings.TrimPrefix(archive(t, "{}", good(t)), "docker-archive:"))
			must(t, err)
			return "docker-archive:" + file(t, b[:4000])
		}, "not a whole tar file"},
		"layer cut off": {func(t testing.TB) string { return archive(t, "{}", good(t)[:3000]) }, "cut off"},
		"more than the disk": {func(t testing.TB) string {
			b := good(t)[:512]
			copy(b[124:136], "\x80\x00\x00\x00\x3f\xff\xff\xff\xff\xff\xff\xff") // the size in base 256
			checksum(b)
			return archive(t, "{}", append(b, make([]byte, 4096)...))
		}, "the disk has no room"},
		"sparse": {func(t testing.TB) string {
			b := tarOf(t, e{name: "f", text: "x"})
			b[156] = tar.TypeGNUSparse
			copy(b[257:265], "ustar  \x00")
			copy(b[483:495], "77777777777\x00")
			checksum(b[:512])
			return "docker-archive:" + file(t, b)
		}, "sparse"},
		"manifest twice": {func(t testing.TB) string { return raw(t, manifest, manifest) }, "stands in it twice"},
		"no manifest":    {func(t testing.TB) string { return raw(t, e{name: "f", text: "x"}) }, "no manifest.json"},
		"manifest too large": {func(t testing.TB) string {
			return raw(t, e{name: "manifest.json", text: strings.Repeat(" ", limitJSON+1)})
		}, "is the limit"},
		"manifest no JSON": {func(t testing.TB) string { return raw(t, e{name: "manifest.json", text: "{"}) }, "cannot be read"},
		"no config":        {func(t testing.TB) string { return raw(t, manifest) }, `configuration "c" is missing`},
		"no layer":         {func(t testing.TB) string { return raw(t, manifest, e{name: "c", text: "{}"}) }, `layer "l" is missing`},
		"layer of a link": {func(t testing.TB) string {
			return raw(t, manifest, e{name: "l", text: "l", kind: tar.TypeSymlink}, e{name: "c", text: fmt.Sprintf(configJSON, "{}", `"sha256:`+sum(nil)+`"`)})
		}, "cycle"},
		"more layers than ids": {func(t testing.TB) string {
			return raw(t, manifest, e{name: "l"}, e{name: "c", text: fmt.Sprintf(configJSON, "{}", "")})
		}, "no layers"},
		"many images": {func(t testing.TB) string {
			return raw(t, e{name: "manifest.json", text: `[{"Config":"c","RepoTags":["a:1"],"Layers":["l"]},{"Config":"c","RepoTags":["b:2"],"Layers":["l"]}]`})
		}, "holds 2 images (a:1, b:2)"},
		"other processor": {func(t testing.TB) string {
			b, err := os.ReadFile(strings.TrimPrefix(archive(t, "{}", good(t)), "docker-archive:"))
			must(t, err)
			return "docker-archive:" + file(t, bytes.Replace(b, []byte("amd64"), []byte("arm64"), 1))
		}, "made for linux/arm64"},
		"no file":   {func(testing.TB) string { return "docker-archive:/no/such" }, "docker save"},
		"a folder":  {func(t testing.TB) string { return "docker-archive:" + t.TempDir() }, "oci:PATH"},
		"no layout": {func(t testing.TB) string { return "oci:" + t.TempDir() }, "no index.json"},
		"relative":  {func(testing.TB) string { return "docker-archive:image.tar" }, "not absolute"},
		"path":      {func(testing.TB) string { return "./image.tar" }, "docker-archive:PATH"},
		"short":     {func(testing.TB) string { return "busybox" }, "REGISTRY/NAME:TAG"},
		"no tag":    {func(testing.TB) string { return "registry.invalid/busybox" }, "REGISTRY/NAME:TAG"},
		"digest":    {func(testing.TB) string { return "registry.invalid/busybox@sha256:12" }, "REGISTRY/NAME:TAG"},
	} {
		t.Run(strings.NewReplacer(" ", "_", ",", "").Replace(name), func(t *testing.T) {
			ref := c.ref(t)
			i, err := Open(context.Background(), ref, amd)
			cache := filepath.Join(t.TempDir(), "cache")
			if err == nil {
				_, err = i.Extract(context.Background(), cache)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("the error is %v, want %q in it", err, c.want)
			}
			if full := name == "more than the disk"; errors.Is(err, ErrUnusable) == full {
				t.Errorf("whether asking again can help is wrong: %v", err)
			}
			left, _ := os.ReadDir(cache)
			for _, l := range left {
				if !strings.HasSuffix(l.Name(), ".lock") {
					t.Errorf("%s is left", l.Name())
				}
			}
			if up, err := os.ReadDir(filepath.Dir(cache)); err != nil || len(up) > 1 {
				t.Errorf("beside the cache stands %v", up)
			}
		})
	}
}

// checksum puts a header's checksum right.
func checksum(h []byte) {
	copy(h[148:156], "        ")
	n := 0
	for _, c := range h {
		n += int(c)
	}
	copy(h[148:156], fmt.Sprintf("%06o\x00 ", n))
}

// TestIdentityIsPinned compares with sha256sum of the text that the doc comment
// describes, and changes each part that runs.
func TestIdentityIsPinned(t *testing.T) {
	layer := tarOf(t, e{name: "f", text: "x"})
	config := `{"Env":["A=1","PATH=/bin"],"Entrypoint":["/f"],"Cmd":["<x>"],"WorkingDir":"/w","User":"1:2","StopSignal":"SIGINT","Volumes":{"/b":{},"/a":{}}}`
	open := func(config string, layers ...[]byte) *Image {
		t.Helper()
		i, err := Open(context.Background(), archive(t, config, layers...), amd)
		must(t, err)
		return i
	}
	text := `{"os":"linux","architecture":"amd64","diff_ids":["sha256:` + sum(layer) + `"],"config":{"env":["A=1","PATH=/bin"],` +
		`"entrypoint":["/f"],"cmd":["\u003cx\u003e"],"working_dir":"/w","user":"1:2","stop_signal":"SIGINT","volumes":["/a","/b"]}}`
	base := open(config, layer)
	if got, want := base.Identity(), "sha256:"+sum([]byte(text)); got != want {
		t.Errorf("identity %s, want %s", got, want)
	}
	if got := open(strings.Replace(config, "{", `{"Labels":{"a":"b"},"ExposedPorts":{"80/tcp":{}},`, 1), layer).Identity(); got != base.Identity() {
		t.Error("labels and ports are part of the identity")
	}
	seen := map[string]string{base.Identity(): "the base"}
	for what, i := range map[string]*Image{
		"env": open(strings.Replace(config, "A=1", "A=2", 1), layer), "cmd": open(strings.Replace(config, "<x>", "<y>", 1), layer),
		"folder": open(strings.Replace(config, "/w", "/v", 1), layer), "user": open(strings.Replace(config, "1:2", "1:3", 1), layer),
		"entrypoint": open(strings.Replace(config, `"/f"`, `"/g"`, 1), layer), "signal": open(strings.Replace(config, "SIGINT", "SIGTERM", 1), layer),
		"volumes": open(strings.Replace(config, "/b", "/c", 1), layer), "layer": open(config, tarOf(t, e{name: "f", text: "y"})),
		"two layers": open(config, layer, layer),
	} {
		if other, ok := seen[i.Identity()]; ok {
			t.Errorf("%s has the identity of %s", what, other)
		}
		seen[i.Identity()] = what
	}
}

// TestExtractOnce: the second asking finds the folder of the first, also when
// many ask at once, and what a killed process left goes away.
func TestExtractOnce(t *testing.T) {
	cache := t.TempDir()
	i, err := Open(context.Background(), archive(t, "{}", tarOf(t, e{name: "f", text: "x"})), amd)
	must(t, err)
	stale := filepath.Join(cache, "."+strings.TrimPrefix(i.Identity(), "sha256:")+".new-123")
	must(t, os.MkdirAll(filepath.Join(stale, "half"), 0o700))
	type result struct {
		dir string
		err error
	}
	all := make(chan result)
	for range 8 {
		go func() {
			dir, err := i.Extract(context.Background(), cache)
			all <- result{dir, err}
		}()
	}
	dirs := map[string]bool{}
	for range 8 {
		r := <-all
		if r.err != nil {
			t.Error(r.err)
		}
		dirs[r.dir] = true
	}
	if len(dirs) != 1 {
		t.Errorf("the folders are %v, want one", slices.Sorted(maps.Keys(dirs)))
	}
	if _, err := os.Stat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a killed process left is there: %v", err)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := i.Extract(gone, t.TempDir()); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnusable) {
		t.Errorf("a cancelled unpacking says %v", err)
	}
}

// TestProgram finds programs as a process inside would.
func TestProgram(t *testing.T) {
	dir, err := extract(t, archive(t, "{}", tarOf(t,
		e{name: "usr/bin/real", text: "#!"}, e{name: "usr/bin/data", text: "x", mode: 0o644},
		e{name: "bin", text: "usr/bin", kind: tar.TypeSymlink}, e{name: "usr/bin/tool", text: "/etc/alt/tool", kind: tar.TypeSymlink},
		e{name: "etc/alt/tool", text: "../../../../usr/bin/real", kind: tar.TypeSymlink}, e{name: "usr/bin/gone", text: "/no", kind: tar.TypeSymlink},
		e{name: "usr/bin/passwd", text: "../../../../../../../../etc/passwd", kind: tar.TypeSymlink}, e{name: "opt/real/", mode: 0o755})))
	must(t, err)
	root, err := OpenRoot(dir)
	must(t, err)
	defer root.Close()
	for name, c := range map[string]struct{ real, bad string }{
		"real": {"/usr/bin/real", ""}, "tool": {"/usr/bin/real", ""}, "/bin/real": {"/usr/bin/real", ""}, "/bin/../bin/tool": {"/usr/bin/real", ""},
		"data": {"", "in no folder of its PATH"}, "/usr/bin/data": {"", "not an executable file"}, "/opt/real": {"", "not an executable file"},
		"gone": {"", "in no folder"}, "/usr/bin/gone": {"", "no such file"}, "bin/real": {"", "not absolute"},
		"/usr/bin/passwd": {"", "no such file"}, // the host's own is not found
	} {
		got, err := root.Program(name, "relative:/opt:/none:/bin")
		if c.bad != "" {
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%s: %+v, %v; want %q", name, got, err, c.bad)
			}
			continue
		}
		if err != nil || got.Real != c.real || got.Host != dir+c.real {
			t.Errorf("%s: %+v, %v; want %s", name, got, err, c.real)
		}
	}
	if PathOf([]string{"PATH=/a", "X=1", "PATH=/b"}) != "/b" || PathOf(nil) != "" {
		t.Error("PATH is read wrong")
	}
}

// TestBuildIsTheSameEverywhere pins the digests. The layer is what Python's
// tarfile writes from the description at Build, but for the device numbers of
// what is no device, which are text there and zero bytes in Python's.
func TestBuildIsTheSameEverywhere(t *testing.T) {
	make1 := func(umask fs.FileMode) (*Image, string) {
		t.Helper()
		source := filepath.Join(t.TempDir(), "program")
		must(t, os.WriteFile(source, []byte("#!/bin/sh\n"), 0o600))
		must(t, os.Chmod(source, 0o700|umask))
		must(t, os.Chtimes(source, time.Now(), time.Unix(int64(umask)*1000, 0)))
		i, err := Build(map[string]File{
			"/usr/bin/server": {Source: source}, "/bin": {Link: "usr/bin"}, "/etc/conf": {Data: []byte("a = 1\n")},
			"/etc/secret": {Data: []byte("s"), Mode: 0o600}, "/empty/folder": {},
		}, Config{Env: []string{"PATH=/usr/bin"}, Entrypoint: []string{"/usr/bin/server"}}, amd)
		must(t, err)
		return i, source
	}
	a, source := make1(0)
	b, _ := make1(0o55)
	if a.ConfigDigest != b.ConfigDigest || a.Identity() != b.Identity() {
		t.Errorf("two buildings differ: %s, %s", a.ConfigDigest, b.ConfigDigest)
	}
	dir := t.TempDir()
	must(t, a.WriteArchive(filepath.Join(dir, "a.tar"), "server:1"))
	must(t, b.WriteArchive(filepath.Join(dir, "b.tar"), "server:1"))
	must(t, a.WriteLayout(filepath.Join(dir, "a"), "1"))
	must(t, b.WriteLayout(filepath.Join(dir, "b"), "1"))
	one, err := os.ReadFile(filepath.Join(dir, "a.tar"))
	must(t, err)
	two, err := os.ReadFile(filepath.Join(dir, "b.tar"))
	must(t, err)
	if !bytes.Equal(one, two) {
		t.Error("two archives of one image differ")
	}
	if diff := cmp.Diff(list(t, filepath.Join(dir, "a")), list(t, filepath.Join(dir, "b"))); diff != "" {
		t.Errorf("two layouts of one image differ: %s", diff)
	}
	const layerDigest, archiveDigest = "sha256:3418b3c7df046ca82e88b178af159b06e519bef63bdbf40e8564bc187d1eb41d", "3622023b85d4466f0e5801f6fb6e17c8ee767c934fb5e5abfa48a948f042e839"
	if a.DiffIDs[0] != layerDigest || sum(one) != archiveDigest {
		t.Errorf("the layer is %s, the archive %s; want %s, %s", a.DiffIDs[0], sum(one), layerDigest, archiveDigest)
	}
	for _, ref := range []string{"docker-archive:" + dir + "/a.tar", "oci:" + dir + "/a", "oci:" + dir + "/a:1"} {
		i, err := Open(context.Background(), ref, amd)
		must(t, err)
		if i.Identity() != a.Identity() {
			t.Errorf("%s has the identity %s, want %s", ref, i.Identity(), a.Identity())
		}
		root, err := i.Extract(context.Background(), t.TempDir())
		must(t, err)
		want := map[string]string{"usr": "/", "usr/bin": "/", "usr/bin/server": "#!/bin/sh\n", "bin": "->usr/bin", "etc": "/",
			"etc/conf": "a = 1\n", "etc/secret": "s", "empty": "/", "empty/folder": "/"}
		if diff := cmp.Diff(want, list(t, root)); diff != "" {
			t.Errorf("%s: %s", ref, diff)
		}
		if info, err := os.Stat(root + "/usr/bin/server"); err != nil || info.Mode() != 0o755 {
			t.Errorf("the program's mode is %v, %v", info.Mode(), err)
		}
	}
	if _, err := Open(context.Background(), "oci:"+dir+"/a:2", amd); err == nil || !strings.Contains(err.Error(), `it has the tags ["1"]`) {
		t.Errorf("a tag that is not there: %v", err)
	}
	if err := a.WriteLayout(dir+"/a", "1"); err == nil {
		t.Error("a layout was written over another")
	}
	must(t, os.WriteFile(source, []byte("#!/bin/ksh"), 0o700))
	if err := a.WriteArchive(dir+"/c.tar", "server:1"); err == nil || !strings.Contains(err.Error(), "changed since") {
		t.Errorf("a changed source: %v", err)
	}
	if left, _ := filepath.Glob(dir + "/.*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestBuildRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]File
		want  string
	}{
		"nothing":  {nil, "no files"},
		"relative": {map[string]File{"a": {Data: []byte("x")}}, "clean absolute"},
		"unclean":  {map[string]File{"/a/../b": {Data: []byte("x")}}, "clean absolute"},
		"below":    {map[string]File{"/a": {Data: []byte("x")}, "/a/b": {Data: []byte("x")}}, "no folder"},
		"two":      {map[string]File{"/a": {Data: []byte("x"), Link: "b"}}, "more than one"},
		"gone":     {map[string]File{"/a": {Source: "/no/such"}}, "no such file"},
		"folder":   {map[string]File{"/a": {Source: t.TempDir()}}, "no regular file"},
	} {
		if _, err := Build(c.files, Config{}, amd); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestLayouts: damage in a folder is noticed, and compressed layers and nested
// indexes of several platforms are read.
func TestLayouts(t *testing.T) {
	blob := func(dir string, b []byte) string {
		must(t, os.MkdirAll(dir+"/blobs/sha256", 0o700))
		must(t, os.WriteFile(dir+"/blobs/sha256/"+sum(b), b, 0o600))
		return fmt.Sprintf(`"digest":"sha256:%s","size":%d`, sum(b), len(b))
	}
	layer := tarOf(t, e{name: "f", text: "x"})
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write(layer)
	must(t, errors.Join(err, w.Close()))
	write := func() (dir, config, manifest string) {
		dir = t.TempDir()
		config = fmt.Sprintf(configJSON, "{}", `"sha256:`+sum(layer)+`"`)
		manifest = fmt.Sprintf(`{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json",%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",%s}]}`,
			blob(dir, []byte(config)), blob(dir, packed.Bytes()))
		inner := fmt.Sprintf(`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","platform":{"os":"linux","architecture":"amd64"},%s},`+
			`{"mediaType":"application/vnd.oci.image.manifest.v1+json","platform":{"os":"linux","architecture":"s390x"},"digest":"sha256:%s","size":3}]}`, blob(dir, []byte(manifest)), sum([]byte("no")))
		must(t, os.WriteFile(dir+"/oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o600))
		must(t, os.WriteFile(dir+"/index.json", []byte(fmt.Sprintf(`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json",%s}]}`, blob(dir, []byte(inner)))), 0o600))
		return dir, config, manifest
	}
	dir, _, manifest := write()
	i, err := Open(context.Background(), "oci:"+dir, amd)
	must(t, err)
	if i.ManifestDigest != "sha256:"+sum([]byte(manifest)) {
		t.Errorf("the manifest's digest is %s", i.ManifestDigest)
	}
	root, err := i.Extract(context.Background(), t.TempDir())
	must(t, err)
	if got := list(t, root); got["f"] != "x" || len(got) != 1 {
		t.Errorf("the files are %v", got)
	}
	for what, damage := range map[string]func() (dir, want string){
		"config": func() (string, string) {
			dir, config, _ := write()
			must(t, os.WriteFile(dir+"/blobs/sha256/"+sum([]byte(config)), []byte(strings.Replace(config, "{}", "[]", 1)), 0o600))
			return dir, "damaged"
		},
		"manifest": func() (string, string) {
			dir, _, manifest := write()
			must(t, os.WriteFile(dir+"/blobs/sha256/"+sum([]byte(manifest)), []byte(manifest+" "), 0o600))
			return dir, "damaged"
		},
		"layer": func() (string, string) {
			dir, _, _ := write()
			var other bytes.Buffer
			w := gzip.NewWriter(&other)
			_, err := w.Write(tarOf(t, e{name: "f", text: "y"}))
			must(t, errors.Join(err, w.Close()))
			must(t, os.WriteFile(dir+"/blobs/sha256/"+sum(packed.Bytes()), other.Bytes(), 0o600))
			return dir, "the image says"
		},
		"no blob": func() (string, string) {
			dir, config, _ := write()
			must(t, os.Remove(dir+"/blobs/sha256/"+sum([]byte(config))))
			return dir, "missing"
		},
	} {
		dir, want := damage()
		_, err := extract(t, "oci:"+dir)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
}

func TestPlainHTTPStaysOnThisHost(t *testing.T) {
	for host, want := range map[string]bool{"localhost": true, "a.localhost": true, "127.0.0.1": true, "::1": true, "10.0.0.1": false, "example.com": false, "127.0.0.1.example.com": false} {
		if got := loopback(host); got != want {
			t.Errorf("%s is on this host: %v, want %v", host, got, want)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := Open(ctx, "localhost:1/x:1", amd); err == nil || errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("no registry: %v", err)
	}
}

// FuzzLayer unpacks layers whose digests are right, whatever is in them: nothing
// appears beside the cache.
func FuzzLayer(f *testing.F) {
	for _, l := range [][]e{
		{{name: "d/"}, {name: "d/f", text: "x"}, {name: "d/.wh.g"}, {name: "d/.wh..wh..opq"}},
		{{name: "l", text: "../../x", kind: tar.TypeSymlink}, {name: "l/f", text: "x"}, {name: "h", text: "l/f", kind: tar.TypeLink}},
	} {
		f.Add(tarOf(f, l...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := Open(context.Background(), archive(t, "{}", b), amd)
		must(t, err) // the archive around it is whole
		around := t.TempDir()
		dir, err := i.Extract(context.Background(), filepath.Join(around, "cache"))
		if err == nil && filepath.Dir(filepath.Dir(dir)) != around {
			t.Error(dir)
		}
		if there, err := os.ReadDir(around); err != nil || len(there) != 1 {
			t.Errorf("beside the cache stands %v, %v", there, err)
		}
	})
}

// FuzzArchive: no bytes make us panic or write beside the folder.
func FuzzArchive(f *testing.F) {
	good, err := os.ReadFile(strings.TrimPrefix(archive(f, "{}", tarOf(f, e{name: "d/f", text: "x"}, e{name: "d/.wh.g"})), "docker-archive:"))
	must(f, err)
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		dir, err := extract(t, "docker-archive:"+file(t, b))
		if err == nil && !strings.HasPrefix(dir, os.TempDir()) {
			t.Error(dir)
		}
	})
}

// said is what the daemon or skopeo says of an image.
type said struct {
	ID           string `json:"Id"`
	Architecture string
	RootFS       struct{ Layers []string }
	Config       struct {
		Env, Entrypoint, Cmd []string
		WorkingDir, User     string
	}
}

func (s said) compare(t *testing.T, i *Image) {
	t.Helper()
	if diff := cmp.Diff(s.RootFS.Layers, i.DiffIDs); diff != "" {
		t.Errorf("the layers of %s: %s", i.Ref, diff)
	}
	want := Config{Env: s.Config.Env, Entrypoint: s.Config.Entrypoint, Cmd: s.Config.Cmd, WorkingDir: s.Config.WorkingDir, User: s.Config.User}
	if diff := cmp.Diff(want, i.Config); diff != "" {
		t.Errorf("the configuration of %s: %s", i.Ref, diff)
	}
	if i.Platform.Architecture != s.Architecture || s.Architecture != runtime.GOARCH {
		t.Errorf("the platform is %v, want %s", i.Platform, s.Architecture)
	}
}

func inspect(t *testing.T, text []byte) said {
	t.Helper()
	var s []said
	if err := json.Unmarshal(text, &s); err != nil || len(s) != 1 {
		t.Fatalf("docker image inspect says %s: %v", text, err)
	}
	return s[0]
}
