package sched_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a small true store: what the contract of cache.Store says, in maps.
type memory struct {
	dir     string
	mu      sync.Mutex
	objects map[key.Digest][]byte
	records []*cache.Record
	intents []cache.Intent
}

func newMemory(t testing.TB) *memory {
	return &memory{dir: t.TempDir(), objects: map[key.Digest][]byte{}}
}

func (m *memory) pick(want func(*cache.Record) bool) (out []*cache.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.records {
		if want(r) {
			out = append(out, r)
		}
	}
	return out
}

func (m *memory) Lookup(k key.Key) []*cache.Record {
	return m.pick(func(r *cache.Record) bool { return r.Key == k })
}

func (m *memory) History(node string) []*cache.Record {
	return m.pick(func(r *cache.Record) bool { return r.Node == node })
}

func (m *memory) Kind(kind string) []*cache.Record {
	newest := map[key.Key]*cache.Record{}
	for _, r := range m.pick(func(r *cache.Record) bool { return r.Kind == kind }) {
		newest[r.Key] = r
	}
	return m.pick(func(r *cache.Record) bool { return newest[r.Key] == r })
}

func (m *memory) Open(d key.Digest) (io.ReadCloser, error) {
	b, err := m.Bytes(d)
	return io.NopCloser(bytes.NewReader(b)), err
}

func (m *memory) Bytes(d key.Digest) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.objects[d]
	if !ok {
		return nil, fmt.Errorf("no object %s", d)
	}
	return b, nil
}

func (m *memory) Path(d key.Digest) (string, error) {
	b, err := m.Bytes(d)
	if err != nil {
		return "", err
	}
	p := filepath.Join(m.dir, d.Short())
	return p, os.WriteFile(p, b, 0o600)
}

func (m *memory) Serial() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return uint64(len(m.records))
}

func (m *memory) Defects() []string { return nil }

func (m *memory) Object(r io.Reader) (key.Digest, int64, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return key.Digest{}, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[key.Sum(b)] = b
	return key.Sum(b), int64(len(b)), nil
}

func (m *memory) Put(_ context.Context, r cache.Record) (*cache.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range r.Outputs {
		if _, ok := m.objects[o.Digest]; !ok {
			return nil, fmt.Errorf("output %s of %s is not in the store", o.Name, r.Node)
		}
	}
	r.Serial = uint64(len(m.records)) + 1
	m.records = append(m.records, &r)
	return &r, nil
}

func (m *memory) Intend(in cache.Intent) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.intents = append(m.intents, in)
	return nil
}

func (m *memory) Settle(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.intents = slices.DeleteFunc(m.intents, func(in cache.Intent) bool { return in.ID == id })
	return nil
}

func (m *memory) Intents() []cache.Intent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.intents)
}

func (m *memory) Close() error { return nil }

// cut is a store whose disk is full after so many writes.
type cut struct {
	*memory
	mu   sync.Mutex
	left int
	at   func() // called once, at the first write that fails; nil is nothing
}

var errCut = errors.New("no space left on device")

func (c *cut) write() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left >= 0 {
		return nil
	}
	if c.at != nil {
		c.at()
		c.at = nil
	}
	return errCut
}

// failed reports whether a write has failed.
func (c *cut) failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left < 0
}

func (c *cut) Object(r io.Reader) (key.Digest, int64, error) {
	if err := c.write(); err != nil {
		return key.Digest{}, 0, err
	}
	return c.memory.Object(r)
}

func (c *cut) Put(ctx context.Context, r cache.Record) (*cache.Record, error) {
	if err := c.write(); err != nil {
		return nil, err
	}
	return c.memory.Put(ctx, r)
}

func (c *cut) Intend(in cache.Intent) error {
	if err := c.write(); err != nil {
		return err
	}
	return c.memory.Intend(in)
}

func (c *cut) Settle(id string) error {
	if err := c.write(); err != nil {
		return err
	}
	return c.memory.Settle(id)
}

// act is what one step does: it takes its time, then ends with a class ("" is
// ok). A death ends the whole task instead, with that class in exit.json; a
// vanish ends it without any word.
type act struct {
	takes  time.Duration
	class  executors.Class
	death  executors.Class
	vanish bool
	empty  bool // ok, and nothing in the output file
	logs   bool // the step writes a log of its own
	forged bool // the step's record is another step's
}

// machine is an executor whose tasks are goroutines that behave as the runner's
// contract says: they read spec.json and write step.json and exit.json. A
// step's Argv is ["step", ADDRESS].
type machine struct {
	name    string
	script  func(addr string, attempt int) act
	refuse  int               // Starts that fail before one works
	boot    time.Duration     // how long servers take to come up
	silent  int               // Waits that fail before one works
	outcome executors.Outcome // of a vanished task
	stuck   bool              // Stop fails
	sticky  bool              // Reap fails
	blind   bool              // tasks do not see what the engine writes later
	unheard bool              // Stop does not reach the task: the engine is dying
	mu      sync.Mutex
	tasks   map[executors.TaskID]*process
	seen    map[string]int // attempts by address
	started []executors.Task
	enter   func(addr string) // a step runs …
	leave   func(addr string) // … and ends
}

type process struct {
	task       executors.Task
	spec       runner.Spec
	stop, done chan struct{}
	once       sync.Once
	lifeline   atomic.Bool // the engine is gone: end without a word
	out        executors.Outcome
}

func newMachine(script func(addr string, attempt int) act) *machine {
	return &machine{name: "local", script: script, tasks: map[executors.TaskID]*process{}, seen: map[string]int{}}
}

func (m *machine) Name() string { return m.name }

func (m *machine) Check(t executors.Task) error {
	if t.Image != "" {
		return errors.New("a local task has no image")
	}
	return nil
}

func (m *machine) handle(id executors.TaskID) executors.Handle {
	return executors.Handle{Executor: m.name, Task: id, Ref: "pid-of-" + string(id)}
}

func (m *machine) Start(_ context.Context, t executors.Task) (executors.Handle, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tasks[t.ID] != nil {
		return m.handle(t.ID), nil
	}
	if m.refuse > 0 {
		m.refuse--
		return executors.Handle{}, errors.New("the daemon does not answer")
	}
	p := &process{task: t, stop: make(chan struct{}), done: make(chan struct{})}
	b, err := os.ReadFile(filepath.Join(t.Dir, "spec.json"))
	if err != nil {
		return executors.Handle{}, err
	}
	if err := json.Unmarshal(b, &p.spec); err != nil {
		return executors.Handle{}, err
	}
	m.tasks[t.ID] = p
	m.started = append(m.started, t)
	go m.live(p)
	return m.handle(t.ID), nil
}

// live is the life of a task's supervisor.
func (m *machine) live(p *process) {
	defer close(p.done)
	exit := runner.ExitRecord{Task: p.task.ID, Started: time.Now().UTC()}
	p.out = executors.Outcome{Reason: executors.Exited}
	if m.boot > 0 {
		up := runner.ProcessRecord{Name: "server.0", Started: time.Now()}
		if !m.pause(p, m.boot) {
			p.out.Reason = executors.Stopped
			return
		}
		up.Healthy = time.Now()
		p.write("up.json", []runner.ProcessRecord{up})
	}
	for _, s := range p.spec.Steps {
		addr := s.Argv[1]
		if !m.blind && p.withheld(s) {
			exit.Outcome = runner.StepOutcome{Class: executors.ClassInterrupted, Reason: "the task was asked to end"}
			break
		}
		m.mu.Lock()
		m.seen[addr]++
		a := m.script(addr, m.seen[addr])
		m.mu.Unlock()
		if m.enter != nil {
			m.enter(addr)
		}
		started := time.Now()
		clock := time.NewTimer(a.takes)
		stopped := false
		select {
		case <-clock.C:
		case <-p.stop:
			stopped = true
		}
		clock.Stop()
		if m.leave != nil {
			m.leave(addr)
		}
		switch {
		case p.lifeline.Load():
			p.out = executors.Outcome{Reason: executors.Signaled, Signal: "killed"}
			return
		case a.vanish:
			p.out = m.outcome
			return
		case stopped:
			exit.Outcome = runner.StepOutcome{Class: executors.ClassInterrupted}
			p.out.Reason = executors.Stopped
		case a.death != "":
			exit.Outcome = runner.StepOutcome{Class: a.death, Reason: "the server said " + string(a.death)}
		default:
			p.step(s, a, started)
			continue
		}
		break
	}
	exit.Ended = time.Now().UTC()
	p.write("exit.json", exit)
}

// pause waits, and reports false if the task was stopped meanwhile.
func (m *machine) pause(p *process, d time.Duration) bool {
	clock := time.NewTimer(d)
	defer clock.Stop()
	select {
	case <-clock.C:
		return true
	case <-p.stop:
		return false
	}
}

// withheld begins a step, unless the task was asked to end.
func (p *process) withheld(s runner.Step) bool {
	folder := filepath.Join(p.task.Dir, "steps", s.ID)
	err := runner.MarkBegun(folder)
	asked, askErr := runner.DrainAsked(p.task.Dir)
	if asked {
		err = runner.UnmarkBegun(folder)
	}
	if err := errors.Join(err, askErr); err != nil {
		panic(err)
	}
	return asked
}

func (p *process) step(s runner.Step, a act, started time.Time) {
	text := "row of " + s.Argv[1]
	if a.empty {
		text = ""
	}
	if err := os.MkdirAll(filepath.Join(p.task.Dir, "steps", s.ID), 0o700); err != nil {
		panic(err)
	}
	if a.class == "" {
		if err := os.WriteFile(filepath.Join(p.task.Dir, "steps", s.ID, "row"), []byte(text), 0o600); err != nil {
			panic(err)
		}
	}
	if a.logs {
		if err := os.MkdirAll(filepath.Join(p.task.Dir, "logs"), 0o700); err != nil {
			panic(err)
		}
		if err := os.WriteFile(filepath.Join(p.task.Dir, "logs", s.ID+".log"), []byte("a line\n"), 0o600); err != nil {
			panic(err)
		}
	}
	r := runner.StepRecord{ID: s.ID, Task: p.task.ID, Started: started.UTC(), Ended: time.Now().UTC()}
	if a.class != "" {
		r.Outcome = runner.StepOutcome{Class: a.class, Reason: "the client said " + string(a.class)}
	}
	if a.forged {
		r.ID = "another"
	}
	p.write(filepath.Join("steps", s.ID, "step.json"), r)
}

func (p *process) write(name string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	path := filepath.Join(p.task.Dir, name)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		panic(err)
	}
}

func (m *machine) find(h executors.Handle) *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tasks[h.Task]
}

func (m *machine) Wait(ctx context.Context, h executors.Handle) (executors.Outcome, error) {
	p := m.find(h)
	if p == nil {
		return executors.Outcome{Reason: executors.Lost, Detail: "no such task"}, nil
	}
	m.mu.Lock()
	silent := m.silent > 0
	if silent {
		m.silent--
	}
	m.mu.Unlock()
	if silent {
		return executors.Outcome{}, errors.New("the daemon does not answer")
	}
	select {
	case <-p.done:
		return p.out, nil
	case <-ctx.Done():
		return executors.Outcome{}, ctx.Err()
	}
}

func (m *machine) Logs(context.Context, executors.Handle, io.Writer) error { return nil }

func (m *machine) Stop(ctx context.Context, h executors.Handle, _ time.Duration) error {
	p := m.find(h)
	if p == nil {
		return nil
	}
	m.mu.Lock()
	stuck, unheard := m.stuck, m.unheard
	m.mu.Unlock()
	switch {
	case stuck:
		return errors.New("the task would not end")
	case unheard:
		<-ctx.Done()
		return ctx.Err()
	}
	p.once.Do(func() { close(p.stop) })
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *machine) List(_ context.Context, run string) (out []executors.Handle, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, p := range m.tasks {
		if p.task.Labels[executors.LabelRun] == run {
			out = append(out, m.handle(id))
		}
	}
	return out, nil
}

func (m *machine) Reap(_ context.Context, h executors.Handle) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sticky {
		return errors.New("a file of /dev/shm would not go")
	}
	delete(m.tasks, h.Task)
	return nil
}

func (m *machine) deaf(is bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unheard = is
}

// cutLifelines ends every task as the end of its engine does.
func (m *machine) cutLifelines() {
	m.mu.Lock()
	all := make([]*process, 0, len(m.tasks))
	for _, p := range m.tasks {
		all = append(all, p)
	}
	m.mu.Unlock()
	for _, p := range all {
		p.once.Do(func() { p.lifeline.Store(true); close(p.stop) })
		<-p.done
	}
}

// alive counts the tasks that have not ended.
func (m *machine) alive() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.tasks {
		select {
		case <-p.done:
		default:
			n++
		}
	}
	return n
}
