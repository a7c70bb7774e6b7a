package key

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Type tags a fact's value. The tag is hashed, so the string "1" and the
// number 1 are different facts.
type Type byte

// The value types, in the order of their tags.
const (
	Absent   Type = '-' // no value was given; never equal to an empty one
	Text     Type = 's' // a string, byte for byte
	Int      Type = 'i' // a signed 64-bit integer
	Float    Type = 'f' // an IEEE 754 double, hashed by its bits; NaN is refused
	Bool     Type = 'b'
	Content  Type = 'd' // a Digest
	Withheld Type = 'x' // a secret: its name is the label, its value is never here
)

// Fact is one line of a manifest: "name label = value". Name says what kind of
// fact it is (flag, env, in, software); Label tells facts of one name apart
// (the flag's name) and is empty where there is only one. Value is the
// canonical text of the value; for Float it is the shortest decimal that gives
// the same bits, and only the bits are hashed.
type Fact struct {
	Name  string
	Label string
	Type  Type
	Value string
}

// Change is one difference between two manifests. Old or New is nil where the
// fact exists on one side only.
type Change struct {
	Name, Label string
	Old, New    *Fact
}

// Manifest is the canonical description of one piece of work. The zero value
// is an empty manifest. Facts are sorted by name, label, type and value.
type Manifest struct{ facts []Fact }

// Facts returns the facts in canonical order. The caller must not change them.
func (m Manifest) Facts() []Fact { return m.facts }

// Builder collects facts in any order. The zero value works. It is not safe
// for concurrent use.
type Builder struct{ facts []Fact }

// Text adds a string fact.
func (b *Builder) Text(name, label, v string) { b.add(name, label, Text, v) }

// Int adds an integer fact.
func (b *Builder) Int(name, label string, v int64) {
	b.add(name, label, Int, strconv.FormatInt(v, 10))
}

// Float adds a number that is not an integer by type. A NaN is a bug of the
// caller and panics: it has no canonical form.
func (b *Builder) Float(name, label string, v float64) {
	if math.IsNaN(v) {
		panic("key: NaN in manifest fact " + name)
	}
	if v == 0 {
		v = 0 // -0 and 0 are one value.
	}
	b.add(name, label, Float, strconv.FormatFloat(v, 'g', -1, 64))
}

// Bool adds a truth value.
func (b *Builder) Bool(name, label string, v bool) {
	b.add(name, label, Bool, strconv.FormatBool(v))
}

// Digest adds the identity of some bytes. A zero digest is added as absent.
func (b *Builder) Digest(name, label string, d Digest) {
	if d.IsZero() {
		b.Absent(name, label)
		return
	}
	b.add(name, label, Content, d.String())
}

// Absent states that the fact has no value.
func (b *Builder) Absent(name, label string) { b.add(name, label, Absent, "") }

// Secret states that a secret of this name reaches the node. Its value, or any
// digest of it, is never a fact (R031).
func (b *Builder) Secret(name string) { b.add("secret", name, Withheld, "") }

// Add copies facts of another source, such as a probe's.
func (b *Builder) Add(facts ...Fact) { b.facts = append(b.facts, facts...) }

func (b *Builder) add(name, label string, t Type, v string) {
	if name == "" || strings.ContainsAny(name, " \n\t=\"") {
		panic(fmt.Sprintf("key: fact name %q is not one word", name))
	}
	b.facts = append(b.facts, Fact{name, label, t, v})
}

// Finish sorts and freezes. Equal facts may stand several times (a set of
// inputs with equal content); they all count. The builder may be used on.
func (b *Builder) Finish() Manifest {
	facts := slices.Clone(b.facts)
	slices.SortStableFunc(facts, func(x, y Fact) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Label, y.Label),
			cmp.Compare(x.Type, y.Type), cmp.Compare(x.Value, y.Value))
	})
	return Manifest{facts}
}

// sink receives the facts of one walk. There are two: the hash and the text.
type sink interface{ fact(Fact) }

func (m Manifest) walk(s sink) {
	s.fact(Fact{"scheme", "", Int, strconv.Itoa(Scheme)})
	for _, f := range m.facts {
		s.fact(f)
	}
}

// Key hashes the manifest.
func (m Manifest) Key() Key {
	s := hashSink{h: sha256.New()}
	m.walk(&s)
	var k Key
	s.h.Sum(k[:0])
	return k
}

type hashSink struct {
	h   hash.Hash
	buf []byte
}

// fact frames each part with its length, so that no two fact lists share bytes.
func (s *hashSink) fact(f Fact) {
	b := append(s.buf[:0], byte(f.Type))
	b = frame(b, f.Name)
	b = frame(b, f.Label)
	switch f.Type {
	case Float:
		v, err := strconv.ParseFloat(f.Value, 64)
		if err != nil {
			panic("key: float fact " + f.Name + " holds " + f.Value)
		}
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(v))
	default:
		b = frame(b, f.Value)
	}
	s.h.Write(b)
	s.buf = b
}

func frame(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// Text is the stored form: one fact a line, "name [label] type value", label
// and value quoted as Go strings. ParseManifest reads it back exactly.
func (m Manifest) Text() string {
	var s textSink
	m.walk(&s)
	return s.b.String()
}

type textSink struct{ b bytes.Buffer }

func (s *textSink) fact(f Fact) {
	s.b.WriteString(f.Name)
	s.b.WriteByte(' ')
	if f.Label != "" {
		s.b.WriteString(strconv.Quote(f.Label))
		s.b.WriteByte(' ')
	}
	s.b.WriteByte(byte(f.Type))
	if f.Type != Absent && f.Type != Withheld {
		s.b.WriteByte(' ')
		s.b.WriteString(strconv.Quote(f.Value))
	}
	s.b.WriteByte('\n')
}

// ParseManifest reads what Text wrote. A manifest of another scheme is an
// error that names both numbers.
func ParseManifest(text string) (Manifest, error) {
	var m Manifest
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		f, err := parseFact(line)
		if err != nil {
			return Manifest{}, fmt.Errorf("reading manifest line %d: %w", i+1, err)
		}
		if i == 0 {
			if f.Name != "scheme" || f.Value != strconv.Itoa(Scheme) {
				return Manifest{}, fmt.Errorf("reading manifest: scheme %q, this build knows %d", f.Value, Scheme)
			}
			continue
		}
		m.facts = append(m.facts, f)
	}
	return m, nil
}

func parseFact(line string) (Fact, error) {
	name, rest, ok := strings.Cut(line, " ")
	if !ok || name == "" {
		return Fact{}, fmt.Errorf("no fact in %q", line)
	}
	f := Fact{Name: name}
	if strings.HasPrefix(rest, `"`) {
		q, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return Fact{}, fmt.Errorf("label of %q: %w", line, err)
		}
		f.Label, _ = strconv.Unquote(q)
		rest = strings.TrimPrefix(rest[len(q):], " ")
	}
	if rest == "" {
		return Fact{}, fmt.Errorf("no type in %q", line)
	}
	f.Type = Type(rest[0])
	if !strings.ContainsRune("-sifbdx", rune(f.Type)) {
		return Fact{}, fmt.Errorf("unknown type %q in %q", rest[0], line)
	}
	rest = rest[1:]
	if f.Type == Absent || f.Type == Withheld {
		if rest != "" {
			return Fact{}, fmt.Errorf("value after type in %q", line)
		}
		return f, nil
	}
	v, err := strconv.Unquote(strings.TrimPrefix(rest, " "))
	if err != nil {
		return Fact{}, fmt.Errorf("value of %q: %w", line, err)
	}
	f.Value = v
	return f, nil
}

// Diff lists what changed from old to new, in canonical order. A fact whose
// name and label stand on both sides with one value each is one Change with
// both sides; where a name and label stand several times, facts are paired in
// order of their values after equal ones are taken out.
func Diff(old, new Manifest) []Change {
	var out []Change
	a, b := old.facts, new.facts
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
	case f.Type == Text && (f.Value == "" || strings.ContainsAny(f.Value, " \n\t")):
		return strconv.Quote(f.Value)
	}
	return f.Value
}

// String is one line for people, such as "flag max_num_seqs 64 → 128".
func (c Change) String() string {
	head := c.Name
	if c.Label != "" {
		head += " " + c.Label
	}
	return head + " " + c.Old.Show() + " → " + c.New.Show()
}
