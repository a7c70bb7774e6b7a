package daemon

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/go-units"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/image"
)

// Request is what a task's container is made of.
type Request struct {
	Task executors.Task
	// Image is what Daemon.Image said of it. Check does without.
	Image *image.Image
	// Network is what a task without Resources.NetHost is connected to: a
	// network's name or "none"; "" is the daemon's default.
	Network string
	// CDI asks for GPUs by CDI names, nvidia.com/gpu=ID, instead of by the
	// driver called nvidia. Ids that are CDI names themselves, or device
	// nodes (/dev/dri/renderD128), need no option.
	CDI bool
	// Copied leaves out the mounts of the task's folder and of our own program:
	// CopyIn brings them.
	Copied bool
}

// Check says what of a request no daemon could do; nil if nothing. It asks
// nobody.
func (d *Daemon) Check(r Request) error {
	_, err := d.host(r)
	return err
}

// Create makes the task's container, which does not run yet, and returns its id.
// None of the image's entrypoint, command, environment and health check reaches
// the task, which runs as the user that it names, or else as ours. A name that
// is taken is a Conflict; what Check finds is Invalid, like a mount that the
// daemon refuses.
func (d *Daemon) Create(ctx context.Context, r Request) (id string, err error) {
	host, err := d.host(r)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errdefs.ErrInvalidArgument, err)
	}
	made, err := d.cli.ContainerCreate(ctx, d.config(r), host, nil, nil, Name(r.Task.ID))
	if err != nil {
		return "", err
	}
	return made.ID, nil
}

// Start starts a container. After an error that is Away it may have been
// started all the same.
func (d *Daemon) Start(ctx context.Context, id string) error {
	return d.cli.ContainerStart(ctx, id, container.StartOptions{})
}

// CannotExec says why a program cannot be executed in a container that has not
// started; "" if it can, as far as one sees. It is asked first because it is
// Docker's init that executes the program: its own failure to do so looks like
// an exit of the program with 126 or 127.
func (d *Daemon) CannotExec(ctx context.Context, id, program string) (string, error) {
	for at, hops := program, 0; ; hops++ {
		info, err := d.cli.ContainerStatPath(ctx, id, at)
		switch {
		case errdefs.IsNotFound(err):
			return fmt.Sprintf("the program %s is not there, neither in the image nor by a mount", program), nil
		case err != nil:
			return "", fmt.Errorf("looking for %s: %w", at, err)
		case info.Mode&os.ModeSymlink != 0 && hops < 40:
			at = info.LinkTarget
		case !info.Mode.IsRegular() || info.Mode.Perm()&0o111 == 0:
			return fmt.Sprintf("the program %s is no file that can be executed: %s", program, info.Mode), nil
		default:
			return "", nil
		}
	}
}

// config is what runs in a task's container.
func (d *Daemon) config(r Request) *container.Config {
	t := r.Task
	labels := maps.Clone(t.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[executors.LabelTask] = string(t.ID)
	labels[labelDir], labels[labelFiles] = t.Dir, shared
	if r.Copied {
		labels[labelFiles] = copied
	}
	labels[labelDeadline] = strconv.FormatInt(int64(t.Deadline), 10)
	labels[labelGrace] = strconv.FormatInt(int64(t.StopGrace), 10)
	return &container.Config{
		Image: r.Image.ConfigDigest, Labels: labels, User: d.user(t),
		// An entrypoint takes the place of the image's own, and of its command.
		Entrypoint: d.Args(t), Env: exactEnv(t.Process.Env, r.Image.Config.Env), WorkingDir: t.Dir,
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
func (d *Daemon) user(t executors.Task) string {
	uid, gid := int(t.Process.User.UID), int(t.Process.User.GID)
	rootless := slices.ContainsFunc(d.info.SecurityOptions, func(o string) bool { return strings.HasPrefix(o, "name=rootless") })
	if uid == 0 && gid == 0 && !rootless {
		uid, gid = os.Getuid(), os.Getgid()
	}
	return fmt.Sprintf("%d:%d", uid, gid)
}

// host is how the container is run. An error is about the task.
func (d *Daemon) host(r Request) (*container.HostConfig, error) {
	t, needs, yes := r.Task, r.Task.Resources, true
	h := &container.HostConfig{
		// Docker's init reaps orphans and passes TERM on, which a process
		// number 1 without a handler would never notice.
		Init: &yes,
		// The driver local keeps every byte; json-file replaces what is no
		// UTF-8. A size of the daemon's defaults would lose the head.
		LogConfig:   container.LogConfig{Type: "local", Config: map[string]string{"max-size": "1t", "max-file": "1", "compress": "false"}},
		NetworkMode: container.NetworkMode(r.Network),
		ShmSize:     needs.ShmSize,
	}
	if needs.NetHost {
		h.NetworkMode = "host"
	}
	if needs.IPCHost {
		if needs.ShmSize > 0 {
			return nil, fmt.Errorf("task %s: shm_size has no effect with the host's ipc, whose /dev/shm it sees; write one of them", t.ID)
		}
		h.IpcMode = "host"
	}
	h.NanoCPUs, h.Memory = int64(needs.CPUs)*1e9, needs.Memory
	h.MemorySwap = needs.Memory // equal: no swap beyond the limit
	for _, name := range slices.Sorted(maps.Keys(needs.Ulimits)) {
		if !slices.Contains(ulimitNames, name) {
			return nil, fmt.Errorf("task %s: the ulimit %q is unknown; write one of %s", t.ID, name, strings.Join(ulimitNames, ", "))
		}
		limit := int64(needs.Ulimits[name])
		if limit < 0 {
			limit = -1 // more than fits: unlimited
		}
		h.Ulimits = append(h.Ulimits, &units.Ulimit{Name: name, Soft: limit, Hard: limit})
	}
	gpus(h, needs.GPUs, r.CDI)
	if c := t.Process.Capabilities; c != nil {
		for _, name := range c.Bounding {
			h.CapAdd = append(h.CapAdd, strings.TrimPrefix(name, "CAP_"))
		}
	}
	for _, gid := range t.Process.User.AdditionalGids {
		h.GroupAdd = append(h.GroupAdd, strconv.Itoa(int(gid)))
	}
	var err error
	h.Mounts, err = d.mounts(t, r.Copied)
	return h, err
}

var ulimitNames = []string{"core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack"}

// gpus asks for GPUs by the form of their ids.
func gpus(h *container.HostConfig, ids []string, byCDI bool) {
	var cdi, nvidia []string
	for _, id := range ids {
		switch {
		case filepath.IsAbs(id):
			h.Devices = append(h.Devices, container.DeviceMapping{PathOnHost: id, PathInContainer: id, CgroupPermissions: "rwm"})
		case strings.Contains(id, "/") && strings.Contains(id, "="):
			cdi = append(cdi, id)
		case byCDI:
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
func (d *Daemon) mounts(t executors.Task, copied bool) ([]mount.Mount, error) {
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
	if !copied {
		own = append(own, specs.Mount{Source: t.Dir, Destination: t.Dir})
		if d.usesSelf(t) {
			own = append(own, specs.Mount{Source: d.self, Destination: d.self, Options: []string{"ro"}})
		}
	}
	for _, m := range append(own, t.Mounts...) {
		if err := add(m); err != nil {
			return nil, err
		}
	}
	return out, nil
}
