package conformance

import (
	"errors"
	"syscall"
	"testing"
)

// mountSmall mounts a file system in memory at dir, or remounts it with other
// options. Where mounting is forbidden the test is skipped loudly.
func mountSmall(t *testing.T, dir, options string) {
	t.Helper()
	var flags uintptr
	if options[:7] == "remount" {
		flags, options = syscall.MS_REMOUNT, options[8:]
	}
	err := syscall.Mount("tmpfs", dir, "tmpfs", flags, options)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skipf("SKIPPED: mounting a small file system is forbidden here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if flags == 0 {
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
}

// mountReadOnly puts an empty file system that cannot be written over a folder,
// until the function that it returns, or the test, ends it.
func mountReadOnly(t *testing.T, dir string) (lift func()) {
	err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_RDONLY, "size=4k")
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skipf("SKIPPED: mounting a small file system is forbidden here: %v", err)
	}
	if err != nil {
		t.Errorf("mounting over %s: %v", dir, err)
		return func() {}
	}
	done := false
	lift = func() {
		if !done {
			done = true
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(lift)
	return lift
}
