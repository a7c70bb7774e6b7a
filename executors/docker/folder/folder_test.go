package folder

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestUnpackStaysInside(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	pack := func(headers ...tar.Header) *bytes.Buffer {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			if h.Typeflag == tar.TypeReg {
				h.Size = 4
			}
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if h.Size > 0 {
				w.Write([]byte("evil"))
			}
		}
		w.Close()
		return &b
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".docker"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*bytes.Buffer{
		"link out":      pack(tar.Header{Typeflag: tar.TypeSymlink, Name: "t/l", Linkname: filepath.Dir(outside)}, tar.Header{Typeflag: tar.TypeReg, Name: "t/l/outside"}),
		"dots":          pack(tar.Header{Typeflag: tar.TypeReg, Name: "t/../../../../../.." + outside}),
		"hard link out": pack(tar.Header{Typeflag: tar.TypeLink, Name: "t/h", Linkname: "t/../.." + outside}, tar.Header{Typeflag: tar.TypeReg, Name: "t/h"}),
		"our notes":     pack(tar.Header{Typeflag: tar.TypeReg, Name: "t/.docker/task.json"}),
		"notes by link": pack(tar.Header{Typeflag: tar.TypeSymlink, Name: "t/.docker", Linkname: "x"}),
	} {
		err := Unpack(b, dir)
		t.Logf("%s: %v", name, err)
		if text, err := os.ReadFile(outside); err != nil || string(text) != "mine" {
			t.Fatalf("%s: the file outside is %q, %v", name, text, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, ".docker", "task.json")); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%s: our notes were written: %v", name, err)
		}
	}
}
