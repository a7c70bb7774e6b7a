package work

import (
	"path/filepath"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors"
)

// Leases is what tasks still need that no apply has settled: they may run, or
// wait to be adopted. Their folders, by name, and the objects that their jobs
// read must stay. A task whose jobs cannot be read has nothing to adopt; its
// folder stays all the same.
func Leases(dir string, intents []cache.Intent) (objects map[key.Digest]bool, tasks map[string]bool) {
	objects, tasks = map[key.Digest]bool{}, map[string]bool{}
	for _, in := range intents {
		if in.Kind != intentTask || !executors.TaskID(in.ID).Valid() {
			continue
		}
		tasks[in.ID] = true
		sheet, err := readSheet(filepath.Join(dir, in.ID), executors.TaskID(in.ID))
		if err != nil {
			continue
		}
		for _, j := range sheet.Jobs {
			for _, v := range j.Inputs {
				objects[v.Digest] = true
			}
		}
	}
	return objects, tasks
}
