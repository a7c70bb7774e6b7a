package cookbook

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// standard are the scenarios that need no word of their own.
var standard = []scenario{{"chat", 1000, 1000}, {"summarization", 8000, 1000}}

var notSlug = lazyregexp.New(`[^a-z0-9._-]+`)

// render writes the campaign. Problems that only Options can have are told
// without a place.
func render(b book, o Options, name string, r *reader) string {
	var enabled, excluded []string
	for _, s := range b.sides {
		if s.enabled {
			enabled = append(enabled, s.name)
		} else {
			excluded = append(excluded, s.name)
		}
	}
	if len(enabled) == 0 {
		r.bad(nil, value, "No framework is enabled, so that nothing would be measured.")
		return ""
	}
	target := o.Target
	if target == "" {
		target = enabled[0]
	}
	if !slices.Contains(enabled, target) {
		r.bad(nil, value, "The target %q is not among the enabled frameworks: %s.", target, known(enabled))
		return ""
	}
	w := &writer{}
	w.line("# Imported from %s.", path.Base(name))
	for _, l := range b.left {
		w.line("# Not taken over: %s", l)
	}
	w.line("")
	w.open("campaign %s", quote(campaignName(o, name)))
	w.line("target = %s", quote(target))
	w.line("compare = %s", list(slices.DeleteFunc(slices.Clone(enabled), func(s string) bool { return s == target })))
	if len(excluded) > 0 {
		w.line("excluded = %s", list(excluded))
	}
	w.shut()
	w.model(b, o)
	w.gpus(b, o)
	w.load(b, path.Base(name))
	for _, s := range b.sides {
		if s.enabled {
			w.framework(s, b.limit, o, target)
		}
	}
	return w.b.String()
}

func campaignName(o Options, file string) string {
	if o.Name != "" {
		return o.Name
	}
	base := strings.ToLower(path.Base(file))
	base = strings.TrimSuffix(strings.TrimSuffix(base, ".yaml"), ".yml")
	if s := strings.Trim(notSlug.ReplaceAllString(base, "-"), "-._"); s != "" {
		return s
	}
	return "cookbook"
}

func list(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// writer writes blocks; the layout is left to the formatter.
type writer struct {
	b     strings.Builder
	depth int
}

func (w *writer) line(format string, args ...any) {
	w.b.WriteString(strings.Repeat("  ", w.depth))
	fmt.Fprintf(&w.b, format, args...)
	w.b.WriteByte('\n')
}

func (w *writer) open(format string, args ...any) {
	w.line(format+" {", args...)
	w.depth++
}

func (w *writer) shut() {
	w.depth--
	w.line("}")
	if w.depth == 0 {
		w.line("")
	}
}

func (w *writer) model(b book, o Options) {
	w.open("model %s", quote(b.model))
	for _, p := range []pair{{"tokenizer", b.tokenizer}, {"precision", b.precision}, {"quantization", b.quantization}} {
		if p.value != "" {
			w.line("%s = %s", p.name, quote(p.value))
		}
	}
	if o.Vocab > 0 {
		w.line("vocab = [0, %d]", o.Vocab)
	} else {
		w.line("# The cookbook does not say the size of the vocabulary: ids that every common")
		w.line("# tokenizer has. Write [0, vocab_size] of the model's config.json for all of them.")
		w.line("vocab = [%d, %d]", DefaultVocab[0], DefaultVocab[1])
	}
	w.shut()
}

func (w *writer) gpus(b book, o Options) {
	ids := make([]string, b.hardware.count)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	model := o.GPU
	if model == "" {
		model = b.hardware.model
	}
	w.open("gpus")
	if model == "" {
		model = "unknown"
		w.line("# The cookbook does not say which GPU: write the driver's name for it.")
	}
	w.line("model = %s", quote(model))
	w.line("ids = [%s]", strings.Join(ids, ", "))
	w.line("multi_node = %t", b.hardware.multiNode)
	w.shut()
}

func (w *writer) load(b book, name string) {
	if len(b.load.sla) > 0 {
		w.open("sla")
		for _, p := range b.load.sla {
			w.line("%s = %s", p.name, p.value)
		}
		w.shut()
	}
	for _, s := range b.scenarios {
		w.open("scenario %s", quote(s.name))
		w.line("input_len = %d", s.input)
		w.line("output_len = %d", s.output)
		w.line("num_prompts = %d", b.prompts)
		w.shut()
	}
	w.open("workload")
	w.line("endpoint = %s", quote(b.load.endpoint))
	w.line("sampling = { temperature = %s }", b.load.temperature)
	if b.load.concurrency != nil {
		var cells []string
		for _, n := range b.load.concurrency {
			if n == nil {
				cells = append(cells, "null")
			} else {
				cells = append(cells, fmt.Sprint(*n))
			}
		}
		w.line("concurrency = [%s]", strings.Join(cells, ", "))
	}
	if b.prompts != 80 || !slices.Equal(b.scenarios, standard) {
		w.line("production = true")
		w.line("reason = %s", quote("The cookbook "+name+" measures these shapes."))
	}
	w.shut()
}

func (w *writer) framework(s side, limit int, o Options, target string) {
	w.open("framework %s", quote(s.name))
	image := o.Images[s.name]
	if image == "" {
		image = DefaultImages[s.name]
		w.line("# The cookbook names no image.")
	}
	w.line("image = %s", quote(image))
	if s.dropped != "" {
		w.line("# Left out of the flags: %s.", s.dropped)
	}
	w.open("flags =")
	for _, p := range s.flags {
		w.line("%s = %s", key(p.name), p.value)
	}
	w.shut()
	if len(s.axes) > 0 && limit == 1 {
		w.line("# A limit of one candidate is the baseline alone, so there is no search. (The")
		w.line("# cookbook's own tool measures two, by a mistake in its counting.)")
	} else if len(s.axes) > 0 {
		w.open("search")
		w.line("max_candidates = %d", limit)
		w.open("space =")
		for _, a := range s.axes {
			w.line("%s = [%s]", key(a.name), strings.Join(a.values, ", "))
		}
		w.shut()
		w.shut()
	}
	if s.name == "tokenspeed" && target == "vllm" {
		w.open("verification")
		w.shut()
	}
	w.shut()
}

// key is a flag's name in an object.
func key(name string) string {
	if strings.Contains(name, ".") {
		return quote(name)
	}
	return name
}
