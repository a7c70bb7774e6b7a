package cookbook

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sotabuild/sotabuild/lang"
)

// book is a cookbook as it was read.
type book struct {
	model, tokenizer, precision, quantization string
	hardware                                  hardware
	scenarios                                 []scenario
	prompts                                   int
	load                                      load
	limit                                     int
	sides                                     []side
	left                                      []string // what is not taken over, one sentence each
}

// hardware is the GPUs; a cookbook need not say which.
type hardware struct {
	model     string
	count     int
	multiNode bool
}

// scenario is a pair of lengths.
type scenario struct {
	name          string
	input, output int
}

// load is how requests are sent and judged. nil is unlimited concurrency.
type load struct {
	endpoint    string
	temperature string
	concurrency []*int
	sla         []pair
}

// pair is a name with a value as it is written in HCL.
type pair struct{ name, value string }

// side is one framework.
type side struct {
	name    string
	enabled bool
	flags   []pair
	axes    []axis
	dropped string // what of the flags is left out, and why
}

// axis is one searched flag.
type axis struct {
	name   string
	values []string
}

var (
	topKeys       = []string{"schema_version", "source", "model", "hardware", "dataset", "benchmark", "search", "frameworks"}
	frameworkKeys = []string{"sglang", "vllm", "tensorrt_llm", "tokenspeed"}
	slaKeys       = []string{"max_p50_ttft_ms", "max_p50_tpot_ms", "max_p50_e2e_ms", "min_success_rate"}
)

// maxGPUs bounds the list of GPU numbers that is written out.
const maxGPUs = 1024

// contexts are the flags that bound the sequence length. SGLang may leave it
// out: it takes the model's own.
var contexts = map[string]string{"sglang": "context_length", "vllm": "max_model_len", "tensorrt_llm": "max_seq_len", "tokenspeed": "max_model_len"}

func (r *reader) read(src []byte) book {
	var b book
	root := r.parse(src)
	if root == nil {
		return b
	}
	top := r.mapping(root, root, "The cookbook", topKeys, nil, map[string]string{
		"sla": "It stands in benchmark.", "version_manifest": "The versions are those of the images; a plan that has this key is no cookbook.",
	})
	if v := top.need("schema_version", "It is 1."); v != nil && (v.Tag != "!!int" || v.Value != "1") {
		r.bad(v, value, "schema_version is %q, and only 1 is understood.", v.Value)
	}
	source := top.mapping("source", []string{"kind", "source_recipe_file", "translation"}, []string{"kind"}, nil)
	if v := source.node("kind"); v != nil && v.Value != "llm_serving_cookbook" {
		r.bad(v, value, "The source's kind is %q. Only cookbooks are imported: llm_serving_cookbook.", v.Value)
	}
	model := top.mapping("model", []string{"name", "tokenizer", "precision", "quantization"}, []string{"name"}, nil)
	b.model, b.tokenizer, b.precision, b.quantization = model.text("name"), model.text("tokenizer"), model.text("precision"), model.text("quantization")
	gpus := top.mapping("hardware", []string{"gpu_model", "gpu_count", "multi_node"}, []string{"gpu_count"}, nil)
	b.hardware = hardware{gpus.text("gpu_model"), gpus.count("gpu_count"), gpus.yes("multi_node")}
	if n := b.hardware.count; n > maxGPUs {
		r.bad(gpus.node("gpu_count"), value, "gpu_count is %d, and no campaign has more than %d.", n, maxGPUs)
	}
	r.dataset(top, &b)
	r.benchmark(top, &b)
	search := top.mapping("search", []string{"tier", "max_candidates_per_framework", "candidate_generation", "resume", "output_dir"}, []string{"max_candidates_per_framework"}, nil)
	b.limit = search.count("max_candidates_per_framework")
	if v := search.node("candidate_generation"); v != nil && v.Value != "baseline_first_bounded_product" {
		r.bad(v, value, "The candidates are made by %q, and only baseline_first_bounded_product is understood.", v.Value)
	}
	if v := search.node("tier"); v != nil {
		b.left = append(b.left, "search.tier = "+v.Value+": the size of the search is max_candidates.")
	}
	if search.node("resume") != nil {
		b.left = append(b.left, "search.resume: apply always takes up what is finished.")
	}
	r.frameworks(top, &b)
	return b
}

func (r *reader) dataset(top table, b *book) {
	d := top.mapping("dataset", []string{"kind", "num_prompts", "scenario_names", "input_len", "output_len", "canonical_jsonl"}, []string{"kind", "num_prompts", "scenario_names", "input_len", "output_len"}, nil)
	if v := d.node("kind"); v != nil && v.Value != "random" {
		r.bad(v, value, "The data set %q cannot be imported: only random prompts say everything in the cookbook itself.", v.Value)
	}
	if v := d.node("canonical_jsonl"); v != nil && v.Tag != "!!null" {
		r.bad(v, value, "canonical_jsonl names prompts of one's own, which random prompts are not. Remove it, or write the campaign by hand with dataset = \"jsonl\".")
	}
	b.prompts = d.count("num_prompts")
	names, in, out := d.list("scenario_names"), d.list("input_len"), d.list("output_len")
	for key, l := range map[string]*yaml.Node{"input_len": d.node("input_len"), "output_len": d.node("output_len")} {
		if n := len(d.list(key)); l != nil && l.Kind == yaml.SequenceNode && names != nil && n != len(names) {
			r.bad(l, value, "%s has %d values and scenario_names %d. They are aligned pairs: write one value for each name.", key, n, len(names))
			return
		}
	}
	for i, n := range names {
		if i >= len(in) || i >= len(out) {
			return // told
		}
		b.scenarios = append(b.scenarios, scenario{r.text(n, "scenario_names"), r.count(in[i], "input_len"), r.count(out[i], "output_len")})
	}
}

func (r *reader) benchmark(top table, b *book) {
	m := top.mapping("benchmark", []string{"endpoint", "backend", "tokenizer", "max_concurrency", "extra_request_body", "qps", "sla", "output_dir"}, []string{"endpoint", "sla"}, map[string]string{
		"framework_set": "Name the frameworks by enabled.", "request_rates": "Cookbooks have qps.",
	})
	endpoints := map[string]string{"/v1/completions": "completions", "/v1/chat/completions": "chat"}
	if v := m.node("endpoint"); v != nil {
		if b.load.endpoint = endpoints[v.Value]; b.load.endpoint == "" {
			r.bad(v, value, "The endpoint %q is none of /v1/completions and /v1/chat/completions.", v.Value)
		}
	}
	if v := m.node("tokenizer"); v != nil && b.tokenizer != "" && v.Value != b.tokenizer {
		r.bad(v, value, "The benchmark's tokenizer is %q and the model's %q. Every framework uses one tokenizer: make them equal.", v.Value, b.tokenizer)
	}
	body := m.mapping("extra_request_body", []string{"temperature"}, nil, nil)
	b.load.temperature = "0"
	if v := body.node("temperature"); v != nil {
		b.load.temperature = r.number(v, "temperature")
	}
	for _, v := range m.list("max_concurrency") {
		if v.Tag == "!!null" {
			b.load.concurrency = append(b.load.concurrency, nil)
			continue
		}
		n := r.count(v, "max_concurrency")
		b.load.concurrency = append(b.load.concurrency, &n)
	}
	if v := m.node("qps"); v != nil {
		q := r.open(v, m.keys["qps"], "qps")
		var parts []string
		for _, k := range q.order {
			parts = append(parts, k+" = "+q.node(k).Value)
		}
		b.left = append(b.left, "benchmark.qps ("+strings.Join(parts, ", ")+"): the highest rate within the SLA is not searched; the cells of concurrency are measured.")
		r.put(lang.Warning, m.keys["qps"], ignored, "The search for the highest request rate is not taken over: the campaign measures the cells of max_concurrency. The values stand in its first comment.")
	}
	if m.node("output_dir") != nil {
		b.left = append(b.left, "benchmark.output_dir: run directories lie in the campaign's artifacts.")
	}
	sla := m.mapping("sla", slaKeys, nil, deprecated)
	for _, k := range slaKeys {
		if v := sla.node(k); v != nil && v.Tag != "!!null" {
			b.load.sla = append(b.load.sla, pair{k, r.number(v, k)})
		}
	}
}

// deprecated are keys of an SLA that older cookbooks have.
var deprecated = map[string]string{
	"max_ttft_ms": "It is deprecated: use max_p50_ttft_ms.", "max_tpot_ms": "It is deprecated: use max_p50_tpot_ms.", "max_e2e_ms": "It is deprecated: use max_p50_e2e_ms.",
	"max_p99_ttft_ms": "It is deprecated: use max_p50_ttft_ms.", "max_p99_tpot_ms": "It is deprecated: use max_p50_tpot_ms.", "max_p99_e2e_ms": "It is deprecated: use max_p50_e2e_ms.",
	"success_rate": "Use min_success_rate.",
}

func (r *reader) frameworks(top table, b *book) {
	all := top.mapping("frameworks", frameworkKeys, nil, map[string]string{"trtllm": "Write tensorrt_llm.", "llamacpp": "Cookbooks have four frameworks; write the campaign by hand."})
	if !all.ok {
		return
	}
	for _, name := range frameworkKeys {
		if all.node(name) == nil {
			r.bad(all.at, missing, "frameworks lacks %s. One that is not wanted is written as %s: {enabled: false}.", name, name)
		}
	}
	need := 0
	for _, s := range b.scenarios {
		need = max(need, s.input+s.output)
	}
	for _, name := range all.order { // order of the file
		if slices.Contains(frameworkKeys, name) {
			b.sides = append(b.sides, r.framework(all, name, b.model, need))
		}
	}
}

func (r *reader) framework(all table, name, model string, need int) side {
	s := side{name: name}
	m := all.mapping(name, []string{"enabled", "server_command", "config_source", "backend_policy", "base_server_flags", "search_space"}, []string{"enabled"}, nil)
	s.enabled = m.yes("enabled")
	if !s.enabled {
		return s
	}
	if v := m.need("server_command", "It is the command of the server without its flags."); v != nil {
		r.text(v, "server_command")
	}
	base := m.table("base_server_flags")
	for _, key := range base.order {
		v := base.node(key)
		if name == "sglang" && key == "model_path" {
			if v.Value != model {
				r.bad(v, value, "model_path is %q and the model's name %q. Every framework serves one model: make them equal.", v.Value, model)
			}
			s.dropped = "model_path is the model itself, which the server command passes"
			continue
		}
		s.flags = append(s.flags, pair{key, r.scalar(v, key)})
	}
	space := m.table("search_space")
	for _, key := range space.order {
		s.axes = append(s.axes, axis{key, r.values(space.node(key), key)})
	}
	if slices.ContainsFunc(s.axes, func(a axis) bool { return len(a.values) == 0 }) {
		s.axes = nil // an empty list makes an empty product: the baseline alone
	}
	if name == "tensorrt_llm" {
		r.backend(m, base, space)
	}
	r.context(m, base, space, name, need)
	return s
}

// backend holds TensorRT-LLM to its PyTorch backend (R062, R071).
func (r *reader) backend(m, base, space table) {
	if v := m.node("backend_policy"); v == nil || v.Value != "fixed_pytorch" {
		r.bad(either(v, m.at), value, "backend_policy of tensorrt_llm must be fixed_pytorch: no other backend is measured.")
	}
	if v := base.node("backend"); v == nil || v.Value != "pytorch" {
		r.bad(either(v, m.at), value, "The base flag backend of tensorrt_llm must be pytorch.")
	}
	if v := space.node("backend"); v != nil {
		r.bad(v, value, "backend of tensorrt_llm must not stand in search_space. Remove it.")
	}
}

// context checks that every candidate can hold the longest request.
func (r *reader) context(m, base, space table, name string, need int) {
	flag := contexts[name]
	v := base.node(flag)
	if v == nil && name != "sglang" {
		r.bad(either(base.at, m.at), context, "%s has no base flag %s, and the longest scenario needs %d tokens. Write %s: %d.", name, flag, need, flag, need)
	}
	values := []*yaml.Node{}
	if v != nil {
		values = append(values, v)
	}
	if v := space.node(flag); v != nil {
		values = append(values, elements(v)...)
	}
	for _, v := range values {
		if n := r.count(v, flag); n > 0 && n < need {
			r.bad(v, context, "%s of %s is %d, and the longest scenario needs %d tokens.", flag, name, n, need)
		}
	}
}

func either(a, b *yaml.Node) *yaml.Node {
	if a != nil {
		return a
	}
	return b
}

// elements of a list; a scalar counts as a list of one.
func elements(n *yaml.Node) []*yaml.Node {
	if n.Kind == yaml.SequenceNode {
		return n.Content
	}
	return []*yaml.Node{n}
}

// values of a searched flag, each once: what equals an earlier candidate is
// left out there too.
func (r *reader) values(n *yaml.Node, key string) []string {
	var list []string
	for _, e := range elements(n) {
		v := r.scalar(e, key)
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

func known(keys []string) string { return strings.Join(keys, ", ") }
