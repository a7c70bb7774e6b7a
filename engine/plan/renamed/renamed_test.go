package renamed

import (
	"testing"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
)

// store holds records with a key of their own each, oldest first.
type store []*cache.Record

func (s store) Kind(kind string) (of []*cache.Record) {
	for _, r := range s {
		if r.Kind == kind {
			of = append(of, r)
		}
	}
	return of
}

func TestNearest(t *testing.T) {
	facts := func(n int, in string) key.Manifest {
		var b key.Builder
		for i := range n {
			b.Int("flag", string(rune('a'+i)), 1)
		}
		b.Digest(compile.InputFact, "x", key.Sum([]byte(in)))
		return b.Finish()
	}
	g, problems := compile.Build(nil, compile.Env{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	c := New(g, store{
		&cache.Record{Node: "far", Kind: "k", Key: key.Key{1}, Manifest: facts(1, "one").Text()},
		&cache.Record{Node: "older", Kind: "k", Key: key.Key{2}, Manifest: facts(3, "one").Text()},
		&cache.Record{Node: "near", Kind: "k", Key: key.Key{3}, Manifest: facts(3, "one").Text()},
		&cache.Record{Node: "other scheme", Kind: "k", Key: key.Key{4}, Manifest: "scheme i \"0\"\n"},
		&cache.Record{Node: "other kind", Kind: "l", Key: key.Key{5}, Manifest: facts(6, "one").Text()},
	})
	for _, tc := range []struct {
		name    string
		now     key.Manifest
		whole   bool
		was     string
		changes int
	}{
		{"three facts added", facts(6, "one"), true, "near", 3},
		{"four facts added", facts(7, "one"), true, "", 0},
		{"an input counts", facts(6, "two"), true, "", 0},
		{"an input that is not known does not", facts(6, "two"), false, "near", 3},
		{"the fewest facts win", facts(1, "one"), true, "far", 0},
		{"the newest wins among equals", facts(2, "two"), false, "near", 1},
	} {
		got, changes := c.Nearest("k", tc.now, tc.whole)
		was := ""
		if got != nil {
			was = got.Node
		}
		if was != tc.was || len(changes) != tc.changes {
			t.Errorf("%s: %q with %v, want %q with %d", tc.name, was, changes, tc.was, tc.changes)
		}
	}
}
