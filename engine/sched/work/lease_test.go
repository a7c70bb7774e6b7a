package work

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
)

// An unsettled task leases its folder and what its jobs read; a folder without
// jobs is leased all the same, and no path out of the folder is followed.
func TestLeases(t *testing.T) {
	dir := t.TempDir()
	in := key.Sum([]byte("prompts"))
	b, err := json.Marshal(Sheet{Version: SheetVersion, Task: "t-1", Jobs: []Item{{Inputs: []compile.InputValue{{Name: "prompts", Digest: in}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "t-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "t-1", "jobs.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	objects, tasks := Leases(dir, []cache.Intent{
		{ID: "t-1", Kind: intentTask}, {ID: "t-2", Kind: intentTask}, {ID: "../t-3", Kind: intentTask}, {ID: "t-4", Kind: "image"},
	})
	if len(objects) != 1 || !objects[in] {
		t.Errorf("objects %v, want the prompts alone", objects)
	}
	if len(tasks) != 2 || !tasks["t-1"] || !tasks["t-2"] {
		t.Errorf("tasks %v, want t-1 and t-2", tasks)
	}
}
