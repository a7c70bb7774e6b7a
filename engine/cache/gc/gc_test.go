package gc

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/cache/index"
	"github.com/sotabuild/sotabuild/engine/cache/journal"
	"github.com/sotabuild/sotabuild/engine/key"
)

var now = time.Now()

const day = 24 * time.Hour

// store has records of these ages, each with an output of its own of ten bytes
// and one of ten bytes that all share.
type store struct {
	t   *testing.T
	dir string
	*cache.Local
	own    []key.Digest
	shared key.Digest
}

func newStore(t *testing.T, ages ...time.Duration) *store {
	t.Helper()
	s := &store{t: t, dir: filepath.Join(t.TempDir(), "store")}
	s.open()
	for i, age := range ages {
		own := s.object(strings.Repeat(string(rune('a'+i)), 10))
		s.own, s.shared = append(s.own, own), s.object("0123456789")
		_, err := s.Put(t.Context(), cache.Record{Key: key.Key{byte(i + 1)}, Node: "node" + string(rune('a'+i)), Kind: "k", Outcome: cache.Outcome{State: cache.OK},
			Outputs: []cache.Output{{Name: "own", Digest: own, Size: 10}, {Name: "shared", Digest: s.shared, Size: 10}},
			Time:    cache.Span{Started: now.Add(-age)}, Origin: cache.Origin{Task: "task" + string(rune('a'+i))}})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *store) open() {
	s.t.Helper()
	var err error
	if s.Local, err = cache.OpenLocal(s.dir, cache.Options{}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.Local.Close() })
}

func (s *store) object(text string) key.Digest {
	s.t.Helper()
	d, _, err := s.Object(strings.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *store) plan(p Policy, h Hold) []Item {
	s.t.Helper()
	items, err := Plan(s.Snapshot, s.dir, p, h, now)
	if err != nil {
		s.t.Fatal(err)
	}
	return items
}

// nodes lists the records that would go, with the bytes that frees.
func nodes(items []Item) map[string]int64 {
	out := map[string]int64{}
	for _, it := range items {
		if it.Kind == Record {
			out[it.Name] = it.Bytes
		}
	}
	return out
}

func TestPlan(t *testing.T) {
	s := newStore(t, 40*day, 31*day, 5*day, 1*day)
	hold := func(names ...string) Hold {
		return Hold{Record: func(r *cache.Record) bool { return slices.Contains(names, r.Node) }}
	}
	for _, tc := range []struct {
		name string
		p    Policy
		h    Hold
		want map[string]int64
	}{
		{"nothing_is_asked", Policy{}, Hold{}, map[string]int64{}},
		{"by_age", Policy{MaxAge: 30 * day}, Hold{}, map[string]int64{"nodea": 10, "nodeb": 10}},
		{"by_age_all", Policy{MaxAge: time.Hour}, Hold{}, map[string]int64{"nodea": 20, "nodeb": 10, "nodec": 10, "noded": 10}},
		{"held", Policy{MaxAge: time.Hour}, hold("nodea", "noded"), map[string]int64{"nodeb": 10, "nodec": 10}},
		{"by_size", Policy{MaxBytes: 30}, Hold{}, map[string]int64{"nodea": 10, "nodeb": 10}}, // 50 bytes are there
		{"by_size_held", Policy{MaxBytes: 30}, hold("nodea"), map[string]int64{"nodeb": 10, "nodec": 10}},
		{"by_size_enough", Policy{MaxBytes: 50}, Hold{}, map[string]int64{}},
		{"both", Policy{MaxAge: 30 * day, MaxBytes: 20}, Hold{}, map[string]int64{"nodea": 10, "nodeb": 10, "nodec": 10}},
		{"leased_object", Policy{MaxAge: 30 * day}, Hold{Objects: map[key.Digest]bool{s.own[0]: true}}, map[string]int64{"nodea": 0, "nodeb": 10}},
	} {
		items := s.plan(tc.p, tc.h)
		if diff := cmp.Diff(tc.want, nodes(items)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		for _, it := range items {
			if it.Reason == "" || it.Age < 0 {
				t.Errorf("%s: %+v lacks its reason or age", tc.name, it)
			}
			if it.digest == s.own[0] && tc.h.Objects != nil {
				t.Errorf("%s: a leased object would go", tc.name)
			}
		}
	}
}

// What goes is gone, what stays is whole, and the serial goes on.
func TestRun(t *testing.T) {
	s := newStore(t, 40*day, 31*day, 5*day)
	if err := s.Spend("plan 1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Intend(cache.Intent{ID: "left", Kind: "task"}); err != nil {
		t.Fatal(err)
	}
	orphan, fresh := s.object("nobody's"), s.object("somebody's, soon")
	old := now.Add(-2 * time.Hour)
	path, err := s.Path(orphan)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	items := s.plan(Policy{MaxAge: 30 * day}, Hold{})
	if err := Run(s.Local, s.dir, items); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		var left []string
		for _, r := range s.Records() {
			left = append(left, r.Node)
		}
		if !slices.Equal(left, []string{"nodec"}) || s.Serial() != 3 || !s.Spent("plan 1") || len(s.Intents()) != 1 {
			t.Errorf("records %v, serial %d, spent %v, intents %v", left, s.Serial(), s.Spent("plan 1"), s.Intents())
		}
		if len(s.Lookup(key.Key{3})) != 1 || len(s.Lookup(key.Key{1})) != 0 {
			t.Error("the wrong record went")
		}
		for d, want := range map[key.Digest]bool{s.own[0]: false, s.own[1]: false, s.own[2]: true, s.shared: true, orphan: false, fresh: true} {
			if _, err := s.Bytes(d); (err == nil) != want {
				t.Errorf("object %s: %v, want it there: %v", d.Short(), err, want)
			}
		}
	}
	check()
	if r, err := s.Put(t.Context(), cache.Record{Key: key.Key{9}, Node: "next", Kind: "k", Outcome: cache.Outcome{State: cache.Failed}}); err != nil || r.Serial != 4 {
		t.Errorf("the next record: %+v, %v; want serial 4", r, err)
	}
	if err := s.Rewrite(func(r *cache.Record) bool { return r.Node != "next" }); err != nil {
		t.Fatal(err)
	}
	if err := s.Local.Close(); err != nil {
		t.Fatal(err)
	}
	s.open()
	if s.Serial() != 4 {
		t.Errorf("serial %d after its newest record went; want 4: a saved plan must not fit again", s.Serial())
	}
	if rep, err := cache.Verify(s.dir); err != nil || len(rep.Defects) > 0 {
		t.Errorf("verify: %+v, %v", rep, err)
	}
}

// Folders and files go by age, unless a kept record or a lease needs them.
func TestFolders(t *testing.T) {
	s := newStore(t, 40*day, 1*day)
	old := now.Add(-31 * day)
	for _, name := range []string{"tasks/taska/logs/server.log", "tasks/taskb/x", "tasks/left/x", "tasks/stray/x", "tasks/young/x", "events/run.jsonl", "quarantine/q"} {
		path := filepath.Join(s.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
			t.Fatal(err)
		}
		top := filepath.Join(s.dir, strings.Join(strings.Split(name, "/")[:2], "/"))
		if !strings.Contains(name, "young") {
			if err := os.Chtimes(top, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	outside := filepath.Join(t.TempDir(), "mine")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(s.dir, "tasks", "stray", "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(s.dir, "tasks", "stray"), old, old); err != nil {
		t.Fatal(err)
	}
	items := s.plan(Policy{MaxAge: 30 * day}, Hold{Tasks: map[string]bool{"left": true}})
	var got []string
	for _, it := range items {
		if it.Kind == Folder || it.Kind == File {
			got = append(got, it.Name)
			if it.Bytes != 5 {
				t.Errorf("%s has %d bytes, want 5", it.Name, it.Bytes)
			}
		}
	}
	if want := []string{"tasks/stray", "tasks/taska", "events/run.jsonl", "quarantine/q"}; !slices.Equal(got, want) {
		t.Errorf("would go: %v, want %v", got, want)
	}
	if err := Run(s.Local, s.dir, items); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"tasks/taska": false, "tasks/stray": false, "tasks/taskb": true, "tasks/left": true, "tasks/young": true} {
		if _, err := os.Stat(filepath.Join(s.dir, name)); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", name, err, want)
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a link out of the store was followed: %v", err)
	}
}

// TestNothingGoesWhereAnotherBuildWrote: whose outputs the objects are is not
// known, so none of them is garbage.
func TestNothingGoesWhereAnotherBuildWrote(t *testing.T) {
	s := newStore(t, 9*day)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.dir, "journal")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	newer := append(index.AppendHead(nil, 2, key.Key{9}, "n", "k"), "of another version"...)
	if err := os.WriteFile(path, journal.AppendFrame(b, index.FrameRecord, newer), 0o600); err != nil {
		t.Fatal(err)
	}
	s.open()
	if items, err := Plan(s.Snapshot, s.dir, Policy{MaxAge: day}, Hold{}, now); err == nil || !strings.Contains(err.Error(), "cache repair") {
		t.Errorf("%+v, %v", items, err)
	}
}
