package proc

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Reaper starts children and is the only one that waits for them: os/exec
// would race with it for exit codes, because orphans come to us too.
type Reaper struct {
	Cgroup *os.File // where children are cloned into; nil is our own group
	sigs   chan os.Signal
	ended  chan struct{}
	mu     sync.Mutex // guards live, and keeps a child from being reaped before it is known
	live   map[int]*Child
}

// Child is a process that we started. It leads a session and a group of its
// own, so its pid names both.
type Child struct {
	Pid     int
	Started time.Time
	onExit  func()
	Done    chan struct{} // closed when it has ended and was reaped
	status  syscall.WaitStatus
	ended   time.Time
}

// Command is what to start. Files are stdout and stderr; stdin is /dev/null.
type Command struct {
	Argv, Env      []string
	Dir            string
	Stdout, Stderr *os.File
	Extra          []*os.File // become descriptors 3, 4, …
	OnExit         func()     // called once, by the reaper; it must not block
}

// NewReaper makes the one reaper of this process. Close it.
func NewReaper() *Reaper {
	r := &Reaper{sigs: make(chan os.Signal, 1), ended: make(chan struct{}), live: map[int]*Child{}}
	signal.Notify(r.sigs, syscall.SIGCHLD)
	go func() {
		defer close(r.ended)
		for range r.sigs {
			r.reap()
		}
	}()
	return r
}

// Close ends the reaper. Children that still live are not waited for.
func (r *Reaper) Close() {
	signal.Stop(r.sigs)
	close(r.sigs)
	<-r.ended
}

// reap collects everything that has ended. One SIGCHLD may stand for many.
func (r *Reaper) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		r.mu.Lock()
		c := r.live[pid]
		delete(r.live, pid)
		r.mu.Unlock()
		if c == nil {
			continue // an orphan that came to us
		}
		c.status, c.ended = status, time.Now()
		close(c.Done)
		if c.onExit != nil {
			c.onExit()
		}
	}
}

// Start starts a child. An error means that the program could not be executed.
func (r *Reaper) Start(c Command) (*Child, error) {
	path, err := program(c.Argv[0], c.Env)
	if err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	attr := &syscall.ProcAttr{
		Dir: c.Dir, Env: c.Env,
		Files: []uintptr{null.Fd(), c.Stdout.Fd(), c.Stderr.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	for _, f := range c.Extra {
		attr.Files = append(attr.Files, f.Fd())
	}
	if r.Cgroup != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(r.Cgroup.Fd())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(path, c.Argv, attr)
	if err != nil {
		return nil, fmt.Errorf("executing %s: %w", path, err)
	}
	started := &Child{Pid: pid, Started: time.Now(), onExit: c.OnExit, Done: make(chan struct{})}
	r.live[pid] = started
	return started, nil
}

// program finds a program. A name without a slash is looked up in the PATH of
// the environment that was declared for it, never in the host's.
func program(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			path = value
		}
	}
	for dir := range strings.SplitSeq(path, ":") {
		full := dir + "/" + name
		if info, err := os.Stat(full); dir != "" && err == nil && info.Mode().IsRegular() && unix.Access(full, unix.X_OK) == nil {
			return full, nil
		}
	}
	if path == "" {
		return "", fmt.Errorf("executing %q: it has no slash and its environment declares no PATH; write an absolute path", name)
	}
	return "", fmt.Errorf("executing %q: it is in no folder of its PATH %q", name, path)
}

// Exit returns the exit code, or the name of the signal that ended the child.
func (c *Child) Exit() (code *int, name string) {
	select {
	case <-c.Done:
	default:
		return nil, "" // it would not end
	}
	if c.status.Signaled() {
		return nil, c.status.Signal().String()
	}
	n := c.status.ExitStatus()
	return &n, ""
}

// Signaled says whether this signal ended the child. Call it after Done.
func (c *Child) Signaled(s syscall.Signal) bool { return c.status.Signaled() && c.status.Signal() == s }

// How says in words how the child ended. Call it after Done.
func (c *Child) How() string {
	after := c.ended.Sub(c.Started).Round(time.Millisecond)
	if c.status.Signaled() {
		s := c.status.Signal()
		return fmt.Sprintf("was ended by %s (%s) after %s", unix.SignalName(s), s, after)
	}
	return fmt.Sprintf("exited with code %d after %s", c.status.ExitStatus(), after)
}

// Lead makes us the supervisor of everything below us: the leader of a session,
// to whom orphans come, also after setsid and double forks. What we inherited
// beside the standard files is closed to everything that we start. The note
// says why we lead no session, where we cannot.
func Lead() (note string, err error) {
	if _, err := unix.Setsid(); err != nil {
		if sid, bad := unix.Getsid(0); bad != nil || sid != os.Getpid() {
			note = "we lead a group of somebody else's session and stay in it; children have sessions of their own"
		}
	}
	err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	return note, errors.Join(err, unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC))
}

// Lifeline returns the inherited pipe with this number, of which the other end
// is held by whoever needs us; nil is none. Without a number it is taken from
// text, which may be empty.
func Lifeline(fd int, text string) (*os.File, error) {
	if fd == 0 && text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("opening the lifeline: %q is no number", text)
		}
		fd = n
	}
	if fd == 0 {
		return nil, nil
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFIFO {
		return nil, fmt.Errorf("opening the lifeline: descriptor %d is no pipe", fd)
	}
	return os.NewFile(uintptr(fd), "lifeline"), nil
}

// Tool finds a program of the host for ourselves: in our own PATH, and where
// programs usually are. What we start for others is looked up in the PATH that
// was declared for it.
func Tool(name string) (string, bool) {
	dirs := append(strings.Split(os.Getenv("PATH"), ":"), "/usr/bin", "/bin", "/usr/local/bin", "/usr/local/nvidia/bin")
	if filepath.IsAbs(name) {
		dirs, name = []string{filepath.Dir(name)}, filepath.Base(name)
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && filepath.IsAbs(dir) && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, true
		}
	}
	return "", false
}

// Pipe makes a pipe whose write end blocks, as programs expect of their stdout
// (os.Pipe's does not, and lines get lost), and whose read end knows deadlines.
func Pipe() (read, write *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("making a pipe: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("making a pipe: %w", err), unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

// Tops maps each process below us to the child of ours that it descends from.
func Tops(all []Process) map[int]int {
	parents := map[int]int{}
	for _, p := range all {
		parents[p.Pid] = p.Parent
	}
	out := map[int]int{}
	for _, p := range Under(all, os.Getpid()) {
		top := p.Pid
		for parents[top] != os.Getpid() {
			top = parents[top]
		}
		out[p.Pid] = top
	}
	return out
}

// Members returns what belongs to a child and lives: what descends from it, and
// what is in its session.
func Members(c *Child) ([]Process, error) {
	if Childless() {
		return nil, nil
	}
	all, err := List()
	if err != nil {
		return nil, err
	}
	top := Tops(all)
	return slices.DeleteFunc(Under(all, os.Getpid()), func(p Process) bool {
		return top[p.Pid] != c.Pid && p.Session != c.Pid
	}), nil
}
