package image

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Extract returns the folder of the image's root file system below cache. It
// is unpacked once for an identity, in a folder that gets its name when it is
// whole; processes that want it at the same time wait for one another. The
// folder is shared by all who run the image: nobody writes into it.
//
// Names, kinds, bytes, modes and times are kept, and owners where we are root.
// Extended attributes are not kept. Device files below /dev are left out,
// because whoever runs a container makes its /dev; elsewhere they are refused.
func (i *Image) Extract(ctx context.Context, cache string) (dir string, err error) {
	id := strings.TrimPrefix(i.Identity(), "sha256:")
	dir = filepath.Join(cache, id)
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", fmt.Errorf("making the folder of images: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(cache, "."+id+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	// What an earlier process that was killed left behind: we hold its lock.
	old, err := filepath.Glob(filepath.Join(cache, "."+id+".new-*"))
	if err != nil {
		return "", err
	}
	for _, o := range old {
		if err := os.RemoveAll(o); err != nil {
			return "", fmt.Errorf("removing a half unpacked image: %w", err)
		}
	}
	fresh, err := os.MkdirTemp(cache, "."+id+".new-")
	if err != nil {
		return "", fmt.Errorf("unpacking image %s: %w", i.Ref, err)
	}
	if err := i.unpack(ctx, fresh); err != nil {
		return "", errors.Join(fmt.Errorf("unpacking image %s: %w", i.Ref, err), os.RemoveAll(fresh))
	}
	if err := os.Rename(fresh, dir); err != nil {
		return "", errors.Join(fmt.Errorf("unpacking image %s: %w", i.Ref, err), os.RemoveAll(fresh))
	}
	return dir, nil
}

// Files are an image's root file system on this host.
type Files struct {
	Dir      string `json:"-"`
	Identity string `json:"identity"`
	Config   Config `json:"config"`
}

// Unpack opens an image and extracts it. A registry is not asked for what was
// named by digest and is below cache already.
func Unpack(ctx context.Context, ref string, p Platform, cache string) (Files, error) {
	p = p.orHost()
	note := ""
	if kind, _, err := Split(ref); err == nil && kind == Registry && strings.Contains(ref, "@sha256:") {
		sum := sha256.Sum256([]byte(ref + "\n" + p.OS + "/" + p.Architecture + "/" + p.Variant))
		note = filepath.Join(cache, "."+hex.EncodeToString(sum[:])+".json")
		if f, ok := known(note, cache); ok {
			return f, nil
		}
	}
	i, err := Open(ctx, ref, p)
	if err != nil {
		return Files{}, err
	}
	f := Files{Identity: i.Identity(), Config: i.Config}
	if f.Dir, err = i.Extract(ctx, cache); err != nil || note == "" {
		return f, err
	}
	return f, f.remember(note)
}

// known reads a note. One that cannot be read, or whose files are gone, is
// none.
func known(note, cache string) (Files, bool) {
	var f Files
	text, err := os.ReadFile(note)
	if err != nil || json.Unmarshal(text, &f) != nil {
		return Files{}, false
	}
	f.Dir = filepath.Join(cache, strings.TrimPrefix(f.Identity, "sha256:"))
	_, err = os.Stat(f.Dir)
	return f, err == nil && f.Identity != ""
}

func (f Files) remember(note string) error {
	text, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("noting an image: %w", err)
	}
	fresh, err := os.CreateTemp(filepath.Dir(note), ".note-")
	if err != nil {
		return fmt.Errorf("noting an image: %w", err)
	}
	_, err = fresh.Write(text)
	err = errors.Join(err, fresh.Sync(), fresh.Close())
	if err == nil {
		err = os.Rename(fresh.Name(), note)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("noting an image: %w", err), os.Remove(fresh.Name()))
	}
	return nil
}

// lock takes a lock that dies with its process. The file stays: removing it
// would let two processes hold two locks of one name.
func lock(ctx context.Context, path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking an image: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f.Close, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return nil, errors.Join(fmt.Errorf("locking an image: %w", err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for another process that unpacks the image: %w", ctx.Err()), f.Close())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// unpack puts one layer after the other into an empty folder, as a runtime
// stacks them, and brings it to the disk. The library's own flattening goes
// from the highest layer down, which breaks hard links between layers and
// leaves out links whose text leads above the root.
func (i *Image) unpack(ctx context.Context, dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	layers, err := i.img.Layers()
	if err != nil {
		return err
	}
	u := &unpacker{root: root, owners: os.Geteuid() == 0}
	for n, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			return damaged(n, err)
		}
		err = u.layer(ctx, r, i.DiffIDs[n])
		if err := errors.Join(err, r.Close()); err != nil {
			return damaged(n, err)
		}
	}
	if err := u.settle(); err != nil {
		return err
	}
	f, err := root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

func damaged(n int, err error) error { return fmt.Errorf("layer %d: %w", n+1, err) }

// layer applies one layer and compares its bytes with its diff id.
func (u *unpacker) layer(ctx context.Context, r io.Reader, diffID string) error {
	hash := sha256.New()
	all := io.TeeReader(&live{ctx, r}, hash)
	u.seen = map[string]bool{}
	files := tar.NewReader(all)
	for {
		h, err := files.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return broken(ctx, err)
		}
		if err := u.entry(h, files); err != nil {
			return broken(ctx, fmt.Errorf("%q: %w", h.Name, err))
		}
	}
	if _, err := io.Copy(io.Discard, all); err != nil { // what follows the last file belongs to the digest
		return broken(ctx, err)
	}
	if got := "sha256:" + hex.EncodeToString(hash.Sum(nil)); got != diffID {
		return unusable("its bytes are %s, and the image says %s", got, diffID)
	}
	return nil
}

// broken tells damage from a disk that is full or a network that is gone.
func broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
		return unusable("it is cut off or no tar file: %w", err)
	}
	return err
}

// live is a reader that ends with its context.
type live struct {
	ctx context.Context
	r   io.Reader
}

func (l *live) Read(p []byte) (int, error) {
	if err := l.ctx.Err(); err != nil {
		return 0, err
	}
	return l.r.Read(p)
}
