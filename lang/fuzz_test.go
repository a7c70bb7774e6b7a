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

// seedFiles adds the text of every file of the archives.
func seedFiles(f *testing.F, add func(text string), folders ...string) {
	f.Helper()
	for _, folder := range folders {
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
				if isSource(x.Name) {
					add(string(x.Data))
				}
			}
		}
	}
}

// FuzzLoad feeds bytes to the loader as every kind of file, in both syntaxes.
// Nothing may panic or take long, and a result is there or an error is.
func FuzzLoad(f *testing.F) {
	seedFiles(f, func(s string) { f.Add(s) }, "good", "bad", "definitions")
	f.Fuzz(func(t *testing.T, text string) {
		if plainAndShallow([]byte(text)) && !shallowTokens(source{mainFile, []byte(text)}, &problems{}) {
			t.Error("a file that nests too deeply passes for a plain one")
		}
		for _, name := range []string{mainFile, "x" + definitionSuffix, "x" + variablesSuffix, "x" + campaignSuffix + jsonSuffix, "x" + definitionSuffix + jsonSuffix} {
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
	})
}

// FuzzFormat formats files: a second time changes nothing, no line is added or
// lost, and the campaign that is loaded is the same, and so are its manifests.
func FuzzFormat(f *testing.F) {
	seedFiles(f, func(s string) { f.Add(s) }, "good", "bad", "definitions")
	f.Fuzz(func(t *testing.T, text string) {
		once, diags := Format(mainFile, []byte(text))
		if diags.HasErrors() {
			return
		}
		if twice, diags := Format(mainFile, once); diags.HasErrors() || string(twice) != string(once) {
			t.Errorf("formatting twice: %v\n%q\n%q", diags, once, twice)
		}
		if a, b := strings.Count(text, "\n"), strings.Count(string(once), "\n"); a != b {
			t.Errorf("%d lines became %d", a, b)
		}
		before, told := loadText(mainFile, text)
		after, toldAfter := loadText(mainFile, string(once))
		if (before == nil) != (after == nil) {
			t.Fatalf("loads before: %t, after: %t\n%s\n%s", before != nil, after != nil, told.Text(false), toldAfter.Text(false))
		}
		if before != nil && dump(before) != dump(after) {
			t.Errorf("the campaign changed:\n%s\n%s", dump(before), dump(after))
		}
	})
}

// FuzzPredicate evaluates conditions over facts. Nothing may panic; what is no
// condition is refused when it is read; an evaluation is a function of its
// facts, and an error is never a yes.
func FuzzPredicate(f *testing.F) {
	for _, c := range []string{
		"loop.gpu_hours > 40", "round.gap[\"chat\"] <= round.threshold && !round.smoke", "round.gap.chat < 0 || round.fair",
		"max(round.worst_gap, 0.01) == 0.01", "loop.elapsed > duration(\"2h\")", "loop.base_commit == \"abc\"",
		"round.index % 2 == 0 ? round.stable : round.fair", "length([for k, v in round.gap : k if v > 0]) > 0", "round.weak_streak / 0 > 1",
	} {
		f.Add(c, 0.5, int64(3), true)
	}
	f.Fuzz(func(t *testing.T, text string, number float64, whole int64, yes bool) {
		list, diags := Stops("fuzz.hcl", []byte("stop \"x\" {\n  when = "+text+"\n  reached = false\n}\n"))
		if diags.HasErrors() {
			return
		}
		facts := map[string]any{}
		for _, x := range Facts() {
			facts[x.Name] = map[string]any{"number": number, "bool": yes, "text": text, byScenario: map[string]float64{"chat": number, "b": -1}}[x.Type]
		}
		facts["round.index"] = whole
		for _, s := range list {
			got, seen, err := s.When.Eval(facts)
			again, seenAgain, errAgain := s.When.Eval(facts)
			if got != again || seen != seenAgain || (err == nil) != (errAgain == nil) {
				t.Errorf("%s: %t %q %v, then %t %q %v", text, got, seen, err, again, seenAgain, errAgain)
			}
			if err != nil && got {
				t.Errorf("%s: yes beside the error %v", text, err)
			}
			if _, _, err := s.When.Eval(nil); err == nil {
				t.Errorf("%s: holds or not without a single fact", text)
			}
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
	inJSON := map[string]string{
		"json_lists":     strings.Repeat("[", 200_000),
		"json_objects":   strings.Repeat(`{"a":`, 100_000),
		"json_one_line":  `{"locals": {"a": [` + strings.Repeat("1,", 400_000) + `1]}}`,
		"json_keys":      `{"scenario": {` + strings.Repeat(`"a": {"a": {}},`, 60_000) + `"b": {}}}`,
		"json_template":  `{"locals": {"a": "${` + strings.Repeat("(", 100_000) + `"}}`,
		"json_templates": `{"locals": {"a": [` + strings.Repeat(`"${((((((((((1))))))))))}",`, 30_000) + `1]}}`,
		"json_number":    `{"locals": {"a": 1e999999999, "b": -1e-999999999}}`,
		"json_blocks":    `{"gpus": ` + strings.Repeat("[", 90) + strings.Repeat("]", 90) + `}`,
		"json_too_large": `{"locals": {"a": "` + strings.Repeat("x", maxFile) + `"}}`,
	}
	limit := 20 * time.Second // "bounded": the quick ones take milliseconds, a crowded machine is slow
	if raceDetector {
		limit *= 10
		inJSON = nil
	}
	for name, text := range inJSON {
		inputs[name] = text
	}
	for name, text := range inputs {
		t.Run(name, func(t *testing.T) {
			dir, file := t.TempDir(), mainFile
			if strings.HasPrefix(name, "json_") {
				file += jsonSuffix
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			c, diags := Load(Input{Dir: dir, Definitions: builtins})
			if c != nil || !diags.HasErrors() {
				t.Error("it loaded")
			}
			if took := time.Since(begin); took > limit {
				t.Errorf("took %v", took)
			}
			if n := len(diags.Text(false)); n > 200_000 {
				t.Errorf("%d bytes of diagnostics", n)
			}
		})
	}
}

// manyBlocks is a campaign of n scenario blocks beside the few that it needs.
func manyBlocks(n int) string {
	var b strings.Builder
	b.WriteString("campaign \"x\" {\n target = \"openai\"\n compare = []\n smoke = true\n}\nmodel \"m\" {\n vocab = [0, 9]\n}\n" +
		"framework \"openai\" {\n url = [\"http://h:1\"]\n}\nlocals {\n n = 8\n}\n")
	for i := range n {
		fmt.Fprintf(&b, "scenario \"s%d\" {\n  input_len = local.n\n  output_len = 4\n}\n", i)
	}
	return b.String()
}

// BenchmarkLoad loads campaigns of 1,000 and 10,000 blocks. The numbers of a
// machine stand in docs/editor.md; what is asserted is only how they grow.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		text := manyBlocks(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if c, diags := loadText(mainFile, text); c == nil {
					b.Fatal(diags.Text(false))
				}
			}
		})
	}
}

// TestManyBlocks loads campaigns of many blocks and checks that time grows in
// step with them: ten times the blocks, at most thirty times the time.
func TestManyBlocks(t *testing.T) {
	load := func(n int) time.Duration {
		text := manyBlocks(n)
		begin := time.Now()
		c, diags := loadText(mainFile, text)
		took := time.Since(begin)
		if c == nil || len(c.Load.Scenarios) != n {
			t.Fatal(diags.Text(false))
		}
		return took
	}
	load(10)
	const tries = 5 // a busy machine makes one of them long, and not each
	for try := range tries {
		small, large := load(1000), load(10_000)
		t.Logf("1,000 blocks %v, 10,000 blocks %v", small, large)
		if large <= 30*max(small, 5*time.Millisecond) {
			return
		}
		if try == tries-1 {
			t.Errorf("1,000 blocks took %v and 10,000 %v", small, large)
		}
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
