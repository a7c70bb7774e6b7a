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
	dir, err := filepath.Abs(a.dir)
	if err != nil {
		return nil, err
	}
	in, err := a.inputs()
	if err != nil {
		return nil, err
	}
	c, diags := lang.Load(lang.Input{Dir: dir, Definitions: frameworks.FS, Vars: in.Vars, Env: in.Env})
	if err := a.diagnose(diags); err != nil {
		return nil, err
	}
	return c, overrideExecutor(c, a.executor)
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

func (a *app) storeDir() string {
	if a.store != "" {
		return a.store
	}
	return filepath.Join(a.dir, ".sotabuild")
}

// session is an opened campaign: what plan, explain, show and apply share.
type session struct {
	*prepare.Prepared
	files  *key.Files
	places *places
	store  cache.Reader
	dir    string // of the store, absolute
	inputs
}

// tasks is the folder of task folders.
func (s *session) tasks() string { return filepath.Join(s.dir, "tasks") }

// open prepares the campaign against a store.
func (a *app) open(ctx context.Context, store cache.Reader, c *lang.Campaign) (*session, error) {
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
		return nil, err
	}
	in, err := a.inputs()
	if err != nil {
		return nil, err
	}
	where := newPlaces(self, dir)
	facts, err := a.facts(ctx, c, prepare.Reader{Files: files, Places: where, Images: filepath.Join(dir, "images.json"), Self: self}, in, dir)
	if err != nil {
		return nil, err
	}
	facts.Revision, facts.Hub, err = prepare.Weights(c, dir)
	if err != nil {
		return nil, err
	}
	p, diags := prepare.From(c, facts, store, time.Now())
	if err := a.diagnose(diags); err != nil {
		return nil, err
	}
	for _, d := range store.Defects() {
		fmt.Fprintf(a.err, "warning: store: %s\n", d)
	}
	return &session{Prepared: p, files: files, places: where, store: store, dir: dir, inputs: in}, nil
}

// remember keeps the fingerprints of files for the next command. They only save
// time, so a folder that cannot be written is a warning.
func (a *app) remember(s *session) {
	if err := s.files.Close(); err != nil {
		fmt.Fprintf(a.err, "warning: %v\n", err)
	}
}

// facts reads the host's facts, or with --refresh=false takes those of the last
// time. Where none are remembered of this very campaign they are read, and that
// is said.
func (a *app) facts(ctx context.Context, c *lang.Campaign, r prepare.Reader, in inputs, dir string) (campaign.Facts, error) {
	build, err := r.Files.File(r.Self)
	if err != nil {
		return campaign.Facts{}, err
	}
	of, err := factsOf(c, build, in, a.executor)
	if err != nil {
		return campaign.Facts{}, err
	}
	path := filepath.Join(dir, "facts")
	if a.stale {
		f, ok, err := prepare.Recall(path, of, r.Self)
		if err != nil || ok {
			return f, err
		}
		fmt.Fprintln(a.err, "note: this campaign's facts were not read before, so --refresh=false reads them now")
	}
	f, notes, diags := r.Probe(ctx, c)
	for _, n := range notes {
		if !slices.Contains(a.said, n) { // apply reads the facts twice
			a.said = append(a.said, n)
			fmt.Fprintf(a.err, "warning: %s\n", n)
		}
	}
	if err := a.diagnose(diags); err != nil {
		return f, err
	}
	if err := prepare.Remember(path, of, f); err != nil {
		fmt.Fprintf(a.err, "warning: %v\n", err) // They only save time, as fingerprints do.
	}
	return f, nil
}

// factsOf names what facts are the facts of.
func factsOf(c *lang.Campaign, build key.Digest, in inputs, executor string) (key.Digest, error) {
	b, err := json.Marshal(struct {
		Build    key.Digest
		Dir      string
		Files    map[string]key.Digest
		In       inputs
		Executor string
	}{build, c.Dir, fileDigests(c), in, executor})
	return key.Sum(b), err
}

// view opens the campaign for reading only. The store is read while the
// campaign is.
func (a *app) view(ctx context.Context) (*session, error) {
	type opened struct {
		r   *cache.Snapshot
		err error
	}
	store := make(chan opened, 1)
	go func() {
		r, err := cache.OpenReader(a.storeDir())
		store <- opened{r, err}
	}()
	c, err := a.load()
	o := <-store
	if err != nil {
		return nil, err
	}
	if o.err != nil {
		return nil, o.err
	}
	return a.open(ctx, o.r, c)
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
