package daemon

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/go-units"
	"github.com/google/go-cmp/cmp"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/image"
)

func TestRequest(t *testing.T) {
	d := &Daemon{self: "/opt/sotabuild"}
	task := executors.Task{
		ID: "t-1", Dir: "/w/t-1", StopGrace: 5e9, Labels: map[string]string{executors.LabelRun: "r"},
		Process: specs.Process{Args: []string{"/opt/sotabuild", "runner", "spec.json"}, Env: []string{"A=1", "PATH=/x"},
			User: specs.User{UID: 5, GID: 6, AdditionalGids: []uint32{7}}, Capabilities: &specs.LinuxCapabilities{Bounding: []string{"CAP_SYS_ADMIN"}}},
		Mounts:    []specs.Mount{{Source: "/models", Destination: "/models", Options: []string{"ro"}}},
		Resources: executors.Resources{GPUs: []string{"GPU-1", "0"}, CPUs: 2, Memory: 1 << 30, ShmSize: 1 << 20, Ulimits: map[string]uint64{"nofile": 9, "memlock": 1<<64 - 1}},
	}
	r := Request{Task: task, Network: "none", Image: &image.Image{ConfigDigest: "sha256:1", Config: image.Config{Env: []string{"PATH=/bin", "OF_IMAGE=1"}}}}
	host, err := d.host(r)
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
	if diff := cmp.Diff(want, host); diff != "" {
		t.Errorf("how it is run (-want +got):\n%s", diff)
	}
	wantConfig := &container.Config{
		Image: "sha256:1", User: "5:6", WorkingDir: "/w/t-1", Entrypoint: task.Process.Args,
		Env:         []string{"A=1", "PATH=/x", "HOSTNAME", "OF_IMAGE"},
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		Labels: map[string]string{executors.LabelRun: "r", executors.LabelTask: "t-1", "dev.sotabuild.dir": "/w/t-1",
			"dev.sotabuild.files": "shared", "dev.sotabuild.deadline_ns": "0", "dev.sotabuild.grace_ns": "5000000000"},
	}
	if diff := cmp.Diff(wantConfig, d.config(r)); diff != "" {
		t.Errorf("what runs (-want +got):\n%s", diff)
	}
	if len(task.Labels) != 1 {
		t.Errorf("the task's own labels were changed: %v", task.Labels)
	}

	r.Task.Resources = executors.Resources{NetHost: true, IPCHost: true, GPUs: []string{"3", "vendor.com/gpu=4", "/dev/dri/renderD128"}}
	r.CDI, r.Copied = true, true
	if host, err = d.host(r); err != nil {
		t.Fatal(err)
	}
	if host.NetworkMode != "host" || host.IpcMode != "host" || len(host.Mounts) != 1 {
		t.Errorf("network %s, ipc %s, mounts %v", host.NetworkMode, host.IpcMode, host.Mounts)
	}
	wantGPUs := container.Resources{
		DeviceRequests: []container.DeviceRequest{{Driver: "cdi", DeviceIDs: []string{"nvidia.com/gpu=3", "vendor.com/gpu=4"}}},
		Devices:        []container.DeviceMapping{{PathOnHost: "/dev/dri/renderD128", PathInContainer: "/dev/dri/renderD128", CgroupPermissions: "rwm"}},
	}
	if diff := cmp.Diff(wantGPUs, host.Resources); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
	for want, change := range map[string]func(*executors.Task){
		"no effect with the host's ipc": func(t *executors.Task) { t.Resources = executors.Resources{IPCHost: true, ShmSize: 1} },
		`no mount option "exec"`:        func(t *executors.Task) { t.Mounts[0].Options = []string{"exec"} },
		"needs absolute paths":          func(t *executors.Task) { t.Mounts[0].Source = "models" },
	} {
		bad := r
		bad.Task.Mounts = []specs.Mount{task.Mounts[0]}
		change(&bad.Task)
		if err := d.Check(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

func TestUser(t *testing.T) {
	root := executors.Task{}
	d := &Daemon{}
	if got, want := d.user(root), fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()); got != want {
		t.Errorf("nobody named runs as %s, want the engine's user %s", got, want)
	}
	d.info = system.Info{SecurityOptions: []string{"name=seccomp,profile=default", "name=rootless"}}
	if got := d.user(root); got != "0:0" {
		t.Errorf("in a rootless daemon: %s, want root, who is that user", got)
	}
}
