package runner

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/sotabuild/sotabuild/executors/proc"
)

// Tree names what lived below the runner when it was last looked at, and the
// control group that holds all of it, where there is one. With it an executor
// ends what a killed runner left behind, also processes that have overwritten
// their environment.
type Tree struct {
	Boot      string    `json:"boot"` // the ids mean nothing in another boot
	Cgroup    string    `json:"cgroup,omitempty"`
	Processes []proc.ID `json:"processes"`
	// Shm is proc.Shm.Held.
	Shm map[string]uint64 `json:"shm,omitempty"`
}

const treeFile = "tree.json"

// ReadTree reads tree.json from a task's folder. An error that is
// os.ErrNotExist means that the runner had started nothing.
func ReadTree(dir string) (Tree, error) {
	var t Tree
	err := readJSON(filepath.Join(dir, treeFile), &t)
	return t, err
}

// WriteTree writes tree.json by rename. It does not wait for the disk: the file is of use in this boot only.
func WriteTree(dir string, tree Tree) error {
	text, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, treeFile)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
