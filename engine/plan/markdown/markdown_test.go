package markdown

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/plan"
)

// graph has n new nodes of a kind of their own each, so that no two share a
// line, with addresses that Markdown would read as syntax.
func graph(t *testing.T, n int) (*compile.Graph, *plan.Plan) {
	t.Helper()
	var decls []compile.Decl
	for i := range n {
		k := &compile.Kind{Name: fmt.Sprintf("kind%d", i), Version: 1, Purity: compile.Pure, Outputs: []string{"out"},
			Func: func(context.Context, compile.Job) compile.Result { return compile.Result{} }}
		decls = append(decls, compile.Decl{Addr: fmt.Sprintf("node.a[\"x=`|%d\"]", i), Kind: k})
	}
	g, problems := compile.Build(decls, compile.Env{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	r, err := cache.OpenReader(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p, problems := plan.Make(g, r, plan.Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return g, p
}

func TestPlan(t *testing.T) {
	g, p := graph(t, 1)
	got := Plan("a `quoted` name", p, g, Limit)
	want := "### Plan for ``a `quoted` name``\n\n**Plan: 1 new.**\n\n" +
		"Estimate: none, as nothing like it was run before.\n\n" +
		"| | node | why |\n| --- | --- | --- |\n| `+` | ``node.a[\"x=`\\|0\"]`` | never run |\n" +
		"\n<details><summary>Nodes that may run: 1</summary>\n\n- ``+ node.a[\"x=`|0\"]``\n</details>\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTextIsNoSyntax(t *testing.T) {
	got := text("<script> @all _x_ *y* [l](u) #1 `c`\nnext")
	want := "&lt;script&gt; &#64;all \\_x\\_ \\*y\\* \\[l\\](u) \\#1 \\`c\\` next"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// However small the room, the comment fits, begins with the totals, and says
// how much was left out.
func TestNeverLongerThanAsked(t *testing.T) {
	g, p := graph(t, 3000)
	for _, limit := range []int{1000, 5000, Limit, 10 * Limit} {
		got := Plan(strings.Repeat("名", 500), p, g, limit)
		if n := utf8.RuneCountInString(got); n > limit {
			t.Errorf("limit %d: %d characters", limit, n)
		}
		if !strings.Contains(got, "Plan: 3000 new.") {
			t.Errorf("limit %d: no totals", limit)
		}
		shown := strings.Count(got, "| never run |")
		left := 0
		if i := strings.Index(got, " more lines are left out"); i >= 0 {
			if _, err := fmt.Sscanf(got[strings.LastIndexByte(got[:i], '*')+1:], "%d", &left); err != nil {
				t.Error(err)
			}
		}
		if shown+left != 3000 {
			t.Errorf("limit %d: %d lines shown and %d said to be left out, of 3000", limit, shown, left)
		}
		if opened, closed := strings.Count(got, "<details>"), strings.Count(got, "</details>"); opened != closed {
			t.Errorf("limit %d: details opened %d times, closed %d times", limit, opened, closed)
		}
	}
}
