package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Cgroup is a control group of version 2 that we made. Whatever is started in
// it stays in it, also after setsid and double forks, and is killed at once.
type Cgroup struct{ path string }

// CgroupPath is where MakeCgroup makes a group of this name, so that it can be
// written down before. An error means that the host does not let us.
func CgroupPath(name string) (string, error) {
	own, err := ownCgroup()
	if err != nil {
		return "", err
	}
	// A child is cloned into a group only if both its old and its new group
	// may be written.
	if err := unix.Access(filepath.Join(own, "cgroup.procs"), unix.W_OK); err != nil {
		return "", fmt.Errorf("making a control group in %s: %w", own, err)
	}
	return filepath.Join(own, name), nil
}

// MakeCgroup makes a group of this name below our own. An error means that the
// host does not let us; nothing is left then.
func MakeCgroup(name string) (*Cgroup, error) {
	path, err := CgroupPath(name)
	if err != nil {
		return nil, err
	}
	g := &Cgroup{path}
	if err := os.Mkdir(g.path, 0o755); err != nil {
		return nil, fmt.Errorf("making a control group: %w", err)
	}
	kind, err := os.ReadFile(filepath.Join(g.path, "cgroup.type"))
	if err == nil && strings.TrimSpace(string(kind)) != "domain" {
		err = fmt.Errorf("its type is %q", kind)
	}
	if err == nil {
		err = unix.Access(filepath.Join(g.path, "cgroup.kill"), unix.W_OK)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making control group %s: %w", g.path, err), g.Remove())
	}
	return g, nil
}

// FindCgroup returns the group that MakeCgroup made, from a path that was
// written down. The path must lie in the kernel's tree and end with name: a
// forged path ends nobody else's processes. Nil when it no longer exists.
func FindCgroup(path, name string) (*Cgroup, error) {
	root, err := cgroupRoot()
	if err != nil {
		return nil, err
	}
	if filepath.Clean(path) != path || !strings.HasPrefix(path, root+"/") || filepath.Base(path) != name {
		return nil, fmt.Errorf("finding control group %q: it is not the group %s under %s", path, name, root)
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return &Cgroup{path}, nil
}

// Path is the group's folder.
func (g *Cgroup) Path() string { return g.path }

// Open returns the descriptor of the folder for cloning a child into it.
func (g *Cgroup) Open() (*os.File, error) { return os.Open(g.path) }

// Kill sends SIGKILL to everything in the group, atomically. A group that is
// gone, which another engine may have removed meanwhile, has nothing in it.
func (g *Cgroup) Kill() error {
	f, err := os.OpenFile(filepath.Join(g.path, "cgroup.kill"), os.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = f.WriteString("1")
		err = errors.Join(err, f.Close())
	}
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("killing control group %s: %w", g.path, err)
	}
	return nil
}

// Empty says whether no living process is in the group or below it.
func (g *Cgroup) Empty() bool {
	text, err := os.ReadFile(filepath.Join(g.path, "cgroup.events"))
	if errors.Is(err, os.ErrNotExist) {
		return true
	}
	return err == nil && strings.Contains(string(text), "populated 0")
}

// Remove removes the empty group and groups that its processes made in it.
func (g *Cgroup) Remove() error {
	var dirs []string
	err := filepath.WalkDir(g.path, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for i := len(dirs) - 1; i >= 0; i-- {
		err = errors.Join(err, unix.Rmdir(dirs[i]))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing control group %s: %w", g.path, err)
	}
	return nil
}

// OOMKills counts the processes that the kernel has killed for memory in our
// control group. Where no group counts them it is the whole host's count, and
// own is false.
func OOMKills() (count string, own bool) {
	for _, file := range oomFiles() {
		if text, err := os.ReadFile(file.path); err == nil {
			for line := range strings.Lines(string(text)) {
				if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == "oom_kill" {
					return value, file.own
				}
			}
		}
	}
	return "", false
}

type oomFile struct {
	path string
	own  bool
}

func oomFiles() []oomFile {
	files := []oomFile{{"/proc/vmstat", false}}
	if own, err := ownCgroup(); err == nil {
		files = append([]oomFile{{filepath.Join(own, "memory.events"), true}}, files...)
	}
	if path := cgroupLine("memory"); path != "" {
		files = append([]oomFile{{filepath.Join("/sys/fs/cgroup/memory", path, "memory.oom_control"), true}}, files...)
	}
	return files
}

// ownCgroup returns the folder of the version 2 group that we are in.
func ownCgroup() (string, error) {
	root, err := cgroupRoot()
	if err != nil {
		return "", err
	}
	path := cgroupLine("")
	if path == "" || strings.HasPrefix(path, "/..") {
		return "", errors.New("finding our control group: it is not in our tree")
	}
	return filepath.Join(root, path), nil
}

// cgroupLine returns our path in the hierarchy of a controller; "" asks for
// version 2 and is also the answer where there is none.
func cgroupLine(controller string) string {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); len(parts) == 3 && parts[1] == controller {
			return parts[2]
		}
	}
	return ""
}

// cgroupRoot returns where version 2 is mounted. That does not change while we
// live, and the table of mounts is long where containers run.
var cgroupRoot = sync.OnceValues(func() (string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("finding control groups: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(before); len(fields) > 4 && strings.HasPrefix(after, "cgroup2 ") {
			return fields[4], nil
		}
	}
	return "", errors.New("finding control groups: no cgroup2 is mounted")
})
