package docker

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/go-units"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sotabuild/sotabuild/executors"
)

// configOf is what runs in a task's container. imageEnv is the environment
// that the image declares: none of it reaches the task.
func configOf(e *Executor, t executors.Task, files Files, imageID string, imageEnv []string) *container.Config {
	labels := maps.Clone(t.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[executors.LabelTask] = string(t.ID)
	labels[labelDir], labels[labelFiles] = t.Dir, string(files)
	labels[labelDeadline] = strconv.FormatInt(int64(t.Deadline), 10)
	labels[labelGrace] = strconv.FormatInt(int64(t.StopGrace), 10)
	return &container.Config{
		Image: imageID, Labels: labels, User: e.user(t),
		// An entrypoint takes the place of the image's own, and of its command.
		Entrypoint: e.args(t), Env: exactEnv(t.Process.Env, imageEnv), WorkingDir: t.Dir,
		// A health check of the image would run beside a measurement.
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
}

// exactEnv adds names without a value: the daemon then leaves out what the
// image, or it itself, would have set.
func exactEnv(env, imageEnv []string) []string {
	out := slices.Clone(env)
	declared := map[string]bool{}
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		declared[name] = true
	}
	for _, v := range append([]string{"PATH", "HOSTNAME"}, imageEnv...) {
		if name, _, _ := strings.Cut(v, "="); name != "" && !declared[name] {
			declared[name] = true
			out = append(out, name)
		}
	}
	return out
}

// user is who the task runs as: the one it names, or the engine's own user, so
// that what it writes can be removed again. Root inside a rootless daemon is
// that user already.
func (e *Executor) user(t executors.Task) string {
	uid, gid := int(t.Process.User.UID), int(t.Process.User.GID)
	rootless := slices.ContainsFunc(e.info.SecurityOptions, func(o string) bool { return strings.HasPrefix(o, "name=rootless") })
	if uid == 0 && gid == 0 && !rootless {
		uid, gid = os.Getuid(), os.Getgid()
	}
	return fmt.Sprintf("%d:%d", uid, gid)
}

// hostOf is how the container is run. An error is about the task.
func hostOf(e *Executor, t executors.Task, files Files) (*container.HostConfig, error) {
	yes := true
	h := &container.HostConfig{
		// Docker's init reaps orphans and passes TERM on, which a process
		// number 1 without a handler would never notice.
		Init: &yes,
		// The driver local keeps every byte; json-file replaces what is no
		// UTF-8. A size of the daemon's defaults would lose the head.
		LogConfig:   container.LogConfig{Type: "local", Config: map[string]string{"max-size": "1t", "max-file": "1", "compress": "false"}},
		NetworkMode: container.NetworkMode(e.o.Network),
		ShmSize:     t.Resources.ShmSize,
	}
	r := t.Resources
	if r.NetHost {
		h.NetworkMode = "host"
	}
	if r.IPCHost {
		if r.ShmSize > 0 {
			return nil, fmt.Errorf("task %s: shm_size has no effect with the host's ipc, whose /dev/shm it sees; write one of them", t.ID)
		}
		h.IpcMode = "host"
	}
	h.NanoCPUs, h.Memory = int64(r.CPUs)*1e9, r.Memory
	h.MemorySwap = r.Memory // equal: no swap beyond the limit
	for _, name := range slices.Sorted(maps.Keys(r.Ulimits)) {
		if !slices.Contains(ulimitNames, name) {
			return nil, fmt.Errorf("task %s: the ulimit %q is unknown; write one of %s", t.ID, name, strings.Join(ulimitNames, ", "))
		}
		limit := int64(r.Ulimits[name])
		if limit < 0 {
			limit = -1 // more than fits: unlimited
		}
		h.Ulimits = append(h.Ulimits, &units.Ulimit{Name: name, Soft: limit, Hard: limit})
	}
	e.gpus(h, r.GPUs)
	if c := t.Process.Capabilities; c != nil {
		for _, name := range c.Bounding {
			h.CapAdd = append(h.CapAdd, strings.TrimPrefix(name, "CAP_"))
		}
	}
	for _, gid := range t.Process.User.AdditionalGids {
		h.GroupAdd = append(h.GroupAdd, strconv.Itoa(int(gid)))
	}
	var err error
	h.Mounts, err = e.mounts(t, files)
	return h, err
}

var ulimitNames = []string{"core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack"}

// gpus asks for GPUs by the form of their ids.
func (e *Executor) gpus(h *container.HostConfig, ids []string) {
	var cdi, nvidia []string
	for _, id := range ids {
		switch {
		case filepath.IsAbs(id):
			h.Devices = append(h.Devices, container.DeviceMapping{PathOnHost: id, PathInContainer: id, CgroupPermissions: "rwm"})
		case strings.Contains(id, "/") && strings.Contains(id, "="):
			cdi = append(cdi, id)
		case e.o.CDI:
			cdi = append(cdi, "nvidia.com/gpu="+id)
		default:
			nvidia = append(nvidia, id)
		}
	}
	if cdi != nil {
		h.DeviceRequests = append(h.DeviceRequests, container.DeviceRequest{Driver: "cdi", DeviceIDs: cdi})
	}
	if nvidia != nil {
		h.DeviceRequests = append(h.DeviceRequests, container.DeviceRequest{
			Driver: "nvidia", DeviceIDs: nvidia, Capabilities: [][]string{{"gpu", "compute", "utility"}},
		})
	}
}

// mounts are bind mounts of the same path: the task's folder, the supervisor,
// and what the task names. What is copied is no mount.
func (e *Executor) mounts(t executors.Task, files Files) ([]mount.Mount, error) {
	var out []mount.Mount
	add := func(m specs.Mount) error {
		b := mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Destination}
		if !filepath.IsAbs(m.Source) || !filepath.IsAbs(m.Destination) {
			return fmt.Errorf("task %s: the mount of %q at %q needs absolute paths", t.ID, m.Source, m.Destination)
		}
		for _, o := range m.Options {
			switch o {
			case "ro":
				b.ReadOnly = true
			case "rw", "bind", "rbind":
			default:
				return fmt.Errorf("task %s: docker knows no mount option %q; write ro or rw", t.ID, o)
			}
		}
		out = append(out, b)
		return nil
	}
	own := []specs.Mount{}
	if files != Copied {
		own = append(own, specs.Mount{Source: t.Dir, Destination: t.Dir})
		if e.usesSelf(t) {
			own = append(own, specs.Mount{Source: e.o.Self, Destination: e.o.Self, Options: []string{"ro"}})
		}
	}
	for _, m := range append(own, t.Mounts...) {
		if err := add(m); err != nil {
			return nil, err
		}
	}
	return out, nil
}
