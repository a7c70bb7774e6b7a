package lang

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// jsonSuffix marks a file in the JSON syntax of HCL.
const jsonSuffix = ".json"

// jsonReader turns a file in the JSON syntax into the same tree that the native
// syntax gives, so that everything after the parser is one piece of code. The
// library's own JSON body keeps its tree to itself, which would leave such
// files without the checks of cost, names and arithmetic.
//
// An object is a block where the schema has one, an attribute elsewhere; texts
// are templates, so that "${local.n}" is an expression. A property "//" is a
// comment.
type jsonReader struct {
	name   string
	src    []byte
	dec    *json.Decoder
	end    int // offset behind the token read last
	p      *problems
	places []lineCol // of each byte, and of the end
}

// errTold says that a problem is told and nothing more can be read.
var errTold = errors.New("told")

// parseJSON reads a source; root is the path of its top blocks. Nil if it is no
// JSON object.
func parseJSON(s source, root string, p *problems) *hclsyntax.Body {
	dec := json.NewDecoder(bytes.NewReader(s.bytes))
	dec.UseNumber()
	r := &jsonReader{name: s.name, src: s.bytes, dec: dec, p: p, places: placesOf(s.bytes)}
	v, err := r.value(0)
	if err == nil {
		if _, after := r.dec.Token(); !errors.Is(after, io.EOF) {
			err = r.tell(r.end, "There is more behind the end of the object. Remove it.")
		}
	}
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, errTold):
		return nil
	case errors.As(err, &syntax):
		r.tell(min(max(int(syntax.Offset)-1, r.end), len(s.bytes)), "This is no JSON: %v.", err)
		return nil
	case err != nil:
		r.tell(len(s.bytes), "This is no JSON: the file ends too early. Close what is open.")
		return nil
	}
	if v.kind != '{' {
		r.tell(0, "A file in the JSON syntax is one object. Write { \"campaign\": { … } }.")
		return nil
	}
	return r.body(v, root)
}

// jsonValue is a value with its place. Items are the elements of a list or the
// properties of an object, in order of the file.
type jsonValue struct {
	kind   byte // { [ " n(umber) t(rue, false) 0 (null)
	text   string
	yes    bool
	items  []jsonValue
	key    string // of a property
	at     hcl.Range
	atName hcl.Range // of the property's name
}

func (r *jsonReader) tell(offset int, format string, args ...any) error {
	r.p.add(cSyntax, rangeOf(r.rng(offset, min(offset+1, len(r.src)))), format, args...)
	return errTold
}

// next reads a token and says where it begins.
func (r *jsonReader) next() (json.Token, int, error) {
	t, err := r.dec.Token()
	if err != nil {
		return nil, r.end, err
	}
	from := r.end
	for from < len(r.src) && strings.IndexByte(" \t\r\n,:", r.src[from]) >= 0 {
		from++
	}
	r.end = int(r.dec.InputOffset())
	return t, from, nil
}

func (r *jsonReader) value(depth int) (jsonValue, error) {
	t, from, err := r.next()
	if err != nil {
		return jsonValue{}, err
	}
	if depth > maxNest {
		r.p.add(cTooLarge, rangeOf(r.rng(from, r.end)), "This is nested more than %d levels deep. Name the inner parts in locals.", maxNest)
		return jsonValue{}, errTold
	}
	v := jsonValue{at: r.rng(from, r.end)}
	switch t := t.(type) {
	case string:
		v.kind, v.text = '"', t
	case json.Number:
		v.kind, v.text = 'n', t.String()
	case bool:
		v.kind, v.yes = 't', t
	case json.Delim:
		v.kind = byte(t)
		if err := r.items(&v, depth); err != nil {
			return v, err
		}
		v.at = r.rng(from, r.end)
	}
	return v, nil
}

// items reads the elements of a list or object and its end.
func (r *jsonReader) items(v *jsonValue, depth int) error {
	first := map[string]hcl.Range{}
	for r.dec.More() {
		var name jsonValue
		if v.kind == '{' {
			t, from, err := r.next()
			if err != nil {
				return err
			}
			name.text, _ = t.(string)
			name.at = r.rng(from, r.end)
		}
		x, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		if v.kind == '{' {
			if before, twice := first[name.text]; twice && name.text != "//" {
				d := r.p.add(cDuplicate, rangeOf(name.at), "The property %q stands twice in one object. Keep one of them, or write a list of objects for several blocks.", name.text)
				d.Related = []Range{rangeOf(before)}
				continue
			}
			first[name.text] = name.at
		}
		x.key, x.atName = name.text, name.at
		v.items = append(v.items, x)
	}
	_, _, err := r.next()
	return err
}

// body is an object as the body of a block.
func (r *jsonReader) body(v jsonValue, path string) *hclsyntax.Body {
	b := &hclsyntax.Body{Attributes: hclsyntax.Attributes{}, SrcRange: v.at, EndRange: v.at}
	rows := childrenOf(path)
	for _, x := range v.items {
		row := rowNamed(rows, x.key)
		switch {
		case x.key == "//":
		case row != nil && x.kind != '0' && (x.kind == '{' || x.kind == '['):
			r.blocks(b, row, x, x, nil, nil)
		default:
			b.Attributes[x.key] = &hclsyntax.Attribute{
				Name: x.key, Expr: r.attribute(x, path), SrcRange: hcl.RangeBetween(x.atName, x.at), NameRange: x.atName, EqualsRange: x.at,
			}
		}
	}
	return b
}

// attribute is the expression of a property. A variable's type is written as
// text here, and is a type all the same.
func (r *jsonReader) attribute(x jsonValue, path string) hclsyntax.Expression {
	if path == "variable" && x.key == "type" && x.kind == '"' && len(x.text) < maxVariable {
		if e, diags := hclsyntax.ParseExpression([]byte(x.text), r.name, inside(x.at)); !diags.HasErrors() {
			return e
		}
	}
	return r.expr(x)
}

// blocks adds what a property holds: one block, a list of blocks, or with a
// label an object of them.
func (r *jsonReader) blocks(b *hclsyntax.Body, row *Block, named, v jsonValue, labels []string, at []hcl.Range) {
	switch {
	case v.kind == '[':
		for _, x := range v.items {
			r.blocks(b, row, named, x, labels, at)
		}
	case v.kind != '{':
		r.p.add(cWrongType, rangeOf(v.at), "%q is a block, so that an object stands here. Write { … }.", row.name())
	case row.Label != "" && len(labels) == 0:
		for _, x := range v.items {
			if x.key != "//" {
				r.blocks(b, row, named, x, []string{x.key}, []hcl.Range{x.atName})
			}
		}
	default:
		b.Blocks = append(b.Blocks, &hclsyntax.Block{
			Type: row.name(), Labels: labels, Body: r.body(v, row.Path), TypeRange: named.atName, LabelRanges: at,
			OpenBraceRange: v.at, CloseBraceRange: v.at,
		})
	}
}

// expr is a value as an expression.
func (r *jsonReader) expr(v jsonValue) hclsyntax.Expression {
	literal := func(x cty.Value) hclsyntax.Expression {
		return &hclsyntax.LiteralValueExpr{Val: x, SrcRange: v.at}
	}
	switch v.kind {
	case '"':
		return r.template(v.text, v.at)
	case 'n':
		n, err := cty.ParseNumberVal(v.text)
		if err != nil || !sane(n) {
			r.p.add(cExpression, rangeOf(v.at), "This number has more than 300 digits, which no setting takes. Write a smaller number.")
			n = cty.DynamicVal
		}
		return literal(n)
	case 't':
		return literal(cty.BoolVal(v.yes))
	case '[':
		e := &hclsyntax.TupleConsExpr{SrcRange: v.at, OpenRange: v.at}
		for _, x := range v.items {
			e.Exprs = append(e.Exprs, r.expr(x))
		}
		return e
	case '{':
		e := &hclsyntax.ObjectConsExpr{SrcRange: v.at, OpenRange: v.at}
		for _, x := range v.items {
			e.Items = append(e.Items, hclsyntax.ObjectConsItem{KeyExpr: r.template(x.key, x.atName), ValueExpr: r.expr(x)})
		}
		return e
	}
	return literal(cty.NullVal(cty.DynamicPseudoType))
}

// template reads a text; "${…}" alone is the expression itself.
func (r *jsonReader) template(text string, at hcl.Range) hclsyntax.Expression {
	if !strings.Contains(text, "${") && !strings.Contains(text, "%{") {
		return &hclsyntax.TemplateExpr{Parts: []hclsyntax.Expression{&hclsyntax.LiteralValueExpr{Val: cty.StringVal(text), SrcRange: at}}, SrcRange: at}
	}
	if len(text) > maxVariable { // the parser of expressions is recursive
		r.p.add(cTooLarge, rangeOf(at), "A text with an expression has at most %d bytes in the JSON syntax. Write it in a file in the native syntax.", maxVariable)
		return &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: at}
	}
	e, diags := hclsyntax.ParseTemplate([]byte(text), r.name, inside(at))
	if diags.HasErrors() {
		for _, d := range diags {
			r.p.add(cSyntax, rangeOf(at), "%s: %s", d.Summary, d.Detail)
		}
		return &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: at}
	}
	return e
}

// inside is the place behind the opening quote.
func inside(at hcl.Range) hcl.Pos {
	return hcl.Pos{Line: at.Start.Line, Column: at.Start.Column + 1, Byte: at.Start.Byte + 1}
}

// rng is a place by its bytes, half open.
func (r *jsonReader) rng(from, to int) hcl.Range {
	return hcl.Range{Filename: r.name, Start: r.pos(from), End: r.pos(to)}
}

func (r *jsonReader) pos(offset int) hcl.Pos {
	p := r.places[offset]
	return hcl.Pos{Line: int(p.line), Column: int(p.col), Byte: offset}
}

// lineCol is the line and column of a byte, from 1.
type lineCol struct{ line, col int32 }

// placesOf are the places of all bytes and of the end. They are found once: a
// file on one long line would cost the square of its length otherwise.
func placesOf(src []byte) []lineCol {
	places := make([]lineCol, 0, len(src)+1)
	at := lineCol{1, 1}
	for rest := src; len(rest) > 0; {
		c, n := utf8.DecodeRune(rest)
		for range n {
			places = append(places, at)
		}
		switch rest = rest[n:]; {
		case c == '\n':
			at = lineCol{at.line + 1, 1}
		case !unicode.Is(unicode.Mn, c): // else it combines with the one before
			at.col++
		}
	}
	return append(places, at)
}
