package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/sotabuild/sotabuild/engine/cache/journal"
	"github.com/sotabuild/sotabuild/engine/key"
)

// The kinds of frames in the journal. The payload of a settled intent is its
// id, of an intent JSON, of a spent name the name, and of a serial its eight
// bytes: the serial that the journal had reached when it was written anew. A lost
// one is the serial of a record that was found to lack an output.
const (
	frameRecord uint16 = 1
	frameIntend uint16 = 2
	frameSettle uint16 = 3
	frameSpend  uint16 = 4
	frameSerial uint16 = 5
	frameLost   uint16 = 6
)

// checkRecord refuses what could not be read back as it was, and puts the rest
// into canonical form. Identifiers must be UTF-8; sentences for people may
// quote a log with any bytes in it, and those become U+FFFD.
func checkRecord(r *Record) error {
	for _, s := range [...]string{r.Node, r.Kind, r.Manifest, string(r.Outcome.State), r.Outcome.Class,
		r.Origin.Host, r.Origin.Tool, r.Origin.Task, r.Origin.Run} {
		if !utf8.ValidString(s) {
			return fmt.Errorf("%q is not UTF-8", s)
		}
	}
	switch {
	case r.Key.IsZero():
		return errors.New("it has no key")
	case r.Node == "" || len(r.Node) >= 1<<16 || r.Kind == "" || len(r.Kind) >= 1<<16:
		return fmt.Errorf("node %.80q and kind %.80q must have 1 to 65535 bytes", r.Node, r.Kind)
	case r.Outcome.State != OK && r.Outcome.State != Failed && r.Outcome.State != Rejected:
		return fmt.Errorf("state %q is not one of ok, failed, rejected", r.Outcome.State)
	}
	if s := r.Time.Seconds; math.IsNaN(s) || math.IsInf(s, 0) {
		return fmt.Errorf("it took %g seconds", s)
	}
	r.Version = RecordVersion
	r.Time.Started = r.Time.Started.UTC()
	r.Outcome.Reason = readable(r.Outcome.Reason)
	r.Warnings = slices.Clone(r.Warnings)
	for i, w := range r.Warnings {
		r.Warnings[i] = readable(w)
	}
	r.Observed = slices.Clone(r.Observed)
	for i, o := range r.Observed {
		r.Observed[i] = Observed{readable(o.Name), readable(o.Value)}
	}
	r.Outputs = slices.Clone(r.Outputs)
	slices.SortFunc(r.Outputs, func(a, b Output) int { return strings.Compare(a.Name, b.Name) })
	for i, o := range r.Outputs {
		switch {
		case o.Name == "" || !utf8.ValidString(o.Name):
			return fmt.Errorf("output name %q is empty or not UTF-8", o.Name)
		case i > 0 && r.Outputs[i-1].Name == o.Name:
			return fmt.Errorf("output %q is there twice", o.Name)
		}
	}
	return nil
}

func readable(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// index finds records by key, node and kind. Entries are in the order of the
// journal; each is linked to the one before it that shares its key, node or
// kind (its number plus one; 0 ends the chain).
type index struct {
	entries    []indexEntry
	key        map[key.Key]int32
	node, kind map[string]int32
	serial     uint64
	intents    []Intent // not settled, oldest first
	spent      map[string]bool
	lost       map[uint64]bool // serials of records known to lack an output
}

type indexEntry struct {
	at                             journal.Span
	serial                         uint64
	olderKey, olderNode, olderKind int32
	key                            key.Key
}

// newIndex makes room for the records of a journal of this size, by what a
// record usually takes: growing the maps would be half the time of opening.
func newIndex(journalSize int64) index {
	n := int(min(journalSize/512, 1<<20))
	return index{entries: make([]indexEntry, 0, n), key: make(map[key.Key]int32, n), node: make(map[string]int32, n),
		kind: map[string]int32{}}
}

// add takes over one frame. An error says why its content cannot be used.
func (x *index) add(f journal.Frame) error {
	if f.Version != journal.Version {
		return fmt.Errorf("it has version %d, this build knows %d", f.Version, journal.Version)
	}
	switch f.Kind {
	case frameRecord:
		h, _, ok := decodeHead(f.Payload)
		if !ok {
			return errors.New("its head is cut short")
		}
		x.addRecord(h, f.Span)
		return nil
	case frameIntend:
		var in Intent
		if err := json.Unmarshal(f.Payload, &in); err != nil {
			return err
		}
		x.intend(in)
		return nil
	case frameSettle:
		x.settle(string(f.Payload))
		return nil
	case frameSpend:
		if x.spent == nil {
			x.spent = map[string]bool{}
		}
		x.spent[string(f.Payload)] = true
		return nil
	case frameSerial, frameLost:
		if len(f.Payload) != 8 {
			return errors.New("it holds no serial")
		}
		serial := binary.LittleEndian.Uint64(f.Payload)
		if f.Kind == frameSerial {
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

func (x *index) addRecord(h recordHead, at journal.Span) {
	e := indexEntry{at: at, serial: h.serial, key: h.key,
		olderKey: x.key[h.key], olderNode: x.node[string(h.node)], olderKind: x.kind[string(h.kind)]}
	x.entries = append(x.entries, e)
	n := int32(len(x.entries))
	x.key[h.key], x.node[string(h.node)], x.kind[string(h.kind)] = n, n, n
	x.serial = max(x.serial, h.serial)
}

// chain lists a chain's entries, oldest first, in out's memory where they fit.
func (x *index) chain(out []*indexEntry, newest int32, older func(*indexEntry) int32) []*indexEntry {
	for n := newest; n != 0; {
		e := &x.entries[n-1]
		out = append(out, e)
		n = older(e)
	}
	slices.Reverse(out)
	return out
}

// intend adds an intent, or replaces the one of the same id.
func (x *index) intend(in Intent) {
	x.settle(in.ID)
	x.intents = append(x.intents, in)
}

func (x *index) settle(id string) {
	x.intents = slices.DeleteFunc(x.intents, func(in Intent) bool { return in.ID == id })
}

func serialBytes(serial uint64) []byte { return binary.LittleEndian.AppendUint64(nil, serial) }
