// Package job is the program inside a Slurm job, behind `sotabuild slurm-job
// FOLDER`, and the contract of its folder with the executor.
//
// It knows files and processes, and no Slurm command: what Slurm chose it reads
// from its environment, and a TERM is all that Slurm ever tells it. It starts
// the task once for good, gives it exactly the environment that was ordered,
// passes a TERM on, keeps the deadline, is the sub-reaper of everything that
// comes to be, and leaves nothing of it behind. Where control groups do not end
// what left its parent, it does.
//
// The folder is TASK/.slurm. The file system must be one that the engine's host
// and the nodes share; each job proves it, because it cannot begin without the
// order and cannot be done without leaving its records.
//
//	order.json   Order; written by the executor before the job is submitted
//	env          the task's variables, each ended by a zero byte; mode 0600, removed
//	             before the task's program starts
//	begun/       made by the job that runs the task, or by the executor to keep
//	             every job from it: whoever makes it decides
//	begin.json   Begin, by rename, when the job has made begun/
//	beat         its time changes every BeatEvery while the job lives
//	stop.json    Stop; written by the executor before it has a TERM sent, and
//	             heeded also where Slurm sends none
//	end.json     End, by rename, last of all
//	job.out      what Slurm and this program say about the job
//
// The task's own output is in TASK/logs/runner.out.
package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors"
)

// Names of the folder's contract.
const (
	Folder    = ".slurm" // in the task's folder
	OutFile   = "job.out"
	envFile   = "env"
	orderFile = "order.json"
	stopFile  = "stop.json"
	beginFile = "begin.json"
	beatFile  = "beat"
	endFile   = "end.json"
	begunDir  = "begun"
)

// Order is what a job has to do.
type Order struct {
	Version int              `json:"version"` // OrderVersion
	Task    executors.TaskID `json:"task"`
	Name    string           `json:"name"` // the job's name in Slurm; a job of another name does not begin
	Args    []string         `json:"args"`
	Dir     string           `json:"dir"`   // the task's folder, absolute
	Needs   []string         `json:"needs"` // paths that the node must have
	GPUs    int              `json:"gpus,omitempty"`
	// ShmSize in bytes is what the node must have, Ulimits are soft limits to set.
	ShmSize int64             `json:"shm_size,omitempty"`
	Ulimits map[string]uint64 `json:"ulimits,omitempty"`
	// Deadline bounds the task from its start; 0 is none. Grace is what the
	// program gets after a TERM, KillWait what Slurm leaves us after its own.
	Deadline time.Duration `json:"deadline_ns,omitempty"`
	Grace    time.Duration `json:"grace_ns"`
	KillWait time.Duration `json:"kill_wait_ns,omitempty"`
}

// OrderVersion is the version of Order's JSON form.
const OrderVersion = 1

// Begin says which job runs the task.
type Begin struct {
	Job  string    `json:"job"`
	Node string    `json:"node"`
	At   time.Time `json:"at"`
	// GPUs are the ids that programs of the job have to use, NodeGPUs the
	// node's own numbers of them; they differ where Slurm confines devices.
	GPUs     string `json:"gpus,omitempty"`
	NodeGPUs string `json:"node_gpus,omitempty"`
}

// BeatEvery is how often the job shows that it lives, and looks for a Stop.
const BeatEvery = 2 * time.Second

// Stop is the executor's word that the task has to end, and how.
type Stop struct {
	Grace time.Duration `json:"grace_ns"`
}

// End is how the task ended.
type End struct {
	Begin
	Task    executors.TaskID  `json:"task"`
	Outcome executors.Outcome `json:"outcome"`
	// Told says that a TERM came: from the executor, from Slurm (a time limit, a
	// preemption) or by somebody's scancel.
	Told bool `json:"told,omitempty"`
	// LogBytes is the size of the task's log.
	LogBytes int64    `json:"log_bytes"`
	Left     []string `json:"left,omitempty"` // what could not be ended or removed
}

// WriteOrder prepares the folder: the order and the variables. The folder must
// exist. Nothing is written twice: an order that stands is an error.
func WriteOrder(folder string, o Order, env []string) error {
	var text []byte
	for _, e := range env {
		text = append(append(text, e...), 0)
	}
	f, err := os.OpenFile(filepath.Join(folder, envFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("writing the task's environment: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing the task's environment: %w", err)
	}
	return put(filepath.Join(folder, orderFile), o)
}

// DropEnv removes the variables of a task that will not begin any more.
func DropEnv(folder string) error {
	if err := os.Remove(filepath.Join(folder, envFile)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// ReadBegin reads who runs the task. An error that is os.ErrNotExist means that
// it has not begun.
func ReadBegin(folder string) (Begin, error) { return get[Begin](folder, beginFile) }

// ReadEnd reads how the task ended. An error that is os.ErrNotExist means that
// it has not, or that its job was killed.
func ReadEnd(folder string) (End, error) { return get[End](folder, endFile) }

// Beat is the time of the job's last sign of life, by the clock of its node: it
// can be compared with another Beat only. The zero time is none.
func Beat(folder string) time.Time {
	if !seen(folder, beatFile) {
		return time.Time{}
	}
	info, err := os.Stat(filepath.Join(folder, beatFile))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// WriteStop tells the job to end the task.
func WriteStop(folder string, s Stop) error { return put(filepath.Join(folder, stopFile), s) }

// Claim decides that nobody begins the task any more. False: it has begun.
func Claim(folder string) (bool, error) {
	err := os.Mkdir(filepath.Join(folder, begunDir), 0o700)
	if errors.Is(err, os.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

const limit = 1 << 20

func get[T any](folder, name string) (v T, err error) {
	if !seen(folder, name) {
		return v, fmt.Errorf("reading %s: %w", name, os.ErrNotExist)
	}
	path := filepath.Join(folder, name)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return v, fmt.Errorf("reading %s: %w", name, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit))
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		return v, fmt.Errorf("reading %s: %w", path, err)
	}
	return v, nil
}

// seen looks for a name in the listing of the folder: a file that another host
// has made shows there at once, while NFS may remember for half a minute that
// its name was not found.
func seen(folder, name string) bool {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if e.Name() == name {
			return true
		}
	}
	return false
}

// put writes a file that is whole or not there at all.
func put(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}
