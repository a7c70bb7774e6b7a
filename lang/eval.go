package lang

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// scope is what expressions of a file may name. It is made once a load; a
// for_each instance or a block of the loop gets a child.
type scope struct {
	vars   map[string]cty.Value
	locals map[string]cty.Value
	each   map[string]cty.Value // key and value; nil outside for_each
	facts  map[string]cty.Value // loop, round: values known later; nil where they may not stand
	ctx    *hcl.EvalContext
	plain  bool   // nothing of a campaign may be named: a default, a definition
	budget *int64 // units of cost left to this load
}

// maxBudget is what all expressions of one load may cost together, in values
// and bytes touched: some seconds at the very worst.
const maxBudget = 20_000_000

// newScope is a scope without names.
func newScope() *scope {
	budget := int64(maxBudget)
	return (&scope{vars: map[string]cty.Value{}, locals: map[string]cty.Value{}, plain: true, budget: &budget}).ready()
}

// ready rebuilds the context after a change of the names.
func (s *scope) ready() *scope {
	names := map[string]cty.Value{"var": cty.ObjectVal(s.vars), "local": cty.ObjectVal(s.locals)}
	if s.each != nil {
		names["each"] = cty.ObjectVal(s.each)
	}
	maps.Copy(names, s.facts)
	s.ctx = &hcl.EvalContext{Variables: names, Functions: functionTable()}
	return s
}

// withEach is the scope of one for_each instance. The context is a child, so
// that an instance costs nothing for what it does not name.
func (s *scope) withEach(key string, value cty.Value) *scope {
	c := *s
	c.each = map[string]cty.Value{"key": cty.StringVal(key), "value": value}
	c.ctx = s.ctx.NewChild()
	c.ctx.Variables = map[string]cty.Value{"each": cty.ObjectVal(c.each)}
	return &c
}

// withFacts is a scope in which values stand that are known later.
func (s *scope) withFacts(facts map[string]cty.Value) *scope {
	c := *s
	c.facts = facts
	c.ctx = s.ctx.NewChild()
	c.ctx.Variables = facts
	return &c
}

// value evaluates an expression. After a problem, and where an operand already
// has one, the result is cty.DynamicVal, so that one mistake is told once.
func (s *scope) value(e hclsyntax.Expression, p *problems) cty.Value {
	if !s.affordable(e, p) || !s.known(e, p) {
		return cty.DynamicVal
	}
	v, diags := e.Value(s.ctx)
	if diags.HasErrors() {
		p.hcl(cExpression, diags)
		return cty.DynamicVal
	}
	v, _ = v.UnmarkDeep()
	if !sane(v) {
		p.add(cExpression, rangeOf(e.Range()), "The result is a number of more than 300 digits, which no setting takes. Write a smaller number.")
		return cty.DynamicVal
	}
	return v
}

// withLocals is a scope whose context has only the named locals: rebuilding the
// whole context for each of many locals would be quadratic.
func (s *scope) withLocals(names []string) *scope {
	some := map[string]cty.Value{}
	for _, n := range names {
		if v, ok := s.locals[n]; ok {
			some[n] = v
		}
	}
	c := *s
	c.ctx = s.ctx.NewChild()
	c.ctx.Variables = map[string]cty.Value{"local": cty.ObjectVal(some)}
	return &c
}

// known checks every name in e against the scope.
func (s *scope) known(e hclsyntax.Expression, p *problems) bool {
	ok := true
	for _, t := range e.Variables() {
		root, r := t.RootName(), rangeOf(t.SourceRange())
		switch {
		case s.plain && slices.Contains([]string{"var", "local", "each"}, root):
			p.add(cUnknownName, r, "Only plain values stand here: the text is read before, or apart from, any campaign. Write the value itself instead of %s.", text(t))
			ok = false
		case root == "var":
			ok = member(t, s.vars, "variable", p) && ok
		case root == "local":
			ok = member(t, s.locals, "local", p) && ok
		case root == "each" && s.each != nil:
			ok = member(t, s.each, "each", p) && ok
		case root == "each":
			p.add(cUnknownName, r, "each.key and each.value exist only in a block that has for_each.")
			ok = false
		case slices.Contains(laterRoots, root):
			ok = s.knownFact(t, p) && ok
		default:
			p.add(cUnknownName, r, "There is no name %q here. Text stands in quotes: %q. Names start with %s. %s",
				root, text(t), oneOf([]string{"var.", "local."}), didYouMean(root, []string{"var", "local", "each"}))
			ok = false
		}
	}
	return ok
}

// text is a traversal as the bare words that the user probably meant.
func text(t hcl.Traversal) string {
	var b strings.Builder
	for _, step := range t {
		switch step := step.(type) {
		case hcl.TraverseRoot:
			b.WriteString(step.Name)
		case hcl.TraverseAttr:
			b.WriteString("." + step.Name)
		}
	}
	return b.String()
}

// member checks the second step of a traversal such as var.NAME.
func member(t hcl.Traversal, have map[string]cty.Value, what string, p *problems) bool {
	r := rangeOf(t.SourceRange())
	if len(t) < 2 {
		p.add(cUnknownName, r, "%q alone is no value. Write %s.NAME.", t.RootName(), t.RootName())
		return false
	}
	name, ok := t[1].(hcl.TraverseAttr)
	if !ok {
		p.add(cUnknownName, r, "Write %s.NAME with a dot: which names are used must be known before anything is evaluated.", t.RootName())
		return false
	}
	if _, ok := have[name.Name]; ok {
		return true
	}
	names := slices.Sorted(maps.Keys(have))
	switch {
	case what == "each":
		p.add(cUnknownName, r, "each has key and value, and no %q. %s", name.Name, didYouMean(name.Name, names))
	case what == "variable":
		p.add(cUnknownName, r, "No variable block has the name %q. %s", name.Name, orDeclare(name.Name, names, "Declare it with a block: variable %q {}"))
	default:
		p.add(cUnknownName, r, "There is no local value %q. %s", name.Name, orDeclare(name.Name, names, "Define it in a locals block, or correct the name %q."))
	}
	return false
}

func orDeclare(name string, names []string, declare string) string {
	if hint := didYouMean(name, names); hint != "" {
		return hint
	}
	return strings.ReplaceAll(declare, "%q", `"`+name+`"`)
}

// localsOf evaluates the locals in order of their references. Where they refer
// to each other the whole path is told.
func (s *scope) localsOf(attrs map[string]*hclsyntax.Attribute, p *problems) {
	for name := range attrs {
		s.locals[name] = cty.DynamicVal // the name exists; its value is not known yet
	}
	const (
		unseen = iota
		open
		done
	)
	state := map[string]int{}
	var path []string
	var visit func(name string)
	visit = func(name string) {
		a := attrs[name]
		state[name] = open
		path = append(path, name)
		defer func() {
			state[name] = done
			path = path[:len(path)-1]
		}()
		if !s.affordable(a.Expr, p) {
			return
		}
		for _, next := range localsIn(a.Expr) {
			if attrs[next] == nil {
				continue // told by known
			}
			if state[next] == open {
				cycle(append(path[slices.Index(path, next):], next), attrs, p)
				return
			}
			if state[next] == unseen && len(path) > maxNest {
				p.add(cTooLarge, rangeOf(a.NameRange), "This local needs more than %d others one after the other. Make the chain shorter.", maxNest)
				return
			}
			if state[next] == unseen {
				visit(next)
			}
		}
		s.locals[name] = s.withLocals(localsIn(a.Expr)).value(a.Expr, p)
	}
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		if state[name] == unseen {
			visit(name)
		}
	}
	s.ready()
}

func localsIn(e hclsyntax.Expression) []string {
	var names []string
	for _, t := range e.Variables() {
		if t.RootName() != "local" || len(t) < 2 {
			continue
		}
		if a, ok := t[1].(hcl.TraverseAttr); ok {
			names = append(names, a.Name)
		}
	}
	return names
}

func cycle(path []string, attrs map[string]*hclsyntax.Attribute, p *problems) {
	d := p.add(cCycle, rangeOf(attrs[path[0]].NameRange), "local.%s: each needs the next before it has a value. Give one of them a value of its own.",
		strings.Join(path, " → local."))
	for _, n := range path[1 : len(path)-1] {
		d.Related = append(d.Related, rangeOf(attrs[n].NameRange))
	}
}
