package prepare

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/campaign/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/frameworks"
)

// TestCompiledFormAgainstScratch edits a campaign, its files, its host, the clock
// and the store at random. A compiled form that is taken says in every word what
// compiling from scratch says, and one is taken exactly where nothing that it was
// made from is another: what that is, this test writes out whole, by itself.
func TestCompiledFormAgainstScratch(t *testing.T) {
	const perSeed = 50
	seen := map[string]int{}
	for seed := range uint64(edits() / perSeed) {
		e := newEdited(t, rand.New(rand.NewPCG(seed, 17)))
		dir := t.TempDir()
		x := &twice{edited: e, dir: dir, store: open(t, dir), now: time.Now(), seen: seen}
		for step := range perSeed {
			x.compare(t)
			if t.Failed() {
				t.Fatalf("seed %d step %d", seed, step)
			}
			x.change(t)
		}
		closing(t, x.store)
	}
	for _, what := range []string{"taken", "not taken", "not taken of the same files", "cached", "later", "skipped", "warned of reading", "warned of compiling"} {
		if seen[what] < 20 {
			t.Errorf("%q was met %d times: the test no longer tests it (%v)", what, seen[what], seen)
		}
	}
}

// twice is a campaign that is compiled from scratch and taken from its compiled
// form.
type twice struct {
	*edited
	dir   string // of the store and of what is kept
	store *cache.Local
	now   time.Time
	seen  map[string]int
	made  string // what the kept form was made from
	files map[string]key.Digest
}

func (x *twice) path(name string) string { return filepath.Join(x.dir, name) }

// change edits anything, or nothing.
func (x *twice) change(t *testing.T) {
	r := x.rand
	switch r.IntN(9) {
	case 0, 8:
		x.edit()
	case 1, 2: // something has run
		x.run(t)
	case 3:
		x.now = x.now.Add(time.Duration(r.IntN(8*24)) * time.Hour)
	case 4: // a file that is read comes, goes, or is another
		name := []string{"more.campaign.hcl", "x.auto.hclvars", ".hidden.campaign.hcl", "notes.txt", "tiny.framework.hcl"}[r.IntN(5)]
		if err := os.Remove(filepath.Join(x.edited.dir, name)); err != nil {
			text := "# " + fmt.Sprint(r.IntN(2)) + "\n"
			if name == "tiny.framework.hcl" {
				b, err := frameworks.FS.ReadFile("tinyserve.hcl")
				if err != nil {
					t.Fatal(err)
				}
				text += strings.Replace(string(b), `"tinyserve"`, `"tiny"`, 1)
			}
			x.file(name, text, 0o644)
		}
	case 5: // the model says itself what its vocabulary is, or there is no word of it
		config := filepath.Join(x.edited.dir, "model/config.json")
		switch r.IntN(3) {
		case 0:
			_ = os.Remove(config) // it may not be there
			x.own = false
		case 1:
			x.file("model/config.json", fmt.Sprintf(`{"vocab_size":%d}`, 512+r.IntN(2)), 0o644)
		case 2:
			_, err := os.Stat(config)
			x.own = err == nil
		}
		x.write()
	case 6:
		if x.real = !x.real; r.IntN(2) == 0 {
			x.searched[0] = []string{"2", "3", "4", "5", "6"} // more than are measured, which is a warning
		}
		x.write()
	case 7: // what is kept is damaged, or gone
		b, err := os.ReadFile(x.path("compiled"))
		if err != nil {
			t.Fatal(err)
		}
		switch r.IntN(3) {
		case 0:
			b = b[:r.IntN(len(b))]
		case 1:
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		}
		if err := os.WriteFile(x.path("compiled"), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// compare compiles both ways.
func (x *twice) compare(t *testing.T) {
	t.Helper()
	c, loaded := lang.Load(lang.Input{Dir: x.edited.dir, Definitions: frameworks.FS})
	if loaded.HasErrors() {
		t.Fatal(loaded.Text(false))
	}
	files, err := key.OpenFiles(x.path("files"))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := OpenCompiled(x.path("compiled"))
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]key.Digest{}
	for _, f := range c.Files {
		digests[f.Name] = key.Sum(f.Bytes)
	}
	// What the form was made from with its files unread, by their stats.
	unread := false
	if kept != nil {
		found, ok := kept.Files(x.edited.dir, files)
		if unread = ok && maps.Equal(found, x.files); unread != maps.Equal(digests, x.files) {
			t.Errorf("by stats the files are those that were compiled: %v", unread)
		}
	}
	f, _, diags := Reader{Files: files, Self: "self"}.Probe(t.Context(), c)
	if diags.HasErrors() {
		t.Fatal(diags.Text(false))
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	var env key.Builder
	env.Text("env.driver", "", x.driver)
	f.Env = compile.Env{Binding: env.Finish().Facts()}
	of, err := json.Marshal([]any{x.edited.dir, digests})
	if err != nil {
		t.Fatal(err)
	}
	from := Origin{Of: key.Sum(of)}
	if from.Facts, err = Remember(x.path("facts"), from.Of, f); err != nil {
		t.Fatal(err)
	}
	scratch, said := From(c, f, x.store, x.now)
	if said.HasErrors() {
		t.Fatal(said.Text(false))
	}
	made := x.whole(t, scratch)
	taken := false
	if kept != nil {
		var out Outline
		var alsoSaid lang.Diagnostics
		if out, alsoSaid, taken = kept.Outline(from, x.store, x.now); taken {
			if diff := cmp.Diff(x.words(t, scratch.Outline, loaded, said), x.words(t, out, kept.Loaded(), alsoSaid)); diff != "" {
				t.Errorf("(-scratch +compiled form):\n%s", diff)
			}
			if diff := cmp.Diff(scratch.Facts, Whole(out, c, f).Facts); diff != "" {
				t.Errorf("facts (-scratch +compiled form):\n%s", diff)
			}
		}
		// A damaged form is none, so it is not here.
		if want := made == x.made; taken != want {
			t.Errorf("it is taken: %v; what it was made from is the same: %v", taken, want)
		}
	}
	if taken {
		x.seen["taken"]++
		return
	}
	x.seen["not taken"]++
	if unread {
		x.seen["not taken of the same files"]++
	}
	if err := scratch.Keep(x.path("compiled"), from, loaded, said); err != nil {
		t.Fatal(err)
	}
	x.made, x.files = made, digests
}

// whole is everything that compiling depends on: the files' bytes, the facts of
// the host, and what the store answers.
func (x *twice) whole(t *testing.T, p *Prepared) string {
	t.Helper()
	b, err := os.ReadFile(x.path("facts"))
	if err != nil {
		t.Fatal(err)
	}
	text := x.edited.dir + string(b)
	for _, f := range p.Campaign.Files {
		text += fmt.Sprintf("%q %q\n", f.Name, f.Bytes)
	}
	for _, label := range slices.Sorted(maps.Keys(p.Facts.Helps)) {
		text += fmt.Sprintf("%q %q\n", label, p.Facts.Helps[label])
	}
	return text + fmt.Sprint(p.Graph.Env.Recorded, p.Unasked)
}

// words is a plan of an outline and all else that is said.
func (x *twice) words(t *testing.T, o Outline, loaded, said lang.Diagnostics) []string {
	t.Helper()
	p, problems := plan.Make(o.Graph, x.store, plan.Options{Now: x.now})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for i := range p.Nodes {
		x.seen[p.Nodes[i].Verdict.Word()]++
	}
	if len(said) > 0 {
		x.seen["warned of compiling"]++
	}
	if len(loaded) > 0 {
		x.seen["warned of reading"]++
	}
	b, err := json.MarshalIndent(p.Document(o.Graph), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return []string{o.Name, fmt.Sprint(o.Rounds), fmt.Sprint(o.Unasked), loaded.Text(false), said.Text(false), p.Text(o.Graph), string(b)}
}

// run gives some nodes that could run a result.
func (x *twice) run(t *testing.T) {
	t.Helper()
	c, _ := lang.Load(lang.Input{Dir: x.edited.dir, Definitions: frameworks.FS})
	files, err := key.OpenFiles("")
	if err != nil {
		t.Fatal(err)
	}
	f, _, _ := Reader{Files: files, Self: "self"}.Probe(t.Context(), c)
	var env key.Builder
	env.Text("env.driver", "", x.driver)
	f.Env = compile.Env{Binding: env.Finish().Facts()}
	p, diags := From(c, f, x.store, x.now)
	if diags.HasErrors() {
		t.Fatal(diags.Text(false))
	}
	records, some := make([]*cache.Record, len(p.Graph.Actions)), 1+x.rand.IntN(4)
	for i := range p.Graph.Actions {
		a := &p.Graph.Actions[i]
		m, known := p.Graph.Manifest(a.ID, func(from graph.NodeID, output string) (key.Digest, bool) {
			if records[from] == nil {
				return key.Digest{}, false
			}
			return records[from].Output(output), true
		})
		if a.Skip != "" || !known {
			continue
		}
		if records[i], _ = plan.Hit(a, x.store.Lookup(m.Key()), x.now); records[i] != nil && x.rand.IntN(10) > 0 || x.rand.IntN(4) >= some {
			continue
		}
		r := cache.Record{Key: m.Key(), Node: a.Addr, Kind: a.Kind.Name, Manifest: m.Text(), Outcome: cache.Outcome{State: cache.OK}, Time: cache.Span{Started: x.now}}
		if x.rand.IntN(8) == 0 {
			r.Outcome = cache.Outcome{State: cache.Failed, Class: "oom", Keep: x.rand.IntN(2) == 0}
		}
		for _, name := range a.Kind.Outputs {
			text := fmt.Sprint(name, x.rand.IntN(2))
			switch {
			case a.Kind == campaign.HelpKind: // another one of the same program, too
				text = sample.Help + strings.Repeat("  --more N  more (default: 1)\n", x.rand.IntN(2))
				if x.rand.IntN(3) == 0 {
					text = strings.Replace(text, "--max-num-seqs", "--max-num-sequences", 1)
				}
			case a.Kind == campaign.ClientKind:
				text = fmt.Sprintf(`{"good_events_per_s": %d}`, x.rand.IntN(2))
			}
			d, n, err := x.store.Object(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			r.Outputs = append(r.Outputs, cache.Output{Name: name, Digest: d, Size: n})
		}
		if records[i], err = x.store.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCompiledFormOfAnotherBuild: a form whose nodes have other edges than this
// build's is refused, and nothing worse.
func TestCompiledFormOfAnotherBuild(t *testing.T) {
	dir := t.TempDir()
	decls := []compile.Decl{
		{Addr: "dataset.a", Kind: campaign.DatasetKind},
		{Addr: "help.a.server", Kind: campaign.HelpKind, Inputs: []compile.Input{{Name: "a", From: "dataset.a", Output: campaign.DatasetKind.Outputs[0]}}},
	}
	g, problems := compile.Build(decls, compile.Env{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	path := filepath.Join(dir, "compiled")
	if err := os.WriteFile(path, compile.Freeze(g, []byte(`{"name":"a"}`)), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := OpenCompiled(path)
	if err != nil || k == nil {
		t.Fatal(k, err)
	}
	r, err := cache.OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, _, ok := k.Outline(Origin{}, r, time.Now()); ok {
		t.Error("it is taken")
	}
}
