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
		if err := again.Check(rows[i]); err != nil {
			t.Fatal(err)
		}
		got := again.Manifest(rows[i])
		if got.Text() != m.Text() || got.Key() != m.Key() {
			t.Errorf("manifest %d is\n%s, was\n%s", i, got.Text(), m.Text())
		}
	}
}

func TestTableRefuses(t *testing.T) {
	a, b := Fact{"a", "", Int, "1"}, Fact{"b", "", Int, "1"}
	for _, facts := range [][]Fact{{b, a}, {a, a}, {{"a", "", Int, "01"}}, {{"a b", "", Int, "1"}}, {{"", "", Text, ""}}, {{"a", "", 'q', ""}}} {
		if _, err := TableOf(facts); err == nil {
			t.Errorf("%v passes", facts)
		}
	}
	s, err := TableOf([]Fact{a, b})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		row []uint32
		ok  bool
	}{{nil, true}, {[]uint32{0, 1, 1}, true}, {[]uint32{1, 0}, false}, {[]uint32{2}, false}} {
		if err := s.Check(tc.row); (err == nil) != tc.ok {
			t.Errorf("%v: %v", tc.row, err)
		}
	}
	if got := s.Manifest([]uint32{0, 1}).Facts(); !slices.Equal(got, []Fact{a, b}) {
		t.Error(got)
	}
}
