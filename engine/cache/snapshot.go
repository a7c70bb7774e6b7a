package cache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/engine/cache/defect"
	"github.com/sotabuild/sotabuild/engine/cache/durable"
	"github.com/sotabuild/sotabuild/engine/cache/index"
	"github.com/sotabuild/sotabuild/engine/cache/journal"
	"github.com/sotabuild/sotabuild/engine/cache/objects"
	"github.com/sotabuild/sotabuild/engine/key"
)

// Snapshot is a store as it was when it was opened for reading: a prefix of the
// journal. It takes no lock, changes nothing, and may be used while a writer is
// at work. It is safe for concurrent use.
type Snapshot struct {
	dir     string
	id      string
	writer  bool // may quarantine
	disk    durable.Disk
	file    *os.File // the journal; nil: there is none
	objects *objects.Store
	defects *defect.List

	mu    sync.Mutex
	index index.Index // guarded by mu; only a writer's changes

	strange []journal.Span // whole entries that this build cannot use, in order

	reading sync.Mutex
	reader  *journal.Reader // guarded by reading
}

// OpenReader opens the store in dir for reading. A store that does not exist
// reads as an empty one. Cost: one pass over the journal, about 1 µs a record.
func OpenReader(dir string) (*Snapshot, error) {
	s := newSnapshot(dir, false, durable.Disk{})
	id, err := readID(dir)
	if err != nil {
		return nil, err
	}
	s.id = id
	f, err := plain(filepath.Join(dir, "journal"), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening store %s: %w", dir, err)
	}
	s.file = f
	// What stands at the end and is no whole frame may be one that a writer is
	// at. It is left out and is no defect.
	if _, err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("opening store %s: %w", dir, err), f.Close())
	}
	return s, nil
}

func newSnapshot(dir string, writer bool, disk durable.Disk) *Snapshot {
	d := &defect.List{}
	return &Snapshot{dir: dir, writer: writer, disk: disk, defects: d, objects: objects.New(dir, writer, disk, d.Add), index: index.New(0)}
}

// load reads the journal and returns what stands after its last whole frame.
// Damaged stretches between whole frames are defects.
func (s *Snapshot) load() (tail journal.Span, err error) {
	fi, err := s.file.Stat()
	if err != nil {
		return tail, err
	}
	s.index, s.reader, s.strange = index.New(fi.Size()), journal.NewReader(s.file), nil
	return journal.Scan(s.file, fi.Size(), func(f journal.Frame) {
		if err := s.index.Add(f); err != nil {
			s.strange = append(s.strange, f.Span)
			s.defects.Add("journal: the entry at byte %d is passed over: %v", f.Span.From, err)
		}
	}, s.damaged)
}

// damaged says that a stretch of the journal is no entry, and lets a writer
// keep a copy of it.
func (s *Snapshot) damaged(bad journal.Span) {
	said := fmt.Sprintf("journal: bytes %d to %d are no whole entry", bad.From, bad.To)
	if !s.writer {
		s.defects.Add("%s", said)
		return
	}
	to, err := s.copied(bad)
	if err != nil {
		s.defects.Add("%s and cannot be quarantined: %v", said, err)
		return
	}
	s.defects.Add("%s: copied to %s", said, to)
}

// copied copies a stretch of the journal into quarantine.
func (s *Snapshot) copied(at journal.Span) (to string, err error) {
	to = filepath.Join(s.dir, "quarantine", fmt.Sprintf("journal-%d", at.From))
	b := make([]byte, at.To-at.From)
	if _, err := s.file.ReadAt(b, at.From); err != nil {
		return "", err
	}
	return to, s.disk.File(to, filepath.Join(s.dir, "tmp"), b)
}

// ID is the store's own random name; "" for a store that does not exist.
func (s *Snapshot) ID() string { return s.id }

// Serial is the position of the newest record; 0 for an empty store.
func (s *Snapshot) Serial() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index.Serial()
}

// Lookup returns the key's records whose outputs are all present with their
// sizes, oldest first. Cost: a read and a parse for each record, a stat for
// each output. The caller owns the records.
func (s *Snapshot) Lookup(k key.Key) []*Record {
	s.mu.Lock()
	var few [4]*index.Entry
	list := s.index.Key(few[:0], k)
	s.mu.Unlock()
	found := slices.DeleteFunc(s.read(list), func(r *Record) bool { return !s.complete(r) })
	if len(found) == 0 {
		return nil
	}
	return found
}

// complete reports whether a record's outputs are all there. All are looked
// for, so that each one that is not is a defect.
func (s *Snapshot) complete(r *Record) bool {
	if s.lost(r.Serial) {
		return !slices.ContainsFunc(r.Outputs, func(o Output) bool { return !s.objects.Holds(o.Digest, o.Size) })
	}
	ok := true
	for _, o := range r.Outputs {
		ok = s.objects.Has(o.Digest, o.Size) && ok
	}
	return ok
}

// lost reports whether Repair found that a record lacks an output.
func (s *Snapshot) lost(serial uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index.Lost(serial)
}

// History returns the records whose Node is this address, oldest first, also
// those whose outputs are gone.
func (s *Snapshot) History(node string) []*Record {
	s.mu.Lock()
	list := s.index.Node(node)
	s.mu.Unlock()
	return s.read(list)
}

// Intents lists the intents not settled, oldest first.
func (s *Snapshot) Intents() []Intent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index.Intents()
}

// Record returns the record of a serial, also one whose outputs are gone; nil if
// there is none.
func (s *Snapshot) Record(serial uint64) *Record {
	s.mu.Lock()
	e := s.index.Find(serial)
	s.mu.Unlock()
	if e == nil {
		return nil
	}
	if found := s.read([]*index.Entry{e}); len(found) == 1 {
		return found[0]
	}
	return nil
}

// Kind returns the newest record of each key of a kind, oldest first.
func (s *Snapshot) Kind(kind string) []*Record {
	s.mu.Lock()
	list := s.index.Kind(kind)
	s.mu.Unlock()
	return s.read(list)
}

// read parses entries. One that cannot be read is a defect and left out.
func (s *Snapshot) read(list []*index.Entry) []*Record {
	if len(list) == 0 {
		return nil
	}
	s.mu.Lock()
	end := s.index.End()
	s.mu.Unlock()
	s.reading.Lock()
	defer s.reading.Unlock()
	out := make([]*Record, 0, len(list))
	for _, e := range list {
		var r *Record
		f, err := s.reader.Read(e.At, end)
		if err == nil {
			r, err = decodeRecord(f.Payload)
		}
		if err != nil {
			s.defects.Add("journal: the record at byte %d cannot be read: %v", e.At.From, err)
			continue
		}
		out = append(out, r)
	}
	return out
}

// Open reads an object; see Reader.
func (s *Snapshot) Open(d key.Digest) (io.ReadCloser, error) { return s.objects.Open(d) }

// Bytes reads a whole object, checked.
func (s *Snapshot) Bytes(d key.Digest) ([]byte, error) { return s.objects.Bytes(d) }

// Path is a file with the object's bytes, absolute, which must not be changed.
// The bytes are checked the first time in a process.
func (s *Snapshot) Path(d key.Digest) (string, error) { return s.objects.Path(d) }

// Defects lists what was found broken since the store was opened, in the order
// it was found, each once.
func (s *Snapshot) Defects() []string { return s.defects.All() }

// Close ends reading.
func (s *Snapshot) Close() error {
	err := s.objects.Close()
	if s.file == nil {
		return err
	}
	return errors.Join(err, s.file.Close())
}

// readID reads the store's name; "" if it has none.
func readID(dir string) (string, error) {
	path := filepath.Join(dir, "id")
	f, err := plain(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("opening store %s: %w", dir, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, idLen+2))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("opening store %s: %w", dir, err)
	}
	id := strings.TrimSuffix(string(b), "\n")
	if len(id) != idLen || strings.Trim(id, "0123456789abcdef") != "" {
		return "", fmt.Errorf("opening store %s: its id file holds %.40q, want %d hex digits; if the folder is no store of ours choose another, else delete %s: it gets a new name", dir, id, idLen, path)
	}
	return id, nil
}

// plain opens a regular file. Anything else is an error, before it can be waited
// for.
func plain(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file; move it away", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
