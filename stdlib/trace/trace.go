// Package trace is the commands over torch-profiler traces: triage (three
// tables for each stage), layers (the nine-part layer report) and diff (where
// one trace spends time that another does not). Each is one function from
// paths to text, which a command line or a loop can call.
//
// The analyses live in the packages below: scan and read (bytes to columns),
// host (a server without a device),
// launch (where work comes from), kernel (names and classes), interval
// (arithmetic of time), profile (all of these together), layers, mapping,
// bounds, fuse, triage, pipeline, diff, and show (how it is printed). This
// package knows files, folders, ranks and formats; it decides nothing about a
// kernel. Nothing here keeps state.
package trace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/trace/fuse"
	"github.com/sotabuild/sotabuild/stdlib/trace/layers"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// Format is how results are printed.
type Format string

// The formats.
const (
	Markdown Format = "md"
	JSON     Format = "json"
	CSV      Format = "csv"
)

// ParseFormat reads a format's name; "" is Markdown.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case "":
		return Markdown, nil
	case Markdown, JSON, CSV:
		return f, nil
	}
	return "", fmt.Errorf("no format %q: write md, json or csv", s)
}

// FrameworkName is the framework's name in tables and patterns, by that of its
// definition.
func FrameworkName(definition string) string { return strings.ReplaceAll(definition, "_", "-") }

// CatalogueID tells one edition of the fuse patterns from another.
func CatalogueID() string { return fuse.BuiltinID() }

// DefaultCutoff is the least share of a row that is shown (R162).
const DefaultCutoff = 0.01

// bigFile is the JSON size from which progress is told; a packed trace is some
// fifteen times larger when unpacked.
const bigFile = 100 << 20

// load reads one trace. Progress of big files goes to log, which may be nil.
func load(ctx context.Context, path string, log io.Writer) (*read.Trace, error) {
	o := read.Options{}
	if info, err := os.Stat(path); err == nil && log != nil {
		size := info.Size()
		if strings.HasSuffix(path, ".gz") {
			size *= 15
		}
		if size > bigFile {
			fmt.Fprintf(log, "reading %s\n", path)
			o.Progress = func(done, all int64) { fmt.Fprintf(log, "reading %s: %d of %d MiB\n", path, done>>20, all>>20) }
		}
	}
	return read.File(ctx, path, o)
}

// linked reads and links one trace.
func linked(ctx context.Context, path string, log io.Writer) (*profile.Profile, error) {
	t, err := load(ctx, path, log)
	if err != nil {
		return nil, err
	}
	return profile.Build(t), nil
}

// layersOf finds the layers of a profile; without passes it is nil.
func layersOf(p *profile.Profile, c layers.Config) (*layers.Result, error) {
	r, err := layers.Build(p, c)
	if errors.Is(err, layers.ErrNoPass) {
		return nil, nil
	}
	return r, err
}

// loadConfig reads a model's config.json; "" gives the zero Config.
func loadConfig(path string) (layers.Config, string, error) {
	if path == "" {
		return layers.Config{}, "", nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return layers.Config{}, "", err
	}
	c, err := layers.ParseConfig(b)
	if err != nil {
		return c, "", fmt.Errorf("%s: %w", path, err)
	}
	sum := sha256.Sum256(b)
	return c, hex.EncodeToString(sum[:]), nil
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func lines(w io.Writer, prefix string, list []string) error {
	for _, s := range list {
		if _, err := fmt.Fprintf(w, "%s%s\n", prefix, s); err != nil {
			return err
		}
	}
	return nil
}
