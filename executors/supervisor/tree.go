package supervisor

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors/proc"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// observe looks at everything below us and writes it down. It is called by the
// owner of the task only.
func (t *task) observe() {
	below, err := proc.Below()
	if err != nil {
		t.say("looking at our processes: %v", err)
		return
	}
	tree := runner.Tree{Processes: []proc.ID{}}
	for _, p := range below {
		t.pids[p.Pid] = true
		t.shm.Note(p.Pid)
		tree.Processes = append(tree.Processes, p.ID)
	}
	tree.Shm = t.shm.Held
	if t.cgroup != nil {
		tree.Cgroup = t.cgroup.Path()
	}
	tree.Boot, err = proc.BootID()
	if err == nil && !reflect.DeepEqual(tree, t.noted) {
		err = runner.WriteTree(t.dir, tree)
	}
	if err != nil {
		t.say("writing down our processes: %v", err)
		return
	}
	t.noted = tree
	t.noted.Shm = maps.Clone(tree.Shm)
}

// killPatience is how long we wait for processes that got a KILL. Longer means
// that they hang in the kernel.
const killPatience = 2 * time.Second

// stop ends a child and all its members: TERM to its group before each wait,
// then KILL to all. The waits end at until, and early when the lifeline does.
// It returns the actions that it took; none when nothing was left.
func (t *task) stop(c *proc.Child, until time.Time, waits ...time.Duration) (acts []runner.StopAction) {
	for _, wait := range waits {
		list := t.members(c)
		group := slices.DeleteFunc(list, func(p proc.Process) bool { return p.Group != c.Pid })
		if len(group) == 0 {
			break
		}
		acts = append(acts, t.signal("TERM", unix.SIGTERM, group))
		if t.gone(c, min(wait, time.Until(until))) {
			break
		}
	}
	for late := time.Now().Add(killPatience); time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
		list := t.members(c)
		if len(list) == 0 {
			break
		}
		if act := t.signal("KILL", unix.SIGKILL, list); len(acts) == 0 || acts[len(acts)-1].Action != "KILL" {
			acts = append(acts, act)
		}
	}
	select { // its status comes a moment after it is gone
	case <-c.Done:
	case <-time.After(killPatience):
	}
	return acts
}

func (t *task) signal(name string, sig unix.Signal, list []proc.Process) runner.StopAction {
	act := runner.StopAction{Action: name, At: time.Now().UTC()}
	for _, p := range list {
		if err := p.Signal(sig); err != nil {
			t.say("%v", err)
		}
	}
	return act
}

// gone waits until nothing of the child lives, at most for wait.
func (t *task) gone(c *proc.Child, wait time.Duration) bool {
	hurry := t.hurry
	if t.hurried() {
		hurry, wait = nil, min(wait, 500*time.Millisecond)
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	// The child itself announces its end; for the others we have to look.
	done := c.Done
	for {
		select {
		case <-late.C:
			return false
		case <-hurry:
			return false
		case <-done:
			done = nil
		case <-time.After(25 * time.Millisecond):
			if done != nil {
				continue
			}
		}
		if len(t.members(c)) == 0 {
			return true
		}
	}
}

// members returns what belongs to a child and lives. A table that cannot be
// read shows as the child alone: it then counts as alive, and is ended.
func (t *task) members(c *proc.Child) []proc.Process {
	list, err := proc.Members(c)
	if err == nil {
		return list
	}
	t.say("looking at what belongs to process %d: %v", c.Pid, err)
	if p, err := proc.Read(c.Pid); err == nil {
		list = append(list, p)
	}
	return list
}

// lower stops all servers, in the reverse order of their start, and gives their
// ports back.
func (t *task) lower(until time.Time) {
	for _, wave := range t.servers {
		for _, s := range wave {
			if s.child != nil {
				select {
				case <-s.child.Done:
					s.record.Early = true
				default:
				}
			}
			s.stopping.Store(true)
		}
	}
	for _, wave := range slices.Backward(t.servers) {
		var all sync.WaitGroup
		for _, s := range wave {
			all.Go(func() {
				defer s.claim.Close()
				if s.child == nil {
					s.sink.Finish(0) // it was never handed over: nothing is in it
					return
				}
				s.record.Stops = t.stop(s.child, until, orDefault(s.Stop.First, 2*time.Second), orDefault(s.Stop.Second, time.Second))
				s.record.Exit, s.record.Signal = s.child.Exit()
				t.say("%s: down after %d actions", s.name, len(s.record.Stops))
				if err := s.sink.Finish(time.Second); err != nil {
					t.say("%s: its log is not whole: %v", s.name, err)
				}
			})
		}
		all.Wait()
	}
}

// down takes everything down and records what it took. All clients have ended
// before.
func (t *task) down(record *runner.ExitRecord) {
	until := time.Now().Add(orDefault(t.spec.Deadlines.Stop, 30*time.Second))
	if t.hurried() {
		until = time.Now().Add(2 * time.Second)
	}
	t.observe()
	t.lower(until)
	for _, p := range t.killAll() {
		record.Left = append(record.Left, fmt.Sprintf("process %d (%s)", p.Pid, t.hide.Text(proc.CommandLine(p.Pid))))
	}
	for _, wave := range t.servers {
		for _, s := range wave {
			if s.child != nil {
				record.Processes = append(record.Processes, s.record)
			}
		}
	}
	var left []string
	record.Removed, left = t.shm.Sweep()
	record.Left = append(record.Left, left...)
	if t.cgroup != nil {
		// Linux 6.18 kills at once what is cloned into a group that was killed
		// before: the tools that look at the GPUs run outside.
		group := t.reaper.Cgroup
		t.reaper.Cgroup = nil
		if err := errors.Join(group.Close(), t.cgroup.Remove()); err != nil {
			record.Left = append(record.Left, err.Error())
		}
	}
	record.After, left = t.drain(until)
	record.Left = append(record.Left, left...)
}

// killAll ends everything that still lives below us, whoever's child it was,
// and returns what would not go.
func (t *task) killAll() []proc.Process {
	for late := time.Now().Add(killPatience); ; time.Sleep(10 * time.Millisecond) {
		left, err := proc.Below()
		if err != nil {
			t.say("looking at our processes: %v", err)
		}
		if err == nil && len(left) == 0 && (t.cgroup == nil || t.cgroup.Empty()) || time.Now().After(late) {
			return left
		}
		t.signal("KILL", unix.SIGKILL, left)
		if t.cgroup != nil {
			if err := t.cgroup.Kill(); err != nil {
				t.say("%v", err)
			}
		}
	}
}

// stranger names a process that answers on the server's port and is not the
// server's; "" when every such socket is its own. A process that was orphaned
// below us counts as the server's own, unless it descends from another server.
func (t *task) stranger(s *server) (string, error) {
	sockets, err := proc.Answering(s.port)
	if err != nil {
		return "", err
	}
	all, err := proc.List()
	if err != nil {
		return "", err
	}
	tops := proc.Tops(all)
	for _, socket := range sockets {
		p, ok := proc.Holder(proc.Under(all, os.Getpid()), socket.Inode)
		if !ok || t.isServer(tops[p.Pid]) && tops[p.Pid] != s.child.Pid {
			return proc.Owner(socket), nil
		}
	}
	if len(sockets) == 0 {
		return "", fmt.Errorf("nobody listens on port %d any more", s.port)
	}
	return "", nil
}

func (t *task) isServer(pid int) bool {
	for _, wave := range t.servers {
		for _, s := range wave {
			if s.child != nil && s.child.Pid == pid {
				return true
			}
		}
	}
	return false
}
