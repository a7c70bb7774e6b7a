package executor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/executors/slurm"
)

// TestSlurmTakesThePlaceBack: a real cluster preempts tasks and loses nodes
// under them. What had finished stays finished, nothing runs a second time, and
// the outcome says that the task is not to blame.
func TestSlurmTakesThePlaceBack(t *testing.T) {
	t.Parallel()
	if slurmFixture.Missing() != "" {
		return // TestSlurm says it
	}
	c := newCluster(t, "taken", "16937", "auto")
	// One node's tests follow one another: its own daemon dies in the last.
	t.Run("OneNode", func(t *testing.T) {
		t.Parallel()
		for _, partition := range []string{"spare", "cheap"} { // put back in the queue, cancelled
			t.Run("Preempted/"+partition, func(t *testing.T) {
				r := c.raid(t, "taken1", partition)
				r.two("sleep", "10m")
				h := r.begin()
				slurmSays(t, c.conf, "#!/bin/sh\n", "sbatch", "--wait", "--exclusive", "--partition=urgent", "--nodelist="+r.node, "--output=/dev/null")
				r.outcome(h, executors.Preempted, "higher priority")
				r.brokenOff()
			})
		}
		t.Run("NodeDown", func(t *testing.T) { // its daemon is there, and ends the job
			r := c.raid(t, "taken1", "gpu")
			r.two("sleep", "10m")
			h := r.begin()
			c.down(t, r.node)
			r.outcome(h, executors.Preempted, "NODE_FAIL")
			r.brokenOff()
			c.backUp(t, r.node)
		})
		t.Run("NodeCutOff", func(t *testing.T) { // Slurm gave the job up, and it goes on
			r := c.raid(t, "taken1", "gpu")
			r.two("tick", "1", "1s", "0", "{out}/go")
			h := r.begin()
			c.kill(t, r.node)
			c.down(t, r.node)
			r.until("Slurm's word that the node is lost", func() bool { return strings.Contains(r.state(h), "JobState=NODE_FAIL") })
			r.must(os.WriteFile(filepath.Join(r.j.Dir, "go"), nil, 0o600))
			r.outcome(h, executors.Exited, "")
			if s, err := runner.ReadStep(filepath.Join(r.j.Dir, "steps", "second")); err != nil || s.Outcome.Class != "" {
				t.Errorf("the step that ended on a lost node: %+v, %v", s, err)
			}
			r.once()
		})
	})
	t.Run("NodeLost", func(t *testing.T) { // seen by Slurm itself, after its SlurmdTimeout
		t.Parallel()
		r := c.raid(t, "taken2", "gpu")
		r.two("sleep", "10m")
		h := r.begin()
		c.kill(t, r.node)
		r.everything(h)
		r.outcome(h, executors.Lost, "node taken2 is lost")
		r.brokenOff()
	})
}

// raid is one task on a node that will be taken away.
type raid struct {
	*bench
	c    cluster
	e    executors.Executor
	j    job
	node string
}

func (c cluster) raid(t *testing.T, node, partition string) raid {
	b := &bench{Fixture: slurmFixture, t: t, tasks: filepath.Join(t.TempDir(), "tasks")}
	b.must(os.Mkdir(b.tasks, 0o700))
	t.Cleanup(func() { c.explain(t, b.tasks) })
	b.Left = nil // its jobs are those of another cluster
	b.New = func(tasks string) (executors.Executor, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return slurm.New(slurm.Config{Self: self, Roots: []string{tasks}, FileGrace: time.Second, LostGrace: 6 * time.Second,
			Options: map[string]string{"conf": c.conf, "partition": partition, "nodelist": node, "poll": "2s"}})
	}
	return raid{bench: b, c: c, e: b.fresh(), node: node}
}

// two makes a supervised task of two steps: the first notes that it ran, the
// second is the actor with these words.
func (r *raid) two(words ...string) {
	r.j = r.job()
	r.j.Process.Args = nil
	step := func(id string, words ...string) runner.Step {
		return runner.Step{ID: id, Argv: append([]string{actor, r.j.mark}, words...), Deadline: 15 * time.Minute}
	}
	r.must(runner.WriteSpec(r.j.Dir, runner.Spec{
		Version: runner.SpecVersion, Task: r.j.ID, Endpoint: runner.Endpoint{URL: "http://127.0.0.1:1"},
		Steps: []runner.Step{step("first", "count", "{out}/count"), step("second", words...)},
	}))
}

// begin starts the task and waits until its second step runs.
func (r *raid) begin() executors.Handle {
	h := r.start(r.e, r.j)
	r.until("the second step", func() bool {
		text, err := os.ReadFile(filepath.Join(r.j.Dir, "logs", "second.log"))
		return err == nil && strings.Contains(string(text), "ready")
	})
	return h
}

func (r *raid) outcome(h executors.Handle, want executors.Reason, says string) {
	r.t.Helper()
	o := r.wait(r.e, h)
	if o.Reason != want || !strings.Contains(o.Detail, says) {
		r.t.Errorf("outcome %+v, want %s and %q", o, want, says)
	}
	// Another engine hears the same.
	if again := r.wait(r.fresh(), h); again.Reason != o.Reason || again.Detail != o.Detail {
		r.t.Errorf("outcome %+v, and to another engine %+v", o, again)
	}
}

// brokenOff says that the first step's result is there and the second has none.
func (r *raid) brokenOff() {
	r.t.Helper()
	if s, err := runner.ReadStep(filepath.Join(r.j.Dir, "steps", "first")); err != nil || s.Outcome.Class != "" || s.Exit == nil || *s.Exit != 0 {
		r.t.Errorf("the finished step: %+v, %v", s, err)
	}
	if _, err := runner.ReadStep(filepath.Join(r.j.Dir, "steps", "second")); !errors.Is(err, os.ErrNotExist) {
		r.t.Errorf("the step that was broken off has a record: %v", err)
	}
	if left := living(r.j.mark); len(left) > 0 {
		r.t.Errorf("still running: %v", left)
	}
	r.once()
}

// once starts the task again, which is the same start, and counts its runs.
func (r *raid) once() {
	r.t.Helper()
	r.start(r.fresh(), r.j)
	if text := r.read(r.j, "count"); text != "ran\n" {
		r.t.Errorf("the first step ran %d times", strings.Count(text, "\n"))
	}
}

// state is what Slurm says of the handle's job.
func (r *raid) state(h executors.Handle) string {
	id, _, _ := strings.Cut(h.Ref, ":")
	return slurmSays(r.t, r.c.conf, "", "scontrol", "--oneliner", "show", "job", id)
}

// everything kills what runs of a job, as a node that loses its power does: the
// task's processes, and Slurm's own, whose children they are.
func (r *raid) everything(h executors.Handle) {
	id, _, _ := strings.Cut(h.Ref, ":")
	for _, kill := range []func() []string{
		func() []string { return stepDaemons(id, r.c.dir) },
		func() []string { return commandsWith(r.j.Dir) },
		func() []string { return living(r.j.mark) },
	} {
		r.until("the end of what runs of job "+id, func() bool {
			left := kill()
			for _, line := range left {
				var pid int
				if _, err := fmt.Sscan(line, &pid); err == nil && pid > 1 {
					syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			return len(left) == 0
		})
	}
}

// stepDaemons are Slurm's processes for the steps of a job of the cluster whose
// files are below dir.
func stepDaemons(id, dir string) (found []string) {
	for _, line := range commandsWith("slurmstepd: [" + id + ".") {
		pid, _, _ := strings.Cut(line, " ")
		if log, err := os.Readlink("/proc/" + pid + "/cwd"); err == nil && strings.HasPrefix(log, dir) {
			found = append(found, line)
		}
	}
	return found
}

// commandsWith are the processes whose command line holds a text, by pid.
func commandsWith(text string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		b, err := os.ReadFile(path)
		if line := strings.ReplaceAll(string(b), "\x00", " "); err == nil && strings.Contains(line, text) {
			found = append(found, strings.Split(path, "/")[2]+" "+line)
		}
	}
	return found
}

// down tells the controller that a node is lost; backUp, that it is back.
func (c cluster) down(t *testing.T, node string) {
	slurmSays(t, c.conf, "", "scontrol", "update", "NodeName="+node, "State=DOWN", "Reason=test")
}

func (c cluster) backUp(t *testing.T, node string) {
	(&bench{t: t}).until(node+" back", func() bool {
		// It comes back by itself when its daemon is heard; then this is an error.
		_ = slurmCommand(c.conf, "scontrol", "update", "NodeName="+node, "State=RESUME").Run()
		return slurmSays(t, c.conf, "", "sinfo", "--noheader", "--node", "--partition=gpu", "--nodes="+node, "--format=%T") == "idle"
	})
}

// kill is kill -9 of a node's daemon.
func (c cluster) kill(t *testing.T, node string) {
	c.killDaemon(t, "slurmd-"+node)
}
