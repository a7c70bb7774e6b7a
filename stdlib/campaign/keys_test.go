package campaign

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/key/keytest"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign/internal/sample"
)

// otherValues are flags' values that differ from one and from each other.
func otherValues(v any) []any {
	var out []any
	switch v := v.(type) {
	case value:
		for _, o := range []lang.Value{{}, {Kind: lang.Int, Int: 77}, {Kind: lang.Float, Num: 77}, {Kind: lang.String, Str: "77"}, {Kind: lang.Bool, Bool: true}, {Kind: lang.Bool}, {Kind: lang.String}} {
			if o != v.Value {
				out = append(out, value{o})
			}
		}
	case passed:
		for _, o := range []passed{{}, {text: "77"}, {bare: true}, {text: "true"}} {
			if o != v {
				out = append(out, o)
			}
		}
	default:
		panic(fmt.Sprintf("%T states its own facts and is not known here", v))
	}
	return out
}

// TestEachFieldOfEachSpec changes every field of the specs of a whole campaign:
// a keyed one changes the key, another one does not. The kind, its version, its
// inputs and, for what is measured, the binding facts of the host are facts too.
func TestEachFieldOfEachSpec(t *testing.T) {
	c := sample.Load(t, strings.Replace(sample.Text, `flags   = { kernel = "naive"`, `env = { A = "1" }`+"\n"+`  flags   = { kernel = "naive"`, 1))
	// No flow check, with GPUs and a model of a hub: every kind has a node.
	c.Smoke, c.Model.Path, c.Model.Revision = false, "", strings.Repeat("a", 40)
	c.GPUs = &lang.GPUs{Model: "NVIDIA H200", IDs: []string{"0"}, Accept: []string{"governor"}}
	c.Judge.Accuracy = &lang.Accuracy{Prompts: 2, MinAgreement: .9}
	f := facts(c)
	f.Cards = []string{"GPU-1c"}
	d := Declare(c, f)
	seen, changes := map[string]bool{}, 0
	for _, decl := range d.Decls {
		if decl.Kind == BenchKind && len(decl.Spec.(BenchSpec).Env) == 0 {
			continue // its twin has an environment too
		}
		if seen[decl.Kind.Name] {
			continue
		}
		seen[decl.Kind.Name] = true
		if decl.Spec == nil {
			continue // a gate is its inputs alone
		}
		changes += keytest.EachField(t, decl.Spec, otherValues)

		d := compile.Decl{Addr: "x", Kind: decl.Kind, Spec: decl.Spec}
		before := manifestOf(t, d, f.Env).Key()
		newer := *decl.Kind
		newer.Version++
		other := d
		other.Kind = &newer
		if manifestOf(t, other, f.Env).Key() == before {
			t.Errorf("%s: another version has the same key", decl.Kind.Name)
		}
		other = d
		other.Addr, other.Block, other.Timeout, other.Turn = "y", "b", time.Hour, 7
		if decl.Kind.Task != nil {
			other.Batch = "batch"
		}
		other.Resources = compile.Resources{GPUs: []string{"0"}, Quiet: true, Host: "h"}
		if manifestOf(t, other, f.Env).Key() != before {
			t.Errorf("%s: address, block, batch, turn, timeout or resources reach the key", decl.Kind.Name)
		}
		var host key.Builder
		host.Text("env.cpu", "", "another")
		changed := manifestOf(t, d, compile.Env{Binding: host.Finish().Facts()}).Key() != before
		if bound := decl.Kind.Purity != compile.Pure; changed != bound {
			t.Errorf("%s: the host changes the key: %v, want %v", decl.Kind.Name, changed, bound)
		}
	}
	if len(seen) != len(Kinds()) || changes < 80 {
		t.Errorf("kinds %v and %d changes: the campaign has not every kind, or the walk is broken", seen, changes)
	}
}

func manifestOf(t *testing.T, d compile.Decl, env compile.Env) key.Manifest {
	t.Helper()
	g, problems := compile.Build([]compile.Decl{d}, env)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	m, _ := g.Manifest(0, nil)
	return m
}

// blocks splits a campaign into its blocks.
func blocks(src string) []string {
	return regexp.MustCompile(`(?ms)^\w[^\n]*\{\n.*?^\}\n`).FindAllString(src, -1)
}

// disguise writes a campaign in another way: its blocks in another order, the
// attributes of a block too, remarks and blanks between them, and other names for
// everything that is a name.
func disguise(r *rand.Rand, src string) string {
	all := blocks(src)
	for i, b := range all {
		lines := strings.Split(strings.TrimSuffix(b, "\n"), "\n")
		inner := lines[1 : len(lines)-1]
		if !strings.Contains(strings.Join(inner, "\n"), "{\n") { // no block inside
			r.Shuffle(len(inner), func(i, j int) { inner[i], inner[j] = inner[j], inner[i] })
		}
		out := lines[0] + "\n"
		for _, l := range inner {
			switch r.IntN(5) {
			case 0:
				out += "  # " + strings.Repeat("remark ", r.IntN(4)) + "\n"
			case 1:
				out += "\n"
			case 2:
				l = strings.Replace(l, " = ", []string{"=", "   =  ", " = /* why */ "}[r.IntN(3)], 1)
			}
			out += l + "\n"
		}
		all[i] = out + "}\n\n"
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	src = strings.Join(all, "")
	for _, name := range []string{"fast", "slow", "short", "long", "c"} {
		if r.IntN(2) == 0 {
			src = strings.ReplaceAll(src, `"`+name+`"`, fmt.Sprintf(`"%s%d"`, name, r.IntN(100)))
		}
	}
	return src
}

// TestDisguisesReachNoKey: however a campaign is written, wherever its folder is
// and whatever the clock's zone, the keys are the same.
func TestDisguisesReachNoKey(t *testing.T) {
	if n := len(blocks(sample.Text)); n != 8 {
		t.Fatalf("%d blocks", n)
	}
	want := values(keys(t, sample.Text, nil))
	defer func(l *time.Location) { time.Local = l }(time.Local)
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		time.Local = time.FixedZone("odd", r.IntN(26*3600)-12*3600)
		t.Setenv("TZ", []string{"Asia/Kathmandu", "America/St_Johns", ""}[r.IntN(3)])
		t.Setenv("LC_ALL", []string{"tr_TR.UTF-8", "C", "de_DE@euro"}[r.IntN(3)])
		t.Setenv("LANG", []string{"ja_JP.eucJP", ""}[r.IntN(2)])
		src := disguise(r, sample.Text)
		if got := values(keys(t, src, nil)); !slices.Equal(got, want) {
			t.Fatalf("seed %d: other keys for\n%s", seed, src)
		}
	}
}
