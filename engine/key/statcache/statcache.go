// Package statcache remembers the digests of files by what stat says of them,
// so that a file which did not change is not read again.
//
// It knows no trees and reads no file but its own. What it remembers can only
// save time: a damaged cache file is an empty one. Which stamps are safe to
// remember is the caller's to judge. A Cache is safe for concurrent use.
package statcache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"
)

// The cache file: a head, then one frame a folder,
//
//	u32 length of the payload, u64 XXH64 of the payload, payload
//	payload: i32 day of last use, u16 length of the path, path, entries
//	entry:   Stamp (6 × u64), digest, u16 length of the name, name
//
// all little-endian, entries sorted by name. A folder's entries are decoded
// when they are first asked for.
const (
	statHead  = "sotabuild files 1\n"
	stampSize = 6 * 8
	// forgetDays is how long a folder that nobody asks for is remembered.
	forgetDays = 60
)

// Stamp is what must be unchanged for a file's bytes to be unchanged.
type Stamp struct {
	Size, Mtime, Ctime int64 // bytes; nanoseconds since 1970
	Dev, Ino, Mode     uint64
}

// StampOf is the stamp of a stat.
func StampOf(st *unix.Stat_t) Stamp {
	return Stamp{st.Size, st.Mtim.Nano(), st.Ctim.Nano(), uint64(st.Dev), st.Ino, uint64(st.Mode)}
}

// Entry is what is remembered of one file.
type Entry struct {
	Name string // in its folder
	Stamp
	Digest [32]byte
}

// folder is what is remembered of one folder. raw holds entries not decoded
// yet. Slices are replaced, never changed, so readers need no lock.
type folder struct {
	day     int32
	raw     []byte
	entries []Entry
}

// Cache is what is remembered. Make it with Open.
type Cache struct {
	path string // of the cache file; "" keeps nothing
	now  func() time.Time

	mu    sync.Mutex
	dirs  map[string]*folder // by absolute path; guarded by mu
	dirty bool               // guarded by mu
}

// Open reads what is kept in the file at path; "" keeps nothing. A file that is
// not there, or is damaged, is an empty cache. One that cannot be read is an
// error.
func Open(path string, now func() time.Time) (*Cache, error) {
	c := &Cache{path: path, now: now, dirs: map[string]*folder{}}
	if path == "" {
		return c, nil
	}
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return nil, fmt.Errorf("reading file fingerprints: %s is no regular file", path)
	}
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading file fingerprints: %w", err)
	}
	if dirs, ok := decodeFolders(b); ok {
		c.dirs = dirs
	}
	return c, nil
}

// Entries returns what is remembered of a folder, sorted by name, and notes
// that somebody asked.
func (c *Cache) Entries(dir string) []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.remembered(dir)
}

// remembered is Entries under the lock.
func (c *Cache) remembered(dir string) []Entry {
	d := c.dirs[dir]
	if d == nil {
		return nil
	}
	if d.raw != nil {
		// Bytes that make no sense are forgotten: the files are read again.
		d.entries, _ = decodeEntries(d.raw)
		d.raw = nil
	}
	if today := c.today(); d.day != today {
		d.day, c.dirty = today, true
	}
	return d.entries
}

func (c *Cache) today() int32 { return int32(c.now().Unix() / (24 * 60 * 60)) }

// Replace remembers these files of a folder, sorted by name, and no others. The
// cache keeps the slice.
func (c *Cache) Replace(dir string, entries []Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replace(dir, entries)
}

// Put remembers one file beside what is remembered of its folder.
func (c *Cache) Put(dir string, e Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := slices.Clone(c.remembered(dir))
	i, ok := slices.BinarySearchFunc(next, e.Name, byName)
	if ok {
		next[i] = e
	} else {
		next = slices.Insert(next, i, e)
	}
	c.replace(dir, next)
}

func (c *Cache) replace(dir string, entries []Entry) {
	c.dirs[dir] = &folder{day: c.today(), entries: entries}
	c.dirty = true
}

// Save writes down what was learnt, by rename, if anything was. The file is not synced: after a power failure
// it is whole, old, or damaged and therefore cold.
func (c *Cache) Save() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.path == "" || !c.dirty {
		return nil
	}
	if err := write(c.path, c.encode()); err != nil {
		return fmt.Errorf("saving file fingerprints: %w", err)
	}
	c.dirty = false
	return nil
}

func write(path string, b []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

func (c *Cache) encode() []byte {
	paths := make([]string, 0, len(c.dirs))
	for p, d := range c.dirs {
		if c.today()-d.day <= forgetDays && len(p) < 1<<16 {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	out := []byte(statHead)
	for _, p := range paths {
		d := c.dirs[p]
		start := len(out)
		out = append(out, make([]byte, 12)...)
		out = binary.LittleEndian.AppendUint32(out, uint32(d.day))
		out = binary.LittleEndian.AppendUint16(out, uint16(len(p)))
		out = append(out, p...)
		out = append(out, d.raw...)
		for _, e := range d.entries {
			for _, v := range [...]uint64{uint64(e.Size), uint64(e.Mtime), uint64(e.Ctime), e.Dev, e.Ino, e.Mode} {
				out = binary.LittleEndian.AppendUint64(out, v)
			}
			out = append(out, e.Digest[:]...)
			out = binary.LittleEndian.AppendUint16(out, uint16(len(e.Name)))
			out = append(out, e.Name...)
		}
		payload := out[start+12:]
		binary.LittleEndian.PutUint32(out[start:], uint32(len(payload)))
		binary.LittleEndian.PutUint64(out[start+4:], xxhash.Sum64(payload))
	}
	return out
}

// decodeFolders checks every frame; one that is wrong makes all of it cold.
func decodeFolders(b []byte) (map[string]*folder, bool) {
	rest, ok := strings.CutPrefix(string(b[:min(len(b), len(statHead))]), statHead)
	if !ok || rest != "" {
		return nil, false
	}
	b = b[len(statHead):]
	dirs := map[string]*folder{}
	for len(b) > 0 {
		if len(b) < 12 {
			return nil, false
		}
		n, sum := int64(binary.LittleEndian.Uint32(b)), binary.LittleEndian.Uint64(b[4:])
		if n < 6 || n > int64(len(b)-12) {
			return nil, false
		}
		p := b[12 : 12+n]
		if xxhash.Sum64(p) != sum {
			return nil, false
		}
		day, at := int32(binary.LittleEndian.Uint32(p)), int(binary.LittleEndian.Uint16(p[4:]))
		if len(p) < 6+at {
			return nil, false
		}
		dirs[string(p[6:6+at])] = &folder{day: day, raw: p[6+at:]}
		b = b[12+n:]
	}
	return dirs, true
}

func decodeEntries(b []byte) ([]Entry, bool) {
	const fixed = stampSize + len(Entry{}.Digest) + 2
	text := string(b) // one allocation for all names
	out := make([]Entry, 0, len(b)/(fixed+8))
	for at := 0; at < len(b); {
		if len(b)-at < fixed {
			return nil, false
		}
		var v [6]uint64
		for i := range v {
			v[i] = binary.LittleEndian.Uint64(b[at+8*i:])
		}
		e := Entry{Stamp: Stamp{int64(v[0]), int64(v[1]), int64(v[2]), v[3], v[4], v[5]}}
		copy(e.Digest[:], b[at+stampSize:])
		n := int(binary.LittleEndian.Uint16(b[at+fixed-2:]))
		at += fixed
		if len(b)-at < n || (len(out) > 0 && out[len(out)-1].Name >= text[at:at+n]) {
			return nil, false
		}
		e.Name = text[at : at+n]
		at += n
		out = append(out, e)
	}
	return out, true
}

// Find returns the digest remembered for a file with this very stamp.
func Find(known []Entry, name string, s Stamp) (digest [32]byte, ok bool) {
	i, ok := slices.BinarySearchFunc(known, name, byName)
	if !ok || known[i].Stamp != s {
		return digest, false
	}
	return known[i].Digest, true
}

func byName(e Entry, name string) int { return strings.Compare(e.Name, name) }
