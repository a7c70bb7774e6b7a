package show

import (
	"encoding/csv"
	"strings"
	"testing"
)

func TestCells(t *testing.T) {
	for _, c := range []struct {
		cell           any
		human, machine string
	}{
		{Micros(226_599_432), "226,599.4 µs", "226599.432"},
		{Micros(1_250), "1.3 µs", "1.250"},
		{Micros(-1_500), "-1.5 µs", "-1.500"},
		{Micros(999_960), "1,000.0 µs", "999.960"},
		{Micros(0), "0.0 µs", "0.000"},
		{Millis(12_345_678), "12.346", "12.345678"},
		{Share(0.84751), "84.75 %", "0.847510"},
		{Share(0.01), "1.00 %", "0.010000"},
		{7, "7", "7"},
		{"a|b", "a|b", "a|b"},
		{Name(strings.Repeat("k", 200)), strings.Repeat("k", 119) + "…", strings.Repeat("k", 200)},
	} {
		if got := human(c.cell); got != c.human {
			t.Errorf("human(%#v) = %q, want %q", c.cell, got, c.human)
		}
		if got := machine(c.cell); got != c.machine {
			t.Errorf("machine(%#v) = %q, want %q", c.cell, got, c.machine)
		}
	}
	if got := fixed(156_885_123_456, 1_000_000_000, 9); got != "156.885123456" {
		t.Errorf("nine decimals: %s", got)
	}
}

func TestTableForms(t *testing.T) {
	table := Table{Title: "T", Head: []string{"a", "b"}, Rows: [][]any{{"x|y\nz", Micros(1500)}}, Notes: []string{"n."}}
	var md, out strings.Builder
	if err := table.Markdown(&md, 2); err != nil {
		t.Fatal(err)
	}
	want := "## T\n\n| a | b |\n| --- | --- |\n| x\\|y z | 1.5 µs |\n\nn.\n\n"
	if md.String() != want {
		t.Errorf("Markdown %q, want %q", md.String(), want)
	}
	if err := table.CSV(&out, []string{"lead"}, []string{"l"}); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || strings.Join(rows[0], ";") != "table;l;a;b" || rows[1][2] != "x|y\nz" || rows[1][3] != "1.500" {
		t.Errorf("CSV %q", rows)
	}
	empty := Table{Title: "T", Empty: "nothing, because."}
	md.Reset()
	if err := empty.Markdown(&md, 2); err != nil || !strings.Contains(md.String(), "nothing, because.") {
		t.Errorf("an empty table says %q, %v", md.String(), err)
	}
}

func TestList(t *testing.T) {
	if got := list([]int{0, 1, 2, 5, 7, 8}); got != "0–2, 5, 7–8" {
		t.Errorf("list = %q", got)
	}
}
