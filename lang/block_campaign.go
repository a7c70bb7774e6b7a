package lang

import (
	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

var (
	campaignName = bounded{100, lazyregexp.New(`^[a-z0-9][a-z0-9._-]*$`)}
	modelID      = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$`)
)

// topWords are words for blocks that people write at the top of a file.
var topWords = map[string]string{
	"hardware":   "GPUs stand in a gpus block.",
	"gpu":        "The block is called gpus.",
	"slo":        "Limits stand in an sla block.",
	"benchmark":  "Request shapes stand in scenario blocks, the rest in a workload block.",
	"dataset":    "The data set is an attribute of the workload block: dataset = \"random\".",
	"frameworks": "Write one block for each: framework \"vllm\" { … }",
	"server":     "Write one block for each serving system: framework \"vllm\" { … }",
	"definition": "A framework definition stands in a file of its own beside the campaign, NAME.framework.hcl.",
	"search":     "A search block stands inside a framework block.",
	"target":     "The target is an attribute of the campaign block: target = \"vllm\".",
	"local":      "The block is called locals.",
	"variables":  "Write one block for each: variable \"name\" { default = … }",
}

// campaignBlocks are who is compared, on what: campaign, model, gpus.
var campaignBlocks = []Block{
	{
		Path: "campaign", Label: "the campaign's name", Required: true,
		Doc:   "Names the campaign and says who is compared.",
		Rules: "R022 R024 R026 R032 R033 R034 R035 R070",
		Attrs: []Attr{
			{"target", nameType, "", true, "", "The framework that the loop may patch, by its label.", "R023 R032", into(func(d *draft, v string) { d.Sides.Target = v })},
			{"compare", namesType, "", false, "", "The competitors, without the target. Left out: for vllm sglang and tensorrt_llm, for sglang vllm, tensorrt_llm and tokenspeed; for another target it must be written.", "R022 R024 R033", into(func(d *draft, v []string) { d.Sides.Compare = v })},
			{"excluded", namesType, "", false, "", "Frameworks left out by choice; recorded as such, never as unsupported.", "R034 R036 R038", into(func(d *draft, v []string) { d.Sides.Excluded = v })},
			{"unsupported", reasonsType, "", false, "", "Framework = \"reason\": what the framework itself cannot do here; recorded as such.", "R038", into(func(d *draft, v map[string]string) { d.Sides.Unsupported = absent(v) })},
			{"unavailable", reasonsType, "", false, "", "Framework = \"reason\": what this environment lacks; recorded as such. A default competitor without a block is unavailable by itself.", "R022 R038", into(func(d *draft, v map[string]string) { d.Sides.Unavailable = absent(v) })},
			{"artifacts", pathType, "", false, `"runs"`, "Folder in which run directories are made.", "R026 R027", into(func(d *draft, v string) { d.Artifacts = v })},
			{"smoke", boolType, "", false, `false`, "Everything this campaign produces is a flow check and never decides anything.", "R069 R070", into(func(d *draft, v bool) { d.Smoke = v })},
		},
		Words: map[string]string{
			"target_framework":      "Write target.",
			"comparison_frameworks": "Write compare; it holds the competitors only.",
			"competitors":           "Write compare.",
			"frameworks":            "Write target for the one and compare for its competitors.",
			"exclude":               "Write excluded.",
			"artifact_root":         "Write artifacts.",
			"name":                  "The name is the block's label: campaign \"NAME\" {",
			"mode":                  "Write smoke = true for a flow check; everything else is real.",
		},
		open: func(h header) any {
			return &draft{Campaign: Campaign{Name: h.name, Sides: Sides{Range: h.at}}}
		},
		close: within(func(d, b *draft) {
			d.Name, d.Sides, d.Artifacts, d.Smoke = b.Name, b.Sides, b.Artifacts, b.Smoke
		}),
	},
	{
		Path: "model", Label: "the model's id", Required: true,
		Doc:   "The served model.",
		Rules: "R018 R019 R055",
		Attrs: []Attr{
			{"path", pathType, "", false, "", "The weights: a folder, or a file where the framework takes one. Not together with revision.", "R019", into(func(m *Model, v string) { m.Path = v })},
			{"revision", revisionType, "", false, "", "Commit of the hub repository that the id names. Apply fetches it once into the store and checks it; servers then run with the hub off. Not together with path.", "R019", into(func(m *Model, v string) { m.Revision = v })},
			{"tokenizer", hubType, "", false, "", "The tokenizer's id on the hub, or its folder; the model's own if left out.", "R019", into(func(m *Model, v string) { m.Tokenizer = v })},
			{"precision", textType, "", false, `"auto"`, "Number format of the weights in memory, such as \"bf16\"; \"auto\" is what the weights say. A word that is not known is a warning.", "R019 R055", into(func(m *Model, v string) { m.Precision = v })},
			{"quantization", textType, "", false, `"none"`, "Quantization method, or \"none\". A word that is nearly a known one is a warning.", "R019 R055", into(func(m *Model, v string) { m.Quantization = v })},
			{"trust_remote_code", boolType, "", false, `false`, "Whether code of the model's repository may run.", "R019", into(func(m *Model, v bool) { m.TrustRemoteCode = v })},
			{"max_context", countType(1), "tokens", false, "", "The longest sequence that is served; max_position_embeddings of config.json if left out.", "R019", into(func(m *Model, v int) { m.MaxContext = v })},
			{"vocab", vocabType, "token ids", false, "", "Half-open range of ids that random prompts draw from; [0, vocab_size] of config.json if left out.", "R065", into(func(m *Model, v [2]int) { m.Vocab = v })},
			{"family", textType, "", false, "", "Slug of the model's family in the model PR history.", "R025 R041", into(func(m *Model, v string) { m.Family = v })},
		},
		Words: map[string]string{
			"name": "The model's id is the block's label: model \"Qwen/Qwen3-8B\" {", "id": "The model's id is the block's label: model \"Qwen/Qwen3-8B\" {",
			"dtype": "Write precision.", "quantisation": "Write quantization.", "max_model_len": "Write max_context; max_model_len is a flag of a framework.",
			"vocab_size": "Write vocab = [0, SIZE].",
		},
		open:  func(h header) any { return &Model{ID: h.name, Range: h.at} },
		close: within(func(d *draft, m *Model) { d.Model = *m }),
	},
	{
		Path:  "gpus",
		Doc:   "The hardware. Without this block it is a CPU campaign.",
		Rules: "R021 R055",
		Attrs: []Attr{
			{"model", textType, "", true, "", "Product name as the driver tells it, such as \"NVIDIA H200\".", "R021", into(func(g *GPUs, v string) { g.Model = v })},
			{"ids", idsType, "", true, "", "GPUs that every framework gets, the same for all; their number is the length of the list.", "R021 R055", into(func(g *GPUs, v []string) { g.IDs = v })},
			{"multi_node", boolType, "", false, `false`, "Whether a server may span several hosts.", "R021", into(func(g *GPUs, v bool) { g.MultiNode = v })},
			{"price_per_hour", positiveType, "price of one GPU for one hour", false, "", "Gives the price of a million tokens in reports.", "", into(func(g *GPUs, v float64) { g.PricePerHour = &v })},
			{"binds", fieldsType, "", false, "", "Facts of the host that are part of every measurement's key, besides product, memory, number, MIG, power cap, major version of the driver, CUDA and CPU: clock_max_sm_mhz, clock_policy, driver, ecc, kernel, persistence, topology. Left out, they are recorded, and a row of another value has a warning.", "", into(func(g *GPUs, v []string) { g.Binds = v })},
			{"accept", fieldsType, "", false, "", "Fields of the host's probe that may be out of range, such as governor; recorded with every result.", "", into(func(g *GPUs, v []string) { g.Accept = v })},
		},
		Words: map[string]string{"count": "The count is the length of ids.", "gpu_count": "The count is the length of ids.", "visible_ids": "Write ids.", "visible_devices": "Write ids.", "type": "Write model.", "name": "Write model."},
		open:  func(h header) any { return &GPUs{Range: h.at} },
		close: within(func(d *draft, g *GPUs) { d.GPUs = g }),
	},
}
