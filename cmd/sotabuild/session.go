package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/frameworks"
)

const varPrefix = "SOTABUILD_VAR_"

// load reads the campaign and prints what is wrong with it.
func (a *app) load() (*lang.Campaign, error) {
	dir, err := filepath.Abs(a.dir)
	if err != nil {
		return nil, err
	}
	vars, err := parseVars(a.vars)
	if err != nil {
		return nil, fail(codeUsage, err)
	}
	c, diags := lang.Load(lang.Input{Dir: dir, Definitions: frameworks.FS, Vars: vars, Env: variablesOf(os.Environ())})
	if err := a.diagnose(diags); err != nil {
		return nil, err
	}
	return c, nil
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
	files *key.Files
	store cache.Reader
	dir   string // of the store, absolute
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
	p, diags := prepare.Campaign(ctx, c, files, store, self)
	if err := a.diagnose(diags); err != nil {
		return nil, err
	}
	for _, d := range store.Defects() {
		fmt.Fprintf(a.err, "warning: store: %s\n", d)
	}
	return &session{Prepared: p, files: files, store: store, dir: dir}, nil
}

// remember keeps the fingerprints of files for the next command. They only save
// time, so a folder that cannot be written is a warning.
func (a *app) remember(s *session) {
	if err := s.files.Close(); err != nil {
		fmt.Fprintf(a.err, "warning: %v\n", err)
	}
}

// view opens the campaign for reading only.
func (a *app) view(ctx context.Context) (*session, error) {
	c, err := a.load()
	if err != nil {
		return nil, err
	}
	r, err := cache.OpenReader(a.storeDir())
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
