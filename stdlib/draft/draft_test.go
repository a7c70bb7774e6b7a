package draft

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/frameworks"
)

func checkpoint(t *testing.T, config string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "Tiny-1B")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"config.json": config, "tokenizer.json": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// R018: a complete checkpoint and a GPU leave nothing to ask.
func TestNothingIsAskedThatCanBeInferred(t *testing.T) {
	dir := checkpoint(t, `{"model_type":"qwen3","torch_dtype":"bfloat16","max_position_embeddings":40960,"vocab_size":151936}`)
	m, err := ReadModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := Model{ID: "Tiny-1B", Path: dir, Precision: "bf16", Quantization: "none", MaxContext: 40960, Vocab: 151936, Family: "qwen3", Tokenizer: dir}
	if m != want {
		t.Errorf("ReadModel = %+v, want %+v", m, want)
	}
	f := Facts{Model: m, GPUs: GPUs{Model: "NVIDIA H200", IDs: []string{"0"}}}
	if q := f.Missing(); len(q) != 0 {
		t.Errorf("asked %v", q)
	}
}

func TestOnlyAllowedQuestionsAreAsked(t *testing.T) {
	var flags []string
	for _, q := range (Facts{}).Missing() {
		flags = append(flags, q.Flag)
	}
	if got, want := strings.Join(flags, " "), "model gpus precision quantization"; got != want {
		t.Errorf("questions %q, want %q (R018)", got, want)
	}
	if q := (Facts{CPU: true, Model: Model{ID: "m", Precision: "fp16", Quantization: "none"}}).Missing(); len(q) != 0 {
		t.Errorf("a CPU campaign is asked %v", q)
	}
}

func TestQuantizedCheckpoints(t *testing.T) {
	for config, want := range map[string]string{
		`{"quantization_config":{"quant_method":"fp8"}}`: "fp8",
		`{"quantization_config":{"bits":4}}`:             "", // a method without a name is asked for
		`{"quantization_config":null}`:                   "none",
		`{}`:                                             "none",
	} {
		m, err := ReadModel(checkpoint(t, config))
		if err != nil {
			t.Fatal(err)
		}
		if m.Quantization != want {
			t.Errorf("%s: quantization %q, want %q", config, m.Quantization, want)
		}
	}
}

func TestHubIDAndWrongPaths(t *testing.T) {
	m, err := ReadModel("Qwen/Qwen3-8B")
	if err != nil || m.ID != "Qwen/Qwen3-8B" || m.Path != "" {
		t.Errorf("hub id: %+v, %v", m, err)
	}
	for _, arg := range []string{"./nope", "/nope/nope", "nope"} {
		if _, err := ReadModel(arg); err == nil || !strings.Contains(err.Error(), "Qwen/Qwen3-8B") {
			t.Errorf("ReadModel(%q): error %v does not say what to write", arg, err)
		}
	}
	if _, err := ReadModel(t.TempDir()); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("a folder without a config: %v", err)
	}
}

func TestParseGPUs(t *testing.T) {
	g, cpu, err := ParseGPUs("NVIDIA H200:0, 1")
	if err != nil || cpu || g.Model != "NVIDIA H200" || strings.Join(g.IDs, " ") != "0 1" {
		t.Errorf("got %+v %v %v", g, cpu, err)
	}
	if _, cpu, err := ParseGPUs("cpu"); err != nil || !cpu {
		t.Errorf("cpu: %v %v", cpu, err)
	}
	for _, bad := range []string{"", "H200", ":0", "H200:", "H200:0,0", "H200:0,"} {
		if _, _, err := ParseGPUs(bad); err == nil {
			t.Errorf("ParseGPUs(%q) is no error", bad)
		}
	}
}

// What is not known is an error that says what to write, and the near word.
func TestTargetsAndPrecisionsAreKnown(t *testing.T) {
	for target, want := range map[string]string{"": "", "sglang": "", "mine": "", "tinyserv": `Did you mean "tinyserve"?`, "nothing-like-it": "llamacpp, tinyserve, mine"} {
		if err := CheckTarget(target, []string{"mine"}); (err == nil) != (want == "") || err != nil && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("target %q: %v, want %q", target, err, want)
		}
	}
	for p, want := range map[string]string{"": "", "bf16": "", "FP8": "", "fp33": `Did you mean "fp32"?`, "fp99": "write bf16, fp16, fp32, fp8"} {
		if err := CheckPrecision(p); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("precision %q: %v, want %q", p, err, want)
		}
	}
}

// TestEveryDefinitionIsATarget: a definition that ships can be chosen, but for
// the one that only describes servers that run already.
func TestEveryDefinitionIsATarget(t *testing.T) {
	files, err := fs.Glob(frameworks.FS, "*.hcl")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d definitions, %v", len(files), err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(f, ".hcl")
		if err := CheckTarget(name, nil); (err == nil) == (name == "openai") {
			t.Errorf("target %q: %v", name, err)
		}
	}
}

func TestFindPrograms(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for path, mode := range map[string]os.FileMode{
		filepath.Join(a, "llama-server"): 0o755,
		filepath.Join(b, "llama-server"): 0o755, // the first of PATH wins
		filepath.Join(b, "vllm"):         0o755,
		filepath.Join(b, "sglang"):       0o644, // not executable
	} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	got := FindPrograms(a + string(os.PathListSeparator) + b)
	want := []Program{{"vllm", filepath.Join(b, "vllm")}, {"llamacpp", filepath.Join(a, "llama-server")}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestDraftsLoad writes campaigns for every framework as target, for a long and
// a short context, with and without GPUs, and loads them: a draft has no error.
func TestDraftsLoad(t *testing.T) {
	var all []Program
	for _, p := range programs {
		all = append(all, Program{p.framework, "/opt/" + p.name})
	}
	for _, target := range append([]Program{{}}, all...) {
		for _, context := range []int{0, 2048, 40960} {
			for _, gpus := range []GPUs{{}, {Model: "NVIDIA H200", IDs: []string{"0"}}} {
				f := Facts{Name: "draft-1", Target: target.Framework, GPUs: gpus, CPU: len(gpus.IDs) == 0, Programs: all,
					Model: Model{ID: "org/odd-1", Precision: "bf16", Quantization: "none", MaxContext: context, Vocab: 512}}
				if target.Framework == "" {
					f.Programs = nil
				}
				name := fmt.Sprintf("target=%q context=%d gpus=%d", target.Framework, context, len(gpus.IDs))
				dir := t.TempDir()
				src, diags := lang.Format("campaign.hcl", Campaign(f))
				if diags.HasErrors() {
					t.Errorf("%s: %s\n%s", name, diags.Text(false), Campaign(f))
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, "campaign.hcl"), src, 0o644); err != nil {
					t.Fatal(err)
				}
				c, diags := lang.Load(lang.Input{Dir: dir, Definitions: frameworks.FS})
				if diags.HasErrors() {
					t.Errorf("%s: %s", name, diags.Text(false))
				} else if c.Model.ID != "org/odd-1" {
					t.Errorf("%s: model %q", name, c.Model.ID)
				}
			}
		}
	}
}
