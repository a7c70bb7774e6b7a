package key

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"
)

// The cache file: a head, then one frame a folder,
//
//	u32 length of the payload, u64 XXH64 of the payload, payload
//	payload: i32 day of last use, u16 length of the path, path, entries
//	entry:   stamp (6 × u64), digest, u16 length of the name, name
//
// all little-endian, entries sorted by name. A folder's entries are decoded
// when they are first asked for.
const (
	statHead  = "sotabuild files 1\n"
	stampSize = 6 * 8
	// forgetDays is how long a folder that nobody asks for is remembered.
	forgetDays = 60
)

// stamp is what must be unchanged for a file's bytes to be unchanged.
type stamp struct {
	size, mtime, ctime int64 // bytes, nanoseconds, nanoseconds
	dev, ino, mode     uint64
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{st.Size, st.Mtim.Nano(), st.Ctim.Nano(), uint64(st.Dev), st.Ino, uint64(st.Mode)}
}

type entry struct {
	name string
	stamp
	digest Digest
}

// folder is what is remembered of one folder. raw holds entries not decoded
// yet. Slices are replaced, never changed, so readers need no lock.
type folder struct {
	day     int32
	raw     []byte
	entries []entry
}

// entries returns what is remembered of a folder, sorted by name, and notes
// that somebody asked.
func (f *Files) entries(dir string) []entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.remembered(dir)
}

// remembered is entries under the lock.
func (f *Files) remembered(dir string) []entry {
	d := f.dirs[dir]
	if d == nil {
		return nil
	}
	if d.raw != nil {
		// Bytes that make no sense are forgotten: the files are read again.
		d.entries, _ = decodeEntries(d.raw)
		d.raw = nil
	}
	if today := f.today(); d.day != today {
		d.day, f.dirty = today, true
	}
	return d.entries
}

func (f *Files) today() int32 { return int32(f.now().Unix() / (24 * 60 * 60)) }

// keep replaces what is remembered of a folder.
func (f *Files) keep(dir string, next func(known []entry) []entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirs[dir] = &folder{day: f.today(), entries: next(f.remembered(dir))}
	f.dirty = true
}

// Close writes down what was learnt, by rename, if anything was. It may be
// called again after more work. The file is not synced: after a power failure
// it is whole, old, or damaged and therefore cold.
func (f *Files) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path == "" || !f.dirty {
		return nil
	}
	if err := write(f.path, f.encode()); err != nil {
		return fmt.Errorf("saving file fingerprints: %w", err)
	}
	f.dirty = false
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

func (f *Files) encode() []byte {
	paths := make([]string, 0, len(f.dirs))
	for p, d := range f.dirs {
		if f.today()-d.day <= forgetDays && len(p) < 1<<16 {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	out := []byte(statHead)
	for _, p := range paths {
		d := f.dirs[p]
		start := len(out)
		out = append(out, make([]byte, 12)...)
		out = binary.LittleEndian.AppendUint32(out, uint32(d.day))
		out = binary.LittleEndian.AppendUint16(out, uint16(len(p)))
		out = append(out, p...)
		out = append(out, d.raw...)
		for _, e := range d.entries {
			for _, v := range [...]uint64{uint64(e.size), uint64(e.mtime), uint64(e.ctime), e.dev, e.ino, e.mode} {
				out = binary.LittleEndian.AppendUint64(out, v)
			}
			out = append(out, e.digest[:]...)
			out = binary.LittleEndian.AppendUint16(out, uint16(len(e.name)))
			out = append(out, e.name...)
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

func decodeEntries(b []byte) ([]entry, bool) {
	const fixed = stampSize + len(Digest{}) + 2
	text := string(b) // one allocation for all names
	out := make([]entry, 0, len(b)/(fixed+8))
	for at := 0; at < len(b); {
		if len(b)-at < fixed {
			return nil, false
		}
		var v [6]uint64
		for i := range v {
			v[i] = binary.LittleEndian.Uint64(b[at+8*i:])
		}
		e := entry{stamp: stamp{int64(v[0]), int64(v[1]), int64(v[2]), v[3], v[4], v[5]}}
		copy(e.digest[:], b[at+stampSize:])
		n := int(binary.LittleEndian.Uint16(b[at+fixed-2:]))
		at += fixed
		if len(b)-at < n || (len(out) > 0 && out[len(out)-1].name >= text[at:at+n]) {
			return nil, false
		}
		e.name = text[at : at+n]
		at += n
		out = append(out, e)
	}
	return out, true
}
