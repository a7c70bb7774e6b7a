package oci

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/image"
)

// Check says why a task cannot run here. It asks no registry.
func (e *Executor) Check(t executors.Task) error {
	if err := check(t); err != nil {
		return err
	}
	kind, path, err := image.Split(t.Image)
	if err != nil {
		return fmt.Errorf("task %s: %w", t.ID, err)
	}
	if kind == image.Archive {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("task %s: its image is missing: %w", t.ID, err)
		}
	}
	if _, err := e.ready(); err != nil {
		return fmt.Errorf("task %s: %w", t.ID, err)
	}
	if err := enough(t); err != nil {
		return err
	}
	if err := e.devices(t.Resources.GPUs, &specs.Spec{}); err != nil {
		return fmt.Errorf("task %s: %w", t.ID, err)
	}
	return nil
}

// ready returns the runtime, if containers can be run at all.
func (e *Executor) ready() (string, error) {
	if os.Geteuid() != 0 {
		return "", errors.New("the oci executor needs root; run as root, or use executor = \"docker\", whose daemon is root for you, or \"local\"")
	}
	path, err := e.runtime()
	if err != nil {
		return "", err
	}
	return path, static(e.opts.Self)
}

// static refuses a program that needs libraries, which images do not have.
func static(self string) error {
	f, err := elf.Open(self)
	if err != nil {
		return fmt.Errorf("our own program %s, which containers start with, cannot be read: %w", self, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("our own program %s needs shared libraries, which images do not have; build it with CGO_ENABLED=0, as make build does", self)
		}
	}
	return nil
}

// check is about what can never work here.
func check(t executors.Task) error {
	switch {
	case !t.ID.Valid():
		return fmt.Errorf("task %q: its id is not made of 1 to 63 of a-z, 0-9 and -", t.ID)
	case t.Image == "":
		return fmt.Errorf("task %s has no image, and oci runs nothing but images; write image = \"REGISTRY/NAME:TAG\" (or docker-archive:PATH, oci:PATH) in its framework, or executor = \"local\"", t.ID)
	case t.Process.Terminal:
		return fmt.Errorf("task %s: oci gives no terminal", t.ID)
	case len(t.Process.Args) > 0 && !filepath.IsAbs(t.Process.Args[0]):
		return fmt.Errorf("task %s: its program %q is no absolute path", t.ID, t.Process.Args[0])
	case t.Process.Cwd != "" && !filepath.IsAbs(t.Process.Cwd):
		return fmt.Errorf("task %s: its working folder %q is no absolute path", t.ID, t.Process.Cwd)
	}
	for _, m := range t.Mounts {
		if !filepath.IsAbs(m.Destination) {
			return fmt.Errorf("task %s: its mount's destination %q is no absolute path", t.ID, m.Destination)
		}
		if m.Type != "" && m.Type != "bind" {
			continue
		}
		if !filepath.IsAbs(m.Source) {
			return fmt.Errorf("task %s: its mount's source %q is no absolute path", t.ID, m.Source)
		}
		if _, err := os.Stat(m.Source); err != nil {
			return fmt.Errorf("task %s: its mount is missing: %w", t.ID, err)
		}
	}
	if info, err := os.Stat(t.Dir); err != nil || !info.IsDir() || !filepath.IsAbs(t.Dir) {
		return fmt.Errorf("task %s: its folder %q is not there, or not absolute", t.ID, t.Dir)
	}
	return nil
}

// enough says whether this host can give what the task needs.
func enough(t executors.Task) error {
	r := t.Resources
	if r.CPUs > runtime.NumCPU() {
		return fmt.Errorf("task %s needs %d CPUs; this host has %d", t.ID, r.CPUs, runtime.NumCPU())
	}
	var host unix.Sysinfo_t
	if err := unix.Sysinfo(&host); err != nil {
		return fmt.Errorf("reading the host's memory: %w", err)
	}
	if total := host.Totalram * uint64(host.Unit); r.Memory > 0 && uint64(r.Memory) > total {
		return fmt.Errorf("task %s needs %d bytes of memory; this host has %d", t.ID, r.Memory, total)
	}
	for _, c := range limits(r) {
		if !controlled(c) {
			return fmt.Errorf("task %s asks for a limit of %s, and this host has no control group for it; mount one, or leave the limit out", t.ID, c)
		}
	}
	if r.IPCHost && r.ShmSize > 0 {
		var fs unix.Statfs_t
		if err := unix.Statfs("/dev/shm", &fs); err != nil {
			return fmt.Errorf("reading the size of /dev/shm: %w", err)
		}
		if size := int64(fs.Blocks) * fs.Bsize; r.ShmSize > size {
			return fmt.Errorf("task %s needs %d bytes of /dev/shm and the host's ipc, whose /dev/shm has %d; leave out ipc, or enlarge it (mount -o remount,size=… /dev/shm)", t.ID, r.ShmSize, size)
		}
	}
	for name, want := range r.Ulimits {
		if err := ulimit(name, want); err != nil {
			return fmt.Errorf("task %s: %w", t.ID, err)
		}
	}
	return nil
}

var ulimits = map[string]int{
	"as": unix.RLIMIT_AS, "core": unix.RLIMIT_CORE, "cpu": unix.RLIMIT_CPU, "data": unix.RLIMIT_DATA, "fsize": unix.RLIMIT_FSIZE,
	"memlock": unix.RLIMIT_MEMLOCK, "nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC, "rss": unix.RLIMIT_RSS, "stack": unix.RLIMIT_STACK,
}

// ulimit says whether a limit can be given: without CAP_SYS_RESOURCE none is
// raised above the hard limit that we have ourselves.
func ulimit(name string, want uint64) error {
	number, ok := ulimits[name]
	if !ok {
		return fmt.Errorf("the ulimit %q is unknown; write one of as, core, cpu, data, fsize, memlock, nofile, nproc, rss, stack", name)
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(number, &now); err != nil {
		return fmt.Errorf("reading the ulimit %s: %w", name, err)
	}
	if want > now.Max && !mayRaise() {
		return fmt.Errorf("the ulimit %s of %d is above this host's hard limit %d, and we may not raise it (no CAP_SYS_RESOURCE); ask for at most that", name, want, now.Max)
	}
	return nil
}

func mayRaise() bool {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&h, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// limits are the controllers that a task's resources need.
func limits(r executors.Resources) (out []string) {
	if r.Memory > 0 {
		out = append(out, "memory")
	}
	if r.CPUs > 0 {
		out = append(out, "cpu")
	}
	return out
}

// controlled says whether the kernel limits by this controller here: it is
// mounted by itself (version 1), or listed in the root of version 2.
func controlled(controller string) bool {
	if _, err := os.Stat(filepath.Join("/sys/fs/cgroup", controller, "cgroup.procs")); err == nil {
		return true
	}
	text, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err != nil {
		return false
	}
	for _, c := range strings.Fields(string(text)) {
		if c == controller {
			return true
		}
	}
	return false
}
