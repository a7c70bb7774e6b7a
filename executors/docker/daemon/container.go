package daemon

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/sotabuild/sotabuild/executors"
)

// Name is the name of a task's container. One name is one task, so the daemon
// itself refuses a second one.
func Name(id executors.TaskID) string { return "sotabuild-" + string(id) }

// Labels beside the engine's.
const (
	labelDir      = "dev.sotabuild.dir"         // Task.Dir, on the engine's host
	labelDeadline = "dev.sotabuild.deadline_ns" // from its start
	labelGrace    = "dev.sotabuild.grace_ns"
	labelFiles    = "dev.sotabuild.files" // shared or copied
)

// The ways of labelFiles.
const shared, copied = "shared", "copied"

// Mark is a container's id, and what its labels say of its task. Where the
// container's name is not the one that belongs to the labels, it is nobody's
// task and all but the id is zero: an image may bear any label.
type Mark struct {
	ID       string
	Task     executors.TaskID
	Dir      string        // of the task, on the engine's host
	Deadline time.Duration // from its start; 0: none
	Grace    time.Duration // StopGrace
	Copied   bool          // the folder was copied in, and has to come back
}

// Container is a container as the daemon knew it when it was looked at.
type Container struct {
	Mark
	Image     string // the daemon's id of its image
	ImageName string // what it was asked to be made of
	State
	Limits
	Mounts []Mount
}

// State is what a container does. Of one that is paused, or that is being
// started again, Running may be true as well.
type State struct {
	Running, Paused, Restarting bool
	Status                      string    // the daemon's word for it
	Started, Finished           time.Time // zero: never
	ExitCode                    int
	OOMKilled                   bool
}

// Limits is what a container was given; 0 is no limit.
type Limits struct {
	Memory, NanoCPUs, ShmSize int64 // ShmSize is always there
	HostIPC, HostNetwork      bool
}

// Mount is what a container sees of elsewhere.
type Mount struct {
	Source, Destination string
	Bind, Writable      bool // Bind: Source is a path of the daemon's host
}

// Alive says whether the container may still do something. One that is not
// there, nil, does nothing.
func (c *Container) Alive() bool { return c != nil && (c.Running || c.Paused || c.Restarting) }

// WasStarted says whether the container ever ran, or runs.
func (c *Container) WasStarted() bool { return c.Alive() || c != nil && !c.Started.IsZero() }

func describe(box container.InspectResponse) *Container {
	c := &Container{Mark: Mark{ID: box.ID}, Image: box.Image}
	if box.Config != nil {
		c.Mark, c.ImageName = markOf(box.ID, box.Name, box.Config.Labels), box.Config.Image
	}
	if s := box.State; s != nil {
		c.State = State{
			Running: s.Running, Paused: s.Paused, Restarting: s.Restarting, Status: s.Status,
			Started: moment(s.StartedAt), Finished: moment(s.FinishedAt), ExitCode: s.ExitCode, OOMKilled: s.OOMKilled,
		}
	}
	if h := box.HostConfig; h != nil {
		c.Limits = Limits{Memory: h.Memory, NanoCPUs: h.NanoCPUs, ShmSize: h.ShmSize, HostIPC: h.IpcMode.IsHost(), HostNetwork: h.NetworkMode.IsHost()}
	}
	for _, m := range box.Mounts {
		c.Mounts = append(c.Mounts, Mount{Source: m.Source, Destination: m.Destination, Bind: m.Type == "bind", Writable: m.RW})
	}
	return c
}

func markOf(id, name string, labels map[string]string) Mark {
	m, task := Mark{ID: id}, executors.TaskID(labels[executors.LabelTask])
	if !task.Valid() || strings.TrimPrefix(name, "/") != Name(task) {
		return m
	}
	m.Task, m.Dir, m.Copied = task, labels[labelDir], labels[labelFiles] == copied
	m.Deadline, m.Grace = duration(labels[labelDeadline]), duration(labels[labelGrace])
	return m
}

func duration(label string) time.Duration {
	n, err := strconv.ParseInt(label, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(n)
}

// moment reads a time of the daemon's, whose year 1 is never.
func moment(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}

// Patience is how long a daemon may be away before a call fails. A restart
// takes some seconds, and up to its containers' grace more.
const Patience = 60 * time.Second

// Look looks at a container, by its id or its name; nil if the daemon has none.
// While the daemon is away it looks again, for as long as Patience.
func (d *Daemon) Look(ctx context.Context, id string) (*Container, error) {
	pause := 50 * time.Millisecond
	for late := time.Now().Add(Patience); ; pause = min(2*pause, time.Second) {
		box, err := d.cli.ContainerInspect(ctx, id)
		switch {
		case err == nil:
			return describe(box), nil
		case errdefs.IsNotFound(err):
			return nil, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !Away(err) || time.Now().After(late):
			return nil, fmt.Errorf("looking at container %.12s: %w", id, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// List finds the containers of a run's tasks, running or not, by label, in the
// daemon's order.
func (d *Daemon) List(ctx context.Context, run string) ([]Mark, error) {
	list, err := d.cli.ContainerList(ctx, container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", executors.LabelRun+"="+run)),
	})
	if err != nil {
		return nil, err
	}
	var out []Mark
	for _, c := range list {
		if len(c.Names) == 0 {
			continue
		}
		if m := markOf(c.ID, c.Names[0], c.Labels); m.Task != "" && m.Dir != "" {
			out = append(out, m)
		}
	}
	return out, nil
}
