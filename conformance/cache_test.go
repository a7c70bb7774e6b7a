package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
)

// TestCacheCommands runs every cache command on an open and on a locked store:
// ls, verify and a dry run need no lock, the others name its holder and exit
// with 4.
func TestCacheCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair("none"))
	for _, command := range []string{"ls", "verify", "gc"} { // of no store it is said that there is none
		if r := s.must(0, "cache", command); !strings.Contains(r.err, "note: there is no store at ") {
			t.Errorf("cache %s without a store: %q, %q", command, r.out, r.err)
		}
		if r := s.must(7, "cache", command, "--store", filepath.Join(s.dir, "typo")); r.out != "" || !strings.Contains(r.err, "there is no store at ") {
			t.Errorf("cache %s of a mistyped store: %q, %q", command, r.out, r.err)
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

// TestFlippedOutputs flips a bit in one output of each name and kind, which a
// stat does not show. Who only reads goes on without it, and apply makes it again.
func TestFlippedOutputs(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair("none"))
	s.must(0, "apply")
	dir := filepath.Join(s.dir, ".sotabuild")
	r, err := cache.OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	records := r.Records()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, rec := range slices.Backward(records) { // what hangs on it comes first, while it counts
		for _, o := range rec.Outputs {
			name := rec.Kind + " " + o.Name
			if seen[name] {
				continue
			}
			seen[name] = true
			flip(t, dir, o.Digest)
			s.must(0, "report")
			s.must(0, "show")
			if out := s.must(0, "apply"); !strings.Contains(out.err+out.out, "holds other bytes than were stored") {
				t.Errorf("%s: apply does not say what was broken:\n%s%s", name, out.out, out.err)
			}
			if out := s.must(0, "apply").out; !strings.Contains(out, "Applied: 0 nodes run") {
				t.Errorf("%s: one more apply:\n%s", name, out)
			}
			s.must(0, "cache", "repair")
			break // of what has lost an output nobody reads another
		}
	}
	if len(seen) < 8 {
		t.Errorf("only %v were flipped", seen)
	}
}

// TestFlippedInputOfReplaced: what is to run again and has a broken input fails;
// told once more, it runs after what makes the input.
func TestFlippedInputOfReplaced(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair("none"))
	s.must(0, "apply")
	dir := filepath.Join(s.dir, ".sotabuild")
	r, err := cache.OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	prompts := r.History("dataset.chat.c2")[0].Outputs[0].Digest
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	flip(t, dir, prompts)
	const cell = `bench.good["baseline"].chat.c2`
	if out := s.must(5, "apply", "--replace", cell); !strings.Contains(out.out, "✗ "+cell+"  start_failed: ") || !strings.Contains(out.out, "its bytes are not those that were stored") {
		t.Errorf("it does not say what is broken:\n%s", out.out)
	}
	out := s.must(0, "apply", "--replace", cell, "--json").out
	if got := startedNodes(out); !slices.Contains(got, "dataset.chat.c2") || !slices.Contains(got, cell) {
		t.Errorf("told once more it starts %v:\n%s", got, out)
	}
}

// flip changes a bit in the middle of an object of a store.
func flip(t *testing.T, store string, d key.Digest) {
	t.Helper()
	hex := strings.TrimPrefix(d.String(), "sha256:")
	path := filepath.Join(store, "cas", hex[:2], hex[2:])
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err == nil {
		b[len(b)/2] ^= 1
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
