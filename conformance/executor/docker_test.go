package executor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	daemonimage "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/docker"
	"github.com/sotabuild/sotabuild/executors/docker/daemon"
	"github.com/sotabuild/sotabuild/executors/docker/images"
	"github.com/sotabuild/sotabuild/executors/image"
)

const codesOnly = "the daemon knows exit codes only, where 128+n means the signal n"

// dockerFixture runs tasks in containers that are empty but for their mounts.
var dockerFixture = Fixture{
	Name:    "docker",
	Missing: dockerMissing,
	New:     dockerNew(daemon.Options{}, docker.Options{Network: "none", Files: docker.Shared}),
	Adds:    []string{"HOME"},
	Cannot:  map[string]string{"ExitAbove128": codesOnly},
	Restart: restartedDaemon,

	Stranger: strangerContainer,
	Left:     containersOf,
}

// dockerCopied is the same daemon taken for one that sees none of our files.
var dockerCopied = Fixture{
	Name:    "docker-copied",
	Missing: dockerMissing,
	New:     dockerNew(daemon.Options{}, docker.Options{Network: "none", Files: docker.Copied}),
	Adds:    []string{"HOME"},
	Cannot: map[string]string{
		"ExitAbove128":  codesOnly,
		"DaemonRestart": "is the same code as without copying",
	},
	Stranger: strangerContainer,
	Left:     containersOf,
	Put: func(t *testing.T, id executors.TaskID, dir, name string) {
		empty := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(empty, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("docker", "cp", empty, "sotabuild-"+string(id)+":"+dir+"/"+name).CombinedOutput(); err != nil {
			t.Fatalf("docker cp: %v\n%s", err, out)
		}
	},
}

func TestDocker(t *testing.T) {
	f := dockerFixture
	f.Image, f.GPUs = scratch(t), fakeGPUs(t)
	Run(t, f)
}

func TestDockerCopied(t *testing.T) {
	f := dockerCopied
	f.Image, f.GPUs = scratch(t), fakeGPUs(t)
	Run(t, f)
}

func dockerNew(at daemon.Options, o docker.Options) func(string) (executors.Executor, error) {
	return func(string) (executors.Executor, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		d, err := daemon.Dial(ctx, at)
		if err != nil {
			return nil, err
		}
		return docker.New(d, images.Of(d, images.Options{}), o), nil
	}
}

func dockerMissing() string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d, err := daemon.Dial(ctx, daemon.Options{})
	if err != nil {
		return err.Error() + "; .ci/start-docker starts one"
	}
	d.Close()
	return ""
}

// scratch is an image that holds an empty folder: what runs in it is static.
func scratch(t *testing.T) string {
	t.Helper()
	img, err := image.Build(map[string]image.File{"/empty": {Mode: os.ModeDir | 0o755}}, image.Config{Env: []string{"OF_THE_IMAGE=1"}}, image.Platform{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "scratch.tar")
	if err := img.WriteArchive(path, "sotabuild-suite:scratch"); err != nil {
		t.Fatal(err)
	}
	cli, tag := api(t), "sotabuild-image:"+strings.TrimPrefix(img.ConfigDigest, "sha256:")[:32]
	t.Cleanup(func() {
		_, err := cli.ImageRemove(context.Background(), tag, daemonimage.RemoveOptions{Force: true})
		if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
			t.Error(err)
		}
	})
	return "docker-archive:" + path
}

// loaded brings an image to the daemon, and returns the daemon's id for it.
func loaded(t *testing.T, ref string) string {
	t.Helper()
	d, err := daemon.Dial(context.Background(), daemon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	img, err := images.Of(d, images.Options{}).Get(context.Background(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return img.ConfigDigest
}

// fakeGPUs are two device nodes without a driver.
func fakeGPUs(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	var out []string
	for i := range 2 {
		path := filepath.Join(dir, fmt.Sprintf("gpu%d", i))
		if err := syscall.Mknod(path, syscall.S_IFCHR|0o666, 240<<8|i); err != nil {
			t.Fatalf("making a device node, which takes root: %v", err)
		}
		out = append(out, path)
	}
	return out
}

// api is a client of the suite's own, to look from outside.
func api(t *testing.T) *client.Client {
	t.Helper()
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cli.Close() })
	return cli
}

// strangerContainer has our labels and a name like ours, but not the name that
// belongs to them.
func strangerContainer(t *testing.T) func() bool {
	cli := api(t)
	ctx := context.Background()
	of := loaded(t, scratch(t))
	made, err := cli.ContainerCreate(ctx, &container.Config{
		Image: of, Entrypoint: []string{actor, "stranger", "sleep", "1h"},
		Labels: map[string]string{executors.LabelRun: "run-of-nobody", executors.LabelTask: "suite-x", "dev.sotabuild.dir": "/tmp"},
	}, &container.HostConfig{NetworkMode: "none", Binds: []string{actor + ":" + actor + ":ro"}}, nil, nil, fmt.Sprintf("sotabuild-stranger-%d", time.Now().UnixNano()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cli.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true}); err != nil {
			t.Errorf("removing the stranger: %v", err)
		}
	})
	if err := cli.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	return func() bool {
		box, err := cli.ContainerInspect(ctx, made.ID)
		return err == nil && box.State.Running
	}
}

func containersOf(t *testing.T, id executors.TaskID) []string {
	t.Helper()
	list, err := api(t).ContainerList(context.Background(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", executors.LabelTask+"="+string(id)))})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range list {
		out = append(out, c.Names[0]+" "+c.Status)
	}
	return out
}

// second starts a daemon of the test's own, beside the machine's, once at a
// time.
var second sync.Mutex

// restartedDaemon is a daemon of our own that keeps containers alive while it
// is away.
func restartedDaemon(t *testing.T, _ string) (executors.Executor, func()) {
	second.Lock()
	t.Cleanup(second.Unlock)
	dir, err := os.MkdirTemp("", "sb-docker-") // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	script := func(word string) {
		cmd := exec.Command("../../.ci/start-docker", word)
		cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+dir+"/d.sock", "DOCKER_TEST_DIR="+dir+"/t", "DOCKER_TEST_ROOT="+dir+"/root",
			"DOCKER_TEST_BRIDGE=dockersuite0", "DOCKER_TEST_SUBNET=172.31.253.1/24", "DOCKER_TEST_ARGS=--live-restore")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("start-docker %s: %v\n%s", word, err, out)
		}
	}
	t.Cleanup(func() {
		script("stop")
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	script("start")
	e, err := dockerNew(daemon.Options{Host: "unix://" + dir + "/d.sock"}, docker.Options{Network: "none"})("")
	if err != nil {
		t.Fatal(err)
	}
	return e, func() {
		text, err := os.ReadFile(dir + "/t/dockerd.pid")
		if err != nil {
			t.Fatal(err)
		}
		var pid int
		fmt.Sscan(strings.TrimSpace(string(text)), &pid)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for dead := false; !dead; time.Sleep(5 * time.Millisecond) {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			dead = err != nil || strings.Contains(string(stat), ") Z ")
		}
		script("start")
	}
}
