package search

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/lang"
)

func num(n int64) lang.Value                   { return lang.Value{Kind: lang.Int, Int: n} }
func str(s string) lang.Value                  { return lang.Value{Kind: lang.String, Str: s} }
func dec(f float64) lang.Value                 { return lang.Value{Kind: lang.Float, Num: f} }
func truth(b bool) lang.Value                  { return lang.Value{Kind: lang.Bool, Bool: b} }
func axis(n string, v ...lang.Value) lang.Axis { return lang.Axis{Name: n, Values: v} }

func base(kv ...any) []lang.Flag {
	var out []lang.Flag
	for i := 0; i < len(kv); i += 2 {
		out = append(out, lang.Flag{Name: kv[i].(string), Value: kv[i+1].(lang.Value)})
	}
	return out
}

// show writes candidates as "name: flag=value …".
func show(cs []Candidate) []string {
	var out []string
	for _, c := range cs {
		var flags []string
		for _, f := range c.Flags {
			flags = append(flags, f.Name+"="+f.Value.Text())
		}
		out = append(out, c.Name+": "+strings.Join(flags, " "))
	}
	return out
}

func TestExpand(t *testing.T) {
	null := lang.Value{}
	for _, c := range []struct {
		name    string
		base    []lang.Flag
		limit   int
		space   []lang.Axis
		want    []string
		dropped int
	}{
		// The reference gives {1}, {1,5}, {1,6}, {2,5} for this one; {2,6} is cut.
		{"reference", base("a", num(1)), 4, []lang.Axis{axis("a", num(1), num(2)), axis("b", num(5), num(6))},
			[]string{"baseline: a=1", "b=5: a=1 b=5", "b=6: a=1 b=6", "a=2,b=5: a=2 b=5"}, 1},
		{"all", base("a", num(1)), 10, []lang.Axis{axis("a", num(1), num(2)), axis("b", num(5), num(6))},
			[]string{"baseline: a=1", "b=5: a=1 b=5", "b=6: a=1 b=6", "a=2,b=5: a=2 b=5", "a=2,b=6: a=2 b=6"}, 0},
		// The reference gives two here.
		{"limit 1", base("a", num(1)), 1, []lang.Axis{axis("a", num(2), num(3))}, []string{"baseline: a=1"}, 2},
		{"limit 1 and the first equals the base", base("a", num(1)), 1, []lang.Axis{axis("a", num(1), num(3))}, []string{"baseline: a=1"}, 1},
		{"exactly the bound", base("a", num(1)), 3, []lang.Axis{axis("a", num(2), num(3))}, []string{"baseline: a=1", "a=2: a=2", "a=3: a=3"}, 0},
		{"no axes", base("a", num(1)), 0, nil, []string{"baseline: a=1"}, 0},
		{"empty axis", base("a", num(1)), 5, []lang.Axis{axis("b", num(1)), axis("c")}, []string{"baseline: a=1"}, 0},
		{"duplicates", base(), 9, []lang.Axis{axis("a", num(1), num(1), dec(1.0), num(2))}, []string{"baseline: ", "a=1: a=1", "a=2: a=2"}, 0},
		{"base order", base("z", num(1), "a", num(2)), 9, []lang.Axis{axis("n", num(3)), axis("a", num(4))}, []string{"baseline: z=1 a=2", "n=3,a=4: z=1 a=4 n=3"}, 0},
		{"null leaves out", base("a", num(1)), 9, []lang.Axis{axis("a", null, num(1)), axis("b", null)}, []string{"baseline: a=1", "a=null: a= b="}, 0},
		{"kinds", base(), 9, []lang.Axis{axis("a", str("1"), num(1), str("true"), truth(true), dec(0.5), str("x,y"), str("fp8_e5m2"))},
			[]string{"baseline: ", `a="1": a=1`, "a=1: a=1", `a="true": a=true`, "a=true: a=true", "a=0.5: a=0.5", `a="x,y": a=x,y`, "a=fp8_e5m2: a=fp8_e5m2"}, 0},
	} {
		s := lang.Search{MaxCandidates: c.limit, Space: c.space}
		got, dropped := Expand(c.base, s), Dropped(c.base, s)
		if d := cmp.Diff(c.want, show(got)); d != "" || dropped != c.dropped {
			t.Errorf("%s: dropped %d, want %d (-want +got):\n%s", c.name, dropped, c.dropped, d)
		}
		if !got[0].Base || len(got) > 1 && got[1].Base {
			t.Errorf("%s: Base is not of the first alone", c.name)
		}
	}
}

// 72 combinations under a bound of 8, as one of the public cookbooks has them:
// the first axis never leaves its first value.
func TestBoundedPrefix(t *testing.T) {
	s := lang.Search{MaxCandidates: 8, Space: []lang.Axis{
		axis("attention", str("fa3"), str("flashinfer"), str("triton")),
		axis("chunk", num(4096), num(8192), num(16384), num(32768)),
		axis("running", num(32), num(64), num(128), num(256), num(512), num(1024)),
	}}
	got, dropped := Expand(base("tp", num(8)), s), Dropped(base("tp", num(8)), s)
	if len(got) != 8 || dropped != 73-8 {
		t.Errorf("%d candidates and %d dropped, want 8 and 65", len(got), dropped)
	}
	for _, c := range got[1:] {
		if !strings.HasPrefix(c.Name, "attention=fa3,") {
			t.Errorf("%s left the first value of the first axis", c.Name)
		}
	}
}

// A product too large to count costs no time and is not reported too small.
func TestHugeProduct(t *testing.T) {
	var space []lang.Axis
	for i := range 80 {
		space = append(space, axis(fmt.Sprintf("f%d", i), num(1), num(2)))
	}
	s := lang.Search{MaxCandidates: 3, Space: space}
	got, dropped := Expand(nil, s), Dropped(nil, s)
	if len(got) != 3 || dropped < math.MaxInt-3 {
		t.Errorf("%d candidates, %d dropped", len(got), dropped)
	}
}

func TestNamesAreDistinct(t *testing.T) {
	got := Expand(base("a", num(1), "b", num(1)), lang.Search{MaxCandidates: 100, Space: []lang.Axis{
		axis("a", num(1), str("1"), lang.Value{}, str("null"), str(""), str("1,b=2")), axis("b", num(1), num(2)),
	}})
	seen := map[string]bool{}
	for _, c := range got {
		if seen[c.Name] {
			t.Errorf("two candidates are called %s", c.Name)
		}
		seen[c.Name] = true
	}
	if len(got) != 12 {
		t.Errorf("%d candidates, want 12", len(got))
	}
}

func TestBaseIsNotChanged(t *testing.T) {
	b := base("a", num(1))
	Expand(b, lang.Search{MaxCandidates: 9, Space: []lang.Axis{axis("a", num(2))}})
	if b[0].Value.Int != 1 {
		t.Error("the base was written to")
	}
}

func TestMisusePanics(t *testing.T) {
	for _, s := range []lang.Search{{Space: []lang.Axis{axis("a", num(1))}}, {MaxCandidates: 2, Space: []lang.Axis{axis("a", num(1)), axis("a", num(2))}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was taken", s)
				}
			}()
			Expand(nil, s)
		}()
	}
}
