package cache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/sotabuild/sotabuild/engine/cache/index"
	"github.com/sotabuild/sotabuild/engine/cache/journal"
	"github.com/sotabuild/sotabuild/engine/key"
)

// Records returns every record that can be read, oldest first, also those whose
// outputs are gone.
func (s *Snapshot) Records() []*Record {
	s.mu.Lock()
	list := s.index.All()
	s.mu.Unlock()
	return s.read(list)
}

// Unusable lists the entries of the journal that this build can make nothing of,
// in order: another build wrote them, or they are damaged under a right checksum.
func (s *Snapshot) Unusable() []journal.Span {
	s.mu.Lock()
	list := s.index.All()
	s.mu.Unlock()
	out := slices.Clone(s.strange)
	for _, e := range list {
		if len(s.read([]*index.Entry{e})) == 0 {
			out = append(out, e.At)
		}
	}
	slices.SortFunc(out, func(a, b journal.Span) int { return cmp.Compare(a.From, b.From) })
	return out
}

// Rewrite writes the journal anew with the records that keep names, and with
// what else still holds: unsettled intents, spent names, the
// serial, what is known to be lost. Damaged
// stretches and what is Unusable are left out. Until it returns, and after an error or a crash, the
// old journal stands. Nothing else may use the store meanwhile; afterwards it
// holds the new journal. Readers that are open keep the old one.
func (l *Local) Rewrite(keep func(*Record) bool) error {
	l.append.Lock()
	defer l.append.Unlock()
	if l.journal == nil {
		return errClosed
	}
	if err := l.writable(); err != nil {
		return err
	}
	b, err := l.encodeAnew(keep)
	if err != nil {
		return fmt.Errorf("rewriting the journal: %w", err)
	}
	path := filepath.Join(l.dir, "journal")
	if err := l.disk.File(path, filepath.Join(l.dir, "tmp"), b); err != nil {
		return fmt.Errorf("rewriting the journal: %w", err)
	}
	l.journal = nil // the old one must not be appended to whatever comes
	f, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("opening the new journal: %w", err)
	}
	old := l.file
	l.file = f
	tail, err := l.load()
	if err = errors.Join(err, old.Close()); err != nil {
		return fmt.Errorf("opening the new journal: %w", err)
	}
	l.journal, err = journal.NewWriter(f, tail.From)
	return err
}

func (l *Local) encodeAnew(keep func(*Record) bool) ([]byte, error) {
	l.mu.Lock()
	spent, intents, serial := l.index.SpentNames(), l.index.Intents(), l.index.Serial()
	l.mu.Unlock()
	var b []byte
	b = journal.AppendFrame(b, index.FrameSerial, index.SerialBytes(nil, serial))
	for _, name := range spent {
		b = journal.AppendFrame(b, index.FrameSpend, []byte(name))
	}
	for _, in := range intents {
		payload, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		b = journal.AppendFrame(b, index.FrameIntend, payload)
	}
	for _, r := range l.Records() {
		if !keep(r) {
			continue
		}
		b = journal.AppendFrame(b, index.FrameRecord, encodeRecord(r))
		if l.lost(r.Serial) {
			b = journal.AppendFrame(b, index.FrameLost, index.SerialBytes(nil, r.Serial))
		}
	}
	return b, nil
}

// Remove deletes an object. Records that name it are a miss from then on; gc
// takes them out of the journal first.
func (l *Local) Remove(d key.Digest) error {
	if err := l.objects.Remove(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing object %s: %w", d, err)
	}
	return nil
}

// Objects visits the objects that lie in the store, by name. Files that have no
// object's name are defects.
func (s *Snapshot) Objects(visit func(d key.Digest, fi fs.FileInfo) error) error {
	return s.objects.Walk(visit)
}
