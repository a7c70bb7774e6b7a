// Package cookbook turns an auto-benchmark cookbook, a YAML file of another
// tool, into a campaign file, or says with places in the YAML what is wrong with
// it. It is a function of bytes: it reads no file and writes none.
//
// The campaign has the same candidates in the same order as the cookbook: the
// baseline, then the product of the search space with the last flag fastest, cut
// at the limit. One thing differs on purpose: the other tool tests its limit
// only after it has added a candidate, so that a limit of 1 gives it two; here 1
// is 1.
//
// What a cookbook does not say is filled in by Options or by a default, and the
// campaign says so in a comment beside it. What it says and this language does
// not have stands in the first comment, never nowhere.
package cookbook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
	"github.com/sotabuild/sotabuild/lang"
)

// Options fill in what no cookbook says. The zero value takes the defaults.
type Options struct {
	// Name is the campaign's name; "" takes it from the file's.
	Name string
	// Target is the framework that the loop may patch; "" is the first one that
	// is enabled.
	Target string
	// GPU is the product name; "" is written as "unknown", which matches no GPU
	// until somebody writes the right one.
	GPU string
	// Vocab is the size of the model's vocabulary; 0 draws prompts from ids that
	// every common tokenizer has (DefaultVocab).
	Vocab int
	// Images are container images by framework, over DefaultImages.
	Images map[string]string
}

// DefaultVocab is the half-open range of token ids without Options.Vocab: above
// the special tokens that sit at the low end of many vocabularies, and below the
// size of the smallest in common use.
var DefaultVocab = [2]int{1000, 32000}

// DefaultImages are the images of the versions whose help texts the built-in
// definitions follow. TokenSpeed publishes none that is known; its name is a
// place for one's own.
var DefaultImages = map[string]string{
	"vllm":         "vllm/vllm-openai:v0.26.0",
	"sglang":       "lmsysorg/sglang:v0.5.17",
	"tensorrt_llm": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc3",
	"tokenspeed":   "tokenspeed:0.1.1",
}

// maxFile bounds what is read; cookbooks have some thousand bytes.
const maxFile = 1 << 20

// Convert returns the campaign file for a cookbook. name is the cookbook's file
// name, for places. With an error among the diagnostics there is no file.
func Convert(name string, src []byte, o Options) ([]byte, lang.Diagnostics) {
	r := &reader{name: name, lines: strings.Split(string(src), "\n")}
	b := r.read(src)
	if r.diags.HasErrors() {
		return nil, r.finish()
	}
	text := render(b, o, name, r)
	if r.diags.HasErrors() {
		return nil, r.finish()
	}
	out, diags := lang.Format("campaign.hcl", []byte(text))
	if diags.HasErrors() {
		panic("cookbook: the campaign has syntax errors: " + diags.Text(false))
	}
	return out, r.finish()
}

// reader collects problems while the nodes are read.
type reader struct {
	name  string
	lines []string
	diags lang.Diagnostics
}

// The kinds of problems: a code and a constant summary.
var (
	syntax  = [2]string{"cookbook_syntax", "Cookbook cannot be read"}
	missing = [2]string{"cookbook_missing", "Cookbook lacks something"}
	unknown = [2]string{"cookbook_unknown", "Unknown key in cookbook"}
	value   = [2]string{"cookbook_value", "Cookbook value not allowed"}
	context = [2]string{"cookbook_context", "Context length too short"}
	ignored = [2]string{"cookbook_ignored", "Part of cookbook left out"}
)

func (r *reader) bad(n *yaml.Node, kind [2]string, format string, args ...any) {
	r.put(lang.Error, n, kind, format, args...)
}

func (r *reader) put(s lang.Severity, n *yaml.Node, kind [2]string, format string, args ...any) {
	at := lang.Range{File: r.name}
	snippet := ""
	if n != nil && n.Line > 0 {
		width := 1
		if n.Kind == yaml.ScalarNode && !strings.Contains(n.Value, "\n") {
			width = max(len([]rune(n.Value)), 1)
			if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
				width += 2
			}
		}
		at = lang.Range{File: r.name, Line: n.Line, Col: n.Column, EndLine: n.Line, EndCol: n.Column + width}
		if n.Line <= len(r.lines) {
			snippet = strings.TrimSuffix(r.lines[n.Line-1], "\r")
		}
	}
	r.diags = append(r.diags, lang.Diagnostic{Severity: s, Code: kind[0], Summary: kind[1], Detail: fmt.Sprintf(format, args...), Range: at, Snippet: snippet})
}

func (r *reader) finish() lang.Diagnostics {
	slices.SortStableFunc(r.diags, func(a, b lang.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Range.Line, b.Range.Line), cmp.Compare(a.Range.Col, b.Range.Col))
	})
	return r.diags
}

var yamlLine = lazyregexp.New(`line (\d+)`)

// parse reads the one document of the file.
func (r *reader) parse(src []byte) *yaml.Node {
	if len(src) > maxFile {
		r.bad(nil, syntax, "The file has %d bytes; at most %d are read. A cookbook has some thousand.", len(src), maxFile)
		return nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		at := &yaml.Node{Line: 1, Column: 1}
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			fmt.Sscan(m[1], &at.Line)
		}
		r.bad(at, syntax, "This is no YAML: %s.", strings.TrimPrefix(err.Error(), "yaml: "))
		return nil
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		r.bad(&yaml.Node{Line: 1, Column: 1}, syntax, "A cookbook is one mapping with the keys %s.", strings.Join(topKeys, ", "))
		return nil
	}
	return doc.Content[0]
}
