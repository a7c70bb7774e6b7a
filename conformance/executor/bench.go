package executor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sotabuild/sotabuild/executors"
)

// patience bounds everything that a case waits for.
const patience = 2 * time.Minute

// job is a task of a case, with its mark.
type job struct {
	executors.Task
	mark string
}

// bg is the context of a case's calls.
func (b *bench) bg() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

// must ends the case on an error.
func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// fresh is an executor as another engine would have it.
func (b *bench) fresh() executors.Executor {
	b.t.Helper()
	e, err := b.New(b.tasks)
	b.must(err)
	if e.Name() == "" {
		b.t.Fatal("the executor has no name")
	}
	return e
}

// job makes a task that runs the actor with these words. When the case ends
// nothing of it may be left.
func (b *bench) job(words ...string) job {
	b.t.Helper()
	random := fmt.Sprintf("%08x%08x", rand.Uint32(), rand.Uint32())
	j := job{mark: "mark-" + random}
	j.ID = executors.TaskID("suite-" + random)
	j.Dir = filepath.Join(b.tasks, string(j.ID))
	j.Image = b.Image
	j.Process = specs.Process{Cwd: j.Dir, Args: append([]string{actor, j.mark}, words...)}
	j.Mounts = []specs.Mount{{Source: actor, Destination: actor, Options: []string{"ro"}}}
	j.Labels = map[string]string{executors.LabelRun: "run-" + random, executors.LabelTask: string(j.ID)}
	j.StopGrace = 5 * time.Second
	b.must(os.Mkdir(j.Dir, 0o700))
	b.t.Cleanup(func() { b.clean(j) })
	return j
}

func (j job) run() string { return j.Labels[executors.LabelRun] }

// clean reaps the task and fails if anything of it is left.
func (b *bench) clean(j job) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e, err := b.New(b.tasks)
	if err != nil {
		b.t.Error(err)
		return
	}
	list, err := e.List(ctx, j.run())
	if err != nil {
		b.t.Errorf("listing %s: %v", j.run(), err)
	}
	for _, h := range list {
		if err := e.Reap(ctx, h); err != nil {
			b.t.Errorf("reaping %s: %v", h.Task, err)
		}
	}
	if left := living(j.mark); len(left) > 0 {
		b.t.Errorf("left running: %v", left)
		for _, line := range left { // they are ours by their mark
			var pid int
			if _, err := fmt.Sscan(line, &pid); err == nil {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	if list, err := e.List(ctx, j.run()); err != nil || len(list) > 0 {
		b.t.Errorf("listed after reaping: %v, %v", list, err)
	}
	if b.Left != nil {
		if left := b.Left(b.t, j.ID); len(left) > 0 {
			b.t.Errorf("left at %s: %v", b.Name, left)
		}
	}
}

// living returns the processes of this host that bear a mark, by pid.
func living(mark string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte("\x00"+mark+"\x00")) {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
		if err == nil && !bytes.Contains(stat, []byte(") Z ")) {
			found = append(found, strings.Split(path, "/")[2]+" "+string(bytes.ReplaceAll(text, []byte{0}, []byte(" "))))
		}
	}
	return found
}

func (b *bench) start(e executors.Executor, j job) executors.Handle {
	b.t.Helper()
	b.must(e.Check(j.Task))
	h, err := e.Start(b.bg(), j.Task)
	b.must(err)
	if h.Task != j.ID || h.Executor != e.Name() || h.Ref == "" {
		b.t.Fatalf("the handle is %+v", h)
	}
	return h
}

func (b *bench) wait(e executors.Executor, h executors.Handle) executors.Outcome {
	b.t.Helper()
	o, err := e.Wait(b.bg(), h)
	if err != nil {
		b.t.Fatalf("waiting for %s: %v", h.Task, err)
	}
	if o.Reason == "" || o.Ended.Before(o.Started) {
		b.t.Errorf("the outcome says nothing, or ended before it started: %+v", o)
	}
	return o
}

// do starts a task and waits for it.
func (b *bench) do(j job) executors.Outcome {
	b.t.Helper()
	e := b.fresh()
	return b.wait(e, b.start(e, j))
}

// want compares an outcome.
func (b *bench) want(o executors.Outcome, reason executors.Reason, code int, signal string) {
	b.t.Helper()
	if o.Reason != reason || o.Code != code || o.Signal != signal {
		b.t.Errorf("outcome %+v, want %s %d %q", o, reason, code, signal)
	}
}

// log follows a task's output.
type log struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
	done chan error // of Logs
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (b *bench) follow(e executors.Executor, h executors.Handle) *log {
	l := &log{done: make(chan error, 1)}
	ctx := b.bg()
	go func() { l.done <- e.Logs(ctx, h, l) }() // ends with the task, or with the case's context
	return l
}

// says waits until a task has printed a text.
func (b *bench) says(l *log, text string) {
	b.t.Helper()
	b.until("the output "+strconv.Quote(text), func() bool { return strings.Contains(l.String(), text) })
}

func (b *bench) until(what string, ok func() bool) {
	b.t.Helper()
	for late := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			b.t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// all is the whole output of a task that ends.
func (b *bench) all(e executors.Executor, h executors.Handle) string {
	b.t.Helper()
	var out bytes.Buffer
	if err := e.Logs(b.bg(), h, &out); err != nil {
		b.t.Fatalf("the logs of %s: %v", h.Task, err)
	}
	return out.String()
}

func (b *bench) read(j job, name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(j.Dir, name))
	b.must(err)
	return string(text)
}

// other is an engine in a process of its own.
type other struct {
	b   *bench
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err bytes.Buffer
}

// engine makes an engine that starts the task when it is told to.
func (b *bench) engine(j job) *other {
	b.t.Helper()
	text, err := json.Marshal(j.Task)
	b.must(err)
	b.must(os.WriteFile(j.Dir+".json", text, 0o600))
	self, err := os.Executable()
	b.must(err)
	o := &other{b: b, cmd: exec.Command(self, "engine", b.Name, j.Dir)}
	o.cmd.Stderr = &o.err
	o.in, err = o.cmd.StdinPipe()
	b.must(err)
	out, err := o.cmd.StdoutPipe()
	b.must(err)
	o.out = bufio.NewReader(out)
	b.must(o.cmd.Start())
	b.t.Cleanup(o.kill)
	o.line()
	return o
}

func (o *other) line() string {
	o.b.t.Helper()
	text, err := o.out.ReadString('\n')
	if err != nil {
		o.kill()
		o.b.t.Fatalf("the other engine: %v; it said %s", err, o.err.String())
	}
	return text
}

// start lets it start the task, and returns the handle it wrote.
func (o *other) start() executors.Handle {
	o.b.t.Helper()
	_, err := o.in.Write([]byte("\n"))
	o.b.must(err)
	var h executors.Handle
	o.b.must(json.Unmarshal([]byte(o.line()), &h))
	return h
}

// kill is kill -9. It may be called again.
func (o *other) kill() {
	o.cmd.Process.Kill()
	o.cmd.Wait()
}
