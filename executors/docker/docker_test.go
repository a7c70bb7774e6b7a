package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/docker/daemon"
	"github.com/sotabuild/sotabuild/executors/docker/images"
)

// busybox is the image that .ci/start-docker loads.
const busybox = "sotabuild-test:busybox"

// real connects to the daemon of this machine. Both the executor and the images
// say things to o.Say.
func real(t *testing.T, at daemon.Options, o Options) *Executor {
	t.Helper()
	d, err := daemon.Dial(t.Context(), at)
	if err == nil {
		_, err = d.Image(t.Context(), busybox)
	}
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("SOTABUILD_REQUIRE"), ","), "docker") {
			t.Fatalf("docker is required here and missing: %v", err)
		}
		t.Skipf("SKIPPED, docker is not on this machine; .ci/start-docker starts it: %v", err)
	}
	e := New(d, images.Of(d, images.Options{Say: o.Say}), o)
	t.Cleanup(func() { e.Close() })
	return e
}

// runOf is the test's run. The daemon is shared with whoever runs the same test
// at the same time.
func runOf(t *testing.T) string { return fmt.Sprintf("%s-%d", t.Name(), os.Getpid()) }

// shell is a task that runs a shell script; it is reaped with the test.
func shell(t *testing.T, e *Executor, script string) executors.Task {
	t.Helper()
	task := executors.Task{
		ID: executors.TaskID(fmt.Sprintf("docker-test-%d", time.Now().UnixNano())), Image: busybox,
		Process: specs.Process{Args: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/bin"}},
		Labels:  map[string]string{executors.LabelRun: runOf(t)},
	}
	task.Dir = filepath.Join(t.TempDir(), string(task.ID))
	if err := os.Mkdir(task.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		list, err := e.List(ctx, runOf(t))
		for _, h := range list {
			if err == nil {
				err = e.Reap(ctx, h)
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
	return task
}

func start(t *testing.T, e *Executor, task executors.Task) executors.Handle {
	t.Helper()
	if err := e.Check(task); err != nil {
		t.Fatal(err)
	}
	h, err := e.Start(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func wait(t *testing.T, e *Executor, h executors.Handle) executors.Outcome {
	t.Helper()
	o, err := e.Wait(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestGPUsWithoutDriver: the daemon's own words reach the outcome, and the task
// counts as never started.
func TestGPUsWithoutDriver(t *testing.T) {
	for _, c := range []struct {
		gpu  string
		want string
	}{
		{"0", `could not select device driver "nvidia"`},
		{"nvidia.com/gpu=0", `could not select device driver "cdi"`},
		{"/dev/no-such-gpu", "/dev/no-such-gpu"},
	} {
		e := real(t, daemon.Options{}, Options{Network: "none"})
		task := shell(t, e, "exit 0")
		task.Resources.GPUs = []string{c.gpu}
		if o := wait(t, e, start(t, e, task)); o.Reason != executors.NotStarted || !strings.Contains(o.Detail, c.want) {
			t.Errorf("GPU %s: outcome %+v, want not started: %s", c.gpu, o, c.want)
		}
	}
}

func TestImageThatIsNotThere(t *testing.T) {
	e := real(t, daemon.Options{}, Options{Network: "none"})
	short := shell(t, e, "exit 0")
	short.Image = "no-such-image"
	if err := e.Check(short); err == nil || !strings.Contains(err.Error(), "write REGISTRY/NAME:TAG") {
		t.Errorf("a short name that is not there: %v", err)
	}
	if o := wait(t, e, mustStart(t, e, short)); o.Reason != executors.NotStarted {
		t.Errorf("its outcome is %+v", o)
	}
	none := shell(t, e, "exit 0")
	none.Image = ""
	if err := e.Check(none); err == nil || !strings.Contains(err.Error(), "needs an image") {
		t.Errorf("no image: %v", err)
	}
}

func mustStart(t *testing.T, e *Executor, task executors.Task) executors.Handle {
	t.Helper()
	h, err := e.Start(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestContainerRemovedByOthers: a task that vanished is lost, and stays it.
func TestContainerRemovedByOthers(t *testing.T) {
	e := real(t, daemon.Options{}, Options{Network: "none"})
	h := start(t, e, shell(t, e, "sleep 100"))
	id, _, _ := strings.Cut(h.Ref, ":")
	if err := e.d.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if o := wait(t, e, h); o.Reason != executors.Lost {
			t.Errorf("outcome %+v, want lost", o)
		}
	}
	if err := e.Stop(t.Context(), h, time.Second); err != nil {
		t.Errorf("stopping it: %v", err)
	}
}

// TestNameTakenByAStranger: a container that has a task's name and not its
// labels is left alone, and the start says so.
func TestNameTakenByAStranger(t *testing.T) {
	e := real(t, daemon.Options{}, Options{Network: "none"})
	task := shell(t, e, "exit 0")
	stranger := command(t, "create", "--name", daemon.Name(task.ID), busybox, "/bin/true")
	defer command(t, "rm", "--force", stranger)
	if h, err := e.Start(t.Context(), task); err == nil || !strings.Contains(err.Error(), "is not of this task") {
		t.Errorf("started as %v, %v", h, err)
	}
	if box, err := e.d.Look(t.Context(), daemon.Name(task.ID)); err != nil || box == nil || box.ID != stranger {
		t.Errorf("the stranger: %+v, %v", box, err)
	}
}

// TestMadeAndNotWrittenDown: an engine that died between making the container
// and writing its id down leaves it to the next one.
func TestMadeAndNotWrittenDown(t *testing.T) {
	e := real(t, daemon.Options{}, Options{Network: "none"})
	task := shell(t, e, "exit 7")
	img, err := e.images.Get(t.Context(), busybox)
	if err != nil {
		t.Fatal(err)
	}
	id, _, err := e.create(t.Context(), task, img)
	if err != nil {
		t.Fatal(err)
	}
	list, err := e.List(t.Context(), runOf(t))
	if err != nil || len(list) != 1 {
		t.Fatalf("listed %v, %v", list, err)
	}
	h := start(t, e, task)
	if h != list[0] || !strings.HasPrefix(h.Ref, id) {
		t.Errorf("handle %v, want the container %.12s", h, id)
	}
	if o := wait(t, e, h); o.Reason != executors.Exited || o.Code != 7 {
		t.Errorf("outcome %+v", o)
	}
}

// proxied puts a proxy in front of the daemon, which handles what it wants to.
func proxied(t *testing.T, e *Executor, handle func(http.ResponseWriter, *http.Request) bool) http.Handler {
	t.Helper()
	socket, ok := strings.CutPrefix(e.d.Host(), "unix://")
	if !ok {
		t.Skip("SKIPPED, the docker daemon is not behind a socket of this host")
	}
	through := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "docker"})
	through.Transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }}
	through.FlushInterval = -1
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !handle(w, r) {
			through.ServeHTTP(w, r)
		}
	})
}

// TestDaemonWithoutOurFiles: a daemon on another host refuses the mount of the
// task's folder; then the folder is copied there and back.
func TestDaemonWithoutOurFiles(t *testing.T) {
	var refused atomic.Int32
	far := httptest.NewServer(proxied(t, real(t, daemon.Options{}, Options{}), func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/containers/create") {
			return false
		}
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var asked struct {
			HostConfig struct{ Mounts []struct{ Source string } }
		}
		if err != nil || json.Unmarshal(body, &asked) != nil || len(asked.HostConfig.Mounts) == 0 {
			return false
		}
		refused.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"message":"invalid mount config for type \"bind\": bind source path does not exist: %s"}`, asked.HostConfig.Mounts[0].Source)
		return true
	}))
	t.Cleanup(far.Close)
	t.Setenv("DOCKER_CERT_PATH", "")
	var said []string
	self, err := os.Executable() // stands for our program: it only has to appear
	if err != nil {
		t.Fatal(err)
	}
	e := real(t, daemon.Options{Host: "tcp" + strings.TrimPrefix(far.URL, "http"), Self: self}, Options{Network: "none", Say: func(line string) { said = append(said, line) }})
	task := shell(t, e, "")
	task.Process.Args = []string{self, "-test.run=^$"} // exits with 0
	if err := os.WriteFile(filepath.Join(task.Dir, "spec.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := start(t, e, task)
	if refused.Load() != 1 || len(said) != 1 || !strings.Contains(said[0], "does not see this host's files") {
		t.Errorf("%d refusals, and it said %q", refused.Load(), said)
	}
	wait(t, e, h)
	second := shell(t, e, "cat spec.json && echo new > made && ln -s made link && chmod 700 made")
	if err := os.WriteFile(filepath.Join(second.Dir, "spec.json"), []byte("the spec"), 0o600); err != nil {
		t.Fatal(err)
	}
	h = start(t, e, second)
	var out bytes.Buffer
	if err := e.Logs(t.Context(), h, &out); err != nil || out.String() != "the spec" {
		t.Errorf("it printed %q, %v", out.String(), err)
	}
	if o := wait(t, e, h); o.Reason != executors.Exited || o.Code != 0 {
		t.Errorf("outcome %+v", o)
	}
	info, err := os.Stat(filepath.Join(second.Dir, "made"))
	if err != nil || info.Mode() != 0o700 {
		t.Errorf("what it made: %v, %v", info, err)
	}
	if to, err := os.Readlink(filepath.Join(second.Dir, "link")); err != nil || to != "made" {
		t.Errorf("its link: %q, %v", to, err)
	}
	if refused.Load() != 1 {
		t.Errorf("the second task was tried with mounts again")
	}
}

// TestPulledByDigest: an image comes from its registry once, and is known by
// the digest from then on.
func TestPulledByDigest(t *testing.T) {
	var said []string
	e := real(t, daemon.Options{}, Options{Network: "none", Say: func(line string) { said = append(said, line) }})
	host := registryWith(t, busybox)
	byTag := host + "/test/busybox:1"
	t.Cleanup(func() {
		if err := e.d.RemoveImage(context.Background(), byTag); err != nil {
			t.Error(err)
		}
	})
	task := shell(t, e, "exit 7")
	task.Image = byTag
	if o := wait(t, e, start(t, e, task)); o.Reason != executors.Exited || o.Code != 7 {
		t.Errorf("outcome %+v", o)
	}
	if len(said) == 0 || said[0] != "pulling image "+byTag {
		t.Errorf("it said %q", said)
	}
	img, err := e.images.Get(t.Context(), byTag)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(img.ManifestDigest, "sha256:") || img.Pinned() != host+"/test/busybox@"+img.ManifestDigest {
		t.Errorf("pinned as %q", img.Pinned())
	}
	said = nil
	pinned := shell(t, e, "exit 8")
	pinned.Image = img.Pinned()
	if o := wait(t, e, start(t, e, pinned)); o.Reason != executors.Exited || o.Code != 8 || len(said) > 0 {
		t.Errorf("by digest: outcome %+v; it said %q", o, said)
	}
	gone := shell(t, e, "exit 0")
	gone.Image = host + "/test/no-such:1"
	h, err := e.Start(t.Context(), gone)
	if err == nil {
		if o := wait(t, e, h); o.Reason != executors.NotStarted {
			t.Errorf("an image that the registry does not have: %+v", o)
		}
	} else if !strings.Contains(err.Error(), "no-such") {
		t.Errorf("an image that the registry does not have: %v", err)
	}
}

// registryWith serves a registry on this host and pushes an image of the
// daemon's to it as test/busybox:1. It returns the registry's address.
func registryWith(t *testing.T, ref string) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	name := host + "/test/busybox:1"
	command(t, "tag", ref, name)
	command(t, "push", "--quiet", name)
	command(t, "rmi", name)
	return host
}

// command is the docker command, which looks and acts from outside.
func command(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Fatalf("docker %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}
