// Package proc reads the kernel's tables of processes and sockets, starts and
// reaps children, and ends processes that are provably the ones meant. It
// knows no task and no spec.
//
// A process is named by ID: its pid and its start time. A pid alone is reused
// by the kernel; with the start time it is one process for good within a boot,
// so a signal sent through an ID never hits a stranger (R077, R080). Nothing
// here finds processes by their name.
//
// All functions read the tables anew and may be called from any goroutine. A
// process that ends between two reads is simply absent, never an error.
package proc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ID names one process of this boot.
type ID struct {
	Pid int `json:"pid"`
	// Start is field 22 of /proc/PID/stat: clock ticks after boot.
	Start uint64 `json:"start"`
}

// Process is a living process as the kernel's table showed it.
type Process struct {
	ID
	Parent, Group, Session int
}

// Read returns the process that has this pid now. A zombie has ended: it is
// os.ErrProcessDone, like a pid that nobody has.
func Read(pid int) (Process, error) {
	p, ended, err := read(pid)
	if err == nil && ended {
		err = os.ErrProcessDone
	}
	return p, err
}

// Identify returns the ID of a child that was not waited for yet, also when it
// has ended already.
func Identify(pid int) (ID, error) {
	p, _, err := read(pid)
	return p.ID, err
}

func read(pid int) (p Process, ended bool, err error) {
	var room [1024]byte // the line has at most 52 numbers and a name of 64 bytes
	text, err := kernelFile("/proc/"+strconv.Itoa(pid)+"/stat", room[:0])
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return p, false, os.ErrProcessDone
	}
	if err != nil {
		return p, false, fmt.Errorf("reading process %d: %w", pid, err)
	}
	// The second field is the name in brackets; it may hold blanks and
	// brackets itself, so the fields are counted from the last bracket.
	end := bytes.LastIndexByte(text, ')')
	fields := strings.Fields(string(text[end+1:]))
	if end < 0 || len(fields) < 20 {
		return p, false, fmt.Errorf("reading process %d: unknown form of stat %q", pid, text)
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	numbers := make([]int, 3)
	for i := range numbers {
		n, bad := strconv.Atoi(fields[1+i])
		numbers[i], err = n, cmp.Or(err, bad)
	}
	if err != nil {
		return p, false, fmt.Errorf("reading process %d: %w", pid, err)
	}
	return Process{ID{pid, start}, numbers[0], numbers[1], numbers[2]}, fields[0] == "Z" || fields[0] == "X", nil
}

// kernelFile appends the content of a file of /proc to b. Reading it through
// os.File would take three times as long, since each descriptor goes through
// Go's poller, and a look at all processes reads thousands.
func kernelFile(path string, b []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for err == unix.EINTR {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	for {
		b = slices.Grow(b, 512)
		n, err := unix.Read(fd, b[len(b):cap(b)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return b, nil
		default:
			b = b[:len(b)+n]
		}
	}
}

// Childless says that we have no child, not even one that has ended and was not
// waited for. To a child sub-reaper (Lead) that means that nothing at all lives
// below it, since every orphan is its child: one system call instead of a look
// at all processes.
func Childless() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == unix.ECHILD
}

// Below returns what lives below us, ascending by pid. We must be a child
// sub-reaper.
func Below() ([]Process, error) {
	if Childless() {
		return nil, nil
	}
	all, err := List()
	return Under(all, os.Getpid()), err
}

// Count is how many processes the kernel's table holds, zombies too.
func Count() (int, error) {
	pids, err := numbers("/proc")
	if err != nil {
		return 0, fmt.Errorf("counting processes: %w", err)
	}
	return len(pids), nil
}

// List returns all living processes, ascending by pid.
func List() ([]Process, error) {
	pids, err := numbers("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	all := make([]Process, 0, len(pids))
	for _, pid := range pids {
		if p, err := Read(pid); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// Under returns those of all that descend from one of roots, without the
// roots, in the order of all.
func Under(all []Process, roots ...int) []Process {
	children := map[int][]int{}
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p.Pid)
	}
	in := map[int]bool{}
	for todo := slices.Clone(roots); len(todo) > 0; {
		next := children[todo[0]]
		todo = todo[1:]
		for _, pid := range next {
			if !in[pid] {
				in[pid] = true
				todo = append(todo, pid)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(p Process) bool { return !in[p.Pid] || slices.Contains(roots, p.Pid) })
}

// Marked returns those of all whose environment holds this NAME=value. A
// process that has overwritten its environment is not found by it.
func Marked(all []Process, mark string) []Process {
	var out []Process
	for _, p := range all {
		env, err := kernelFile("/proc/"+strconv.Itoa(p.Pid)+"/environ", nil)
		if err != nil {
			continue // it has ended, or belongs to another user and is none of ours
		}
		if slices.Contains(strings.Split(string(env), "\x00"), mark) && p.Alive() {
			out = append(out, p)
		}
	}
	return out
}

// CommandLine returns the command line of a process for people, at most 120 bytes;
// "" when it cannot be read.
func CommandLine(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	line := strings.TrimSpace(string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})))
	return strings.ToValidUTF8(line[:min(len(line), 120)], "?")
}

// Alive says whether this very process still lives. A zombie does not.
func (id ID) Alive() bool {
	p, err := Read(id.Pid)
	return err == nil && p.Start == id.Start
}

// Signal sends sig to this very process; nil when it has ended before.
func (id ID) Signal(sig unix.Signal) error {
	fd, err := id.open()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("signalling process %d: %w", id.Pid, err)
	}
	return nil
}

// Wait blocks until this very process has ended, or ctx is done. It does not
// reap it, so it works for processes that are not our children.
func (id ID) Wait(ctx context.Context) error {
	fd, err := id.open()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	// A non-blocking descriptor is watched by Go's own poller: no thread is
	// held while we wait.
	if err := unix.SetNonblock(fd, true); err != nil {
		return errors.Join(fmt.Errorf("waiting for process %d: %w", id.Pid, err), unix.Close(fd))
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	defer file.Close()
	raw, err := file.SyscallConn()
	if err != nil {
		return fmt.Errorf("waiting for process %d: %w", id.Pid, err)
	}
	stop := context.AfterFunc(ctx, func() { file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var bad error
	err = raw.Read(func(fd uintptr) bool {
		ended, err := readable(int(fd))
		bad = err
		return ended || err != nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := cmp.Or(err, bad); err != nil {
		return fmt.Errorf("waiting for process %d: %w", id.Pid, err)
	}
	return nil
}

// open returns a pidfd that is proven to be this process.
func (id ID) open() (int, error) {
	if id.Pid <= 0 {
		return -1, os.ErrProcessDone // no process was ever meant
	}
	fd, err := unix.PidfdOpen(id.Pid, 0)
	if err == unix.ESRCH {
		return -1, os.ErrProcessDone
	}
	if err != nil {
		return -1, fmt.Errorf("opening process %d: %w", id.Pid, err)
	}
	// The start time is read after the descriptor was taken: if it is right,
	// the descriptor is of this process.
	if !id.Alive() {
		unix.Close(fd)
		return -1, os.ErrProcessDone
	}
	return fd, nil
}

func readable(fd int) (bool, error) {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		if err != unix.EINTR {
			return n > 0, err
		}
	}
}

// BootID names this boot of the kernel: an ID means nothing in another one.
func BootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// numbers returns the entries of a folder that are numbers, ascending.
func numbers(dir string) ([]int, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}
