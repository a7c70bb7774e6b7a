package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/frameworks"
)

const varPrefix = "SOTABUILD_VAR_"

// inputs are the values of variables from outside the campaign's files.
type inputs struct{ Vars, Env map[string]string }

// given is what the command line and the environment say.
func (a *app) given() (inputs, error) {
	vars, err := parseVars(a.vars)
	if err != nil {
		return inputs{}, fail(codeUsage, err)
	}
	return inputs{Vars: vars, Env: variablesOf(os.Environ())}, nil
}

// inputs is what the campaign is read with: what is given, or what a saved
// plan holds.
func (a *app) inputs() (inputs, error) {
	if a.fixed != nil {
		return *a.fixed, nil
	}
	return a.given()
}

// load reads the campaign and prints what is wrong with it.
func (a *app) load() (*lang.Campaign, error) {
	c, _, err := a.read()
	return c, err
}

// read is load that also returns the warnings.
func (a *app) read() (*lang.Campaign, lang.Diagnostics, error) {
	c, diags, err := a.parse()
	if err != nil {
		return nil, nil, err
	}
	if err := a.diagnose(diags); err != nil {
		return nil, nil, err
	}
	return c, diags, overrideExecutor(c, a.executor)
}

// parse reads the campaign and prints nothing.
func (a *app) parse() (*lang.Campaign, lang.Diagnostics, error) {
	dir, err := filepath.Abs(a.dir)
	if err != nil {
		return nil, nil, err
	}
	in, err := a.inputs()
	if err != nil {
		return nil, nil, err
	}
	c, diags := lang.Load(lang.Input{Dir: dir, Definitions: frameworks.FS, Vars: in.Vars, Env: in.Env})
	return c, diags, nil
}

// variablesOf are the values of variables in an environment, by name.
func variablesOf(environ []string) map[string]string {
	vars := map[string]string{}
	for _, kv := range environ {
		if name, v, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, varPrefix) {
			vars[strings.TrimPrefix(name, varPrefix)] = v
		}
	}
	return vars
}

func parseVars(args []string) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range args {
		name, v, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--var %q: write NAME=VALUE", s)
		}
		out[name] = v
	}
	return out, nil
}

// diagnose prints diagnostics; errors among them end the command with code 7.
// As JSON they are the output where there is no other; warnings beside a
// document go where they do not make it two.
func (a *app) diagnose(diags lang.Diagnostics) error {
	if a.json {
		w := a.err
		if diags.HasErrors() || a.checking {
			w = a.out
		}
		for _, d := range diags {
			b, err := json.Marshal(d)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%s\n", b)
		}
	} else if len(diags) > 0 {
		fmt.Fprint(a.err, diags.Text(a.style(a.err).on))
	}
	if diags.HasErrors() {
		return done(codeUsage)
	}
	return nil
}

// session is an opened campaign: what explain, show and apply share.
type session struct {
	*prepare.Prepared
	*ground
	store cache.Reader
}

// ground is what opening a campaign needs beside its text and a store's records.
type ground struct {
	files  *key.Files
	places *places
	self   string // this program
	dir    string // of the store, absolute
	inputs
	readOnly bool // the store, as was told
}

func (a *app) ground() (*ground, error) {
	dir, err := filepath.Abs(a.storeDir())
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	files, err := key.OpenFiles(filepath.Join(dir, "files"))
	if err != nil {
		a.unkept(err)
		if files, err = key.OpenFiles(""); err != nil {
			return nil, err
		}
	}
	in, err := a.inputs()
	return &ground{files: files, places: newPlaces(self, dir), self: self, dir: dir, inputs: in}, err
}

// unkept tells of a file of the store that only saves time and cannot be read or
// written: what it would say is read anew.
func (a *app) unkept(err error) { fmt.Fprintf(a.err, "warning: %v; it only saves time\n", err) }

// tasks is the folder of task folders.
func (g *ground) tasks() string { return filepath.Join(g.dir, "tasks") }

// factsFile and compiledFile are what the store keeps of a campaign to save time.
func (g *ground) factsFile() string    { return filepath.Join(g.dir, "facts") }
func (g *ground) compiledFile() string { return filepath.Join(g.dir, "compiled") }

// open prepares the campaign against a store.
func (a *app) open(ctx context.Context, store cache.Reader, c *lang.Campaign) (*session, error) {
	g, err := a.ground()
	if err != nil {
		return nil, err
	}
	facts, _, err := a.facts(ctx, c, g)
	if err != nil {
		return nil, err
	}
	p, _, err := a.compile(c, facts, store)
	if err != nil {
		return nil, err
	}
	return &session{Prepared: p, ground: g, store: store}, nil
}

// compile prints what is wrong and returns the warnings.
func (a *app) compile(c *lang.Campaign, f campaign.Facts, store cache.Reader) (*prepare.Prepared, lang.Diagnostics, error) {
	p, diags := prepare.From(c, f, store, time.Now())
	if err := a.diagnose(diags); err != nil {
		return nil, nil, err
	}
	a.noteDefects(store)
	return p, diags, nil
}

func (a *app) noteDefects(store cache.Reader) {
	for _, d := range store.Defects() {
		fmt.Fprintf(a.err, "warning: store: %s\n", d)
	}
}

// remember keeps the fingerprints of files for the next command. They only save
// time, so a folder that cannot be written is a warning.
func (a *app) remember(g *ground) {
	if err := g.files.Close(); err != nil {
		a.unkept(err)
	}
}

// facts reads the host's facts, or with --refresh=false takes those of the last
// time. Where none are remembered of this very campaign they are read, and that
// is said. The origin names them.
func (a *app) facts(ctx context.Context, c *lang.Campaign, g *ground) (campaign.Facts, prepare.Origin, error) {
	f, from, err := a.hostFacts(ctx, c, g)
	if err != nil {
		return f, from, err
	}
	f.Revision, f.Hub, err = prepare.Weights(c, g.dir)
	from.Revision = f.Revision
	return f, from, err
}

func (a *app) hostFacts(ctx context.Context, c *lang.Campaign, g *ground) (f campaign.Facts, from prepare.Origin, err error) {
	if from.Of, err = a.origin(g, c.Dir, fileDigests(c)); err != nil {
		return f, from, err
	}
	if a.stale {
		var ok bool
		if f, from.Facts, ok, err = prepare.Recall(g.factsFile(), from.Of, g.self); ok {
			return f, from, nil
		}
		if err != nil {
			a.unkept(err)
		}
		fmt.Fprintln(a.err, "note: no facts are kept of the campaign with these files, variables and flags, so --refresh=false reads them now")
	}
	f, notes, diags := prepare.Reader{Files: g.files, Places: g.places, Images: filepath.Join(g.dir, "images.json"), Self: g.self}.Probe(ctx, c)
	for _, n := range notes {
		if !slices.Contains(a.said, n) { // apply reads the facts twice
			a.said = append(a.said, n)
			fmt.Fprintf(a.err, "warning: %s\n", n)
		}
	}
	if err := a.diagnose(diags); err != nil {
		return f, from, err
	}
	if from.Facts, err = prepare.Remember(g.factsFile(), from.Of, f); err != nil {
		a.unkept(err)
		g.readOnly = true
	}
	return f, from, nil
}

// origin names what a campaign's facts and its graph are of: its files, the
// variables and this build.
func (a *app) origin(g *ground, dir string, files map[string]key.Digest) (key.Digest, error) {
	build, err := g.files.File(g.self)
	if err != nil {
		return key.Digest{}, err
	}
	var b key.Builder // which takes bytes as they are
	b.Digest("build", "", build)
	b.Text("dir", "", dir)
	b.Text("executor", "", a.executor)
	for name, d := range files {
		b.Digest("file", name, d)
	}
	for name, v := range g.Vars {
		b.Text("var", name, v)
	}
	for name, v := range g.Env {
		b.Text("env", name, v)
	}
	return key.Digest(b.Finish().Key()), nil
}

// reader is a store that is opened for reading, while the campaign is read.
func (a *app) reader() func() (*cache.Snapshot, error) {
	type opened struct {
		r   *cache.Snapshot
		err error
	}
	store := make(chan opened, 1)
	go func() {
		r, err := cache.OpenReader(a.storeDir())
		store <- opened{r, err}
	}()
	return sync.OnceValues(func() (*cache.Snapshot, error) {
		o := <-store
		return o.r, o.err
	})
}

// view opens the campaign for reading only.
func (a *app) view(ctx context.Context) (*session, error) {
	store := a.reader()
	c, err := a.load()
	if err != nil {
		return nil, err
	}
	r, err := store()
	if err != nil {
		return nil, err
	}
	return a.open(ctx, r, c)
}

// version is the build's version: the module's, else the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
