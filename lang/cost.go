package lang

import (
	"math/big"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// An expression is bounded before it is evaluated: for expressions multiply,
// and a local that joins another one to itself doubles. The bound is on values
// and bytes touched; it is found from the sizes of the values that are named.
//
// A size is an upper bound: n elements, total weight, elem the heaviest one.
type size struct{ n, total, elem int64 }

// maxCost bounds one expression; a table of 10,000 numbers is allowed.
const maxCost = 200_000

// affordable reports whether e may be evaluated, and takes its cost from the
// budget. It also makes arithmetic strict (see numeric).
func (s *scope) affordable(e hclsyntax.Expression, p *problems) bool {
	if *s.budget <= 0 { // told once, by the expression that used it up
		return false
	}
	m := meter{scope: s}
	cost := m.size(e, nil, 0).total
	r := rangeOf(e.Range())
	switch {
	case m.badFunction != nil:
		p.add(cUnknownFunc, rangeOf(m.badFunction.NameRange), "There is no function %q. %s", m.badFunction.Name, functionHint(m.badFunction.Name))
	case m.deep:
		p.add(cTooLarge, r, "This expression is nested more than %d levels deep. Name the inner parts in locals.", maxDepth)
	case m.huge:
		p.add(cExpression, r, "The expression holds a number of more than 300 digits, which no setting takes. Write a smaller number.")
	case cost > maxCost:
		p.add(cTooLarge, r, "Evaluating this could touch more than %d values. Make the lists shorter, or nest fewer for expressions.", maxCost)
	default:
		if *s.budget -= cost; *s.budget <= 0 {
			p.add(cTooLarge, r, "The expressions of this campaign touch more than %d values together. Make the lists shorter.", int64(maxBudget))
			return false
		}
		return true
	}
	return false
}

// maxDepth bounds the nesting of one expression, operators in a row included.
const maxDepth = 500

type meter struct {
	scope       *scope
	deep, huge  bool
	badFunction *hclsyntax.FunctionCallExpr
}

func (m *meter) size(e hclsyntax.Expression, env map[string]size, depth int) size {
	if depth > maxDepth {
		m.deep = true
		return size{}
	}
	sub := func(e hclsyntax.Expression) size { return m.size(e, env, depth+1) }
	switch e := e.(type) {
	case *hclsyntax.LiteralValueExpr:
		m.huge = m.huge || !sane(e.Val)
		return sizeOf(e.Val)
	case *hclsyntax.ScopeTraversalExpr:
		return m.named(e.Traversal, env)
	case *hclsyntax.RelativeTraversalExpr:
		return inner(sub(e.Source))
	case *hclsyntax.ParenthesesExpr:
		return sub(e.Expression)
	case *hclsyntax.TemplateExpr:
		return flat(sum(e.Parts, sub))
	case *hclsyntax.TemplateWrapExpr:
		return sub(e.Wrapped)
	case *hclsyntax.TemplateJoinExpr:
		return flat(sub(e.Tuple))
	case *hclsyntax.TupleConsExpr:
		return sum(e.Exprs, sub)
	case *hclsyntax.ObjectConsExpr:
		var all size
		for _, item := range e.Items {
			all = all.plus(sub(item.KeyExpr)).plus(sub(item.ValueExpr))
		}
		return all
	case *hclsyntax.ObjectConsKeyExpr:
		if hcl.ExprAsKeyword(e.Wrapped) != "" {
			return size{total: 16}
		}
		return sub(e.Wrapped)
	case *hclsyntax.ConditionalExpr:
		return sum([]hclsyntax.Expression{e.Condition, e.TrueResult, e.FalseResult}, sub)
	case *hclsyntax.IndexExpr:
		return inner(sub(e.Collection)).add(sub(e.Key).total)
	case *hclsyntax.SplatExpr:
		return m.product(sub(e.Source), func(element size) size {
			return m.size(e.Each, with(env, "*", element), depth+1)
		})
	case *hclsyntax.AnonSymbolExpr:
		return env["*"]
	case *hclsyntax.ForExpr:
		return m.product(sub(e.CollExpr), func(element size) size {
			inside := with(with(env, e.ValVar, element), e.KeyVar, size{total: 64})
			all := m.size(e.ValExpr, inside, depth+1)
			for _, x := range []hclsyntax.Expression{e.KeyExpr, e.CondExpr} {
				if x != nil {
					all = all.plus(m.size(x, inside, depth+1))
				}
			}
			return all
		})
	case *hclsyntax.BinaryOpExpr:
		if e.Op.Type == cty.Number {
			e.LHS, e.RHS = strict(e.LHS), strict(e.RHS)
		}
		return flat(sub(e.LHS).plus(sub(e.RHS)))
	case *hclsyntax.UnaryOpExpr:
		if e.Op.Type == cty.Number {
			e.Val = strict(e.Val)
		}
		return flat(sub(e.Val))
	case *hclsyntax.FunctionCallExpr:
		return m.call(e, sub)
	case numeric:
		return m.size(e.Expression, env, depth+1)
	}
	return size{total: 1} // ExprSyntaxError, told by the parser
}

// call bounds a function's result by its arguments; joining also repeats the
// separator.
func (m *meter) call(e *hclsyntax.FunctionCallExpr, sub func(hclsyntax.Expression) size) size {
	f, ok := functionNamed(e.Name)
	if !ok {
		m.badFunction = e
		return size{}
	}
	if f.numbers {
		for i := range e.Args {
			e.Args[i] = strict(e.Args[i])
		}
	}
	all := sum(e.Args, sub)
	if e.Name == "join" && len(e.Args) > 0 {
		all = all.add(mul(sub(e.Args[0]).total, all.total))
	}
	return size{n: all.total, total: all.total, elem: all.total}
}

func (m *meter) named(t hcl.Traversal, env map[string]size) size {
	if s, ok := env[t.RootName()]; ok {
		return inner(s)
	}
	v, diags := t.TraverseAbs(m.scope.ctx)
	if diags.HasErrors() {
		return size{total: 1} // told when it is evaluated
	}
	return sizeOf(v)
}

// product is the size of a loop over coll.
func (m *meter) product(coll size, body func(element size) size) size {
	b := body(size{n: coll.elem, total: coll.elem, elem: coll.elem})
	return size{n: coll.n, total: clamp(coll.total + mul(max(coll.n, 1), b.total+1)), elem: b.total}
}

func sum(list []hclsyntax.Expression, of func(hclsyntax.Expression) size) size {
	var all size
	for _, e := range list {
		all = all.plus(of(e))
	}
	return all
}

func (a size) plus(b size) size {
	return size{n: a.n + 1, total: clamp(a.total + b.total + 1), elem: max(a.elem, b.total)}
}

func (a size) add(weight int64) size { a.total = clamp(a.total + weight); return a }

// flat is a value without elements; a string counts as one.
func flat(s size) size { return size{total: s.total} }

// inner is any part of a value.
func inner(s size) size { return size{n: s.total, total: s.total, elem: s.total} }

func with(env map[string]size, name string, s size) map[string]size {
	c := make(map[string]size, len(env)+1)
	for k, v := range env {
		c[k] = v
	}
	c[name] = s
	return c
}

func clamp(n int64) int64 { return min(n, maxCost+1) }

func mul(a, b int64) int64 { return clamp(clamp(a) * clamp(b)) }

// sizeOf weighs a value: one for each part, and the bytes of strings.
func sizeOf(v cty.Value) size {
	if v.IsMarked() || !v.IsKnown() || v.IsNull() {
		return size{total: 1}
	}
	switch {
	case v.Type() == cty.String:
		return size{total: int64(len(v.AsString())) + 1}
	case v.Type() == cty.Number:
		return size{total: max(1, digits(v.AsBigFloat()))}
	case v.CanIterateElements():
		var all size
		for it := v.ElementIterator(); it.Next(); {
			k, x := it.Element()
			all = all.plus(sizeOf(x)).add(sizeOf(k).total)
		}
		return all
	}
	return size{total: 1}
}

// digits is about how many decimal digits a number has when it is written out.
func digits(f *big.Float) int64 {
	exp := int64(f.MantExp(nil))
	return max(exp, -exp) * 10 / 33
}

// sane refuses numbers that would take ages to write out: a campaign's largest
// is a number of tokens.
func sane(v cty.Value) bool {
	if v.IsMarked() || !v.IsKnown() || v.IsNull() {
		return true
	}
	switch {
	case v.Type() == cty.Number:
		return !v.AsBigFloat().IsInf() && digits(v.AsBigFloat()) <= 300
	case v.CanIterateElements():
		for it := v.ElementIterator(); it.Next(); {
			if _, x := it.Element(); !sane(x) {
				return false
			}
		}
	}
	return true
}

// numeric is an operand of arithmetic. HCL turns text into a number there,
// which hides mistakes ("8" * 2) and lets a short text become a number of a
// billion digits; here it is an error. Wrapping the operand is the one place
// that sees the value between the two steps; parentheses are its body, so that
// a walk over the expression still finds what is inside.
type numeric struct{ *hclsyntax.ParenthesesExpr }

func strict(e hclsyntax.Expression) hclsyntax.Expression {
	if _, done := e.(numeric); done {
		return e
	}
	return numeric{&hclsyntax.ParenthesesExpr{Expression: e, SrcRange: e.Range()}}
}

func (n numeric) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := n.Expression.Value(ctx)
	if t := v.Type(); !diags.HasErrors() && t != cty.Number && t != cty.DynamicPseudoType {
		at := n.Range()
		return cty.DynamicVal, hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: "Not a number",
			Detail:  "Arithmetic takes numbers, and this is " + kindOf(v) + ". Write the number without quotes, or use tonumber.",
			Subject: &at,
		}}
	}
	return v, diags
}
