package lang

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Fact is one row of the facts that are known only while a campaign runs.
type Fact struct {
	Name string // "round.index"
	Type string // number, bool, text, or "numbers by scenario"
	Doc  string
}

// Facts is what a predicate may name, in display order. Eval takes them by
// these names: a number as int, int64 or float64, "numbers by scenario" as
// map[string]float64.
func Facts() []Fact { return facts }

const byScenario = "numbers by scenario"

var facts = []Fact{
	{"round.index", "number", "Rounds finished, counted from 1."},
	{"round.gap", byScenario, "(best - target) / best of each scenario; negative when the target leads."},
	{"round.worst_gap", "number", "The largest gap of all scenarios."},
	{"round.best_gap", "number", "The smallest gap of all scenarios."},
	{"round.threshold", "number", "noise.threshold of the campaign."},
	{"round.geomean_gain", "number", "Geometric mean of the target's gain over its previous best, as a share."},
	{"round.stable", "bool", "The comparison is beyond or within the noise, not unresolved."},
	{"round.sla_ok", "bool", "The target passes the SLA in every scenario."},
	{"round.smoke", "bool", "The rows are flow checks, which decide nothing."},
	{"round.fair", "bool", "Every fairness field is equal or waived."},
	{"round.weak_streak", "number", "Rounds in a row with less gain than counts."},
	{"round.open_rows", "number", "Open rows of the optimisation ledger."},
	{"round.blockers", "number", "Blockers that are proven external."},
	{"round.near_limit", "bool", "Profiles show the hot path near its limits."},
	{"loop.gpu_hours", "number", "GPU hours that the loop has used."},
	{"loop.elapsed", "number", "Seconds since the loop began; compare with duration(\"2h\")."},
	{"loop.base_commit", "text", "The target's commit before the first round."},
}

// laterRoots are the first words of names whose values are known later.
var laterRoots = []string{"round", "loop", "winners", "result"}

func factTypes() map[string]cty.Type {
	return map[string]cty.Type{"number": cty.Number, "bool": cty.Bool, "text": cty.String, byScenario: cty.Map(cty.Number)}
}

// unknownFacts stand for the facts while a predicate is checked.
func unknownFacts() map[string]cty.Value {
	return factObject(func(f Fact) (cty.Value, bool) { return cty.UnknownVal(factTypes()[f.Type]), true })
}

// placeholders stand for the facts in the loop's commands: the text facts, as
// words in braces that are filled in when the command runs.
func placeholders() map[string]cty.Value {
	return factObject(func(f Fact) (cty.Value, bool) {
		return cty.StringVal("{" + f.Name + "}"), f.Type == "text"
	})
}

func factObject(value func(Fact) (cty.Value, bool)) map[string]cty.Value {
	groups := map[string]map[string]cty.Value{}
	for _, f := range facts {
		group, name, _ := strings.Cut(f.Name, ".")
		v, ok := value(f)
		if !ok {
			continue
		}
		if groups[group] == nil {
			groups[group] = map[string]cty.Value{}
		}
		groups[group][name] = v
	}
	out := map[string]cty.Value{}
	for name, g := range groups {
		out[name] = cty.ObjectVal(g)
	}
	return out
}

// knownFact checks a name such as round.gap["chat"] where facts may stand.
func (s *scope) knownFact(t hcl.Traversal, p *problems) bool {
	r, name := rangeOf(t.SourceRange()), factName(t)
	if s.facts == nil {
		p.add(cLater, r, "%s is known only while the campaign runs. Such values stand in the \"when\" of a stop or gate block and in the commands of a loop; write a fixed value here.", text(t))
		return false
	}
	var names []string
	for _, f := range facts {
		if _, ok := s.facts[t.RootName()]; ok && has(s.facts, f.Name) {
			names = append(names, f.Name)
		}
		if f.Name == name && has(s.facts, name) {
			return true
		}
	}
	if slices.ContainsFunc(facts, func(f Fact) bool { return f.Name == name }) {
		p.add(cLater, r, "%s is no text, so it cannot stand in a command. It can stand in the \"when\" of a stop or gate block.", name)
		return false
	}
	hint := didYouMean(name, names)
	if hint == "" {
		all := make([]string, len(facts))
		for i, f := range facts {
			all[i] = f.Name
		}
		hint = "The names are " + strings.Join(all, ", ") + "."
	}
	p.add(cUnknownName, r, "There is no value %s in a running campaign. %s", text(t), hint)
	return false
}

func has(groups map[string]cty.Value, name string) bool {
	group, attr, _ := strings.Cut(name, ".")
	g, ok := groups[group]
	return ok && g.Type().HasAttribute(attr)
}

func factName(t hcl.Traversal) string {
	if len(t) > 1 {
		if a, ok := t[1].(hcl.TraverseAttr); ok {
			return t.RootName() + "." + a.Name
		}
	}
	return t.RootName()
}

// predicateType is the type of "when"; it is decoded by predicate.
var predicateType = Type{Name: "condition over facts"}

// predicate checks that a condition names known facts and is true or false.
func (d *decoder) predicate(a *hclsyntax.Attribute) Predicate {
	s := d.scope.withFacts(unknownFacts())
	at := rangeOf(a.Expr.Range())
	if !s.affordable(a.Expr, d.p) || !s.known(a.Expr, d.p) {
		return nil
	}
	v, diags := a.Expr.Value(s.ctx)
	if diags.HasErrors() {
		d.p.hcl(cExpression, diags)
		return nil
	}
	if v.Type() != cty.Bool {
		d.p.add(cWrongType, at, "%q is a condition, and this gives %s. Compare it with something, such as loop.gpu_hours > 40.", a.Name, kindOf(v))
		return nil
	}
	c := &condition{expr: a.Expr, scope: d.scope, text: d.written(a)}
	for _, t := range a.Expr.Variables() {
		if slices.Contains(laterRoots, t.RootName()) {
			c.needs = append(c.needs, need{factName(t), scenarioOf(t), rangeOf(t.SourceRange())})
		}
	}
	if len(c.needs) == 0 {
		d.p.add(cExpression, at, "This condition is always the same, because it names no fact. Name one, such as round.index or loop.gpu_hours.")
		return nil
	}
	return c
}

// scenarioOf is the literal index of round.gap["chat"], or "".
func scenarioOf(t hcl.Traversal) string {
	if len(t) < 3 {
		return ""
	}
	switch step := t[2].(type) {
	case hcl.TraverseIndex:
		if step.Key.Type() == cty.String {
			return step.Key.AsString()
		}
	case hcl.TraverseAttr:
		return step.Name
	}
	return ""
}

// condition is a checked predicate. It is immutable and safe for concurrent
// use: evaluation makes a context of its own.
type condition struct {
	expr  hclsyntax.Expression
	scope *scope
	text  string
	needs []need
}

// need is one fact that the condition names; scenario where it is one of a
// fact by scenario.
type need struct {
	fact, scenario string
	at             Range
}

func (c *condition) Text() string { return c.text }

// Eval evaluates the condition. Every fact that it names is needed, also where
// "or" would not look at it: a condition that is silent about a missing fact
// would stop or go on for a reason nobody can see.
func (c *condition) Eval(facts map[string]any) (bool, string, error) {
	values := map[string]cty.Value{}
	var seen []string
	for _, n := range c.needs {
		raw, ok := facts[n.fact]
		if !ok || raw == nil {
			return false, strings.Join(seen, ", "), fmt.Errorf("evaluating %q: the fact %s is not known", c.text, n.fact)
		}
		v, shown, err := factValue(raw, n)
		if err != nil {
			return false, strings.Join(seen, ", "), fmt.Errorf("evaluating %q: %w", c.text, err)
		}
		values[n.fact] = v
		if !slices.Contains(seen, shown) {
			seen = append(seen, shown)
		}
	}
	known := factObject(func(f Fact) (cty.Value, bool) {
		v, ok := values[f.Name]
		return v, ok
	})
	v, diags := c.expr.Value(c.scope.withFacts(known).ctx)
	text := strings.Join(seen, ", ")
	if diags.HasErrors() {
		return false, text, fmt.Errorf("evaluating %q: %s", c.text, diags[0].Detail)
	}
	if v.Type() != cty.Bool || !v.IsKnown() || v.IsNull() {
		return false, text, fmt.Errorf("evaluating %q: the result is not true or false", c.text)
	}
	return v.True(), text, nil
}

// factValue converts a fact and shows it as "round.gap["chat"] = 0.03".
func factValue(raw any, n need) (cty.Value, string, error) {
	switch x := raw.(type) {
	case bool:
		return cty.BoolVal(x), fmt.Sprintf("%s = %t", n.fact, x), nil
	case string:
		return cty.StringVal(x), fmt.Sprintf("%s = %q", n.fact, x), nil
	case int:
		return cty.NumberIntVal(int64(x)), fmt.Sprintf("%s = %d", n.fact, x), nil
	case int64:
		return cty.NumberIntVal(x), fmt.Sprintf("%s = %d", n.fact, x), nil
	case float64:
		v, shown, err := numberFact(n.fact, x)
		return v, n.fact + " = " + shown, err
	case map[string]float64:
		return mapFact(x, n)
	}
	return cty.NilVal, "", fmt.Errorf("the fact %s has the type %T, which no condition takes", n.fact, raw)
}

func mapFact(x map[string]float64, n need) (cty.Value, string, error) {
	if len(x) == 0 {
		return cty.NilVal, "", fmt.Errorf("the fact %s has no scenario", n.fact)
	}
	values, shown := map[string]cty.Value{}, []string{}
	for name, f := range x {
		v, text, err := numberFact(n.fact, f)
		if err != nil {
			return cty.NilVal, "", err
		}
		values[name] = v
		if n.scenario == "" || n.scenario == name {
			shown = append(shown, fmt.Sprintf("%s[%q] = %s", n.fact, name, text))
		}
	}
	if n.scenario != "" && len(shown) == 0 {
		return cty.NilVal, "", fmt.Errorf("the fact %s[%q] is not known", n.fact, n.scenario)
	}
	slices.Sort(shown)
	return cty.MapVal(values), strings.Join(shown, ", "), nil
}

// numberFact goes through decimal text, so that 0.1 of a program is the 0.1 of
// a file.
func numberFact(name string, f float64) (cty.Value, string, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return cty.NilVal, "", fmt.Errorf("the fact %s is %v, which is no number", name, f)
	}
	shown := strconv.FormatFloat(f, 'g', -1, 64)
	v, err := cty.ParseNumberVal(shown)
	return v, shown, err
}
