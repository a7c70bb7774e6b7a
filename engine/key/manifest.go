package key

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Type tags a fact's value. The tag is hashed, so the string "1" and the
// number 1 are different facts.
type Type byte

// The value types, in the order of their tags.
const (
	Absent   Type = '-' // no value was given; never equal to an empty one
	Text     Type = 's' // a string, byte for byte
	Int      Type = 'i' // a signed 64-bit integer, hashed by its bits
	Float    Type = 'f' // an IEEE 754 double, hashed by its bits; NaN is refused
	Bool     Type = 'b'
	Content  Type = 'd' // a Digest
	Withheld Type = 'x' // a secret: its name is the label, its value is never here
)

// Fact is one line of a manifest: "name label = value". Name says what kind of
// fact it is (flag, env, in, software); Label tells facts of one name apart
// (the flag's name) and is empty where there is only one. Value is the
// canonical text of the value; for Float it is the shortest decimal that gives
// the same bits. Of numbers only the bits are hashed.
type Fact struct {
	Name  string
	Label string
	Type  Type
	Value string
}

// Manifest is the canonical description of one piece of work. The zero value
// is an empty manifest. Facts are sorted by name, label, type and value.
type Manifest struct {
	facts []Fact
	// row are the places of the manifest's own facts among those of a Table; nil
	// where all are its own.
	row []uint32
	// added are those of With, sorted too: most manifests are hashed once and
	// never looked at, so the two stay apart, and facts shared.
	added []Fact
}

// Facts returns the facts in canonical order. The caller must not change them.
func (m Manifest) Facts() []Fact {
	if len(m.added) == 0 && m.row == nil {
		return m.facts
	}
	facts := make([]Fact, 0, m.own()+len(m.added))
	m.each(func(f *Fact) { facts = append(facts, *f) })
	return facts
}

// own is how many facts there are without the added ones.
func (m Manifest) own() int {
	if m.row != nil {
		return len(m.row)
	}
	return len(m.facts)
}

// each calls do with every fact, in canonical order.
func (m Manifest) each(do func(*Fact)) {
	added := m.added
	for i := range m.own() {
		if m.row != nil {
			i = int(m.row[i])
		}
		for len(added) > 0 && compareFacts(&added[0], &m.facts[i]) < 0 {
			do(&added[0])
			added = added[1:]
		}
		do(&m.facts[i])
	}
	for i := range added {
		do(&added[i])
	}
}

// Builder collects facts in any order. The zero value works. It is not safe
// for concurrent use.
type Builder struct {
	facts []Fact
	order []int32 // of the last Finish: specs of one type give their facts in one order, nearly
}

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
	b.add(name, label, Float, floatText(v))
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

// Add copies facts of another source, such as a probe's. A fact whose value is
// not the canonical text of its type is a bug of the caller and panics.
func (b *Builder) Add(facts ...Fact) {
	for _, f := range facts {
		if err := f.check(); err != nil {
			panic("key: " + err.Error())
		}
		b.add(f.Name, f.Label, f.Type, f.Value)
	}
}

// Include adds the facts of a finished manifest, which are canonical already.
func (b *Builder) Include(m Manifest) { b.facts = append(b.facts, m.Facts()...) }

// Grow makes room for n further facts.
func (b *Builder) Grow(n int) { b.facts = slices.Grow(b.facts, n) }

// Reset takes all facts out and keeps their memory. Manifests that were
// finished are not touched; what Facts returned is.
func (b *Builder) Reset() { b.facts = b.facts[:0] }

// Facts are those added so far, in the order in which they were, until the
// next Reset. The caller must not change them.
func (b *Builder) Facts() []Fact { return b.facts }

func (b *Builder) add(name, label string, t Type, v string) {
	if !word(name) {
		panic(fmt.Sprintf("key: fact name %q is not one word of printable ASCII, or is reserved", name))
	}
	b.facts = append(b.facts, Fact{name, label, t, v})
}

// word reports whether a fact may have this name. The scheme is stated by the
// walker alone.
func word(name string) bool {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c > '~' || c == '"' || c == '=' {
			return false
		}
	}
	return name != "" && name != schemeName
}

// check says why a fact from outside the Builder's typed methods is not in
// canonical form; nil if it is.
func (f Fact) check() error {
	ok := false
	switch f.Type {
	case Absent, Withheld:
		ok = f.Value == ""
	case Text:
		ok = true
	case Int:
		v, err := strconv.ParseInt(f.Value, 10, 64)
		ok = err == nil && strconv.FormatInt(v, 10) == f.Value
	case Float:
		v, err := strconv.ParseFloat(f.Value, 64)
		ok = err == nil && !math.IsNaN(v) && floatText(v) == f.Value
	case Bool:
		ok = f.Value == "true" || f.Value == "false"
	case Content:
		d, err := ParseDigest(f.Value)
		ok = err == nil && !d.IsZero()
	default:
		return fmt.Errorf("fact %s has unknown type %q", f.Name, byte(f.Type))
	}
	if !ok {
		return fmt.Errorf("fact %s: %q is not the canonical form of type %q", f.Name, f.Value, byte(f.Type))
	}
	return nil
}

func floatText(v float64) string {
	if v == 0 {
		v = 0 // -0 and 0 are one value.
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Finish sorts and freezes. Equal facts may stand several times (a set of
// inputs with equal content); they all count. The builder may be used on.
func (b *Builder) Finish() Manifest {
	if len(b.order) != len(b.facts) {
		b.order = b.order[:0]
		for i := range b.facts {
			b.order = append(b.order, int32(i))
		}
	}
	slices.SortFunc(b.order, func(i, j int32) int { return compareFacts(&b.facts[i], &b.facts[j]) })
	facts := make([]Fact, len(b.facts))
	for i, from := range b.order {
		facts[i] = b.facts[from]
	}
	return Manifest{facts: facts}
}

// With is the manifest with further facts, one of name for each labelled
// digest; zero digests are left out. It costs one allocation beside the texts.
func (m Manifest) With(name string, n int, digest func(i int) (label string, d Digest)) Manifest {
	var b Builder
	for i := range n {
		if label, d := digest(i); !d.IsZero() {
			if b.facts == nil {
				b.facts = make([]Fact, 0, n)
			}
			b.Digest(name, label, d)
		}
	}
	if b.facts == nil {
		return m
	}
	slices.SortFunc(b.facts, func(x, y Fact) int { return compareFacts(&x, &y) })
	if len(m.added) > 0 {
		m = Manifest{facts: m.Facts()}
	}
	m.added = b.facts
	return m
}

// compareFacts compares parts from the left and stops at the first that
// differ: most facts differ in their names.
func compareFacts(x, y *Fact) int {
	if c := strings.Compare(x.Name, y.Name); c != 0 {
		return c
	}
	if c := strings.Compare(x.Label, y.Label); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(x.Type, y.Type), strings.Compare(x.Value, y.Value))
}

const schemeName = "scheme"

var schemeFact = Fact{schemeName, "", Int, strconv.Itoa(Scheme)}

// sink receives the facts of one walk. There are two: the hash and the text.
type sink interface{ fact(*Fact) }

func (m Manifest) walk(s sink) {
	s.fact(&schemeFact)
	m.each(s.fact)
}

// Key hashes the manifest.
func (m Manifest) Key() Key {
	s := sinks.Get().(*hashSink)
	s.b = s.b[:0]
	m.walk(s)
	k := Key(sha256.Sum256(s.b))
	sinks.Put(s)
	return k
}

// hashSink gathers the framed facts. One Sum256 over them is twice as fast as
// a running hash at the usual 300 bytes, and the buffers are used again.
type hashSink struct{ b []byte }

var sinks = sync.Pool{New: func() any { return new(hashSink) }}

// fact frames each part by its length or has a fixed one, so that no two lists
// of facts share bytes.
func (s *hashSink) fact(f *Fact) {
	b := append(s.b, byte(f.Type))
	b = frame(b, f.Name)
	b = frame(b, f.Label)
	switch f.Type {
	case Int:
		v, err := strconv.ParseInt(f.Value, 10, 64)
		if err != nil {
			panic("key: integer fact " + f.Name + " holds " + f.Value)
		}
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	case Float:
		v, err := strconv.ParseFloat(f.Value, 64)
		if err != nil {
			panic("key: float fact " + f.Name + " holds " + f.Value)
		}
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(v))
	default:
		b = frame(b, f.Value)
	}
	s.b = b
}

func frame(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Text is the stored form: one fact a line, "name [label] type value", label
// and value quoted as Go strings. ParseManifest reads it back exactly.
func (m Manifest) Text() string {
	var s textSink
	m.walk(&s)
	return s.b.String()
}

type textSink struct{ b bytes.Buffer }

func (s *textSink) fact(f *Fact) {
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

// ParseManifest reads what Text wrote and nothing else: a text that is not in
// canonical form is an error, so that two texts never share a key. A manifest
// of another scheme is an error that names both numbers.
func ParseManifest(text string) (Manifest, error) {
	var m Manifest
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		f, err := parseFact(line)
		if err != nil {
			return Manifest{}, fmt.Errorf("reading manifest line %d: %w", i+1, err)
		}
		if i == 0 {
			if f.Name != schemeName || f.Value != strconv.Itoa(Scheme) {
				return Manifest{}, fmt.Errorf("reading manifest: scheme %q, this build knows %d", f.Value, Scheme)
			}
			continue
		}
		if !word(f.Name) {
			return Manifest{}, fmt.Errorf("reading manifest line %d: name %q is not one word", i+1, f.Name)
		}
		if err := f.check(); err != nil {
			return Manifest{}, fmt.Errorf("reading manifest line %d: %w", i+1, err)
		}
		m.facts = append(m.facts, f)
	}
	if !slices.IsSortedFunc(m.facts, func(x, y Fact) int { return compareFacts(&x, &y) }) || m.Text() != text {
		return Manifest{}, errors.New("reading manifest: the text is not in canonical form")
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
