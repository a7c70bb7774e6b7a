package show

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/stdlib/report"
)

// TestHostBeforeAndAfter: each life is on the page once, and what it left, what
// had to be removed and what a GPU holds otherwise stands there; more processes
// alone are no difference (R079).
func TestHostBeforeAndAfter(t *testing.T) {
	tasks := t.TempDir()
	exit := func(id executors.TaskID, r runner.ExitRecord) {
		t.Helper()
		r.Task = id
		dir := filepath.Join(tasks, string(id))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := runner.WriteExit(dir, r); err != nil {
			t.Fatal(err)
		}
	}
	busy, other := runner.HostState{Processes: 90, GPUs: []string{"0, 70 MiB"}}, runner.HostState{Processes: 95, GPUs: []string{"0, 70 MiB"}}
	exit("clean", runner.ExitRecord{Before: busy, After: other})
	exit("long", runner.ExitRecord{Before: busy, After: busy, Processes: []runner.ProcessRecord{{Name: "server.0", LogMissing: 77}, {Name: "router.0"}}})
	exit("dirty", runner.ExitRecord{Before: busy, After: runner.HostState{Processes: 91, GPUs: []string{"0, 90 MiB"}}, Removed: []string{"/dev/shm/x"}, Left: []string{"process 7 (sleep)"}})
	store, err := cache.OpenLocal(filepath.Join(t.TempDir(), "store"), cache.Options{Command: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var cells []report.Cell
	for _, task := range []string{"dirty", "clean", "dirty", "gone", "long"} {
		d, size, err := store.Object(strings.NewReader(task + strconv.Itoa(len(cells))))
		if err != nil {
			t.Fatal(err)
		}
		cells = append(cells, report.Cell{Digest: d})
		_, err = store.Put(t.Context(), cache.Record{Key: key.Key(d), Node: "bench." + task, Kind: "bench", Outcome: cache.Outcome{State: cache.OK},
			Outputs: []cache.Output{{Name: "row", Digest: d, Size: size}}, Origin: cache.Origin{Task: task}})
		if err != nil {
			t.Fatal(err)
		}
	}
	j := joiner{r: store}
	lives, err := j.lives(report.View{Scenarios: []report.Scenario{{Cells: cells}}}, tasks)
	if err != nil {
		t.Fatal(err)
	}
	text := string(stateText(lives))
	for _, want := range []string{
		"2 of 4 lives left the host otherwise",
		"| `long` | 90 | 90 | of the log of server.0 77 bytes are left out |\n",
		"| `clean` | 90 | 95 | none |\n| `dirty` | 90 | 91 | left behind: process 7 (sleep); removed by the supervisor: /dev/shm/x; on a GPU before and not after: 0, 70 MiB; on a GPU after and not before: 0, 90 MiB |\n| `gone` | 0 | 0 | no snapshots: ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if text := string(stateText(lives[:1])); !strings.Contains(text, "1 life. None left") {
		t.Errorf("%s", text)
	}
}
