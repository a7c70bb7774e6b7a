package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/sotabuild/sotabuild/executors"
)

// ociVersion is what runc 1.1 takes; the types are newer.
const ociVersion = "1.0.2"

// shmSize is what a container gets that does not ask, as everywhere.
const shmSize = 64 << 20

// capabilities are those that containers usually have.
var capabilities = []string{
	"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
	"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
}

// spec describes the container of a task. Process.Env holds only what devices
// need.
func (e *Executor) spec(t executors.Task) (*specs.Spec, error) {
	argv := t.Process.Args
	if len(argv) == 0 {
		argv = []string{e.opts.Self, "runner", filepath.Join(t.Dir, "spec.json")}
	}
	s := &specs.Spec{
		Version: ociVersion, Annotations: t.Labels,
		Root: &specs.Root{Path: "rootfs"},
		Process: &specs.Process{
			Args: append([]string{e.opts.Self, EnterCommand, "--"}, argv...), Cwd: t.Process.Cwd, User: t.Process.User,
			Capabilities: t.Process.Capabilities, NoNewPrivileges: t.Process.NoNewPrivileges, OOMScoreAdj: t.Process.OOMScoreAdj,
			Rlimits: rlimits(t.Resources.Ulimits, t.Process.Rlimits),
		},
		Linux: &specs.Linux{
			CgroupsPath: groupPath(groupName(t.ID)),
			Resources:   resources(t.Resources),
			Namespaces:  []specs.LinuxNamespace{{Type: specs.MountNamespace}, {Type: specs.CgroupNamespace}},
			MaskedPaths: []string{"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
				"/proc/sched_debug", "/proc/scsi", "/sys/firmware"},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	if s.Process.Cwd == "" {
		s.Process.Cwd = t.Dir
	}
	if s.Process.Capabilities == nil {
		s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: capabilities, Effective: capabilities, Permitted: capabilities}
	}
	s.Mounts = mounts(t, e.opts.Self)
	if !t.Resources.NetHost {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.NetworkNamespace})
	}
	if !t.Resources.IPCHost {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.IPCNamespace})
	}
	return s, e.devices(t.Resources.GPUs, s)
}

// mounts are the kernel's file systems, the task's folder, our program, and
// what the task asks for.
func mounts(t executors.Task, self string) []specs.Mount {
	shm := specs.Mount{Destination: "/dev/shm", Type: "bind", Source: "/dev/shm", Options: []string{"rbind", "rw"}}
	if !t.Resources.IPCHost {
		size := t.Resources.ShmSize
		if size == 0 {
			size = shmSize
		}
		shm = specs.Mount{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", fmt.Sprintf("size=%d", size)}}
	}
	out := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		shm,
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "relatime", "ro"}},
	}
	if t.Resources.NetHost {
		for _, file := range []string{"/etc/hosts", "/etc/resolv.conf"} {
			if real, err := filepath.EvalSymlinks(file); err == nil {
				out = append(out, specs.Mount{Destination: file, Type: "bind", Source: real, Options: []string{"bind", "ro"}})
			}
		}
	}
	for _, m := range t.Mounts {
		if m.Type == "" || m.Type == "bind" {
			m.Type = "bind"
			if !slices.Contains(m.Options, "bind") && !slices.Contains(m.Options, "rbind") {
				m.Options = append([]string{"rbind"}, m.Options...)
			}
		}
		out = append(out, m)
	}
	// Last, so that no mount of the task hides them. What we write down of the
	// task is ours alone: the container cannot make a link of it.
	notes := filepath.Dir(planFile(t.Dir))
	return append(out,
		specs.Mount{Destination: t.Dir, Type: "bind", Source: t.Dir, Options: []string{"rbind", "rw"}},
		specs.Mount{Destination: notes, Type: "bind", Source: notes, Options: []string{"bind", "ro"}},
		specs.Mount{Destination: self, Type: "bind", Source: self, Options: []string{"bind", "ro"}})
}

func rlimits(named map[string]uint64, more []specs.POSIXRlimit) []specs.POSIXRlimit {
	out := slices.Clone(more)
	for name, value := range named {
		out = append(out, specs.POSIXRlimit{Type: "RLIMIT_" + strings.ToUpper(name), Hard: value, Soft: value})
	}
	slices.SortFunc(out, func(a, b specs.POSIXRlimit) int { return strings.Compare(a.Type, b.Type) })
	return out
}

const period = 100_000 // µs, of the CPU quota

func resources(r executors.Resources) *specs.LinuxResources {
	out := &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}}
	if r.Memory > 0 {
		out.Memory = &specs.LinuxMemory{Limit: &r.Memory}
		if swapLimited() {
			out.Memory.Swap = &r.Memory // memory and swap together: no swap
		}
	}
	if r.CPUs > 0 {
		quota, length := int64(r.CPUs)*period, uint64(period)
		out.CPU = &specs.LinuxCPU{Quota: &quota, Period: &length}
	}
	return out
}

// devices edits a specification by CDI: device nodes, libraries, hooks and
// variables of the GPUs. A name without a vendor is NVIDIA's.
func (e *Executor) devices(gpus []string, s *specs.Spec) error {
	if len(gpus) == 0 {
		return nil
	}
	opts := []cdi.Option{cdi.WithAutoRefresh(false)}
	if e.opts.CDI != nil {
		opts = append(opts, cdi.WithSpecDirs(e.opts.CDI...))
	}
	cache, err := cdi.NewCache(opts...)
	if err != nil {
		return fmt.Errorf("reading the CDI specifications: %w", err)
	}
	var names []string
	for _, g := range gpus {
		if !strings.Contains(g, "=") {
			g = "nvidia.com/gpu=" + g
		}
		names = append(names, g)
	}
	unknown, err := cache.InjectDevices(s, names...)
	if len(unknown) > 0 {
		text := fmt.Sprintf("no CDI specification in %s has the devices %s", strings.Join(cache.GetSpecDirectories(), ", "), strings.Join(unknown, ", "))
		var broken []string
		for file, errs := range cache.GetErrors() {
			broken = append(broken, file+": "+errors.Join(errs...).Error())
		}
		slices.Sort(broken)
		if len(broken) > 0 {
			text += "; these cannot be read: " + strings.Join(broken, "; ")
		}
		return fmt.Errorf("%s; make one with nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml", text)
	}
	if err != nil {
		return fmt.Errorf("adding the devices %s by CDI: %w", strings.Join(names, ", "), err)
	}
	return nil
}

// write writes the bundle: the folders and config.json.
func (p plan) write() error {
	text, err := json.Marshal(p.Spec)
	if err != nil {
		return fmt.Errorf("describing container %s: %w", p.ID, err)
	}
	for _, dir := range []string{p.State, p.Bundle, p.rootfs(), p.upper(), p.work()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making the files of container %s: %w", p.ID, err)
		}
	}
	if err := os.Chmod(p.upper(), 0o755); err != nil { // it is the container's root folder
		return err
	}
	if err := os.WriteFile(filepath.Join(p.Bundle, "config.json"), text, 0o600); err != nil {
		return fmt.Errorf("describing container %s: %w", p.ID, err)
	}
	return nil
}

func (p plan) rootfs() string { return filepath.Join(p.Bundle, "rootfs") }
func (p plan) upper() string  { return filepath.Join(p.Bundle, "upper") }
func (p plan) work() string   { return filepath.Join(p.Bundle, "work") }
