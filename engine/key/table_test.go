package key

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Random manifests come back with their text and key, also those that hold one
// fact twice.
func TestTableGivesManifestsBack(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var ms []Manifest
	for range 300 {
		var b Builder
		for range r.IntN(8) {
			name := []string{"a", "b", "flag"}[r.IntN(3)]
			switch r.IntN(4) {
			case 0:
				b.Int(name, "x", int64(r.IntN(3)))
			case 1:
				b.Text(name, []string{"", "é\n"}[r.IntN(2)], []string{"", "1", "\xff"}[r.IntN(3)])
			case 2:
				b.Digest("in", name, Sum([]byte{byte(r.IntN(3))}))
			case 3:
				b.Absent(name, "")
			}
		}
		ms = append(ms, b.Finish().With("in", r.IntN(2), func(int) (string, Digest) { return "later", Sum(nil) }))
	}
	table, rows := Tabulate(ms)
	again, err := TableOf(table.Facts())
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range ms {
		if !again.Has(rows[i]) {
			t.Fatalf("row %v is not in the table", rows[i])
		}
		got := again.Manifest(rows[i])
		if got.Text() != m.Text() || got.Key() != m.Key() {
			t.Errorf("manifest %d is\n%s, was\n%s", i, got.Text(), m.Text())
		}
	}
}

func TestTableRefuses(t *testing.T) {
	a, b := Fact{"a", "", Int, "1"}, Fact{"b", "", Int, "1"}
	for _, f := range []Fact{{"a", "", Int, "01"}, {"a b", "", Int, "1"}, {"", "", Text, ""}, {"a", "", 'q', ""}} {
		if _, err := TableOf([]Fact{a, f}); err == nil {
			t.Errorf("%v passes", f)
		}
	}
	s, err := TableOf([]Fact{a, b})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Has(nil) || !s.Has([]uint32{0, 1, 1}) || s.Has([]uint32{0, 2}) {
		t.Error("it has rows that it has not, or has none of those that it has")
	}
	if got := s.Manifest([]uint32{0, 1}).Facts(); !slices.Equal(got, []Fact{a, b}) {
		t.Error(got)
	}
}
