package oci

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/proc"
)

// groupName is the name of a container's control group. That of its watcher,
// which local makes, has another.
func groupName(id executors.TaskID) string { return executors.CgroupName(id) + "-oci" }

// groupPath is where the runtime makes the group: below the group that we are
// in, so that what limits us limits the container. In version 2 a group with
// processes, as ours is, can have no limited groups below it: there it is
// beside ours.
func groupPath(name string) string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		return name // relative: the runtime's own group of each controller
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return name
	}
	for line := range strings.Lines(string(text)) {
		if own, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return filepath.Join(filepath.Dir(own), name)
		}
	}
	return name
}

// group is the control group of a container: its folder for each controller
// (version 1), or under "" (version 2). Only groups of our name are kept: a
// folder that others share is never touched.
type group map[string]string

// groupOf reads where a process is.
func groupOf(pid int, name string) (group, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil, fmt.Errorf("finding the control group of process %d: %w", pid, err)
	}
	g := group{}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || filepath.Base(parts[2]) != name {
			continue
		}
		if parts[1] == "" {
			g.keep("", filepath.Join("/sys/fs/cgroup", parts[2]))
			g.keep("", filepath.Join("/sys/fs/cgroup/unified", parts[2]))
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			g.keep(controller, filepath.Join("/sys/fs/cgroup", controller, parts[2]))
		}
	}
	return g, nil
}

func (g group) keep(controller, dir string) {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil {
		g[controller] = dir
	}
}

// pids lists what is in the group and below it.
func (g group) pids() []int {
	found := map[int]bool{}
	for _, dir := range g {
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.Name() != "cgroup.procs" {
				return nil // it goes away while we look
			}
			text, _ := os.ReadFile(path)
			for _, f := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
					found[pid] = true
				}
			}
			return nil
		})
	}
	var out []int
	for pid := range found {
		out = append(out, pid)
	}
	return out
}

// kill sends KILL to everything in the group until nothing is left, at most
// for patience. It is frozen meanwhile where that can be done, so that nothing
// multiplies faster than it is killed.
func (g group) kill(patience time.Duration) error {
	for late := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		pids := g.pids()
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(late) {
			return fmt.Errorf("%d processes of the container would not go within %s", len(pids), patience)
		}
		g.freeze("FROZEN")
		for _, pid := range g.pids() {
			// What is in the group now cannot have left it, so the pid is
			// what was read unless it has ended.
			if p, err := proc.Read(pid); err == nil {
				_ = p.Signal(unix.SIGKILL)
			}
		}
		g.freeze("THAWED")
	}
}

func (g group) freeze(state string) {
	if dir, ok := g["freezer"]; ok {
		_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte(state), 0o600)
	}
}

// oomKills counts the processes of the group that the kernel killed for memory.
func (g group) oomKills() int {
	for controller, file := range map[string]string{"memory": "memory.oom_control", "": "memory.events"} {
		text, err := os.ReadFile(filepath.Join(g[controller], file))
		if g[controller] == "" || err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == "oom_kill" {
				if n, err := strconv.Atoi(value); err == nil && n > 0 {
					return n
				}
			}
		}
	}
	return 0
}

// swapLimited says whether the kernel limits swap by groups.
func swapLimited() bool {
	for _, file := range []string{"/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "/sys/fs/cgroup/cgroup.controllers"} {
		if _, err := os.Stat(file); err == nil {
			return true
		}
	}
	return false
}
