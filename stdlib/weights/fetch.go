package weights

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options say where and how a revision is fetched.
type Options struct {
	Hub Hub
	// Cache is the hub's own cache on this host (…/hub), whose files are linked
	// instead of fetched; "" is none.
	Cache string
	// Free returns the bytes that are free and all bytes of the file system of a
	// folder; nil asks the system.
	Free func(dir string) (free, all int64, err error)
	// Pause is the wait before the second attempt of a file, doubled before each
	// further one; 0 is a second.
	Pause time.Duration
}

// reserve is the share of the file system that stays free.
const reserve = 0.05

// attempts of one file, each from where the last one ended.
const attempts = 5

// transfers at a time.
const transfers = 4

// Fetch makes dir hold the revision and returns its list. What is there and
// right is kept; nothing else in dir is touched.
func Fetch(ctx context.Context, dir, id, revision string, o Options) (List, error) {
	l, err := o.Hub.List(ctx, id, revision)
	if err != nil {
		return l, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return l, fmt.Errorf("making the folder of weights: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return l, fmt.Errorf("making the folder of weights: %w", err)
	}
	defer root.Close()
	f := fetcher{Options: o, root: root, dir: dir, list: l}
	if err := f.space(); err != nil {
		return l, err
	}
	if err := f.all(ctx); err != nil {
		return l, err
	}
	if err := CheckShards(dir); err != nil {
		return l, fmt.Errorf("%s at %s: %w", id, revision, err)
	}
	return f.finish()
}

type fetcher struct {
	Options
	root *os.Root
	dir  string
	list List
}

// space checks that what is missing fits and leaves the reserve.
func (f *fetcher) space() error {
	ask := f.Free
	if ask == nil {
		ask = free
	}
	left, all, err := ask(f.dir)
	if err != nil {
		return fmt.Errorf("asking for free space: %w", err)
	}
	need := int64(0)
	for _, file := range f.list.Files {
		if st, err := f.root.Stat(file.Name); err != nil || st.Size() != file.Size {
			need += file.Size
		}
	}
	if keep := int64(float64(all) * reserve); need > 0 && left-need < keep {
		return fmt.Errorf("%s needs %s more in %s, where %s are free and %s (%.0f %% of the disk) stay in reserve: make room, or put the store elsewhere with --store",
			f.list.Model, bytesText(need), f.dir, bytesText(left), bytesText(keep), reserve*100)
	}
	return nil
}

func free(dir string) (left, all int64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}

func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}

// all has every file, some at a time; the first failure ends the others.
func (f *fetcher) all(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan File)
	var wg sync.WaitGroup
	for range transfers {
		wg.Go(func() {
			for file := range work {
				if err := f.file(ctx, file); err != nil {
					cancel(fmt.Errorf("%s: %w", file.Name, err))
				}
			}
		})
	}
	for _, file := range f.list.Files {
		select {
		case work <- file:
		case <-ctx.Done():
		}
	}
	close(work)
	wg.Wait()
	return context.Cause(ctx)
}

// file has one file under its name, checked.
func (f *fetcher) file(ctx context.Context, file File) error {
	if ctx.Err() != nil {
		return nil // the cause is said by whoever cancelled
	}
	if d := filepath.Dir(file.Name); d != "." {
		if err := f.root.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if f.right(file.Name, file) == nil {
		return nil
	}
	if f.linked(file) {
		return nil
	}
	part := file.Name + ".partial"
	if err := f.persist(ctx, part, file); err != nil {
		return err
	}
	if err := f.right(part, file); err != nil {
		// Wrong bytes are not gone on with.
		return errors.Join(err, f.root.Remove(part))
	}
	return f.root.Rename(part, file.Name)
}

// persist transfers a file in as many attempts as it is given.
func (f *fetcher) persist(ctx context.Context, part string, file File) error {
	pause := cmp.Or(f.Pause, time.Second)
	for attempt := 1; ; attempt++ {
		err := f.transfer(ctx, part, file)
		var final *finalError
		if err == nil || attempt == attempts || errors.As(err, &final) {
			return err
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
			return err
		}
	}
}

// right checks a file's size and digest.
func (f *fetcher) right(name string, want File) error {
	in, err := f.root.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	if st.Size() != want.Size {
		return fmt.Errorf("it has %d bytes, and the hub says %d", st.Size(), want.Size)
	}
	var h hash.Hash
	sum := want.SHA256
	if sum != "" {
		h = sha256.New()
	} else {
		// A git blob's id: SHA-1 over "blob SIZE\0" and the bytes.
		h, sum = sha1.New(), want.Git
		fmt.Fprintf(h, "blob %d\x00", want.Size)
	}
	if _, err := io.Copy(h, in); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		return fmt.Errorf("its digest is %s, and the hub says %s", got, sum)
	}
	return nil
}

// linked takes the file from the hub's cache, where it lies by its digest.
func (f *fetcher) linked(file File) bool {
	if f.Cache == "" {
		return false
	}
	blob := file.SHA256
	if blob == "" {
		blob = file.Git
	}
	from := filepath.Join(f.Cache, cacheFolder(f.list.Model), "blobs", blob)
	part := file.Name + ".linked"
	if os.Link(from, filepath.Join(f.dir, filepath.FromSlash(part))) != nil {
		return false // another file system, or not there: it is fetched
	}
	if f.right(part, file) != nil || f.root.Rename(part, file.Name) != nil {
		_ = f.root.Remove(part) // a link of ours; the cache's file stays
		return false
	}
	return true
}

// cacheFolder is how the hub's library names a model's folder.
func cacheFolder(id string) string {
	return "models--" + strings.ReplaceAll(id, "/", "--")
}

// finalError is an answer that another attempt does not change.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// transfer goes on with a partial file.
func (f *fetcher) transfer(ctx context.Context, part string, file File) error {
	out, err := f.root.OpenFile(part, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	have, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if have == file.Size {
		return nil
	}
	if have > file.Size {
		have = 0
	}
	r, err := f.Hub.get(ctx, f.Hub.URL+"/"+escape(f.list.Model)+"/resolve/"+f.list.Revision+"/"+escape(file.Name), have)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	switch {
	case r.StatusCode == http.StatusOK:
		have = 0 // the whole file, whatever was asked
	case r.StatusCode == http.StatusPartialContent && have > 0:
	case r.StatusCode >= 500 || r.StatusCode == http.StatusTooManyRequests:
		return f.Hub.status(r, "the file")
	default:
		return &finalError{f.Hub.status(r, "the file")}
	}
	if err := out.Truncate(have); err != nil {
		return err
	}
	if _, err := out.Seek(have, io.SeekStart); err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(&patient{r.Body, r.Body, silence}, file.Size-have+1))
	if err != nil {
		return err
	}
	if have+n != file.Size {
		return fmt.Errorf("the transfer ended at %d of %d bytes", have+n, file.Size)
	}
	return out.Sync()
}

// silence is how long a transfer may give nothing.
const silence = time.Minute

// patient ends a body that is silent for too long.
type patient struct {
	io.Reader
	body io.Closer
	max  time.Duration
}

func (p *patient) Read(b []byte) (int, error) {
	t := time.AfterFunc(p.max, func() { p.body.Close() })
	defer t.Stop()
	return p.Reader.Read(b)
}

// finish writes the list, last of all.
func (f *fetcher) finish() (List, error) {
	for i, file := range f.list.Files {
		st, err := f.root.Stat(file.Name)
		if err != nil {
			return f.list, fmt.Errorf("finishing the weights: %w", err)
		}
		f.list.Files[i].Mtime = st.ModTime().UTC()
	}
	b, err := json.MarshalIndent(f.list, "", "  ")
	if err != nil {
		return f.list, err
	}
	tmp := filepath.Join(f.dir, ListFile+".tmp")
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil {
		return f.list, fmt.Errorf("finishing the weights: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(f.dir, ListFile)); err != nil {
		return f.list, fmt.Errorf("finishing the weights: %w", err)
	}
	return f.list, nil
}
