package main

import (
	"os"
	"path/filepath"

	"github.com/sotabuild/sotabuild/executors/runner"
)

// serving reports whether a task starts a server, by the spec in its folder. One
// that cannot be read is not said to.
func serving(dir string) bool {
	s, err := runner.ReadSpec(filepath.Join(dir, runner.SpecFile))
	return err == nil && len(s.Processes) > 0
}

// phase says what a task with a server does, by its folder: "" where nothing of it
// is there, as with a task on a host that shares no files. first is whether the
// node is the next of the task's to end, since it measures one after the other.
func phase(dir string, first bool) string {
	if _, err := os.Stat(filepath.Join(dir, "logs", "runner.log")); err != nil {
		return ""
	}
	switch _, err := runner.ReadUp(dir); {
	case err != nil:
		return "server is starting"
	case first:
		return "measuring"
	}
	return "in line"
}
