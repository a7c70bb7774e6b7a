package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// unfinished stands between the name of an output and a random end in the name of
// a file that becomes that output.
const unfinished = ".sotabuild-"

// begin makes the file that is written beside an output and then takes its name.
// It is locked while it is open, so that the next build of that output can tell
// it from what a killed one left, which begin removes. Where the file system has
// no locks nothing is removed.
func begin(output string) (*os.File, error) {
	dir, prefix := filepath.Dir(output), "."+filepath.Base(output)+unfinished
	if err := removeDead(dir, prefix); err != nil {
		return nil, fmt.Errorf("removing what a killed build left: %w", err)
	}
	for {
		f, err := os.CreateTemp(dir, prefix+"*")
		if err != nil {
			return nil, err
		}
		// Another build's clean-up may hold the lock before us, for as long as it
		// takes to remove the file.
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil || stillThere(f) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// stillThere reports whether a file has the name by which it was opened.
func stillThere(f *os.File) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(mine, named)
}

// removeDead removes the files with this prefix that no living process writes.
func removeDead(dir, prefix string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // whether a file can be made there is seen when it is made
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasPrefix(e.Name(), prefix) {
			errs = append(errs, removeIfDead(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

func removeIfDead(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // it has ended well meanwhile, or is another user's
	}
	if err != nil {
		return err
	}
	defer f.Close() // only read
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !stillThere(f) {
		return nil // its writer lives, or has renamed it
	}
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // in a folder for all only its owner may
	}
	return err
}
