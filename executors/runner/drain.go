package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// DrainFile asks a task to end after its running step. It stands in the folder
// of that one task for good: whoever reads the folder later knows by it that
// the steps which never began were left on purpose.
const DrainFile = "drain"

// AskDrain asks the task of a folder to end after its running step. Asking
// again, or asking a task that has ended, is no error.
func AskDrain(dir string) error {
	file, err := os.OpenFile(filepath.Join(dir, DrainFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("asking a task to end after its running step: %w", err)
	}
	return file.Close()
}

// DrainAsked reports whether the task of a folder was asked to end after its
// running step. The folder is listed: a shared file system may remember for
// a while that a file was not there.
func DrainAsked(dir string) (bool, error) {
	at, err := os.Open(dir)
	if err != nil {
		return false, fmt.Errorf("looking for %s: %w", DrainFile, err)
	}
	names, err := at.Readdirnames(-1)
	if err = errors.Join(err, at.Close()); err != nil {
		return false, fmt.Errorf("looking for %s: %w", DrainFile, err)
	}
	for _, name := range names {
		if name == DrainFile {
			return true, nil
		}
	}
	return false, nil
}

// MarkBegun says in a step's folder that the step begins.
func MarkBegun(step string) error {
	err := os.MkdirAll(step, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(step, begunFile), nil, 0o600)
	}
	if err != nil {
		return fmt.Errorf("marking a step as begun: %w", err)
	}
	return nil
}

// UnmarkBegun takes MarkBegun back: the step does not begin after all.
func UnmarkBegun(step string) error { return os.Remove(filepath.Join(step, begunFile)) }

// Begun reports whether a step has begun, by its folder.
func Begun(step string) bool {
	_, err := os.Lstat(filepath.Join(step, begunFile))
	return err == nil
}
