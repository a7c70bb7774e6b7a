package compile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors"
)

func run(context.Context, Job) Result            { return Result{} }
func task([]Job, string) (executors.Task, error) { return executors.Task{}, nil }
func collect(Job, StepResult) Result             { return Result{} }
func kind(name string, p Purity, o ...string) *Kind {
	return &Kind{Name: name, Version: 1, Purity: p, Outputs: o, Func: run}
}

var (
	help  = kind("help", Pure, "text", "flags")
	parse = kind("parse", Pure, "table")
	bench = &Kind{Name: "bench", Version: 3, Purity: Measured, Outputs: []string{"row"}, Task: task, Collect: collect}
	host  = Env{Binding: []key.Fact{{Name: "env.gpu", Type: key.Text, Value: "NVIDIA H200"}}}
)

type spec struct {
	Threads int    `key:"threads"`
	Label   string `key:"-"`
}

func in(name, from, output string) Input { return Input{Name: name, From: from, Output: output} }

func mustBuild(t *testing.T, decls []Decl, env Env) *Graph {
	t.Helper()
	g, problems := Build(decls, env)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	return g
}

func TestBuildOrdersAndResolves(t *testing.T) {
	g := mustBuild(t, []Decl{
		{Addr: "report", Kind: parse, Block: "report", Inputs: []Input{
			in("row", `bench.a["threads=2"].chat`, "row"), in("row", "bench.a.chat", "row"), in("help", "help.a", "text"),
		}},
		{Addr: "history", Kind: parse, Block: "history"},
		{Addr: "help.a", Kind: help, Block: "framework.a"},
		{Addr: "bench.a.chat", Kind: bench, Block: "framework.a", Order: []string{"history", "help.a"}, Inputs: []Input{in("help", "help.a", "text")}},
		{Addr: `bench.a["threads=2"].chat`, Kind: bench, Block: "framework.a", Order: []string{"history"}},
	}, host)
	var addrs []string
	for i, a := range g.Actions {
		if int(a.ID) != i {
			t.Errorf("action %d has id %d", i, a.ID)
		}
		addrs = append(addrs, a.Addr)
	}
	want := []string{"history", "help.a", "bench.a.chat", `bench.a["threads=2"].chat`, "report"}
	if !slices.Equal(addrs, want) {
		t.Errorf("order %v, want %v", addrs, want)
	}
	report, ok := g.Lookup("report")
	if !ok || report != 4 {
		t.Errorf("Lookup(report) = %d, %v", report, ok)
	}
	if got, want := g.Actions[report].Data, []graph.NodeID{3, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("data of report = %v, want %v, parallel to its inputs", got, want)
	}
	if got, want := g.Dependants(1), []graph.NodeID{2, 4}; !slices.Equal(got, want) {
		t.Errorf("dependants of help.a = %v, want %v: data and order once", got, want)
	}
	if got, want := g.Dependants(0), []graph.NodeID{2, 3}; !slices.Equal(got, want) {
		t.Errorf("dependants of history = %v, want %v", got, want)
	}
	if ids, p := g.Select("framework.a"); p != nil || !slices.Equal(ids, []graph.NodeID{1, 2, 3}) {
		t.Errorf("Select(framework.a) = %v, %v", ids, p)
	}
	if _, p := g.Select("framework.b"); p == nil || p.String() != "framework.b: is neither a node's address nor a block (did you mean framework.a?)" {
		t.Errorf("Select(framework.b): %v", p)
	}
	for name, want := range map[string]string{"bench.b": " (did you mean bench.a.chat?)", "bench.a": " (did you mean bench.a.chat?)", "a": " (did you mean framework.a?)", "nothing.like.it": ""} {
		if _, p := g.Select(name); p == nil || p.String() != name+": is neither a node's address nor a block"+want {
			t.Errorf("Select(%s): %v, want %q", name, p, want)
		}
	}
	blocks, err := g.Blocks()
	if err != nil {
		t.Fatal(err)
	}
	if up, _ := blocks.Ancestors("framework.a"); len(up) > 0 {
		t.Errorf("blocks before framework.a: %v; an order edge draws none", up)
	}
	dashed := 0
	for _, e := range g.Picture().Edges {
		if e.Dashed {
			dashed++
		}
	}
	if dashed != 2 {
		t.Errorf("%d dashed edges, want the two of history; help.a → bench.a.chat is data too", dashed)
	}
}

func TestManifestFacts(t *testing.T) {
	decls := []Decl{
		{Addr: "help.a", Kind: help},
		{Addr: "bench.a", Kind: bench, Spec: spec{Threads: 2, Label: "x"}, Inputs: []Input{in("help", "help.a", "text"), in("flags", "help.a", "flags")}},
		{Addr: "parse.a", Kind: parse, Spec: &spec{Threads: 2}},
	}
	g := mustBuild(t, decls, host)
	text, flags := key.Sum([]byte("text")), key.Sum([]byte("flags"))
	m, known := g.Manifest(1, func(from graph.NodeID, output string) (key.Digest, bool) {
		if from != 0 {
			t.Errorf("asked for an output of node %d", from)
		}
		return map[string]key.Digest{"text": text, "flags": flags}[output], true
	})
	want := strings.Join([]string{
		`scheme i "1"`, `env.gpu s "NVIDIA H200"`, `in "flags" d "` + flags.String() + `"`,
		`in "help" d "` + text.String() + `"`, `kind "bench" i "3"`, `threads i "2"`, ``,
	}, "\n")
	if diff := cmp.Diff(want, m.Text()); diff != "" || !known {
		t.Errorf("known %v, manifest (-want +got):\n%s", known, diff)
	}
	m, known = g.Manifest(2, nil)
	if want := "scheme i \"1\"\nkind \"parse\" i \"1\"\nthreads i \"2\"\n"; !known || m.Text() != want {
		t.Errorf("a pure node has no environment: %v\n%s", known, m.Text())
	}
	m, known = g.Manifest(1, func(_ graph.NodeID, output string) (key.Digest, bool) { return text, output == "text" })
	if known || strings.Contains(m.Text(), `"flags"`) || !strings.Contains(m.Text(), `in "help"`) {
		t.Errorf("with one input unknown: %v\n%s", known, m.Text())
	}
	if _, known = g.Manifest(1, func(graph.NodeID, string) (key.Digest, bool) { return key.Digest{}, true }); known {
		t.Error("a zero digest was taken as known")
	}
}

// Inputs of one name are a set: neither addresses nor their order are keyed.
func TestManifestInputsAreASet(t *testing.T) {
	digests := map[string]key.Digest{"p": key.Sum([]byte("1")), "q": key.Sum([]byte("2")), "r": key.Sum([]byte("1"))}
	keyOf := func(addrs ...string) key.Key {
		decls := []Decl{{Addr: "sum", Kind: parse}}
		for _, a := range addrs {
			decls = append(decls, Decl{Addr: a, Kind: help})
			decls[0].Inputs = append(decls[0].Inputs, in("row", a, "text"))
		}
		g := mustBuild(t, decls, host)
		id, _ := g.Lookup("sum")
		m, known := g.Manifest(id, func(from graph.NodeID, _ string) (key.Digest, bool) {
			return digests[g.Actions[from].Addr], true
		})
		if !known {
			t.Fatal("manifest is not known")
		}
		return m.Key()
	}
	if keyOf("p", "q") != keyOf("q", "p") || keyOf("p", "q") != keyOf("q", "r") {
		t.Error("order or address of inputs changed the key")
	}
	if keyOf("p") == keyOf("q") || keyOf("p") == keyOf("p", "r") {
		t.Error("another content, or the same twice, gave the same key")
	}
}

func TestBuildProblems(t *testing.T) {
	both := &Kind{Name: "both", Version: 1, Purity: Pure, Outputs: []string{"o"}, Func: run, Task: task, Collect: collect}
	type keyed struct {
		In string `key:"in"`
	}
	type gpu struct {
		GPU string `key:"env.gpu"`
	}
	for name, c := range map[string]struct {
		decls []Decl
		env   Env
		want  []string
	}{
		"twice": {[]Decl{{Addr: "help.a", Kind: help, Block: "x"}, {Addr: "help.a", Kind: help, Block: "y"}}, host,
			[]string{`help.a: is declared twice, as number 1 (block "x") and number 2 (block "y")`}},
		"unknown": {[]Decl{{Addr: "help.vllm", Kind: help}, {Addr: "p", Kind: parse, Inputs: []Input{in("h", "help.vlm", "text")}, Order: []string{"zzzzzzzzz"}}}, host,
			[]string{"p: its input h names help.vlm, which does not exist (did you mean help.vllm?)", "p: its order names zzzzzzzzz, which does not exist"}},
		"output": {[]Decl{{Addr: "h", Kind: help}, {Addr: "p", Kind: parse, Inputs: []Input{in("h", "h", "txt")}}}, host,
			[]string{`p: its input h takes output "txt" of h, but kind help has text, flags`}},
		"input": {[]Decl{{Addr: "h", Kind: help}, {Addr: "p", Kind: parse, Inputs: []Input{in("", "h", "text"), in("h", "h", "text"), in("h", "h", "text")}}}, host,
			[]string{"p: its input from h has no name", `p: takes output "text" of h as input "h" twice`}},
		"cycle": {[]Decl{
			{Addr: "a", Kind: parse, Inputs: []Input{in("x", "c", "table")}}, {Addr: "b", Kind: parse, Order: []string{"a"}},
			{Addr: "c", Kind: parse, Inputs: []Input{in("x", "b", "table")}}, {Addr: "d", Kind: parse, Order: []string{"c"}}}, host,
			[]string{"a: is part of a cycle: a needs c needs b needs a"}},
		"self": {[]Decl{{Addr: "a", Kind: parse, Order: []string{"a"}}}, host, []string{"a: is part of a cycle: a needs a"}},
		"kinds": {[]Decl{
			{Addr: "none"}, {Addr: "a", Kind: both}, {Addr: "b", Kind: kind("help", Pure, "o")}, {Addr: "c", Kind: help},
			{Addr: "d", Kind: &Kind{Name: "a kind", Outputs: []string{"o", "o", ""}}},
			{Addr: "e", Kind: &Kind{Name: "half", Version: 1, Purity: Pure, Outputs: []string{"o"}, Task: task}},
			{Addr: "f", Kind: kind("mute", Pure)}}, host, []string{
			"none: has no kind", "a: kind both has both a function and a task",
			"c: is of a second kind called help; a kind's name is part of the key and must be its own",
			`d: its kind's name "a kind" is not made of letters, digits, _ and -`, "d: kind a kind has version 0; the first version is 1",
			`d: kind a kind has purity ""; write pure, env_bound or measured`,
			`d: kind a kind has an output "o" that is empty or stands twice`, `d: kind a kind has an output "" that is empty or stands twice`,
			"d: kind a kind has neither a function nor a task, and not all its nodes are skipped",
			"e: kind half has a task without Collect, or Collect without a task",
			"f: kind mute declares no output; a node without one can never be known to be done"}},
		"environment": {[]Decl{{Addr: "b", Kind: bench}}, Env{},
			[]string{`b: kind bench is measured, but the environment has no binding fact, so its results would hold on every host; bind at least one, "unknown" if need be`}},
		"environment facts": {nil, Env{Binding: []key.Fact{{Name: "env.cpu", Type: key.Text}, {Name: "in", Type: key.Int, Value: "1"}, {Name: "env.cpu", Type: key.Text, Value: "x"}}},
			[]string{`environment fact "env.cpu" "" is empty; write "unknown" where it cannot be found out`,
				`environment fact "in" "" stands twice or has no usable name`, `environment fact "env.cpu" "" stands twice or has no usable name`}},
		"reserved facts": {[]Decl{{Addr: "h", Kind: help, Spec: keyed{}}, {Addr: "b", Kind: bench, Spec: gpu{}}, {Addr: "p", Kind: parse, Spec: gpu{}}}, host, []string{
			`h: its spec has a fact called "in", which the engine adds by itself; give the field another key tag`,
			`b: its spec has a fact called "env.gpu", which the engine adds by itself; give the field another key tag`}},
		"batches": {[]Decl{
			{Addr: "a", Kind: bench, Block: "x", Batch: "1"}, {Addr: "b", Kind: bench, Block: "y", Batch: "1"},
			{Addr: "c", Kind: bench, Block: "x", Batch: "1", Resources: Resources{Quiet: true}}, {Addr: "h", Kind: help, Batch: "2"}}, host, []string{
			"b: is in batch 1 with a, which is of another kind or block", "c: is in batch 1 with a, which asks for other resources",
			"h: is in batch 2, but kind help has no task that could run one"}},
		"batch waits for itself": {[]Decl{
			{Addr: "a", Kind: bench, Batch: "1"}, {Addr: "p", Kind: parse, Inputs: []Input{in("row", "a", "row")}},
			{Addr: "b", Kind: bench, Batch: "1", Inputs: []Input{in("table", "p", "table")}}}, host,
			[]string{"a: a batch is run as a whole, and this one waits for itself: batch 1 needs p needs batch 1"}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			g, problems := Build(c.decls, c.env)
			var got []string
			for _, p := range problems {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" || g != nil {
				t.Errorf("graph %v, problems (-want +got):\n%s", g, diff)
			}
		})
	}
}

func TestSkippedNodeNeedsNoFunction(t *testing.T) {
	k := &Kind{Name: "later", Version: 1, Purity: Pure, Outputs: []string{"o"}}
	mustBuild(t, []Decl{{Addr: "a", Kind: k, Skip: "excluded by the user"}}, Env{})
	if _, problems := Build([]Decl{{Addr: "a", Kind: k, Skip: "x"}, {Addr: "b", Kind: k}}, Env{}); len(problems) != 1 {
		t.Errorf("problems %v, want one", problems)
	}
}

func TestAddresses(t *testing.T) {
	for _, ok := range []string{
		"a", "help.tensorrt_llm", `bench.vllm["max_num_seqs=128"].chat`, "rlcr.round[3].gap", `a["é \"x\" . ["]["b"][0]`, "qwen3-8b.c4",
	} {
		if fault := addressFault(ok); fault != "" {
			t.Errorf("%s: %s", ok, fault)
		}
	}
	for bad, want := range map[string]string{
		"": "empty", "a b": `part "a b"`, "a.": `part ""`, ".a": `part ""`, "a..b": `part ""`, "a[x]": "after [", "a[\"x]": "after [",
		`a["x"`: "after [", `a[""x]`: "after [", `a["x"]b`: "after ]", "a[\"\x1b\"]": "after [", `a["\x41"]`: "after [", "a/b": `part "a/b"`, "a\n": "part",
	} {
		if fault := addressFault(bad); !strings.Contains(fault, want) {
			t.Errorf("%q: %q, want %q", bad, fault, want)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	names := []string{"help.sglang", "help.vllm", "bench.vllm.chat"}
	for want, hint := range map[string]string{
		"help.vlm": " (did you mean help.vllm?)", "bench.vllm.chta": " (did you mean bench.vllm.chat?)",
		"report": "", "x": "",
	} {
		if got := didYouMean(want, names); got != hint {
			t.Errorf("didYouMean(%q) = %q, want %q", want, got, hint)
		}
	}
	// The textbook example: k→s, e→i, +g.
	if d := distance("kitten", "sitting"); d != 3 {
		t.Errorf("distance(kitten, sitting) = %d, want 3", d)
	}
}

// Permuting the declarations changes no manifest.
func TestDeclaredOrderIsNotKeyed(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		decls := random(r, 2+r.IntN(20))
		want := manifests(t, decls)
		r.Shuffle(len(decls), func(i, j int) { decls[i], decls[j] = decls[j], decls[i] })
		if diff := cmp.Diff(want, manifests(t, decls)); diff != "" {
			t.Fatalf("(-declared +shuffled):\n%s", diff)
		}
	}
}

func random(r *rand.Rand, n int) []Decl {
	decls := make([]Decl, n)
	for i := range decls {
		decls[i] = Decl{Addr: fmt.Sprintf("n[%d]", i), Kind: []*Kind{parse, bench}[r.IntN(2)], Spec: spec{Threads: r.IntN(3)}}
		for j := range i {
			if r.IntN(4) == 0 {
				decls[i].Inputs = append(decls[i].Inputs, in("x", decls[j].Addr, decls[j].Kind.Outputs[0]))
			}
		}
	}
	return decls
}

// manifests are the texts by address, each output being the digest of its
// node's manifest.
func manifests(t *testing.T, decls []Decl) map[string]string {
	g := mustBuild(t, decls, host)
	out := map[string]string{}
	for i := range g.Actions {
		m, known := g.Manifest(graph.NodeID(i), func(from graph.NodeID, _ string) (key.Digest, bool) {
			return key.Sum([]byte(out[g.Actions[from].Addr])), true
		})
		if !known {
			t.Fatalf("%s is not known", g.Actions[i].Addr)
		}
		out[g.Actions[i].Addr] = m.Text()
	}
	return out
}

const large = 100_000

func chain() []Decl {
	decls := make([]Decl, large)
	for i := range decls {
		decls[i] = Decl{Addr: fmt.Sprintf("n[%d]", i), Kind: parse}
		if i > 0 {
			decls[i].Inputs = []Input{in("x", decls[i-1].Addr, "table")}
		}
	}
	return decls
}

// Deep and wide graphs are ordinary: nothing recurses, nothing is quadratic
// (either would not end in the time that go test allows).
func TestLargeGraphs(t *testing.T) {
	decls := chain()
	slices.Reverse(decls)
	g := mustBuild(t, decls, Env{})
	if g.Actions[large-1].Addr != fmt.Sprintf("n[%d]", large-1) || len(g.Dependants(0)) != 1 {
		t.Errorf("the chain ends in %s", g.Actions[large-1].Addr)
	}
	decls[large-1].Inputs = []Input{in("x", decls[0].Addr, "table")}
	if _, problems := Build(decls, Env{}); len(problems) != 1 || !strings.Contains(problems[0].Text, "… (99960 more)") {
		t.Errorf("a cycle of 100000: %d problems", len(problems))
	}
	fan := chain()
	sum := Decl{Addr: "sum", Kind: parse}
	for i := range fan {
		fan[i].Inputs = nil
		sum.Inputs = append(sum.Inputs, in("x", fan[i].Addr, "table"))
	}
	g = mustBuild(t, append(fan, sum), Env{})
	if len(g.Needs(large)) != large {
		t.Errorf("the fan-in has %d inputs", len(g.Needs(large)))
	}
	for i := range fan {
		fan[i].Inputs = []Input{in("x", "nobody", "table")}
	}
	if _, problems := Build(fan, Env{}); len(problems) != large {
		t.Errorf("%d problems, want one a node", len(problems))
	}
}

func BenchmarkBuildChain(b *testing.B) {
	decls := chain()
	for b.Loop() {
		if _, problems := Build(decls, Env{}); len(problems) > 0 {
			b.Fatal(problems[0])
		}
	}
}
