package slurm

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/ledger"
	"github.com/sotabuild/sotabuild/executors/slurm/job"
	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// state is what is kept of a task, in Dir/.slurm/task.json. It is changed under
// the lock only, and replaced by rename.
type state struct {
	Task   executors.TaskID  `json:"task"`
	Labels map[string]string `json:"labels,omitempty"`
	// Name is the job's name, and unique: by it a job is found whose id nobody
	// lived to write down. Job is "" while it is being submitted.
	Name      string             `json:"name"`
	Job       string             `json:"job,omitempty"`
	Submitted time.Time          `json:"submitted"`
	Grace     time.Duration      `json:"grace_ns,omitempty"`
	Asked     executors.Reason   `json:"asked,omitempty"` // why we ended it
	Outcome   *executors.Outcome `json:"outcome,omitempty"`
	Reaped    bool               `json:"reaped,omitempty"`
}

// place is a task's folder.
type place string

// folder is what the executor and the job share.
func (p place) folder() string { return filepath.Join(string(p), job.Folder) }

func (p place) path() string { return filepath.Join(p.folder(), "task.json") }

func (p place) log() string { return filepath.Join(string(p), "logs", "runner.out") }

// ref is a Handle's Ref: JOB:DIR. JOB is 0 for a task that Slurm refused.
func (p place) ref(s state) string {
	if s.Job == "" {
		return "0:" + string(p)
	}
	return s.Job + ":" + string(p)
}

var refForm = lazyregexp.New(`^([0-9]{1,12}):(/.*)$`)

// parse reads a Ref.
func parse(h executors.Handle) (id string, p place, err error) {
	m := refForm.FindStringSubmatch(h.Ref)
	if m == nil || !h.Task.Valid() {
		return "", "", fmt.Errorf("reading the handle of task %q: its reference %q is not JOB:DIR", h.Task, h.Ref)
	}
	return m[1], place(m[2]), nil
}

// open finds a handle's task. It fails when the folder knows another task, or
// none: a handle never reaches a stranger.
func open(h executors.Handle) (place, state, error) {
	_, p, err := parse(h)
	if err != nil {
		return "", state{}, err
	}
	s, err := p.read()
	if err == nil && s.Task != h.Task {
		err = fmt.Errorf("finding task %s: the folder %s knows task %q", h.Task, p, s.Task)
	}
	return p, s, err
}

// read returns what is known; the zero state where nothing is.
func (p place) read() (state, error) { return ledger.Read[state](p.path()) }

// update changes the state under the lock, which ends with its process. It is
// held across a submission, so that two engines that start one id submit once.
func (p place) update(ctx context.Context, change func(*state) error) error {
	return ledger.Update(ctx, p.path(), change)
}

// pause waits; false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// quote makes one word of a POSIX shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
