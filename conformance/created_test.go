package conformance

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// temporaries are what stands in the store for processes' temporary files.
func temporaries(t *testing.T, s *site) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.dir, ".sotabuild", "containers", "tmp"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

// private makes the store's folder as sotabuild itself would.
func private(t *testing.T, s *site) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(s.dir, ".sotabuild"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestPullKilledAnywhere: whenever `image pull` is killed after it has written
// down what it is about to make, clean-up removes that and nothing that looks
// like it; what nobody can say of whose it is stays and is named (R078, R080).
func TestPullKilledAnywhere(t *testing.T) {
	t.Parallel()
	there(t, "docker")
	host, _ := startRegistry(t)
	s := contained(t)
	push(t, filepath.Join(s.dir, "../../bin/tinyserve.tar"), host+"/tinyserve:killed")
	ref := host + "/tinyserve:killed"
	text := s.read("campaign.hcl")
	s.write("campaign.hcl", strings.ReplaceAll(text, "docker-archive:../../bin/tinyserve.tar", ref))
	s.write("place.campaign.hcl", "executor \"docker\" {}\n")
	// Foreign things with names like ours: in the daemon, and beside our folders.
	foreign := host + "/tinyserve:killed-too"
	shell(t, "docker", "tag", "sotabuild-test:busybox", foreign)
	t.Cleanup(func() { shell(t, "docker", "rmi", foreign) })
	private(t, s)
	s.write(".sotabuild/containers/tmp/somebody's/file", "")
	here := func() bool { return exec.Command("docker", "image", "inspect", ref).Run() == nil }
	written := func() bool {
		b, err := os.ReadFile(filepath.Join(s.dir, ".sotabuild/containers/created.json"))
		return err == nil && strings.Contains(string(b), ref)
	}
	for _, after := range []time.Duration{0, 10, 50, 100, 200, 400, 800, 2000} {
		after *= time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := s.command(ctx, "image", "pull")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for !written() && ctx.Err() == nil {
			time.Sleep(time.Millisecond) // a file is polled: there is nothing to wait on
		}
		<-time.After(after)    // the moment is the point of it
		_ = cmd.Process.Kill() // or it has ended, which is a moment too
		_ = cmd.Wait()
		cancel()
		r := s.must(0, "cache", "gc", "--without-campaign")
		switch left := here(); {
		case !left: // removed, or the daemon gave it up
		case !strings.Contains(r.err, ref+" is left alone: ") || !strings.Contains(r.err, "docker image rm "+ref):
			t.Errorf("killed after %s, the image is left without a word\n%s\n%s", after, r.out, r.err)
		default: // it came between being made and being told
			shell(t, "docker", "image", "rm", ref)
		}
		if left := temporaries(t, s); len(left) != 1 || left[0] != "somebody's" {
			t.Errorf("killed after %s, temporary folders: %q", after, left)
		}
	}
	if written() {
		t.Error("the last pull was whole and is still written down")
	}
	shell(t, "docker", "image", "inspect", foreign)
}

// TestInterruptedPull: a registry that does not answer is left at the first
// Ctrl-C, by image pull and by apply, and no temporary file stays.
func TestInterruptedPull(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"docker", "oci"} {
		for _, words := range [][]string{{"image", "pull"}, {"apply"}} {
			t.Run(kind+"/"+strings.Join(words, "_"), func(t *testing.T) {
				t.Parallel()
				there(t, kind)
				silent, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer silent.Close()
				s := contained(t)
				text := s.read("campaign.hcl")
				s.write("campaign.hcl", strings.ReplaceAll(text, "docker-archive:../../bin/tinyserve.tar", silent.Addr().String()+"/nothing:1"))
				s.write("place.campaign.hcl", "executor \""+kind+"\" {}\n")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cmd := s.command(ctx, words...)
				var said strings.Builder
				cmd.Stdout, cmd.Stderr = &said, &said
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				conn, err := silent.Accept() // now it waits for the registry
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if b, err := os.ReadFile(filepath.Join(s.dir, ".sotabuild/containers/created.json")); kind == "docker" && (err != nil || !strings.Contains(string(b), silent.Addr().String())) {
					t.Errorf("the daemon asks for an image that is not written down: %v, %s", err, b)
				}
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait() // its exit code is looked at below
				if code := cmd.ProcessState.ExitCode(); code != 130 {
					t.Errorf("exit code %d, want 130\n%s", code, said.String())
				}
				if left := temporaries(t, s); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
				nothing, err := exec.Command("docker", "images", "--quiet", silent.Addr().String()+"/nothing").Output()
				if kind == "docker" && (err != nil || len(nothing) > 0) {
					t.Errorf("images: %s %v", nothing, err)
				}
			})
		}
	}
}

// TestImageOfAnother: the image that bears the name of one that was pulled, and
// is not it, is left alone, and so is one of a name whose pull was killed
// before anybody could say what was made (R078, R080).
func TestImageOfAnother(t *testing.T) {
	t.Parallel()
	there(t, "docker")
	daemon := strings.TrimSpace(shell(t, "docker", "info", "--format", "{{.ID}}"))
	mine := strings.TrimSpace(shell(t, "docker", "image", "inspect", "--format", "{{.Id}}", "sotabuild-test:busybox"))
	for _, tt := range []struct{ name, keeper, id, says string }{
		{"Moved", daemon, "sha256:0123", "is left alone"},
		{"KilledBefore", daemon, "", "is left alone"},
		{"OtherDaemon", "AAAA:BBBB", mine, "stays"},
		{"Ours", daemon, mine, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, nil)
			ref := fmt.Sprintf("sotabuild-created.test/%s:%d", strings.ToLower(tt.name), os.Getpid())
			shell(t, "docker", "tag", "sotabuild-test:busybox", ref)
			t.Cleanup(func() { _ = exec.Command("docker", "rmi", ref).Run() }) // clean-up may have done it
			private(t, s)
			s.write(".sotabuild/containers/created.json", fmt.Sprintf(`[{"kind":"docker","name":%q,"keeper":%q,"id":%q,"at":"2026-11-01T00:00:00Z"}]`, ref, tt.keeper, tt.id))
			if out := s.must(0, "cache", "gc", "--without-campaign", "--dry-run").out; !strings.Contains(out, ref) {
				t.Errorf("a dry run does not list it:\n%s", out)
			}
			r := s.must(0, "cache", "gc", "--without-campaign")
			if !strings.Contains(r.err, tt.says) || (r.err == "") != (tt.says == "") {
				t.Errorf("clean-up says %q, want %q", r.err, tt.says)
			}
			err := exec.Command("docker", "image", "inspect", ref).Run()
			if gone := err != nil; gone != (tt.name == "Ours") {
				t.Errorf("the image is gone: %t", gone)
			}
			if kept := strings.Contains(s.read(".sotabuild/containers/created.json"), ref); kept != (tt.name == "OtherDaemon") {
				t.Errorf("it is still written down: %t", kept)
			}
		})
	}
}
