package durable

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Disk is where a file system over a network fails in ways of its own: in
// giving a file its name, and in showing it to others. The zero Disk is the
// operating system's; a test puts faults in.
type Disk struct {
	Rename func(from, to string) error // nil: os.Rename
	// See is asked before a file is looked for by its path; an error stands for
	// what the look would have given. nil: nothing is hidden.
	See func(path string) error
}

// staleTries is how often a rename is begun that failed because the server had
// forgotten a folder's handle: the next look-up gets a new one.
const staleTries = 3

// Place gives a file, whose bytes are f's, the name to. A rename that was done
// although it said an error is no error: a server that is asked twice, because
// its first answer was lost, says that the file is gone.
func (d Disk) Place(f *os.File, to string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	rename := d.Rename
	if rename == nil {
		rename = os.Rename
	}
	for try := 1; ; try++ {
		if err = rename(f.Name(), to); err == nil {
			return nil
		}
		if now, e := os.Lstat(to); e == nil && os.SameFile(info, now) {
			return nil
		}
		if try == staleTries || !errors.Is(err, unix.ESTALE) {
			return err
		}
	}
}

// Look asks for a file's properties, without following a link. A file that is
// not there is looked for once more after its folder was opened, which makes a
// client of a network file system ask the server: another host may have made it
// a moment ago.
func (d Disk) Look(path string, st *unix.Stat_t) error {
	err := d.lstat(path, st)
	if err != unix.ENOENT && err != unix.ESTALE {
		return err
	}
	folder, e := os.Open(filepath.Dir(path))
	if e != nil {
		return err
	}
	_ = folder.Close() // only read
	return d.lstat(path, st)
}

func (d Disk) lstat(path string, st *unix.Stat_t) error {
	if d.See != nil {
		if err := d.See(path); err != nil {
			return err
		}
	}
	err := unix.Lstat(path, st)
	for err == unix.EINTR {
		err = unix.Lstat(path, st)
	}
	return err
}
