package proc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
)

// Host is where servers listen and clients connect.
const Host = "127.0.0.1"

// firstPort is where the search for free ports begins: above the services that
// a machine usually has, below the ports that outgoing connections get.
const firstPort = 20000

// Claim returns a port that nobody listens on, and keeps it from other runners
// until the claim is closed. want 0 lets it choose, outside the ephemeral
// range: there an outgoing connection may take it at any time. Between the
// claim and the server's own bind a stranger may still come; the caller proves
// later whose socket answers.
//
// A claim is a socket of the abstract name space: it has exactly the scope of
// ports (the network namespace) and ends with its process. A lock file has
// neither.
func Claim(want int) (int, net.Listener, error) {
	if want != 0 {
		if by := heldBy(want); by != "" {
			return 0, nil, fmt.Errorf("port %d is held by %s", want, by)
		}
		lock, err := reserve(want)
		if err != nil {
			return 0, nil, fmt.Errorf("port %d is reserved by another task of sotabuild", want)
		}
		return want, lock, nil
	}
	low, high, err := chooseRange()
	if err != nil {
		return 0, nil, err
	}
	for range 500 {
		port := low + rand.IntN(high-low+1)
		lock, err := reserve(port)
		if err != nil {
			continue // another runner's
		}
		if free(port) {
			return port, lock, nil
		}
		lock.Close()
	}
	return 0, nil, fmt.Errorf("500 ports between %d and %d were tried and none is free", low, high)
}

func reserve(port int) (net.Listener, error) {
	return net.Listen("unix", fmt.Sprintf("@sotabuild-port-%d", port))
}

// free says whether the port can be bound on all addresses.
func free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	return err == nil && l.Close() == nil
}

// chooseRange returns the larger part of the ports outside the ephemeral range,
// both ends included.
func chooseRange() (low, high int, err error) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, 0, fmt.Errorf("choosing a port: %w", err)
	}
	var from, to int
	if _, err := fmt.Sscan(string(text), &from, &to); err != nil {
		return 0, 0, fmt.Errorf("choosing a port: unknown range %q: %w", text, err)
	}
	if from-firstPort >= 65535-to && from > firstPort {
		return firstPort, from - 1, nil
	}
	if to < 65535 {
		return to + 1, 65535, nil
	}
	return 0, 0, errors.New("choosing a port: the ephemeral range leaves none; give the processes fixed ports")
}

func heldBy(port int) string {
	sockets, err := Listeners(port)
	if err != nil {
		return "we cannot see whom: " + err.Error()
	}
	if len(sockets) == 0 {
		return ""
	}
	return Owner(sockets[0])
}

// Owner names a socket's process as far as we may see it.
func Owner(s Socket) string {
	if all, err := List(); err == nil {
		if p, ok := Holder(all, s.Inode); ok {
			return fmt.Sprintf("pid %d (%s)", p.Pid, CommandLine(p.Pid))
		}
	}
	return fmt.Sprintf("a process of user %d that we may not look at", s.UID)
}

// Answering returns the sockets that get a connection to Host:port: those bound
// to that very address, else those bound to all.
func Answering(port int) ([]Socket, error) {
	sockets, err := Listeners(port)
	if err != nil {
		return nil, err
	}
	exact := slices.DeleteFunc(slices.Clone(sockets), func(s Socket) bool { return s.Addr.Addr() != netip.MustParseAddr(Host) })
	if len(exact) > 0 {
		return exact, nil
	}
	return slices.DeleteFunc(sockets, func(s Socket) bool { return !s.Addr.Addr().IsUnspecified() }), nil
}
