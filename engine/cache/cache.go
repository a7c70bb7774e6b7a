// Package cache keeps what finished: objects by digest and records by key.
//
// It knows no graph and no node kind. The main type is the Store interface;
// Local is the store beside the campaign. Objects are immutable and named by
// the sha256 of their bytes; records are append-only, and a later record of
// the same key does not hide earlier ones (they are samples). A defect found
// on reading is a miss, never an error: the entry is quarantined and said so
// through Defects. A store is safe for concurrent use; one process writes at a
// time (an OS lock that dies with it), readers need no lock.
package cache

import (
	"context"
	"io"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache/index"
	"github.com/sotabuild/sotabuild/engine/cache/lock"
	"github.com/sotabuild/sotabuild/engine/cache/objects"
	"github.com/sotabuild/sotabuild/engine/key"
)

// ErrMissing is in the chain of every error about an object that is not in the
// store, or was and turned out broken: its producer must run again.
var ErrMissing = objects.ErrMissing

// LockedError says that another process has the store open for writing.
type LockedError = lock.Error

// Holder is the process that has a store open for writing.
type Holder = lock.Holder

// Intent is a side effect that may have to be undone by a later process.
type Intent = index.Intent

// RecordVersion is the version of a record's form in the journal. Records of the
// form before it, which had no Setup, are read too.
const RecordVersion = 3

// Record is what is kept of one finished run of a node. Node and Kind are
// labels for people and for finding what a node was before; only Key decides.
type Record struct {
	Version  int        `json:"v"`
	Serial   uint64     `json:"serial"` // position in the journal, from 1; set by Put
	Key      key.Key    `json:"key"`
	Node     string     `json:"node"`
	Kind     string     `json:"kind"`
	Manifest string     `json:"manifest"` // key.Manifest.Text: the entry explains itself
	Outcome  Outcome    `json:"outcome"`
	Outputs  []Output   `json:"outputs,omitempty"` // sorted by name
	Time     Span       `json:"time"`
	Origin   Origin     `json:"origin"`
	Observed []Observed `json:"observed,omitempty"` // recorded, never keyed
	Warnings []string   `json:"warnings,omitempty"`
}

// State is how a node's run ended.
type State string

// The states of a record. Rejected is a measurement that ran but is no
// acceptable sample (throttled, client-limited); it is kept and never a hit.
const (
	OK       State = "ok"
	Failed   State = "failed"
	Rejected State = "rejected"
)

// Outcome is a state with its failure class and a sentence. Keep says whether
// a failure is a lasting result (a candidate that does not fit in memory): a
// kept failure is a hit, any other is run again by the next apply.
type Outcome struct {
	State  State  `json:"state"`
	Class  string `json:"class,omitempty"`
	Reason string `json:"reason,omitempty"`
	Keep   bool   `json:"keep,omitempty"`
}

// Final reports whether a record with this outcome is a hit.
func (o Outcome) Final() bool { return o.State == OK || (o.State == Failed && o.Keep) }

// Text is class and reason for people.
func (o Outcome) Text() string {
	switch {
	case o.Class == "" && o.Reason == "":
		return "no reason was recorded"
	case o.Class == "" || o.Reason == "":
		return o.Class + o.Reason
	}
	return o.Class + ": " + o.Reason
}

// Output is one declared output of a node.
type Output struct {
	Name   string     `json:"name"`
	Digest key.Digest `json:"digest"`
	Size   int64      `json:"size"`
}

// Span is when a node ran. Seconds is monotonic.
type Span struct {
	Started time.Time `json:"started"` // UTC
	Seconds float64   `json:"seconds"`
	// Setup is how many seconds its task's servers took to come up, before the
	// first of its nodes, or until the task ended without that; the same in each
	// record of a task, and no part of Seconds.
	Setup float64 `json:"setup,omitempty"`
}

// String is how long that was, for people.
func (s Span) String() string {
	switch {
	case s.Setup == 0:
		return spell(s.Seconds)
	case s.Seconds == 0:
		return spell(s.Setup)
	}
	return spell(s.Seconds) + " (server start " + spell(s.Setup) + ")"
}

func spell(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Readable reports whether this build reads records of a version.
func Readable(version int) bool { return version == RecordVersion || version == RecordVersion-1 }

// Origin is who ran a node.
type Origin struct {
	Host    string `json:"host"`
	Tool    string `json:"tool"` // version of sotabuild
	Task    string `json:"task,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Run     string `json:"run,omitempty"` // id of the apply
}

// Observed is one fact of the environment that was seen and does not bind.
type Observed struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Output returns the digest of the named output, zero if there is none.
func (r *Record) Output(name string) key.Digest {
	for _, o := range r.Outputs {
		if o.Name == name {
			return o.Digest
		}
	}
	return key.Digest{}
}

// Reader is the part of a store that plan and report need.
type Reader interface {
	// Lookup returns every record of the key, oldest first; nil if none. Only
	// records whose outputs are all present are returned.
	Lookup(key.Key) []*Record
	// History returns the records whose Node is this address, oldest first.
	History(node string) []*Record
	// Kind returns the newest record of each key of a kind, oldest first.
	Kind(kind string) []*Record
	// Open reads an object. Its digest is checked while it is read: the last
	// Read returns an error if the bytes are not those, and the object is
	// quarantined.
	Open(key.Digest) (io.ReadCloser, error)
	// Bytes reads a whole object, checked.
	Bytes(key.Digest) ([]byte, error)
	// Serial is the position of the newest record; 0 for an empty store.
	Serial() uint64
	// Defects lists what was found broken since the store was opened.
	Defects() []string
}

// Store is a Reader that can be written. Put and Object are durable when they
// return.
type Store interface {
	Reader
	// Object stores bytes and returns their digest. Storing what is there
	// already costs nothing.
	Object(io.Reader) (key.Digest, int64, error)
	// Put appends a record and returns it with its serial. Its outputs must be
	// in the store.
	Put(context.Context, Record) (*Record, error)
	// Intend writes down, before a side effect, what is about to be made
	// (a task, an image); Settle says that it is gone again. Intents lists
	// those not settled, oldest first: the next command cleans them up.
	Intend(Intent) error
	Settle(id string) error
	Intents() []Intent
	Close() error
}
