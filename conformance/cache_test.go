package conformance

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/engine/cache"
)

// TestCacheCommands runs every cache command on an open and on a locked store:
// ls, verify and a dry run need no lock, the others name its holder and exit
// with 4.
func TestCacheCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair("none"))
	for _, command := range []string{"ls", "verify", "repair", "gc"} { // of no store nothing is said that looks like an answer
		if r := s.must(7, "cache", command); r.out != "" || !strings.Contains(r.err, "there is no store at ") {
			t.Errorf("cache %s without a store: %q, %q", command, r.out, r.err)
		}
	}
	s.must(0, "apply")
	if out := s.must(0, "cache", "ls").out; strings.Count(out, "\n") != strings.Count(s.must(0, "cache", "ls", "--json").out, "\n") || !strings.Contains(out, "bench.good") {
		t.Errorf("cache ls:\n%s", out)
	}
	if out := s.must(0, "cache", "gc", "--max-age", "1ms").out; !strings.Contains(out, "0 records") {
		t.Errorf("gc took out what the plan uses:\n%s", out)
	}
	if out := s.must(0, "plan").out; !strings.Contains(out, "nothing to run") {
		t.Errorf("plan after gc:\n%s", out)
	}
	dry := s.must(0, "cache", "gc", "--max-age", "1ms", "--without-campaign", "--dry-run").out
	if strings.Contains(dry, "\n0 records") || !strings.Contains(dry, "would go") {
		t.Errorf("gc --dry-run:\n%s", dry)
	}

	l, err := cache.OpenLocal(filepath.Join(s.dir, ".sotabuild"), cache.Options{Command: "sotabuild apply"})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"cache", "ls"}, {"cache", "verify"}, {"cache", "gc", "--dry-run"}, {"plan"}, {"show"}} {
		s.must(0, args...)
	}
	for _, args := range [][]string{{"cache", "repair"}, {"cache", "gc"}, {"apply"}} {
		if r := s.must(4, args...); !strings.Contains(r.err, "sotabuild apply") || !strings.Contains(r.err, "pid ") {
			t.Errorf("%v does not name the holder: %s", args, r.err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	s.must(0, "cache", "gc", "--max-age", "1ms", "--without-campaign")
	if out := s.must(0, "cache", "ls").out; out != "" {
		t.Errorf("records left:\n%s", out)
	}
	s.must(0, "cache", "verify")
	s.must(0, "cache", "repair")
	s.must(7, "cache", "gc", "--max-size", "much")
	s.must(7, "cache")
}
