package saved

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan"
)

var kind = &compile.Kind{Name: "cell", Version: 1, Purity: compile.Measured, Outputs: []string{"row"},
	Func: func(context.Context, compile.Job) compile.Result { return compile.Result{} }}

type spec struct {
	Threads int `key:"threads"`
}

// made is a plan of two nodes, the second of which needs the first.
func made(t *testing.T, r cache.Reader, driver string, threads int, names ...string) Plan {
	t.Helper()
	if names == nil {
		names = []string{"a", "b"}
	}
	env := compile.Env{Binding: []key.Fact{{Name: "env.driver", Type: key.Text, Value: driver}}}
	g, problems := compile.Build([]compile.Decl{
		{Addr: names[0], Kind: kind, Spec: spec{threads}},
		{Addr: names[1], Kind: kind, Spec: spec{1}, Inputs: []compile.Input{{Name: "row", From: names[0], Output: "row"}}},
	}, env)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	p, problems := plan.Make(g, r, plan.Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s := New(g, p, time.Date(2026, 11, 30, 13, 0, 0, 0, time.FixedZone("", 3600)))
	s.Tool = Tool{Version: "1.0", Build: key.Sum([]byte("build"))}
	s.Campaign = Campaign{Name: "c", Files: map[string]key.Digest{"campaign.hcl": key.Sum([]byte("text"))}, Vars: map[string]string{"n": "1"}}
	s.Store.ID = "store"
	return s
}

func empty(t *testing.T) *cache.Snapshot {
	t.Helper()
	r, err := cache.OpenReader(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWriteAndRead(t *testing.T) {
	want := made(t, empty(t), "580", 4)
	path := filepath.Join(t.TempDir(), "p")
	if err := Write(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if moved := Moved(want, got, empty(t)); moved != nil || !got.Made.Equal(want.Made) || got.ID != want.ID {
		t.Errorf("read back %+v, moved %q", got, moved)
	}
	if other := made(t, empty(t), "580", 4); other.ID == want.ID {
		t.Error("two plans have one id")
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want private", st.Mode(), err)
	}
}

// What is no saved plan is not replaced by one: a campaign, a device, a folder.
func TestWritable(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("campaign.hcl"), []byte("campaign {}"), 0o600), os.WriteFile(at("empty"), nil, 0o600),
		Write(at("plan"), made(t, empty(t), "580", 4))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"new", "empty", "plan"} {
		if err := Writable(at(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for path, want := range map[string]string{
		at("campaign.hcl"): "would be lost", dir: "no file", os.DevNull: "no file", at("none/plan"): "there is no folder", at("plan/x"): "not a directory",
	} {
		if err := Writable(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// Whatever is done to the file, it is refused, and the message says what to do.
func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p")
	if err := Write(path, made(t, empty(t), "580", 4)); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"empty": nil, "cut": whole[:len(whole)-1], "other": []byte("{}\n"),
		"edited": []byte(strings.Replace(string(whole), `"n": "1"`, `"n": "2"`, 1)),
	} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "--out") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Read(filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there was read")
	}
}

// Each thing that can move is named, alone.
func TestMovedNamesWhatMoved(t *testing.T) {
	r := empty(t)
	d := key.Sum([]byte("other"))
	files := func(name string, d key.Digest) map[string]key.Digest {
		m := maps.Clone(made(t, r, "580", 4).Campaign.Files)
		if m[name] = d; d.IsZero() {
			delete(m, name)
		}
		return m
	}
	for _, tc := range []struct {
		name string
		is   Plan
		edit func(*Plan)
		want []string
	}{
		{"nothing", made(t, r, "580", 4), func(*Plan) {}, nil},
		{"version", made(t, r, "580", 4), func(p *Plan) { p.Tool.Version = "1.1" }, []string{"tool version: 1.0 → 1.1"}},
		{"build", made(t, r, "580", 4), func(p *Plan) { p.Tool.Build = d }, []string{"tool build: sha256:" + key.Sum([]byte("build")).Short() + " → sha256:" + d.Short()}},
		{"campaign", made(t, r, "580", 4), func(p *Plan) { p.Campaign.Name = "d" }, []string{`campaign: "c" → "d"`}},
		{"file", made(t, r, "580", 4), func(p *Plan) { p.Campaign.Files = files("campaign.hcl", d) }, []string{"file campaign.hcl: its bytes changed"}},
		{"file_gone", made(t, r, "580", 4), func(p *Plan) { p.Campaign.Files = files("campaign.hcl", key.Digest{}) }, []string{"file campaign.hcl: it is gone"}},
		{"file_new", made(t, r, "580", 4), func(p *Plan) { p.Campaign.Files = files("x.auto.hclvars", d) }, []string{"file x.auto.hclvars: it is new"}},
		{"variable", made(t, r, "580", 4), func(p *Plan) { p.Campaign.Vars = map[string]string{"n": "2"} }, []string{`variable n: "1" → "2"`}},
		{"variable_gone", made(t, r, "580", 4), func(p *Plan) { p.Campaign.Vars = nil }, []string{`variable n: "1" → (not given)`}},
		{"environment_variable", made(t, r, "580", 4), func(p *Plan) { p.Campaign.Env = map[string]string{"m": ""} }, []string{`variable of the environment m: (not given) → ""`}},
		{"store", made(t, r, "580", 4), func(p *Plan) { p.Store.ID = "" }, []string{"store: it is another one than the plan was made from, store → (none)"}},
		{"serial", made(t, r, "580", 4), func(p *Plan) { p.Store.Serial = 7 }, []string{"store: its journal is at record 7, the plan was made at 0"}},
		{"host", made(t, r, "590", 4), func(*Plan) {}, []string{"environment: env.driver 580 → 590", "node a: env.driver 580 → 590"}},
		{"fact", made(t, r, "580", 5), func(*Plan) {}, []string{"node a: threads 4 → 5"}},
		{"node_gone_and_new", made(t, r, "580", 4, "a", "z"), func(*Plan) {}, []string{"node b: it is gone", "node z: it is new"}},
		{"verdict", made(t, r, "580", 4), func(p *Plan) { p.Nodes[0].Verdict = "cached" }, []string{"node a: new → cached"}},
	} {
		tc.edit(&tc.is)
		if diff := cmp.Diff(tc.want, Moved(made(t, r, "580", 4), tc.is, r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// After a part of a plan was applied, what was unknown may become known, and
// nothing else may change.
func TestBroken(t *testing.T) {
	r := empty(t)
	was, is := made(t, r, "580", 4), made(t, r, "580", 4)
	is.Nodes[0].Verdict = "cached"
	is.Nodes[1].Key = key.Key{1}
	is.Store.Serial = 1
	if got := Broken(was, is, r); got != nil {
		t.Errorf("%q: it follows from the plan", got)
	}
	if got := Broken(was, made(t, r, "580", 5), r); !slices.Equal(got, []string{"node a: threads 4 → 5"}) {
		t.Errorf("%q", got)
	}
}

// A cached node's manifest is found by its old key in the store.
func TestMovedReadsTheStore(t *testing.T) {
	store, err := cache.OpenLocal(t.TempDir(), cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	first := made(t, store, "580", 4)
	d, n, err := store.Object(strings.NewReader("row"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), cache.Record{Key: first.Nodes[0].Key, Node: "a", Kind: "cell", Manifest: first.Nodes[0].Manifest,
		Outcome: cache.Outcome{State: cache.OK}, Outputs: []cache.Output{{Name: "row", Digest: d, Size: n}}}); err != nil {
		t.Fatal(err)
	}
	was := made(t, store, "580", 4)
	if was.Nodes[0].Verdict != "cached" || was.Nodes[0].Manifest != "" {
		t.Fatalf("%+v: want a cached node without a manifest", was.Nodes[0])
	}
	got := Moved(was, made(t, store, "580", 5), store)
	want := []string{"node a: threads 4 → 5", "and 1 node that follows from those"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
