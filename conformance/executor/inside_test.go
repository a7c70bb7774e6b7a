package executor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/docker/daemon"
	"github.com/sotabuild/sotabuild/executors/docker/inside"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// These tell the engines in other processes which container it is, and which
// program supervises in it.
const (
	insideName = "SOTABUILD_SUITE_CONTAINER"
	insideSelf = "SOTABUILD_SUITE_SELF"
)

// insideFixture runs tasks in a container that runs already.
var insideFixture = Fixture{
	Name:    "docker-exec",
	Missing: dockerMissing,
	New: func(tasks string) (executors.Executor, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		d, err := daemon.Dial(ctx, daemon.Options{Self: os.Getenv(insideSelf)})
		if err != nil {
			return nil, err
		}
		return inside.Enter(d, os.Getenv(insideName), tasks)
	},
	Adds: []string{runner.EnvLifeline},
	Cannot: map[string]string{
		"OutOfMemory":       "the limits are those of the container",
		"OutOfMemoryInside": "the limits are those of the container",
		"MountReadOnly":     "mounts nothing: a task sees the container's files as they are",
		"ShmSize":           "has the container's /dev/shm; a task that needs more is refused",
		"DaemonRestart":     "the container is somebody's, and the restart would be too",
	},
	Stranger: strangerContainer,
	Left:     containersOf,
}

// TestDockerExec ends with the container as it was: it runs, and nothing else in
// it does.
func TestDockerExec(t *testing.T) {
	f := insideFixture
	if f.Missing() != "" {
		Run(t, f) // fails or skips with that
		return
	}
	cli, ctx := api(t), context.Background()
	f.Image = scratch(t)
	name := fmt.Sprintf("suite-exec-%d", os.Getpid())
	t.Setenv(insideName, name)
	t.Setenv(insideSelf, actor)
	if why := checkInside(t, f); !strings.Contains(why, "there is no container "+name) || !strings.Contains(why, "docker run ") {
		t.Errorf("without a container: %s", why)
	}
	yes := true
	host := &container.HostConfig{Init: &yes, NetworkMode: "none"}
	// Every case has its own folder for temporary files below this one.
	host.Binds = []string{os.TempDir() + ":" + os.TempDir(), filepath.Dir(actor) + ":" + filepath.Dir(actor) + ":ro"}
	box, err := cli.ContainerCreate(ctx, &container.Config{Image: loaded(t, f.Image), Entrypoint: []string{actor, "mark-of-the-container", "sleep", "1h"}}, host, nil, nil, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cli.ContainerRemove(ctx, box.ID, container.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	if why := checkInside(t, f); !strings.Contains(why, "docker start "+name) {
		t.Errorf("with one that does not run: %s", why)
	}
	if err := cli.ContainerStart(ctx, box.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	if why := checkInside(t, f); why != "" {
		t.Fatalf("with one that runs: %s", why)
	}
	t.Run("Suite", func(t *testing.T) { Run(t, f) })
	look, err := cli.ContainerInspect(ctx, box.ID)
	if err != nil || !look.State.Running || look.RestartCount != 0 {
		t.Errorf("the container: %+v, %v", look.State, err)
	}
	// The last supervisor leaves a moment after its last word.
	(&bench{t: t}).until("that init and its sleeper are all that runs in the container", func() bool {
		top, err := cli.ContainerTop(ctx, box.ID, nil)
		return err == nil && len(top.Processes) == 2
	})
}

// checkInside is why a task cannot run, "" if it can.
func checkInside(t *testing.T, f Fixture) string {
	t.Helper()
	dir := t.TempDir()
	e, err := f.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	task := executors.Task{ID: "suite-check", Dir: dir, Image: f.Image}
	task.Process.Args = []string{actor, "x", "exit", "0"}
	if err := e.Check(task); err != nil {
		return err.Error()
	}
	return ""
}
