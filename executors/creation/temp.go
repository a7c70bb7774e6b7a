package creation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/sotabuild/sotabuild/executors/proc"
)

// Temp makes and returns this process's folder below dir, which belongs to us
// alone, and removes the folders of processes that are gone. Drop removes it.
func Temp(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the folder of temporary files: %w", err)
	}
	return within(dir)
}

// within is Temp in a folder that is there.
func within(dir string) (string, error) {
	left, err := Orphans(dir)
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	if err != nil {
		return "", fmt.Errorf("removing temporary files of processes that are gone: %w", err)
	}
	name, err := own()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("making a temporary folder: %w", err)
	}
	return path, nil
}

// Drop removes this process's folder below dir, if there is one.
func Drop(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	name, err := own()
	if err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(dir, name))
}

// Orphans are the folders below dir whose processes are gone. What bears no name
// of Temp's is not among them.
func Orphans(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing temporary files: %w", err)
	}
	var out []string
	for _, e := range entries {
		if alive, ours := owner(e.Name()); e.IsDir() && ours && !alive {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, nil
}

// SystemTemp is Temp for commands that have no store, in the system's folder for
// temporary files. An error may say that our folder there is not ours alone.
func SystemTemp() (path string, err error) {
	dir := systemDir()
	for range 100 { // that another process drops the last one in it each time is no chance
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("making the folder of temporary files: %w", err)
		}
		if path, err = tempOfOurs(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return path, err
}

// tempOfOurs is Temp in a folder that is there and ours alone. It is ErrNotExist
// where another process, which was the last in it, removes it meanwhile.
func tempOfOurs(dir string) (string, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("looking at the folder of temporary files: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(st.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s is not a folder of ours alone, and temporary files need one; remove it, or set TMPDIR to another place", dir)
	}
	return within(dir)
}

// DropSystemTemp removes what SystemTemp made, if it did.
func DropSystemTemp() error {
	dir := systemDir()
	name, err := own()
	if _, missing := os.Lstat(filepath.Join(dir, name)); err != nil || missing != nil {
		return err
	}
	err = os.RemoveAll(filepath.Join(dir, name))
	_ = os.Remove(dir) // it stays while other processes have theirs in it
	return err
}

func systemDir() string { return filepath.Join(os.TempDir(), fmt.Sprintf("sotabuild-%d", os.Getuid())) }

// own is the name of this process's folder.
func own() (string, error) {
	boot, err := proc.BootID()
	if err != nil {
		return "", err
	}
	self, err := proc.Read(os.Getpid())
	if err != nil {
		return "", fmt.Errorf("finding our own process: %w", err)
	}
	return fmt.Sprintf("%d.%d.%s", self.Pid, self.Start, boot), nil
}

// owner reports whether the process of a folder's name lives; ours is false of a
// name that is none of these.
func owner(name string) (alive, ours bool) {
	parts := strings.SplitN(name, ".", 3)
	if len(parts) != 3 {
		return false, false
	}
	pid, err1 := strconv.Atoi(parts[0])
	start, err2 := strconv.ParseUint(parts[1], 10, 64)
	if err1 != nil || err2 != nil || len(parts[2]) != 36 {
		return false, false
	}
	boot, err := proc.BootID()
	if err != nil {
		return true, true // It cannot be told, so it stays.
	}
	return boot == parts[2] && proc.ID{Pid: pid, Start: start}.Alive(), true
}
