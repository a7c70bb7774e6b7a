package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// places are the CPUs of both sides.
type places struct{ client, server unix.CPUSet }

// parseCPUs reads a list as the kernel writes it: 0-3,8.
func parseCPUs(list string) (set unix.CPUSet, err error) {
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		a, err := strconv.ParseUint(from, 10, 31)
		b, err2 := strconv.ParseUint(to, 10, 31)
		if err != nil || err2 != nil || a > b || b >= uint64(len(set)*64) {
			return set, fmt.Errorf("%q is no list of CPUs; write it as 0-3,8", list)
		}
		for cpu := a; cpu <= b; cpu++ {
			set.Set(int(cpu))
		}
	}
	return set, nil
}

// listCPUs is the opposite, without ranges.
func listCPUs(set unix.CPUSet) string {
	var out []string
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			out = append(out, strconv.Itoa(cpu))
		}
	}
	return strings.Join(out, ",")
}

// choose places the client on the last CPU that this process may use and the
// server on the others, if there are any, without those that are threads of the
// client's core, if others are left. A list that is not empty is taken as it is.
func choose(client, server string, siblings func(cpu int) string) (p places, err error) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return p, err
	}
	if client == "" {
		for cpu := range len(all) * 64 {
			if all.IsSet(cpu) {
				p.client.Zero()
				p.client.Set(cpu)
			}
		}
	} else if p.client, err = parseCPUs(client); err != nil {
		return p, err
	}
	if server != "" {
		p.server, err = parseCPUs(server)
		return p, err
	}
	near := p.client
	for cpu := range len(all) * 64 {
		if p.client.IsSet(cpu) {
			if more, err := parseCPUs(siblings(cpu)); err == nil { // not said: none are known
				near = union(near, more)
			}
		}
	}
	for _, not := range []unix.CPUSet{near, p.client, {}} {
		if p.server = without(all, not); p.server.Count() > 0 {
			break
		}
	}
	return p, nil
}

func union(a, b unix.CPUSet) unix.CPUSet {
	for i := range a {
		a[i] |= b[i]
	}
	return a
}

func without(a, b unix.CPUSet) unix.CPUSet {
	for i := range a {
		a[i] &^= b[i]
	}
	return a
}

// siblings are the threads of a CPU's core, as the kernel says; "" if it does not.
func siblings(cpu int) string {
	b, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))
	if err != nil {
		return ""
	}
	return string(b)
}

// start starts a command on these CPUs.
func start(c *exec.Cmd, on unix.CPUSet) error {
	runtime.LockOSThread() // a child inherits the CPUs of the thread that forks it
	defer runtime.UnlockOSThread()
	var own unix.CPUSet
	if err := unix.SchedGetaffinity(0, &own); err != nil {
		return err
	}
	if err := unix.SchedSetaffinity(0, &on); err != nil {
		return fmt.Errorf("taking the CPUs %s: %w", listCPUs(on), err)
	}
	return errors.Join(c.Start(), unix.SchedSetaffinity(0, &own))
}

// processor is the machine's, for people.
func processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if name, value, _ := strings.Cut(line, ":"); err == nil && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// kernel is its release; loadAverage the machine's of one minute. Both are for
// people, "?" if not known.
func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "?"
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(b)); err == nil && len(f) > 0 {
		return f[0]
	}
	return "?"
}
