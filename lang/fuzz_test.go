package lang

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// loadText compiles one file without touching a disk.
func loadText(name, text string) (*Campaign, Diagnostics) {
	in := Input{Dir: "/nowhere", Definitions: builtins}
	sources := []source{{mainFile, []byte("")}, {name, []byte(text)}}
	if name == mainFile {
		sources = sources[1:]
	}
	return compile(in, sources, &problems{})
}

// FuzzLoad feeds bytes to the loader as a campaign, as a definition and as a
// file of variables. Nothing may panic, and a result is there or an error is.
func FuzzLoad(f *testing.F) {
	for _, folder := range []string{"good", "bad", "definitions"} {
		files, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
		if err != nil || len(files) == 0 {
			f.Fatal(err, files)
		}
		for _, path := range files {
			a, err := txtar.ParseFile(path)
			if err != nil {
				f.Fatal(err)
			}
			for _, x := range a.Files {
				if strings.HasSuffix(x.Name, ".hcl") || strings.HasSuffix(x.Name, variablesSuffix) {
					f.Add(string(x.Data))
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{mainFile, "x" + definitionSuffix, "x" + variablesSuffix} {
			begin := time.Now()
			c, diags := loadText(name, text)
			if (c == nil) != diags.HasErrors() {
				t.Errorf("%s: campaign %t, diagnostics:\n%s", name, c != nil, diags.Text(false))
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("%s: took %v", name, took)
			}
			_ = diags.Text(true)
		}
		once, diags := Format(mainFile, []byte(text))
		if diags.HasErrors() {
			return
		}
		if twice, diags := Format(mainFile, once); diags.HasErrors() || string(twice) != string(once) {
			t.Errorf("formatting twice: %v\n%q\n%q", diags, once, twice)
		}
	})
}

// TestHostileInputs loads files that are made to exhaust a loader: each is
// refused within seconds and with few words.
func TestHostileInputs(t *testing.T) {
	deep := func(open, middle, shut string, n int) string {
		return "locals {\n a = " + strings.Repeat(open, n) + middle + strings.Repeat(shut, n) + "\n}\n"
	}
	var chain, squares strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&chain, "a%d = local.a%d\n", i, i+1)
		fmt.Fprintf(&squares, "s%d = local.s%d * local.s%d\n", i+1, i, i)
	}
	inputs := map[string]string{
		"parentheses":       deep("(", "1", ")", 200_000),
		"small_parentheses": deep("(", "1", ")", 16_000),
		"hidden_by_comment": deep("( /*)*/", "1", ")", 60_000),
		"templates":         deep(`"${`, "1", `}"`, 50_000),
		"unary":             deep("!", "true", "", 200_000),
		"small_unary":       deep("-", "1", "", 30_000),
		"sum":               deep("1+", "1", "", 100_000),
		"conditionals":      deep("true?1:", "1", "", 50_000),
		"splats":            deep("", "[1]", "[*]", 80_000),
		"lists":             deep("[", "", "]", 100_000),
		"blocks":            strings.Repeat("a {\n", 50_000),
		"power":             "locals {\n s0 = 1e300\n" + squares.String() + " x = \"${local.s3000}\"\n}\n",
		"number_in_text":    "locals {\n a = \"${\"1e${\"999999999\"}\" * 1}\"\n b = tonumber(\"1e999999999\")\n c = \"${1e999999999}\"\n d = \"${min(\"1e999999999\", \"2e999999999\")}\"\n}\n",
		"chain":             "locals {\n" + chain.String() + "}\n",
		"many_locals":       "locals {\n" + strings.Repeat("a = 1\n", 20_000) + "}\n",
		"large_local":       "locals {\n a = [" + strings.Repeat("1,", 100_000) + "]\n" + strings.Repeat("b = local.a\n", 1000) + "}\n",
		"join":              "locals {\n a = \"" + strings.Repeat("x", 1000) + "\"\n b = join(local.a, [for c in [" + strings.Repeat("1,", 900) + "] : local.a])\n c = join(local.b, [local.b, local.b, local.b, local.b, local.b, local.b])\n}\n",
		"for_each":          "scenario \"s\" {\n for_each = [" + strings.Repeat("1,", 100_000) + "]\n input_len = 1\n output_len = 1\n}\n",
		"garbage":           strings.Repeat("}{\x00\xff\"${", 20_000),
		"too_large":         strings.Repeat("#\n", maxFile),
	}
	for name, text := range inputs {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, mainFile), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			c, diags := Load(Input{Dir: dir, Definitions: builtins})
			if c != nil || !diags.HasErrors() {
				t.Error("it loaded")
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			if n := len(diags.Text(false)); n > 200_000 {
				t.Errorf("%d bytes of diagnostics", n)
			}
		})
	}
}

// TestManyBlocks loads campaigns of many blocks and checks that time grows in
// step with them: ten times the blocks, at most thirty times the time.
func TestManyBlocks(t *testing.T) {
	load := func(n int) time.Duration {
		var b strings.Builder
		b.WriteString("campaign \"x\" {\n target = \"openai\"\n compare = []\n smoke = true\n}\nmodel \"m\" {\n vocab = [0, 9]\n}\n" +
			"framework \"openai\" {\n url = [\"http://h:1\"]\n}\nlocals {\n n = 8\n}\n")
		for i := range n {
			fmt.Fprintf(&b, "scenario \"s%d\" {\n  input_len = local.n\n  output_len = 4\n}\n", i)
		}
		begin := time.Now()
		c, diags := loadText(mainFile, b.String())
		took := time.Since(begin)
		if c == nil || len(c.Load.Scenarios) != n {
			t.Fatal(diags.Text(false))
		}
		return took
	}
	load(10)
	small, large := load(1000), load(10_000)
	t.Logf("1,000 blocks %v, 10,000 blocks %v", small, large)
	if large > 30*max(small, 5*time.Millisecond) {
		t.Errorf("1,000 blocks took %v and 10,000 %v", small, large)
	}
}

// TestStructsStaySmall keeps the contract's structs at twelve fields.
func TestStructsStaySmall(t *testing.T) {
	for _, v := range []any{Model{}, GPUs{}, Scenario{}, Framework{}, Search{}, Executor{}, Loop{}, Definition{}, Server{}, FlagRules{}, scope{}, decoder{}, Attr{}} {
		if typ := reflect.TypeOf(v); typ.NumField() > 12 {
			t.Errorf("%s has %d fields", typ.Name(), typ.NumField())
		}
	}
}
