package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/executors/slurm"
)

const startSlurm = "../../.ci/start-slurm"

// slurmFixture runs batch jobs of the cluster that SLURM_CONF names, all on one
// node, whose GPUs are told apart by their numbers.
var slurmFixture = Fixture{
	Name: "slurm",
	Missing: func() string {
		if _, err := slurmNode(); err != nil {
			return err.Error()
		}
		return ""
	},
	New: func(tasks string) (executors.Executor, error) {
		node, err := slurmNode()
		if err != nil {
			return nil, err
		}
		return newSlurm(tasks, "", map[string]string{"nodelist": node})
	},
	Adds:   []string{runner.EnvLifeline},
	GPUEnv: "SLURM_JOB_GPUS",
	Cannot: map[string]string{
		"MountReadOnly": "mounts nothing: a task sees the node's files as they are",
		"ShmSize":       "has the node's /dev/shm; a task that needs more does not start",
	},
	Restart: restartController,
	// A job of the same user whose name begins as ours do.
	Stranger: func(t *testing.T) func() bool {
		id := slurmSays(t, "", "#!/bin/sh\nsleep 600\n", "sbatch", "--parsable", "--output=/dev/null", "--job-name=sotabuild-suite-0123-not-ours")
		t.Cleanup(func() { slurmSays(t, "", "", "scancel", id) })
		return func() bool { return len(slurmJobs(t, id)) > 0 }
	},
	// The job's record comes a moment before the job's end.
	Left: func(t *testing.T, id executors.TaskID) (left []string) {
		for late := time.Now().Add(patience); time.Now().Before(late); time.Sleep(100 * time.Millisecond) {
			if left = slurmJobs(t, "sotabuild-"+string(id)+"-"); len(left) == 0 {
				break
			}
		}
		return left
	},
}

func TestSlurm(t *testing.T) {
	f := slurmFixture
	if why := f.Missing(); why == "" && !confinesMemory(t) {
		f.Cannot = maps.Clone(f.Cannot)
		f.Cannot["OutOfMemory"] = "this cluster confines no memory"
		f.Cannot["OutOfMemoryInside"] = f.Cannot["OutOfMemory"]
	}
	Run(t, f)
}

// TestSlurmWithoutControlGroups: where Slurm does not end what left its parent,
// the job does.
func TestSlurmWithoutControlGroups(t *testing.T) {
	if slurmFixture.Missing() != "" {
		return // TestSlurm says it
	}
	cluster := newCluster(t, "bare", "16927", "no")
	t.Setenv("SLURM_CONF", cluster.conf) // also for the engines in other processes
	f := slurmFixture
	for _, c := range cases {
		if !slices.Contains([]string{"Deadline", "DeadlineUnseen", "StopHard", "StaleReaped"}, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			b := &bench{Fixture: f, t: t, tasks: filepath.Join(t.TempDir(), "tasks")}
			b.must(os.Mkdir(b.tasks, 0o700))
			t.Cleanup(func() { cluster.explain(t, b.tasks) })
			c.run(b)
		})
	}
}

func newSlurm(tasks, conf string, options map[string]string) (executors.Executor, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if conf != "" {
		options["conf"] = conf
	}
	return slurm.New(slurm.Config{Self: self, Options: options, Roots: []string{tasks}, FileGrace: time.Second, LostGrace: 20 * time.Second})
}

// slurmCommand is one of Slurm's programs, for a cluster.
func slurmCommand(conf, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	if conf != "" {
		cmd.Env = append(os.Environ(), "SLURM_CONF="+conf)
	}
	return cmd
}

func slurmSays(t *testing.T, conf, stdin, name string, args ...string) string {
	t.Helper()
	cmd := slurmCommand(conf, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	return strings.TrimSpace(string(out))
}

// slurmNode is the name of the first node.
func slurmNode() (string, error) {
	if os.Getenv("SLURM_CONF") == "" {
		return "", errors.New("SLURM_CONF is not set; eval \"$(.ci/start-slurm)\" starts a cluster")
	}
	out, err := slurmCommand("", "sinfo", "--noheader", "--Node", "--format=%N").Output()
	if err != nil {
		return "", fmt.Errorf("no Slurm answers: %w", err)
	}
	return strings.Fields(string(out))[0], nil
}

func confinesMemory(t *testing.T) bool {
	t.Helper()
	return strings.Contains(slurmSays(t, "", "", "scontrol", "show", "config"), "task/cgroup")
}

// slurmJobs are the jobs that have not ended and have this id, or a name that
// begins so.
func slurmJobs(t *testing.T, text string) (found []string) {
	t.Helper()
	for line := range strings.Lines(slurmSays(t, "", "", "squeue", "--noheader", "--format=%i %j")) {
		if id, name, _ := strings.Cut(line, " "); id == text || strings.HasPrefix(name, text) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// restartController runs a task on a cluster whose controller it kills.
func restartController(t *testing.T, tasks string) (executors.Executor, func()) {
	c := newCluster(t, "own", "16917", "auto")
	e, err := newSlurm(tasks, c.conf, map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	return e, func() {
		// What it knows of the last seconds before a kill it has forgotten: it is
		// killed after it has written down that the job runs, which another job
		// makes it do.
		began := time.Now()
		slurmSays(t, c.conf, "#!/bin/sh\n", "sbatch", "--hold", "--output=/dev/null")
		(&bench{t: t}).until("the job's state on the disk", func() bool {
			info, err := os.Stat(filepath.Join(c.dir, "state", "job_state"))
			return err == nil && info.ModTime().After(began)
		})
		c.killController(t)
		c.run(t, "start")
	}
}

// cluster is a Slurm of one test, whose daemons it may kill.
type cluster struct {
	dir, conf string
	env       []string
}

func newCluster(t *testing.T, node, port, cgroup string) cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "slurm-") // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	c := cluster{dir, filepath.Join(dir, "etc", "slurm.conf"), append(os.Environ(),
		"SLURM_TEST_DIR="+dir, "SLURM_TEST_PORT="+port, "SLURM_TEST_NODE="+node, "SLURM_TEST_CGROUP="+cgroup)}
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
	cmd.Env = c.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", startSlurm, word, err, out)
	}
}

// explain logs what is known of the tasks of a test that failed.
func (c cluster) explain(t *testing.T, tasks string) {
	if !t.Failed() {
		return
	}
	files, _ := filepath.Glob(filepath.Join(tasks, "*", ".slurm", "*"))
	logs, _ := filepath.Glob(filepath.Join(c.dir, "log", "slurm*.log"))
	for _, path := range append(files, logs...) {
		if text, err := os.ReadFile(path); err == nil {
			t.Logf("%s: %s", path, text[max(0, len(text)-3000):])
		}
	}
}

// killController is kill -9 of slurmctld.
func (c cluster) killController(t *testing.T) {
	t.Helper()
	c.killDaemon(t, "slurmctld")
}

// killDaemon is kill -9 of the daemon whose pid file has this name.
func (c cluster) killDaemon(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "run", name+".pid"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if n, _ := fmt.Sscan(string(text), &pid); n != 1 || pid < 2 {
		t.Fatalf("the pid of %s is %q", name, text)
	}
	daemon, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Kill(); err != nil {
		t.Fatal(err)
	}
	(&bench{t: t}).until("the end of "+name, func() bool { _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); return err != nil })
}
