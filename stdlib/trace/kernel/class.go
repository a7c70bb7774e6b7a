package kernel

import "strings"

// Family says what a kernel is for.
type Family string

// Group is the coarse split that overlap is judged by.
type Group string

// The groups.
const (
	Communication Group = "communication"
	Compute       Group = "compute"
	Elementwise   Group = "elementwise"
	Memory        Group = "memory"
	Unknown       Group = "other"
)

// The families that code names; the table below has them all.
const (
	Comm      Family = "communication"
	Attention Family = "attention"
	Linear    Family = "linear_attention"
	MoE       Family = "moe"
	GEMM      Family = "gemm"
	Norm      Family = "norm"
	Sort      Family = "sort"
	Quantize  Family = "quantize"
	Other     Family = "other"
)

// Class is what a kernel was taken for and why.
type Class struct {
	Family Family `json:"family"`
	Group  Group  `json:"group"`
	Rule   string `json:"rule"` // name of the rule that fired; "none" for Other
}

// Anchor reports whether the kernel is the one main kernel of an attention or
// linear-attention layer half: not its combine, reduction or metadata step.
func (c Class) Anchor() bool {
	return (c.Family == Attention || c.Family == Linear) && !strings.HasSuffix(c.Rule, "-aux")
}

// rule is one row of the classifier: the first row of which some pattern
// matches and no exclusion matches decides. A pattern is words in sequence;
// "x*" is a word's beginning, "*x" its end, and a leading "=" wants the whole
// symbol. Specific rows stand before general ones.
type rule struct {
	name   string
	family Family
	group  Group
	any    []string
	not    []string
	all    []string // each must match too
}

var rules = []rule{
	{"copy-engine", "memory", Memory, []string{"=memcpy *", "=memset *", "copydevice*", "=copy device *"}, nil, nil},
	{"collective", Comm, Communication, []string{
		"nccl*", "rccl*", "all reduce", "allreduce", "all gather", "allgather", "reduce scatter", "all to all", "alltoall",
		"cross device reduce", "multimem *", "one shot", "two shot", "nvshmem*", "deep ep", "deepep", "mooncake", "quick reduce",
		"rocshmem*", "mori *", "all 2 all",
	}, nil, nil},
	{"linear-attention", Linear, Compute, []string{
		"gdn", "gated delta", "mamba*", "selective scan", "ssd", "causal conv", "causal conv 1 d", "chunk gla", "fused recurrent",
		"lightning attn", "chunk fwd", "wkv*", "selective state update",
	}, nil, nil},
	{"attention-aux", Attention, Compute, []string{
		"fwd combine", "attention reduce", "attention ll 4 mi reduce", "reduce segments", "merge attn states", "merge state*",
		"prepare varlen", "attn combine", "mla combine", "splitkv combine", "mla metadata", "mla reduce", "attention metadata",
		"stage 2", "decode set metadata", "convert tensor *", "scheduler metadata",
	}, []string{"gemm", "moe"}, nil},
	{"attention", Attention, Compute, []string{
		"flash attn*", "flashattn*", "flash attention*", "flashattention*", "fmha*", "*fmha", "sdpa", "attention", "attn fwd", "attn bwd",
		"=fwd kernel", "fwd grouped kernel", "fwd kernel stage", "sage fwd", "flash fwd*", "flash bwd*", "flash fprop", "paged attention*",
		"mla", "flashmla", "flash mla", "batch prefill*", "batch decode*", "single prefill*", "single decode*", "mqa logits",
		"unified attention", "fav 3", "mha fwd", "decode attention", "prefill with paged*", "prefill with ragged*",
		"decode with paged*", "extend attention",
	}, []string{"moe", "norm", "rope", "quant", "reshape and cache*", "concat and cache*", "store kv*", "set kv*", "set mla kv*", "kv buffer", "gemm"}, nil},
	{"kv-cache", "kv_cache", Memory, []string{
		"reshape and cache*", "store kv*", "store kvcache", "set kv buffer", "set mla kv*", "concat and cache*", "append paged*",
		"kv cache", "kvcache", "copy blocks", "swap blocks", "cache kernel", "write kv*",
	}, []string{"attention", "norm"}, nil},
	{"moe-routing", MoE, Compute, []string{
		"topk gating*", "top k gating*", "moe align*", "routing*", "combined routing", "sort expert tokens", "expert tokens",
		"moe fused gate", "grouped topk", "topk softmax", "topk sigmoid", "moe sort*", "moe topk", "bitmatrix*", "sum bitmatrix",
		"topk forward", "expert offset*", "compute problem sizes", "compute expert*", "prepare grouped gemm data", "moe router",
		"fused moe router", "permute * moe",
	}, nil, nil},
	{"moe-grouped-gemm", MoE, Compute, []string{
		"fused moe*", "moe gemm*", "grouped gemm*", "group gemm*", "groupgemm*", "matmul ogs*", "moe kernel*", "grouped mm*",
		"marlin moe*", "moe wna *", "group problem shape", "gemm * moe", "moe mxgemm*", "fmoe*", "moe ck*", "grouped problem*",
	}, nil, nil},
	{"moe-batched", MoE, Compute, []string{"=bmm * dyn batch *"}, nil, nil},
	{"moe-other", MoE, Compute, []string{
		"moe", "expert*", "finalize matmul scatter", "finalize kernel", "silu mul quant * expert", "permute tokens",
	}, []string{"triton * fused"}, nil},
	{"split-k-reduce", GEMM, Compute, []string{"split kreduce", "split k reduce", "splitk reduce", "*kreduce kernel"}, nil, nil},
	{"convolution", "conv", Compute, []string{
		"implicit gemm", "fprop", "wgrad", "dgrad", "igemm fwd", "igemm bwd", "igemm wrw", "grouped conv", "*scudnn", "conv*", "im 2 d 2 col",
		"reduce wgrad", "convolution*", "miopen*",
	}, []string{"causal conv", "convert*"}, nil},
	{"qk-norm-rope", "rope", Elementwise, []string{"qknorm rope", "qk norm rope", "norm rope"}, nil, nil},
	{"norm", Norm, Elementwise, []string{
		"rms norm*", "rmsnorm*", "*rmsnorm", "layer norm*", "layernorm*", "norm", "qknorm", "bn", "batchnorm*", "groupnorm*", "group norm*",
		"rowwise moments*", "gamma beta*", "mean * rsqrt", "rstd", "add rmsnorm*", "welford*",
	}, nil, nil},
	{"rope", "rope", Elementwise, []string{"rope", "rotary*", "mrope", "*rope"}, nil, nil},
	{"triton-activation", "activation", Elementwise, []string{"silu", "gelu", "sigmoid", "swiglu", "relu"}, []string{"gemm", "matmul", "embedding"}, []string{"=triton *"}},
	{"gemm", GEMM, Compute, []string{
		"*gemm", "*gemmex", "*gemmk", "gemm*", "nvjet", "gemv*", "*gemv", "matmul*", "mm", "bmm", "scaled mm", "cublas*", "addmm kernel", "magma *gemm*",
		"gemv nsp*", "wvsplit*", "skinny*", "marlin*", "dot kernel", "linear kernel", "router gemm",
	}, []string{"=triton * fused *", "fbgemm *"}, nil},
	{"softmax", "softmax", Elementwise, []string{"softmax*", "soft max*"}, []string{"topk"}, nil},
	{"quantize", Quantize, Elementwise, []string{
		"quant*", "*quant", "scaled fp *", "fp 8 quantize", "fp 8 rowwise*", "fp 8 qparam", "hfp 8 to float*", "float to hfp *",
		"dequant*", "mxfp*", "nvfp *", "cvt fp *", "abs amax", "per token group", "fp8*",
	}, nil, nil},
	{"sampling", "sampling", Elementwise, []string{
		"sample*", "sampling*", "multinomial", "arg max*", "argmax*", "gumbel*", "top p", "topp", "temperature*", "penalt*", "logits processor*",
		"rejection*", "logprob*", "num sampled", "log softmax*",
	}, []string{"combine sampled", "num sampled", "upsample*"}, nil},
	{"activation", "activation", Elementwise, []string{"silu", "gelu", "sigmoid", "swiglu", "relu", "act and mul*", "tanh kernel", "*:silu", "*:gelu"}, nil, nil},
	{"step-metadata", "metadata", Elementwise, []string{
		"block tables", "slot mapping*", "prepare inputs", "prepare prefill", "prepare pos", "post update", "apply write", "num sampled",
		"combine sampled", "prepare *", "write req to*", "position*", "create flash*", "get last loc", "assign *", "compute position*",
		"metadata copy", "update *", "req to token",
	}, nil, nil},
	{"sort", Sort, Elementwise, []string{
		"radix sort*", "bitonic*", "sort*", "top k", "gather top k", "topk*", "histogram*", "kernel histogram", "scan kernel", "device scan*",
		"scan init*", "cumsum*", "device reduce by key*", "compact init*", "unique*", "rocprim*", "merge sort*",
	}, nil, nil},
	{"embedding", "gather", Elementwise, []string{"*embedding", "embedding*", "pooled embs", "indice weights"}, []string{"rotary*", "triton * fused"}, nil},
	{"gather", "gather", Elementwise, []string{
		"index select*", "gather*", "scatter*", "index", "permute *", "index elementwise", "masked *", "bounds check*", "linearize *",
	}, []string{"gather block*"}, nil},
	{"copy-kernel", "memory", Memory, []string{
		"cat array*", "memcpy*", "fill", "transpose*", "batched transpose*", "nchw to*", "nhwc to*", "contiguous*", "copy kernel", "copy blocks",
		"zero*",
	}, []string{"triton * fused"}, nil},
	{"reduce", "reduce", Elementwise, []string{"reduce*", "*reduction", "mean", "=triton red *", "=triton per *", "reduction*", "sum*"}, nil, nil},
	{"elementwise", "elementwise", Elementwise, []string{
		"elementwise*", "=triton poi *", "unary*", "binary*", "add", "mul", "sub", "div", "cast*", "copy", "pow", "rsqrt", "vectorized *",
		"multi tensor apply*", "sub tensor op*", "scal kernel", "max pool*", "upsample*", "arange*", "where*", "compare*",
	}, nil, nil},
}

// Families is the families in display order, without repeats.
func Families() []Family {
	var out []Family
	seen := map[Family]bool{}
	for _, r := range rules {
		if !seen[r.family] {
			seen[r.family] = true
			out = append(out, r.family)
		}
	}
	return append(out, Other)
}

func classify(canonical, symbol string) Class {
	list := strings.Fields(symbol)
	if strings.Contains(canonical, "GroupProblemShape") {
		return Class{MoE, Compute, "moe-grouped-gemm"}
	}
	if isImplicitConv(canonical) {
		return Class{"conv", Compute, "convolution"}
	}
	for _, r := range rules {
		if some(r.any, list) && !some(r.not, list) && every(r.all, list) {
			return Class{r.family, r.group, r.name}
		}
	}
	return Class{Other, Unknown, "none"}
}

// isImplicitConv looks into template arguments for the one word that tells a
// CUTLASS convolution from a GEMM.
func isImplicitConv(canonical string) bool {
	return strings.Contains(canonical, "ImplicitGemmConvolution") || strings.Contains(canonical, "conv::kernel::")
}

func some(patterns []string, list []string) bool {
	for _, p := range patterns {
		if Match(p, list) {
			return true
		}
	}
	return false
}

func every(patterns []string, list []string) bool {
	for _, p := range patterns {
		if !Match(p, list) {
			return false
		}
	}
	return true
}

// Match reports whether the pattern's words stand in sequence in list. See
// rule for the spelling; a lone "*" matches any number of words.
func Match(pattern string, list []string) bool {
	p, whole := strings.CutPrefix(pattern, "=")
	want := strings.Fields(p)
	if whole {
		return matchAt(want, list, true)
	}
	for i := range list {
		if matchAt(want, list[i:], false) {
			return true
		}
	}
	return false
}

func matchAt(want, list []string, whole bool) bool {
	for i, w := range want {
		if w == "*" {
			for j := i; j <= len(list); j++ {
				if matchAt(want[i+1:], list[j:], whole) {
					return true
				}
			}
			return false
		}
		if i >= len(list) || !matchWord(w, list[i]) {
			return false
		}
	}
	return !whole || len(want) == len(list)
}

func matchWord(pattern, word string) bool {
	head, prefix := strings.CutSuffix(pattern, "*")
	tail, suffix := strings.CutPrefix(head, "*")
	switch {
	case prefix && suffix:
		return strings.Contains(word, tail)
	case prefix:
		return strings.HasPrefix(word, head)
	case suffix:
		return strings.HasSuffix(word, tail)
	}
	return word == pattern
}
