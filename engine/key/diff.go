package key

import (
	"cmp"
	"strconv"
	"strings"
)

// Change is one difference between two manifests. Old or New is nil where the
// fact exists on one side only.
type Change struct {
	Name, Label string
	Old, New    *Fact
}

// Diff lists what changed from old to new, in canonical order. A fact whose
// name and label stand on both sides with one value each is one Change with
// both sides; where a name and label stand several times, facts are paired in
// order of their values after equal ones are taken out.
func Diff(old, new Manifest) []Change {
	var out []Change
	a, b := old.Facts(), new.Facts()
	for len(a) > 0 || len(b) > 0 {
		switch c := compareID(a, b); {
		case c < 0:
			out = append(out, Change{a[0].Name, a[0].Label, &a[0], nil})
			a = a[1:]
		case c > 0:
			out = append(out, Change{b[0].Name, b[0].Label, nil, &b[0]})
			b = b[1:]
		default:
			na, nb := run(a), run(b)
			out = append(out, diffRun(a[:na], b[:nb])...)
			a, b = a[na:], b[nb:]
		}
	}
	return out
}

func compareID(a, b []Fact) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return cmp.Or(cmp.Compare(a[0].Name, b[0].Name), cmp.Compare(a[0].Label, b[0].Label))
}

// run counts the leading facts that share name and label.
func run(f []Fact) int {
	n := 1
	for n < len(f) && f[n].Name == f[0].Name && f[n].Label == f[0].Label {
		n++
	}
	return n
}

func diffRun(a, b []Fact) []Change {
	var restA, restB []Fact
	for len(a) > 0 && len(b) > 0 {
		switch c := cmp.Or(cmp.Compare(a[0].Type, b[0].Type), cmp.Compare(a[0].Value, b[0].Value)); {
		case c == 0:
			a, b = a[1:], b[1:]
		case c < 0:
			restA, a = append(restA, a[0]), a[1:]
		default:
			restB, b = append(restB, b[0]), b[1:]
		}
	}
	restA, restB = append(restA, a...), append(restB, b...)
	var out []Change
	for i := range max(len(restA), len(restB)) {
		var c Change
		if i < len(restA) {
			c.Old = &restA[i]
			c.Name, c.Label = restA[i].Name, restA[i].Label
		}
		if i < len(restB) {
			c.New = &restB[i]
			c.Name, c.Label = restB[i].Name, restB[i].Label
		}
		out = append(out, c)
	}
	return out
}

// Show is the value for people: text unquoted where it is plain, digests
// shortened, absent as "(none)".
func (f *Fact) Show() string {
	switch {
	case f == nil || f.Type == Absent:
		return "(none)"
	case f.Type == Withheld:
		return "(secret)"
	case f.Type == Content:
		if d, err := ParseDigest(f.Value); err == nil {
			return "sha256:" + d.Short()
		}
	case f.Type == Text && !plain(f.Value):
		return strconv.Quote(f.Value)
	}
	return f.Value
}

// plain reports whether text can be shown without quotes: it is not empty and
// quoting would only add the quotes.
func plain(s string) bool {
	return s != "" && !strings.Contains(s, " ") && strconv.Quote(s) == `"`+s+`"`
}

var typeWords = map[Type]string{Absent: "absent", Text: "text", Int: "integer", Float: "float",
	Bool: "boolean", Content: "content", Withheld: "secret"}

// String is one line for people, such as "flag max_num_seqs 64 → 128". Two
// values that look the same and are not (the text "1" and the number 1, two
// digests with one beginning) are shown in full with their types.
func (c Change) String() string {
	head := c.Name
	if c.Label != "" {
		head += " " + c.Label
	}
	was, is := c.Old.Show(), c.New.Show()
	if was == is && c.Old != nil && c.New != nil {
		was = typeWords[c.Old.Type] + " " + strconv.Quote(c.Old.Value)
		is = typeWords[c.New.Type] + " " + strconv.Quote(c.New.Value)
	}
	return head + " " + was + " → " + is
}
