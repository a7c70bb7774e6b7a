package key

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/engine/key/statcache"
)

// racyWindow is how old a file's last change must be before its stat stands
// for its bytes. File systems stamp changes with a coarse clock, so two changes
// shortly after one another can carry one stamp.
const racyWindow = 2 * time.Second

// reads is how often a file that changes while it is read is read again.
const reads = 3

// Files fingerprints files and trees and remembers what it read by stat: a
// file whose size, times, inode and mode are unchanged is not read again. It
// is safe for concurrent use. What it remembers can only save time: whatever
// is damaged, racy or in doubt is read again.
type Files struct {
	cache *statcache.Cache
	now   func() time.Time
}

// OpenFiles opens the fingerprints kept in cachePath; "" keeps none. A file
// that is not there, or is damaged, is a cold cache. One that cannot be read is
// an error.
func OpenFiles(cachePath string) (*Files, error) { return openFiles(cachePath, time.Now) }

func openFiles(cachePath string, now func() time.Time) (*Files, error) {
	c, err := statcache.Open(cachePath, now)
	if err != nil {
		return nil, err
	}
	return &Files{c, now}, nil
}

// Close saves what was learnt. It may be called again after more work.
func (f *Files) Close() error { return f.cache.Save() }

// File is the digest of a regular file's bytes, equal to Sum of them. Symbolic
// links are followed; anything that is not a regular file is an error.
func (f *Files) File(path string) (Digest, error) {
	dir, name, err := split(path)
	if err != nil {
		return Digest{}, err
	}
	var st unix.Stat_t
	if err := retry(func() error { return unix.Stat(path, &st) }); err != nil {
		return Digest{}, fmt.Errorf("fingerprinting %q: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return Digest{}, fmt.Errorf("fingerprinting %q: it is a %s, want a file", path, nature(&st))
	}
	known := f.cache.Entries(dir)
	if d, ok := statcache.Find(known, name, statcache.StampOf(&st)); ok {
		return d, nil
	}
	e, settled, err := f.read(path, name, 0)
	if err != nil {
		return Digest{}, err
	}
	if settled {
		f.cache.Put(dir, e)
	}
	return e.Digest, nil
}

// Tree is the digest of a folder: names, kinds, links' texts, executable bits
// (the owner's) and bytes of everything below it, empty folders included, with
// nothing ignored. Names are bytes and are sorted as such. The tree's own name,
// owners, times and all other mode bits are not part of it. The path itself may
// be a link to the folder, or a file: a tree of one entry without a name.
// Sockets, pipes and devices are errors.
//
// A folder's digest is that of the framed list of its entries, so the digest of
// a subfolder as an entry and as a tree of its own are the same.
func (f *Files) Tree(path string) (Digest, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Stat(path, &st) }); err != nil {
		return Digest{}, fmt.Errorf("fingerprinting %q: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		d, err := f.File(path)
		if err != nil {
			return Digest{}, err
		}
		return Sum(appendEntry([]byte(treeHead), fileKind(&st), "", d[:])), nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return Digest{}, fmt.Errorf("fingerprinting %q: %w", path, err)
	}
	return f.tree(path, abs)
}

// treeHead starts every folder's list, so that no list is another thing's bytes.
const treeHead = "sotabuild tree 1\n"

// The kinds of entries, as hashed.
const (
	kindFile   = 'f'
	kindExec   = 'x'
	kindLink   = 'l'
	kindFolder = 'd'
)

func appendEntry(b []byte, kind byte, name string, value []byte) []byte {
	b = frame(append(b, kind), name)
	b = binary.AppendUvarint(b, uint64(len(value)))
	return append(b, value...)
}

// tree fingerprints the folder at path, which is remembered as abs.
func (f *Files) tree(path, abs string) (Digest, error) {
	dir, err := os.Open(path)
	if err != nil {
		return Digest{}, fmt.Errorf("fingerprinting: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return Digest{}, fmt.Errorf("fingerprinting %q: %w", path, err)
	}
	slices.Sort(names)
	known := f.cache.Entries(abs)
	seen := make([]statcache.Entry, 0, len(names))
	list := []byte(treeHead)
	fresh := false
	// Subfolders come after this folder is closed, so that a deep tree holds one
	// open folder at a time; their digests are filled in where they belong.
	type place struct {
		name string
		at   int
	}
	var below []place
	for _, name := range names {
		var st unix.Stat_t
		err := retry(func() error { return unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) })
		if err != nil {
			return Digest{}, fmt.Errorf("fingerprinting %q: %w", path+"/"+name, err)
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			e := statcache.Entry{Name: name, Stamp: statcache.StampOf(&st)}
			settled, ok := true, false
			if e.Digest, ok = statcache.Find(known, name, e.Stamp); !ok {
				fresh = true
				if e, settled, err = f.read(path+"/"+name, name, unix.O_NOFOLLOW); err != nil {
					return Digest{}, err
				}
			}
			if settled {
				seen = append(seen, e)
			}
			list = appendEntry(list, fileKind(&st), name, e.Digest[:])
		case unix.S_IFLNK:
			text, err := os.Readlink(path + "/" + name)
			if err != nil {
				return Digest{}, fmt.Errorf("fingerprinting: %w", err)
			}
			list = appendEntry(list, kindLink, name, []byte(text))
		case unix.S_IFDIR:
			list = appendEntry(list, kindFolder, name, make([]byte, sha256.Size))
			below = append(below, place{name, len(list) - sha256.Size})
		default:
			return Digest{}, fmt.Errorf("fingerprinting %q: it is a %s, which has no content", path+"/"+name, nature(&st))
		}
	}
	if err := dir.Close(); err != nil {
		return Digest{}, fmt.Errorf("fingerprinting: %w", err)
	}
	for _, p := range below {
		d, err := f.tree(path+"/"+p.name, abs+"/"+p.name)
		if err != nil {
			return Digest{}, err
		}
		copy(list[p.at:], d[:])
	}
	if fresh || len(seen) != len(known) {
		f.cache.Replace(abs, seen)
	}
	return Sum(list), nil
}

// fileKind is how a regular file is hashed.
func fileKind(st *unix.Stat_t) byte {
	if st.Mode&0o100 != 0 {
		return kindExec
	}
	return kindFile
}

// read hashes a file. settled says that its stat now stands for its bytes: it
// did not change while it was read, nor within the racy window before, nor "in
// the future".
func (f *Files) read(path, name string, flags int) (e statcache.Entry, settled bool, err error) {
	for range reads {
		began := f.now()
		e, unchanged, err := readOnce(path, name, flags)
		if err != nil {
			return statcache.Entry{}, false, fmt.Errorf("fingerprinting: %w", err)
		}
		if unchanged {
			safe := began.Add(-racyWindow).UnixNano()
			return e, e.Mtime < safe && e.Ctime < safe, nil
		}
	}
	return statcache.Entry{}, false, fmt.Errorf("fingerprinting %q: it changed while it was read, %d times; stop its writer first", path, reads)
}

// readOnce hashes a file and reports whether its stat was the same before and
// after. O_NONBLOCK keeps a pipe that took the file's place from blocking us.
func readOnce(path, name string, flags int) (e statcache.Entry, unchanged bool, err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|flags, 0)
	if err != nil {
		return e, false, err
	}
	defer file.Close()
	var before, after unix.Stat_t
	if err := retry(func() error { return unix.Fstat(int(file.Fd()), &before) }); err != nil {
		return e, false, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if before.Mode&unix.S_IFMT != unix.S_IFREG {
		return e, false, fmt.Errorf("%q became a %s", path, nature(&before))
	}
	e = statcache.Entry{Name: name, Stamp: statcache.StampOf(&before)}
	if e.Digest, err = hashFile(file); err != nil {
		return e, false, err
	}
	if err := retry(func() error { return unix.Fstat(int(file.Fd()), &after) }); err != nil {
		return e, false, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return e, statcache.StampOf(&after) == e.Stamp, nil
}

// buffers are of 1 MiB: larger ones hash no faster and smaller ones do.
var buffers = sync.Pool{New: func() any { b := make([]byte, 1<<20); return &b }}

func hashFile(file *os.File) (d Digest, err error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	h := sha256.New()
	for {
		n, err := file.Read(*buf)
		h.Write((*buf)[:n])
		if err == io.EOF {
			h.Sum(d[:0])
			return d, nil
		}
		if err != nil {
			return d, err
		}
	}
}

// split names a file by the absolute path of its folder and its name there.
// The paths only find what is remembered; the file is opened as it was given,
// because cleaning a path can change what it means where a link is part of it.
func split(path string) (dir, name string, err error) {
	if path == "" {
		return "", "", errors.New("fingerprinting a file without a name")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", "", fmt.Errorf("fingerprinting %q: %w", path, err)
	}
	return filepath.Dir(abs), filepath.Base(abs), nil
}

func nature(st *unix.Stat_t) string {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "folder"
	case unix.S_IFIFO:
		return "pipe"
	case unix.S_IFSOCK:
		return "socket"
	case unix.S_IFCHR, unix.S_IFBLK:
		return "device"
	}
	return "file of mode " + fmt.Sprintf("%#o", st.Mode)
}

// retry calls again what a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
