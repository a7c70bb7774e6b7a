package executor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/executors/slurm"
)

const startSlurm = "../../.ci/start-slurm"

// slurm runs batch jobs of the cluster that SLURM_CONF names. All of its tasks
// run on one node, whose GPUs are told apart by their numbers.
var slurmFixture = Fixture{
	Name: "slurm",
	Missing: func() string {
		_, err := slurmNode()
		if err != nil {
			return err.Error()
		}
		return ""
	},
	New: func(tasks string) (executors.Executor, error) {
		node, err := slurmNode()
		if err != nil {
			return nil, err
		}
		return newSlurm(tasks, map[string]string{"nodelist": node})
	},
	Adds:   []string{runner.EnvLifeline},
	GPUEnv: "SLURM_JOB_GPUS",
	Cannot: map[string]string{
		"MountReadOnly": "mounts nothing: a task sees the node's files as they are",
		"ShmSize":       "has the node's /dev/shm; a task that needs more does not start",
	},
	Restart: func(t *testing.T, tasks string) (executors.Executor, func()) {
		c := ownCluster(t)
		e, err := newSlurm(tasks, map[string]string{"conf": c.conf})
		if err != nil {
			t.Fatal(err)
		}
		return e, func() {
			// What it knows of the last seconds before a kill it has forgotten: it
			// is killed after it has written down that the job runs, which another
			// job makes it do.
			began := time.Now()
			other := exec.Command("sbatch", "--hold", "--output=/dev/null")
			other.Env, other.Stdin = append(os.Environ(), "SLURM_CONF="+c.conf), strings.NewReader("#!/bin/sh\n")
			if out, err := other.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			c.until(t, "that the job is on the disk", func() bool {
				info, err := os.Stat(filepath.Join(c.dir, "state", "job_state"))
				return err == nil && info.ModTime().After(began)
			})
			c.killController(t)
			c.run(t, "start")
		}
	},
	// A job of the same user whose name begins as ours do.
	Stranger: func(t *testing.T) func() bool {
		cmd := exec.Command("sbatch", "--parsable", "--output=/dev/null", "--job-name=sotabuild-suite-0123-not-ours")
		cmd.Stdin = strings.NewReader("#!/bin/sh\nsleep 600\n")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		id := strings.TrimSpace(string(out))
		t.Cleanup(func() {
			if err := exec.Command("scancel", id).Run(); err != nil {
				t.Error(err)
			}
		})
		return func() bool { return len(slurmJobs(t, id)) > 0 }
	},
	// The job's record comes a moment before the job's end.
	Left: func(t *testing.T, id executors.TaskID) (left []string) {
		for late := time.Now().Add(20 * time.Second); time.Now().Before(late); time.Sleep(100 * time.Millisecond) {
			if left = slurmJobs(t, "sotabuild-"+string(id)+"-"); len(left) == 0 {
				break
			}
		}
		return left
	},
}

func newSlurm(tasks string, options map[string]string) (executors.Executor, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return slurm.New(slurm.Config{Self: self, Options: options, Roots: []string{tasks}, FileGrace: time.Second, LostGrace: 20 * time.Second})
}

// slurmNode is the name of the first node.
func slurmNode() (string, error) {
	if os.Getenv("SLURM_CONF") == "" {
		return "", fmt.Errorf("SLURM_CONF is not set; eval \"$(.ci/start-slurm)\" starts a cluster")
	}
	out, err := exec.Command("sinfo", "--noheader", "--Node", "--format=%N").Output()
	if err != nil {
		return "", fmt.Errorf("no Slurm answers: %w", err)
	}
	return strings.Fields(string(out))[0], nil
}

// slurmJobs are the jobs that have not ended whose line, id and name, begins
// with a text or has a name that does.
func slurmJobs(t *testing.T, prefix string) (found []string) {
	t.Helper()
	out, err := exec.Command("squeue", "--noheader", "--format=%i %j").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if id, name, _ := strings.Cut(line, " "); id == prefix || strings.HasPrefix(name, prefix) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// cluster is a Slurm of one test, whose daemons it may kill.
type cluster struct{ dir, conf string }

const ownPort = "16917"

func ownCluster(t *testing.T) cluster {
	t.Helper()
	// A socket's path has to be short.
	dir, err := os.MkdirTemp("", "slurm-")
	if err != nil {
		t.Fatal(err)
	}
	c := cluster{dir, filepath.Join(dir, "etc", "slurm.conf")}
	t.Cleanup(func() {
		c.run(t, "stop")
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	c.run(t, "start")
	return c
}

func (c cluster) run(t *testing.T, word string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, startSlurm, word)
	cmd.Env = append(os.Environ(), "SLURM_TEST_DIR="+c.dir, "SLURM_TEST_PORT="+ownPort, "SLURM_TEST_NODE=own")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", startSlurm, word, err, out)
	}
}

// killController is kill -9 of slurmctld.
func (c cluster) killController(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "run", "slurmctld.pid"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if n, _ := fmt.Sscan(string(text), &pid); n != 1 || pid < 2 {
		t.Fatalf("slurmctld's pid is %q", text)
	}
	controller, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := controller.Kill(); err != nil {
		t.Fatal(err)
	}
	c.until(t, "its end", func() bool { _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); return err != nil })
}

func (c cluster) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	(&bench{t: t}).until(what, ok)
}

func TestSlurm(t *testing.T) { Run(t, slurmFixture) }
