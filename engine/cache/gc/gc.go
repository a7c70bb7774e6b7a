// Package gc takes out of a store what nobody needs any more: records together
// with the objects that only they name, objects without a record, and the
// folders beside them that have grown old. It knows records by age and size;
// what must stay for other reasons the caller says (Hold).
//
// Plan decides and changes nothing; Run does what a plan says, the journal
// first, so that a crash in between leaves objects without a record, never a
// record without its objects. Deleting can only make work run again, never make
// a result wrong.
package gc

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
)

// Policy says what is old and what is too much. The zero Policy takes out only
// what no record names.
type Policy struct {
	MaxAge   time.Duration // of records and folders; 0: any age
	MaxBytes int64         // of all objects; 0: any size
}

// Hold is what must stay whatever the policy says.
type Hold struct {
	// Record reports whether a record stays: the campaign's plan uses it.
	Record func(*cache.Record) bool
	// Objects stay: inputs of tasks that an apply left running.
	Objects map[key.Digest]bool
	// Tasks are the names of task folders that stay.
	Tasks map[string]bool
}

// Kind says what an item is.
type Kind string

// The kinds of items.
const (
	Record Kind = "record"
	Object Kind = "object" // no record names it
	Folder Kind = "folder" // of a task
	File   Kind = "file"   // of quarantine, or the log of a run
)

// Item is one thing to take out. Bytes are those that taking it out frees: an
// object that a kept record also names frees none.
type Item struct {
	Kind   Kind          `json:"kind"`
	Name   string        `json:"name"` // a node's address, a digest, a path below the store
	Serial uint64        `json:"serial,omitempty"`
	Age    time.Duration `json:"age_ns"`
	Bytes  int64         `json:"bytes"`
	Reason string        `json:"reason"`

	digest key.Digest
}

// grace is how long an object without a record may be somebody's who is about
// to write one, on file systems whose locks do not hold.
const grace = time.Hour

// Plan lists what would go, records first by serial. It reads no object. A store
// with entries that this build cannot use is an error: whose outputs are there is
// not known.
func Plan(s *cache.Snapshot, dir string, p Policy, h Hold, now time.Time) ([]Item, error) {
	if n := len(s.Unusable()); n > 0 {
		return nil, fmt.Errorf("%d of the journal's entries are another build's or damaged, so that what only they need cannot be told; run the build that wrote them, or `sotabuild cache repair`, which moves them to quarantine", n)
	}
	c := &collector{p: p, h: h, now: now, dir: dir, size: map[key.Digest]int64{}, born: map[key.Digest]time.Time{}}
	err := s.Objects(func(d key.Digest, fi fs.FileInfo) error {
		c.size[d], c.born[d] = fi.Size(), fi.ModTime()
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.records(s.Records())
	c.orphans()
	for _, part := range []func() error{c.tasks, c.files} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	return c.items, nil
}

type collector struct {
	p    Policy
	h    Hold
	now  time.Time
	dir  string
	size map[key.Digest]int64
	born map[key.Digest]time.Time

	kept  []*cache.Record
	items []Item
}

// records decides by age, then by size: the oldest go first until the rest
// fits.
func (c *collector) records(all []*cache.Record) {
	gone := map[*cache.Record]string{}
	names := map[key.Digest]int{} // kept records that name an object
	var bytes int64
	for _, r := range all {
		if c.p.MaxAge > 0 && c.age(r) > c.p.MaxAge && !c.held(r) {
			gone[r] = "older than " + Age(c.p.MaxAge)
			continue
		}
		for _, o := range r.Outputs {
			if names[o.Digest]++; names[o.Digest] == 1 {
				bytes += c.size[o.Digest]
			}
		}
	}
	if c.p.MaxBytes > 0 {
		byAge := slices.Clone(all)
		slices.SortStableFunc(byAge, func(a, b *cache.Record) int { return a.Time.Started.Compare(b.Time.Started) })
		for _, r := range byAge {
			if bytes <= c.p.MaxBytes {
				break
			}
			if gone[r] != "" || c.held(r) {
				continue
			}
			gone[r] = fmt.Sprintf("the oldest, and more than %d bytes are kept", c.p.MaxBytes)
			for _, o := range r.Outputs {
				if names[o.Digest]--; names[o.Digest] == 0 {
					bytes -= c.size[o.Digest]
				}
			}
		}
	}
	counted := map[key.Digest]bool{}
	for _, r := range all {
		why, ok := gone[r]
		if !ok {
			c.kept = append(c.kept, r)
			continue
		}
		it := Item{Kind: Record, Name: r.Node, Serial: r.Serial, Age: c.age(r), Reason: why}
		for _, o := range r.Outputs {
			if names[o.Digest] <= 0 && !counted[o.Digest] && !c.h.Objects[o.Digest] {
				counted[o.Digest] = true
				it.Bytes += c.size[o.Digest]
			}
		}
		c.items = append(c.items, it)
	}
	for d := range counted {
		c.items = append(c.items, Item{Kind: Object, Name: d.String(), Age: max(0, c.now.Sub(c.born[d])), Reason: "of a record that goes", digest: d})
	}
	for d := range names {
		if names[d] > 0 {
			delete(c.size, d)
		}
	}
	for d := range counted {
		delete(c.size, d)
	}
}

func (c *collector) age(r *cache.Record) time.Duration { return max(0, c.now.Sub(r.Time.Started)) }

func (c *collector) held(r *cache.Record) bool { return c.h.Record != nil && c.h.Record(r) }

// orphans are objects that no record names: their writer died, or their record
// was damaged.
func (c *collector) orphans() {
	for d, size := range c.size {
		if age := c.now.Sub(c.born[d]); !c.h.Objects[d] && age > grace {
			c.items = append(c.items, Item{Kind: Object, Name: d.String(), Age: age, Bytes: size, Reason: "no record names it", digest: d})
		}
	}
	// The maps gave them in any order.
	first := slices.IndexFunc(c.items, func(i Item) bool { return i.Kind == Object })
	if first >= 0 {
		slices.SortFunc(c.items[first:], func(a, b Item) int { return cmp.Compare(a.Name, b.Name) })
	}
}

// tasks are the folders of tasks that no kept record came from.
func (c *collector) tasks() error {
	if c.p.MaxAge == 0 {
		return nil
	}
	needed := map[string]bool{}
	for _, r := range c.kept {
		needed[r.Origin.Task] = true
	}
	return c.folder("tasks", func(e fs.DirEntry, age time.Duration) error {
		if !e.IsDir() || needed[e.Name()] || c.h.Tasks[e.Name()] || age <= c.p.MaxAge {
			return nil
		}
		bytes, err := treeSize(filepath.Join(c.dir, "tasks", e.Name()))
		c.items = append(c.items, Item{Kind: Folder, Name: filepath.Join("tasks", e.Name()), Age: age, Bytes: bytes,
			Reason: "older than " + Age(c.p.MaxAge) + ", and no kept record came from it"})
		return err
	})
}

// files are logs of runs and what was quarantined.
func (c *collector) files() error {
	if c.p.MaxAge == 0 {
		return nil
	}
	for _, name := range []string{"events", "quarantine"} {
		err := c.folder(name, func(e fs.DirEntry, age time.Duration) error {
			fi, err := e.Info()
			if err != nil || !fi.Mode().IsRegular() || age <= c.p.MaxAge {
				return err
			}
			c.items = append(c.items, Item{Kind: File, Name: filepath.Join(name, e.Name()), Age: age, Bytes: fi.Size(), Reason: "older than " + Age(c.p.MaxAge)})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) folder(name string, visit func(fs.DirEntry, time.Duration) error) error {
	list, err := os.ReadDir(filepath.Join(c.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking for what is old: %w", err)
	}
	for _, e := range list {
		fi, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = visit(e, c.now.Sub(fi.ModTime()))
		}
		if err != nil {
			return fmt.Errorf("looking for what is old: %w", err)
		}
	}
	return nil
}

// treeSize adds up the regular files below a folder, following no link.
func treeSize(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		fi, err := e.Info()
		if err == nil {
			n += fi.Size()
		}
		return err
	})
	return n, err
}

// Run takes the items out. The store is open for writing by the caller and is
// used by nobody else meanwhile; the items are a Plan of it. The first error
// ends it; what is gone by then was listed.
func Run(l *cache.Local, dir string, items []Item) error {
	drop := map[uint64]bool{}
	for _, it := range items {
		if it.Kind == Record {
			drop[it.Serial] = true
		}
	}
	if len(drop) > 0 {
		if err := l.Rewrite(func(r *cache.Record) bool { return !drop[r.Serial] }); err != nil {
			return err
		}
	}
	for _, it := range items {
		var err error
		switch it.Kind {
		case Object:
			err = l.Remove(it.digest)
		case Folder, File:
			err = removeBelow(dir, it.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeBelow removes a path of the store's own folder, following no link out
// of it.
func removeBelow(dir, name string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("removing %s: %w", name, err)
	}
	if err := errors.Join(root.RemoveAll(name), root.Close()); err != nil {
		return fmt.Errorf("removing %s: %w", name, err)
	}
	return nil
}

// Age writes a span as people set it: whole days, else hours and minutes.
func Age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd", d/day)
	case d >= time.Minute:
		return d.Round(time.Minute).String()
	}
	return d.Round(time.Second).String()
}
