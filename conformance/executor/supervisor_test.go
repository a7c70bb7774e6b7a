package executor

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/docker"
	"github.com/sotabuild/sotabuild/executors/docker/daemon"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// TestSupervisorInContainer runs the real supervisor in a container that is
// empty but for it: a task without a command of its own. The second step is
// stopped; the first one's record and the last word are there all the same.
func TestSupervisorInContainer(t *testing.T) {
	if why := dockerMissing(); why != "" {
		Run(t, dockerFixture) // fails or skips with that
		return
	}
	self := filepath.Join(t.TempDir(), "sotabuild")
	build := exec.Command("go", "build", "-trimpath", "-o", self, "../../cmd/sotabuild")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building sotabuild: %v\n%s", err, out)
	}
	for _, files := range []docker.Files{docker.Shared, docker.Copied} {
		t.Run(string(files), func(t *testing.T) {
			f := dockerFixture
			f.Image, f.New = scratch(t), dockerNew(daemon.Options{Self: self}, docker.Options{Network: "none", Files: files})
			b := &bench{Fixture: f, t: t, tasks: t.TempDir()}
			j := b.job()
			j.Process.Args = nil
			j.Resources.NetHost = files == docker.Copied // the supervisor's loopback is the host's then
			spec := runner.Spec{
				Version: runner.SpecVersion, Task: j.ID, Endpoint: runner.Endpoint{URL: "http://127.0.0.1:1"},
				Steps: []runner.Step{
					{ID: "first", Argv: []string{actor, j.mark, "report", "{step}/report.json"}, Env: []string{"A=1"}, Deadline: time.Minute, Outputs: []string{"report.json"}},
					{ID: "second", Argv: []string{actor, j.mark, "deaf"}, Deadline: time.Minute},
				},
			}
			b.must(runner.WriteSpec(j.Dir, spec))
			e := b.fresh()
			h := b.start(e, j)
			b.until("the second step", func() bool { return len(living(j.mark)) >= 2 })
			b.must(e.Stop(b.bg(), h, 30*time.Second))
			if o := b.wait(e, h); o.Reason != executors.Stopped {
				t.Errorf("outcome %+v", o)
			}
			if r, err := runner.ReadStep(filepath.Join(j.Dir, "steps", "first")); err != nil || r.Outcome.Class != "" || r.Exit == nil || *r.Exit != 0 {
				t.Errorf("the first step: %+v, %v", r, err)
			}
			if x, err := runner.ReadExit(j.Dir); err != nil || x.Outcome.Class != executors.ClassInterrupted || len(x.Left) > 0 {
				t.Errorf("the last word: %+v, %v", x, err)
			}
		})
	}
}
