package sched

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/sched/budget"
	"github.com/sotabuild/sotabuild/engine/sched/pool"
	"github.com/sotabuild/sotabuild/engine/sched/work"
	"github.com/sotabuild/sotabuild/executors"
)

// level is how far a run was interrupted.
type level int

const (
	goOn  level = iota
	drain       // nothing starts, no task begins another step, what runs finishes
	kill        // what runs is stopped
	leave       // nobody is waited for
)

// scheduler is the state of one run. It belongs to the goroutine of Run.
type scheduler struct {
	cfg     Config
	graph   *compile.Graph
	nodes   []node // by NodeID
	open    int    // nodes that are not final
	flight  map[key.Key]graph.NodeID
	batches []*batch // in graph order
	hosts   pool.Hosts[*unit]
	changes
	control
	worker   work.Worker
	serial   uint64 // of the store, before anything ran
	spending budget.Spending
}

// changes is what set noted and settle has not carried on yet.
type changes struct {
	finals  []graph.NodeID
	single  []graph.NodeID // ready, by themselves
	touched []*batch
}

// control is the run's own state beside its nodes'.
type control struct {
	started     time.Time
	level       level
	interrupted bool
	err         error // of the machine: the run ends
	running     int   // units
	tasks       taskNames
	reports     chan report
	interrupts  <-chan struct{}
	ended       <-chan struct{} // of the caller's context; nil once heard
	workers     sync.WaitGroup
	// Each tells the workers that a level is reached.
	drain, kill, leave context.CancelFunc
}

func newScheduler(ctx context.Context, cfg Config) *scheduler {
	if len(cfg.Plan.Nodes) != len(cfg.Graph.Actions) {
		panic(fmt.Sprintf("sched: a plan of %d nodes for a graph of %d", len(cfg.Plan.Nodes), len(cfg.Graph.Actions)))
	}
	if cfg.Slots == 0 {
		cfg.Slots = runtime.NumCPU()
	}
	s := &scheduler{
		cfg: cfg, graph: cfg.Graph, nodes: make([]node, len(cfg.Graph.Actions)), open: len(cfg.Graph.Actions),
		flight: map[key.Key]graph.NodeID{}, hosts: pool.Hosts[*unit]{Slots: cfg.Slots},
	}
	s.spending = budget.Spending{Budget: cfg.Plan.Budget, Past: cfg.Store.Kind}
	s.started, s.reports = cfg.Now(), make(chan report)
	s.interrupts, s.ended = cfg.Interrupt, ctx.Done()
	leaving, leave := context.WithCancel(context.WithoutCancel(ctx))
	killing, kill := context.WithCancel(leaving)
	draining, drain := context.WithCancel(context.WithoutCancel(ctx))
	s.drain, s.kill, s.leave = drain, kill, leave
	s.worker = work.Worker{Place: cfg.place(), Drained: draining, Killed: killing, Left: leaving}
	s.tasks.prefix = taskPrefix(cfg.Run)
	return s
}

// close waits for the workers, unless the run leaves them.
func (s *scheduler) close() {
	if s.level < leave {
		s.workers.Wait()
	}
	s.drain()
	s.kill()
	s.leave()
}

func (s *scheduler) say(e event.Event) { say(&s.cfg, e) }

// say completes an event and hands it to the sink.
func say(cfg *Config, e event.Event) {
	if cfg.Events == nil {
		return
	}
	e.V, e.Run, e.Time = event.Version, cfg.Run, cfg.Now().UTC()
	cfg.Events(e)
}

// adoptFirst runs Adopt and listens to interrupts meanwhile. The events of the
// adoption are passed on by this goroutine, so that none comes after Run.
func (s *scheduler) adoptFirst() {
	events, done := make(chan event.Event), make(chan error, 1)
	s.workers.Go(func() {
		done <- work.Adopt(s.worker.Killed, s.worker.Place, s.graph, func(e event.Event) {
			select {
			case events <- e:
			case <-s.worker.Left.Done():
			}
		})
	})
	for s.level < leave {
		select {
		case e := <-events:
			s.say(e)
		case err := <-done:
			// What a killed adoption has not settled stays for the next run.
			if err != nil && s.level < kill {
				s.fail(err)
			}
			return
		case _, ok := <-s.interrupts:
			s.listen(ok)
		case <-s.ended:
			s.listenNoMore()
		}
	}
}

// loop runs until every node is final, or until nothing runs after a drain.
func (s *scheduler) loop() {
	s.enter()
	for s.level < leave {
		s.settle()
		if s.heard() {
			continue
		}
		if s.level == goOn {
			s.start()
		}
		if s.running == 0 {
			if s.level > goOn || s.open == 0 {
				return
			}
			s.unlock()
			continue
		}
		select {
		case r := <-s.reports:
			s.receive(r)
		case _, ok := <-s.interrupts:
			s.listen(ok)
		case <-s.ended:
			s.listenNoMore()
		}
	}
}

// heard takes an interrupt that is there already: it comes before a start.
func (s *scheduler) heard() bool {
	select {
	case _, ok := <-s.interrupts:
		s.listen(ok)
	case <-s.ended:
		s.listenNoMore()
	default:
		return false
	}
	return true
}

// listen takes one value of the interrupt channel. A closed channel says
// nothing.
func (s *scheduler) listen(ok bool) {
	if !ok {
		s.interrupts = nil
		return
	}
	s.interrupted = true
	if s.level+1 == drain {
		s.say(event.Event{Type: event.Draining})
	}
	s.raise(s.level + 1)
}

// listenNoMore takes the end of the context, once.
func (s *scheduler) listenNoMore() {
	s.ended, s.interrupted = nil, true
	s.raise(kill)
}

// raise stops more of the run; a lower level changes nothing.
func (s *scheduler) raise(to level) {
	if to <= s.level {
		return
	}
	s.level = to
	switch to {
	case drain:
		s.drain()
	case kill:
		if s.interrupted {
			s.say(event.Event{Type: event.Killing})
		}
		s.kill()
	case leave:
		s.leave()
	}
}

// fail ends the run for a reason of the machine: what runs is stopped.
func (s *scheduler) fail(err error) {
	if s.err == nil {
		s.err = err
	}
	s.raise(kill)
}

// leftRunning is the reason of a node that ran when the run was left.
const leftRunning = "left with its task, which may still run; the next apply ends it, and keeps what has finished"

// cancelRest ends what is not final when the run is over.
func (s *scheduler) cancelRest() {
	for i := range s.nodes {
		n, e := &s.nodes[i], event.Event{Type: event.NodeFinished, State: cancelled.String()}
		switch {
		case n.state.final():
			continue
		case n.state == running:
			n.begun, e.Class, e.Reason = true, string(executors.ClassInterrupted), leftRunning
		}
		s.set(graph.NodeID(i), cancelled, e)
	}
}
