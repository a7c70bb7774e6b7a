package images

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/executors/docker/daemon"
	"github.com/sotabuild/sotabuild/executors/image"
)

// real connects to the daemon of this machine.
func real(t *testing.T) *daemon.Daemon {
	t.Helper()
	d, err := daemon.Dial(t.Context(), daemon.Options{})
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("SOTABUILD_REQUIRE"), ","), "docker") {
			t.Fatalf("docker is required here and missing: %v", err)
		}
		t.Skipf("SKIPPED, docker is not on this machine; .ci/start-docker starts it: %v", err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// TestIdentityIsThatOfTheFile: the daemon's description of an image has the
// identity that the archive has, so keys are equal on every executor.
func TestIdentityIsThatOfTheFile(t *testing.T) {
	d := real(t)
	said := []string{}
	store := Of(d, Options{Say: func(line string) { said = append(said, line) }})
	built, err := image.Build(map[string]image.File{"/data/x": {Data: []byte(t.Name())}},
		image.Config{Env: []string{"A=1"}, Cmd: []string{"/x"}, WorkingDir: "/data", User: "7:8"}, image.Platform{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := built.WriteArchive(path, "somebody/else:latest"); err != nil {
		t.Fatal(err)
	}
	got, err := store.Get(t.Context(), "docker-archive:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		tag := "sotabuild-image:" + strings.TrimPrefix(built.ConfigDigest, "sha256:")[:32]
		if err := d.RemoveImage(context.Background(), tag); err != nil {
			t.Error(err)
		}
	}()
	if got.Identity() != built.Identity() {
		t.Errorf("the daemon's image is %+v, the file's %+v", got, built)
	}
	if _, err := d.Image(t.Context(), "somebody/else:latest"); !errors.Is(err, daemon.ErrAbsent) {
		t.Errorf("the archive's own tag was moved: %v", err)
	}
	said = nil
	if _, err := store.Get(t.Context(), "docker-archive:"+path); err != nil || len(said) > 0 {
		t.Errorf("it was loaded a second time: %v, %v", said, err)
	}
	another := Of(d, Options{Say: func(line string) { said = append(said, line) }})
	if _, err := another.Get(t.Context(), "docker-archive:"+path); err != nil || len(said) > 0 {
		t.Errorf("another engine loads it again: %v, %v", said, err)
	}
}
