package draft

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// defaults per framework: the flag that bounds the context, and a first
// search space. A space is a place to start from, not advice.
var defaults = map[string]struct {
	context string
	share   int // the context flag is divided among so many requests
	space   [][2]string
}{
	"vllm":         {"max_model_len", 1, [][2]string{{"max_num_seqs", "[64, 128, 256]"}, {"max_num_batched_tokens", "[8192, 16384]"}}},
	"sglang":       {"context_length", 1, [][2]string{{"chunked_prefill_size", "[8192, 16384]"}, {"max_running_requests", "[64, 128]"}}},
	"tensorrt_llm": {"max_seq_len", 1, [][2]string{{"max_batch_size", "[64, 128]"}, {"max_num_tokens", "[8192, 16384]"}}},
	"tokenspeed":   {"max_model_len", 1, [][2]string{{"max_num_seqs", "[64, 128]"}}},
	"llamacpp":     {"ctx_size", 8, [][2]string{{"parallel", "[4, 8]"}}},
	"tinyserve":    {"max_model_len", 1, [][2]string{{"max_num_seqs", "[2, 8]"}}},
}

// Campaign writes the file. Facts must have no Missing.
func Campaign(f Facts) []byte {
	if q := f.Missing(); len(q) > 0 {
		panic("draft: " + q[0].Flag + " is missing")
	}
	var b strings.Builder
	target, compare := f.sides()
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# Review every value: what was inferred says from where.")
	p("campaign %s {", q(f.Name))
	p("  target  = %s", q(target))
	p("  compare = %s", list(compare))
	if f.small() {
		p("  smoke   = true # the model's context is too short for the two scenarios of a real decision")
	}
	p("}\n")
	p("model %s {", q(f.Model.ID))
	if f.Model.Path != "" {
		p("  path         = %s", q(f.Model.Path))
	}
	if f.Model.Tokenizer != "" {
		p("  tokenizer    = %s", q(f.Model.Tokenizer))
	}
	p("  precision    = %s", q(f.Model.Precision))
	p("  quantization = %s", q(f.Model.Quantization))
	if f.Model.MaxContext > 0 {
		p("  max_context  = %d # max_position_embeddings of the model's config.json", f.Model.MaxContext)
	}
	if f.Model.Vocab > 0 {
		p("  vocab        = [0, %d] # vocab_size of the model's config.json", f.Model.Vocab)
	} else {
		p("  vocab        = [100, 30000] # ids that random prompts draw from; set it to the model's range")
	}
	p("}\n")
	if len(f.GPUs.IDs) > 0 {
		p("gpus {")
		p("  model = %s", q(f.GPUs.Model))
		p("  ids   = %s", list(f.GPUs.IDs))
		p("}\n")
	}
	p("sla {")
	p("  max_p50_ttft_ms  = 2000")
	p("  max_p50_tpot_ms  = 80")
	p("  min_success_rate = 0.99")
	p("}\n")
	f.scenarios(p)
	p("workload {")
	p("  arrival     = \"inf\"")
	p("  concurrency = [null, 4, 8]")
	p("}")
	for _, name := range append([]string{target}, compare...) {
		f.framework(p, name)
	}
	return []byte(b.String())
}

// needed is the context of the longest default scenario: 8000 in, 1000 out
// (R067).
const needed = 9000

// small reports whether the model cannot serve the default scenarios.
func (f Facts) small() bool { return f.Model.MaxContext > 0 && f.Model.MaxContext < needed }

func (f Facts) context() int {
	if f.small() {
		return f.Model.MaxContext
	}
	return max(f.Model.MaxContext, needed)
}

// scenarios leaves the default pair unwritten, or writes a smaller pair for a
// flow check.
func (f Facts) scenarios(p func(string, ...any)) {
	if !f.small() {
		p("# Without scenario blocks: chat (1000 in, 1000 out) and summarization (8000 in, 1000 out), 80 prompts each.")
		return
	}
	n := max(1, f.Model.MaxContext/8)
	for _, s := range []struct {
		name    string
		in, out int
	}{{"chat", n, n}, {"summarization", 4 * n, n}} {
		p("scenario %s {", q(s.name))
		p("  input_len   = %d", s.in)
		p("  output_len  = %d", s.out)
		p("  num_prompts = 20")
		p("}\n")
	}
}

// sides picks the target and its competitors among what is installed; without
// anything installed the seeds' own pair (R022).
func (f Facts) sides() (target string, compare []string) {
	target = f.Target
	if target == "" && len(f.Programs) > 0 {
		target = f.Programs[0].Framework
	}
	if target == "" {
		target = "vllm"
	}
	for _, p := range f.Programs {
		// Beside a vllm target TokenSpeed has to be verified first, which is for
		// the user to ask for (R039).
		if p.Framework != target && !(target == "vllm" && p.Framework == "tokenspeed") {
			compare = append(compare, p.Framework)
		}
	}
	if len(compare) == 0 {
		compare = []string{"sglang"}
		if target == "sglang" {
			compare = []string{"vllm"}
		}
	}
	return target, compare
}

func (f Facts) framework(p func(string, ...any), name string) {
	d := defaults[name]
	p("\nframework %s {", q(name))
	if i := slices.IndexFunc(f.Programs, func(x Program) bool { return x.Framework == name }); i >= 0 {
		p("  program = %s # found in PATH", q(f.Programs[i].Path))
	} else {
		p("  program = %s # write where it is installed", q("/opt/"+name+"/bin/"+name))
	}
	p("  flags = {")
	if d.context != "" {
		p("    %s = %d", d.context, f.context()*d.share)
	}
	p("  }")
	p("  search {")
	p("    max_candidates = 10")
	p("    space = {")
	for _, s := range d.space {
		p("      %s = %s", s[0], s[1])
	}
	p("    }")
	p("  }")
	p("}")
}

// q quotes a string for HCL: Go's quoting, with template marks escaped.
func q(s string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(strconv.Quote(s))
}

func list(s []string) string {
	var out []string
	for _, x := range s {
		out = append(out, q(x))
	}
	return "[" + strings.Join(out, ", ") + "]"
}
