package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/cache/gc"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/executors/creation"
	"github.com/sotabuild/sotabuild/executors/kind"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
)

// leftovers are images and their files that were made for this store and that
// no framework of the campaign uses, also as items to print. While a task may
// still run nothing is left over.
func (a *app) leftovers(ctx context.Context, s *cache.Snapshot, dir string, o gcOptions) ([]kind.Leftover, []gc.Item, error) {
	if _, tasks := sched.Leases(filepath.Join(dir, "tasks"), s.Intents()); len(tasks) > 0 {
		return nil, nil, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	p := newPlaces(self, dir)
	used := kind.Used{Names: map[string]bool{}, Roots: map[string]bool{}}
	if !o.foreign {
		c, err := a.load()
		if err != nil {
			return nil, nil, err
		}
		p.use(ctx, c, used)
	}
	left, err := kind.Leftovers(kind.Kinds, p.setup(lang.Executor{}), used, time.Now())
	if err != nil {
		return nil, nil, err
	}
	var items []gc.Item
	for _, l := range left {
		items = append(items, gc.Item{Kind: gc.Kind(l.Kind), Name: l.Name, Age: l.Age, Bytes: l.Bytes, Reason: l.Reason})
	}
	return left, items, nil
}

// clear removes leftovers. One that cannot be removed is said, and stays for
// the next time.
func (a *app) clear(ctx context.Context, s *cache.Snapshot, dir string, o gcOptions) ([]gc.Item, error) {
	left, items, err := a.leftovers(ctx, s, dir, o)
	if err != nil {
		return nil, err
	}
	var gone []gc.Item
	for i, l := range left {
		err := l.Remove(ctx)
		if errors.Is(err, kind.ErrNotOurs) {
			fmt.Fprintf(a.err, "warning: %s %s is left alone: %v\n", l.Kind, l.Name, err)
			continue
		}
		if err != nil {
			fmt.Fprintf(a.err, "warning: %s %s stays: %v\n", l.Kind, l.Name, err)
			continue
		}
		gone = append(gone, items[i])
	}
	return gone, nil
}

// use marks the images of the campaign's frameworks, whatever kind runs them:
// with another --executor they are used tomorrow.
func (p *places) use(ctx context.Context, c *lang.Campaign, used kind.Used) {
	for _, fw := range campaign.Compared(c) {
		if fw.Image == "" {
			continue
		}
		for _, k := range kind.Kinds {
			if !k.Images {
				continue
			}
			e := prepare.ExecutorOf(c, fw)
			if e.Type != k.Name {
				e = lang.Executor{Type: k.Name}
			}
			if k.Holds != nil {
				if name, err := k.Holds(ctx, fw.Image); err == nil {
					used.Names[kind.Name(k.Name, name)] = true
				}
			}
			// An image that cannot be read there has nothing unpacked from there.
			if img, err := k.Open(ctx, p.setup(e), fw.Image); err == nil {
				used.Roots[img.Identity] = true
			}
		}
	}
}

// dropTemps removes what this process had for temporary files, in the store and
// beside it.
func (a *app) dropTemps() error {
	p := places{store: a.storeDir()}
	return errors.Join(p.setup(lang.Executor{}).RemoveTemp(), creation.DropSystemTemp())
}

// tidy removes what an earlier, killed sotabuild has left on its way to or from
// a daemon.
func (p *places) tidy(ctx context.Context) error {
	return kind.RemoveOrphans(ctx, p.setup(lang.Executor{}))
}
