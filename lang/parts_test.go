package lang

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30m": 30 * time.Minute, "1.5h": 90 * time.Minute, "500ms": 500 * time.Millisecond, "30d": 720 * time.Hour,
		"1h30m": 90 * time.Minute, "0s": 0,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("parseDuration(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "30", "m", "30 m", "-3s", "3x", "1h30", "999999999999999d", "200000d200000d", "..s"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("parseDuration(%q) = %v, want an error", text, got)
		}
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]int64{"16g": 16 << 30, "512m": 512 << 20, "1.5k": 1536, "2GiB": 2 << 30, "1tb": 1 << 40} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("parseBytes(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "16", "g", "-1g", "16 g", "16gg", "99999999999999t"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("parseBytes(%q) = %d, want an error", text, got)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"compare", "excluded", "target", "max_p50_ttft_ms"}
	for given, want := range map[string]string{"compair": "compare", "TARGET": "target", "max_p50_tft_ms": "max_p50_ttft_ms", "zzz": "", "": "", "x": "", "tagret": "target", "ocmpare": "compare", "excluedd": "excluded"} {
		if got := nearest(given, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", given, got, want)
		}
	}
}

func TestTextAlignsTheCaret(t *testing.T) {
	d := Diagnostics{{
		Severity: Error, Code: "c", Summary: "S", Detail: "first\n  --copy  this\n" + strings.Repeat("word ", 20),
		Range: Range{File: "f.hcl", Line: 12, Col: 4, EndLine: 12, EndCol: 6}, Snippet: "\té́=xy\x1b[0m",
	}}
	want := "Error: S [c]\n  on f.hcl:12,4\n  12 | \té́=xy\uFFFD[0m\n     | \t  ^^\n" +
		"  first\n    --copy  this\n" +
		"  " + strings.TrimSpace(strings.Repeat("word ", 15)) + "\n  " + strings.TrimSpace(strings.Repeat("word ", 5)) + "\n"
	if diff := cmp.Diff(want, d.Text(false)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if colored := d.Text(true); !strings.Contains(colored, "\x1b[1;31mError: S\x1b[0m") {
		t.Errorf("no colour: %q", colored)
	}
}

func TestDiagnosticsAsJSON(t *testing.T) {
	_, diags := loadFiles(t, &txtar.Archive{Files: []txtar.File{{Name: "campaign.hcl", Data: []byte("speed = 3\n")}}}, Input{})
	b, err := json.Marshal(diags[len(diags)-1])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"severity":"error","code":"unknown_attribute","summary":"Unknown attribute",` +
		`"detail":"There is no attribute \"speed\" at the top of a file. Attributes stand in blocks; values with a name of your own in locals { … }.",` +
		`"range":{"file":"campaign.hcl","line":1,"col":1,"end_line":1,"end_col":6},"snippet":"speed = 3"}`
	if diff := cmp.Diff(want, string(b)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSecretIsNotShown(t *testing.T) {
	for _, secret := range []string{`secrets { env = ["HF_TOKEN=hf_abcdef"] }`, `framework "openai" { url = ["http://u:hf_abcdef@h:1"] }`} {
		_, diags := loadFiles(t, &txtar.Archive{Files: []txtar.File{{Name: "campaign.hcl", Data: []byte(secret + "\n")}}}, Input{})
		found := false
		for _, d := range diags {
			found = found || d.Code == "secret_value"
		}
		if text := diags.Text(true); !found || strings.Contains(text, "hf_abcdef") {
			t.Errorf("found %t in:\n%s", found, text)
		}
	}
}

func TestFormat(t *testing.T) {
	in := "# head\ncampaign \"x\" {\n target=\"vllm\" # why\n    artifacts   = \"runs\"\n}\n"
	want := "# head\ncampaign \"x\" {\n  target    = \"vllm\" # why\n  artifacts = \"runs\"\n}\n"
	got, diags := Format("campaign.hcl", []byte(in))
	if diff := cmp.Diff(want, string(got)); diff != "" || diags.HasErrors() {
		t.Errorf("%v -want +got:\n%s", diags, diff)
	}
	if again, _ := Format("campaign.hcl", got); string(again) != want {
		t.Errorf("formatting twice changes:\n%s", again)
	}
	if got, diags := Format("campaign.hcl", []byte("a = {")); got != nil || !diags.HasErrors() {
		t.Errorf("a broken file is formatted: %q, %v", got, diags)
	}
}

// condition loads a campaign with one stop block and returns its predicate.
func predicateOf(t *testing.T, when string) Predicate {
	t.Helper()
	text := `campaign "x" {
  target = "tinyserve"
  compare = []
  smoke = true
}
locals { limit = 40 }
model "m" { vocab = [0, 9] }
framework "tinyserve" {
  program = "p"
  checkout = "."
  flags = { max_model_len = 9000 }
}
loop "rlcr" {
  max_rounds = 1
  agent "manual" { allowed_paths = ["**"] }
  stop "s" {
    when    = ` + when + `
    reached = false
  }
}
`
	c, diags := loadFiles(t, &txtar.Archive{Files: []txtar.File{{Name: "campaign.hcl", Data: []byte(text)}}}, Input{})
	if c == nil {
		t.Fatal(diags.Text(false))
	}
	return c.Run.Loop.Stops[0].When
}

func TestPredicates(t *testing.T) {
	gap := map[string]float64{"chat": 0.03, "summarization": -0.1}
	tests := []struct {
		when  string
		facts map[string]any
		value bool
		seen  string
		err   string // part of the error
	}{
		{`loop.gpu_hours > local.limit`, map[string]any{"loop.gpu_hours": 40.5}, true, "loop.gpu_hours = 40.5", ""},
		{`loop.gpu_hours > 40`, map[string]any{"loop.gpu_hours": 40}, false, "loop.gpu_hours = 40", ""},
		{`round.worst_gap == 0.1`, map[string]any{"round.worst_gap": 0.1}, true, "round.worst_gap = 0.1", ""},
		{`round.gap["chat"] <= 0.03 && round.stable`, map[string]any{"round.gap": gap, "round.stable": true}, true, `round.gap["chat"] = 0.03, round.stable = true`, ""},
		{`length([for s, g in round.gap : s if g > 0]) == 1`, map[string]any{"round.gap": gap}, true, `round.gap["chat"] = 0.03, round.gap["summarization"] = -0.1`, ""},
		{`loop.elapsed >= duration("2h")`, map[string]any{"loop.elapsed": int64(7200)}, true, "loop.elapsed = 7200", ""},
		{`loop.base_commit == "abc"`, map[string]any{"loop.base_commit": "abd"}, false, `loop.base_commit = "abd"`, ""},
		{`round.fair || round.stable`, map[string]any{"round.fair": true}, false, "round.fair = true", "round.stable is not known"},
		{`round.stable`, map[string]any{"round.stable": nil}, false, "", "round.stable is not known"},
		{`round.worst_gap < 0`, map[string]any{"round.worst_gap": math.NaN()}, false, "", "no number"},
		{`round.gap["chat"] < 0`, map[string]any{"round.gap": map[string]float64{"other": 1}}, false, "", `round.gap["chat"] is not known`},
		{`round.gap["chat"] < 0`, map[string]any{"round.gap": map[string]float64{}}, false, "", "no scenario"},
		{`round.stable`, map[string]any{"round.stable": 3}, false, "round.stable = 3", "not true or false"},
		{`round.stable`, map[string]any{"round.stable": []int{}}, false, "", "type []int"},
	}
	for _, tt := range tests {
		p := predicateOf(t, tt.when)
		if p.Text() != tt.when {
			t.Errorf("Text() = %q, want %q", p.Text(), tt.when)
		}
		value, seen, err := p.Eval(tt.facts)
		if value != tt.value || seen != tt.seen {
			t.Errorf("%s: %t, saw %q; want %t, %q", tt.when, value, seen, tt.value, tt.seen)
		}
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want one with %q", tt.when, err, tt.err)
		}
	}
}

// TestOrderAndCommentsChangeNothing loads a campaign with its blocks turned
// round and comments between them.
func TestOrderAndCommentsChangeNothing(t *testing.T) {
	a, err := txtar.ParseFile(filepath.Join("testdata", "good", "whole_language.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(a.Files[0].Data)
	blocks := strings.Split(strings.TrimSpace(text), "\n}\n")
	var frameworks, rest []string
	for _, b := range blocks {
		b = strings.TrimSuffix(strings.TrimSpace(b), "\n}") + "\n}\n"
		if strings.Contains(b, "\nframework ") || strings.HasPrefix(b, "framework ") || strings.Contains(b, "scenario ") {
			frameworks = append(frameworks, b) // their order is what people see, so it stays
		} else {
			rest = append([]string{"# a comment\n/* another */\n" + b}, rest...)
		}
	}
	turned := strings.Join(append(rest, frameworks...), "\n\n// and one more\n")
	first, diags := loadFiles(t, a, Input{})
	if first == nil {
		t.Fatal(diags.Text(false))
	}
	second, diags := loadFiles(t, &txtar.Archive{Files: []txtar.File{{Name: "campaign.hcl", Data: []byte(turned)}}}, Input{})
	if second == nil {
		t.Fatal(diags.Text(false))
	}
	if first.Frameworks[0].Range == second.Frameworks[0].Range {
		t.Error("nothing was turned round")
	}
	if diff := cmp.Diff(anonymous(first.Dir, dump(first)), anonymous(second.Dir, dump(second))); diff != "" {
		t.Errorf("-first +turned:\n%s", diff)
	}
}

func TestFilesAreKept(t *testing.T) {
	a, err := txtar.ParseFile(filepath.Join("testdata", "good", "model_config.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	c, diags := loadFiles(t, a, Input{})
	if c == nil {
		t.Fatal(diags.Text(false))
	}
	var names []string
	for _, f := range c.Files {
		names = append(names, f.Name)
		if b, err := os.ReadFile(filepath.Join(c.Dir, f.Name)); err != nil || string(b) != string(f.Bytes) {
			t.Errorf("%s: other bytes were kept (%v)", f.Name, err)
		}
	}
	if diff := cmp.Diff([]string{"campaign.hcl", filepath.Join("model", "config.json")}, names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestStopsFile checks what a file of stop blocks may hold.
func TestStopsFile(t *testing.T) {
	for text, want := range map[string]string{
		"stop \"a\" {\n when = round.index > 3\n reached = false\n}": "",
		"x = 1":         cUnknownAttr.id,
		"gate \"a\" {}": cUnknownBlock.id,
		"stop {}":       cLabel.id,
		"stop \"a\" {\n when = round.index > 3\n}":                                                                         cMissing.id,
		"stop \"a\" {\n when = round.gap[\"chat\"] > 0\n reached = false\n}":                                               cUnknownName.id,
		"stop \"a\" {\n when = round.index > var.n\n reached = false\n}":                                                   cUnknownName.id,
		"stop \"a\" {\n when = round.index > 3\n reached = false\n}\nstop \"a\" {\n when = round.fair\n reached = true\n}": cDuplicate.id,
	} {
		list, diags := Stops("stops.hcl", []byte(text))
		switch {
		case want == "" && (len(list) != 1 || len(diags) > 0):
			t.Errorf("%s: %d stops\n%s", text, len(list), diags.Text(false))
		case want != "" && (len(list) > 0 || len(diags) != 1 || diags[0].Code != want):
			t.Errorf("%s: want one problem %s and no stop, got %d\n%s", text, want, len(list), diags.Text(false))
		}
	}
}

// TestManyWarnings loads a campaign with more warnings than are shown: they are
// still no error.
func TestManyWarnings(t *testing.T) {
	text := manyBlocks(1)
	for i := range 2 * maxProblems {
		text += fmt.Sprintf("framework \"f%d\" {\n  use = \"vllm\"\n  program = \"p\"\n}\n", i)
	}
	c, diags := loadText(mainFile, text)
	if last := diags[len(diags)-1]; c == nil || len(diags) != maxProblems+1 || last.Severity != Warning || !strings.Contains(last.Detail, "further problems") {
		t.Errorf("campaign %t, %d diagnostics, the last: %+v", c != nil, len(diags), last)
	}
}

// TestPlainFiles checks which files are known to be shallow without lexing.
func TestPlainFiles(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, manyBlocks(50): true, "a = \"{{{\" # [[[\n// ((((\n": true, "a = \"x\\\"}\"": true,
		strings.Repeat("[", maxNest): false, strings.Repeat("\"", 2) + strings.Repeat("(", maxNest): false, strings.Repeat("!", maxDepth+1): false,
		"a = <<X\nX\n": false, "/* } */": false, "a = \"${b}\"": false, "a = \"\n": false,
	} {
		if got := plainAndShallow([]byte(text)); got != want {
			t.Errorf("%.40q: %t, want %t", text, got, want)
		}
	}
}

// TestSyntaxesAgree compares one campaign in both syntaxes.
func TestSyntaxesAgree(t *testing.T) {
	var dumps []string
	for _, name := range []string{"whole_language", "whole_language_in_json"} {
		a, err := txtar.ParseFile(filepath.Join("testdata", "good", name+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		c, diags := loadFiles(t, a, Input{})
		if c == nil {
			t.Fatal(diags.Text(false))
		}
		dumps = append(dumps, anonymous(c.Dir, dump(c)))
	}
	if diff := cmp.Diff(dumps[0], dumps[1]); diff != "" {
		t.Errorf("-native +JSON:\n%s", diff)
	}
}

// TestTextOfConditions writes one condition in every way.
func TestTextOfConditions(t *testing.T) {
	want := `loop.base_commit == "a b" && round.fair`
	for name, when := range map[string]string{
		"native":   `loop.base_commit   =="a b"&&round.fair`,
		"template": `"${ loop.base_commit == "a b" && round.fair }"`,
	} {
		list, diags := Stops("x.hcl", []byte("stop \"s\" {\n when = "+when+"\n reached = true\n}"))
		if len(list) != 1 || list[0].When.Text() != want {
			t.Errorf("%s: %+v\n%s", name, list, diags.Text(false))
		}
	}
	list, diags := Stops("x.hcl.json", []byte(`{"stop": {"s": {"when": "${loop.base_commit == \"a b\" && round.fair}", "reached": true}}}`))
	if len(list) != 1 || list[0].When.Text() != want {
		t.Errorf("JSON: %+v\n%s", list, diags.Text(false))
	}
}

// TestOverlay lays files over those of a folder, as an editor does.
func TestOverlay(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{mainFile: manyBlocks(1), "more.campaign.hcl": "broken {"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := Input{Dir: dir, Definitions: builtins}
	if c, _ := Load(in); c != nil {
		t.Error("the broken file was not read")
	}
	in.Overlay = map[string][]byte{
		"more.campaign.hcl": []byte("scenario \"more\" {\n  input_len  = 1\n  output_len = 1\n}\n"),
		"new.campaign.hcl":  []byte("scenario \"new\" {\n  input_len  = 1\n  output_len = 1\n}\n"),
		"notes.hcl":         []byte("broken {"), // no file of a campaign
	}
	c, diags := Load(in)
	if c == nil || len(c.Load.Scenarios) != 3 {
		t.Fatalf("%+v\n%s", c, diags.Text(false))
	}
	in.Dir = t.TempDir()
	in.Overlay = map[string][]byte{mainFile: []byte(manyBlocks(2))}
	if c, diags := Load(in); c == nil || len(c.Load.Scenarios) != 2 {
		t.Errorf("a file that is only open: %s", diags.Text(false))
	}
}

func TestEnvironmentAndGPUCount(t *testing.T) {
	def := &Definition{Server: Server{Env: map[string]string{"A": "1", "B": "1"}}, Flags: FlagRules{Parallel: []string{"tp", "pp"}, Aliases: map[string]string{"tensor": "tp"}}}
	f := Framework{Definition: def, Serving: Serving{Env: map[string]string{"B": "2"}}}
	if diff := cmp.Diff(map[string]string{"A": "1", "B": "2"}, f.Environment()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if def.Server.Env["B"] != "1" {
		t.Error("the definition was changed")
	}
	flag := func(name string, n int64) Flag { return Flag{Name: name, Value: Value{Kind: Int, Int: n}} }
	for _, tt := range []struct {
		flags []Flag
		want  int
	}{{nil, 1}, {[]Flag{flag("tensor", 4)}, 4}, {[]Flag{flag("tp", 2), flag("pp", 3), flag("other", 9)}, 6}} {
		if n, ok := f.GPUCount(tt.flags); n != tt.want || !ok {
			t.Errorf("%v: %d %t, want %d", tt.flags, n, ok, tt.want)
		}
	}
	f.Processes = []Process{{}}
	if _, ok := f.GPUCount(nil); ok {
		t.Error("several processes have no product of flags")
	}
}

// TestWordsOfPrecision: words that serving systems have are no warning, in any
// case of letters; slips are, with the word that is near, if there is one.
func TestWordsOfPrecision(t *testing.T) {
	for _, tt := range []struct{ precision, quantization, want string }{
		{"bf16", "none", ""}, {"FP8", "AWQ", ""}, {"auto", "our-own-method", ""}, {"nvfp4", "modelopt_fp4", ""}, {"bfloat16", "fp4", ""},
		{"fp33", "none", `"fp33" is no precision with a known name. Did you mean "fp32"?`},
		{"fp99", "none", `"fp99" is no precision with a known name. Known are "auto", "bf16"`},
		{"fp16", "gpttq", `"gpttq" is no method of quantization with a known name. Did you mean "gptq"?`},
	} {
		var p problems
		(&draft{Campaign: Campaign{Model: Model{ID: "m", Precision: tt.precision, Quantization: tt.quantization}}}).checkWords(&p)
		got := ""
		for _, d := range p.list {
			got += string(d.Severity) + ": " + d.Detail
		}
		if tt.want == "" && got != "" || tt.want != "" && !strings.HasPrefix(got, "warning: "+tt.want) {
			t.Errorf("%s, %s: %q, want %q", tt.precision, tt.quantization, got, tt.want)
		}
	}
}
