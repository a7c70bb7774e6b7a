package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/stdlib/editor"
	"github.com/sotabuild/sotabuild/stdlib/frameworks"
	"github.com/sotabuild/sotabuild/stdlib/help"
)

func lspCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "lsp",
		Short: "Serve an editor: the language server, on standard input and output",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			vars, err := parseVars(a.vars)
			if err != nil {
				return fail(codeUsage, err)
			}
			return editor.Serve(cmd.Context(), pipe{a.in, a.out}, editor.Options{
				Definitions: frameworks.FS, Vars: vars, Env: variablesOf(os.Environ()),
				Flags: a.snapshotFlags, Builtin: builtinFile,
			})
		},
	}
}

// pipe joins standard input and output. Closing it ends what is read where the
// input can be closed.
type pipe struct {
	io.Reader
	io.Writer
}

func (p pipe) Close() error {
	if c, ok := p.Reader.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// snapshotFlags are the flags of a framework's program by the newest help text
// in the campaign's store. A store that is not there or cannot be read has none:
// completion is a help, and what is wrong with a store is told by plan.
func (a *app) snapshotFlags(dir, framework string) []editor.Flag {
	store := a.store
	if store == "" {
		store = filepath.Join(dir, ".sotabuild")
	}
	r, err := cache.OpenReader(store)
	if err != nil {
		return nil
	}
	records := r.History("help." + framework + ".server")
	for i := len(records) - 1; i >= 0; i-- {
		if records[i].Outcome.State != cache.OK {
			continue
		}
		if text, err := r.Bytes(records[i].Output("text")); err == nil {
			return editorFlags(help.Parse(string(text)))
		}
	}
	return nil
}

// editorFlags turns flags of a help text into a campaign's spelling.
func editorFlags(list []help.Flag) []editor.Flag {
	var out []editor.Flag
	for _, f := range list {
		if f.Gone() {
			continue
		}
		var doc []string
		doc = append(doc, fmt.Sprintf("`%s`, line %d of the program's own help.", f.Name, f.Line))
		if f.Type != help.Any && f.Type != help.None {
			doc = append(doc, "Type: "+string(f.Type)+".")
		}
		if f.Default != nil {
			doc = append(doc, "Default: "+*f.Default+".")
		}
		out = append(out, editor.Flag{
			Name: strings.ReplaceAll(strings.TrimLeft(f.Name, "-"), "-", "_"), Doc: strings.Join(doc, " "), Choices: f.Choices,
		})
	}
	return out
}

// builtinFile is a file with the text of a built-in definition, for an editor to
// open: it is written into the user's cache, read-only, since the original lies
// inside this program.
func builtinFile(name string) string {
	text, err := fs.ReadFile(frameworks.FS, name+".hcl")
	if err != nil {
		return ""
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir = filepath.Join(dir, "sotabuild", "definitions", version())
	path := filepath.Join(dir, name+".framework.hcl")
	if have, err := os.ReadFile(path); err == nil && string(have) == string(text) {
		return path
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return ""
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err := os.WriteFile(path, text, 0o400); err != nil {
		return ""
	}
	return path
}
