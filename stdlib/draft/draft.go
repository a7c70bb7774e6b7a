// Package draft writes a first campaign.hcl from what can be inferred: the
// model's own config, the tokenizer beside it, the GPUs, and the programs that
// are installed. It asks only for what R018 allows: model, GPU environment,
// and precision or quantisation policy, each only when it cannot be inferred.
//
// Read and Missing are functions of what they are given; nothing is started.
// The text that Campaign returns is formatted, loads without an error, and
// says in comments where each inferred value came from.
package draft

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/lang"
)

// Model is what is known of the model.
type Model struct {
	ID           string
	Path         string // absolute; "" when only an id is known
	Precision    string // bf16, fp16, fp32, fp8; "" unknown
	Quantization string // none, or the method; "" unknown
	MaxContext   int    // tokens; 0 unknown
	Vocab        int    // ids; 0 unknown
	Family       string
	Tokenizer    string
}

// GPUs are what the host has; the zero value is a host without any.
type GPUs struct {
	Model string
	IDs   []string
}

// Program is an installed serving program.
type Program struct {
	Framework string // definition name
	Path      string // absolute
}

// Facts are all that a draft is made from.
type Facts struct {
	Name     string // of the campaign
	Model    Model
	GPUs     GPUs
	CPU      bool // the user wants a CPU campaign
	Target   string
	Programs []Program
}

// Question is something that cannot be inferred.
type Question struct {
	Flag string // the flag that answers it
	Text string
}

// Missing lists what has to be asked, in the order to ask. It never holds
// anything but model, GPU environment, precision and quantisation (R018).
func (f Facts) Missing() []Question {
	var out []Question
	if f.Model.ID == "" {
		out = append(out, Question{"model", "Which model? A hub id (Qwen/Qwen3-8B) or the path of a checkpoint"})
	}
	if len(f.GPUs.IDs) == 0 && !f.CPU {
		out = append(out, Question{"gpus", "Which GPUs? Their product name and ids (NVIDIA H200:0,1), or cpu for none"})
	}
	if f.Model.Precision == "" {
		out = append(out, Question{"precision", "Which precision? bf16, fp16, fp32 or fp8"})
	}
	if f.Model.Quantization == "" {
		out = append(out, Question{"quantization", "Which quantisation? none, or the method (fp8, awq, gptq …)"})
	}
	return out
}

// config is the part of a Hugging Face config.json that is read.
type config struct {
	ModelType   string          `json:"model_type"`
	Name        string          `json:"_name_or_path"`
	Dtype       string          `json:"torch_dtype"`
	NewDtype    string          `json:"dtype"`
	MaxPosition int             `json:"max_position_embeddings"`
	Vocab       int             `json:"vocab_size"`
	Quant       json.RawMessage `json:"quantization_config"`
}

var precisions = map[string]string{"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float8_e4m3fn": "fp8"}

// ReadModel infers what it can from a model argument: a folder with
// config.json, a weights file, or a hub id, of which only the name is known.
func ReadModel(arg string) (Model, error) {
	st, err := os.Stat(arg)
	if errors.Is(err, fs.ErrNotExist) {
		if strings.HasPrefix(arg, ".") || strings.HasPrefix(arg, "/") || strings.Count(arg, "/") != 1 {
			return Model{}, fmt.Errorf("model %q is neither a path that exists nor a hub id like Qwen/Qwen3-8B", arg)
		}
		return Model{ID: arg, Tokenizer: arg}, nil
	}
	if err != nil {
		return Model{}, err
	}
	path, err := filepath.Abs(arg)
	if err != nil {
		return Model{}, err
	}
	m := Model{ID: name(filepath.Base(path)), Path: path}
	if !st.IsDir() {
		m.ID = name(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
		return m, nil
	}
	b, err := os.ReadFile(filepath.Join(path, "config.json"))
	if err != nil {
		return Model{}, fmt.Errorf("reading the model's config: %w; a checkpoint folder has a config.json", err)
	}
	var c config
	if err := json.Unmarshal(b, &c); err != nil {
		return Model{}, fmt.Errorf("reading %s: %w", filepath.Join(path, "config.json"), err)
	}
	m.Precision = precisions[cmp.Or(c.Dtype, c.NewDtype)]
	m.MaxContext, m.Vocab, m.Family = c.MaxPosition, c.Vocab, c.ModelType
	m.Quantization = "none"
	if len(c.Quant) > 0 && string(c.Quant) != "null" {
		var q struct {
			Method string `json:"quant_method"`
		}
		if err := json.Unmarshal(c.Quant, &q); err != nil || q.Method == "" {
			m.Quantization = "" // there is one, and its name is not known: ask
		} else {
			m.Quantization = q.Method
		}
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "tokenizer.model"} {
		if _, err := os.Stat(filepath.Join(path, name)); err == nil {
			m.Tokenizer = path
			break
		}
	}
	return m, nil
}

// name makes a model id of a file's name: letters, digits, points, dashes and
// underscores, with a dash for anything else.
func name(base string) string {
	return strings.Map(func(r rune) rune {
		if r < 128 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)) {
			return r
		}
		return '-'
	}, base)
}

// programs are the names under which serving programs are installed, with the
// definition that describes them, in the order of preference as target.
var programs = []struct{ name, framework string }{
	{"vllm", "vllm"}, {"sglang", "sglang"}, {"trtllm-serve", "tensorrt_llm"},
	{"tokenspeed", "tokenspeed"}, {"llama-server", "llamacpp"}, {"tinyserve", "tinyserve"},
}

// CheckTarget says what to write where a target is neither a definition that is
// built in nor one of own, the campaign's own by name. "" is left to the draft.
func CheckTarget(target string, own []string) error {
	var names []string
	for _, p := range programs {
		names = append(names, p.framework)
	}
	names = append(names, own...)
	if target == "" || slices.Contains(names, target) {
		return nil
	}
	return fmt.Errorf("target %q is no framework that is known here: write %s%s", target, strings.Join(names, ", "), question(target, names))
}

// CheckPrecision says what to write where a precision has no known name; "" is
// left to Missing.
func CheckPrecision(p string) error {
	if p == "" || slices.ContainsFunc(lang.Precisions, func(n string) bool { return strings.EqualFold(n, p) }) {
		return nil
	}
	return fmt.Errorf("precision %q has no known name: write bf16, fp16, fp32, fp8 or another of %s%s", p, strings.Join(lang.Precisions, ", "), question(p, lang.Precisions))
}

func question(given string, names []string) string {
	if hint := lang.DidYouMean(given, names); hint != "" {
		return ". " + hint
	}
	return ""
}

// FindPrograms looks for serving programs in the folders of path, the value of
// PATH.
func FindPrograms(path string) []Program {
	var out []Program
	for _, p := range programs {
		for _, dir := range filepath.SplitList(path) {
			full := filepath.Join(dir, p.name)
			if st, err := os.Stat(full); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
				out = append(out, Program{p.framework, full})
				break
			}
		}
	}
	return out
}

// ParseGPUs reads "NVIDIA H200:0,1" or "cpu".
func ParseGPUs(s string) (g GPUs, cpu bool, err error) {
	if s == "cpu" {
		return GPUs{}, true, nil
	}
	model, ids, ok := strings.Cut(s, ":")
	if !ok || model == "" || ids == "" {
		return GPUs{}, false, fmt.Errorf("gpus %q: write the product name and ids, as in \"NVIDIA H200:0,1\", or cpu", s)
	}
	g.Model = model
	for id := range strings.SplitSeq(ids, ",") {
		if id = strings.TrimSpace(id); id == "" || slices.Contains(g.IDs, id) {
			return GPUs{}, false, fmt.Errorf("gpus %q: ids must be distinct and not empty", s)
		}
		g.IDs = append(g.IDs, id)
	}
	return g, false, nil
}
