package lang

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// samples are values that each type takes, by the type's name. A type that is
// missing here has no test of its own in the schema test.
var samples = map[string]string{
	textType.Name: `"x"`, boolType.Name: `true`, pathType.Name: `"a/b"`, hubType.Name: `"a/b"`, imageType.Name: `"vllm/vllm-openai:v1"`, shareType.Name: `0.5`, partType.Name: `0`,
	positiveType.Name: `2.5`, numberType.Name: `0`, millisType.Name: `80`, durationType.Name: `"30m"`, bytesType.Name: `"16g"`,
	seedType.Name: `-3`, urlsType.Name: `["http://h:1"]`, commandType.Name: `["a", "a"]`,
	namesType.Name: `["vllm"]`, rolesType.Name: `["prefill"]`, fieldsType.Name: `["governor"]`, globsType.Name: `["src/**"]`, envNamesType.Name: `["HF_TOKEN"]`, adaptersType.Name: `["lora-1"]`, nameType.Name: `"vllm"`,
	revisionType.Name: `"0123456789abcdef0123456789abcdef01234567"`, regexpType.Name: `"a(b)"`, urlPathType.Name: `"/x"`,
	concurrencyType.Name: `[null, 4]`, vocabType.Name: `[0, 9]`, idsType.Name: `[0, "GPU-1"]`, flagsType.Name: `{ a = 1 }`,
	spaceType.Name: `{ a = [1] }`, textsType.Name: `{ a = "b" }`, samplingType.Name: `{ temperature = 1 }`,
	lengthType.Name: `5`, portType.Name: `8000`, flagNameType.Name: `"max_x"`, flagNamesType.Name: `["max_x"]`,
	countType(0).Name: `0`, countType(1).Name: `1`, countType(2).Name: `2`, reasonsType.Name: `{ vllm = "b" }`, envType.Name: `{ A = "b" }`,
}

// decodeText decodes an expression as an attribute's value.
func decodeText(t *testing.T, text string, row *Attr) (any, Diagnostics) {
	t.Helper()
	e, diags := hclsyntax.ParseExpression([]byte(text), "test", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	p, s := &problems{}, newScope()
	v := s.value(e, p)
	return row.Type.decode(&given{v, e, rangeOf(e.Range()), row, "/dir", s, p}), p.list
}

// TestSchemaRows checks that each row's setter fits its type and its block, and
// that what people see is there.
func TestSchemaRows(t *testing.T) {
	seen := map[string]bool{}
	for i := range schema {
		b := &schema[i]
		if seen[b.Path] {
			t.Errorf("%s stands twice in the schema", b.Path)
		}
		seen[b.Path] = true
		if b.Doc == "" {
			t.Errorf("%s has no doc", b.Path)
		}
		if parent, _ := split(b.Path); parent != "" && parent != "file" && blockAt(parent) == nil {
			t.Errorf("%s stands in %s, which is not there", b.Path, parent)
		}
		for word := range b.Words {
			if _, isAttr := attrNamed(b, word); isAttr {
				t.Errorf("%s: %q is an attribute and a word for something else", b.Path, word)
			}
		}
		for j := range b.Attrs {
			checkRow(t, b, &b.Attrs[j])
		}
	}
}

func checkRow(t *testing.T, b *Block, a *Attr) {
	t.Helper()
	path := b.Path + "." + a.Name
	if !strings.HasSuffix(a.Doc, ".") {
		t.Errorf("%s: doc is no sentence: %q", path, a.Doc)
	}
	if !json.Valid(a.Type.JSON()) { // panics for a type without one
		t.Errorf("%s: no JSON Schema: %s", path, a.Type.JSON())
	}
	if a.set == nil || a.Type.decode == nil {
		if b.Path != "variable" && a.Name != forEach && a.Type.Name != predicateType.Name {
			t.Errorf("%s is not decoded", path)
		}
		return
	}
	text, ok := samples[a.Type.Name]
	if !ok && strings.HasPrefix(a.Type.Name, `"`) { // a choice
		text, ok = strings.Fields(strings.NewReplacer(",", "").Replace(a.Type.Name))[0], true
	}
	if !ok {
		t.Errorf("%s: no sample of the type %q", path, a.Type.Name)
		return
	}
	v, problems := decodeText(t, text, a)
	if v == nil || len(problems) > 0 {
		t.Errorf("%s: %s is refused: %v", path, text, problems)
		return
	}
	a.set(b.open(header{name: "x"}), v) // panics if it does not fit
}

// TestEveryAttributeRefuses checks that no attribute takes a value of a type
// that it is not for.
func TestEveryAttributeRefuses(t *testing.T) {
	for i := range schema {
		for j := range schema[i].Attrs {
			a := &schema[i].Attrs[j]
			if a.Type.decode == nil {
				continue
			}
			for _, text := range []string{`[[]]`, `{ x = { y = 1 } }`, `[null, null, null]`} {
				if v, problems := decodeText(t, text, a); v != nil || len(problems) == 0 {
					t.Errorf("%s.%s takes %s as %v (%v)", schema[i].Path, a.Name, text, v, problems)
				}
			}
		}
	}
}

func TestFunctionsExamples(t *testing.T) {
	evaluate := func(text string) cty.Value {
		e, diags := hclsyntax.ParseExpression([]byte(text), "test", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatalf("%s: %v", text, diags)
		}
		p := &problems{}
		v := newScope().value(e, p)
		if len(p.list) > 0 {
			t.Fatalf("%s: %v", text, p.list)
		}
		return v
	}
	for _, f := range Functions() {
		got, want := evaluate(f.Example), evaluate(f.Gives)
		if !jsonEqual(got, want) {
			t.Errorf("%s = %#v, want %s", f.Example, got, f.Gives)
		}
		if !strings.HasPrefix(f.Usage, f.Name+"(") || !strings.HasSuffix(f.Doc, ".") {
			t.Errorf("%s: usage %q, doc %q", f.Name, f.Usage, f.Doc)
		}
	}
}

// jsonEqual compares values, a list and a tuple of the same values being equal.
func jsonEqual(a, b cty.Value) bool {
	if !a.CanIterateElements() || !b.CanIterateElements() {
		return a.RawEquals(b)
	}
	list := func(v cty.Value) (out []cty.Value) {
		for it := v.ElementIterator(); it.Next(); {
			_, x := it.Element()
			out = append(out, x)
		}
		return out
	}
	return slices.EqualFunc(list(a), list(b), jsonEqual)
}
