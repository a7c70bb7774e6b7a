package image

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKilledBuildsLeaveNothing: what a build that was killed left beside its
// output goes with the next build of that output; what one that lives is writing
// stays, and so does everything that only looks alike.
func TestKilledBuildsLeaveNothing(t *testing.T) {
	dir, source := t.TempDir(), filepath.Join(t.TempDir(), "source")
	must(t, os.WriteFile(source, []byte("slow"), 0o644))
	slow, err := Build(map[string]File{"/a": {Source: source}}, Config{}, Platform{})
	must(t, err)
	quick, err := Build(map[string]File{"/a": {Data: []byte("quick")}}, Config{}, Platform{})
	must(t, err)
	// The slow build waits in the middle of its file for who writes the source.
	must(t, os.Remove(source))
	must(t, unix.Mkfifo(source, 0o600))
	out := filepath.Join(dir, "x.tar")
	ended := make(chan error)
	go func() { ended <- slow.WriteArchive(out, "x:slow") }()
	pipe, err := os.OpenFile(source, os.O_WRONLY, 0) // opens when the build has come to it
	must(t, err)
	names := func() (out []string) {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}
	writing := names()
	if len(writing) != 1 {
		t.Fatalf("a build is writing %q", writing)
	}
	dead := filepath.Join(dir, writing[0]+"1")
	must(t, os.WriteFile(dead, []byte("half"), 0o600))
	alike := []string{".x.tar.note", ".y.tar.sotabuild-1", "x.tar.sotabuild-1", ".x.tar.sotabuild-link", ".x.tar.sotabuild-folder"}
	for _, name := range alike[:3] {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	must(t, os.Symlink(writing[0]+"1", filepath.Join(dir, alike[3])))
	must(t, os.Mkdir(filepath.Join(dir, alike[4]), 0o700))
	must(t, quick.WriteArchive(out, "x:quick"))
	want := slices.Sorted(slices.Values(append(alike, writing[0], "x.tar")))
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	_, err = pipe.WriteString("slow")
	must(t, err)
	must(t, pipe.Close())
	must(t, <-ended)
	if got, want := names(), slices.Sorted(slices.Values(append(alike, "x.tar"))); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	img, err := Open(t.Context(), "docker-archive:"+out, Platform{})
	must(t, err)
	if img.Identity() != slow.Identity() {
		t.Errorf("the output is %s, want that of the build that ended last, %s", img.Identity(), slow.Identity())
	}
}

// TestOthersLeftoversStay: what another user's build left in a folder for all
// cannot be removed, and keeps nobody from building.
func TestOthersLeftoversStay(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED, to be two users takes root")
	}
	dir, err := os.MkdirTemp("", "sotabuild-all-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o777|os.ModeSticky))
	left := filepath.Join(dir, ".x.tar.sotabuild-1")
	must(t, os.WriteFile(left, []byte("half"), 0o644))
	quick, err := Build(map[string]File{"/a": {Data: []byte("quick")}}, Config{}, Platform{})
	must(t, err)
	built := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its goroutine
		err := unix.Setfsuid(65534)
		if err == nil {
			err = quick.WriteArchive(filepath.Join(dir, "x.tar"), "x:quick")
		}
		built <- err
	}()
	must(t, <-built)
	if _, err := os.Lstat(left); err != nil {
		t.Error(err)
	}
}
