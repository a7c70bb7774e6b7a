package image

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// missing says what a test's real part lacks here; "" when it is there. Where
// SOTABUILD_REQUIRE names the part the test fails.
func missing(t *testing.T, part string, programs ...string) (why string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			why = part + ": the program " + p + " is not installed"
		}
	}
	if part == "docker" && why == "" && exec.Command("docker", "image", "inspect", testImage).Run() != nil {
		why = "docker: no daemon answers that has the image " + testImage
	}
	if why != "" && slices.Contains(strings.Split(os.Getenv("SOTABUILD_REQUIRE"), ","), part) {
		t.Fatalf("it is required here: %s", why)
	}
	return why
}

const testImage = "sotabuild-test:busybox"

func output(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return out
}

// TestDockerAgrees compares with the real daemon: what docker save writes is
// what docker image inspect says, and its files are those of docker export.
func TestDockerAgrees(t *testing.T) {
	if why := missing(t, "docker", "docker"); why != "" {
		t.Skip(why)
	}
	dir := t.TempDir()
	saved := filepath.Join(dir, "saved.tar")
	output(t, "docker", "save", "-o", saved, testImage)
	i, err := Open(context.Background(), "docker-archive:"+saved, Platform{})
	must(t, err)
	says := inspect(t, output(t, "docker", "image", "inspect", testImage))
	says.compare(t, i)
	if i.ConfigDigest != says.ID {
		t.Errorf("the id is %s, want %s", i.ConfigDigest, says.ID)
	}
	root, err := i.Extract(context.Background(), filepath.Join(dir, "cache"))
	must(t, err)

	container := strings.TrimSpace(string(output(t, "docker", "create", testImage, "/bin/true")))
	t.Cleanup(func() { output(t, "docker", "rm", container) })
	output(t, "docker", "export", "-o", filepath.Join(dir, "flat.tar"), container)
	flat := filepath.Join(dir, "flat")
	must(t, os.Mkdir(flat, 0o700))
	output(t, "tar", "-C", flat, "-xf", filepath.Join(dir, "flat.tar"))
	want, got := list(t, flat), list(t, root)
	for name := range want { // what docker create adds
		if top := strings.SplitN(name, "/", 2)[0]; slices.Contains([]string{"dev", "proc", "sys", ".dockerenv"}, top) ||
			slices.Contains([]string{"etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/mtab"}, name) {
			delete(want, name)
		}
	}
	for name := range got {
		if want[name] == "" && got[name] != "" && !slices.Contains([]string{"dev", "proc", "sys"}, name) || want[name] != got[name] && want[name] != "" {
			t.Errorf("%s differs from docker export", name)
		}
		delete(want, name)
	}
	delete(want, "etc")
	for name := range want {
		t.Errorf("%s is missing", name)
	}
}

// TestDockerLoadsWhatWeBuild: the daemon's id is our digest, and the image
// runs.
func TestDockerLoadsWhatWeBuild(t *testing.T) {
	if why := missing(t, "docker", "docker"); why != "" {
		t.Skip(why)
	}
	dir := t.TempDir()
	busybox := filepath.Join(dir, "busybox")
	container := strings.TrimSpace(string(output(t, "docker", "create", testImage, "/bin/true")))
	output(t, "docker", "cp", container+":/bin/busybox", busybox)
	output(t, "docker", "rm", container)
	i, err := Build(map[string]File{"/opt/tool": {Source: busybox}, "/bin/echo": {Link: "/opt/tool"}},
		Config{Env: []string{"PATH=/bin", "GREETING=hello"}, Entrypoint: []string{"/bin/echo", "from the image"}}, Platform{})
	must(t, err)
	tag := "sotabuild-test-image:" + strings.ToLower(filepath.Base(dir))
	must(t, i.WriteArchive(filepath.Join(dir, "x.tar"), tag))
	output(t, "docker", "load", "-q", "-i", filepath.Join(dir, "x.tar"))
	t.Cleanup(func() { output(t, "docker", "image", "rm", tag) })
	says := inspect(t, output(t, "docker", "image", "inspect", tag))
	says.compare(t, i)
	if says.ID != i.ConfigDigest {
		t.Errorf("the daemon calls it %s, we %s", says.ID, i.ConfigDigest)
	}
	if got := string(output(t, "docker", "run", "--rm", "--network=none", tag)); got != "from the image\n" {
		t.Errorf("it prints %q", got)
	}
}
