package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/help"
)

// sotabuild runs the program without a process around it.
func sotabuild(t *testing.T, in string, args ...string) (out, errs string, c code) {
	t.Helper()
	var o, e bytes.Buffer
	a := &app{in: strings.NewReader(in), out: &o, err: &e}
	c = a.run(context.Background(), args)
	return o.String(), e.String(), c
}

// folder makes a folder of files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const loose = `# A comment.
campaign "x" {
target="vllm" # the target
  compare = []
}

model "m" {
  vocab = [0, 9]
  # one
  # two
  # three
  # four
  # five
  # six
  # seven
     precision   = "bf16"
}`

const tight = `# A comment.
campaign "x" {
  target  = "vllm" # the target
  compare = []
}

model "m" {
  vocab = [0, 9]
  # one
  # two
  # three
  # four
  # five
  # six
  # seven
  precision = "bf16"
}`

func TestFmtWritesAndKeeps(t *testing.T) {
	dir := folder(t, map[string]string{"campaign.hcl": loose, "a.auto.hclvars": "n=1\n", "x.framework.hcl": "# nothing\n", "notes.txt": "a  = 1"})
	link := filepath.Join(dir, "link.campaign.hcl")
	target := filepath.Join(t.TempDir(), "shared.hcl")
	if err := os.WriteFile(target, []byte("locals {\na=1\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if out, errs, c := sotabuild(t, "", "-C", dir, "fmt", "--check"); c != codeChanges || strings.Count(out, "\n") != 3 || text(t, filepath.Join(dir, "campaign.hcl")) != loose {
		t.Errorf("--check: %d\n%s%s", c, out, errs)
	}
	if _, errs, c := sotabuild(t, "", "-C", dir, "fmt"); c != codeOK {
		t.Fatalf("fmt: %d %s", c, errs)
	}
	for path, want := range map[string]string{filepath.Join(dir, "campaign.hcl"): tight, filepath.Join(dir, "a.auto.hclvars"): "n = 1\n", target: "locals {\n  a = 1\n}\n", filepath.Join(dir, "notes.txt"): "a  = 1"} {
		if diff := cmp.Diff(want, text(t, path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v (%v)", st.Mode(), err)
	}
	if st, err := os.Stat(filepath.Join(dir, "campaign.hcl")); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v (%v)", st.Mode(), err)
	}
	for _, args := range [][]string{{"fmt"}, {"fmt", "--check"}, {"fmt", "--diff"}} {
		if out, errs, c := sotabuild(t, "", append([]string{"-C", dir}, args...)...); c != codeOK || out != "" || errs != "" {
			t.Errorf("%v a second time: %d %q %q", args, c, out, errs)
		}
	}
}

// TestFmtDiff applies the difference with the patch program.
func TestFmtDiff(t *testing.T) {
	dir := folder(t, map[string]string{"campaign.hcl": loose})
	out, errs, c := sotabuild(t, "", "-C", dir, "fmt", "--diff", "--check")
	if c != codeChanges || errs != "" {
		t.Fatalf("%d %s", c, errs)
	}
	if text(t, filepath.Join(dir, "campaign.hcl")) != loose {
		t.Error("--diff wrote the file")
	}
	if n := strings.Count(out, "\n@@ "); n != 2 {
		t.Errorf("%d hunks, want 2:\n%s", n, out)
	}
	patch, err := exec.LookPath("patch")
	if err != nil {
		t.Skipf("SKIPPED: the difference is not applied: %v", err)
	}
	cmd := exec.Command(patch, "--quiet", filepath.Join(dir, "campaign.hcl"))
	cmd.Stdin = strings.NewReader(out)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, b, out)
	}
	if diff := cmp.Diff(tight, text(t, filepath.Join(dir, "campaign.hcl"))); diff != "" {
		t.Errorf("patched (-want +got):\n%s", diff)
	}
}

func TestFmtWritesNothingBesideAnError(t *testing.T) {
	dir := folder(t, map[string]string{"campaign.hcl": "a {\nb=1\n}\n", "z.campaign.hcl": "locals {"})
	_, errs, c := sotabuild(t, "", "-C", dir, "fmt")
	if c != codeUsage || !strings.Contains(errs, "z.campaign.hcl") {
		t.Errorf("%d %s", c, errs)
	}
	if got := text(t, filepath.Join(dir, "campaign.hcl")); got != "a {\nb=1\n}\n" {
		t.Errorf("it wrote %q", got)
	}
}

func TestValidateAsJSON(t *testing.T) {
	dir := folder(t, map[string]string{"campaign.hcl": "campaign \"x\" {\n  taget = \"vllm\"\n}\n"})
	out, errs, c := sotabuild(t, "", "-C", dir, "--json", "validate")
	if c != codeUsage || errs != "" {
		t.Errorf("%d %q", c, errs)
	}
	seen := 0
	for line := range strings.Lines(out) {
		var d lang.Diagnostic
		if err := json.Unmarshal([]byte(line), &d); err != nil || d.Code == "" || d.Range.File != "campaign.hcl" {
			t.Errorf("%v: %s", err, line)
		}
		if d.Code == "unknown_attribute" && d.Range.Line == 2 && d.Range.Col == 3 && d.Snippet == "  taget = \"vllm\"" {
			seen++
		}
	}
	if seen != 1 {
		t.Errorf("the misspelt word is told %d times:\n%s", seen, out)
	}
}

func TestSchema(t *testing.T) {
	for _, args := range [][]string{{"schema"}, {"schema", "campaign"}, {"schema", "definition", "--format=json"}} {
		out, errs, c := sotabuild(t, "", args...)
		var v map[string]any
		if err := json.Unmarshal([]byte(out), &v); err != nil || c != codeOK || errs != "" || v["$schema"] == nil {
			t.Errorf("%v: %d %v %s", args, c, err, errs)
		}
	}
	if out, _, c := sotabuild(t, "", "schema", "--format=markdown"); c != codeOK || out != text(t, "../../docs/language.md") {
		t.Errorf("the pages are not those of docs (%d)", c)
	}
	for _, args := range [][]string{{"schema", "--format=xml"}, {"schema", "campaigns"}} {
		if _, errs, c := sotabuild(t, "", args...); c != codeUsage || errs == "" {
			t.Errorf("%v: %d %q", args, c, errs)
		}
	}
}

func TestImport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	book := "../../stdlib/cookbook/testdata/small.yaml"
	out, errs, c := sotabuild(t, "", "-C", dir, "import", book, "--target=tensorrt_llm", "--vocab=512", "--gpu=NVIDIA H200", "--image=vllm=own/vllm:1")
	if c != codeOK || !strings.Contains(out, "Wrote ") || !strings.Contains(errs, "[cookbook_ignored]") {
		t.Fatalf("%d\n%s\n%s", c, out, errs)
	}
	campaign := text(t, filepath.Join(dir, "campaign.hcl"))
	for _, want := range []string{`target   = "tensorrt_llm"`, "[0, 512]", "NVIDIA H200", "own/vllm:1"} {
		if !strings.Contains(campaign, want) {
			t.Errorf("no %s in\n%s", want, campaign)
		}
	}
	if _, errs, c := sotabuild(t, "", "-C", dir, "validate"); c != codeOK {
		t.Errorf("it does not validate: %d %s", c, errs)
	}
	if _, errs, c := sotabuild(t, "", "-C", dir, "fmt", "--check"); c != codeOK {
		t.Errorf("it is not formatted: %d %s", c, errs)
	}
	if _, errs, c := sotabuild(t, "", "-C", dir, "import", book); c != codeUsage || !strings.Contains(errs, "never overwrites") || text(t, filepath.Join(dir, "campaign.hcl")) != campaign {
		t.Errorf("a second time: %d %s", c, errs)
	}
	if out, _, c := sotabuild(t, "", "-C", dir, "import", "--stdout", book); c != codeOK || !strings.HasPrefix(out, "# Imported from small.yaml.") {
		t.Errorf("--stdout: %d %s", c, out)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("schema_version: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "none")
	if _, errs, c := sotabuild(t, "", "-C", empty, "import", wrong); c != codeUsage || !strings.Contains(errs, wrong+":1,17") {
		t.Errorf("a wrong one: %d %s", c, errs)
	}
	if _, err := os.Stat(empty); err == nil {
		t.Error("a refused import made a folder")
	}
	if _, _, c := sotabuild(t, "", "import", "--image=podman", book); c != codeUsage {
		t.Errorf("--image=podman: %d", c)
	}
}

// TestNotApplicable loads what validates and has no runner yet: apply says so.
func TestNotApplicable(t *testing.T) {
	base := `campaign "x" {
  target  = "mine"
  compare = []
  smoke   = true
}
model "m" {
  vocab = [0, 9]
}
scenario "s" {
  input_len  = 10
  output_len = 10
}
framework "mine" {
  use      = "tinyserve"
  program  = "/bin/true"
  checkout = "src"
  flags    = { max_model_len = 100 }
%s}
%s`
	loop := "loop \"rlcr\" {\n  max_rounds = 1\n  agent \"script\" {\n    command       = [\"x\"]\n    allowed_paths = [\"a\"]\n  }\n  gate \"g\" {\n    when   = round.fair\n    reason = \"r\"\n  }\n}\n"
	for _, tt := range []struct{ inside, outside, says string }{
		{"  endpoint = \"a\"\n  process \"a\" {\n  }\n", "", "several processes"},
		{"  compile_cache = \"warm\"\n", "", "compile_cache"},
		{"  verification {\n  }\n", "", "verification"},
		{"", loop, "loop"},
		{"", "executor \"kubernetes\" {\n}\n", "kubernetes"},
		{"", "cache {\n  remote = \"oci://r.example/x\"\n}\n", "cache"},
		{"", "history {\n  root = \"history\"\n}\n", "history"},
	} {
		dir := folder(t, map[string]string{"campaign.hcl": fmt.Sprintf(base, tt.inside, tt.outside)})
		if _, errs, c := sotabuild(t, "", "-C", dir, "validate"); c != codeOK {
			t.Errorf("%s does not validate: %d %s", tt.says, c, errs)
		}
		if _, errs, c := sotabuild(t, "", "-C", dir, "apply"); c != codeUsage || !strings.Contains(errs, tt.says) {
			t.Errorf("apply with %s: %d %s", tt.says, c, errs)
		}
	}
}

func TestLspSpeaksOverPipes(t *testing.T) {
	frame := func(s string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(s), s) }
	in := frame(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`) + frame(`{"jsonrpc":"2.0","id":2,"method":"shutdown"}`) + frame(`{"jsonrpc":"2.0","method":"exit"}`)
	out, errs, c := sotabuild(t, in, "lsp")
	if c != codeOK || !strings.Contains(out, "hoverProvider") || !strings.Contains(out, `"id":2`) {
		t.Errorf("%d %q %q", c, out, errs)
	}
	if _, _, c := sotabuild(t, frame(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`), "lsp"); c != codeError {
		t.Errorf("an editor that dies ends it with %d", c)
	}
}

// TestFlagsOfAHelpText turns what a program prints into a campaign's spelling.
func TestFlagsOfAHelpText(t *testing.T) {
	got := editorFlags(help.Parse("usage: x\n\noptions:\n  --max-num-seqs N      Sequences. (default: 64)\n  --dtype {auto,fp8}    Type.\n"))
	names := map[string][]string{}
	for _, f := range got {
		names[f.Name] = f.Choices
	}
	if diff := cmp.Diff(map[string][]string{"max_num_seqs": nil, "dtype": {"auto", "fp8"}}, names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestFlagsOfTheStore finds the newest help text that a store has.
func TestFlagsOfTheStore(t *testing.T) {
	dir := t.TempDir()
	a := &app{}
	if got := a.snapshotFlags(dir, "vllm"); got != nil {
		t.Errorf("without a store: %v", got)
	}
	store, err := cache.OpenLocal(filepath.Join(dir, ".sotabuild"), cache.Options{Command: "test"})
	if err != nil {
		t.Fatal(err)
	}
	put := func(i int, text string, state cache.State) {
		digest, size, err := store.Object(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		var b key.Builder
		b.Text("kind", "help", fmt.Sprint(i))
		manifest := b.Finish()
		if _, err := store.Put(context.Background(), cache.Record{
			Key: manifest.Key(), Node: "help.vllm.server", Kind: "help", Manifest: manifest.Text(),
			Outcome: cache.Outcome{State: state}, Outputs: []cache.Output{{Name: "text", Digest: digest, Size: size}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	put(1, "usage: x\n\noptions:\n  --old-flag N  Old.\n", cache.OK)
	put(2, "usage: x\n\noptions:\n  --new-flag N  New.\n", cache.OK)
	put(3, "usage: x\n\noptions:\n  --broken N  Never.\n", cache.Failed)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if got := a.snapshotFlags(dir, "vllm"); len(got) != 1 || got[0].Name != "new_flag" {
		t.Errorf("%+v", got)
	}
	if got := a.snapshotFlags(dir, "sglang"); got != nil {
		t.Errorf("another framework: %+v", got)
	}
}

// TestBuiltinFile writes a definition to go to, once.
func TestBuiltinFile(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	path := builtinFile("sglang")
	if !strings.HasPrefix(text(t, path), "# SGLang.") || builtinFile("sglang") != path {
		t.Errorf("%s", path)
	}
	if got := builtinFile("../sglang"); got != "" {
		t.Errorf("a name that is none leads to %s", got)
	}
}
