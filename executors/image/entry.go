package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// reserve is what unpacking leaves free on the disk.
const reserve = 256 << 20

const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// unpacker writes files below a root. Paths are slash separated and relative,
// as os.Root wants them; "." is the root itself.
type unpacker struct {
	root   *os.Root
	owners bool
	seen   map[string]bool // what this layer wrote, and the folders above it
	free   int64           // bytes that may still be written before the disk is asked again
	times  []folderTime
}

// folderTime is set last: a folder's time changes with what is put into it.
type folderTime struct {
	name string
	at   time.Time
}

// entry puts one entry of a layer in its place.
func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	name := path.Clean(strings.TrimLeft(h.Name, "/"))
	if name == ".." || strings.HasPrefix(name, "../") || strings.ContainsRune(name, 0) {
		return unusable("its name leads out of the image")
	}
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if sparse(h) {
		return unusable("it is a sparse file, whose size costs nothing")
	}
	if name == "." || h.Name == "" {
		if h.Typeflag != tar.TypeDir {
			return unusable("the root of an image is a folder")
		}
		return u.attributes(".", h)
	}
	parent, err := u.folder(path.Dir(name))
	if err != nil {
		return err
	}
	base := path.Base(name)
	if base == opaque {
		return u.clear(parent)
	}
	if strings.HasPrefix(base, ".wh..wh.") {
		return nil // bookkeeping of an old storage driver
	}
	if hidden, ok := strings.CutPrefix(base, whiteout); ok {
		if hidden == "" || hidden == "." || hidden == ".." {
			return unusable("it hides no file")
		}
		return u.hide(path.Join(parent, hidden))
	}
	return u.put(path.Join(parent, base), h, r)
}

// put makes what the header says at a path whose folder exists.
func (u *unpacker) put(name string, h *tar.Header, r io.Reader) error {
	var source string
	if h.Typeflag == tar.TypeLink {
		var err error
		if source, err = u.source(h.Linkname); err != nil {
			return err
		}
		if source == name {
			return unusable("it is a hard link to itself")
		}
		if _, err := u.root.Lstat(source); err != nil {
			return unusable("it is a hard link to %q: %w", h.Linkname, err)
		}
	}
	if there, err := u.root.Lstat(name); err == nil {
		if h.Typeflag != tar.TypeDir || !there.IsDir() {
			if err := u.root.RemoveAll(name); err != nil {
				return err
			}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		if err := u.file(name, h.Size, r); err != nil {
			return err
		}
	case tar.TypeDir:
		if err := u.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	case tar.TypeSymlink:
		if err := u.root.Symlink(h.Linkname, name); err != nil {
			return err
		}
	case tar.TypeLink:
		if err := u.root.Link(source, name); err != nil {
			return fmt.Errorf("linking to %q: %w", h.Linkname, err)
		}
		u.mark(name)
		return nil // its attributes are those of what it is linked to
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		if name == "dev" || strings.HasPrefix(name, "dev/") {
			return nil
		}
		return unusable("it is a device or a pipe outside /dev, which is not made")
	default:
		return unusable("it is of an unknown kind %q", h.Typeflag)
	}
	u.mark(name)
	return u.attributes(name, h)
}

// source finds what a hard link points to: a name from the root, whose last
// part is not followed.
func (u *unpacker) source(link string) (string, error) {
	name := path.Clean(strings.TrimLeft(link, "/"))
	if name == "." || name == ".." || strings.HasPrefix(name, "../") {
		return "", unusable("it is a hard link to %q, out of the image", link)
	}
	parent, err := resolve(u.root, path.Dir(name), true)
	if err != nil {
		return "", unusable("it is a hard link to %q: %w", link, err)
	}
	return path.Join(parent, path.Base(name)), nil
}

func (u *unpacker) file(name string, size int64, r io.Reader) error {
	if err := u.reserve(size); err != nil {
		return err
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, r)
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, f.Close())
}

// reserve fails when the disk has no room for size more bytes. The disk is
// asked when what was free at the last asking is used up.
func (u *unpacker) reserve(size int64) error {
	if u.free -= size; u.free >= 0 {
		return nil
	}
	f, err := u.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return err
	}
	u.free = int64(st.Bavail)*st.Bsize - reserve - size
	if u.free < 0 {
		return fmt.Errorf("it has %d bytes, and the disk has no room for them (%d free, of which %d are kept)", size, int64(st.Bavail)*st.Bsize, int64(reserve))
	}
	return nil
}

// attributes sets owner, mode and times, in this order: a new owner clears
// bits of the mode.
func (u *unpacker) attributes(name string, h *tar.Header) error {
	if u.owners {
		if err := u.root.Lchown(name, h.Uid, h.Gid); err != nil {
			return err
		}
	}
	if h.Typeflag == tar.TypeSymlink {
		return nil
	}
	mode := h.FileInfo().Mode()
	if err := u.root.Chmod(name, mode.Perm()|mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		u.times = append(u.times, folderTime{name, h.ModTime})
		return nil
	}
	return u.root.Chtimes(name, h.ModTime, h.ModTime)
}

// settle sets the times of folders that are still there.
func (u *unpacker) settle() error {
	for _, f := range u.times {
		if info, err := u.root.Lstat(f.name); err != nil || !info.IsDir() {
			continue // a higher layer hid it
		}
		if err := u.root.Chtimes(f.name, f.at, f.at); err != nil {
			return err
		}
	}
	return nil
}

// mark remembers that this layer wrote a path.
func (u *unpacker) mark(name string) {
	for ; name != "." && !u.seen[name]; name = path.Dir(name) {
		u.seen[name] = true
	}
}

// hide removes what lower layers put at a path; this layer's own stays, in
// whatever order its entries come.
func (u *unpacker) hide(name string) error {
	if !u.seen[name] {
		return u.root.RemoveAll(name)
	}
	if info, err := u.root.Lstat(name); err != nil || !info.IsDir() {
		return nil
	}
	return u.clear(name)
}

// clear hides everything in a folder.
func (u *unpacker) clear(name string) error {
	f, err := u.root.Open(name)
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, n := range names {
		if err := u.hide(path.Join(name, n)); err != nil {
			return err
		}
	}
	return nil
}

// folder returns the folder that a path leads to inside the image, and makes
// what is missing of it.
func (u *unpacker) folder(name string) (string, error) {
	real, err := resolve(u.root, name, false)
	if err != nil {
		return "", err
	}
	if info, err := u.root.Lstat(real); err == nil {
		if !info.IsDir() {
			return "", unusable("%q above it is no folder", name)
		}
		return real, nil
	}
	return real, u.root.MkdirAll(real, 0o755)
}
