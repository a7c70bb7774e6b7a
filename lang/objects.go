package lang

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Types whose values are lists of numbers or objects.
var (
	concurrencyType = Type{Name: "list of whole numbers ≥ 1; null is unlimited", decode: func(g *given) any {
		list, ok := g.list()
		if !ok {
			return nil
		}
		if len(list) == 0 {
			return g.wrong("the list is empty, so that nothing would be measured. Write [null] for unlimited concurrency.")
		}
		out := make([]*int, 0, len(list))
		for _, e := range list {
			n, ok := e.concurrency()
			if !ok {
				return nil
			}
			if slices.ContainsFunc(out, func(m *int) bool { return m == nil && n == nil || m != nil && n != nil && *m == *n }) {
				g.p.add(cDuplicate, e.at, "This concurrency stands twice. Each value is a cell of its own; write it once.")
				return nil
			}
			out = append(out, n)
		}
		return out
	}}
	vocabType = Type{Name: "[lo, hi], half-open range of token ids", decode: func(g *given) any {
		if g.is(cty.Number) {
			g.p.add(cWrongType, g.at, "%q is a half-open range of token ids, and this is a number. Write [0, %s].", g.row.Name, g.source())
			return nil
		}
		list, ok := g.list()
		if !ok {
			return nil
		}
		if len(list) != 2 {
			return g.wrong("two numbers are needed. Write [lo, hi]: prompts draw ids from lo up to hi - 1, so that [0, 32000] is a vocabulary of 32000.")
		}
		lo, okLo := list[0].whole()
		hi, okHi := list[1].whole()
		if !okLo || !okHi {
			return nil
		}
		if lo < 0 || hi <= lo || hi > math.MaxInt32 {
			return g.wrong("[%d, %d] is no range of token ids. lo is at least 0 and hi is above lo, such as [0, 32000].", lo, hi)
		}
		return [2]int{int(lo), int(hi)}
	}}
	idsType = Type{Name: "list of GPU numbers or UUIDs", decode: func(g *given) any {
		list, ok := g.list()
		if !ok {
			return nil
		}
		if len(list) == 0 {
			return g.wrong("no GPU is named. Write the numbers, such as [0], or leave the gpus block out for a CPU campaign.")
		}
		out := make([]string, 0, len(list))
		for _, e := range list {
			id, ok := e.gpu()
			if !ok {
				return nil
			}
			if slices.Contains(out, id) {
				g.p.add(cDuplicate, e.at, "GPU %s stands twice. Write it once; the number of GPUs is the length of the list.", id)
				return nil
			}
			out = append(out, id)
		}
		return out
	}}
	flagsType = Type{Name: "object of flags", decode: func(g *given) any {
		pairs, ok := g.pairs()
		if !ok {
			return nil
		}
		out := make([]Flag, 0, len(pairs))
		for _, x := range pairs {
			v, ok := x.flag()
			if !ok || !x.flagName() {
				return nil
			}
			out = append(out, Flag{Name: x.name, Value: v, Range: x.nameAt})
		}
		return out
	}}
	spaceType = Type{Name: "object of lists of values", decode: func(g *given) any {
		pairs, ok := g.pairs()
		if !ok {
			return nil
		}
		out := make([]Axis, 0, len(pairs))
		for _, x := range pairs {
			values, ok := x.axis()
			if !ok || !x.flagName() {
				return nil
			}
			out = append(out, Axis{Name: x.name, Values: values, Range: x.nameAt})
		}
		return out
	}}
	textsType = Type{Name: "object of texts", decode: func(g *given) any {
		pairs, ok := g.pairs()
		if !ok {
			return nil
		}
		out := make(map[string]string, len(pairs))
		for _, x := range pairs {
			s, ok := textType.decode(x.given).(string)
			if !ok {
				return nil
			}
			out[x.name] = s
		}
		return out
	}}
	samplingType = Type{Name: "object: temperature", decode: func(g *given) any {
		pairs, ok := g.pairs()
		if !ok {
			return nil
		}
		var temperature float64
		for _, x := range pairs {
			if x.name != "temperature" {
				g.p.add(cUnknownAttr, x.nameAt, "sampling has only temperature: the output length is fixed by the scenario, and the rest is the same for every framework. %s", didYouMean(x.name, []string{"temperature"}))
				return nil
			}
			f, ok := numberType.decode(x.given).(float64)
			if !ok {
				return nil
			}
			temperature = f
		}
		return temperature
	}}
)

// pair is one attribute of an object, with its places.
type pair struct {
	*given
	name   string
	nameAt Range
}

// pairs is the attributes of an object in order of the file where it is
// written out, else by name. A name that stands twice is an error: HCL would
// silently take the last one.
func (g *given) pairs() ([]pair, bool) {
	t := g.value.Type()
	if g.value.IsNull() || !t.IsObjectType() && !t.IsMapType() {
		g.wrongType("an object in braces, { name = value }")
		return nil, false
	}
	var list []pair
	if c, ok := bare(g.expr).(*hclsyntax.ObjectConsExpr); ok {
		values := g.value.AsValueMap()
		for _, item := range c.Items {
			k, diags := item.KeyExpr.Value(g.scope.ctx)
			if diags.HasErrors() || k.Type() != cty.String || !k.IsKnown() || k.IsNull() {
				return nil, false // told when the whole object was evaluated
			}
			x := pair{g.part(values[k.AsString()], item.ValueExpr), k.AsString(), rangeOf(item.KeyExpr.Range())}
			if i := slices.IndexFunc(list, func(y pair) bool { return y.name == x.name }); i >= 0 {
				d := g.p.add(cDuplicate, x.nameAt, "%q stands twice in %q. Keep one of them.", x.name, g.row.Name)
				d.Related = []Range{list[i].nameAt}
				return nil, false
			}
			list = append(list, x)
		}
	} else {
		for it := g.value.ElementIterator(); it.Next(); { // sorted by name
			k, v := it.Element()
			list = append(list, pair{g.part(v, nil), k.AsString(), g.at})
		}
	}
	for _, x := range list {
		if !x.value.IsKnown() {
			return nil, false
		}
	}
	return list, true
}

func (x pair) flagName() bool {
	if flagName.MatchString(x.name) {
		return true
	}
	want := strings.ReplaceAll(strings.TrimLeft(x.name, "-"), "-", "_")
	x.p.add(cFlag, x.nameAt, "%q is no name of a flag here. Flags are written without leading dashes and with underscores: %s. The definition of the framework says how they look on its command line.", x.name, want)
	return false
}

// flag is a value that a command line can take.
func (g *given) flag() (Value, bool) {
	v := g.value
	if v.IsNull() {
		return Value{}, true
	}
	switch v.Type() {
	case cty.String:
		s := v.AsString()
		if strings.ContainsAny(s, "\x00\n\r") {
			g.wrong("the value holds a line end or a zero byte, which no command line can show. Use jsonencode for JSON.")
			return Value{}, false
		}
		return Value{Kind: String, Str: s}, true
	case cty.Bool:
		return Value{Kind: Bool, Bool: v.True()}, true
	case cty.Number:
		if n, exact := v.AsBigFloat().Int64(); exact == 0 {
			return Value{Kind: Int, Int: n}, true
		}
		f, _ := v.AsBigFloat().Float64()
		short := strconv.FormatFloat(f, 'g', -1, 64)
		if back, err := cty.ParseNumberVal(short); err != nil || back.AsBigFloat().Cmp(v.AsBigFloat()) != 0 {
			g.wrong("the number has more digits than a server reads, so that it would not be the one that is keyed. Write %s.", short)
			return Value{}, false
		}
		return Value{Kind: Float, Num: f}, true
	}
	g.p.add(cWrongType, g.at, "A flag takes one text, number or boolean, or null to leave it out, and this is %s. Write jsonencode(…) for a flag that takes JSON, and a text for one that takes a list.", kindOf(v))
	return Value{}, false
}

func (x pair) axis() ([]Value, bool) {
	t := x.value.Type()
	if t.IsPrimitiveType() || x.value.IsNull() {
		x.p.add(cWrongType, x.at, "The search space of %q is a list of values. Write [%s], or move a fixed value to flags.", x.name, x.source())
		return nil, false
	}
	list, ok := x.list()
	if !ok {
		return nil, false
	}
	if len(list) == 0 {
		x.p.add(cSearch, x.at, "The search space of %q is empty, so that there would be no candidate. Write at least one value, or leave the flag out.", x.name)
		return nil, false
	}
	values := make([]Value, 0, len(list))
	for _, e := range list {
		v, ok := e.flag()
		if !ok {
			return nil, false
		}
		if slices.ContainsFunc(values, v.Equal) {
			x.p.add(cDuplicate, e.at, "The value %s stands twice in the search space of %q. Write it once: two equal candidates would be measured as one.", v.Text(), x.name)
			return nil, false
		}
		values = append(values, v)
	}
	return values, true
}

// source is a plain value as it is written.
func (g *given) source() string {
	v, ok := g.flag()
	if !ok || v.Kind == Null {
		return "…"
	}
	if v.Kind == String {
		return fmt.Sprintf("%q", v.Str)
	}
	return v.Text()
}

func (g *given) concurrency() (*int, bool) {
	if g.value.IsNull() {
		return nil, true
	}
	n, ok := g.whole()
	if ok && (n < 1 || n > 1<<20) {
		g.wrong("%d is no concurrency. Write a whole number of at least 1, or null for unlimited.", n)
		return nil, false
	}
	m := int(n)
	return &m, ok
}

func (g *given) gpu() (string, bool) {
	if g.value.IsNull() {
		g.wrongType("GPU numbers")
		return "", false
	}
	if g.is(cty.String) {
		s := g.value.AsString()
		if s == "" || strings.ContainsAny(s, ", \t\n\x00\"'=") {
			g.wrong("%q is no GPU. Write one number or UUID for each GPU.", s)
			return "", false
		}
		return s, true
	}
	n, ok := g.whole()
	if ok && (n < 0 || n > 1023) {
		g.wrong("%d is no GPU number. GPUs are counted from 0.", n)
		return "", false
	}
	return strconv.FormatInt(n, 10), ok
}
