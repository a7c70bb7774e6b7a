package markdown

import (
	"strings"
	"testing"
)

func TestTextAndCode(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Text(""), "–"}, {Text("a<b>&\n*c* [d]"), "a&lt;b&gt;&amp;<br>\\*c\\* \\[d]"}, {Text(`\`), `\\`},
		{Code(""), "–"}, {Code("a|b"), "`a|b`"}, {Code("a\nb"), "`a b`"}, {Code("a`b"), "`` a`b ``"}, {Code("``"), "``` `` ```"},
		{Block("sh", "x"), "```sh\nx\n```\n"}, {Block("", "a ```` b\n"), "`````\na ```` b\n`````\n"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	Table{Head: []string{"A", "B", "C"}, First: 1, Right: 1, Rows: [][]string{{Code("x|y"), "1", Text("p|q")}}}.Write(&b)
	want := "| A | B | C |\n| --- | ---: | --- |\n| `x\\|y` | 1 | p\\|q |\n\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
