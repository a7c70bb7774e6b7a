// Package bounds says how fast a kernel could be: floating-point operations
// and bytes from the shapes of the operator that launched it, the rates it
// reached, and the share of the product's peak. Unknown shapes give no number
// but a reason. It is a pure function of text and numbers.
package bounds

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Work is what an operator had to do at least: every operand is moved once.
type Work struct {
	FLOPs float64
	Bytes float64
	DType string // of the main operand: bf16, fp16, fp32, fp8, int8
	Shape string // "2048×4096 · 4096×12288"
	// Upper says that FLOPs is an upper bound: the mask of the attention is not
	// in the shapes.
	Upper bool
}

// Add sums work of several launches; the shape stays only if it is one shape.
func (w Work) Add(o Work) Work {
	if w.Bytes == 0 && w.FLOPs == 0 {
		return o
	}
	if w.Shape != o.Shape && w.Shape != "several shapes" {
		w.Shape = "several shapes"
	}
	if w.DType != o.DType {
		w.DType = "mixed"
	}
	w.FLOPs += o.FLOPs
	w.Bytes += o.Bytes
	w.Upper = w.Upper || o.Upper
	return w
}

// Of is the work of one operator call, or the reason why it is unknown. Dims
// and types are the profiler's text of "Input Dims" and "Input type".
func Of(op, dims, types string) (Work, string) {
	w, why := workOf(op, dims, types)
	// No device moves this much; such a shape is damage.
	if why == "" && !(w.FLOPs >= 0 && w.FLOPs < 1e24 && w.Bytes > 0 && w.Bytes < 1e18) {
		return Work{}, "the shapes are out of range"
	}
	return w, why
}

func workOf(op, dims, types string) (Work, string) {
	if op == "" {
		return Work{}, "no operator is known for the launch"
	}
	if dims == "" {
		return Work{}, "shapes were not recorded"
	}
	shapes := parseShapes(dims)
	dtype := dtypeOf(types)
	size, ok := sizes[dtype]
	if !ok {
		return Work{}, "data type is not known"
	}
	name := op[strings.LastIndexByte(op, ':')+1:]
	switch name {
	case "mm", "_scaled_mm", "matmul", "linear", "addmm", "bmm", "baddbmm":
		return product(name, shapes, size, dtype)
	case "_grouped_mm", "_scaled_grouped_mm":
		return grouped(shapes, size, dtype)
	case "rms_norm", "rmsnorm", "layer_norm", "native_layer_norm", "fused_add_rms_norm", "add_rmsnorm", "_fused_rms_norm":
		return norm(name, shapes, size, dtype)
	}
	if strings.Contains(name, "attention") {
		return attention(name, shapes, size, dtype)
	}
	return Work{}, "no formula for " + op
}

var sizes = map[string]float64{"bf16": 2, "fp16": 2, "fp32": 4, "fp8": 1, "int8": 1}

func product(name string, shapes [][]float64, size float64, dtype string) (Work, string) {
	if name == "addmm" || name == "baddbmm" {
		if len(shapes) < 3 {
			return Work{}, "operands are missing in the shapes"
		}
		shapes = shapes[1:]
	}
	if len(shapes) < 2 || len(shapes[0]) < 2 || len(shapes[1]) < 2 {
		return Work{}, "operands are no matrices"
	}
	a, b := shapes[0], shapes[1]
	batch := 1.0
	if len(b) == 3 {
		batch, b = b[0], b[1:]
		a = a[1:]
	}
	k := a[len(a)-1]
	m := elements(a) / max(k, 1)
	n := b[1]
	if name == "linear" { // the weight is stored transposed
		n = b[0]
		b = []float64{b[1], b[0]}
	}
	if len(a) < 2 || b[0] != k {
		return Work{}, "operands do not fit each other"
	}
	return Work{
		FLOPs: 2 * batch * m * n * k,
		Bytes: batch * size * (m*k + k*n + m*n),
		DType: dtype,
		Shape: fmt.Sprintf("%s · %s", text(shapes[0]), text(shapes[1])),
	}, ""
}

// grouped counts every expert's weights: which experts got tokens is not in
// the shapes.
func grouped(shapes [][]float64, size float64, dtype string) (Work, string) {
	if len(shapes) < 2 || len(shapes[0]) != 2 || len(shapes[1]) != 3 {
		return Work{}, "operands are no grouped matrices"
	}
	tokens, k := shapes[0][0], shapes[0][1]
	n := shapes[1][2]
	if shapes[1][1] != k {
		return Work{}, "operands do not fit each other"
	}
	return Work{
		FLOPs: 2 * tokens * k * n,
		Bytes: size * (tokens*k + elements(shapes[1]) + tokens*n),
		DType: dtype,
		Shape: fmt.Sprintf("%s · %s", text(shapes[0]), text(shapes[1])),
	}, ""
}

// attention is for queries, keys and values of [batch, heads, length, width];
// the operators below the dispatcher have heads and length exchanged.
func attention(name string, shapes [][]float64, size float64, dtype string) (Work, string) {
	if len(shapes) < 3 || len(shapes[0]) != 4 || len(shapes[1]) != 4 || len(shapes[2]) != 4 {
		return Work{}, "sequence lengths are not in the shapes"
	}
	q, k, v := shapes[0], shapes[1], shapes[2]
	heads, length, keys := q[1], q[2], k[2]
	if name == "_flash_attention_forward" || name == "_efficient_attention_forward" {
		heads, length, keys = q[2], q[1], k[1]
	}
	return Work{
		FLOPs: 2 * q[0] * heads * length * keys * (q[3] + v[3]),
		Bytes: size * (elements(q) + elements(k) + elements(v) + q[0]*heads*length*v[3]),
		DType: dtype,
		Shape: fmt.Sprintf("q %s, k %s", text(q), text(k)),
		Upper: length > 1,
	}, ""
}

func norm(name string, shapes [][]float64, size float64, dtype string) (Work, string) {
	if len(shapes) < 1 || len(shapes[0]) < 2 {
		return Work{}, "the input is no matrix"
	}
	n := elements(shapes[0])
	moves := 2.0
	if strings.HasPrefix(name, "fused_add") || strings.HasPrefix(name, "add_") {
		moves = 4 // the residual is read and written too
	}
	return Work{FLOPs: 4 * n, Bytes: moves * size * n, DType: dtype, Shape: text(shapes[0])}, ""
}

// parseShapes keeps the tensors of a list; scalars and lists of tensors become
// nil, so that places stay.
func parseShapes(dims string) [][]float64 {
	var raw []json.RawMessage
	if json.Unmarshal([]byte(dims), &raw) != nil {
		return nil
	}
	out := make([][]float64, len(raw))
	for i, r := range raw {
		if json.Unmarshal(r, &out[i]) != nil {
			out[i] = nil
		}
	}
	return out
}

func dtypeOf(types string) string {
	var list []any
	if json.Unmarshal([]byte(types), &list) != nil || len(list) == 0 {
		return ""
	}
	first, _ := list[0].(string)
	switch {
	case strings.Contains(first, "BFloat16"):
		return "bf16"
	case strings.Contains(first, "Float8"):
		return "fp8"
	case strings.Contains(first, "Half"):
		return "fp16"
	case first == "float":
		return "fp32"
	case first == "signed char", first == "char", first == "unsigned char":
		return "int8"
	}
	return ""
}

func elements(shape []float64) float64 {
	n := 1.0
	for _, d := range shape {
		n *= d
	}
	return n
}

func text(shape []float64) string {
	parts := make([]string, len(shape))
	for i, d := range shape {
		parts[i] = fmt.Sprintf("%.0f", d)
	}
	return strings.Join(parts, "×")
}
