// Package harness writes the smallest program that launches a kernel again: a
// PyTorch script that calls one operator with the shapes, types and layouts
// that a profiler's trace recorded of it (R165). The script is meant to be
// read, and has a mode that runs it without a GPU.
//
// It knows operators as traces write them and nothing of traces. What a
// recording lacks, or cannot hold, such as the indices in a table, is a Gap: the
// program is then not guessed.
package harness

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
)

// Op is an operator as a trace recorded it. The lists are the JSON texts of
// the event's arguments; "" was not recorded.
type Op struct {
	Name     string // aten::mm
	Dims     string // "Input Dims"
	Strides  string // "Input Strides"
	Types    string // "Input type"
	Concrete string // "Concrete Inputs"
}

// About is said at the head of the script.
type About struct {
	Trace    string // its name
	SHA256   string
	Kernel   string // as the trace names it
	Stage    string
	Launches int
}

// Gap is what the recording does not say and the script needs.
type Gap struct {
	Op      string
	Missing []string
}

func (g *Gap) Error() string {
	return fmt.Sprintf("no harness for %s: %s", g.Op, strings.Join(g.Missing, "; "))
}

//go:embed harness.py.tmpl
var text string

var script = sync.OnceValue(func() *template.Template { return template.Must(template.New("harness").Parse(text)) })

// Script writes the program. The error is a *Gap when the recording is not
// enough.
func Script(o Op, a About) ([]byte, error) {
	args, notes, missing := o.inputs()
	imports, ok := o.imports()
	if !ok {
		missing = append(missing, fmt.Sprintf("nothing is known of the library that registers %s; write the harness by hand and give it with --harness", o.Name))
	}
	if len(missing) > 0 {
		return nil, &Gap{o.Name, missing}
	}
	var out bytes.Buffer
	err := script().Execute(&out, map[string]any{
		"About": oneLine(a), "Op": oneLine(o.Name), "Name": strconv.Quote(o.Name), "Args": args, "Notes": notes, "Imports": imports,
	})
	return out.Bytes(), err
}

// oneLine keeps foreign text inside its comment.
func oneLine[T any](v T) T {
	clean := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' || r == 0x85 {
				return ' '
			}
			return r
		}, strings.ToValidUTF8(s, "?"))
	}
	switch x := any(&v).(type) {
	case *string:
		*x = clean(*x)
	case *About:
		x.Trace, x.SHA256, x.Kernel, x.Stage = clean(x.Trace), clean(x.SHA256), clean(x.Kernel), clean(x.Stage)
	}
	return v
}

// libraries are the modules that register the operators of a name space. Those
// of a server that read its state have no row.
var libraries = map[string]string{
	"aten": "", "_C": "vllm._C", "_C_cache_ops": "vllm._C", "_moe_C": "vllm._moe_C", "sgl_kernel": "sgl_kernel", "quantized": "",
}

func (o Op) imports() (string, bool) {
	space, name, ok := strings.Cut(o.Name, "::")
	if !ok || !identifier(name) {
		return "", false
	}
	module, ok := libraries[space]
	return module, ok
}

func identifier(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}

// dtypes are torch's names of the types that traces write.
var dtypes = map[string]string{
	"float": "float32", "double": "float64", "c10::Half": "float16", "c10::BFloat16": "bfloat16",
	"c10::Float8_e4m3fn": "float8_e4m3fn", "c10::Float8_e5m2": "float8_e5m2",
	"c10::Float8_e4m3fnuz": "float8_e4m3fnuz", "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
	"long int": "int64", "long": "int64", "int": "int32", "short": "int16", "signed char": "int8", "unsigned char": "uint8", "bool": "bool",
}

// byValue are words of operators whose work the values of integer inputs
// decide: which rows are read, which expert computes.
var byValue = []string{"embedding", "index", "gather", "scatter", "attention", "cache", "moe", "topk", "sort", "expert", "paged", "block", "align"}

// inputs are the arguments as Python text, remarks on what was assumed, and
// what is missing.
func (o Op) inputs() (args, notes, missing []string) {
	var dims, strides []json.RawMessage
	var types, concrete []string
	for _, f := range []struct {
		name, text string
		into       any
		need       bool
	}{
		{"Input Dims", o.Dims, &dims, true}, {"Input type", o.Types, &types, true},
		{"Input Strides", o.Strides, &strides, false}, {"Concrete Inputs", o.Concrete, &concrete, false},
	} {
		if f.text == "" {
			if f.need {
				missing = append(missing, fmt.Sprintf("the trace has no %q of it: profile with record_shapes", f.name))
			}
			continue
		}
		if err := json.Unmarshal([]byte(f.text), f.into); err != nil {
			missing = append(missing, fmt.Sprintf("its %q cannot be read: %v", f.name, err))
		}
	}
	if len(missing) > 0 {
		return nil, nil, missing
	}
	if len(dims) != len(types) || strides != nil && len(strides) != len(dims) || concrete != nil && len(concrete) != len(dims) {
		return nil, nil, []string{fmt.Sprintf("it has %d dims, %d types, %d strides and %d concrete inputs, which should be equally many",
			len(dims), len(types), len(strides), len(concrete))}
	}
	if len(dims) > maxInputs {
		return nil, nil, []string{fmt.Sprintf("it has %d inputs; up to %d are written out", len(dims), maxInputs)}
	}
	for i, typ := range types {
		in := input{op: o.Name, at: i, typ: typ, dims: dims[i]}
		if strides != nil {
			in.strides = strides[i]
		}
		if concrete != nil {
			in.concrete = concrete[i]
		}
		arg, note, lacks := in.python()
		if lacks != "" {
			missing = append(missing, fmt.Sprintf("input %d: %s", i, lacks))
		}
		if note != "" {
			notes = append(notes, fmt.Sprintf("input %d: %s", i, note))
		}
		args = append(args, arg)
	}
	if !slices.ContainsFunc(types, func(t string) bool { return dtypes[t] != "" || t == "TensorList" }) {
		missing = append(missing, "no input of it is a tensor")
	}
	return args, notes, missing
}

const maxInputs = 64
