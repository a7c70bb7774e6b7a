// Package daemon talks with one Docker daemon, this host's, or another's by tcp
// with TLS or by ssh, about images and about the containers of tasks.
//
// Each method is one question or one order, and docker's client and its types
// stay inside: a container that was looked at is a Container, a value. What the
// daemon says wrongly, or does not say, is put right here: an ended connection
// is no end of a container, a log's lost newlines come back, a kill for memory
// counts also when it is told late, and while the daemon is away it is looked at
// again for as long as a restart takes.
//
// The package knows what a task asks for, because it makes the task's container
// and finds it again by the marks on it. It writes nothing down, keeps nothing
// but the connection, and decides nothing: when a container is started, ended or
// removed, and what its end means, is its callers' business.
//
// Errors are the daemon's own words, and of its kinds: Away, Conflict and
// Invalid tell what a caller may branch on. All methods may be called by many
// goroutines.
package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/image"
)

// Options say which daemon it is. The zero value is the daemon that the docker
// command would use, without its contexts.
type Options struct {
	// Host is unix:///PATH, tcp://HOST:PORT or ssh://USER@HOST; "" is
	// DOCKER_HOST of our environment, or else /var/run/docker.sock.
	Host string
	// Certs is a folder with ca.pem, cert.pem and key.pem for tcp; "" is
	// DOCKER_CERT_PATH of our environment, or else no TLS.
	Certs string
	// Self is the sotabuild program, static, on this host. It appears in every
	// task's container at the same path.
	Self string
}

// Floor is the oldest API of a daemon that this package works with: that of
// Docker 20.10.
const Floor = "1.41"

// Daemon is a connection to a daemon, and what the daemon said of itself when
// it was made.
type Daemon struct {
	cli  *client.Client
	self string
	info system.Info
}

// Dial connects to a daemon and agrees with it on a version. It blocks until
// the daemon has answered or ctx is done.
func Dial(ctx context.Context, o Options) (*Daemon, error) {
	if o.Self != "" && !filepath.IsAbs(o.Self) {
		return nil, fmt.Errorf("using docker: the program %q is no absolute path", o.Self)
	}
	cli, err := dial(o)
	if err != nil {
		return nil, err
	}
	d := &Daemon{cli: cli, self: o.Self}
	ping, err := cli.Ping(ctx)
	if err != nil {
		cli.Close()
		return nil, fmt.Errorf("using docker: no daemon answers at %s; start one, or set DOCKER_HOST: %w", cli.DaemonHost(), err)
	}
	cli.NegotiateAPIVersionPing(ping)
	if older(cli.ClientVersion(), Floor) {
		cli.Close()
		return nil, fmt.Errorf("using docker: the daemon at %s speaks API %s at most, and %s (Docker 20.10) is the oldest that works; update it",
			cli.DaemonHost(), cli.ClientVersion(), Floor)
	}
	if d.info, err = cli.Info(ctx); err != nil {
		cli.Close()
		return nil, fmt.Errorf("using docker: asking the daemon at %s what it has: %w", cli.DaemonHost(), err)
	}
	if d.info.OSType != "linux" {
		cli.Close()
		return nil, fmt.Errorf("using docker: the daemon at %s runs %s containers; tasks need linux", cli.DaemonHost(), d.info.OSType)
	}
	return d, nil
}

// older compares two API versions, MAJOR.MINOR.
func older(a, b string) bool {
	var x, y [2]int
	fmt.Sscanf(a, "%d.%d", &x[0], &x[1])
	fmt.Sscanf(b, "%d.%d", &y[0], &y[1])
	return x[0] < y[0] || x[0] == y[0] && x[1] < y[1]
}

// Close ends the connections. Containers go on.
func (d *Daemon) Close() error { return d.cli.Close() }

// String describes the daemon for people and records: address, version, API.
func (d *Daemon) String() string {
	return fmt.Sprintf("%s, Docker %s, API %s", d.Host(), d.info.ServerVersion, d.cli.ClientVersion())
}

// Host is the daemon's address, as in Options.
func (d *Daemon) Host() string { return d.cli.DaemonHost() }

// Local reports whether the daemon is reached by a socket of this host.
func (d *Daemon) Local() bool { return strings.HasPrefix(d.Host(), "unix://") }

// ID is the daemon's own identity, which stays when it is started again.
func (d *Daemon) ID() string { return d.info.ID }

// Root is the daemon's folder, on the daemon's host.
func (d *Daemon) Root() string { return d.info.DockerRootDir }

// Self is Options.Self.
func (d *Daemon) Self() string { return d.self }

// Platform is that of the daemon's host.
func (d *Daemon) Platform() image.Platform {
	arch := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[d.info.Architecture]
	if arch == "" {
		arch = d.info.Architecture
	}
	return image.Platform{OS: "linux", Architecture: arch}
}

// Enough says why the daemon's host has not what the task needs; nil if it has.
func (d *Daemon) Enough(t executors.Task) error {
	r := t.Resources
	if d.info.NCPU > 0 && r.CPUs > d.info.NCPU {
		return fmt.Errorf("task %s needs %d CPUs; the daemon's host has %d", t.ID, r.CPUs, d.info.NCPU)
	}
	if d.info.MemTotal > 0 && r.Memory > d.info.MemTotal {
		return fmt.Errorf("task %s needs %d bytes of memory; the daemon's host has %d", t.ID, r.Memory, d.info.MemTotal)
	}
	return nil
}

// Args is the task's command, which is our own program's where it names none.
func (d *Daemon) Args(t executors.Task) []string {
	if len(t.Process.Args) > 0 {
		return t.Process.Args
	}
	return []string{d.self, "runner", "spec.json"}
}

// usesSelf says whether the task's container needs our own program.
func (d *Daemon) usesSelf(t executors.Task) bool {
	if d.self == "" || d.Args(t)[0] != d.self {
		return false
	}
	for _, m := range t.Mounts {
		if m.Destination == d.self || strings.HasPrefix(d.self, m.Destination+"/") {
			return false
		}
	}
	return true
}
