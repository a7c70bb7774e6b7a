package lang

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Place is what stands around a place of a file, for editors. It is found from
// tokens, so that it is right in a file that is being written.
type Place struct {
	// Path is the path of the block around in the schema: "" at the top of a
	// campaign file, "file" at the top of a definition, "?" in what is no block of
	// the language.
	Path string
	// Labels are the labels of the blocks around by their path.
	Labels map[string]string
	// Written are the names of the statements before the place in that block.
	Written []string
	// Attr is the attribute whose value the place is in; "" at a name.
	Attr string
	// Keys are the names around inside an object value, the innermost last. The
	// place is at the innermost name itself if AtKey is set; then it is not
	// among them.
	Keys   []string
	Object bool // inside an object value
	AtKey  bool // where a name of that object stands
	// Label: the place is in the label of a block with this path; Path is then
	// the block outside.
	Label  string
	Quoted bool // inside a quoted text
}

// frame is one bracket around the place.
type frame struct {
	open    hclsyntax.TokenType
	path    string // of a body
	body    bool
	head    []hclsyntax.Token // of the statement or item at hand
	written []string
	key     string // of an object: the name whose value is at hand
}

// At says what stands around the byte at offset. name is the file's; offsets
// beyond the end are the end.
func At(name string, src []byte, offset int) Place {
	root := ""
	if strings.HasSuffix(name, definitionSuffix) {
		root = "file"
	}
	w := &walker{labels: map[string]string{}, frames: []frame{{body: true, path: root}}}
	if len(src) > maxFile || isVariables(name) || strings.HasSuffix(name, jsonSuffix) {
		return Place{Path: "?", Labels: w.labels}
	}
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos)
	for _, t := range tokens {
		if t.Range.End.Byte > offset || t.Range.End.Byte == offset && joins(t.Type) || t.Type == hclsyntax.TokenEOF {
			break
		}
		w.take(t)
	}
	return w.place()
}

// joins reports whether a token that ends at the place still belongs to what is
// written there.
func joins(t hclsyntax.TokenType) bool {
	return t == hclsyntax.TokenIdent || t == hclsyntax.TokenNumberLit || t == hclsyntax.TokenQuotedLit
}

type walker struct {
	frames []frame
	labels map[string]string
	quoted bool
}

func (w *walker) top() *frame { return &w.frames[len(w.frames)-1] }

func (w *walker) take(t hclsyntax.Token) {
	f := w.top()
	switch t.Type {
	case hclsyntax.TokenComment:
		if strings.HasSuffix(string(t.Bytes), "\n") { // a comment swallows its line's end
			w.endOfLine()
		}
	case hclsyntax.TokenNewline:
		w.endOfLine()
	case hclsyntax.TokenComma:
		if !f.body {
			f.head, f.key = nil, ""
		}
	case hclsyntax.TokenEqual, hclsyntax.TokenColon:
		if f.open == hclsyntax.TokenOBrace && !f.body && f.key == "" && len(f.head) > 0 {
			f.key = nameOf(f.head)
		}
		f.head = append(f.head, t)
	case hclsyntax.TokenOBrace:
		if f.body {
			if path, label, ok := w.block(f); ok {
				w.labels[path] = label
				w.frames = append(w.frames, frame{open: t.Type, body: true, path: path})
				return
			}
		}
		w.frames = append(w.frames, frame{open: t.Type})
	case hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
		w.frames = append(w.frames, frame{open: t.Type})
		w.quoted = false
	case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
		w.quoted = t.Type == hclsyntax.TokenTemplateSeqEnd
		if len(w.frames) > 1 {
			w.frames = w.frames[:len(w.frames)-1]
		}
		w.top().head = append(w.top().head, t)
	case hclsyntax.TokenOQuote:
		w.quoted = true
		f.head = append(f.head, t)
	case hclsyntax.TokenCQuote:
		w.quoted = false
		f.head = append(f.head, t)
	default:
		f.head = append(f.head, t)
	}
}

// endOfLine ends a statement or an item of an object.
func (w *walker) endOfLine() {
	f := w.top()
	w.quoted = false
	if f.body && len(f.head) > 0 {
		f.written = append(f.written, nameOf(f.head))
	}
	if f.body || f.open == hclsyntax.TokenOBrace {
		f.head, f.key = nil, ""
	}
}

// nameOf is the first name of a statement, quoted or not.
func nameOf(head []hclsyntax.Token) string {
	for _, t := range head {
		if t.Type == hclsyntax.TokenIdent || t.Type == hclsyntax.TokenQuotedLit {
			return string(t.Bytes)
		}
	}
	return ""
}

// block reads the statement at hand as the header of a block.
func (w *walker) block(f *frame) (path, label string, ok bool) {
	if len(f.head) == 0 || f.head[0].Type != hclsyntax.TokenIdent || hasEqual(f.head) {
		return "", "", false
	}
	row := rowNamed(childrenOf(f.path), string(f.head[0].Bytes))
	if row == nil {
		return "?", "", true
	}
	for _, t := range f.head[1:] {
		if t.Type == hclsyntax.TokenQuotedLit || t.Type == hclsyntax.TokenIdent {
			label = string(t.Bytes)
		}
	}
	return row.Path, label, true
}

func hasEqual(head []hclsyntax.Token) bool {
	return slices.ContainsFunc(head, func(t hclsyntax.Token) bool { return t.Type == hclsyntax.TokenEqual })
}

func (w *walker) place() Place {
	p := Place{Labels: w.labels, Quoted: w.quoted}
	inner := 0 // the innermost body
	for i, f := range w.frames {
		if f.body {
			inner = i
		}
	}
	body := w.frames[inner]
	p.Path, p.Written = body.path, body.written
	if len(body.head) > 0 {
		first := string(body.head[0].Bytes)
		switch {
		case hasEqual(body.head):
			p.Attr = first
		case w.quoted:
			if row := rowNamed(childrenOf(body.path), first); row != nil && row.Label != "" {
				p.Label = row.Path
			}
		}
	}
	for _, f := range w.frames[inner+1:] {
		p.Object = f.open == hclsyntax.TokenOBrace
		p.AtKey = p.Object && f.key == ""
		if f.key != "" {
			p.Keys = append(p.Keys, f.key)
		}
	}
	return p
}

// Symbol is a name that a file declares.
type Symbol struct {
	Kind  string // the block's kind, or "local"
	Name  string
	Uses  string // of a framework: the definition that it names; the label if none
	Range Range  // the name itself
	Whole Range
}

// Symbols lists the names that a file declares at its top, in order of the
// file, as far as it can be understood. A file in the JSON syntax has none.
func Symbols(name string, src []byte) []Symbol {
	if len(src) > maxFile || strings.HasSuffix(name, jsonSuffix) || isVariables(name) {
		return nil
	}
	body := parse(source{name, src}, "", &problems{})
	if body == nil {
		return nil
	}
	var list []Symbol
	for _, b := range body.Blocks {
		switch {
		case b.Type == "locals":
			for _, a := range sortedAttrs(b.Body.Attributes) {
				list = append(list, Symbol{Kind: "local", Name: a.Name, Range: rangeOf(a.NameRange), Whole: rangeOf(a.SrcRange)})
			}
		case len(b.Labels) == 1:
			s := Symbol{Kind: b.Type, Name: b.Labels[0], Range: rangeOf(b.LabelRanges[0]), Whole: rangeOf(hcl.RangeBetween(b.TypeRange, b.CloseBraceRange))}
			if b.Type == "framework" {
				s.Uses = s.Name
				if a, ok := b.Body.Attributes["use"]; ok {
					if v, diags := a.Expr.Value(nil); !diags.HasErrors() && v.IsKnown() && !v.IsNull() && v.Type() == cty.String {
						s.Uses = v.AsString()
					}
				}
			}
			list = append(list, s)
		}
	}
	return list
}

// Define reads a file of framework definitions. With an error there are none.
func Define(name string, src []byte) ([]*Definition, Diagnostics) {
	p := &problems{}
	s := source{name, src}
	list, sound := definitions(s, p)
	diags := p.finish([]source{s})
	if !sound {
		return nil, diags
	}
	return list, diags
}
