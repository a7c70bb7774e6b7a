package cache

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/sotabuild/sotabuild/engine/cache/durable"
	"github.com/sotabuild/sotabuild/engine/cache/index"
	"github.com/sotabuild/sotabuild/engine/cache/journal"
	"github.com/sotabuild/sotabuild/engine/cache/lock"
	"github.com/sotabuild/sotabuild/engine/key"
)

// Options are what a writer brings along.
type Options struct {
	// Command is what others are told who want the store meanwhile, such as
	// "sotabuild apply". It must hold no secret.
	Command string
	// Now is the clock; nil is the system's.
	Now func() time.Time
	// Disk is where files are placed and looked for; zero is the system's.
	Disk durable.Disk
}

// Local is the store beside the campaign, open for writing:
//
//	cas/ab/<62 hex>  objects
//	journal          records and intents, append-only; see package journal
//	lock             held by the one writer, and names it
//	id               the store's own random name
//	quarantine/      what was found broken
//	tmp/             objects being written
//
// The index is built from the journal when the store is opened. Deleting the
// folder is always safe: what was in it is a miss.
type Local struct {
	*Snapshot
	lock *lock.Lock

	append  sync.Mutex      // one append at a time
	journal *journal.Writer // guarded by append; nil when closed
}

var _ Store = (*Local)(nil)

const idLen = 32

// OpenLocal opens the store in dir for writing and makes it if it is not there.
// A store that another process writes is a *LockedError. A cut frame at the end
// of the journal, left by a writer that died, is cut off and is a defect.
func OpenLocal(dir string, o Options) (*Local, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := prepare(dir); err != nil {
		return nil, fmt.Errorf("opening store %s: %w", dir, err)
	}
	lk, err := lock.Acquire(dir, o.Command, o.Now)
	if err != nil {
		return nil, err
	}
	l := &Local{Snapshot: newSnapshot(dir, true, o.Disk), lock: lk}
	err = l.open()
	if err == nil {
		err = sweep(dir, o.Now())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening store %s: %w", dir, err), l.Snapshot.Close(), lk.Release())
	}
	return l, nil
}

// prepare makes the store's folder, private. A folder that is no store yet, is
// open to others and holds something is somebody's own: it is refused rather
// than closed to them. (A private one may hold what belongs beside a store.)
func prepare(dir string) error {
	if err := durable.Folder(dir); err != nil {
		return err
	}
	fi, err := os.Stat(dir)
	if err != nil {
		return err
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	isID := func(n os.DirEntry) bool { return n.Name() == "id" }
	if fi.Mode().Perm()&0o077 != 0 && len(names) > 0 && !slices.ContainsFunc(names, isID) {
		return fmt.Errorf("it is no store and holds %q; choose a folder of its own", names[0].Name())
	}
	return os.Chmod(dir, 0o700)
}

// open reads or makes everything, under the lock.
func (l *Local) open() error {
	// Whatever is in tmp belongs to a writer that is dead.
	if err := os.RemoveAll(filepath.Join(l.dir, "tmp")); err != nil {
		return err
	}
	for _, name := range []string{"tmp", "cas", "quarantine"} {
		if err := durable.Folder(filepath.Join(l.dir, name)); err != nil {
			return err
		}
	}
	var err error
	if l.id, err = Name(l.dir); err != nil {
		return err
	}
	l.file, err = plain(filepath.Join(l.dir, "journal"), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	if err := durable.Sync(l.dir); err != nil {
		return err
	}
	tail, err := l.load()
	if err != nil {
		return err
	}
	if !tail.Empty() {
		l.damaged(tail)
	}
	l.journal, err = journal.NewWriter(l.file, tail.From)
	return err
}

// Files beside the journal are written under these names first, by whoever, and
// without the lock. One that has stood for halfWritten is that of a process that
// died before it gave it its own.
var temporary = []string{".new-*", ".task-*", "*.tmp-*"}

const halfWritten = time.Minute

// sweep removes what was left half-written beside the journal.
func sweep(dir string, now time.Time) error {
	for _, folder := range []string{dir, filepath.Join(dir, "host"), filepath.Join(dir, "events")} {
		names, err := os.ReadDir(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, n := range names {
			fits := func(pattern string) bool {
				ok, _ := filepath.Match(pattern, n.Name()) // the patterns are good
				return ok
			}
			fi, err := n.Info()
			if err != nil || !fi.Mode().IsRegular() || now.Sub(fi.ModTime()) < halfWritten || !slices.ContainsFunc(temporary, fits) {
				continue
			}
			if err := os.Remove(filepath.Join(folder, n.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// Name returns the random name of the store in dir, and gives it one first if it
// has none. It takes no lock: of two that name a store at once, one wins.
func Name(dir string) (string, error) {
	if err := prepare(dir); err != nil {
		return "", fmt.Errorf("naming store %s: %w", dir, err)
	}
	if id, err := readID(dir); err != nil || id != "" {
		return id, err
	}
	var b [idLen / 2]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	if err := durable.New(filepath.Join(dir, "id"), []byte(hex.EncodeToString(b[:])+"\n")); err != nil {
		return "", fmt.Errorf("naming store %s: %w", dir, err)
	}
	return readID(dir)
}

// Object stores bytes and returns their digest and number. They are durable
// when it returns.
func (l *Local) Object(r io.Reader) (key.Digest, int64, error) {
	if err := l.writable(); err != nil {
		return key.Digest{}, 0, fmt.Errorf("storing an object: %w", err)
	}
	return l.objects.Put(r)
}

// Put appends a record; it is durable when it returns. Its outputs must be in
// the store. Version and Serial are set, outputs sorted, times UTC.
func (l *Local) Put(ctx context.Context, r Record) (*Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("recording %s: %w", r.Node, err)
	}
	l.append.Lock()
	defer l.append.Unlock()
	payload, err := l.prepared(&r, l.Serial()+1)
	if err != nil {
		return nil, err
	}
	if err := l.write(index.FrameRecord, payload); err != nil {
		return nil, fmt.Errorf("recording %s: %w", r.Node, err)
	}
	return &r, nil
}

// Import appends records that were made elsewhere, such as those kept in a run
// directory, as Put does, but syncs once for all of them: after an error or a
// crash the first so many of them may be there.
func (l *Local) Import(ctx context.Context, records []Record) error {
	l.append.Lock()
	defer l.append.Unlock()
	if l.journal == nil {
		return errClosed
	}
	if err := l.writable(); err != nil {
		return err
	}
	for i, r := range records {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("importing %s: %w", r.Node, err)
		}
		payload, err := l.prepared(&r, l.Serial()+1)
		if err != nil {
			return fmt.Errorf("importing record %d of %d: %w", i+1, len(records), err)
		}
		at, err := l.journal.Add(index.FrameRecord, payload)
		if err == nil {
			err = l.indexed(index.FrameRecord, payload, at)
		}
		if err != nil {
			return fmt.Errorf("importing %s: %w", r.Node, err)
		}
	}
	return l.journal.Sync()
}

// prepared checks a record and encodes it with its serial.
func (l *Local) prepared(r *Record, serial uint64) ([]byte, error) {
	if err := checkRecord(r); err != nil {
		return nil, fmt.Errorf("recording %q: %w", r.Node, err)
	}
	for _, o := range r.Outputs {
		if !l.objects.Has(o.Digest, o.Size) {
			return nil, fmt.Errorf("recording %s: output %q: object %s of %d bytes: %w", r.Node, o.Name, o.Digest, o.Size, ErrMissing)
		}
	}
	r.Serial = serial
	return encodeRecord(r), nil
}

// Intend writes an intent down; it is durable when it returns. A second intent
// of the same id replaces the first.
func (l *Local) Intend(in Intent) error {
	if in.ID == "" || !utf8.ValidString(in.ID) {
		return fmt.Errorf("intending %q: its id is empty or not UTF-8", in.ID)
	}
	in.At = in.At.UTC()
	payload, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("intending %s: %w", in.ID, err)
	}
	l.append.Lock()
	defer l.append.Unlock()
	if err := l.write(index.FrameIntend, payload); err != nil {
		return fmt.Errorf("intending %s: %w", in.ID, err)
	}
	return nil
}

// Settle writes down that an intent's side effect is gone. Settling what is
// settled is no error: a killed process may have come to the same end.
func (l *Local) Settle(id string) error {
	l.append.Lock()
	defer l.append.Unlock()
	if !slices.ContainsFunc(l.Intents(), func(in Intent) bool { return in.ID == id }) {
		return nil
	}
	if err := l.write(index.FrameSettle, []byte(id)); err != nil {
		return fmt.Errorf("settling %s: %w", id, err)
	}
	return nil
}

// ErrSpent says that a name was spent before.
var ErrSpent = errors.New("it was used before")

// Spend uses up a name, such as that of a saved plan, for as long as the store
// lives; a second time is ErrSpent. It is durable when it returns.
func (l *Local) Spend(name string) error {
	if name == "" || !utf8.ValidString(name) {
		return fmt.Errorf("spending %q: it is empty or not UTF-8", name)
	}
	l.append.Lock()
	defer l.append.Unlock()
	if l.Spent(name) {
		return fmt.Errorf("spending %q: %w", name, ErrSpent)
	}
	if err := l.write(index.FrameSpend, []byte(name)); err != nil {
		return fmt.Errorf("spending %q: %w", name, err)
	}
	return nil
}

// Spent reports whether a name was used up.
func (l *Local) Spent(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index.Spent(name)
}

// write appends one frame and takes it into the index. The caller holds append.
func (l *Local) write(kind uint16, payload []byte) error {
	if l.journal == nil {
		return errClosed
	}
	if err := l.writable(); err != nil {
		return err
	}
	at, err := l.journal.Append(kind, payload)
	if err != nil {
		return err
	}
	return l.indexed(kind, payload, at)
}

func (l *Local) indexed(kind uint16, payload []byte, at journal.Span) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index.Add(journal.Frame{Span: at, Version: journal.Version, Kind: kind, Payload: payload})
}

var errClosed = errors.New("the store is closed")

// writable says whether what is written would be found again: the folder may
// have been deleted, and even made again by another process.
func (l *Local) writable() error {
	if !lock.SamePath(l.file, filepath.Join(l.dir, "journal")) {
		return fmt.Errorf("store %s was closed, or deleted while it was in use; open it again", l.dir)
	}
	return nil
}

// Close lets the next writer in. Closing twice is an error.
func (l *Local) Close() error {
	l.append.Lock()
	defer l.append.Unlock()
	if l.journal == nil {
		return errClosed
	}
	l.journal = nil
	return errors.Join(l.Snapshot.Close(), l.lock.Release())
}
