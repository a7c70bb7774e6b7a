// Package sample finds and loads the recorded traces that tests read. They are
// too big for the repository: they lie in a folder shared/data beside it, or
// where SOTABUILD_DATA says. On a build machine (CI=true) a missing folder
// fails the test; elsewhere it skips loudly. Only tests import this package.
package sample

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

var loaded sync.Map // path → *read.Trace; traces are immutable

// Path is the path of a recorded file, for example "traces/facts.json".
func Path(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("SOTABUILD_DATA")
	if dir == "" {
		dir = filepath.Join(root(t), "..", "shared", "data")
	}
	p := filepath.Join(dir, filepath.FromSlash(name))
	if _, err := os.Stat(p); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("recorded data is missing (set SOTABUILD_DATA): %v", err)
		}
		t.Skipf("NOT TESTED: recorded data is missing (set SOTABUILD_DATA): %v", err)
	}
	return p
}

// Load reads a recorded trace once for all tests of a package.
func Load(t testing.TB, name string) *read.Trace {
	t.Helper()
	p := Path(t, name)
	if tr, ok := loaded.Load(p); ok {
		return tr.(*read.Trace)
	}
	tr, err := read.File(context.Background(), p, read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	loaded.Store(p, tr)
	return tr
}

// root is the folder of go.mod.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
}
