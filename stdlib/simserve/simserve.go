// Package simserve is a serving endpoint without a model: it answers on an
// exact schedule that its flags state, and lies, breaks or stalls on request.
// Load generators are calibrated against it, and campaigns can name it as a
// framework.
//
// It speaks /health, /v1/models, /metrics (vLLM's names), /tokenize, and
// /v1/completions and /v1/chat/completions, and the native forms of SGLang
// (/generate) and llama.cpp (/completion), streamed or not. A token id counts as
// one token, and so does each byte of a text prompt. A request may ask for a
// fault by the header X-Sim-Fault. It knows no client. Handler is safe for concurrent use;
// every request is served by its own goroutine, and all times are the
// runtime's, so that they are exact in virtual time (testing/synctest).
package simserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// Config is what a server does. A request that gets its slot at time s has its
// events with tokens at s + Prefill + uncached prompt tokens × PerToken + i × Step,
// for i = 0, 1, …; each step is longer by Engine.BatchStep for every other
// request that is being served when it begins.
type Config struct {
	Model      string
	StartDelay time.Duration // /health is 503 for so long after Handler
	Slots      int           // requests served at a time, others wait; 0 is all
	Prefill    time.Duration
	PerToken   time.Duration
	Step       time.Duration
	Engine     Engine
	Form       Form
	Fault      Fault
	// Every and After choose the faulty requests: of those after the first
	// After, each Every-th, beginning with the first; 0 is each one.
	Every, After int
	// Stamp gets the times of each request when it has ended; nil drops them.
	// It is called from the requests' goroutines.
	Stamp func(Stamp)
}

// Engine is what makes requests depend on each other. The zero value does not.
type Engine struct {
	BatchStep  time.Duration // further time of a step for each other request in the batch
	CacheBlock int           // tokens of a block of the prefix cache; 0 is no cache
	Bursts     []int         // tokens of the events in turn, as speculation makes them; empty is Form.PerEvent
}

// Form is how an answer is put into events.
type Form struct {
	PerEvent  int   // tokens an event; 0 is 1
	RoleFirst bool  // an event without a token at once, before the prefill
	Usage     Usage // where the counts stand; "" is UsageEvent
}

// Usage is the place of the counts and of the finish reason.
type Usage string

// The places that real servers use.
const (
	UsageEvent  Usage = "event"  // finish reason on the last token's event, then an event without choices (vLLM)
	UsageFinish Usage = "finish" // both on an event of their own with empty text (llama.cpp)
	UsageToken  Usage = "token"  // both on the last token's event
	UsageEvery  Usage = "every"  // counts on every event and at the end (continuous_usage_stats)
)

// Stamp is when one request happened, by the server's own clock.
type Stamp struct {
	Request int         // from 0, in the order of arrival
	Arrived time.Time   // the request was read
	Writes  []time.Time // just before each write of an event with tokens
}

// server is the state of one Handler.
type server struct {
	Config
	ready time.Time
	slots chan struct{} // nil: no limit
	seen  atomic.Int64  // requests for tokens
	batch atomic.Int64  // requests that have a slot
	cache *cache        // nil: none
	count counters
}

// Handler returns a new server.
func Handler(c Config) (http.Handler, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("checking simserve's configuration: %w", err)
	}
	c.Form.PerEvent = max(c.Form.PerEvent, 1)
	c.Every = max(c.Every, 1)
	s := &server{Config: c, ready: time.Now().Add(c.StartDelay)}
	if c.Slots > 0 {
		s.slots = make(chan struct{}, c.Slots)
	}
	if c.Engine.CacheBlock > 0 {
		s.cache = &cache{block: c.Engine.CacheBlock, seen: map[[32]byte]bool{}}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("GET /v1/models", s.models)
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("POST /tokenize", tokenize)
	for path, form := range map[string]api{"/v1/completions": completions, "/v1/chat/completions": chat, "/generate": sglang, "/completion": llamacpp} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, form) })
	}
	return mux, nil
}

func (c Config) check() error {
	usages := []Usage{"", UsageEvent, UsageFinish, UsageToken, UsageEvery}
	switch {
	case c.Model == "":
		return errors.New("the model has no name")
	case min(c.StartDelay, c.Prefill, c.PerToken, c.Step, c.Engine.BatchStep) < 0:
		return errors.New("a time is negative")
	case min(c.Slots, c.Form.PerEvent, c.Every, c.After, c.Engine.CacheBlock) < 0:
		return errors.New("a number is negative")
	case slices.ContainsFunc(c.Engine.Bursts, func(n int) bool { return n < 1 }):
		return errors.New("a burst has no token")
	case !slices.Contains(usages, c.Form.Usage):
		return fmt.Errorf("usage is %q; write one of %q", c.Form.Usage, usages[1:])
	case c.Fault != None && !slices.ContainsFunc(Faults, func(r FaultRow) bool { return r.Fault == c.Fault }):
		return fmt.Errorf("fault %q is not known; --help lists them", c.Fault)
	}
	return nil
}

func (s *server) health(w http.ResponseWriter, _ *http.Request) {
	if time.Now().Before(s.ready) {
		refuse(w, http.StatusServiceUnavailable, "the model is loading")
	}
}

func (s *server) models(w http.ResponseWriter, _ *http.Request) {
	name := s.Model
	if s.Fault == WrongModel {
		name = otherModel
	}
	answer(w, http.StatusOK, object{"object": "list", "data": []object{{"id": name, "object": "model"}}})
}

// object is a JSON object; encoding/json writes its keys sorted.
type object = map[string]any

// answer writes a whole JSON answer. A client that has left is no error of
// ours.
func answer(w http.ResponseWriter, status int, body object) {
	b, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("simserve: encoding its own answer: %v", err))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

func failure(status int, message string) object {
	return object{"error": object{"message": message, "type": http.StatusText(status), "param": nil, "code": status}}
}

func refuse(w http.ResponseWriter, status int, message string) {
	answer(w, status, failure(status, message))
}

// until waits for a point in time and says whether it came before ctx's end.
func until(ctx context.Context, at time.Time) bool {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
