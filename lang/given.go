package lang

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// given is the value of an attribute as written. It is never null or unknown.
type given struct {
	value cty.Value
	expr  hclsyntax.Expression
	at    Range
	row   *Attr
	dir   string
	scope *scope
	p     *problems
}

func (g *given) wrong(format string, args ...any) any {
	g.p.add(cBadValue, g.at, "%q: %s", g.row.Name, fmt.Sprintf(format, args...))
	return nil
}

func (g *given) wrongType(want string) any {
	g.p.add(cWrongType, g.at, "%q takes %s, and this is %s.", g.row.Name, want, kindOf(g.value))
	return nil
}

// part is an element of g's value, with its own range where it has one.
func (g *given) part(v cty.Value, e hclsyntax.Expression) *given {
	c := *g
	c.value, c.expr = v, e
	if e != nil {
		c.at = rangeOf(e.Range())
	}
	return &c
}

// kindOf names a value's type for people.
func kindOf(v cty.Value) string {
	t := v.Type()
	switch {
	case v.IsNull():
		return "null"
	case t == cty.String:
		return "a text"
	case t == cty.Number:
		return "a number"
	case t == cty.Bool:
		return "true or false"
	case t.IsTupleType(), t.IsListType(), t.IsSetType():
		return "a list"
	}
	return "an object"
}

func (g *given) is(t cty.Type) bool { return !g.value.IsNull() && g.value.Type() == t }

func (g *given) text(want string) (string, bool) {
	if !g.is(cty.String) {
		g.wrongType(want)
		return "", false
	}
	return g.value.AsString(), true
}

func (g *given) number(want string) (float64, bool) {
	if !g.is(cty.Number) {
		g.wrongType(want + ", without quotes")
		return 0, false
	}
	f, _ := g.value.AsBigFloat().Float64()
	return f, true
}

func (g *given) whole() (int64, bool) {
	if !g.is(cty.Number) {
		g.wrongType("a whole number, without quotes")
		return 0, false
	}
	n, exact := g.value.AsBigFloat().Int64()
	if exact != 0 {
		g.wrong("%s is not a whole number.", g.value.AsBigFloat().Text('g', 6))
		return 0, false
	}
	return n, true
}

// distinct decodes a list of texts that are all different; problem says what
// is wrong with one.
func (g *given) distinct(problem func(string) string) any {
	list, ok := g.words(problem)
	for i, s := range list {
		if slices.Contains(list[:i], s) {
			g.p.add(cDuplicate, g.at, "%q stands twice in %q. Write it once.", s, g.row.Name)
			return nil
		}
	}
	return orNil(list, ok)
}

// words decodes a list of texts, which may be equal.
func (g *given) words(problem func(string) string) ([]string, bool) {
	list, ok := g.list()
	if !ok {
		return nil, false
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		s, ok := e.text("texts in quotes")
		if !ok {
			return nil, false
		}
		if why := problem(s); why != "" {
			e.wrong("%q: %s.", s, why)
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

// list is the elements of a list, each with its own range where it is written
// out.
func (g *given) list() ([]*given, bool) {
	t := g.value.Type()
	if g.value.IsNull() || !t.IsTupleType() && !t.IsListType() && !t.IsSetType() {
		if s := g.source(); s != "…" && g.value.Type().IsPrimitiveType() {
			g.p.add(cWrongType, g.at, "%q takes a list in square brackets, and this is %s. Write [%s].", g.row.Name, kindOf(g.value), s)
			return nil, false
		}
		g.wrongType("a list in square brackets")
		return nil, false
	}
	var exprs []hclsyntax.Expression
	if c, ok := bare(g.expr).(*hclsyntax.TupleConsExpr); ok {
		exprs = c.Exprs
	}
	var list []*given
	for it := g.value.ElementIterator(); it.Next(); {
		_, v := it.Element()
		var e hclsyntax.Expression
		if len(list) < len(exprs) {
			e = exprs[len(list)]
		}
		if !v.IsKnown() {
			return nil, false // its problem is told already
		}
		list = append(list, g.part(v, e))
	}
	return list, true
}

// bare is an expression without parentheses.
func bare(e hclsyntax.Expression) hclsyntax.Expression {
	for {
		p, ok := e.(*hclsyntax.ParenthesesExpr)
		if !ok {
			return e
		}
		e = p.Expression
	}
}
