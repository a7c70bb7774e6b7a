package oci

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/ledger"
	"github.com/sotabuild/sotabuild/executors/proc"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// patience bounds how long a container lives after its lifeline has ended, and
// how long killed processes may take to go.
const patience = 3 * time.Second

// Watch runs and watches the container of the task in dir, and returns the exit
// code of the process: 0 when exit.json was written, whatever stands in it. It
// changes its process for good, so it is called once, by a process that does
// nothing else. Its environment is the container's.
func Watch(dir string) int {
	w := &watcher{env: os.Environ()}
	out := executors.Outcome{Started: time.Now().UTC()}
	if err := w.run(dir, &out); err != nil {
		out.Reason, out.Code, out.Signal, out.Detail = executors.NotStarted, 0, "", err.Error()
	}
	out.Ended = time.Now().UTC()
	if err := ledger.Write(exitFile(dir), out); err != nil {
		fmt.Fprintf(os.Stderr, "sotabuild %s: %v\n", WatchCommand, err)
		return 1
	}
	return 0
}

// watcher is the process that watches. All of it belongs to the goroutine that
// calls run.
type watcher struct {
	plan     plan
	env      []string
	lifeline *os.File
	status   *os.File // what Enter says
	first    proc.ID
	group    group
}

// run runs the container to its end. An error means that the task's program
// was never executed.
func (w *watcher) run(dir string, out *executors.Outcome) error {
	p, err := ledger.Read[plan](planFile(dir))
	if err != nil {
		return err
	}
	if p.Refusal != "" {
		return errors.New(p.Refusal)
	}
	w.plan = p
	if w.lifeline, err = proc.Lifeline(0, os.Getenv(runner.EnvLifeline)); err != nil {
		return err
	}
	sigs := make(chan os.Signal, 8)
	signal.Notify(sigs, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	if _, err := proc.Lead(); err != nil {
		return fmt.Errorf("becoming the watcher: %w", err)
	}
	// Namespaces belong to threads: what mounts and what starts the runtime
	// must be one.
	runtime.LockOSThread()
	if err := p.write(); err != nil {
		return errors.Join(err, p.remove(context.Background()))
	}
	if err := w.mount(); err != nil {
		return errors.Join(err, w.remove())
	}
	if err := w.start(); err != nil {
		return errors.Join(err, w.remove())
	}
	status, cause := w.wait(sigs)
	kills := w.group.oomKills()
	said, err := io.ReadAll(io.LimitReader(w.status, 1<<16))
	left := errors.Join(err, w.group.kill(patience), w.reap(), w.remove())
	if len(said) > 0 {
		return errors.Join(errors.New(string(said)), left)
	}
	describe(out, status, kills)
	if cause != "" {
		out.Detail = strings.TrimSpace(out.Detail + " " + cause)
	}
	if left != nil {
		out.Detail = strings.TrimSpace(out.Detail + " what it left could not all be removed: " + left.Error())
	}
	return nil
}

// remove removes the container and its files. The writable layer is unmounted
// first: through it the image's files would be seen, and removed from it one by
// one.
func (w *watcher) remove() error {
	if err := unix.Unmount(w.plan.rootfs(), unix.MNT_DETACH); err != nil && err != unix.EINVAL && err != unix.ENOENT {
		return fmt.Errorf("unmounting the container's files: %w", err)
	}
	return w.plan.remove(context.Background())
}

// describe turns a wait status into an outcome. A process that was killed for
// memory makes the whole task one that ran out of memory, whatever its first
// process made of it.
func describe(out *executors.Outcome, s unix.WaitStatus, kills int) {
	switch {
	case kills > 0:
		out.Reason = executors.OOM
		out.Detail = fmt.Sprintf("the kernel killed %d of its processes at its limit of memory; its first process ended with code %d", kills, s.ExitStatus())
		if s.Signaled() {
			out.Detail = fmt.Sprintf("the kernel killed %d of its processes at its limit of memory; its first process was ended by %s", kills, unix.SignalName(s.Signal()))
		}
	case s.Signaled():
		out.Reason, out.Signal = executors.Signaled, s.Signal().String()
	default:
		out.Reason, out.Code = executors.Exited, s.ExitStatus()
	}
}

// mount puts the writable layer over the image's files, in a mount namespace
// that ends with us: nothing of it is ever left on the host. Paths are given by
// descriptor, because the kernel's list of them is separated by characters that
// may stand in one.
func (w *watcher) mount() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("making a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making a mount namespace: %w", err)
	}
	if w.plan.Lower == "" {
		return nil // a probe, whose root is empty
	}
	var list []string
	for _, layer := range []struct{ option, dir string }{{"lowerdir", w.plan.Lower}, {"upperdir", w.plan.upper()}, {"workdir", w.plan.work()}} {
		fd, err := unix.Open(layer.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening %s: %w", layer.dir, err)
		}
		defer unix.Close(fd)
		list = append(list, fmt.Sprintf("%s=/proc/self/fd/%d", layer.option, fd))
	}
	if err := unix.Mount("overlay", w.plan.rootfs(), "overlay", 0, strings.Join(list, ",")); err != nil {
		return fmt.Errorf("putting a writable layer over the image (overlayfs): %w; the folder %s must lie on a file system that overlayfs can write to, not on an overlay itself", err, w.plan.Bundle)
	}
	return nil
}

// start creates and starts the container. When it returns nil its first process
// is a child of ours, and on its way to execute the task's program.
func (w *watcher) start() error {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	w.status = ours
	defer theirs.Close()
	envRead, envWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	defer envRead.Close()
	lifeline := w.lifeline
	if lifeline == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		defer null.Close()
		lifeline = null
	}
	pidFile := filepath.Join(w.plan.Bundle, "pid")
	id := string(w.plan.ID)
	err = w.plan.run(context.Background(), func(c *exec.Cmd) {
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		c.ExtraFiles = []*os.File{lifeline, theirs, envRead} // fdLifeline, fdStatus, fdEnv
	}, "create", "--bundle", w.plan.Bundle, "--pid-file", pidFile, "--preserve-fds", "3", id)
	if err != nil {
		return errors.Join(err, envWrite.Close())
	}
	// Variables never stand in a file. A reader that is not there yet, and an
	// environment larger than a pipe, need a goroutine; it ends with the pipe.
	go func() {
		for _, v := range w.env {
			if _, err := envWrite.WriteString(v + "\x00"); err != nil {
				break
			}
		}
		envWrite.Close()
	}()
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return fmt.Errorf("finding the container's process: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("finding the container's process: %w", err)
	}
	if w.first, err = proc.Identify(pid); err != nil {
		return fmt.Errorf("finding the container's process: %w", err)
	}
	if w.group, err = groupOf(pid, groupName(w.plan.ID)); err != nil {
		return err
	}
	return w.plan.run(context.Background(), nil, "start", id)
}

// wait waits for the container's first process and reaps what comes to us. A
// stop is handed on to it. It says why we ended it, where we did.
func (w *watcher) wait(sigs <-chan os.Signal) (status unix.WaitStatus, cause string) {
	ended := make(chan unix.WaitStatus, 1)
	go func() {
		for {
			var s unix.WaitStatus
			pid, err := unix.Wait4(-1, &s, 0, nil)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return // it was waited for: there is an end to this
			}
			if pid == w.first.Pid {
				ended <- s
				return
			}
		}
	}()
	gone := make(chan struct{})
	if w.lifeline != nil {
		go func() {
			for buf := make([]byte, 64); ; {
				if n, err := w.lifeline.Read(buf); err != nil || n == 0 {
					break
				}
			}
			close(gone)
		}()
	}
	var late <-chan time.Time
	for {
		select {
		case s := <-ended:
			return s, cause
		case s := <-sigs:
			if s != syscall.SIGPIPE {
				_ = w.first.Signal(unix.SIGTERM)
			}
		case <-gone:
			gone, cause = nil, "the engine was gone, and the container was ended"
			_ = w.first.Signal(unix.SIGTERM)
			late = time.After(patience)
		case <-late:
			late = nil
			_ = w.group.kill(patience)
		}
	}
}

// reap collects all that has ended, after everything was killed.
func (w *watcher) reap() error {
	for late := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		var s unix.WaitStatus
		pid, err := unix.Wait4(-1, &s, unix.WNOHANG, nil)
		switch {
		case err == unix.ECHILD:
			return nil
		case err != nil && err != unix.EINTR:
			return fmt.Errorf("reaping the container's processes: %w", err)
		case pid == 0 && time.Now().After(late):
			return fmt.Errorf("a process of the container would not end within %s", patience)
		}
	}
}

// lastError is the last error in a runtime's log; "" where there is none.
func lastError(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	last := ""
	for s := bufio.NewScanner(io.LimitReader(f, 1<<20)); s.Scan(); {
		var line struct{ Level, Msg string }
		if json.Unmarshal(s.Bytes(), &line) == nil && (line.Level == "error" || line.Level == "fatal") {
			last = line.Msg
		}
	}
	return last
}
