// Package index finds what a journal holds: records by key, node, kind and
// serial, the intents that are not settled, the names that are spent, and the
// records known to lack an output. It is made anew from the journal's frames
// each time a store is opened, and decodes of each record only its head.
//
// It knows no outputs, no outcomes and no file. The main type is Index, which
// one goroutine at a time may use.
package index

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/sotabuild/sotabuild/engine/cache/journal"
	"github.com/sotabuild/sotabuild/engine/key"
)

// The kinds of frames in the journal. The payload of a settled intent is its
// id, of an intent JSON, of a spent name the name, and of a serial its eight
// bytes: the serial that the journal had reached when it was written anew. A lost
// one is the serial of a record that was found to lack an output.
const (
	FrameRecord uint16 = 1
	FrameIntend uint16 = 2
	FrameSettle uint16 = 3
	FrameSpend  uint16 = 4
	FrameSerial uint16 = 5
	FrameLost   uint16 = 6
)

// Intent is a side effect that may have to be undone by a later process.
type Intent struct {
	ID   string    `json:"id"`
	Kind string    `json:"kind"` // "task"
	Note string    `json:"note"` // for tasks: the executors.Handle as JSON
	At   time.Time `json:"at"`
}

// Index is the content of a journal. The zero value cannot be used; see New.
type Index struct {
	entries    []Entry
	key        map[key.Key]int32
	node, kind map[string]int32
	serial     uint64
	intents    []Intent // not settled, oldest first
	spent      map[string]bool
	lost       map[uint64]bool
}

// Entry is where a record stands. Entries are in the order of the journal; each
// is linked to the one before it that shares its key, node or kind (its number
// plus one; 0 ends the chain).
type Entry struct {
	At                             journal.Span
	Serial                         uint64
	olderKey, olderNode, olderKind int32
	Key                            key.Key
}

// New makes room for the records of a journal of this size, by what a record
// usually takes: growing the maps would be half the time of opening.
func New(journalSize int64) Index {
	n := int(min(journalSize/512, 1<<20))
	return Index{entries: make([]Entry, 0, n), key: make(map[key.Key]int32, n), node: make(map[string]int32, n),
		kind: map[string]int32{}}
}

// Add takes over one frame. An error says why its content cannot be used.
func (x *Index) Add(f journal.Frame) error {
	if f.Version != journal.Version {
		return fmt.Errorf("it has version %d, this build knows %d", f.Version, journal.Version)
	}
	switch f.Kind {
	case FrameRecord:
		h, _, ok := ParseHead(f.Payload)
		if !ok {
			return ErrHead
		}
		x.record(h, f.Span)
		return nil
	case FrameIntend:
		var in Intent
		if err := json.Unmarshal(f.Payload, &in); err != nil {
			return err
		}
		x.settle(in.ID) // it replaces the one of the same id
		x.intents = append(x.intents, in)
		return nil
	case FrameSettle:
		x.settle(string(f.Payload))
		return nil
	case FrameSpend:
		if x.spent == nil {
			x.spent = map[string]bool{}
		}
		x.spent[string(f.Payload)] = true
		return nil
	case FrameSerial, FrameLost:
		if len(f.Payload) != 8 {
			return errors.New("it holds no serial")
		}
		serial := binary.LittleEndian.Uint64(f.Payload)
		if f.Kind == FrameSerial {
			x.serial = max(x.serial, serial)
			return nil
		}
		if x.lost == nil {
			x.lost = map[uint64]bool{}
		}
		x.lost[serial] = true
		return nil
	}
	return fmt.Errorf("its kind %d is unknown to this build", f.Kind)
}

func (x *Index) record(h Head, at journal.Span) {
	e := Entry{At: at, Serial: h.Serial, Key: h.Key,
		olderKey: x.key[h.Key], olderNode: x.node[string(h.Node)], olderKind: x.kind[string(h.Kind)]}
	x.entries = append(x.entries, e)
	n := int32(len(x.entries))
	x.key[h.Key], x.node[string(h.Node)], x.kind[string(h.Kind)] = n, n, n
	x.serial = max(x.serial, h.Serial)
}

func (x *Index) settle(id string) {
	x.intents = slices.DeleteFunc(x.intents, func(in Intent) bool { return in.ID == id })
}

// chain lists a chain's entries, oldest first, in out's memory where they fit.
func (x *Index) chain(out []*Entry, newest int32, older func(*Entry) int32) []*Entry {
	for n := newest; n != 0; {
		e := &x.entries[n-1]
		out = append(out, e)
		n = older(e)
	}
	slices.Reverse(out)
	return out
}

// Key lists the records of a key, oldest first, in out's memory where they fit.
// Entries stay as they are when the index grows.
func (x *Index) Key(out []*Entry, k key.Key) []*Entry {
	return x.chain(out, x.key[k], func(e *Entry) int32 { return e.olderKey })
}

// Node lists the records of an address, oldest first.
func (x *Index) Node(addr string) []*Entry {
	return x.chain(nil, x.node[addr], func(e *Entry) int32 { return e.olderNode })
}

// Kind lists the newest record of each key of a kind, oldest first.
func (x *Index) Kind(kind string) []*Entry {
	list := x.chain(nil, x.kind[kind], func(e *Entry) int32 { return e.olderKind })
	newest := map[key.Key]*Entry{}
	for _, e := range list {
		newest[e.Key] = e
	}
	return slices.DeleteFunc(list, func(e *Entry) bool { return newest[e.Key] != e })
}

// All lists every record, in the order of the journal.
func (x *Index) All() []*Entry {
	list := make([]*Entry, len(x.entries))
	for i := range list {
		list[i] = &x.entries[i]
	}
	return list
}

// Find returns the record of a serial; nil if there is none.
func (x *Index) Find(serial uint64) *Entry {
	i, ok := slices.BinarySearchFunc(x.entries, serial, func(e Entry, n uint64) int { return cmp.Compare(e.Serial, n) })
	if !ok {
		return nil
	}
	return &x.entries[i]
}

// End is the byte after the last record; 0 where there is none.
func (x *Index) End() int64 {
	if len(x.entries) == 0 {
		return 0
	}
	return x.entries[len(x.entries)-1].At.To
}

// Serial is the position of the newest record; 0 if there never was one.
func (x *Index) Serial() uint64 { return x.serial }

// Lost says whether a record is known to lack an output.
func (x *Index) Lost(serial uint64) bool { return x.lost[serial] }

// Intents lists the intents not settled, oldest first. The caller owns them.
func (x *Index) Intents() []Intent { return slices.Clone(x.intents) }

// Spent says whether a name was used up.
func (x *Index) Spent(name string) bool { return x.spent[name] }

// SpentNames lists them, sorted.
func (x *Index) SpentNames() []string { return slices.Sorted(maps.Keys(x.spent)) }
