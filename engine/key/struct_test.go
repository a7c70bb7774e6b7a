package key

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type inner struct {
	Path string `key:"path"`
	Note string `key:"-"`
}

// Shared is embedded below.
type Shared struct {
	Seed int64 `key:"seed"`
}

type typed string

func (t typed) KeyFact() (Type, string) { return Bool, string(t) }

type pointed string

func (p *pointed) KeyFact() (Type, string) { return Text, "pointed" }

type spec struct {
	Name     string            `key:"name"`
	Count    int               `key:"count"`
	Small    uint16            `key:"small"`
	Rate     float64           `key:"rate"`
	Cold     bool              `key:"cold"`
	Data     Digest            `key:"data"`
	Warmup   time.Duration     `key:"warmup_ns"`
	Limit    *int              `key:"limit"`
	Args     []string          `key:"args"`
	Env      map[string]string `key:"env"`
	In       inner             `key:"in"`
	Steps    []inner           `key:"steps"`
	Nested   [][]string        `key:"nested"`
	Any      any               `key:"any"`
	Typed    typed             `key:"typed"`
	Shared   `key:"shared"`
	Timeout  time.Duration `key:"-"`
	Label    string        `key:"-"`
	internal int           `key:"-"`
}

func sampleSpec() spec {
	limit := 3
	return spec{Name: "chat", Count: 8, Small: 9, Rate: 0.5, Data: Sum([]byte("x")), Warmup: time.Second,
		Limit: &limit, Args: []string{"a", "b"}, Env: map[string]string{"B": "2", "A/x": "1", "": "none"},
		In: inner{Path: "p", Note: "n"}, Steps: []inner{{Path: "one"}}, Nested: [][]string{{"x"}, nil},
		Any: 1, Typed: "true", Shared: Shared{4}, Timeout: time.Hour, Label: "l", internal: 1}
}

func keyOf(v any) Manifest {
	var b Builder
	b.Struct(v)
	return b.Finish()
}

func TestStructAsText(t *testing.T) {
	want := `scheme i "1"
any i "1"
args "000" s "a"
args "001" s "b"
cold b "false"
count i "8"
data d "` + Sum([]byte("x")).String() + `"
env "\"\"" s "none"
env "\"A/x\"" s "1"
env "B" s "2"
in.path s "p"
limit i "3"
name s "chat"
nested "000/000" s "x"
nested "001" -
rate f "0.5"
shared.seed i "4"
small i "9"
steps.path "000" s "one"
typed b "true"
warmup_ns i "1000000000"
`
	s := sampleSpec()
	if diff := cmp.Diff(want, keyOf(s).Text()); diff != "" {
		t.Error(diff)
	}
	if keyOf(s).Key() != keyOf(&s).Key() {
		t.Error("a struct and a pointer to it have different keys")
	}
}

// TestEachFieldCounts changes one field after the other. Those tagged "-" must
// change nothing, all others everything.
func TestEachFieldCounts(t *testing.T) {
	limit := 4
	changed := map[string]any{
		"Name": "Chat", "Count": 9, "Small": uint16(10), "Rate": 0.25, "Cold": true, "Data": Sum(nil),
		"Warmup": 2 * time.Second, "Limit": &limit, "Args": []string{"a", "c"},
		"Env": map[string]string{"B": "2", "A/x": "2", "": "none"}, "In": inner{Path: "q"},
		"Steps": []inner{{Path: "one"}, {Path: "one"}}, "Nested": [][]string{{"x"}, {"y"}}, "Any": "1",
		"Typed": typed("false"), "Shared": Shared{5}, "Timeout": time.Second, "Label": "other",
	}
	s := sampleSpec()
	want := keyOf(s).Key()
	typ := reflect.TypeFor[spec]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		if !f.IsExported() {
			continue
		}
		to, ok := changed[f.Name]
		if !ok {
			t.Errorf("field %s is not covered by this test", f.Name)
			continue
		}
		next := s
		reflect.ValueOf(&next).Elem().Field(i).Set(reflect.ValueOf(to))
		if out := f.Tag.Get("key") == "-"; (keyOf(next).Key() == want) != out {
			t.Errorf("field %s (tag %q): left out is %v, but the key says otherwise", f.Name, f.Tag.Get("key"), out)
		}
	}
	next := s
	next.In.Note, next.internal = "other", 2
	if keyOf(next).Key() != want {
		t.Error("fields that are left out changed the key")
	}
}

// TestPartsOfOneListDoNotMix are pairs that a careless encoding takes for one.
func TestPartsOfOneListDoNotMix(t *testing.T) {
	type lists struct {
		L [][]string                   `key:"l"`
		M map[string]map[string]string `key:"m"`
		P *string                      `key:"p"`
		A any                          `key:"a"`
	}
	empty := ""
	all := []lists{
		{}, {P: &empty}, {A: ""}, {A: 0}, {A: 0.0}, {A: false},
		{L: [][]string{nil}}, {L: [][]string{{"a", "b"}}}, {L: [][]string{{"a"}, {"b"}}}, {L: [][]string{{"ab"}}},
		{L: [][]string{nil, {"a"}}}, {L: [][]string{{""}}}, {L: [][]string{{}, {}}},
		{M: map[string]map[string]string{"a/b": {"c": "x"}}}, {M: map[string]map[string]string{"a": {"b/c": "x"}}},
		{M: map[string]map[string]string{"": {"a": "x"}}}, {M: map[string]map[string]string{"a": {"": "x"}}},
		{M: map[string]map[string]string{`"a/b"`: {"c": "x"}}}, {M: map[string]map[string]string{"a": nil}},
		{M: map[string]map[string]string{"": nil}}, {M: map[string]map[string]string{"a/": {"b": "x"}}},
		{M: map[string]map[string]string{"a": {"/b": "x"}}}, {M: map[string]map[string]string{`\xff`: nil}},
		{M: map[string]map[string]string{"\xff": nil}},
	}
	seen := map[Key]lists{}
	for _, l := range all {
		k := keyOf(l).Key()
		if other, ok := seen[k]; ok {
			t.Errorf("%#v and %#v have one key", l, other)
		}
		seen[k] = l
	}
}

func TestSpecsThatAreRefused(t *testing.T) {
	type hidden struct{ n int }
	for want, v := range map[string]any{
		"says not whether": struct{ A string }{},
		"unexported": struct {
			a string `key:"a"`
		}{"x"},
		"share a name": struct {
			A string `key:"a"`
			B string `key:"a"`
		}{},
		"one tagged \"in.path\"": struct {
			In   inner  `key:"in"`
			Path string `key:"in.path"`
		}{},
		"one tagged \"in\"": struct {
			Path string `key:"in.path"`
			In   inner  `key:"in"`
		}{},
		"not one word": struct {
			A string `key:"a b"`
		}{},
		"must end in _ns": struct {
			D time.Duration `key:"d"`
		}{},
		"only string keys": struct {
			M map[int]string `key:"m"`
		}{},
		"key their Digest": struct {
			B []byte `key:"b"`
		}{},
		"told apart": struct {
			P *[]string `key:"p"`
		}{},
		"pointer receiver": struct {
			P pointed `key:"p"`
		}{},
		"no canonical form": struct {
			C chan int `key:"c"`
		}{},
		"is unexported and cannot": struct {
			T time.Time `key:"t"`
		}{},
		"cannot be keyed": struct {
			hidden `key:"h"`
		}{hidden{1}},
		"is not a struct": "text",
		"or nil":          (*spec)(nil),
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, want) {
					t.Errorf("%T: panic %q does not say %q", v, text, want)
				}
			}()
			keyOf(v)
		}()
	}
}
