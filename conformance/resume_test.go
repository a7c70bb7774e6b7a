package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestStoreDeleted: the run directory keeps what a store has lost. Plan says so,
// apply takes it over and measures nothing again, and report writes nothing over
// it. A damaged output is refused by its name and what needs it runs. A store that
// is named is what it is, and with the run directory gone everything is measured
// anew (DESIGN 5, R185).
func TestStoreDeleted(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair("none"))
	all := len(startedNodes(s.must(0, "apply", "--json").out))
	rows := s.must(0, "report", "--format", "csv").out
	kept := runDir(t, s)
	forget := func() {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(s.dir, ".sotabuild")); err != nil {
			t.Fatal(err)
		}
	}

	forget()
	if r := s.must(0, "plan"); !strings.Contains(r.err, "apply takes them over first") || !strings.Contains(r.err, "_sota_humanize") {
		t.Errorf("the plan of a deleted store says nothing of the run directory:\n%s", r.err)
	}
	if r := s.must(7, "report"); !strings.Contains(r.err, "sotabuild cache import ") {
		t.Errorf("a report of an empty store:\n%s", r.err)
	}
	if r := s.must(0, "apply"); !strings.Contains(r.out, "Applied: 0 nodes run") || !strings.Contains(r.err, "are taken over") {
		t.Errorf("an apply after the store was deleted:\n%s%s", r.out, r.err)
	}
	if again := s.must(0, "report", "--format", "csv").out; again != rows {
		t.Errorf("the report is another:\n%s\n%s", rows, again)
	}

	forget()
	help := filepath.Join(kept, "help", "good_server.txt")
	if err := os.WriteFile(help, []byte("usage: another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := s.must(0, "apply", "--json")
	if !strings.Contains(r.err, "refused: ") || !strings.Contains(r.err, "good_server.txt") {
		t.Errorf("a damaged file is not named:\n%s", r.err)
	}
	if got := startedNodes(r.out); !slices.Contains(got, "help.good.server") || slices.ContainsFunc(got, func(n string) bool { return strings.HasPrefix(n, "bench.") }) {
		t.Errorf("after a damaged help ran %v", got)
	}

	if r := s.must(0, "apply", "--store", filepath.Join(s.dir, "other"), "--json"); len(startedNodes(r.out)) != all {
		t.Errorf("in a store of its own %d nodes ran, want %d", len(startedNodes(r.out)), all)
	}
	forget()
	if err := os.RemoveAll(filepath.Join(s.dir, "runs")); err != nil {
		t.Fatal(err)
	}
	if r := s.must(0, "apply", "--json"); len(startedNodes(r.out)) != all || strings.Contains(r.err, "taken over") {
		t.Errorf("without a run directory %d nodes ran, want %d\n%s", len(startedNodes(r.out)), all, r.err)
	}
}
