package proc

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Socket is a TCP socket that listens.
type Socket struct {
	Addr  netip.AddrPort
	Inode uint64
	UID   int
}

// Listeners returns the TCP sockets of our network namespace that listen on
// port, on any address.
func Listeners(port int) ([]Socket, error) {
	var out []Socket
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(table)
		if errors.Is(err, os.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("reading the socket table: %w", err)
		}
		found, err := listening(string(text), port)
		if err != nil {
			return nil, fmt.Errorf("reading the socket table: %w", err)
		}
		out = append(out, found...)
	}
	return out, nil
}

// listening reads a socket table. The kernel writes it in parts: where sockets
// come and go meanwhile, one may stand in two of them.
func listening(table string, port int) ([]Socket, error) {
	var out []Socket
	for line := range strings.Lines(table) {
		// sl local remote state queues timer retransmits uid timeout inode
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[3] != "0A" {
			continue
		}
		addr, err := address(fields[1])
		uid, err1 := strconv.Atoi(fields[7])
		inode, err2 := strconv.ParseUint(fields[9], 10, 64)
		if err := errors.Join(err, err1, err2); err != nil {
			return nil, err
		}
		if s := (Socket{addr, inode, uid}); int(addr.Port()) == port && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out, nil
}

// address reads the kernel's form: hexadecimal 32-bit words in the host's
// byte order (little-endian on every machine that we build for), port.
func address(text string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(text, ":")
	raw, err1 := hex.DecodeString(host)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if err1 != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("unknown address %q", text)
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	addr, ok := netip.AddrFromSlice(raw)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("unknown address %q", text)
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(number)), nil
}

// Holder returns the one of all that has the socket open; false when none has,
// or when its owner does not let us look.
func Holder(all []Process, inode uint64) (Process, bool) {
	want := fmt.Sprintf("socket:[%d]", inode)
	for _, p := range all {
		if slices.Contains(links(p.Pid), want) {
			return p, true
		}
	}
	return Process{}, false
}

// Files returns the paths under prefix that a process has open or mapped,
// sorted. Deleted files are left out.
func Files(pid int, prefix string) []string {
	var out []string
	keep := func(path string) {
		if strings.HasPrefix(path, prefix) && !strings.HasSuffix(path, " (deleted)") {
			out = append(out, path)
		}
	}
	for _, link := range links(pid) {
		keep(link)
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		maps = nil // it has ended, or is not ours: nothing is known of it
	}
	for line := range strings.Lines(string(maps)) {
		if at := strings.IndexByte(line, '/'); at >= 0 {
			keep(strings.TrimSuffix(line[at:], "\n"))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// links returns what a process's descriptors point to.
func links(pid int) []string {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := numbers(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, fd := range fds {
		if to, err := os.Readlink(fmt.Sprintf("%s/%d", dir, fd)); err == nil {
			out = append(out, to)
		}
	}
	return out
}
