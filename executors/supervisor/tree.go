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
				s.record.Stops = t.ender.Stop(s.child, until, orDefault(s.Stop.First, 2*time.Second), orDefault(s.Stop.Second, time.Second))
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
	if t.ender.Hurried() {
		until = time.Now().Add(2 * time.Second)
	}
	t.observe()
	t.lower(until)
	for _, p := range t.ender.KillAll(t.cgroup) {
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
