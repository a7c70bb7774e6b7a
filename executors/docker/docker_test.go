package docker

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/go-units"
	"github.com/google/go-cmp/cmp"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sotabuild/sotabuild/executors"
)

func TestRequest(t *testing.T) {
	e := &Executor{o: Options{Self: "/opt/sotabuild", Network: "none"}}
	task := executors.Task{
		ID: "t-1", Dir: "/w/t-1", StopGrace: 5e9, Labels: map[string]string{executors.LabelRun: "r"},
		Process: specs.Process{Args: []string{"/opt/sotabuild", "runner", "spec.json"}, Env: []string{"A=1", "PATH=/x"},
			User: specs.User{UID: 5, GID: 6, AdditionalGids: []uint32{7}}, Capabilities: &specs.LinuxCapabilities{Bounding: []string{"CAP_SYS_ADMIN"}}},
		Mounts:    []specs.Mount{{Source: "/models", Destination: "/models", Options: []string{"ro"}}},
		Resources: executors.Resources{GPUs: []string{"GPU-1", "0"}, CPUs: 2, Memory: 1 << 30, ShmSize: 1 << 20, Ulimits: map[string]uint64{"nofile": 9, "memlock": 1<<64 - 1}},
	}
	host, err := hostOf(e, task, Shared)
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	want := &container.HostConfig{
		Init: &yes, NetworkMode: "none", ShmSize: 1 << 20, CapAdd: []string{"SYS_ADMIN"}, GroupAdd: []string{"7"},
		LogConfig: container.LogConfig{Type: "local", Config: map[string]string{"max-size": "1t", "max-file": "1", "compress": "false"}},
		Mounts: []mount.Mount{
			{Type: "bind", Source: "/w/t-1", Target: "/w/t-1"},
			{Type: "bind", Source: "/opt/sotabuild", Target: "/opt/sotabuild", ReadOnly: true},
			{Type: "bind", Source: "/models", Target: "/models", ReadOnly: true},
		},
		Resources: container.Resources{
			NanoCPUs: 2e9, Memory: 1 << 30, MemorySwap: 1 << 30,
			Ulimits:        []*units.Ulimit{{Name: "memlock", Soft: -1, Hard: -1}, {Name: "nofile", Soft: 9, Hard: 9}},
			DeviceRequests: []container.DeviceRequest{{Driver: "nvidia", DeviceIDs: []string{"GPU-1", "0"}, Capabilities: [][]string{{"gpu", "compute", "utility"}}}},
		},
	}
	if d := cmp.Diff(want, host); d != "" {
		t.Errorf("how it is run (-want +got):\n%s", d)
	}
	wantConfig := &container.Config{
		Image: "sha256:1", User: "5:6", WorkingDir: "/w/t-1", Entrypoint: task.Process.Args,
		Env:         []string{"A=1", "PATH=/x", "HOSTNAME", "OF_IMAGE"},
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		Labels: map[string]string{executors.LabelRun: "r", executors.LabelTask: "t-1", "dev.sotabuild.dir": "/w/t-1",
			"dev.sotabuild.files": "shared", "dev.sotabuild.deadline_ns": "0", "dev.sotabuild.grace_ns": "5000000000"},
	}
	if d := cmp.Diff(wantConfig, configOf(e, task, Shared, "sha256:1", []string{"PATH=/bin", "OF_IMAGE=1"})); d != "" {
		t.Errorf("what runs (-want +got):\n%s", d)
	}
	if len(task.Labels) != 1 {
		t.Errorf("the task's own labels were changed: %v", task.Labels)
	}

	task.Resources = executors.Resources{NetHost: true, IPCHost: true, GPUs: []string{"3", "vendor.com/gpu=4", "/dev/dri/renderD128"}}
	e.o.CDI = true
	if host, err = hostOf(e, task, Copied); err != nil {
		t.Fatal(err)
	}
	if host.NetworkMode != "host" || host.IpcMode != "host" || len(host.Mounts) != 1 {
		t.Errorf("network %s, ipc %s, mounts %v", host.NetworkMode, host.IpcMode, host.Mounts)
	}
	wantGPUs := container.Resources{
		DeviceRequests: []container.DeviceRequest{{Driver: "cdi", DeviceIDs: []string{"nvidia.com/gpu=3", "vendor.com/gpu=4"}}},
		Devices:        []container.DeviceMapping{{PathOnHost: "/dev/dri/renderD128", PathInContainer: "/dev/dri/renderD128", CgroupPermissions: "rwm"}},
	}
	if d := cmp.Diff(wantGPUs, host.Resources); d != "" {
		t.Errorf("GPUs (-want +got):\n%s", d)
	}
	for want, change := range map[string]func(*executors.Task){
		"no effect with the host's ipc": func(t *executors.Task) { t.Resources = executors.Resources{IPCHost: true, ShmSize: 1} },
		`no mount option "exec"`:        func(t *executors.Task) { t.Mounts[0].Options = []string{"exec"} },
		"needs absolute paths":          func(t *executors.Task) { t.Mounts[0].Source = "models" },
	} {
		bad := task
		bad.Mounts = []specs.Mount{task.Mounts[0]}
		change(&bad)
		if _, err := hostOf(e, bad, Shared); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

func TestUser(t *testing.T) {
	root := executors.Task{}
	e := &Executor{}
	if got, want := e.user(root), fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()); got != want {
		t.Errorf("nobody named runs as %s, want the engine's user %s", got, want)
	}
	e.info = system.Info{SecurityOptions: []string{"name=seccomp,profile=default", "name=rootless"}}
	if got := e.user(root); got != "0:0" {
		t.Errorf("in a rootless daemon: %s, want root, who is that user", got)
	}
}

func frame(stream byte, text string) []byte {
	head := make([]byte, 8)
	head[0] = stream
	binary.BigEndian.PutUint32(head[4:], uint32(len(text)))
	return append(head, text...)
}

func TestDemux(t *testing.T) {
	full := strings.Repeat("x", chunk)
	for name, c := range map[string]struct {
		in   [][]byte
		want string
	}{
		"lines":        {[][]byte{frame(1, "a\n"), frame(2, "b\n"), frame(1, "end")}, "a\nb\nend"},
		"lost newline": {[][]byte{frame(1, full), frame(1, "y"), frame(1, "z\n")}, full + "y\nz\n"},
		"kept newline": {[][]byte{frame(1, full), frame(1, full), frame(1, "y\n")}, full + full + "y\n"},
		"two streams":  {[][]byte{frame(1, full), frame(2, "no"), frame(1, "y")}, full + "noy\n"},
		"full line":    {[][]byte{frame(1, full[1:]+"\n"), frame(1, "y")}, full[1:] + "\ny"},
	} {
		var got bytes.Buffer
		if err := demux(&got, bytes.NewReader(bytes.Join(c.in, nil))); err != nil || got.String() != c.want {
			t.Errorf("%s: %d bytes, %v; want %d", name, got.Len(), err, len(c.want))
		}
	}
	cut := frame(1, "abc")
	if err := demux(&bytes.Buffer{}, bytes.NewReader(cut[:9])); err == nil {
		t.Error("a stream that was cut off is no error")
	}
	if err := demux(&bytes.Buffer{}, strings.NewReader("no multiplexed stream")); err == nil {
		t.Error("a raw stream was read as frames")
	}
}

func TestRestPassesEachByteOnce(t *testing.T) {
	var got bytes.Buffer
	r := &rest{w: &got}
	for _, reading := range []string{"abc", "abcdef", "ab", "abcdefgh"} {
		r.again()
		for _, c := range []byte(reading) {
			if n, err := r.Write([]byte{c}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
	}
	if got.String() != "abcdefgh" {
		t.Errorf("passed on %q", got.String())
	}
}

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
		err := unpack(b, dir)
		t.Logf("%s: %v", name, err)
		if text, err := os.ReadFile(outside); err != nil || string(text) != "mine" {
			t.Fatalf("%s: the file outside is %q, %v", name, text, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, ".docker", "task.json")); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%s: our notes were written: %v", name, err)
		}
	}
}

func TestVersionsCompare(t *testing.T) {
	for _, c := range [][2]string{{"1.9", "1.41"}, {"1.40", "1.41"}, {"0.99", "1.0"}} {
		if !older(c[0], c[1]) || older(c[1], c[0]) || older(c[0], c[0]) {
			t.Errorf("%s and %s", c[0], c[1])
		}
	}
}

func TestDialSaysWhatIsWrong(t *testing.T) {
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.38")
		w.Header().Set("Ostype", "linux")
	}))
	defer old.Close()
	t.Setenv("DOCKER_CERT_PATH", "")
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"nobody":  {Options{Host: "unix:///no/such.sock"}, "no daemon answers at unix:///no/such.sock"},
		"old":     {Options{Host: "tcp" + strings.TrimPrefix(old.URL, "http")}, "speaks API 1.38 at most, and 1.41 (Docker 20.10) is the oldest"},
		"scheme":  {Options{Host: "http://x"}, "is none of unix:///PATH"},
		"certs":   {Options{Host: "tcp://127.0.0.1:1", Certs: "/no/such"}, "ca.pem, cert.pem and key.pem in /no/such"},
		"program": {Options{Self: "sotabuild"}, "no absolute path"},
		"ssh":     {Options{Host: "ssh://"}, "ssh"},
	} {
		if _, err := Dial(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
