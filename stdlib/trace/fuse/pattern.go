// Package fuse finds chains of kernels that some framework runs as one kernel.
// Its knowledge is a data file: patterns with the frameworks that have them,
// where, since when and behind which switch. A pattern is present only if its
// parts stand in order, next to each other, on one stream, in the layers of a
// pass: that two kernels both occur somewhere says nothing.
//
// It knows layers and kernel classes; it knows no server and changes nothing.
package fuse

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
)

//go:embed patterns.json
var builtin []byte

// Pattern is one fusion that exists or is being written somewhere.
type Pattern struct {
	ID      string     `json:"id"`
	Title   string     `json:"title"`
	Parts   [][]string `json:"parts"`           // in order; each a list of alternatives, see needle
	Fused   []string   `json:"fused"`           // needles of the kernel that does it all
	DTypes  []string   `json:"dtypes"`          // "any", or types of which one must be seen
	Ranks   int        `json:"ranks,omitempty"` // least world size at which it makes sense
	Why     string     `json:"why"`
	Sources []Source   `json:"sources"`
	parts   [][]needle
	fused   []needle
}

// Source is one framework's implementation.
type Source struct {
	Framework string `json:"framework"`
	State     string `json:"state"`    // mainline | in_flight
	Versions  string `json:"versions"` // which are known to have it; "unknown" says so
	Path      string `json:"path"`     // in the framework's repository
	Symbol    string `json:"symbol"`
	Switch    string `json:"switch,omitempty"` // what turns it on; empty: always on where it applies
}

// needle matches a kernel: "@norm" its family, "rms norm*" words of its symbol
// (see kernel.Match), "@norm fused add*" both.
type needle struct {
	family kernel.Family
	words  string
}

// Catalogue is the patterns and the day they were checked.
type Catalogue struct {
	Checked  string    `json:"checked"`
	How      string    `json:"how"`
	Patterns []Pattern `json:"patterns"`
}

// Builtin is the catalogue that comes with the program.
func Builtin() Catalogue {
	c, err := Parse(builtin)
	if err != nil {
		panic("the built-in fuse patterns are broken: " + err.Error())
	}
	return c
}

// BuiltinID is the hash of the built-in catalogue, in hexadecimal.
func BuiltinID() string {
	sum := sha256.Sum256(builtin)
	return hex.EncodeToString(sum[:])
}

// Parse reads and checks a catalogue.
func Parse(b []byte) (Catalogue, error) {
	var c Catalogue
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("reading fuse patterns: %w", err)
	}
	seen := map[string]bool{}
	for i := range c.Patterns {
		p := &c.Patterns[i]
		if err := p.compile(); err != nil {
			return c, fmt.Errorf("reading fuse pattern %q: %w", p.ID, err)
		}
		if seen[p.ID] {
			return c, fmt.Errorf("reading fuse pattern %q: the id is used twice", p.ID)
		}
		seen[p.ID] = true
	}
	return c, nil
}

func (p *Pattern) compile() error {
	if p.ID == "" || p.Title == "" || p.Why == "" || len(p.Parts) < 2 || len(p.Sources) == 0 || len(p.DTypes) == 0 {
		return fmt.Errorf("it needs id, title, why, two parts, dtypes (\"any\" for all) and a source")
	}
	if len(p.DTypes) == 1 && p.DTypes[0] == "any" {
		p.DTypes = nil
	}
	for _, s := range p.Sources {
		if s.Framework == "" || s.Path == "" || s.Versions == "" || s.State != "mainline" && s.State != "in_flight" {
			return fmt.Errorf("a source needs framework, path, versions (\"unknown\" where they are) and a state mainline or in_flight")
		}
	}
	for _, alternatives := range p.Parts {
		list, err := needles(alternatives)
		if err != nil || len(list) == 0 {
			return fmt.Errorf("part %q: %w", alternatives, err)
		}
		p.parts = append(p.parts, list)
	}
	var err error
	p.fused, err = needles(p.Fused)
	return err
}

func needles(list []string) ([]needle, error) {
	var out []needle
	for _, s := range list {
		var n needle
		if rest, ok := strings.CutPrefix(s, "@"); ok {
			family, words, _ := strings.Cut(rest, " ")
			n = needle{kernel.Family(family), words}
			if !slices.Contains(kernel.Families(), n.family) {
				return nil, fmt.Errorf("%q is no kernel family", family)
			}
		} else {
			n.words = s
		}
		// One short word would match by chance; a catalogue once had "v".
		if n.family == "" && len(strings.Trim(n.words, "* ")) < 3 {
			return nil, fmt.Errorf("needle %q is too short", s)
		}
		out = append(out, n)
	}
	return out, nil
}

func (n needle) matches(s kernel.Symbol, c kernel.Class) bool {
	if n.family != "" && n.family != c.Family {
		return false
	}
	return n.words == "" || kernel.Match(n.words, strings.Fields(s.Words))
}

// Locate looks for a source in a checked-out tree: "path:line" of its symbol,
// or the path with what is wrong. A catalogue ages; the tree does not lie.
func Locate(tree fs.FS, s Source) string {
	b, err := fs.ReadFile(tree, s.Path)
	if err != nil {
		return s.Path + " (not in this tree)"
	}
	for i, line := range strings.Split(string(b), "\n") {
		if s.Symbol != "" && strings.Contains(line, s.Symbol) {
			return fmt.Sprintf("%s:%d", s.Path, i+1)
		}
	}
	return s.Path + " (without this symbol)"
}
