package lang

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAt marks a place with ‸ and says what stands around it. The files are as
// they are while somebody types.
func TestAt(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       Place
	}{
		{mainFile, "‸", Place{}},
		{mainFile, "camp‸", Place{}},
		{mainFile, "campaign \"x\" {\n  ta‸\n", Place{Path: "campaign", Labels: map[string]string{"campaign": "x"}}},
		{mainFile, "campaign \"x\" {\n  target = \"v\" # c\n  smoke = t‸\n}", Place{Path: "campaign", Labels: map[string]string{"campaign": "x"}, Written: []string{"target"}, Attr: "smoke"}},
		{mainFile, "campaign \"x\" {\n  target = \"v‸\"\n}", Place{Path: "campaign", Labels: map[string]string{"campaign": "x"}, Attr: "target", Quoted: true}},
		{mainFile, "campaign \"x\" {\n  compare = [\"a\", \"b‸", Place{Path: "campaign", Labels: map[string]string{"campaign": "x"}, Attr: "compare", Quoted: true}},
		{mainFile, "framework \"mine\" {\n  flags = {\n    a = 1\n    max_‸\n  }\n}", Place{Path: "framework", Labels: map[string]string{"framework": "mine"}, Attr: "flags", Object: true, AtKey: true}},
		{mainFile, "framework \"mine\" {\n  flags = {\n    a = ‸", Place{Path: "framework", Labels: map[string]string{"framework": "mine"}, Attr: "flags", Object: true, Keys: []string{"a"}}},
		{mainFile, "framework \"mine\" {\n  flags = { a = 1, b‸", Place{Path: "framework", Labels: map[string]string{"framework": "mine"}, Attr: "flags", Object: true, AtKey: true}},
		{mainFile, "framework \"mine\" {\n  search {\n    max_candidates = 3\n    space = {\n      a = [1, ‸", Place{Path: "framework.search", Labels: map[string]string{"framework": "mine", "framework.search": ""}, Written: []string{"max_candidates"}, Attr: "space", Keys: []string{"a"}}},
		{mainFile, "executor \"‸", Place{Label: "executor", Quoted: true}},
		{mainFile, "nonsense {\n  a‸", Place{Path: "?", Labels: map[string]string{"?": ""}}},
		{mainFile, "locals {\n  a = \"${var.‸\n", Place{Path: "locals", Labels: map[string]string{"locals": ""}, Attr: "a"}},
		{"x" + definitionSuffix, "definition \"x\" {\n  server {\n    boo‸", Place{Path: "file.definition.server", Labels: map[string]string{"file.definition": "x", "file.definition.server": ""}}},
		{"x" + variablesSuffix, "a = ‸", Place{Path: "?"}},
	} {
		before, after, ok := strings.Cut(tt.text, "‸")
		if !ok {
			t.Fatalf("%q has no mark", tt.text)
		}
		if tt.want.Labels == nil {
			tt.want.Labels = map[string]string{}
		}
		if diff := cmp.Diff(tt.want, At(tt.name, []byte(before+after), len(before))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.text, diff)
		}
	}
}

func TestSymbols(t *testing.T) {
	got := ""
	for _, s := range Symbols(mainFile, []byte("locals {\n  b = 1\n  a = 2\n}\nvariable \"v\" {}\nframework \"f\" {\n  use = \"vllm\"\n}\nframework \"g\" {\n  use = var.x\n}\ngpus {}\nbroken {")) {
		got += s.Kind + " " + s.Name + " " + s.Uses + " " + s.Range.String() + "\n"
	}
	want := "local b  campaign.hcl:2,3\nlocal a  campaign.hcl:3,3\nvariable v  campaign.hcl:5,10\nframework f vllm campaign.hcl:6,11\nframework g g campaign.hcl:9,11\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// FuzzAt looks at every kind of file at any place. Nothing may panic, and what
// is said of a place is a block of the language or none.
func FuzzAt(f *testing.F) {
	seedFiles(f, func(s string) { f.Add(s, len(s)/2) }, "good", "bad", "definitions")
	f.Fuzz(func(t *testing.T, text string, offset int) {
		for _, name := range []string{mainFile, "x" + definitionSuffix} {
			p := At(name, []byte(text), offset)
			if p.Path != "" && p.Path != "?" && p.Path != "file" && blockAt(p.Path) == nil {
				t.Errorf("%q is no block", p.Path)
			}
			for _, s := range Symbols(name, []byte(text)) {
				if s.Range.Line < 1 || s.Range.Col < 1 {
					t.Errorf("%+v has no place", s)
				}
			}
			list, diags := Define(name, []byte(text))
			if (list == nil) != diags.HasErrors() && len(list) > 0 {
				t.Errorf("%d definitions beside\n%s", len(list), diags.Text(false))
			}
		}
	})
}
