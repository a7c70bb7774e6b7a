package image

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// registry runs Debian's registry on a port of its own.
func registry(t *testing.T) (host string) {
	t.Helper()
	dir := t.TempDir()
	for range 5 { // another process may take the port in between
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		host = l.Addr().String()
		must(t, l.Close())
		config := filepath.Join(dir, "config.yml")
		must(t, os.WriteFile(config, []byte(fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s/data}}\nhttp: {addr: %s}\n", dir, host)), 0o600))
		cmd := exec.Command("docker-registry", "serve", config)
		ended := make(chan error, 1)
		must(t, cmd.Start())
		go func() { ended <- cmd.Wait() }()
		answers := make(chan bool, 1)
		go func() { answers <- ready(host) }()
		select {
		case <-ended:
			continue
		case ok := <-answers:
			t.Cleanup(func() {
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
				<-ended
			})
			if !ok {
				t.Fatal("the registry does not answer")
			}
			return host
		}
	}
	t.Fatal("the registry found no port")
	return ""
}

func ready(host string) bool {
	for late := time.Now().Add(20 * time.Second); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		if r, err := http.Get("http://" + host + "/v2/"); err == nil {
			return r.Body.Close() == nil && r.StatusCode == http.StatusOK
		}
	}
	return false
}

// TestRegistry pulls from a real registry what skopeo pushed there, by tag and
// by digest; the identity is that of every other form of the image.
func TestRegistry(t *testing.T) {
	if why := missing(t, "registry", "docker-registry", "skopeo"); why != "" {
		t.Skip(why)
	}
	host := registry(t)
	dir := t.TempDir()
	built, err := Build(map[string]File{"/bin/x": {Data: []byte("#!/x"), Mode: 0o755}, "/l": {Link: "/bin"}},
		Config{Env: []string{"A=<&>"}, Cmd: []string{"/bin/x"}, WorkingDir: "/bin"}, Platform{})
	must(t, err)
	must(t, built.WriteArchive(dir+"/a.tar", "x:1"))
	must(t, built.WriteLayout(dir+"/l", "1"))
	output(t, "skopeo", "copy", "-q", "--dest-tls-verify=false", "docker-archive:"+dir+"/a.tar", "docker://"+host+"/team/x:1")
	output(t, "skopeo", "copy", "-q", "--dest-tls-verify=false", "oci:"+dir+"/l:1", "docker://"+host+"/team/x:oci")
	output(t, "skopeo", "copy", "-q", "--src-tls-verify=false", "docker://"+host+"/team/x:1", "oci:"+dir+"/back:2")
	output(t, "skopeo", "copy", "-q", "--src-tls-verify=false", "docker://"+host+"/team/x:1", "docker-archive:"+dir+"/back.tar:y:3")
	output(t, "skopeo", "copy", "-q", "--dest-compress", "--dest-compress-format", "zstd", "oci:"+dir+"/l:1", "oci:"+dir+"/zstd:1")
	digest := strings.TrimSpace(string(output(t, "skopeo", "inspect", "--tls-verify=false", "--format", "{{.Digest}}", "docker://"+host+"/team/x:1")))

	ctx := context.Background()
	for _, ref := range []string{host + "/team/x:1", host + "/team/x@" + digest, host + "/team/x:oci", "oci:" + dir + "/back:2", "oci:" + dir + "/back", "docker-archive:" + dir + "/back.tar", "oci:" + dir + "/l", "oci:" + dir + "/zstd"} {
		i, err := Open(ctx, ref, Platform{})
		must(t, err)
		if i.Identity() != built.Identity() {
			t.Errorf("%s has the identity %s, want %s", ref, i.Identity(), built.Identity())
		}
		root, err := i.Extract(ctx, t.TempDir())
		must(t, err)
		if got := list(t, root); got["bin/x"] != "#!/x" || got["l"] != "->/bin" || len(got) != 3 {
			t.Errorf("%s holds %v", ref, got)
		}
	}
	cache := t.TempDir()
	for _, pinned := range []string{host + "/team/x@" + digest, host + "/team/x:1@" + digest} {
		files, err := Unpack(ctx, pinned, Platform{}, cache)
		must(t, err)
		gone := strings.Replace(pinned, host, "127.0.0.1:1", 1) // the same note, for a registry that is not there
		if _, err := Unpack(ctx, gone, Platform{}, cache); err == nil {
			t.Errorf("%s was unpacked from another registry's note", gone)
		}
		silent, cancel := context.WithCancel(ctx)
		cancel() // nothing can be asked any more
		if again, err := Unpack(silent, pinned, Platform{}, cache); err != nil || again.Dir != files.Dir || again.Config.Env[0] != "A=<&>" {
			t.Errorf("the second unpacking of %s: %+v, %v", pinned, again, err)
		}
	}
	if _, err := Unpack(ctx, host+"/team/x:1", Platform{}, cache); err != nil {
		t.Error(err)
	}
	i, err := Open(ctx, host+"/team/x:1", Platform{})
	must(t, err)
	if i.ManifestDigest != digest || i.Pinned() != host+"/team/x@"+digest {
		t.Errorf("the digest is %s, pinned %s; skopeo says %s", i.ManifestDigest, i.Pinned(), digest)
	}
	for _, c := range []struct{ ref, want string }{
		{host + "/team/x:2", "manifest unknown"},
		{host + "/team/y:1", "is not in its registry"},
		{host + "/team/x@sha256:" + sum(nil), "manifest unknown"},
	} {
		if _, err := Open(ctx, c.ref, Platform{}); err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: %v, want %q", c.ref, err, c.want)
		}
	}
	if _, err := Open(ctx, host+"/team/x:1", Platform{Architecture: "s390x"}); err == nil || !strings.Contains(err.Error(), "wanted") {
		t.Errorf("another processor: %v", err)
	}
}
