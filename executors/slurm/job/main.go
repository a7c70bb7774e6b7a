package job

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/proc"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// Exit codes of a job that leaves no end.json. Slurm keeps them also where no
// file of ours reached the node.
const (
	CodeBlind  = 66 // the node does not see the folder, or not this job's order
	CodeBroken = 74 // it cannot write there
	CodeTwice  = 75 // another job has begun the task, or nobody may any more
)

// Main runs the task of a folder and returns the exit code of the process: the
// task's own if it exited, 1 if it ended otherwise, a Code of ours where there
// is no end.json. It changes its process for good (session, sub-reaper), so it
// is called once, by a process that does nothing else.
func Main(folder string) int {
	code, err := run(folder)
	if err != nil {
		fmt.Fprintf(os.Stderr, "sotabuild slurm-job: %v\n", err)
	}
	return code
}

func run(folder string) (code int, err error) {
	o, err := findOrder(folder)
	if err != nil {
		return CodeBlind, err
	}
	begin := Begin{
		Job: os.Getenv("SLURM_JOB_ID"), Node: os.Getenv("SLURMD_NODENAME"), At: time.Now().UTC(),
		GPUs: os.Getenv("CUDA_VISIBLE_DEVICES"), NodeGPUs: os.Getenv("SLURM_JOB_GPUS"),
	}
	switch mine, err := Claim(folder); {
	case err != nil:
		return CodeBroken, fmt.Errorf("beginning task %s on node %s: %w", o.Task, begin.Node, err)
	case !mine:
		return CodeTwice, fmt.Errorf("task %s has begun before, or must not begin any more", o.Task)
	}
	if err := put(filepath.Join(folder, beginFile), begin); err != nil {
		return CodeBroken, err
	}
	t := &task{Order: o, folder: folder, begin: begin, told: make(chan os.Signal, 4)}
	// Signals are handled before anything starts: a TERM in between is not lost.
	signal.Notify(t.told, unix.SIGTERM, unix.SIGINT)
	if err := t.beat(); err != nil {
		return CodeBroken, err
	}
	if _, err := proc.Lead(); err != nil {
		return CodeBroken, fmt.Errorf("becoming the supervisor: %w", err)
	}
	end := t.run()
	if err := put(filepath.Join(folder, endFile), end); err != nil {
		return CodeBroken, err
	}
	if end.Outcome.Reason == executors.Exited {
		return end.Outcome.Code, nil
	}
	fmt.Fprintf(os.Stderr, "sotabuild slurm-job: task %s: %s %s %s\n", o.Task, end.Outcome.Reason, end.Outcome.Signal, end.Outcome.Detail)
	return 1, nil
}

// late is how long a file of the engine's host may take to show on a node.
const late = 15 * time.Second

// findOrder reads the order. It must be this job's: a node may have another
// file system at the same path.
func findOrder(folder string) (Order, error) {
	for until := time.Now().Add(late); ; time.Sleep(200 * time.Millisecond) {
		o, err := get[Order](folder, orderFile)
		name := os.Getenv("SLURM_JOB_NAME")
		switch {
		case err == nil && o.Version != OrderVersion:
			return o, fmt.Errorf("the order is of version %d, and %s knows version %d: the node has another sotabuild than the engine", o.Version, os.Args[0], OrderVersion)
		case err == nil && o.Name == name:
			return o, nil
		case err == nil:
			err = fmt.Errorf("it is about job %q, and this is %q", o.Name, name)
		}
		if time.Now().After(until) {
			return o, fmt.Errorf("node %s does not see the order in %s: %w; the campaign's folder must be on a file system that the engine's host and the nodes share", os.Getenv("SLURMD_NODENAME"), folder, err)
		}
	}
}

// task is the running of one order, owned by the goroutine that calls run.
type task struct {
	Order
	folder string
	begin  Begin
	told   chan os.Signal
	reaper *proc.Reaper
	child  *proc.Child
	kills  string // proc.OOMKills before the start
	stdout *os.File
}

func (t *task) run() End {
	end := End{Begin: t.begin, Task: t.Task}
	end.Outcome = executors.Outcome{Reason: executors.NotStarted, Started: time.Now().UTC()}
	t.reaper = proc.NewReaper()
	defer t.reaper.Close()
	err := t.start()
	if t.stdout != nil {
		defer t.stdout.Close()
	}
	if err != nil {
		end.Outcome.Detail = fmt.Sprintf("node %s: %v", t.begin.Node, err)
	} else {
		t.follow(&end)
		end.Left = append(end.Left, t.sweep()...)
		if count, own := proc.OOMKills(); own && count != t.kills {
			end.Outcome = executors.Outcome{Reason: executors.OOM, Started: end.Outcome.Started,
				Detail: "the kernel ended a process of the job for lack of memory; write a larger mem in the executor's options, or none"}
		}
	}
	if t.stdout != nil {
		if info, err := t.stdout.Stat(); err == nil {
			end.LogBytes = info.Size()
		}
		if err := t.stdout.Sync(); err != nil {
			end.Left = append(end.Left, "the log is not whole: "+err.Error())
		}
	}
	end.Outcome.Ended = time.Now().UTC()
	return end
}

// start checks what the node must have and starts the program. An error means
// that it was not started.
func (t *task) start() error {
	env, err := t.environment()
	if err != nil {
		return err
	}
	logs := filepath.Join(t.Dir, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return err
	}
	t.stdout, err = os.OpenFile(filepath.Join(logs, "runner.out"), os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if err := t.needs(); err != nil {
		return err
	}
	// The write end is ours alone: the runner ends its tree when we are killed.
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	t.kills, _ = proc.OOMKills()
	t.child, err = t.reaper.Start(proc.Command{
		Argv: t.Args, Dir: t.Dir, Env: append(env, runner.EnvLifeline+"=3"),
		Stdout: t.stdout, Stderr: t.stdout, Extra: []*os.File{read},
	})
	if err != nil {
		return errors.Join(err, write.Close())
	}
	return nil
}

// environment reads the variables and removes their file.
func (t *task) environment() ([]string, error) {
	path := filepath.Join(t.folder, envFile)
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the task's environment: %w", err)
	}
	var env []string
	for e := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte{0}), []byte{0}) {
		if len(e) > 0 {
			env = append(env, string(e))
		}
	}
	if t.GPUs > 0 {
		env = append(env, runner.EnvGPUs+"="+t.begin.GPUs, "SLURM_JOB_GPUS="+t.begin.NodeGPUs)
	}
	return env, nil
}

// needs says what the node lacks.
func (t *task) needs() error {
	for _, path := range t.Needs {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("it has no %s: %w", path, err)
		}
	}
	if given := strings.FieldsFunc(t.begin.GPUs, func(r rune) bool { return r == ',' }); t.GPUs > 0 && len(given) != t.GPUs {
		return fmt.Errorf("the task needs %d GPUs, and Slurm gave it CUDA_VISIBLE_DEVICES=%q; Slurm's gres.conf needs a File= for each GPU", t.GPUs, t.begin.GPUs)
	}
	if t.ShmSize > 0 {
		var fs unix.Statfs_t
		if err := unix.Statfs("/dev/shm", &fs); err != nil {
			return fmt.Errorf("reading the size of /dev/shm: %w", err)
		}
		if size := fs.Blocks * uint64(fs.Bsize); size < uint64(t.ShmSize) {
			return fmt.Errorf("the task needs %d bytes of /dev/shm, and it has %d", t.ShmSize, size)
		}
	}
	for name, want := range t.Ulimits {
		number, ok := Ulimits[name]
		if !ok {
			return fmt.Errorf("the ulimit %q is unknown", name)
		}
		var now syscall.Rlimit
		if err := syscall.Getrlimit(number, &now); err != nil {
			return fmt.Errorf("reading the ulimit %s: %w", name, err)
		}
		// Both, as containers have it: a program that raises its own limit does
		// not get beyond.
		now.Cur, now.Max = want, want
		if err := syscall.Setrlimit(number, &now); err != nil {
			return fmt.Errorf("setting the ulimit %s to %d: %w; Slurm hands on the limits of the host where sotabuild runs", name, want, err)
		}
	}
	return nil
}

// Ulimits are the names that Task.Resources may use.
var Ulimits = map[string]int{
	"core": unix.RLIMIT_CORE, "memlock": unix.RLIMIT_MEMLOCK, "nofile": unix.RLIMIT_NOFILE,
	"nproc": unix.RLIMIT_NPROC, "stack": unix.RLIMIT_STACK,
}

// follow waits for the child's end, which a TERM or the deadline may bring.
func (t *task) follow(end *End) {
	var deadline <-chan time.Time
	if t.Deadline > 0 {
		timer := time.NewTimer(t.Deadline)
		defer timer.Stop()
		deadline = timer.C
	}
	beats := time.NewTicker(BeatEvery)
	defer beats.Stop()
	reason := executors.Reason("")
	for over := false; !over; {
		select {
		case <-t.child.Done:
			// Slurm's TERM goes to all processes at once: ours may come after the
			// child's end.
			select {
			case <-t.told:
				end.Told = true
			case <-time.After(50 * time.Millisecond):
			}
			over = true
		case <-t.told:
			end.Told, over = true, true
			t.stop(t.grace())
		case <-deadline:
			reason, over = executors.TimedOut, true
			t.stop(t.Grace)
		case <-beats.C:
			t.show()
			if seen(t.folder, stopFile) {
				end.Told, over = true, true
				t.stop(t.grace())
			}
		}
	}
	o := &end.Outcome
	code, name := t.child.Exit()
	switch {
	case reason != "":
		o.Reason, o.Detail = reason, fmt.Sprintf("it was not done within %s", t.Deadline)
	case name != "":
		o.Reason, o.Signal = executors.Signaled, name
	case code != nil:
		o.Reason, o.Code = executors.Exited, *code
	default:
		o.Reason, o.Detail = executors.Lost, "its process does not end"
	}
}

// beat shows that we live.
func (t *task) beat() error {
	path := filepath.Join(t.folder, beatFile)
	now := time.Now()
	err := os.Chtimes(path, now, now)
	if errors.Is(err, os.ErrNotExist) {
		err = os.WriteFile(path, nil, 0o600)
	}
	return err
}

// grace is how long the program has after a TERM: what the executor wrote down
// before it sent it, or what Slurm leaves us before its KILL.
func (t *task) grace() time.Duration {
	if s, err := get[Stop](t.folder, stopFile); err == nil {
		return s.Grace
	}
	grace := t.Grace
	if t.KillWait > 0 {
		grace = min(grace, t.KillWait-time.Second)
	}
	return max(grace, 0)
}

// stop asks the program to end, waits, and kills it. What it has started is
// ended by sweep.
func (t *task) stop(grace time.Duration) {
	t.signal(unix.SIGTERM)
	if !t.ends(grace) {
		t.signal(unix.SIGKILL)
		t.ends(patience)
	}
}

// ends waits for the program's end, and shows meanwhile that we live.
func (t *task) ends(wait time.Duration) bool {
	late := time.NewTimer(wait)
	defer late.Stop()
	beats := time.NewTicker(BeatEvery)
	defer beats.Stop()
	for {
		select {
		case <-t.child.Done:
			return true
		case <-late.C:
			return false
		case <-beats.C:
			t.show()
		}
	}
}

// show is a beat whose failure stops nothing.
func (t *task) show() {
	if err := t.beat(); err != nil {
		fmt.Fprintf(os.Stderr, "sotabuild slurm-job: %v\n", err)
	}
}

func (t *task) signal(s unix.Signal) {
	p, err := proc.Read(t.child.Pid)
	if err != nil {
		return // it has ended
	}
	if err := p.Signal(s); err != nil {
		fmt.Fprintf(os.Stderr, "sotabuild slurm-job: %v\n", err)
	}
}

// patience bounds the end of what was killed (DESIGN 11.4).
const patience = 5 * time.Second

// sweep ends everything that still lives below us and what a killed runner
// wrote down, and says what would not go.
func (t *task) sweep() (left []string) {
	tree, err := runner.ReadTree(t.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		left = append(left, err.Error())
	}
	var group *proc.Cgroup
	if tree.Cgroup != "" {
		if group, err = proc.FindCgroup(tree.Cgroup, executors.CgroupName(t.Task)); err != nil {
			left = append(left, err.Error())
		}
	}
	t.show() // what comes now may take as long as BeatEvery on a busy node, and more
	for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		all, err := proc.List()
		if err != nil {
			return append(left, err.Error())
		}
		below := proc.Under(all, os.Getpid())
		if len(below) == 0 && (group == nil || group.Empty()) {
			break
		}
		if time.Now().After(until) {
			for _, p := range below {
				left = append(left, fmt.Sprintf("process %d (%s)", p.Pid, proc.CommandLine(p.Pid)))
			}
			break
		}
		for _, p := range below {
			if err := p.Signal(unix.SIGKILL); err != nil {
				fmt.Fprintf(os.Stderr, "sotabuild slurm-job: %v\n", err)
			}
		}
		if group != nil {
			if err := group.Kill(); err != nil {
				fmt.Fprintf(os.Stderr, "sotabuild slurm-job: %v\n", err)
			}
		}
	}
	if group != nil {
		if err := group.Remove(); err != nil {
			left = append(left, err.Error())
		}
	}
	shm := proc.Shm{Held: tree.Shm}
	_, stuck := shm.Sweep()
	return append(left, stuck...)
}
