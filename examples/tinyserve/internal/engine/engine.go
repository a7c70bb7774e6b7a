// Package engine is tinyserve's continuous batching: requests wait in one
// unbounded queue, a bounded number of them run, and each step computes one
// token of every sequence that is being decoded and, with what is left of the
// step's budget, pieces of the prompts that are being read, in order of
// arrival.
//
// It knows tokens and text, no HTTP. One goroutine, in Run, owns all
// sequences; Submit, Cancel, Stats, StartProfile and StopProfile may be called
// from anywhere. A request's
// events come in order on its own channel, which has room for all of them: a
// slow reader never slows a step. Errors of a request are returned by Submit;
// what ends a running request is told by its last event.
package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/model"
	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/profile"
	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/vocab"
)

// Config bounds the engine. All numbers are at least 1.
type Config struct {
	MaxSeqs   int // sequences that run at once
	MaxTokens int // tokens in a step; at least MaxSeqs
	MaxLen    int // prompt and answer together; at most the model's positions
	Threads   int
	Kernel    model.Kernel
	Prefix    bool // keep full blocks and reuse them for equal prefixes
}

// Request is what to generate. Prompt and Stop are not changed and must not be
// changed by the caller any more.
type Request struct {
	Prompt      []vocab.ID // at least one
	MaxTokens   int        // at least 1
	Temperature float32    // 0 is greedy
	Seed        uint64     // of the draws at other temperatures
	IgnoreEOS   bool       // EOS is a token like others
	Stop        []string   // no empty one
}

// Finish says why a request ended.
type Finish string

// The reasons. Going on is the empty reason.
const (
	Length  Finish = "length" // MaxTokens
	Stop    Finish = "stop"   // EOS or a stop string
	Aborted Finish = "abort"  // the engine ends; the event carries no token
)

// Event is one token, or the end of an aborted request.
type Event struct {
	Token  vocab.ID
	Text   string // valid UTF-8; "" for a special
	Held   bool   // no text because a character or stop string is not complete
	Finish Finish // of the last event
	Cached int    // prompt tokens that came from the prefix cache
}

// ErrStopped is returned by Submit after Run has ended.
var ErrStopped = errors.New("the server is shutting down")

// Handle is a submitted request.
type Handle struct {
	// Events carries the request's events; the one with a Finish is the last.
	// Nothing is closed, and after Cancel no more events may come.
	Events <-chan Event
	cancel func()
}

// Cancel ends the request before the next step. It may be called more than
// once, and after the end.
func (h *Handle) Cancel() { h.cancel() }

// sequence is a request on its way. Only canceled is shared.
type sequence struct {
	Request
	events   chan Event
	canceled atomic.Bool
	tokens   []vocab.ID // prompt and answer
	done     int        // how many of them are in the cache
	cached   int        // how many of them came from the prefix cache
	table    []int32
	serial   uint64 // of the last full block
	text     vocab.Decoder
	draw     *rand.PCG // its own, so that others never change what it draws
	over     bool
}

// Engine runs requests on a model.
type Engine struct {
	config  Config
	runner  *model.Runner
	blocks  *blocks
	running []*sequence // in order of arrival
	wake    chan struct{}
	profile atomic.Pointer[profile.Recorder] // nil while nothing is recorded

	mu      sync.Mutex // guards what follows
	waiting []*sequence
	stopped bool
	stats   Stats
}

// New returns an engine that is not running yet.
func New(m *model.Model, c Config) (*Engine, error) {
	if c.MaxLen > m.MaxPositions {
		return nil, fmt.Errorf("a maximum length of %d is more than the model's %d positions", c.MaxLen, m.MaxPositions)
	}
	if c.MaxTokens < c.MaxSeqs {
		return nil, fmt.Errorf("a step of %d tokens cannot hold one token of each of %d sequences", c.MaxTokens, c.MaxSeqs)
	}
	// Room for every sequence at its longest: one that runs is never evicted.
	n := c.MaxSeqs * ((c.MaxLen + model.BlockSize - 1) / model.BlockSize)
	return &Engine{
		config: c,
		runner: model.NewRunner(m, model.NewKV(m, n), c.Kernel, c.Threads),
		blocks: newBlocks(n, c.Prefix),
		wake:   make(chan struct{}, 1),
		stats:  Stats{Blocks: n, Finished: map[Finish]int{Length: 0, Stop: 0}},
	}, nil
}

// LengthError is a request that does not fit.
type LengthError struct{ Prompt, Answer, Max int }

func (e *LengthError) Error() string {
	return fmt.Sprintf("the model's maximum context length is %d tokens, but the request needs %d: %d of the prompt and %d of the answer; shorten the prompt or ask for fewer tokens",
		e.Max, e.Prompt+e.Answer, e.Prompt, e.Answer)
}

// Submit queues a request. It never blocks. The caller must Cancel the handle
// when it stops reading.
func (e *Engine) Submit(r Request) (*Handle, error) {
	// Compared without a sum, which could overflow.
	if len(r.Prompt) >= e.config.MaxLen || r.MaxTokens > e.config.MaxLen-len(r.Prompt) {
		return nil, &LengthError{len(r.Prompt), r.MaxTokens, e.config.MaxLen}
	}
	s := &sequence{
		Request: r,
		events:  make(chan Event, r.MaxTokens+1),
		tokens:  slices.Clone(r.Prompt),
		text:    vocab.Decoder{Stops: r.Stop},
		draw:    rand.NewPCG(r.Seed, 0),
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return nil, ErrStopped
	}
	e.waiting = append(e.waiting, s)
	e.signal()
	return &Handle{Events: s.events, cancel: func() { s.canceled.Store(true); e.signal() }}, nil
}

// signal wakes Run if it sleeps.
func (e *Engine) signal() {
	select {
	case e.wake <- struct{}{}:
	default: // a signal waits already
	}
}

// Run computes steps until ctx ends; then it lets the step it is in finish and
// aborts what is left. It is called once.
func (e *Engine) Run(ctx context.Context) {
	for ctx.Err() == nil {
		e.admit()
		if len(e.running) == 0 {
			select {
			case <-ctx.Done():
			case <-e.wake:
			}
			continue
		}
		e.step()
		// On a single core the goroutines that write to clients would wait
		// for the preemption of this one, 10 ms, and send tokens in bursts.
		runtime.Gosched()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	for _, s := range append(e.running, e.waiting...) {
		s.events <- Event{Finish: Aborted, Cached: s.cached}
	}
	e.running, e.waiting = nil, nil
	e.stats.Running, e.stats.Waiting = 0, 0
}

// StartProfile records the steps that begin from now on, with their operators
// and shapes where these are wanted. It is false where a recording is already
// under way.
func (e *Engine) StartProfile(shapes bool) bool {
	return e.profile.CompareAndSwap(nil, profile.New(shapes))
}

// StopProfile ends the recording and returns it; nil where there is none. A
// step under way is not part of it.
func (e *Engine) StopProfile() *profile.Recorder {
	return e.profile.Swap(nil)
}

// admit drops canceled requests and moves waiting ones into free slots.
func (e *Engine) admit() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = slices.DeleteFunc(e.running, func(s *sequence) bool {
		if s.canceled.Load() {
			e.blocks.release(s.table)
			e.stats.Canceled++
			return true
		}
		return false
	})
	e.waiting = slices.DeleteFunc(e.waiting, func(s *sequence) bool {
		if s.canceled.Load() {
			e.stats.Canceled++
			return true
		}
		return false
	})
	for len(e.waiting) > 0 && len(e.running) < e.config.MaxSeqs {
		s := e.waiting[0]
		e.waiting = slices.Delete(e.waiting, 0, 1)
		s.table, s.cached = e.blocks.acquire(s.Prompt, len(s.Prompt)+s.MaxTokens)
		if s.cached > 0 {
			s.serial = e.blocks.all[s.table[s.cached/model.BlockSize-1]].serial
		}
		s.done = s.cached
		e.running = append(e.running, s)
		e.stats.CachedTokens += s.cached
	}
	e.stats.Running, e.stats.Waiting = len(e.running), len(e.waiting)
	e.stats.BlocksUsed = e.blocks.inUse()
}
