package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/cache/archive"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/campaign/show"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// kept is the campaign's run directory where it keeps records and the campaign's
// own store has none: that was deleted, or the directory came from another machine
// (DESIGN 5, R185). It is "" otherwise, and for a store that --store names, which
// is meant to be what it is.
func (a *app) kept(run prepare.Run, r cache.Reader) (string, error) {
	if a.store != "" || r.Serial() > 0 {
		return "", nil
	}
	dir, err := show.RunDir(run, time.Now())
	if err != nil {
		return "", err
	}
	_, err = os.Stat(filepath.Join(dir, archive.List))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return dir, err
}

// resume takes over what is kept, so that nothing of it is measured again.
func (a *app) resume(ctx context.Context, c *lang.Campaign, store *cache.Local) error {
	dir, err := a.kept(prepare.RunOf(c), store)
	if dir == "" || err != nil {
		return err
	}
	in, n, err := importFrom(ctx, dir, store)
	if err != nil {
		return fail(codeError, err, "its records would be lost if it were written over: mend it, or move it away to measure anew")
	}
	for _, r := range in.Refused {
		fmt.Fprintf(a.err, "warning: %s: refused: %s\n", relative(dir), r)
	}
	fmt.Fprintf(a.err, "note: the store had no record, and %s of %s are taken over; to measure them anew, name them with --replace\n", result.Count(n, "record"), relative(dir))
	return nil
}

// noteKept says what apply would take over before it plans. A plan that is saved
// would not hold then.
func (a *app) noteKept(o *outline, saved bool) error {
	dir, err := a.kept(o.Run, o.store)
	switch {
	case dir == "" || err != nil:
		return err
	case saved:
		return fail(codeUsage, fmt.Errorf("the store has no record, and %s keeps some of this campaign, which apply takes over first: this plan would not hold", relative(dir)),
			"take them over now: `sotabuild cache import "+relative(dir)+"`")
	}
	_, err = fmt.Fprintf(a.err, "note: the store has no record, and %s keeps some of this campaign: apply takes them over first, and `sotabuild cache import %s` does so now\n", relative(dir), relative(dir))
	return err
}

// importFrom takes the records of a run directory into a store.
func importFrom(ctx context.Context, dir string, store *cache.Local) (*archive.Archive, int, error) {
	in, root, err := openArchive(dir)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close() // only read
	n, err := in.Import(ctx, store)
	return in, n, err
}

// openArchive reads which records a run directory keeps. The folder stays open for
// their outputs.
func openArchive(dir string) (*archive.Archive, *os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("opening run directory: %w", err)
	}
	in, err := archive.Open(root.FS())
	if err != nil {
		root.Close() // only read
		return nil, nil, fmt.Errorf("reading run directory %s: %w", dir, err)
	}
	return in, root, nil
}
