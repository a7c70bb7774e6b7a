package key

import (
	"errors"
	"fmt"
	"slices"
)

// Table holds the facts of many manifests, each fact once: the cells of a
// campaign differ in few of theirs. It does not change and may be read by many
// goroutines.
type Table struct{ facts []Fact }

// Tabulate gathers the facts of manifests. Row i names those of ms[i] by their
// places in Facts, in order. It is quick where a manifest says much of what the
// one before it says.
func Tabulate(ms []Manifest) (t Table, rows [][]uint32) {
	found := map[Fact]uint32{} // by the order in which they were found
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
	return t.sorted(rows), rows
}

// sorted is the table in order; rows are made to say the same of it.
func (t Table) sorted(rows [][]uint32) Table {
	order := make([]uint32, len(t.facts))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(i, j uint32) int { return compareFacts(&t.facts[i], &t.facts[j]) })
	out, place := Table{make([]Fact, len(order))}, make([]uint32, len(order))
	for i, from := range order {
		out.facts[i], place[from] = t.facts[from], uint32(i)
	}
	for _, row := range rows {
		for k := range row {
			row[k] = place[row[k]]
		}
	}
	return out
}

// TableOf is what Facts returned; other facts, or another order, are an error.
func TableOf(facts []Fact) (Table, error) {
	for i := range facts {
		if err := facts[i].check(); err != nil {
			return Table{}, err
		}
		if !word(facts[i].Name) || i > 0 && compareFacts(&facts[i-1], &facts[i]) >= 0 {
			return Table{}, fmt.Errorf("fact %d, %s, has no name of a fact or is out of order", i, facts[i].Name)
		}
	}
	return Table{facts}, nil
}

// Facts are all of them, in order. The caller must not change them.
func (t Table) Facts() []Fact { return t.facts }

// Check says why Manifest may not be asked for a row; nil if it may.
func (t Table) Check(row []uint32) error {
	before := uint32(0)
	for _, at := range row {
		if at < before || int(at) >= len(t.facts) {
			return errors.New("a row of facts is out of order or out of range")
		}
		before = at
	}
	return nil
}

// Manifest is that of a row that Tabulate made, or that was checked. It keeps
// the row.
func (t Table) Manifest(row []uint32) Manifest {
	if len(row) == 0 {
		return Manifest{}
	}
	return Manifest{facts: t.facts, row: row}
}
