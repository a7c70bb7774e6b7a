package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Shm finds what processes leave in /dev/shm. An entry is removed only if all of
// this holds: it was not there before Begin; one of the processes noted had it
// open or mapped; it is still the same inode; it belongs to our user;
// nobody alive has it open or mapped. What they closed before we looked is not
// found: leaving a file is better than taking a stranger's (R078, R080).
type Shm struct {
	before map[string]uint64 // path → inode
	// Held are the entries that processes of ours had, by path, with their
	// inodes. Written down, it lets another process sweep.
	Held map[string]uint64
}

const shmDir = "/dev/shm"

// Begin remembers what is there before anything is started.
func (m *Shm) Begin() {
	m.before, m.Held = map[string]uint64{}, map[string]uint64{}
	entries, err := os.ReadDir(shmDir)
	if err != nil {
		return // there is none: nothing can be left in it
	}
	for _, e := range entries {
		path := filepath.Join(shmDir, e.Name())
		if stat, ok := inode(path); ok {
			m.before[path] = stat.Ino
		}
	}
}

// Note remembers what a process holds.
func (m *Shm) Note(pid int) {
	for _, path := range Files(pid, shmDir+"/") {
		if stat, ok := inode(path); ok && m.before[path] != stat.Ino {
			m.Held[path] = stat.Ino
		}
	}
}

// Sweep removes what is provably theirs, and says what it could not remove. It
// is called when none of them lives.
func (m *Shm) Sweep() (removed, left []string) {
	if len(m.Held) == 0 {
		return nil, nil
	}
	inUse := map[string]bool{}
	all, err := List()
	if err != nil {
		return nil, []string{"/dev/shm was not swept: " + err.Error()}
	}
	for _, p := range all {
		for _, path := range Files(p.Pid, shmDir+"/") {
			inUse[path] = true
		}
	}
	for path, ino := range m.Held {
		stat, ok := inode(path)
		if !ok || stat.Ino != ino || int(stat.Uid) != os.Getuid() || inUse[path] {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			left = append(left, fmt.Sprintf("%s: %v", path, err))
			continue
		}
		removed = append(removed, path)
	}
	slices.Sort(removed)
	slices.Sort(left)
	return removed, left
}

// inode returns what a regular file is; false when it is none.
func inode(path string) (*syscall.Stat_t, bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return stat, ok
}
