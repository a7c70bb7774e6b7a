package editor

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/lang"
)

// rowOf is the schema's row of a path.
func rowOf(path string) (lang.Block, bool) {
	for _, b := range lang.Schema() {
		if b.Path == path {
			return b, true
		}
	}
	return lang.Block{}, false
}

// childrenOf lists the blocks that stand in a block.
func childrenOf(path string) []lang.Block {
	var list []lang.Block
	for _, b := range lang.Schema() {
		if parentOf(b.Path) == path {
			list = append(list, b)
		}
	}
	return list
}

func parentOf(path string) string { return path[:max(strings.LastIndexByte(path, '.'), 0)] }

func nameOf(b lang.Block) string { return b.Path[strings.LastIndexByte(b.Path, '.')+1:] }

func attrOf(b lang.Block, name string) (lang.Attr, bool) {
	i := slices.IndexFunc(b.Attrs, func(a lang.Attr) bool { return a.Name == name })
	if i < 0 {
		return lang.Attr{}, false
	}
	return b.Attrs[i], true
}

// flagObjects are the attributes whose names are flags of a framework.
var flagObjects = []string{"framework.flags", "framework.process.flags", "framework.search.space"}

// complete lists what may stand at a place.
func (s *server) complete(path, text string, at position) any {
	dir, name := split(path)
	offset := offsetOf(text, at)
	p := lang.At(name, []byte(text), offset)
	word, _, _ := wordAt(text[:offset], offset)
	switch {
	case p.Path == "?":
		return []item{}
	case p.Label != "":
		return s.labels(p.Label)
	case p.Attr == "":
		return names(p)
	case p.AtKey && slices.Contains(flagObjects, p.Path+"."+p.Attr):
		return s.flags(dir, p.Labels["framework"])
	case p.AtKey:
		return []item{}
	case len(p.Keys) == 1 && slices.Contains(flagObjects, p.Path+"."+p.Attr) && p.Quoted:
		return s.flagValues(dir, p.Labels["framework"], p.Keys[0])
	}
	return s.values(dir, p, word)
}

// names are the attributes and blocks that a block has and that are not written
// yet.
func names(p lang.Place) []item {
	list := []item{}
	if row, ok := rowOf(p.Path); ok {
		for _, a := range row.Attrs {
			if !slices.Contains(p.Written, a.Name) {
				list = append(list, item{Label: a.Name, Kind: kindProperty, Detail: takes(a), Doc: markdown(about(a)), InsertText: a.Name + " = "})
			}
		}
	}
	for _, b := range childrenOf(p.Path) {
		if !b.Many && slices.Contains(p.Written, nameOf(b)) {
			continue
		}
		insert := nameOf(b) + " {\n}"
		if b.Label != "" {
			insert = nameOf(b) + " \"\" {\n}"
		}
		list = append(list, item{Label: nameOf(b), Kind: kindModule, Detail: "block", Doc: markdown(b.Doc), InsertText: insert})
	}
	return list
}

// labels are the labels that a block may have.
func (s *server) labels(path string) []item {
	list := []item{}
	row, _ := rowOf(path)
	words := row.Labels
	if path == "framework" {
		words = s.builtins()
	}
	for _, w := range words {
		list = append(list, item{Label: w, Kind: kindValue})
	}
	return list
}

func (s *server) builtins() []string {
	if s.options.Definitions == nil {
		return nil
	}
	files, err := fs.Glob(s.options.Definitions, "*.hcl")
	if err != nil {
		return nil // only for a bad pattern
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, ".hcl")
	}
	return files
}

// flags are the real flags of a framework: what its program's help says, else
// what its definition names.
func (s *server) flags(dir, label string) []item {
	list := []item{}
	for _, f := range s.known(dir, label) {
		list = append(list, item{Label: f.Name, Kind: kindFlag, Detail: strings.Join(f.Choices, " | "), Doc: markdown(f.Doc), InsertText: f.Name + " = "})
	}
	return list
}

func (s *server) flagValues(dir, label, flag string) []item {
	list := []item{}
	for _, f := range s.known(dir, label) {
		if f.Name == flag {
			for _, c := range f.Choices {
				list = append(list, item{Label: c, Kind: kindValue})
			}
		}
	}
	return list
}

func (s *server) known(dir, label string) []Flag {
	if label != "" && s.options.Flags != nil {
		if list := s.options.Flags(dir, label); len(list) > 0 {
			return list
		}
	}
	d := s.definitionOf(dir, label)
	if d == nil {
		return nil
	}
	var list []Flag
	add := func(name, doc string) {
		if name != "" {
			list = append(list, Flag{Name: name, Doc: doc})
		}
	}
	add(d.Flags.Context, "Bounds the sequence length.")
	add(d.Flags.ContextPer, "Divides the context among requests.")
	for _, f := range d.Flags.Parallel {
		add(f, "Part of the product that is the number of GPUs.")
	}
	add(d.Flags.Memory, "The share of GPU memory.")
	return list
}

// definitionOf is the definition that a framework uses; nil if it cannot be
// read.
func (s *server) definitionOf(dir, label string) *lang.Definition {
	use := label
	declared := s.declared(dir)
	for _, x := range declared {
		if x.Kind == "framework" && x.Name == label {
			use = x.Uses
		}
	}
	name, text := "", []byte(nil)
	for _, x := range declared {
		if x.Kind == "definition" && x.Name == use {
			_, name = split(x.path)
			text = []byte(s.text(x.path))
		}
	}
	if name == "" && slices.Contains(s.builtins(), use) {
		b, err := fs.ReadFile(s.options.Definitions, use+".hcl")
		if err != nil {
			return nil
		}
		name, text = use+".hcl", b
	}
	list, _ := lang.Define(name, text)
	for _, d := range list {
		if d.Name == use {
			return d
		}
	}
	return nil
}

// values are what an attribute takes: its choices, names that are declared, and
// functions.
func (s *server) values(dir string, p lang.Place, word string) []item {
	list := []item{}
	row, _ := rowOf(p.Path)
	attr, _ := attrOf(row, p.Attr)
	quote := func(w string) string {
		if p.Quoted {
			return w
		}
		return `"` + w + `"`
	}
	for _, c := range attr.Type.Choices() {
		list = append(list, item{Label: c, Kind: kindValue, InsertText: quote(c)})
	}
	for _, l := range s.references(dir, p) {
		list = append(list, item{Label: l, Kind: kindValue, InsertText: quote(l)})
	}
	if p.Quoted {
		return list
	}
	if attr.Type.Name == "true or false" {
		list = append(list, item{Label: "true", Kind: kindValue}, item{Label: "false", Kind: kindValue})
	}
	if strings.HasPrefix(p.Path, "loop") {
		for _, f := range lang.Facts() {
			list = append(list, item{Label: f.Name, Kind: kindVariable, Detail: f.Type, Doc: markdown(f.Doc)})
		}
	}
	for _, x := range s.declared(dir) {
		if x.Kind == "variable" || x.Kind == "local" {
			list = append(list, item{Label: prefixes[x.Kind] + x.Name, Kind: kindVariable, Detail: x.Kind})
		}
	}
	for _, f := range lang.Functions() {
		list = append(list, item{Label: f.Name, Kind: kindFunction, Detail: f.Usage, Doc: markdown(f.Doc)})
	}
	return dotted(list, word)
}

var prefixes = map[string]string{"variable": "var.", "local": "local."}

// dotted keeps what goes on from "var." and the like, without what is written:
// an editor replaces only the part behind the dot.
func dotted(list []item, word string) []item {
	i := strings.LastIndexByte(word, '.')
	if i < 0 {
		return list
	}
	out := []item{}
	for _, x := range list {
		if rest, ok := strings.CutPrefix(x.Label, word[:i+1]); ok {
			x.Label, x.InsertText = rest, rest
			out = append(out, x)
		}
	}
	return out
}

// references are the names that an attribute refers to.
func (s *server) references(dir string, p lang.Place) []string {
	var list []string
	all := func(kind string) {
		for _, x := range s.declared(dir) {
			if x.Kind == kind {
				list = append(list, x.Name)
			}
		}
	}
	switch p.Path + "." + p.Attr {
	case "campaign.target", "campaign.compare", "trace.framework":
		all("framework")
	case "campaign.excluded":
		list = append(list, s.builtins()...)
	case "framework.use":
		list = append(list, s.builtins()...)
		all("definition")
	}
	return list
}

func markdown(text string) markup { return markup{"markdown", text} }

// takes is what an attribute takes, with its unit.
func takes(a lang.Attr) string {
	if a.Unit == "" || strings.Contains(a.Type.Name, a.Unit) {
		return a.Type.Name
	}
	return a.Type.Name + ", " + a.Unit
}

// about says everything of an attribute.
func about(a lang.Attr) string {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`: %s", a.Name, takes(a))
	switch {
	case a.Required:
		b.WriteString(". Required")
	case a.Default != "":
		fmt.Fprintf(&b, ". Default `%s`", a.Default)
	}
	b.WriteString(".\n\n" + a.Doc)
	if a.Rules != "" {
		b.WriteString("\n\nRules: " + strings.Join(strings.Fields(a.Rules), ", "))
	}
	return b.String()
}
