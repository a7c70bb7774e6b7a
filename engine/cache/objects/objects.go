// Package objects is a folder of immutable files named by the sha256 of their
// bytes: cas/ab/<62 hex>, mode 0444, each come into being by rename, whole and
// synced. It knows no records.
//
// A broken object is a miss: the error is ErrMissing, the file is moved out of
// the way, and the caller of New is told in a sentence. A Store is safe for
// concurrent use; several processes may read, one may write.
package objects

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/engine/cache/durable"
	"github.com/sotabuild/sotabuild/engine/key"
)

// ErrMissing is in the chain of every error about an object that is not in the
// store, or was and turned out broken. Its producer must run again.
var ErrMissing = errors.New("the object is not in the store")

// Store is the folder. Make it with New.
type Store struct {
	dir    string
	cas    string // the folder of objects, with the separator at its end
	writer bool
	disk   durable.Disk
	defect func(format string, args ...any)

	open sync.Once // of a reader's folder
	held *os.File  // keeps it open; nil: by path
	at   int       // its descriptor; -1: by path

	mu sync.Mutex
	// sound are the objects that this process has read whole and found right,
	// broken those found wrong and not stored again since; guarded by mu.
	sound, broken map[key.Digest]bool
}

// New is the store of objects in dir, which holds cas, tmp and quarantine. Only
// a writer may Put, and moves broken objects away; a reader leaves them to it.
// defect is told what is found broken, at most once an object; it must not call
// back.
func New(dir string, writer bool, disk durable.Disk, defect func(format string, args ...any)) *Store {
	return &Store{
		dir: dir, cas: filepath.Join(dir, "cas") + string(filepath.Separator), writer: writer, disk: disk, defect: defect,
		sound: map[key.Digest]bool{}, broken: map[key.Digest]bool{},
	}
}

func (o *Store) file(d key.Digest) string { return o.cas + name(d) }

// name is an object's name in cas. It is made by hand: a plan asks for every
// output of every node.
func name(d key.Digest) string {
	var b [2*len(d) + 1]byte
	hex.Encode(b[:], d[:1])
	b[2] = filepath.Separator
	hex.Encode(b[3:], d[1:])
	return string(b[:])
}

// stat looks at an object's file. A reader does so from the folder of objects
// as it first found it, which spares the kernel the way there each time; what it
// does not find there it looks for by the path. A writer goes by the path at
// once: it must see what it has just written.
func (o *Store) stat(d key.Digest, st *unix.Stat_t) error {
	if at := o.folder(); at >= 0 && unix.Fstatat(at, name(d), st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return nil
	}
	return o.disk.Look(o.file(d), st)
}

// folder is the open folder of objects, -1 for a writer, where there is none, and
// where a test hides files.
func (o *Store) folder() int {
	if o.writer || o.disk.See != nil {
		return -1
	}
	o.open.Do(func() {
		o.at = -1
		if f, err := os.OpenFile(o.cas, unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
			o.held, o.at = f, int(f.Fd())
		}
	})
	return o.at
}

// Close lets go of the folder. The Store is of no use afterwards.
func (o *Store) Close() error {
	o.folder()
	if o.held == nil {
		return nil
	}
	return o.held.Close()
}

// Has reports whether an object of this size is there. It reads no bytes.
func (o *Store) Has(d key.Digest, size int64) bool {
	o.mu.Lock()
	broken := o.broken[d]
	o.mu.Unlock()
	if broken {
		return false
	}
	var st unix.Stat_t
	err := o.stat(d, &st)
	switch {
	case gone(err):
		o.defect("object %s is missing", d)
		return false
	case err != nil:
		o.defect("object %s cannot be read: %v", d, err)
		return false
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		o.foreign(d)
		return false
	case st.Size != size:
		// Which of the two is wrong, the file or who asks? Its bytes say.
		o.mu.Lock()
		delete(o.sound, d)
		o.mu.Unlock()
		switch err := o.Verify(d); {
		case err == nil:
			o.defect("object %s has %d bytes and is looked for with %d", d, st.Size, size)
		case !errors.Is(err, ErrMissing):
			o.defect("object %s cannot be read: %v", d, err)
		}
		return false
	}
	return true
}

// gone reports whether there is nothing at an object's path. What stands in the
// place of its folder holds none.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// foreign takes what has an object's name and is no plain file out of the way: a
// link's bytes are not the store's own, and a pipe would be waited for.
func (o *Store) foreign(d key.Digest) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.broken[d] {
		o.condemn(d, "is no plain file")
	}
}

// spoil takes a broken object, read through f, out of the way.
func (o *Store) spoil(d key.Digest, f *os.File) {
	o.mu.Lock()
	defer o.mu.Unlock()
	read, errRead := f.Stat()
	now, errNow := os.Lstat(o.file(d))
	if o.broken[d] || (errRead == nil && errNow == nil && !os.SameFile(read, now)) {
		return // known, or stored again meanwhile
	}
	o.condemn(d, "holds other bytes than were stored")
}

// condemn is what foreign and spoil do, under the lock. A reader has no right to
// move anything: it remembers, says so, and leaves it to the next writer.
func (o *Store) condemn(d key.Digest, why string) {
	o.broken[d] = true
	delete(o.sound, d)
	if !o.writer {
		o.defect("object %s %s", d, why)
		return
	}
	switch to, err := o.aside(o.file(d), hex.EncodeToString(d[:])); {
	case err == nil:
		o.defect("object %s %s: moved to %s", d, why, to)
	case errors.Is(err, fs.ErrNotExist):
		o.defect("object %s %s", d, why)
	default:
		o.defect("object %s %s and cannot be quarantined: %v", d, why, err)
	}
}

// aside moves something into quarantine, beside what lies there by its name.
func (o *Store) aside(from, name string) (to string, err error) {
	to = filepath.Join(o.dir, "quarantine", name)
	for n := 2; ; n++ {
		if _, err := os.Lstat(to); err != nil {
			return to, os.Rename(from, to)
		}
		to = filepath.Join(o.dir, "quarantine", fmt.Sprintf("%s-%d", name, n))
	}
}

// Open reads an object and checks it on the way. Reaching the end is what
// checks it; a reader that stops earlier has unchecked bytes.
func (o *Store) Open(d key.Digest) (io.ReadCloser, error) {
	o.mu.Lock()
	broken := o.broken[d]
	o.mu.Unlock()
	if broken {
		return nil, fmt.Errorf("opening object %s: it is broken: %w", d, ErrMissing)
	}
	var st unix.Stat_t
	err := o.disk.Look(o.file(d), &st)
	var f *os.File
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		o.foreign(d)
		return nil, fmt.Errorf("opening object %s: it is no plain file: %w", d, ErrMissing)
	}
	if err == nil {
		f, err = os.Open(o.file(d))
	}
	if err != nil && gone(err) {
		return nil, fmt.Errorf("opening object %s: %w", d, ErrMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("opening object: %w", err)
	}
	return &checked{o: o, d: d, f: f, h: sha256.New()}, nil
}

type checked struct {
	o *Store
	d key.Digest
	f *os.File
	h hash.Hash
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.f.Read(p)
	c.h.Write(p[:n])
	if err != io.EOF {
		return n, err
	}
	if key.Digest(c.h.Sum(nil)) != c.d {
		c.o.spoil(c.d, c.f)
		return n, fmt.Errorf("reading object %s: its bytes are not those that were stored: %w", c.d, ErrMissing)
	}
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	c.o.sound[c.d] = true
	return n, io.EOF
}

func (c *checked) Close() error { return c.f.Close() }

func (o *Store) Bytes(d key.Digest) ([]byte, error) {
	r, err := o.Open(d)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Verify reads an object whole, once in this process; afterwards it only looks
// whether the file is still there.
func (o *Store) Verify(d key.Digest) error {
	o.mu.Lock()
	sound := o.sound[d]
	o.mu.Unlock()
	if sound {
		if _, err := os.Lstat(o.file(d)); err == nil {
			return nil
		}
	}
	r, err := o.Open(d)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, make([]byte, 256<<10))
	return errors.Join(err, r.Close())
}

// Path returns the object's file after its bytes were found right.
func (o *Store) Path(d key.Digest) (string, error) {
	if err := o.Verify(d); err != nil {
		return "", err
	}
	path, err := filepath.Abs(o.file(d))
	if err != nil {
		return "", fmt.Errorf("locating object %s: %w", d, err)
	}
	return path, nil
}

// Put writes an object: to a name of its own, synced, renamed, and the folder
// synced, so that it is either not there or whole for good. One that is there
// already is read once before it is believed.
func (o *Store) Put(r io.Reader) (d key.Digest, size int64, err error) {
	tmp, err := os.CreateTemp(filepath.Join(o.dir, "tmp"), "object-*")
	if err != nil {
		return d, 0, fmt.Errorf("storing an object: %w", err)
	}
	keep := false
	defer func() {
		err = errors.Join(err, tmp.Close())
		if !keep {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
		if err != nil {
			d, size, err = key.Digest{}, 0, fmt.Errorf("storing an object: %w", err)
		}
	}()
	h := sha256.New()
	size, err = io.CopyBuffer(io.MultiWriter(tmp, h), struct{ io.Reader }{r}, make([]byte, 256<<10))
	if err != nil {
		return d, size, err
	}
	h.Sum(d[:0])
	to := o.file(d)
	if err := o.Verify(d); err == nil {
		// Its folder entry may be younger than the last power failure.
		return d, size, durable.Sync(filepath.Dir(to))
	} else if !errors.Is(err, ErrMissing) {
		return d, size, err
	}
	if err := errors.Join(tmp.Chmod(0o444), tmp.Sync(), o.shard(d)); err != nil {
		return d, size, err
	}
	if err := o.place(tmp, d); err != nil {
		return d, size, err
	}
	keep = true
	return d, size, durable.Sync(filepath.Dir(to))
}

// shard makes an object's folder. What stands there and is none is moved away.
func (o *Store) shard(d key.Digest) error {
	dir := filepath.Dir(o.file(d))
	err := durable.Folder(dir)
	if errors.Is(err, unix.ENOTDIR) {
		o.stray(filepath.Base(dir))
		err = durable.Folder(dir)
	}
	return err
}

// place gives a whole object its name. It is under the lock so that nobody
// takes the new file for the broken one it replaces.
func (o *Store) place(tmp *os.File, d key.Digest) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.disk.Place(tmp, o.file(d)); err != nil {
		return err
	}
	o.sound[d] = true
	delete(o.broken, d)
	return nil
}

// Remove deletes an object.
func (o *Store) Remove(d key.Digest) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.sound, d)
	return os.Remove(o.file(d))
}

// Holds is Has for an object that is known to be gone: that it still is, is no
// defect.
func (o *Store) Holds(d key.Digest, size int64) bool {
	o.mu.Lock()
	broken := o.broken[d]
	o.mu.Unlock()
	var st unix.Stat_t
	return !broken && o.disk.Look(o.file(d), &st) == nil && st.Size == size
}

// Walk visits the objects by name. What is no object – it has no object's name,
// or is no plain file – is a defect, which a writer moves away. One that
// vanishes meanwhile is passed over.
func (o *Store) Walk(visit func(d key.Digest, fi fs.FileInfo) error) error {
	root := filepath.Join(o.dir, "cas")
	shards, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listing objects: %w", err)
	}
	for _, shard := range shards {
		if !shard.IsDir() {
			o.stray(shard.Name())
			continue
		}
		files, err := os.ReadDir(filepath.Join(root, shard.Name()))
		if err != nil {
			return fmt.Errorf("listing objects: %w", err)
		}
		for _, f := range files {
			var d key.Digest
			b, err := hex.DecodeString(shard.Name() + f.Name())
			if err != nil || len(shard.Name()) != 2 || len(b) != len(d) || !f.Type().IsRegular() {
				o.stray(filepath.Join(shard.Name(), f.Name()))
				continue
			}
			copy(d[:], b)
			fi, err := f.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return fmt.Errorf("listing object %s: %w", d, err)
			}
			if err := visit(d, fi); err != nil {
				return err
			}
		}
	}
	return nil
}

// stray tells of something in cas that is no object, and takes it out of the
// way.
func (o *Store) stray(name string) {
	if !o.writer {
		o.defect("cas/%s is no object", name)
		return
	}
	to, err := o.aside(filepath.Join(o.dir, "cas", name), "stray-"+key.Sum([]byte(name)).Short())
	if err != nil {
		o.defect("cas/%s is no object and cannot be quarantined: %v", name, err)
		return
	}
	o.defect("cas/%s is no object: moved to %s", name, to)
}
