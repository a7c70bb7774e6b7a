package lang

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// variable is a declared variable while its value is being found.
type variable struct {
	name     string
	at       Range
	kind     cty.Type  // cty.DynamicPseudoType: any
	fallback cty.Value // cty.NilVal: none
	broken   bool      // a problem with it is told
}

// setting is one value for a variable, from wherever it comes.
type setting struct {
	value cty.Value // cty.NilVal: text holds it
	text  string
	from  string // "--var", for people
	at    Range
}

// variables finds the value of each declared variable: its default, then
// *.auto.hclvars by name of file, then the environment, then --var; later wins.
func variables(blocks hclsyntax.Blocks, files []source, in Input, p *problems) map[string]cty.Value {
	declared := map[string]*variable{}
	for _, b := range blocks {
		if v := declare(b, p); v != nil {
			if before := declared[v.name]; before != nil {
				x := p.add(cDuplicate, v.at, "The variable %q is declared twice. Keep one of the blocks.", v.name)
				x.Related = []Range{before.at}
				continue
			}
			declared[v.name] = v
		}
	}
	names := slices.Sorted(maps.Keys(declared))
	settings := map[string]setting{}
	for _, f := range files {
		for name, s := range assignments(f, p) {
			if declared[name] == nil {
				p.add(cUnusedVar, s.at, "No variable block has the name %q. %s", name, orDeclare(name, names, "Declare it, variable %q {}, or remove the line."))
				continue
			}
			settings[name] = s
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		if declared[name] == nil {
			p.warn(cUnusedVar, Range{}, "The environment has SOTABUILD_VAR_%s, but no variable block has that name. %s", name, didYouMean(name, names))
			continue
		}
		settings[name] = setting{text: in.Env[name], from: "SOTABUILD_VAR_" + name}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Vars)) {
		if declared[name] == nil {
			p.add(cUnusedVar, Range{}, "--var sets %q, but no variable block has that name. %s", name, orDeclare(name, names, "Declare it: variable %q {}"))
			continue
		}
		settings[name] = setting{text: in.Vars[name], from: "--var " + name}
	}
	values := map[string]cty.Value{}
	for _, name := range names {
		s, set := settings[name]
		values[name] = declared[name].resolve(s, set, p)
	}
	return values
}

// declare reads a variable block; its default names nothing.
func declare(b *hclsyntax.Block, p *problems) *variable {
	d := &decoder{scope: newScope(), p: p, at: map[string]Range{}, unsure: map[string]bool{}}
	row := blockAt("variable")
	name, ok := d.label(row, b)
	if !ok {
		return nil
	}
	v := &variable{name: name, at: rangeOf(b.DefRange()), kind: cty.DynamicPseudoType}
	for key, a := range b.Body.Attributes {
		if _, ok := attrNamed(row, key); !ok {
			d.unknownAttr(row, a)
		}
	}
	for _, child := range b.Body.Blocks {
		d.unknownBlock("variable", "variable", child, nil)
	}
	if a, ok := b.Body.Attributes["doc"]; ok {
		if doc := d.scope.value(a.Expr, p); doc.IsKnown() && (doc.IsNull() || doc.Type() != cty.String) {
			p.add(cWrongType, rangeOf(a.Expr.Range()), "\"doc\" takes a text in quotes, and this is %s.", kindOf(doc))
		}
	}
	if a, ok := b.Body.Attributes["type"]; ok {
		v.setType(a, d.scope, p)
	}
	if a, ok := b.Body.Attributes["default"]; ok {
		v.setDefault(d.scope.value(a.Expr, p), rangeOf(a.Expr.Range()), p)
	} else if v.kind == cty.DynamicPseudoType {
		v.kind = cty.String
	}
	return v
}

func (v *variable) setType(a *hclsyntax.Attribute, s *scope, p *problems) {
	m := meter{scope: s}
	m.size(a.Expr, nil, 0)
	if m.deep {
		p.add(cTooLarge, rangeOf(a.Expr.Range()), "This type is nested too deeply. Write a simpler one.")
		v.broken = true
		return
	}
	t, diags := typeexpr.TypeConstraint(a.Expr)
	if diags.HasErrors() {
		p.add(cWrongType, rangeOf(a.Expr.Range()), "This is no type of a variable. Write string, number, bool, list(string) or map(number), without quotes.")
		v.broken = true
		return
	}
	v.kind = t
}

func (v *variable) setDefault(value cty.Value, at Range, p *problems) {
	switch {
	case !value.IsWhollyKnown():
		v.broken = true
		return
	case v.kind == cty.DynamicPseudoType && value.Type().IsPrimitiveType():
		v.kind = value.Type()
	}
	c, err := convert.Convert(value, v.kind)
	if err != nil || !sane(c) {
		p.add(cVariable, at, "The default of %q is %s, and its type is %s. Make them agree.", v.name, kindOf(value), v.kind.FriendlyName())
		v.broken = true
		return
	}
	v.fallback = c
}

// resolve returns the variable's value; unknown after a problem.
func (v *variable) resolve(s setting, set bool, p *problems) cty.Value {
	switch {
	case v.broken:
		return cty.DynamicVal
	case !set && v.fallback == cty.NilVal:
		p.add(cMissing, v.at, "The variable %q has no value. Give it a default, set it in a file NAME%s, in the environment as SOTABUILD_VAR_%s, or with\n  --var %s=VALUE", v.name, variablesSuffix, v.name, v.name)
		return cty.DynamicVal
	case !set:
		return v.fallback
	}
	if !utf8.ValidString(s.text) {
		p.add(cVariable, s.at, "%s is %+q, which is no text in UTF-8: it could not be written down in a plan or a report. Write it in UTF-8.", s.from, s.text)
		return cty.DynamicVal
	}
	value := s.value
	if value == cty.NilVal {
		value = fromText(s.text, v.kind)
	}
	if value == cty.NilVal || !value.IsWhollyKnown() {
		if value == cty.NilVal {
			p.add(cVariable, s.at, "%s is %q, which is no %s. Lists and objects are written as in a file: [1, 2].", s.from, s.text, v.kind.FriendlyName())
		}
		return cty.DynamicVal
	}
	c, err := convert.Convert(value, v.kind)
	if err != nil || !sane(c) {
		p.add(cVariable, s.at, "%s sets %q to %s, and its type is %s.", s.from, v.name, kindOf(value), v.kind.FriendlyName())
		return cty.DynamicVal
	}
	return c
}

// maxVariable bounds a value on the command line or in the environment, so
// that the recursive parser of expressions stays shallow.
const maxVariable = 4 << 10

// fromText reads the value of a variable as people write it in a shell: text
// without quotes, anything else as an expression without names.
func fromText(text string, kind cty.Type) cty.Value {
	if kind == cty.String || kind == cty.DynamicPseudoType {
		return cty.StringVal(text)
	}
	if len(text) > maxVariable {
		return cty.NilVal
	}
	e, diags := hclsyntax.ParseExpression([]byte(text), "--var", hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NilVal
	}
	quiet := &problems{}
	v := newScope().value(e, quiet)
	if len(quiet.list) > 0 {
		return cty.NilVal
	}
	return v
}

// assignments reads a *.auto.hclvars file: attributes whose values name
// nothing.
func assignments(f source, p *problems) map[string]setting {
	body := parse(f, "values", p) // no block stands there
	if body == nil {
		return nil
	}
	for _, b := range body.Blocks {
		p.add(cUnknownBlock, rangeOf(b.DefRange()), "A file of variables has no blocks. Write NAME = value; the variable block itself stands in %s.", mainFile)
	}
	s, out := newScope(), map[string]setting{}
	for _, a := range sortedAttrs(body.Attributes) {
		out[a.Name] = setting{value: s.value(a.Expr, p), from: f.name, at: rangeOf(a.Expr.Range())}
	}
	return out
}

// isVariables reports whether a file sets variables; the others hold blocks.
func isVariables(name string) bool {
	return strings.HasSuffix(strings.TrimSuffix(name, jsonSuffix), variablesSuffix)
}
