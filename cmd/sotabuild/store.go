package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/lang"
)

func (a *app) storeDir() string {
	if a.store != "" {
		return a.store
	}
	return filepath.Join(a.dir, ".sotabuild")
}

// ofStores are names that are found in stores and hardly anywhere else: which of
// them one has depends on what was run.
var ofStores = []string{"id", "journal", "cas", "facts", "files", "compiled", "containers", "weights"}

// existing is the folder of a store that is there, for commands that look at
// what one holds: of a mistyped folder nothing is said that looks like an answer.
// An empty folder is an empty store, and a campaign that nothing was run of has
// one that is not there yet.
func (a *app) existing() (string, error) {
	dir := a.storeDir()
	entries, err := os.ReadDir(dir)
	hint := "write the campaign's folder with -C, or the store's with --store; `sotabuild apply` makes one"
	var is *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist) && a.store == "" && a.hasCampaign():
		fmt.Fprintf(a.err, "note: there is no store at %s yet; `sotabuild apply` makes one\n", relative(dir))
		return dir, nil
	case errors.Is(err, fs.ErrNotExist):
		return "", fail(codeUsage, fmt.Errorf("there is no store at %s", relative(dir)), hint)
	case errors.Is(err, fs.ErrPermission):
		return dir, nil // it may be opened without being listed; who opens it tells
	case errors.As(err, &is):
		return "", fail(codeUsage, fmt.Errorf("%s is no store: %w", relative(dir), is.Err), hint)
	case err != nil:
		return "", err
	case len(entries) > 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return slices.Contains(ofStores, e.Name()) }):
		return "", fail(codeUsage, fmt.Errorf("%s is no store: it holds other files", relative(dir)), hint)
	}
	return dir, nil
}

// reread does something with a store again while it comes upon objects that nobody
// knew to be broken, and tells of them: then they are misses, and so is what needs
// them.
func reread(r cache.Reader, tell func(defects []string), do func() error) error {
	for {
		known := len(r.Defects())
		err := do()
		found := r.Defects()[known:]
		if !errors.Is(err, cache.ErrMissing) || len(found) == 0 {
			return err
		}
		tell(found)
	}
}

// hasCampaign reports whether the folder holds a campaign, right or wrong.
func (a *app) hasCampaign() bool {
	sources, err := lang.Sources(a.dir)
	return err == nil && slices.ContainsFunc(sources, func(name string) bool {
		_, err := os.Lstat(filepath.Join(a.dir, name))
		return err == nil
	})
}

// named is the error of a store that --store names and that is not there. Where
// none is named the campaign's own is meant, which may not be made yet.
func (a *app) named() error {
	if a.store == "" {
		return nil
	}
	_, err := a.existing()
	return err
}

// toDo says what to do about an error that a disk gives: those of the store.
var toDo = []struct {
	err  error
	hint string
}{
	{fs.ErrPermission, "run this as the store's owner, or give a store of your own with --store FOLDER"},
	{syscall.ENOSPC, "make room on its disk; nothing recorded is lost, and the next apply goes on from there (`sotabuild cache gc --dry-run` says what the store could do without)"},
	{syscall.EDQUOT, "make room within the quota; nothing recorded is lost, and the next apply goes on from there (`sotabuild cache gc --dry-run` says what the store could do without)"},
	{syscall.EROFS, "its disk is mounted read-only: plan, show and explain work there, apply needs a store that can be written (--store FOLDER)"},
}

// aboutStore adds what to do where the store, or something in it, cannot be
// opened or written.
func (a *app) aboutStore(err error) error {
	var at *fs.PathError
	if !errors.As(err, &at) || !a.ofStore(at.Path) {
		return err
	}
	for _, d := range toDo {
		if !errors.Is(err, d.err) {
			continue
		}
		var ee *exitError
		if errors.As(err, &ee) {
			return fail(ee.code, ee.err, append(slices.Clone(ee.hints), d.hint)...)
		}
		return fail(codeError, err, d.hint)
	}
	return err
}

// ofStore reports whether a path is the store or lies in it.
func (a *app) ofStore(path string) bool {
	dir, bad := filepath.Abs(a.storeDir())
	path, bad2 := filepath.Abs(path)
	if bad != nil || bad2 != nil {
		return false
	}
	rel, bad := filepath.Rel(dir, path)
	return bad == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
