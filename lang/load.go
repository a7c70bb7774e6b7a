package lang

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// draft is a campaign while it is built, with what the rules need to know of
// how it was written.
type draft struct {
	Campaign
	at     map[string]Range // see decoder
	unsure map[string]bool  // see decoder
}

// told reports whether an attribute of a block, both by path, was written in a
// way that was refused, so that calling it missing would be noise.
func (d *draft) told(block, attr string) bool {
	return d.unsure[block+"."+attr] || d.unsure[block+".*"]
}

// written reports whether an attribute stands in the file, and where.
func (d *draft) written(path string) (Range, bool) {
	r, ok := d.at[path]
	return r, ok
}

// place is where an attribute stands, or else the block r.
func (d *draft) place(path string, r Range) Range {
	if at, ok := d.at[path]; ok {
		return at
	}
	return r
}

func load(in Input) (*Campaign, Diagnostics) {
	p := &problems{}
	if !filepath.IsAbs(in.Dir) {
		panic("lang: Input.Dir is not absolute")
	}
	sources := readDir(in.Dir, in.Overlay, p)
	if !slices.ContainsFunc(sources, func(s source) bool { return strings.TrimSuffix(s.name, jsonSuffix) == mainFile }) {
		return nil, p.finish(sources) // Without it everything else is missing too, which nobody needs to hear.
	}
	return compile(in, sources, p)
}

// compile is load without reading the folder.
func compile(in Input, sources []source, p *problems) (*Campaign, Diagnostics) {
	var vars, own []source
	var blocks hclsyntax.Blocks
	for _, s := range sources {
		switch {
		case isVariables(s.name):
			vars = append(vars, s)
		case strings.HasSuffix(strings.TrimSuffix(s.name, jsonSuffix), definitionSuffix):
			own = append(own, s)
		default:
			blocks = append(blocks, topBlocks(s, p)...)
		}
	}
	lib := newLibrary(own, in.Definitions, p)
	d := &draft{at: map[string]Range{}, unsure: map[string]bool{}}
	d.Dir = in.Dir
	text := map[string][]byte{}
	for _, s := range sources {
		text[s.name] = s.bytes
	}
	partial := unread(p.list)
	(&decoder{dir: in.Dir, scope: scopeOf(blocks, vars, in, p), p: p, sources: text, at: d.at, unsure: d.unsure, partial: partial}).blocks("", "", rest(blocks), d)
	config := d.infer(p)
	if !partial {
		d.check(lib, p) // What could not be read is missing in many places, which nobody needs to hear.
	}
	for _, s := range append(slices.Clone(sources), config...) {
		d.Files = append(d.Files, File{s.name, s.bytes})
	}
	diags := p.finish(append(sources, lib.sources...))
	if diags.HasErrors() {
		return nil, diags
	}
	return &d.Campaign, diags
}

// unread reports whether a file could not be understood.
func unread(list Diagnostics) bool {
	return slices.ContainsFunc(list, func(x Diagnostic) bool { return x.Code == cSyntax.id || x.Code == cTooLarge.id })
}

// topBlocks parses a file of blocks.
func topBlocks(s source, p *problems) hclsyntax.Blocks {
	before := len(p.list)
	body := parse(s, "", p)
	if body == nil {
		return nil
	}
	if unread(p.list[before:]) {
		return body.Blocks // An attribute at the top may be of a block that was not understood.
	}
	for _, a := range sortedAttrs(body.Attributes) {
		hint := "Attributes stand in blocks; values with a name of your own in locals { … }."
		if rowNamed(childrenOf(""), a.Name) != nil {
			hint = a.Name + " is a block: write it without the equals sign, " + a.Name + " { … }."
		} else if _, ok := attrNamed(blockAt("campaign"), a.Name); ok {
			hint = "It is an attribute of the campaign block: move it there."
		}
		p.add(cUnknownAttr, rangeOf(a.NameRange), "There is no attribute %q at the top of a file. %s", a.Name, hint)
	}
	return body.Blocks
}

// scopeOf makes the scope of a campaign: variables, then locals.
func scopeOf(blocks hclsyntax.Blocks, vars []source, in Input, p *problems) *scope {
	s := newScope()
	s.plain = false
	s.vars = variables(ofType(blocks, "variable"), vars, in, p)
	s.ready()
	locals := map[string]*hclsyntax.Attribute{}
	for _, b := range ofType(blocks, "locals") {
		if len(b.Labels) > 0 {
			p.add(cLabel, rangeOf(b.LabelRanges[0]), "A block \"locals\" has no label. Write: locals {")
		}
		for _, c := range b.Body.Blocks {
			p.add(cUnknownBlock, rangeOf(c.TypeRange), "A locals block has no blocks inside. Write %s = { … }.", c.Type)
		}
		for _, a := range sortedAttrs(b.Body.Attributes) {
			if before := locals[a.Name]; before != nil {
				x := p.add(cDuplicate, rangeOf(a.NameRange), "The local %q is defined twice. Keep one of them.", a.Name)
				x.Related = []Range{rangeOf(before.NameRange)}
				continue
			}
			locals[a.Name] = a
		}
	}
	s.localsOf(locals, p)
	return s
}

func ofType(blocks hclsyntax.Blocks, kind string) hclsyntax.Blocks {
	var list hclsyntax.Blocks
	for _, b := range blocks {
		if b.Type == kind {
			list = append(list, b)
		}
	}
	return list
}

// rest is the blocks that decode into a campaign.
func rest(blocks hclsyntax.Blocks) hclsyntax.Blocks {
	return slices.DeleteFunc(slices.Clone(blocks), func(b *hclsyntax.Block) bool {
		return b.Type == "variable" || b.Type == "locals"
	})
}

const configFile = "config.json"

// infer fills in what a model's own config.json says, where the campaign does
// not (R018). It returns the file, if it was read: it is an input of the
// campaign like any other.
func (d *draft) infer(p *problems) []source {
	m := &d.Model
	if m.Path == "" || m.Vocab != [2]int{} && m.MaxContext != 0 {
		return nil
	}
	path := filepath.Join(m.Path, configFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		d.Sought = append(d.Sought, path)
		return nil // not a folder of weights: nothing is inferred
	}
	raw, ok := readFile(os.DirFS(m.Path), configFile, path, p)
	if !ok {
		return nil
	}
	var config struct {
		Vocab   int `json:"vocab_size"`
		Context int `json:"max_position_embeddings"`
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		p.add(cRead, d.place("model."+m.ID+".path", m.Range), "The model's config.json cannot be understood: %v. Repair it, or write vocab and max_context into the model block.", err)
		d.unsure["model."+m.ID+".vocab"] = true
		return nil
	}
	if m.Vocab == [2]int{} && config.Vocab > 0 {
		m.Vocab = [2]int{0, config.Vocab}
	}
	if m.MaxContext == 0 && config.Context > 0 {
		m.MaxContext = config.Context
	}
	name := path
	if rel, err := filepath.Rel(d.Dir, path); err == nil {
		name = rel
	}
	return []source{{name, raw}}
}

// sortedNames are the keys of a map in order.
func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
