package frameworks_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/frameworks"
)

// definition loads a campaign whose target uses one built-in definition.
func definition(t *testing.T, name string) *lang.Definition {
	t.Helper()
	dir := t.TempDir()
	source := `program = "p"`
	if name == "openai" {
		source = `url = ["http://h:1"]`
	}
	text := fmt.Sprintf(`
campaign "x" {
  target  = %q
  compare = []
  smoke   = true
}
model "m" {
  vocab = [0, 9]
}
framework %q {
  %s
  flags = %s
}
`, name, name, source, map[bool]string{true: "null", false: "{ " + contexts[name] + " = 9000 }"}[contexts[name] == ""])
	if err := os.WriteFile(filepath.Join(dir, "campaign.hcl"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c, diags := lang.Load(lang.Input{Dir: dir, Definitions: frameworks.FS})
	if c == nil || len(diags) > 0 {
		t.Fatalf("%s:\n%s", name, diags.Text(false))
	}
	return c.Frameworks[0].Definition
}

// contexts are the context flags, as the programs' help texts call them.
var contexts = map[string]string{
	"vllm": "max_model_len", "sglang": "context_length", "tensorrt_llm": "max_seq_len",
	"tokenspeed": "max_model_len", "llamacpp": "ctx_size", "tinyserve": "max_model_len",
}

func TestEveryDefinitionLoads(t *testing.T) {
	files, err := fs.Glob(frameworks.FS, "*.hcl")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"llamacpp.hcl", "openai.hcl", "sglang.hcl", "tensorrt_llm.hcl", "tinyserve.hcl", "tokenspeed.hcl", "vllm.hcl"}
	if !slices.Equal(files, want) {
		t.Errorf("the definitions are %v, want %v", files, want)
	}
	for _, f := range files {
		name := strings.TrimSuffix(f, ".hcl")
		d := definition(t, name)
		if d.Name != name || d.Flags.Context != contexts[name] {
			t.Errorf("%s holds %q with the context flag %q", f, d.Name, d.Flags.Context)
		}
		text, err := fs.ReadFile(frameworks.FS, f)
		if err != nil {
			t.Fatal(err)
		}
		if formatted, diags := lang.Format(f, text); string(formatted) != string(text) {
			t.Errorf("%s is not formatted (%v):\n%s", f, diags, formatted)
		}
	}
}

// TestServerCommands checks the first words of each command against the rules.
func TestServerCommands(t *testing.T) {
	for name, want := range map[string]string{
		"vllm":         "vllm serve {model}",              // R060
		"sglang":       "sglang serve --model-path",       // R061
		"tensorrt_llm": "trtllm-serve serve {model}",      // R062
		"tokenspeed":   "tokenspeed serve {model}",        // R063
		"llamacpp":     "llama-server --model {model}",    // its help: -m, --model FNAME
		"tinyserve":    "tinyserve --model {model} --ser", // its own command line
	} {
		d := definition(t, name)
		got := strings.Replace(strings.Join(d.Server.Command, " "), "{program}", d.Server.Program, 1)
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s is served by %q, want %q first", name, got, want)
		}
	}
	fixed := definition(t, "tensorrt_llm").Flags.Fixed
	if len(fixed) != 1 || fixed[0].Name != "backend" || fixed[0].Value.Text() != "pytorch" {
		t.Errorf("tensorrt_llm fixes %v, want backend pytorch (R062)", fixed)
	}
	if stop := definition(t, "llamacpp").Server.Stop; stop.First != 2*time.Second || stop.Second != time.Second {
		t.Errorf("llamacpp is stopped with %v", stop)
	}
}

// TestVersions matches each pattern with what the programs really printed.
func TestVersions(t *testing.T) {
	for _, tt := range []struct{ name, printed, want string }{
		{"vllm", "0.32.0+cpu\n", "0.32.0+cpu"},
		{"sglang", "sglang version: 0.5.17\ngit revision: N/A\n", "0.5.17"},
		{"tensorrt_llm", "[TensorRT-LLM] TensorRT LLM version: 1.3.0rc3\n", "1.3.0rc3"},
		{"tokenspeed", "TokenSpeed v0.1.1\n", "0.1.1"},
		{"llamacpp", "version: 0.6.0-dev (build 11434, commit sdist)\nbuilt with GNU 12.2.0 for Linux x86_64\n", "0.6.0-dev (build 11434, commit sdist)"},
		{"tinyserve", "tinyserve 0.1.0\n", "0.1.0"},
	} {
		m := regexp.MustCompile(definition(t, tt.name).Version.Pattern).FindStringSubmatch(tt.printed)
		if len(m) < 2 || m[1] != tt.want {
			t.Errorf("%s: %q gives %q, want %q", tt.name, tt.printed, m, tt.want)
		}
	}
}

// TestFailures classifies lines that the servers really logged.
func TestFailures(t *testing.T) {
	for _, tt := range []struct{ name, line, want string }{
		{"llamacpp", "E ggml_aligned_malloc: insufficient memory (attempted to allocate 19.73 MB)", "oom"},
		{"llamacpp", "E srv start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 18342", "port_in_use"},
		{"llamacpp", "error: invalid argument: --no-such-flag", "start_failed"},
		{"llamacpp", `error while handling argument "--draft-max": the argument has been removed. use --spec-draft-n-max or --spec-ngram-mod-n-max`, "start_failed"},
		{"llamacpp", "main: model loaded", ""},
		{"vllm", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "oom"},
		{"vllm", "OSError: [Errno 98] Address already in use", "port_in_use"},
		{"vllm", "main.py: error: unrecognized arguments: --no-such-flag", "start_failed"},
		{"vllm", "INFO 11-30 Available KV cache memory: 1.0 GiB", ""},
		{"sglang", "sglang serve: error: unrecognized arguments: --no-such-flag", "start_failed"},
		{"tensorrt_llm", "Error: No such option: --no_such_flag", "start_failed"},
	} {
		got := ""
		for _, f := range definition(t, tt.name).Failures {
			if regexp.MustCompile(f.Match).MatchString(tt.line) {
				got = f.Class
				break
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q is %q, want %q", tt.name, tt.line, got, tt.want)
		}
	}
}

// TestFlagNamesAreInTheHelp looks up every flag that a definition names in the
// program's own help text, where it lies beside the project.
func TestFlagNamesAreInTheHelp(t *testing.T) {
	helps := map[string]string{
		"vllm": "vllm_0.26.0.serve.help_all.txt", "sglang": "sglang_0.5.17.launch_server.help.txt", "tensorrt_llm": "tensorrt_llm_1.3.0rc3.serve.help.txt",
		"tokenspeed": "tokenspeed_0.1.1.engine.help.txt", "llamacpp": "llamacpp_b11434.help.txt",
	}
	folder := filepath.Join("..", "..", "..", "shared", "data", "help")
	for name, file := range helps {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Skipf("SKIPPED: the recorded help texts are not there: %v", err)
		}
		d := definition(t, name)
		flags := append([]string{d.Flags.Context}, d.Flags.Parallel...)
		for _, f := range []string{d.Flags.Memory, d.Flags.ContextPer} {
			if f != "" {
				flags = append(flags, f)
			}
		}
		for _, f := range d.Flags.Fixed {
			flags = append(flags, f.Name)
		}
		for f := range d.Flags.NotSearched {
			flags = append(flags, f)
		}
		for _, f := range d.Flags.Aliases {
			flags = append(flags, f)
		}
		for _, f := range flags {
			flag := "--" + strings.ReplaceAll(f, "_", "-")
			if d.Server.FlagStyle == "snake" {
				flag = "--" + f
			}
			if !regexp.MustCompile(regexp.QuoteMeta(flag) + `[ ,\]\n]`).Match(text) {
				t.Errorf("%s: %s is not in %s", name, flag, file)
			}
		}
	}
}
