package conformance

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// startRegistry runs Debian's registry on a port of this host, without TLS,
// until stop or the end of the test.
func startRegistry(t *testing.T) (host string, stop func()) {
	t.Helper()
	for _, program := range []string{"docker-registry", "skopeo"} {
		if _, err := exec.LookPath(program); err != nil {
			missing(t, "registry", "Debian's "+program+": "+err.Error())
		}
	}
	port := unchosen(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s/data}}\nhttp: {addr: \"127.0.0.1:%d\"}\n", dir, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("docker-registry", "serve", config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it may have ended by itself, which the test has said
		<-ended
	})
	t.Cleanup(stop)
	host = fmt.Sprintf("localhost:%d", port)
	for late := time.After(time.Minute); ; {
		if r, err := http.Get("http://" + host + "/v2/"); err == nil {
			_, err := io.Copy(io.Discard, r.Body)
			if r.Body.Close() == nil && err == nil && r.StatusCode == http.StatusOK {
				return host, stop
			}
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the registry ended: %v", err)
		case <-late:
			t.Fatal("the registry does not answer")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// unchosen is a free port that nobody is given: neither a connection nor a server
// whose port is chosen nor a cluster of the tests.
func unchosen(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 10000 + rand.IntN(6000)
		if l, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return port
		}
	}
	t.Fatal("no port from 10000 to 15999 is free")
	return 0
}

// push copies an image file into a registry and returns its digest there.
func push(t *testing.T, archive, ref string) (digest string) {
	t.Helper()
	shell(t, "skopeo", "copy", "--quiet", "--dest-tls-verify=false", "docker-archive:"+archive, "docker://"+ref)
	digest = strings.TrimSpace(shell(t, "skopeo", "inspect", "--tls-verify=false", "--format", "{{.Digest}}", "docker://"+ref))
	if !strings.HasPrefix(digest, "sha256:") {
		t.Fatalf("skopeo says the digest is %q", digest)
	}
	return digest
}

// TestCampaignFromARegistry names an image by tag and by digest. A plan pulls
// nothing and says what does; image pull and apply get it; keys are those of the
// program on this host; clean-up takes the image away again.
func TestCampaignFromARegistry(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"docker", "oci"} {
		for _, form := range []string{"tag", "digest"} {
			t.Run(kind+"/"+form, func(t *testing.T) {
				there(t, kind)
				host, stop := startRegistry(t)
				s := contained(t)
				// Names of its own, so that no other test has the image already.
				ref := host + "/tinyserve:" + form
				digest := push(t, filepath.Join(s.dir, "../../bin/tinyserve.tar"), ref)
				if form == "digest" {
					ref = host + "/tinyserve@" + digest
				}
				text := s.read("campaign.hcl")
				local := s.must(0, "plan", "--json", "--executor", "local").out
				s.write("campaign.hcl", strings.ReplaceAll(text, "docker-archive:../../bin/tinyserve.tar", ref))

				s.write("place.campaign.hcl", "executor \""+kind+"\" {}\n")
				r := s.run("plan")
				if r.code == 0 || !strings.Contains(r.err, "Image not found") || !strings.Contains(strings.Join(strings.Fields(r.err), " "), "`sotabuild image pull` gets every image") {
					t.Errorf("a plan without the image: exit code %d\n%s\n%s", r.code, r.out, r.err)
				}
				if form == "digest" {
					if r := s.must(0, "image", "pull"); !strings.Contains(r.err, "Pulling "+ref) {
						t.Errorf("image pull says\n%s", r.err)
					}
					stop() // what was pulled is here
					if out := s.must(0, "image", "pull").out; out != "Every image is here.\n" {
						t.Errorf("a second image pull says %q", out)
					}
					if got := s.must(0, "plan", "--json").out; got != local {
						t.Errorf("the plan is another than that for local:\n%s\nlocal:\n%s", got, local)
					}
				}
				applied := s.must(0, "apply")
				if strings.Contains(applied.err, "Pulling "+ref) != (form == "tag") {
					t.Errorf("apply says\n%s", applied.err)
				}
				for _, r := range s.rows() {
					if r.get("status") != "ok" {
						t.Errorf("row %v", r)
					}
				}
				if out := s.must(0, "plan", "--executor", "local").out; !strings.HasPrefix(out, "Plan: nothing to run, ") {
					t.Errorf("what %s measured is stale for local:\n%s", kind, out)
				}
				nothingLeft(t, s)
				if kind == "docker" {
					shell(t, "docker", "image", "inspect", ref)
					s.must(0, "cache", "gc", "--without-campaign")
					if out, err := exec.Command("docker", "image", "inspect", ref).CombinedOutput(); err == nil {
						t.Errorf("clean-up left the image:\n%s", out)
					}
				}
			})
		}
	}
}
