// Package docker runs tasks as containers of a Docker daemon: this host's, or
// another's by tcp with TLS or by ssh.
//
// A task is one container with a fixed name and labels of ours; what the
// package knows beside the daemon's own word stands in Task.Dir/.docker. Paths
// inside are the same as outside. Where the daemon does not see this host's
// files, the task's folder and the supervisor are copied in before the start,
// and the folder is copied back when the task has ended; other mounts are then
// paths of the daemon's host.
//
// Whether a task was started is known by the kind of error and by the
// container's state, never by a code or a text. The daemon reports 128+n both
// for a process that signal n ended and for one that exited with that code: it
// is taken for the signal. An ended connection is no end of a task: the
// container is looked at again, for a while also when the daemon is away.
//
// There is no lifeline: a task outlives the engine and its daemon's death (with
// live-restore), runs to its deadline, and is found by the next engine. Only
// containers that have our labels, and the name that belongs to them, are ever
// touched.
package docker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/sotabuild/sotabuild/executors"
)

// Options say which daemon runs tasks, and how. The zero value is the daemon
// that the docker command would use, without its contexts.
type Options struct {
	// Host is unix:///PATH, tcp://HOST:PORT or ssh://USER@HOST; "" is
	// DOCKER_HOST of our environment, or else /var/run/docker.sock.
	Host string
	// Certs is a folder with ca.pem, cert.pem and key.pem for tcp; "" is
	// DOCKER_CERT_PATH of our environment, or else no TLS.
	Certs string
	// Self is the sotabuild program, static, on this host. It appears in every
	// container at the same path.
	Self string
	// Files says whether the daemon sees this host's files.
	Files Files
	// Network is what a task without Resources.NetHost is connected to: a
	// network's name or "none"; "" is the daemon's default.
	Network string
	// CDI asks for GPUs by CDI names, nvidia.com/gpu=ID, instead of by the
	// driver called nvidia. Ids that are CDI names themselves, or device
	// nodes (/dev/dri/renderD128), need no option.
	CDI bool
	// Creating is told of an image before it is pulled or loaded, by the name
	// that the daemon will have for it and the daemon's own identity; an error of
	// it ends the attempt. What it returns is told the daemon's id of the image
	// that was made. nil wants to know nothing.
	Creating func(daemon, image string) (made func(id string) error, err error)
	// Temp is the folder for images on their way to or from the daemon; "" is
	// the system's.
	Temp string
	// Say gets a line where something takes long (a pull) or is not as usual
	// (files are copied). nil hears nothing. It may be called by many
	// goroutines.
	Say func(string)
}

// Files says how a container gets at the task's folder.
type Files string

// The ways. Auto finds out with the first task.
const (
	Auto   Files = ""
	Shared Files = "shared"
	Copied Files = "copied"
)

// Floor is the oldest API of a daemon that this package works with: that of
// Docker 20.10.
const Floor = "1.41"

// Executor implements executors.Executor.
type Executor struct {
	cli  *client.Client
	o    Options
	info system.Info

	mu     sync.Mutex        // guards files and images
	files  Files             // how, once it is known
	images map[string]*found // by reference
}

var _ executors.Executor = (*Executor)(nil)

// Dial connects to a daemon and agrees with it on a version. It blocks until
// the daemon has answered or ctx is done.
func Dial(ctx context.Context, o Options) (*Executor, error) {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Creating == nil {
		o.Creating = func(string, string) (func(string) error, error) { return func(string) error { return nil }, nil }
	}
	if o.Self != "" && !filepath.IsAbs(o.Self) {
		return nil, fmt.Errorf("using docker: the program %q is no absolute path", o.Self)
	}
	cli, err := dial(o)
	if err != nil {
		return nil, err
	}
	e := &Executor{cli: cli, o: o, files: o.Files, images: map[string]*found{}}
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
	if e.info, err = cli.Info(ctx); err != nil {
		cli.Close()
		return nil, fmt.Errorf("using docker: asking the daemon at %s what it has: %w", cli.DaemonHost(), err)
	}
	if e.info.OSType != "linux" {
		cli.Close()
		return nil, fmt.Errorf("using docker: the daemon at %s runs %s containers; tasks need linux", cli.DaemonHost(), e.info.OSType)
	}
	return e, nil
}

// Close ends the connections. Tasks go on.
func (e *Executor) Close() error { return e.cli.Close() }

// Name is "docker".
func (e *Executor) Name() string { return "docker" }

// Daemon describes the daemon for people and records: address, version, API.
func (e *Executor) Daemon() string {
	return fmt.Sprintf("%s, Docker %s, API %s", e.cli.DaemonHost(), e.info.ServerVersion, e.cli.ClientVersion())
}

// older compares two API versions, MAJOR.MINOR.
func older(a, b string) bool {
	var x, y [2]int
	fmt.Sscanf(a, "%d.%d", &x[0], &x[1])
	fmt.Sscanf(b, "%d.%d", &y[0], &y[1])
	return x[0] < y[0] || x[0] == y[0] && x[1] < y[1]
}

// Check says why a task cannot run here. It asks the daemon for the image and
// pulls nothing.
func (e *Executor) Check(t executors.Task) error {
	if err := t.Check(); err != nil {
		return err
	}
	if t.Image == "" {
		return fmt.Errorf("task %s: docker needs an image; write image in its framework, or choose executor \"local\"", t.ID)
	}
	if err := e.enough(t); err != nil {
		return err
	}
	if e.filesNow() != Copied {
		for _, m := range t.Mounts {
			if _, err := os.Stat(m.Source); err != nil {
				return fmt.Errorf("task %s: its mount is missing: %w", t.ID, err)
			}
		}
	}
	if _, err := hostOf(e, t, e.filesNow()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return e.checkImage(ctx, t.Image)
}

// enough says whether the daemon's host has what the task needs.
func (e *Executor) enough(t executors.Task) error {
	r := t.Resources
	if e.info.NCPU > 0 && r.CPUs > e.info.NCPU {
		return fmt.Errorf("task %s needs %d CPUs; the daemon's host has %d", t.ID, r.CPUs, e.info.NCPU)
	}
	if e.info.MemTotal > 0 && r.Memory > e.info.MemTotal {
		return fmt.Errorf("task %s needs %d bytes of memory; the daemon's host has %d", t.ID, r.Memory, e.info.MemTotal)
	}
	return nil
}

func (e *Executor) filesNow() Files {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.files
}

// containerName is the name of a task's container. One name is one task, so
// the daemon itself refuses a second one.
func containerName(id executors.TaskID) string { return "sotabuild-" + string(id) }

// Labels beside the engine's.
const (
	labelDir      = "dev.sotabuild.dir"         // Task.Dir, on the engine's host
	labelDeadline = "dev.sotabuild.deadline_ns" // from its start
	labelGrace    = "dev.sotabuild.grace_ns"
	labelFiles    = "dev.sotabuild.files" // shared or copied
)

// args is the task's command.
func (e *Executor) args(t executors.Task) []string {
	if len(t.Process.Args) > 0 {
		return t.Process.Args
	}
	return []string{e.o.Self, "runner", "spec.json"}
}

// usesSelf says whether the container needs our own program.
func (e *Executor) usesSelf(t executors.Task) bool {
	if e.o.Self == "" || e.args(t)[0] != e.o.Self {
		return false
	}
	for _, m := range t.Mounts {
		if m.Destination == e.o.Self || strings.HasPrefix(e.o.Self, m.Destination+"/") {
			return false
		}
	}
	return true
}
