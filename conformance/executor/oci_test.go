package executor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/image"
	"github.com/sotabuild/sotabuild/executors/oci"
)

// oci runs containers by runc, without a daemon. Its image, which the tests
// make, holds nothing: all that runs is the actor.
var ociFixture = ociBy("runc")

// crun is an absence: it refuses hosts like those of CI. Where it works the
// suite is run.
var crunFixture = ociBy("crun")

func ociBy(runtime string) Fixture {
	return Fixture{
		Name:     runtime,
		Missing:  func() string { return ociMissing(runtime) },
		New:      func(tasks string) (executors.Executor, error) { return ociNew(runtime, tasks) },
		Lifeline: true,
		Adds:     []string{executors.EnvTask, "SOTABUILD_LIFELINE"},
		Cannot:   map[string]string{"DaemonRestart": "there is no daemon"},
		Stranger: ociStranger,
		Left:     groupsOf,
	}
}

// groupsOf are the control groups of a task, which this host's executors make.
func groupsOf(t *testing.T, id executors.TaskID) (left []string) {
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/", "/sys/fs/cgroup/*/*/*/"} {
		found, err := filepath.Glob(pattern + executors.CgroupName(id) + "*")
		if err != nil {
			t.Error(err)
		}
		left = append(left, found...)
	}
	return left
}

func TestRunc(t *testing.T) { runOCI(t, ociFixture) }

func TestCrun(t *testing.T) { runOCI(t, crunFixture) }

func runOCI(t *testing.T, f Fixture) {
	if f.Missing() == "" {
		i, err := image.Build(map[string]image.File{"/tmp": {Mode: 0o1777}}, image.Config{}, image.Platform{})
		if err == nil {
			f.Image = "oci:" + filepath.Join(t.TempDir(), "image")
			err = i.WriteLayout(f.Image[len("oci:"):], "1")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	Run(t, f)
}

func ociMissing(runtime string) string {
	if os.Geteuid() != 0 {
		return "containers without a daemon need root"
	}
	if _, err := exec.LookPath(runtime); err != nil {
		return runtime + " is not installed"
	}
	program, err := ociProgram()
	if err != nil {
		return err.Error()
	}
	if err := oci.New(oci.Options{Self: program, Folder: os.TempDir(), Runtime: runtime}).Probe(context.Background()); err != nil {
		return err.Error()
	}
	return ""
}

// ociSelf is the variable by which the engines that the suite kills know the
// program that the suite built.
const ociSelf = "SOTABUILD_SUITE_PROGRAM"

var ociProgram = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(ociSelf); path != "" {
		return path, nil
	}
	path := filepath.Join(filepath.Dir(actor), "sotabuild")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "github.com/sotabuild/sotabuild/cmd/sotabuild")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.New("building sotabuild: " + string(out))
	}
	return path, os.Setenv(ociSelf, path)
})

func ociNew(runtime, tasks string) (executors.Executor, error) {
	program, err := ociProgram()
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(filepath.Dir(tasks), "oci")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	// The GPUs of the suite are devices that every host has.
	err = os.WriteFile(filepath.Join(folder, "gpus.json"), []byte(`{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[
{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia0","hostPath":"/dev/null"}]}},
{"name":"1","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia1","hostPath":"/dev/null"}]}}]}`), 0o600)
	return oci.New(oci.Options{Self: program, Folder: folder, Runtime: runtime, CDI: []string{folder}, Roots: []string{tasks}}), err
}

// ociStranger is a container of another folder.
func ociStranger(t *testing.T) func() bool {
	ctx := context.Background()
	tasks := filepath.Join(t.TempDir(), "tasks")
	dir := filepath.Join(tasks, "suite-stranger")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	e, err := ociNew("runc", tasks)
	if err != nil {
		t.Fatal(err)
	}
	i, err := image.Build(map[string]image.File{"/tmp": {}}, image.Config{}, image.Platform{})
	if err == nil {
		err = i.WriteLayout(filepath.Join(tasks, "image"), "1")
	}
	if err != nil {
		t.Fatal(err)
	}
	h, err := e.Start(ctx, executors.Task{ID: "suite-stranger", Dir: dir, Image: "oci:" + filepath.Join(tasks, "image"),
		Labels:  map[string]string{executors.LabelRun: "run-stranger"},
		Process: specs.Process{Args: []string{actor, "mark-container", "sleep", "1h"}},
		Mounts:  []specs.Mount{{Source: actor, Destination: actor, Options: []string{"ro"}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(ctx, h, 100*time.Millisecond); err != nil {
			t.Error(err)
		}
	})
	return func() bool { return len(living("mark-container")) > 0 }
}
