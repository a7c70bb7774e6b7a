// Package durable makes folders and files that survive a power failure: what
// it made is either whole or not there, and is on the disk when it returns. It
// knows paths and bytes only and holds no state.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Folder makes a private folder and its missing parents. One that is there is
// left as it is; anything else that is there is an error.
func Folder(path string) error {
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := Folder(parent); err != nil {
			return err
		}
	}
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		// Another process has made it meanwhile, or it is no folder.
		if fi, now := os.Stat(path); now != nil || !fi.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: path, Err: unix.ENOTDIR}
		}
	} else if err != nil {
		return err
	}
	return Sync(parent)
}

// Sync writes a folder's list of names to the disk.
func Sync(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// File makes or replaces a private file by rename. The new bytes are made in
// tmp, a folder of the same file system.
func (d Disk) File(path, tmp string, b []byte) error {
	f, err := os.CreateTemp(tmp, "new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync()); err == nil {
		err = d.Place(f, path)
	}
	placed := err == nil
	if err = errors.Join(err, f.Close()); !placed {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return errors.Join(err, Sync(filepath.Dir(path)))
}

// New makes a private file that is not there yet; one that is stays as it is,
// and that is no error. It appears whole or not at all.
func New(path string, b []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		if err = os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err = errors.Join(err, os.Remove(f.Name())); err != nil {
		return err
	}
	return Sync(dir)
}
