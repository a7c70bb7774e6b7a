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
