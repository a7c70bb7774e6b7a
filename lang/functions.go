package lang

import (
	"math/big"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// Function is one row of the list of functions. The list is fixed and short:
// none reads the outside, none can make much from little.
type Function struct {
	Name    string
	Usage   string
	Doc     string
	Example string // an expression …
	Gives   string // … and what it gives, as an expression
	numbers bool   // all arguments are numbers
	impl    function.Function
}

// Functions is the list, in display order.
func Functions() []Function { return functions }

var functions = []Function{
	{"min", "min(numbers...)", "The smallest number.", `min(64, 8)`, `8`, true, stdlib.MinFunc},
	{"max", "max(numbers...)", "The largest number.", `max(64, 8)`, `64`, true, stdlib.MaxFunc},
	{"abs", "abs(number)", "The number without its sign.", `abs(-3)`, `3`, true, stdlib.AbsoluteFunc},
	{"ceil", "ceil(number)", "Rounded up to a whole number.", `ceil(2.1)`, `3`, true, stdlib.CeilFunc},
	{"floor", "floor(number)", "Rounded down to a whole number.", `floor(2.9)`, `2`, true, stdlib.FloorFunc},
	{"tonumber", "tonumber(text)", "The number that a text writes.", `tonumber("80")`, `80`, false, toNumber},
	{"tostring", "tostring(value)", "A number or boolean as text.", `tostring(80)`, `"80"`, false, toString},
	{"lower", "lower(text)", "In lower case.", `lower("Qwen3")`, `"qwen3"`, false, stdlib.LowerFunc},
	{"upper", "upper(text)", "In upper case.", `upper("fp8")`, `"FP8"`, false, stdlib.UpperFunc},
	{"trimspace", "trimspace(text)", "Without white space at both ends.", `trimspace(" a ")`, `"a"`, false, stdlib.TrimSpaceFunc},
	{"split", "split(separator, text)", "The parts of a text.", `split(",", "a,b")`, `["a", "b"]`, false, stdlib.SplitFunc},
	{"join", "join(separator, list)", "The parts as one text.", `join("-", ["a", "b"])`, `"a-b"`, false, stdlib.JoinFunc},
	{"length", "length(collection)", "How many elements a list, map or object has.", `length([1, 2])`, `2`, false, stdlib.LengthFunc},
	{"concat", "concat(lists...)", "One list after the other.", `concat([1], [2])`, `[1, 2]`, false, stdlib.ConcatFunc},
	{"merge", "merge(objects...)", "All attributes; of equal names the last one.", `merge({a = 1}, {a = 2})`, `{a = 2}`, false, stdlib.MergeFunc},
	{"keys", "keys(object)", "The names, sorted.", `keys({b = 1, a = 2})`, `["a", "b"]`, false, stdlib.KeysFunc},
	{"values", "values(object)", "The values, in order of their names.", `values({b = 1, a = 2})`, `[2, 1]`, false, stdlib.ValuesFunc},
	{"contains", "contains(list, value)", "Whether the list has the value.", `contains([1, 2], 2)`, `true`, false, stdlib.ContainsFunc},
	{"jsonencode", "jsonencode(value)", "The value as JSON text, for flags that take JSON.", `jsonencode({method = "ngram"})`, `"{\"method\":\"ngram\"}"`, false, stdlib.JSONEncodeFunc},
	{"duration", "duration(text)", "A duration with its unit, in seconds.", `duration("2h")`, `7200`, false, seconds},
	{"bytes", "bytes(text)", "An amount of memory with its unit, in bytes.", `bytes("16k")`, `16384`, false, byteCount},
}

// functionTable is made at first use: there is no work at program start.
var functionTable = sync.OnceValue(func() map[string]function.Function {
	table := map[string]function.Function{}
	for _, f := range functions {
		table[f.Name] = f.impl
	}
	return table
})

func functionNamed(name string) (Function, bool) {
	for _, f := range functions {
		if f.Name == name {
			return f, true
		}
	}
	return Function{}, false
}

func functionHint(name string) string {
	names := make([]string, len(functions))
	for i, f := range functions {
		names[i] = f.Name
	}
	if hint := didYouMean(name, names); hint != "" {
		return hint
	}
	return "The functions are " + strings.Join(names, ", ") + "."
}

func textFunction(result cty.Type, f func(string) (cty.Value, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "text", Type: cty.DynamicPseudoType}},
		Type:   function.StaticReturnType(result),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if args[0].Type() != cty.String {
				return cty.DynamicVal, function.NewArgErrorf(0, "a text is needed; write it in quotes")
			}
			v, err := f(args[0].AsString())
			if err != nil {
				return cty.DynamicVal, function.NewArgError(0, err)
			}
			return v, nil
		},
	})
}

var (
	toNumber = textFunction(cty.Number, func(s string) (cty.Value, error) {
		v, err := cty.ParseNumberVal(s)
		if err == nil && !sane(v) {
			return v, function.NewArgErrorf(0, "the number has more than 300 digits")
		}
		return v, err
	})
	toString = function.New(&function.Spec{
		Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			switch v := args[0]; v.Type() {
			case cty.String:
				return v, nil
			case cty.Bool:
				if v.True() {
					return cty.StringVal("true"), nil
				}
				return cty.StringVal("false"), nil
			case cty.Number:
				return cty.StringVal(v.AsBigFloat().Text('f', -1)), nil
			}
			return cty.DynamicVal, function.NewArgErrorf(0, "a text, number or boolean is needed")
		},
	})
	seconds = textFunction(cty.Number, func(s string) (cty.Value, error) {
		d, err := parseDuration(s)
		return cty.NumberVal(new(big.Float).Quo(big.NewFloat(float64(d.Milliseconds())), big.NewFloat(1000))), err
	})
	byteCount = textFunction(cty.Number, func(s string) (cty.Value, error) {
		n, err := parseBytes(s)
		return cty.NumberIntVal(n), err
	})
)
