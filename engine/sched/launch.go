package sched

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/sched/work"
	"github.com/sotabuild/sotabuild/executors"
)

// start starts what the pools and the budget allow.
func (s *scheduler) start() {
	for _, h := range s.hosts.All() {
		for refused := true; refused; {
			refused = false
			for _, u := range h.Admit() {
				if s.fit(u) {
					s.launch(u)
					continue
				}
				h.Give(u)
				refused = true // what it held is free for the next one
			}
		}
	}
}

// taskNames gives each task of a run its id.
type taskNames struct {
	prefix string
	made   int
}

func (n *taskNames) next() executors.TaskID {
	n.made++
	return executors.TaskID(fmt.Sprintf("%s-%d", n.prefix, n.made))
}

// taskPrefix is the run's id in the letters of task ids, with a random part, so
// that a task of this run is never taken for another's.
func taskPrefix(run string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(run))
	var random [4]byte
	rand.Read(random[:])
	return strings.Trim(clean[:min(len(clean), 40)]+"-"+hex.EncodeToString(random[:]), "-")
}

func (s *scheduler) launch(u *unit) {
	b := &work.Sheet{Version: work.SheetVersion, Run: s.cfg.Run, Tool: s.cfg.Tool, Host: s.cfg.Host, Block: u.block}
	if u.kind.Task != nil {
		b.Task = s.tasks.next()
	}
	if u.kind.Purity != compile.Pure {
		b.Observed = s.graph.Env.Recorded
	}
	for _, id := range u.nodes {
		b.Jobs = append(b.Jobs, s.item(id))
	}
	for i, id := range u.nodes {
		s.set(id, running, event.Event{
			Type: event.NodeStarted, Kind: u.kind.Name, Attempt: b.Jobs[i].Attempt, Task: string(b.Task),
		})
	}
	s.running++
	u.since = s.cfg.Now()
	s.spending.Begin(s.cost(u))
	s.workers.Go(func() {
		s.worker.Run(b, func(r work.Report) {
			select {
			case s.reports <- report{u, r}:
			case <-s.worker.Left.Done():
			}
		})
	})
}

// item describes a node's job.
func (s *scheduler) item(id graph.NodeID) work.Item {
	n, a := &s.nodes[id], &s.graph.Actions[id]
	var inputs []compile.InputValue
	for i, in := range a.Inputs {
		r := s.nodes[a.Data[i]].record
		inputs = append(inputs, compile.InputValue{
			Name: in.Name, Addr: in.From, Digest: r.Output(in.Output), Failed: r.Outcome.State != cache.OK,
		})
	}
	return work.NewItem(a, n.manifest, n.attempt, inputs, s.cfg.Store)
}

// report is a worker's report with the unit that it is about.
type report struct {
	unit *unit
	work.Report
}

// receive takes a worker's report.
func (s *scheduler) receive(r report) {
	switch {
	case r.Event != nil:
		s.say(*r.Event)
	case r.Done != nil && r.Done.Retry:
		r.unit.again = append(r.unit.again, *r.Done)
	case r.Done != nil:
		s.conclude(r.unit.nodes[r.Done.Job], *r.Done)
	case r.Ended != nil:
		s.retire(r.unit, *r.Ended)
	}
}

// conclude gives a node its final state.
func (s *scheduler) conclude(id graph.NodeID, d work.Done) {
	n := &s.nodes[id]
	n.record, n.why, n.manifest = d.Record, d.Outcome.Class, key.Manifest{}
	to := failed
	switch {
	case d.Record == nil && (s.level >= kill || s.level == drain && d.Outcome.Class == string(executors.ClassInterrupted)):
		to, n.begun = cancelled, d.Outcome.Reason != work.Left
	case d.Outcome.State == cache.OK:
		to = succeeded
	case d.Outcome.State == cache.Rejected:
		to = rejected
	}
	s.set(id, to, event.Event{
		Type: event.NodeFinished, State: to.String(), Class: d.Outcome.Class, Reason: d.Outcome.Reason,
		Seconds: d.Seconds, Log: d.Log,
	})
}

// retire ends a unit: its pools are free, and only now are its failed nodes
// tried again, because no second attempt may run beside the first.
func (s *scheduler) retire(u *unit, end work.Ended) {
	s.running--
	s.spending.End(s.cost(u), s.cfg.Now().Sub(u.since))
	u.host.Give(u)
	if end.Err != nil {
		s.fail(end.Err)
	}
	if end.Lost {
		for _, d := range u.host.Lose(u, s.graph.Actions[u.nodes[0]].Addr) {
			s.doom(d)
		}
	}
	for _, d := range u.again {
		id := u.nodes[d.Job]
		if end.Lost || s.level > goOn {
			s.conclude(id, d)
			continue
		}
		s.nodes[id].attempt++
		s.set(id, ready, event.Event{
			Type: event.NodeRetry, Attempt: s.nodes[id].attempt, Class: d.Outcome.Class, Reason: d.Outcome.Reason,
		})
	}
	for _, id := range u.nodes {
		if s.nodes[id].state == running {
			s.nodes[id].begun = true
			s.set(id, cancelled, event.Event{Type: event.NodeFinished, State: cancelled.String(), Reason: "its end could not be recorded"})
		}
	}
}
