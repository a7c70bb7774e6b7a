package harness

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// As PyTorch 2.11 recorded them on an H200 (a loop in eager mode).
var (
	mm        = Op{"aten::mm", `[[4, 1024], [1024, 3072]]`, `[[1024, 1], [1, 1024]]`, `["c10::BFloat16", "c10::BFloat16"]`, `["", ""]`}
	attention = Op{"aten::_cudnn_attention_forward", `[[4,16,1,64],[4,8,2049,64],[4,8,2049,64],[],[],[],[],[],[],[],[],[],[]]`,
		`[[1024,64,64,1],[1049088,131136,64,1],[1049088,131136,64,1],[],[],[],[],[],[],[],[],[],[]]`,
		`["c10::BFloat16","c10::BFloat16","c10::BFloat16","","","","Scalar","Scalar","Scalar","Scalar","Scalar","Scalar","Scalar"]`,
		`["","","","","","","1","2049","False","0.","False","False","0.125"]`}
	mul = Op{"aten::mul", `[[1, 1, 64], []]`, `[[64, 64, 1], []]`, `["float", "double"]`, `["", ""]`}
)

func written(t *testing.T, o Op) string {
	t.Helper()
	b, err := Script(o, About{Trace: "t.json", SHA256: "00", Kernel: "k<1, 2>", Stage: "decode", Launches: 7})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestScript(t *testing.T) {
	for _, c := range []struct {
		op   Op
		want []string
	}{
		{mm, []string{"# operator  aten::mm\n", "# kernel    k<1, 2>\n", "# launches  7 in the stage decode\n",
			"    tensor((4, 1024,), (1024, 1,), torch.bfloat16),\n    tensor((1024, 3072,), (1, 1024,), torch.bfloat16),\n]", `overload("aten::mm", args)`}},
		{attention, []string{"tensor((4, 8, 2049, 64,), (1049088, 131136, 64, 1,), torch.bfloat16)", "    None,\n    None,\n    None,\n    1,\n    2049,\n    False,\n    0.,\n"}},
		{mul, []string{"number(torch.float64)", "# assumed   input 1: a number"}},
		{Op{Name: "_C::rms_norm", Dims: `[[8,64],[8,64],[64],[]]`, Types: `["float","float","float","Scalar"]`, Concrete: `["","","","1e-06"]`},
			[]string{"import vllm._C", "its layout is not recorded; taken as contiguous", "tensor((8, 64,), (64, 1,), torch.float32)", "    1e-06,\n"}},
	} {
		got := written(t, c.op)
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: no %q in\n%s", c.op.Name, w, got)
			}
		}
	}
}

// TestGaps: what a recording does not say is named, and nothing is guessed.
func TestGaps(t *testing.T) {
	for want, op := range map[string]Op{
		`no "Input Dims" of it: profile with record_shapes`: {Name: "aten::mm"},
		`no "Input type"`:                                                        {Name: "aten::mm", Dims: `[[1]]`},
		"equally many":                                                           {Name: "aten::mm", Dims: `[[1],[2]]`, Types: `["float"]`},
		`the value of this Scalar is ""`:                                         {Name: "aten::add", Dims: `[[2],[]]`, Types: `["float","Scalar"]`},
		"values of this long int tensor decide the work":                         {Name: "aten::embedding", Dims: `[[9,4],[3]]`, Types: `["float","long int"]`},
		"input 1: it is a list of tensors":                                       {Name: "aten::cat", Dims: `[[2],[[1],[2]]]`, Types: `["float","TensorList"]`},
		`nothing is known of the type "c10::complex<float>"`:                     {Name: "aten::mm", Dims: `[[2]]`, Types: `["c10::complex<float>"]`},
		"nothing is known of the library that registers vllm::unified_attention": {Name: "vllm::unified_attention", Dims: `[[2]]`, Types: `["float"]`},
		"its strides are [1] for dimensions [2,3]":                               {Name: "aten::relu", Dims: `[[2,3]]`, Strides: `[[1]]`, Types: `["float"]`},
		"its dimensions are [-2]":                                                {Name: "aten::relu", Dims: `[[-2]]`, Types: `["float"]`},
		"its dimensions are null":                                                {Name: "aten::relu", Dims: `[null]`, Types: `["float"]`},
		"it would take":                                                          {Name: "aten::relu", Dims: `[[999999999999, 99999]]`, Types: `["float"]`},
		"cannot be read":                                                         {Name: "aten::relu", Dims: `[[1]`, Types: `["float"]`},
		"no input of it is a tensor":                                             {Name: "aten::arange", Dims: `[[]]`, Types: `["Scalar"]`, Concrete: `["3"]`},
	} {
		_, err := Script(op, About{})
		var gap *Gap
		if !errors.As(err, &gap) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", op.Name, err, want)
		}
	}
}

// TestForeignText: texts of a trace never become code.
func TestForeignText(t *testing.T) {
	evil := "x\nimport os\r\"\"\"\u2028y\x00\\"
	b, err := Script(mm, About{Trace: evil, Kernel: evil, Stage: evil, SHA256: evil})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' || r == '\r' || r == '\u2028' }) {
		if strings.HasPrefix(line, "import os") || strings.HasPrefix(line, "y") {
			t.Errorf("foreign text begins a line: %q", line)
		}
	}
	for _, concrete := range []string{"__import__('os')", "[1, x]", "1;2", "1\n2", "'a'", "0x10", "[[1]]", "[1,]", strings.Repeat("1", 5000)} {
		if v, ok := literal(concrete); ok {
			t.Errorf("%q became %s", concrete, v)
		}
	}
	for given, want := range map[string]string{"007": "7", "-08": "-8", "0": "0", "0.5": "0.5", ".5": ".5", "1e-06": "1e-06", "[1, -2]": "[1, -2]", "[]": "[]", "inf": `float("inf")`, "True": "True"} {
		if got, ok := literal(given); !ok || got != want {
			t.Errorf("%q became %s, %v; want %s", given, got, ok, want)
		}
	}
	for _, name := range []string{"aten::mm\"); x(\"", "aten::", "mm", "aten::a b"} {
		op := mm
		op.Name = name
		if _, err := Script(op, About{}); err == nil {
			t.Errorf("%q has a harness", name)
		}
	}
}

// TestScriptIsPython: Python itself reads it.
func TestScriptIsPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("NOT TESTED: python3 is missing")
	}
	for _, op := range []Op{mm, attention, mul} {
		path := filepath.Join(t.TempDir(), "harness.py")
		if err := os.WriteFile(path, []byte(written(t, op)), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), python, "-c", "import ast, sys; ast.parse(open(sys.argv[1]).read())", path)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", op.Name, err, out)
		}
	}
}

func FuzzScript(f *testing.F) {
	for _, o := range []Op{mm, attention, mul} {
		f.Add(o.Name, o.Dims, o.Strides, o.Types, o.Concrete)
	}
	f.Fuzz(func(t *testing.T, name, dims, strides, types, concrete string) {
		b, err := Script(Op{name, dims, strides, types, concrete}, About{Kernel: name})
		var gap *Gap
		if err != nil && !errors.As(err, &gap) {
			t.Fatal(err)
		}
		if err == nil && strings.Count(string(b), "\nargs = [\n") != 1 {
			t.Fatalf("no list of arguments in\n%s", b)
		}
	})
}
