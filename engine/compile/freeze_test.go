package compile

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/cache/samples"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
)

// judged is a kind whose rule is its spec's.
var judged = &Kind{Name: "judged", Version: 2, Purity: EnvBound, Outputs: []string{"row"}, Func: run,
	Accept: func(s any) samples.Rule {
		rule := samples.Rule{MaxAge: time.Duration(s.(spec).Threads) * time.Hour, Wanting: s.(spec).Label}
		if s.(spec).Threads == 2 {
			rule.Samples, rule.Bounds = 3, []samples.Bound{{Fact: "share", Most: 0.01, Class: "throttled", Reason: "too hot"}, {Fact: "x", Most: -1}}
		}
		return rule
	}}

var freezable = []*Kind{help, parse, bench, judged}

// varied are random declarations that use every field a plan reads.
func varied(r *rand.Rand, n int) []Decl {
	some := func(of ...string) string { return of[r.IntN(len(of))] }
	decls := make([]Decl, n)
	for i := range decls {
		k := freezable[r.IntN(len(freezable))]
		d := Decl{Addr: fmt.Sprintf("n[%d]", i), Kind: k, Spec: spec{Threads: r.IntN(3), Label: some("", "gone")},
			Block:     some("", "a", "b"),
			Resources: Resources{GPUs: [][]string{nil, {"0"}, {"0", "1"}}[r.IntN(3)], Quiet: r.IntN(2) == 0},
			Timeout:   time.Duration(r.Int64N(1e12)), Turn: r.IntN(3), Skip: some("", "", "", "by the user")}
		if d.Resources.Host = some("", "far"); k == bench {
			d.Batch = some("", fmt.Sprint("batch", i))
		}
		for j := range i {
			switch r.IntN(8) {
			case 0:
				d.Inputs = append(d.Inputs, in(some("x", "y"), decls[j].Addr, decls[j].Kind.Outputs[0]))
			case 1:
				d.Order = append(d.Order, decls[j].Addr)
			}
		}
		decls[i] = d
	}
	r.Shuffle(n, func(i, j int) { decls[i], decls[j] = decls[j], decls[i] })
	return decls
}

// What a plan reads of a graph is the same after it was frozen and thawed.
func TestThawedGraphIsTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		was := mustBuild(t, varied(r, r.IntN(30)), host)
		frozen, err := OpenFrozen(Freeze(was, []byte("about")))
		if err != nil || string(frozen.About) != "about" {
			t.Fatalf("%q, %v", frozen.About, err)
		}
		is, err := frozen.Thaw(freezable)
		if err != nil {
			t.Fatal(err)
		}
		if !was.Runs() || is.Runs() {
			t.Errorf("the built graph runs: %v, the thawed one: %v; want only the first", was.Runs(), is.Runs())
		}
		var a, b []Action
		for i := range was.Actions {
			x, y := was.Actions[i], is.Actions[i]
			x.Spec, x.Decl.Order, x.own = nil, nil, key.Manifest{}
			a, b = append(a, x), append(b, y)
		}
		same := cmp.Options{cmp.AllowUnexported(Action{}), cmp.Comparer(func(x, y *Kind) bool { return x == y }), cmp.Comparer(func(x, y key.Manifest) bool { return x.Text() == y.Text() })}
		if diff := cmp.Diff(a, b, same); diff != "" {
			t.Fatalf("(-built +thawed):\n%s", diff)
		}
		for i := range was.Actions {
			id := graph.NodeID(i)
			digest := func(from graph.NodeID, output string) (key.Digest, bool) {
				return key.Sum([]byte(fmt.Sprint(from, output))), from%5 > 0
			}
			x, known := was.Manifest(id, digest)
			y, alsoKnown := is.Manifest(id, digest)
			if known != alsoKnown || x.Text() != y.Text() || x.Key() != y.Key() {
				t.Fatalf("manifest of %s is\n%s, was\n%s", is.Actions[i].Addr, y.Text(), x.Text())
			}
			if !slices.Equal(was.Needs(id), is.Needs(id)) || !slices.Equal(was.Dependants(id), is.Dependants(id)) {
				t.Fatalf("%s has other edges", is.Actions[i].Addr)
			}
		}
		for _, name := range []string{"n[0]", "a", "b", "c", ""} {
			x, xp := was.Select(name)
			y, yp := is.Select(name)
			if diff := cmp.Diff(fmt.Sprint(x, xp), fmt.Sprint(y, yp)); diff != "" {
				t.Fatalf("%q (-built +thawed):\n%s", name, diff)
			}
		}
	}
}

// A new field cannot be forgotten: a plan of the thawed graph would miss it. Who
// adds one writes it in Freeze, sets it in varied, and names it here.
func TestEveryFieldIsFrozen(t *testing.T) {
	for _, x := range []struct {
		of    reflect.Type
		names string
	}{
		{reflect.TypeFor[Decl](), "Addr Kind Block Spec Inputs Order Batch Resources Timeout Turn Skip"}, // but for Spec, and Order, which Orders says
		{reflect.TypeFor[Action](), "Decl ID Data Orders Accept own"},
		{reflect.TypeFor[Input](), "Name From Output"},
		{reflect.TypeFor[Resources](), "GPUs Quiet Host"},
		{reflect.TypeFor[samples.Rule](), "Samples MaxAge Bounds Wanting"},
		{reflect.TypeFor[samples.Bound](), "Fact Most Class Reason"},
		{reflect.TypeFor[key.Fact](), "Name Label Type Value"},
	} {
		var names []string
		for f := range x.of.Fields() {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); got != x.names {
			t.Errorf("%v has the fields %s, and %s are frozen", x.of, got, x.names)
		}
	}
}

// No byte of a frozen graph can change or be missing without being noticed.
func TestDamagedGraphIsRefused(t *testing.T) {
	whole := Freeze(mustBuild(t, varied(rand.New(rand.NewPCG(7, 8)), 9), host), []byte("about"))
	for n := range whole {
		if _, err := OpenFrozen(whole[:n]); err == nil {
			t.Errorf("the first %d bytes pass", n)
		}
		flipped := slices.Clone(whole)
		flipped[n] ^= 1 << (n % 8)
		if _, err := OpenFrozen(flipped); err == nil {
			t.Errorf("with another byte %d it passes", n)
		}
	}
	if _, err := OpenFrozen(append(slices.Clone(whole), 0)); err == nil {
		t.Error("with one byte more it passes")
	}
}

// Wrong numbers behind a right checksum are an error, or make a sound graph.
func TestThawTakesNoNonsense(t *testing.T) {
	body := Freeze(mustBuild(t, varied(rand.New(rand.NewPCG(7, 8)), 9), host), []byte("about"))[len(frozenHead)+8:]
	refused := 0
	for at := range body {
		for _, number := range []uint64{0, 1, 100, math.MaxInt32 + 1, math.MaxUint64} {
			if !sound(t, slices.Concat(body[:at], binary.AppendUvarint(nil, number), body[at+1:])) {
				refused++
			}
		}
	}
	if refused < len(body) {
		t.Errorf("only %d of %d numbers were refused", refused, 5*len(body))
	}
}

func TestThawNeedsTheKinds(t *testing.T) {
	g := mustBuild(t, []Decl{{Addr: "n", Kind: parse}}, Env{})
	newer := *parse
	newer.Version++
	for _, kinds := range [][]*Kind{nil, {help}, {&newer}} {
		frozen, err := OpenFrozen(Freeze(g, nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := frozen.Thaw(kinds); err == nil || !strings.Contains(err.Error(), `no kind "parse" of version 1`) {
			t.Errorf("thawing without its kind: %v", err)
		}
	}
}

// FuzzThaw: whatever stands behind a right checksum makes a sound graph or an
// error.
func FuzzThaw(f *testing.F) {
	for i := range uint64(4) {
		g, problems := Build(varied(rand.New(rand.NewPCG(9, i)), int(5*i)), host)
		if len(problems) > 0 {
			f.Fatal(problems)
		}
		f.Add(Freeze(g, []byte("about"))[len(frozenHead)+8:])
	}
	f.Fuzz(func(t *testing.T, body []byte) { sound(t, body) })
}

// sound thaws what stands behind a right checksum. It reports whether that is a
// graph, which then has to come back from being frozen again.
func sound(t *testing.T, body []byte) bool {
	t.Helper()
	b := binary.LittleEndian.AppendUint64([]byte(frozenHead), xxhash.Sum64(body))
	frozen, err := OpenFrozen(append(b, body...))
	if err != nil {
		return false
	}
	g, err := frozen.Thaw(freezable)
	if err != nil {
		return false
	}
	again, err := OpenFrozen(Freeze(g, frozen.About))
	if err != nil {
		t.Fatal(err)
	}
	same, err := again.Thaw(freezable)
	if err != nil {
		t.Fatal(err)
	}
	for i := range g.Actions {
		id := graph.NodeID(i)
		digest := func(graph.NodeID, string) (key.Digest, bool) { return key.Sum(nil), true }
		x, _ := g.Manifest(id, digest)
		y, _ := same.Manifest(id, digest)
		if x.Key() != y.Key() || g.Actions[i].Addr != same.Actions[i].Addr || !slices.Equal(g.Needs(id), same.Needs(id)) {
			t.Fatalf("action %d is another one after it was frozen again", i)
		}
	}
	return true
}

func BenchmarkThaw(b *testing.B) {
	g, problems := Build(chain(), Env{})
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	frozen := Freeze(g, nil)
	for b.Loop() {
		f, err := OpenFrozen(frozen)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := f.Thaw(freezable); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFreeze is of a graph whose nodes each have a fact of their own.
func BenchmarkFreeze(b *testing.B) {
	decls := make([]Decl, large)
	for i := range decls {
		decls[i] = Decl{Addr: fmt.Sprintf("n[%d]", i), Kind: parse, Spec: file{key.Sum(fmt.Append(nil, i))}}
	}
	g, problems := Build(decls, Env{})
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	for b.Loop() {
		Freeze(g, nil)
	}
}

type file struct {
	Digest key.Digest `key:"file"`
}
