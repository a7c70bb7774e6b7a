package key

import "fmt"

// Table holds the facts of many manifests, each fact once, in no order: the
// cells of a campaign differ in few of theirs. It does not change and may be read
// by many goroutines.
type Table struct{ facts []Fact }

// Tabulate gathers the facts of manifests. Row i names those of ms[i] by their
// places in Facts, in order. It is quick where a manifest says much of what the
// one before it says.
func Tabulate(ms []Manifest) (t Table, rows [][]uint32) {
	found := map[Fact]uint32{}
	var before []Fact
	var beforeRow []uint32
	rows = make([][]uint32, len(ms))
	for i, m := range ms {
		facts := m.Facts()
		row, at := make([]uint32, len(facts)), 0
		for k := range facts {
			order := 1
			for ; at < len(before); at++ {
				if order = compareFacts(&before[at], &facts[k]); order >= 0 {
					break
				}
			}
			if order == 0 {
				row[k] = beforeRow[at]
				continue
			}
			place, ok := found[facts[k]]
			if !ok {
				place = uint32(len(t.facts))
				found[facts[k]] = place
				t.facts = append(t.facts, facts[k])
			}
			row[k] = place
		}
		rows[i], before, beforeRow = row, facts, row
	}
	return t, rows
}

// TableOf is the table of what Facts returned. A fact that is none is an error.
func TableOf(facts []Fact) (Table, error) {
	for i := range facts {
		if err := facts[i].check(); err != nil {
			return Table{}, err
		}
		if !word(facts[i].Name) {
			return Table{}, fmt.Errorf("fact %d has the name %q, which is none", i, facts[i].Name)
		}
	}
	return Table{facts}, nil
}

// Facts are all of them, by their places. The caller must not change them.
func (t Table) Facts() []Fact { return t.facts }

// Has reports whether a row names only facts that are there.
func (t Table) Has(row []uint32) bool {
	for _, at := range row {
		if int(at) >= len(t.facts) {
			return false
		}
	}
	return true
}

// Manifest is that of a row that Tabulate made. It keeps the row.
func (t Table) Manifest(row []uint32) Manifest {
	if len(row) == 0 {
		return Manifest{}
	}
	return Manifest{facts: t.facts, row: row}
}
