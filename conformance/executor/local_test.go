package executor

import (
	"os"
	"os/exec"
	"testing"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/local"
)

// local runs process trees on this host.
var localFixture = Fixture{
	Name:    "local",
	Missing: func() string { return "" },
	New: func(tasks string) (executors.Executor, error) {
		self, err := os.Executable()
		return local.New(self, tasks), err
	},
	Lifeline: true,
	Left:     groupsOf,
	Adds:     []string{executors.EnvTask, "SOTABUILD_LIFELINE"},
	Cannot: map[string]string{
		"OutOfMemory":       "sets no limits; a task's supervisor sees the kernel's kills",
		"OutOfMemoryInside": "sets no limits; a task's supervisor sees the kernel's kills",
		"MountReadOnly":     "mounts nothing: a task sees the host's files as they are",
		"Ulimits":           "sets no limits; a task that needs more than the host gives is refused",
		"ShmSize":           "has the host's /dev/shm; a task that needs more is refused",
		"DaemonRestart":     "there is no daemon",
	},
	// A process that looks like a task: the same program and words.
	Stranger: func(t *testing.T) func() bool {
		cmd := exec.Command(actor, "mark-stranger", "sleep", "1h")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		return func() bool { return len(living("mark-stranger")) > 0 }
	},
}

func TestLocal(t *testing.T) { Run(t, localFixture) }
