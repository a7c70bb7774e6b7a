package oci

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// The hidden commands of our program.
const (
	WatchCommand = "oci-watch" // DIR
	EnterCommand = "oci-enter" // -- ARGV…
)

// What the first process of a container inherits.
const (
	fdLifeline = 3
	fdStatus   = 4
	fdEnv      = 5
)

// Enter is the first program of a container: it executes argv, which follows a
// "--", with the environment that it reads from a pipe. It returns only when
// that cannot be done, having said why through another pipe; a pipe that ends
// without a word says that it was. Without argv it does nothing: that the
// container runs is all that is asked.
func Enter(args []string) int {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return 0
	}
	if err := enter(args); err != nil {
		fmt.Fprint(os.NewFile(fdStatus, "status"), err)
	}
	return 127
}

func enter(argv []string) error {
	for _, fd := range []int{fdStatus, fdEnv} {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
			return fmt.Errorf("entering the container: %w", err)
		}
	}
	text, err := io.ReadAll(os.NewFile(fdEnv, "env"))
	if err != nil {
		return fmt.Errorf("entering the container: %w", err)
	}
	var env []string
	if len(text) > 0 {
		env = strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	}
	err = unix.Exec(argv[0], argv, env)
	if _, missing := os.Stat(argv[0]); err == unix.ENOENT && missing == nil {
		return fmt.Errorf("executing %s: what it needs to run is not in the image (the interpreter that its first line or its ELF header names)", argv[0])
	}
	return fmt.Errorf("executing %s: %w", argv[0], err)
}
