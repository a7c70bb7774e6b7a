// Package ledger keeps what an executor knows of a task, as one JSON file in
// the task's folder. A file is changed under a lock that ends with its process,
// and replaced by rename, so that two engines that start one task at once do it
// one after the other, and a crash leaves the old or the new content.
//
// What must outlive a power cut is on the disk when Write or Update return. Tasks
// that end with the machine need less: Note and Change leave the writing to the
// system, and after a power cut their file may be empty, which reads as if there
// were none.
//
// It does not know what is written down.
package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Read returns what the file says; the zero value where there is no file.
func Read[T any](path string) (T, error) {
	var v T
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(text) == 0 {
		return v, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		var zero T
		return zero, fmt.Errorf("reading the task's state in %s: %w", path, err)
	}
	return v, nil
}

// Write replaces the file. When it returns nil the content is on the disk. It
// takes no lock: Update's change calls it for what must be durable before the
// change goes on.
func Write[T any](path string, v T) error {
	if err := put(path, v, (*os.File).Sync, os.Rename); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("writing the task's state: %w", err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Note is Write for what need not outlive a power cut.
func Note[T any](path string, v T) error {
	return put(path, v, func(*os.File) error { return nil }, swap)
}

// swap is os.Rename onto a file by exchanging the two. A rename that replaces a
// file makes ext4 write out the new one at once, which is what Note leaves to the
// system.
func swap(from, to string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE); err != nil {
		return os.Rename(from, to) // there is none yet, or the file system knows no exchange
	}
	return os.Remove(from)
}

func put[T any](path string, v T, sync func(*os.File) error, rename func(from, to string) error) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding the task's state: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".task-*")
	if err != nil {
		return fmt.Errorf("writing the task's state: %w", err)
	}
	_, err = file.Write(text)
	err = errors.Join(err, sync(file), file.Close())
	if err == nil {
		err = rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing the task's state: %w", err), os.Remove(file.Name()))
	}
	return nil
}

// Update reads the file, lets change it, and writes it, under the lock beside
// it, which it waits for until ctx is done. The folder is made where it is
// missing. An error of change is returned as it is, and nothing is written.
func Update[T any](ctx context.Context, path string, change func(*T) error) error {
	return update(ctx, path, change, Write)
}

// Change is Update for what need not outlive a power cut.
func Change[T any](ctx context.Context, path string, change func(*T) error) error {
	return update(ctx, path, change, Note)
}

func update[T any](ctx context.Context, path string, change func(*T) error, write func(string, T) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making the task's state: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(filepath.Dir(path), "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("locking the task's state: %w", err)
	}
	defer lock.Close()
	for {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return fmt.Errorf("locking the task's state: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("locking the task's state: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	v, err := Read[T](path)
	if err != nil {
		return err
	}
	if err := change(&v); err != nil {
		return err
	}
	return write(path, v)
}
