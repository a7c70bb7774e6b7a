package harness

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// input is one argument of an operator.
type input struct {
	op            string
	at            int
	typ           string
	dims, strides json.RawMessage
	concrete      string
}

// python is the argument as Python text, a remark on what was assumed, or
// what is missing.
func (in input) python() (arg, note, missing string) {
	switch {
	case in.typ == "" && in.concrete == "":
		return "None", "", ""
	case in.typ == "Scalar" || in.typ == "ScalarList" || in.typ == "":
		v, ok := literal(in.concrete)
		if !ok {
			return "", "", fmt.Sprintf("the value of this %s is %q, no number, truth value or list of them; profile with record_shapes in a torch that records values", orNone(in.typ), in.concrete)
		}
		return v, "", ""
	case in.typ == "TensorList" || in.typ == "GenericList":
		return "", "", "it is a list of tensors, of which a trace records no types; write the harness by hand"
	}
	dtype := dtypes[in.typ]
	if dtype == "" {
		return "", "", fmt.Sprintf("nothing is known of the type %q", in.typ)
	}
	shape, ok := sizes(in.dims)
	if !ok {
		return "", "", fmt.Sprintf("its dimensions are %s", in.dims)
	}
	whole := strings.HasPrefix(dtype, "int") || dtype == "uint8"
	if len(shape) == 0 {
		return fmt.Sprintf("number(torch.%s)", dtype), "a number, or a tensor of no dimension, whose value no trace records; taken as 1", ""
	}
	if whole && slices.ContainsFunc(byValue, func(w string) bool { return strings.Contains(strings.ToLower(in.op), w) }) {
		return "", "", fmt.Sprintf("the values of this %s tensor decide the work, and a trace records none; write the harness by hand with those of a real run", in.typ)
	}
	stride, laid := sizes(in.strides)
	switch {
	case len(in.strides) == 0:
		stride, note = contiguous(shape), "its layout is not recorded; taken as contiguous"
	case !laid || len(stride) != len(shape):
		return "", "", fmt.Sprintf("its strides are %s for dimensions %s", in.strides, in.dims)
	}
	if n, ok := extent(shape, stride); !ok {
		return "", "", fmt.Sprintf("it would take %s elements", n)
	}
	return fmt.Sprintf("tensor(%s, %s, torch.%s)", tuple(shape), tuple(stride), dtype), note, ""
}

func orNone(typ string) string {
	if typ == "" {
		return "untyped input"
	}
	return typ
}

var (
	number  = lazyregexp.New(`^-?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?$`)
	numbers = lazyregexp.New(`^\[(\s*-?[0-9]+(\.[0-9]*)?(e[-+]?[0-9]+)?\s*(,\s*-?[0-9]+(\.[0-9]*)?(e[-+]?[0-9]+)?\s*)*)?\]$`)
)

// literal is a recorded value as Python text. Only what these forms hold is
// taken: the text of a trace never becomes code.
func literal(s string) (string, bool) {
	s = strings.TrimSpace(s)
	switch {
	case len(s) > 4096:
		return "", false
	case s == "True", s == "False":
		return s, true
	case s == "inf", s == "-inf", s == "nan":
		return fmt.Sprintf("float(%q)", s), true
	case number.MatchString(s), numbers.MatchString(s):
		return decimal(s), true
	}
	return "", false
}

// decimal drops zeros before a whole number, which Python does not take.
func decimal(s string) string {
	if t := strings.TrimLeft(strings.TrimPrefix(s, "-"), "0"); t != s && t != "" && digits(t) {
		if strings.HasPrefix(s, "-") {
			return "-" + t
		}
		return t
	}
	return s
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// sizes reads a list of whole numbers that are not negative.
func sizes(b json.RawMessage) ([]int64, bool) {
	var list []int64
	if len(b) == 0 || json.Unmarshal(b, &list) != nil || list == nil {
		return nil, false
	}
	return list, !slices.ContainsFunc(list, func(n int64) bool { return n < 0 })
}

func contiguous(shape []int64) []int64 {
	out := make([]int64, len(shape))
	step := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		out[i] = step
		if shape[i] > 0 && step <= maxElements {
			step *= shape[i]
		}
	}
	return out
}

// maxElements bounds what a script allocates: 64 Gi elements are more than any
// GPU holds.
const maxElements = 64 << 30

// extent is how many elements a layout spans, and whether that can be.
func extent(shape, stride []int64) (string, bool) {
	n := float64(1)
	for i := range shape {
		if shape[i] == 0 {
			return "0", true
		}
		n += float64(shape[i]-1) * float64(stride[i])
	}
	return strconv.FormatFloat(n, 'g', -1, 64), n <= maxElements
}

func tuple(list []int64) string {
	var s strings.Builder
	s.WriteByte('(')
	for _, n := range list {
		fmt.Fprintf(&s, "%d, ", n)
	}
	return strings.TrimSuffix(s.String(), " ") + ")"
}
