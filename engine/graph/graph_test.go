package graph

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func edges(pairs ...NodeID) []Edge {
	var out []Edge
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, Edge{pairs[i], pairs[i+1]})
	}
	return out
}

func TestActionsListsAreAscendingAndWithoutRepeats(t *testing.T) {
	a := NewActions(5, edges(0, 4, 0, 1, 1, 4, 0, 4, 3, 4, 0, 2))
	want := map[NodeID][2][]NodeID{
		0: {{1, 2, 4}, {}}, 1: {{4}, {0}}, 2: {{}, {0}}, 3: {{4}, {}}, 4: {{}, {0, 1, 3}},
	}
	for id, w := range want {
		if got := [2][]NodeID{append([]NodeID{}, a.Out(id)...), append([]NodeID{}, a.In(id)...)}; !cmp.Equal(got, w) {
			t.Errorf("node %d: out, in = %v, want %v", id, got, w)
		}
	}
	if a.Len() != 5 {
		t.Errorf("Len = %d, want 5", a.Len())
	}
}

func TestActionsAncestors(t *testing.T) {
	a := NewActions(6, edges(0, 2, 1, 2, 2, 4, 3, 5))
	marked := []bool{4: true, 5: false}
	a.Ancestors(marked)
	if want := []bool{true, true, true, false, true, false}; !slices.Equal(marked, want) {
		t.Errorf("ancestors of 4 = %v, want %v", marked, want)
	}
}

func TestActionsRefusesBackwardEdges(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an edge from 2 to 1 was accepted")
		}
	}()
	NewActions(3, edges(2, 1))
}

func TestSort(t *testing.T) {
	for _, c := range []struct {
		name         string
		n            int
		edges        []Edge
		order, cycle []NodeID
	}{
		{"empty", 0, nil, []NodeID{}, nil},
		{"declared order is kept", 4, edges(0, 3, 1, 2), []NodeID{0, 1, 2, 3}, nil},
		{"inputs declared later come first and the rest stays", 4, edges(3, 1), []NodeID{0, 2, 3, 1}, nil},
		{"first declared among the ready", 5, edges(4, 0, 4, 1, 0, 2), []NodeID{3, 4, 0, 1, 2}, nil},
		{"self", 2, edges(1, 1), nil, []NodeID{1}},
		{"pair from its first", 4, edges(3, 1, 1, 3, 0, 1), nil, []NodeID{1, 3}},
		{"what follows a cycle is not on it", 5, edges(1, 2, 2, 1, 2, 3, 3, 4), nil, []NodeID{1, 2}},
		{"direction of the edges", 3, edges(0, 2, 2, 1, 1, 0), nil, []NodeID{0, 2, 1}},
		{"shortest through its node", 5, edges(0, 1, 1, 2, 2, 3, 3, 0, 1, 0), nil, []NodeID{0, 1}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			order, cycle := Sort(c.n, c.edges)
			if !slices.Equal(order, c.order) || !slices.Equal(cycle, c.cycle) {
				t.Errorf("order %v, cycle %v; want %v, %v", order, cycle, c.order, c.cycle)
			}
		})
	}
}

// A random graph with arbitrary edges either has an order in which each edge
// goes forward, or a path of edges that ends where it began.
func TestSortOrderOrCycleHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	cycles := 0
	for range 2000 {
		n := 1 + r.IntN(12)
		var es []Edge
		for range r.IntN(2 * n) {
			es = append(es, Edge{NodeID(r.IntN(n)), NodeID(r.IntN(n))})
		}
		order, cycle := Sort(n, es)
		if cycle == nil {
			for _, e := range es {
				if slices.Index(order, e.From) >= slices.Index(order, e.To) {
					t.Fatalf("order %v breaks %v", order, e)
				}
			}
			continue
		}
		cycles++
		for i, id := range cycle {
			if !slices.Contains(es, Edge{id, cycle[(i+1)%len(cycle)]}) {
				t.Fatalf("cycle %v is no path of %v", cycle, es)
			}
		}
		shuffled := slices.Clone(es)
		r.Shuffle(len(es), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if _, again := Sort(n, shuffled); !slices.Equal(again, cycle) {
			t.Fatalf("cycle %v, but %v when edges are shuffled", cycle, again)
		}
	}
	if cycles < 200 {
		t.Errorf("only %d of 2000 graphs had cycles", cycles)
	}
}

const large = 100_000

// A chain declared backwards, and a fan-in: no recursion, no closure. With
// either, this test would not end in the time that go test allows.
func TestSortLargeShapes(t *testing.T) {
	chain := make([]Edge, 0, large)
	for i := range NodeID(large - 1) {
		chain = append(chain, Edge{i + 1, i})
	}
	order, _ := Sort(large, chain)
	for i, id := range order {
		if int(id) != large-1-i {
			t.Fatalf("order[%d] = %d", i, id)
		}
	}
	if _, cycle := Sort(large, append(chain, Edge{0, large - 1})); len(cycle) != large {
		t.Errorf("cycle of %d nodes, want %d", len(cycle), large)
	}
	fan := make([]Edge, 0, large)
	for i := range NodeID(large) {
		fan = append(fan, Edge{i, large})
	}
	if a := NewActions(large+1, fan); len(a.In(large)) != large || len(a.Out(7)) != 1 {
		t.Errorf("fan-in has %d inputs, want %d", len(a.In(large)), large)
	}
}

func blocks(t *testing.T) *Blocks {
	t.Helper()
	b, err := NewBlocks([]string{"report", "model", "framework.vllm", "framework.sglang", "scenario.chat"}, []BlockEdge{
		{"framework.vllm", "report"}, {"framework.sglang", "report"}, {"model", "framework.vllm"},
		{"model", "framework.sglang"}, {"scenario.chat", "framework.vllm"}, {"model", "framework.vllm"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBlocksRelatives(t *testing.T) {
	b := blocks(t)
	want := []string{"model", "framework.sglang", "scenario.chat", "framework.vllm", "report"}
	if !slices.Equal(b.Names(), want) {
		t.Errorf("names %v, want %v", b.Names(), want)
	}
	up, err := b.Ancestors("framework.vllm")
	if want := []string{"model", "scenario.chat"}; err != nil || !slices.Equal(up, want) {
		t.Errorf("ancestors %v, %v; want %v", up, err, want)
	}
	down, err := b.Descendants("model")
	if want := []string{"framework.sglang", "framework.vllm", "report"}; err != nil || !slices.Equal(down, want) {
		t.Errorf("descendants %v, %v; want %v", down, err, want)
	}
	if _, err := b.Ancestors("nobody"); err == nil || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("ancestors of an unknown block: %v", err)
	}
}

func TestBlocksRefuses(t *testing.T) {
	for _, c := range []struct {
		names []string
		edges []BlockEdge
		want  string
	}{
		{[]string{"a", "a"}, nil, `block name "a" is empty or stands twice`},
		{[]string{""}, nil, `block name "" is empty or stands twice`},
		{[]string{"a"}, []BlockEdge{{"a", "b"}}, `edge "a" → "b" names an unknown block`},
		{[]string{"a", "b", "c"}, []BlockEdge{{"b", "c"}, {"c", "a"}, {"a", "b"}}, "cycle a → b → c → a"},
		{[]string{"a"}, []BlockEdge{{"a", "a"}}, "cycle a → a"},
	} {
		if _, err := NewBlocks(c.names, c.edges); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewBlocks(%v, %v) = %v, want %q", c.names, c.edges, err, c.want)
		}
	}
}

// A chain of 300 blocks is well within the budget that heimdalr/dag can bear;
// one of 4,000 is not, and is refused before it is fed.
func TestBlocksBudget(t *testing.T) {
	chain := func(n int) error {
		var names []string
		var es []BlockEdge
		for i := range n {
			names = append(names, "b"+string(rune('0'+i%10))+strings.Repeat("x", i/10))
			if i > 0 {
				es = append(es, BlockEdge{names[i-1], names[i]})
			}
		}
		_, err := NewBlocks(names, es)
		return err
	}
	if err := chain(300); err != nil {
		t.Error(err)
	}
	// 0 + 1 + … + 3998 ancestors of the sources, and one step an edge.
	if err := chain(4000); err == nil || !strings.Contains(err.Error(), "7998000 steps") {
		t.Errorf("a chain of 4000: %v", err)
	}
	if err := chain(maxBlocks + 1); err == nil {
		t.Error("a chain beyond the bound was accepted")
	}
}

func TestPictureForms(t *testing.T) {
	p := blocks(t).Picture()
	p.Nodes = append(p.Nodes, Shape{ID: `bench["a=\"1\""].<x>`, Label: "50 % #1 \"quoted\"\nline", Class: "stale"})
	p.Edges = append(p.Edges, Arrow{From: "model", To: `bench["a=\"1\""].<x>`, Dashed: true})
	j, err := p.JSON()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "blocks.dot", p.Dot())
	golden(t, "blocks.mmd", p.Mermaid())
	golden(t, "blocks.json", string(j))
	if j, err := (Picture{}).JSON(); err != nil || string(j) != "{\n  \"nodes\": [],\n  \"edges\": []\n}\n" {
		t.Errorf("empty picture: %s, %v", j, err)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("SOTABUILD_UPDATE") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func BenchmarkSort(b *testing.B) {
	chain := make([]Edge, 0, large)
	for i := range NodeID(large - 1) {
		chain = append(chain, Edge{i + 1, i})
	}
	for b.Loop() {
		Sort(large, chain)
	}
}
