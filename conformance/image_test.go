package conformance

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors/image"
)

// TestSoftwareInAnImage: a program and a tree have the same digests inside an
// image and on the host, so that keys do not know which of them is used.
func TestSoftwareInAnImage(t *testing.T) {
	host := t.TempDir()
	for name, mode := range map[string]os.FileMode{"server": 0o750, "lib/a.py": 0o640, "lib/sub/run": 0o700} {
		path := filepath.Join(host, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n# "+name+"\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("sub/run", filepath.Join(host, "lib/link")); err != nil {
		t.Fatal(err)
	}
	built, err := image.Build(map[string]image.File{
		"/opt/venv/bin/server": {Source: host + "/server"}, "/usr/bin/server": {Link: "../../opt/venv/bin/server"}, "/bin": {Link: "/usr/bin"},
		"/opt/lib/a.py": {Source: host + "/lib/a.py"}, "/opt/lib/sub/run": {Source: host + "/lib/sub/run"}, "/opt/lib/link": {Link: "sub/run"},
		"/lib": {Link: "/opt/lib"},
	}, image.Config{Env: []string{"PATH=/nowhere:/bin"}}, image.Platform{})
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := built.WriteArchive(archive, "server:1"); err != nil {
		t.Fatal(err)
	}
	i, err := image.Unpack(context.Background(), "docker-archive:"+archive, image.Platform{}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, err := image.OpenRoot(i.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	files, err := key.OpenFiles("")
	if err != nil {
		t.Fatal(err)
	}
	program, err := root.Program("server", image.PathOf(i.Config.Env))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := root.Lookup("/lib")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what        string
		of          func(string) (key.Digest, error)
		there, here string
	}{
		{"program", files.File, program.Host, host + "/server"},
		{"program as a tree", files.Tree, program.Host, host + "/server"},
		{"tree", files.Tree, tree.Host, host + "/lib"},
	} {
		there, err := c.of(c.there)
		if err != nil {
			t.Fatal(err)
		}
		here, err := c.of(c.here)
		if err != nil {
			t.Fatal(err)
		}
		if there != here {
			t.Errorf("%s: %s in the image, %s on the host", c.what, there, here)
		}
	}
	if program.Real != "/opt/venv/bin/server" || program.Path != "/bin/server" {
		t.Errorf("the program is %+v", program)
	}
}
