package lang

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// decoder turns bodies into values by the schema. It checks form only: names,
// duplicates, missing, types. What attributes mean together is in rules.
type decoder struct {
	dir   string // for relative paths
	scope *scope
	p     *problems
	// sources are the files' bytes by name, for the text of predicates.
	sources map[string][]byte
	// at remembers where each attribute that was written stands, by the path of
	// its block, the label and its name: "framework.vllm.flags". What is not in
	// it was not written.
	at map[string]Range
	// unsure has what was written in a way that was refused, by the same paths;
	// ".*" after a block's path says that something unknown stands there. No
	// rule calls missing what is only misspelt.
	unsure map[string]bool
	// partial says that a file could not be understood, so that a block that is
	// missing may stand there.
	partial bool
}

// maxInstances bounds what for_each makes of one block.
const maxInstances = 10_000

// blocks decodes the blocks of a body, or of several files, that the schema
// has below path; parent takes them. place is the block's own path with label.
func (d *decoder) blocks(path, place string, list hclsyntax.Blocks, parent any) {
	rows := childrenOf(path)
	first := map[string]*hclsyntax.Block{}
	for _, b := range list {
		row := rowNamed(rows, b.Type)
		if row == nil {
			d.unknownBlock(path, place, b, rows)
			continue
		}
		label, ok := d.label(row, b)
		if !ok {
			continue
		}
		key := row.Path + " " + label
		if !row.Many {
			key = row.Path
		}
		if before := first[key]; before != nil {
			d.twice(row, b, before, label)
			continue
		}
		first[key] = b
		d.instances(row, b, label, parent)
	}
	for _, row := range rows {
		switch {
		case hasBlock(list, row.name()):
		case row.Required && d.partial && path == "":
		case row.Required:
			d.missingBlock(path, row)
		case row.Always:
			self := row.open(header{})
			d.fill(row, self)
			row.close(parent, self)
		}
	}
}

func rowNamed(rows []*Block, name string) *Block {
	for _, r := range rows {
		if r.name() == name {
			return r
		}
	}
	return nil
}

func hasBlock(list hclsyntax.Blocks, name string) bool {
	for _, b := range list {
		if b.Type == name {
			return true
		}
	}
	return false
}

// instances decodes a block once, or once for each element of its for_each.
func (d *decoder) instances(row *Block, b *hclsyntax.Block, label string, parent any) {
	a, repeated := b.Body.Attributes[forEach]
	if !repeated {
		d.block(row, b, label, label, parent)
		return
	}
	if _, ok := attrNamed(row, forEach); !ok {
		d.block(row, b, label, label, parent) // tells the unknown attribute
		return
	}
	v := d.scope.value(a.Expr, d.p)
	if !v.IsKnown() {
		return
	}
	at := rangeOf(a.Expr.Range())
	if v.IsNull() || !v.CanIterateElements() {
		d.p.add(cForEach, at, "for_each takes a list of texts or numbers, or an object; this is %s. Write for_each = [\"a\", \"b\"].", kindOf(v))
		return
	}
	if n := v.LengthInt(); n == 0 || n > maxInstances {
		d.p.add(cForEach, at, "for_each has %d elements. Give it between 1 and %d, or remove the block.", n, maxInstances)
		return
	}
	seen := map[string]bool{}
	for it := v.ElementIterator(); it.Next(); {
		k, element := it.Element()
		if !element.IsKnown() {
			return
		}
		key, ok := eachKey(v.Type(), k, element)
		if !ok {
			d.p.add(cForEach, at, "An element of a for_each list names its block, so it is a text or a whole number. Write an object, { NAME = value }, to give each one a name.")
			return
		}
		name := label + "_" + key
		if why := nameProblem(name); why != "" || seen[name] {
			d.p.add(cForEach, at, "The block for %q would have the name %q, which stands twice or is no name. Names have small letters, digits and underscores.", key, name)
			return
		}
		seen[name] = true
		child := *d
		child.scope = d.scope.withEach(key, element)
		child.block(row, b, label, name, parent)
	}
}

// eachKey is the part of an instance's name: the name in an object, the value
// in a list.
func eachKey(t cty.Type, k, v cty.Value) (string, bool) {
	switch {
	case t.IsObjectType(), t.IsMapType():
		return k.AsString(), true
	case v.IsNull():
		return "", false
	case v.Type() == cty.String:
		return v.AsString(), true
	case v.Type() == cty.Number:
		n, exact := v.AsBigFloat().Int64()
		return strconv.FormatInt(n, 10), exact == 0 && n >= 0
	}
	return "", false
}

// block decodes one block and hands it to its parent.
func (d *decoder) block(row *Block, b *hclsyntax.Block, label, name string, parent any) {
	h := header{label, name, rangeOf(b.DefRange())}
	place := row.Path
	if name != "" {
		place += "." + name
	}
	d.at[place], d.at[row.Path] = h.at, h.at
	self := row.open(h)
	inner := d
	if row.Path == "loop" || strings.HasPrefix(row.Path, "loop.") {
		c := *d
		c.scope = d.scope.withFacts(placeholders())
		inner = &c
	}
	inner.attributes(row, b.Body, place, h.at, self)
	inner.blocks(row.Path, place, b.Body.Blocks, self)
	row.close(parent, self)
}

// attributes decodes in the order of the table, so that what is told does not
// depend on the order of the file.
func (d *decoder) attributes(row *Block, body *hclsyntax.Body, place string, header Range, self any) {
	meant := map[string]bool{} // attributes that are probably misspelt, or written as blocks
	for _, b := range body.Blocks {
		meant[b.Type] = true
	}
	attrs := body.Attributes
	for name, a := range attrs {
		if _, ok := attrNamed(row, name); !ok {
			d.unknownAttr(row, a)
			d.unsure[place+".*"] = true
			meant[nearest(name, row.attrNames())] = true
		}
	}
	for i := range row.Attrs {
		attr := &row.Attrs[i]
		if attr.Name == forEach {
			continue
		}
		if a, written := attrs[attr.Name]; written {
			null := d.attribute(attr, a, place, self)
			if !null {
				continue
			}
		}
		switch {
		case attr.Required && !meant[attr.Name] && !d.unsure[place+"."+attr.Name]:
			d.p.add(cMissing, header, "A block %q needs %q: %s Write: %s = …", row.name(), attr.Name, attr.Doc, attr.Name)
		case attr.Default != "":
			attr.set(self, d.fallback(attr))
		}
	}
}

// fill sets every default of a block that is not written.
func (d *decoder) fill(row *Block, self any) {
	for i := range row.Attrs {
		if a := &row.Attrs[i]; a.Default != "" {
			a.set(self, d.fallback(a))
		}
	}
}

// attribute decodes what is written; it reports whether that is null, which is
// the same as leaving it out.
func (d *decoder) attribute(attr *Attr, a *hclsyntax.Attribute, place string, self any) (null bool) {
	if attr.Type.Name == predicateType.Name {
		if when := d.predicate(a); when != nil {
			attr.set(self, when)
		}
		return false
	}
	v := d.scope.value(a.Expr, d.p)
	if !v.IsKnown() {
		d.unsure[place+"."+attr.Name] = true
		return false
	}
	if v.IsNull() {
		return true
	}
	d.at[place+"."+attr.Name] = rangeOf(a.Expr.Range())
	g := &given{v, a.Expr, rangeOf(a.Expr.Range()), attr, d.dir, d.scope, d.p}
	if x := attr.Type.decode(g); x != nil {
		attr.set(self, x)
	} else {
		d.unsure[place+"."+attr.Name] = true
	}
	return false
}

// defaults are the values of the table's default texts, decoded once by the
// same functions as a user's own text.
var defaults = sync.OnceValue(func() map[*Attr]cty.Value {
	values := map[*Attr]cty.Value{}
	for i := range schema {
		for j := range schema[i].Attrs {
			a := &schema[i].Attrs[j]
			if a.Default == "" {
				continue
			}
			e, diags := hclsyntax.ParseExpression([]byte(a.Default), schema[i].Path+"."+a.Name, hcl.InitialPos)
			v, more := e.Value(nil)
			if diags.HasErrors() || more.HasErrors() {
				panic("lang: the default of " + schema[i].Path + "." + a.Name + " is no expression")
			}
			values[a] = v
		}
	}
	return values
})

func (d *decoder) fallback(attr *Attr) any {
	return attr.Type.decode(&given{defaults()[attr], nil, Range{}, attr, d.dir, d.scope, d.p})
}

func attrNamed(row *Block, name string) (*Attr, bool) {
	for i := range row.Attrs {
		if row.Attrs[i].Name == name {
			return &row.Attrs[i], true
		}
	}
	return nil, false
}

// written is the source text of an attribute's expression, on one line and in
// the canonical layout, so that the layout of the file is no part of it.
func (d *decoder) written(a *hclsyntax.Attribute) string {
	at := a.Expr.Range()
	inJSON := strings.HasSuffix(at.Filename, jsonSuffix)
	if inJSON {
		at = a.EqualsRange // the whole value, see jsonReader
	}
	src := d.sources[at.Filename]
	if at.Start.Byte > len(src) || at.End.Byte > len(src) || at.Start.Byte > at.End.Byte {
		return ""
	}
	text := src[at.Start.Byte:at.End.Byte]
	if inJSON {
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			return string(text) // no text: its problem is told by its type
		}
		text = []byte(s)
	}
	if _, alone := a.Expr.(*hclsyntax.TemplateWrapExpr); alone { // "${…}" is the expression itself
		s := strings.TrimSpace(strings.Trim(string(text), "\""))
		text = []byte(strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(s, "${"), "}")))
	}
	return strings.Join(strings.Fields(string(hclwrite.Format(text))), " ")
}
