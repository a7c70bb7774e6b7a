package compile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/sotabuild/sotabuild/engine/cache/samples"
	"github.com/sotabuild/sotabuild/engine/cache/wire"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
)

// frozenHead starts a frozen graph; an XXH64 of all that follows comes next. Of
// the rest (package wire) texts that stand often, rules, lists of orders and
// facts are tables, and actions name their rows.
const frozenHead = "sotabuild graph 1\n"

// Freeze writes a graph down, with a text of the caller's about what it was made
// from. All that plans need is kept: addresses, edges, facts, rules, resources,
// but neither specs nor the environment.
func Freeze(g *Graph, about []byte) []byte {
	f := freezer{texts: map[string]uint64{}, kinds: map[*Kind]uint64{}, rules: map[string]uint64{}, orders: map[string]uint64{}}
	own := make([]key.Manifest, len(g.Actions))
	for i := range own {
		own[i] = g.own(graph.NodeID(i))
	}
	table, rows := key.Tabulate(own)
	f.facts(table.Facts())
	inputs, facts := 0, 0
	for i := range g.Actions {
		inputs += len(g.Actions[i].Data)
		facts += len(rows[i])
	}
	f.actions.Uint(uint64(inputs))
	f.actions.Uint(uint64(facts))
	f.actions.Uint(uint64(len(g.Actions)))
	for i := range g.Actions {
		f.action(&g.Actions[i], rows[i])
	}
	lists := []*list{&f.textList, &f.kindList, &f.ruleList, &f.orderList}
	size := len(frozenHead) + 8 + len(about) + len(f.factList) + len(f.actions)
	for _, l := range lists {
		size += len(l.b)
	}
	out := make(wire.Buffer, len(frozenHead)+8, size+5*binary.MaxVarintLen64)
	copy(out, frozenHead)
	out.Text(string(about))
	for _, l := range lists {
		out.Uint(l.n)
		out = append(out, l.b...)
	}
	out = append(append(out, f.factList...), f.actions...)
	binary.LittleEndian.PutUint64(out[len(frozenHead):], xxhash.Sum64(out[len(frozenHead)+8:]))
	return out
}

// list is a table while it is written: how many rows, and their bytes.
type list struct {
	n uint64
	b wire.Buffer
}

// freezer writes the parts of a graph that stand after one another at the end.
type freezer struct {
	texts, rules, orders                    map[string]uint64
	kinds                                   map[*Kind]uint64
	textList, kindList, ruleList, orderList list
	factList, actions                       wire.Buffer
}

// place is the row of a thing in a table, which is written when it is new.
func place[K comparable](seen map[K]uint64, l *list, k K, write func(*wire.Buffer)) uint64 {
	at, ok := seen[k]
	if !ok {
		at = l.n
		seen[k] = at
		l.n++
		write(&l.b)
	}
	return at
}

func (f *freezer) text(s string) uint64 {
	return place(f.texts, &f.textList, s, func(b *wire.Buffer) { b.Text(s) })
}

func (f *freezer) kind(k *Kind) uint64 {
	return place(f.kinds, &f.kindList, k, func(b *wire.Buffer) {
		b.Text(k.Name)
		b.Int(int64(k.Version))
	})
}

// rule is 0 for none.
func (f *freezer) rule(r *samples.Rule) uint64 {
	if r == nil {
		return 0
	}
	var b wire.Buffer
	b.Int(int64(r.Samples))
	b.Int(int64(r.MaxAge))
	b.Text(r.Wanting)
	b.Uint(uint64(len(r.Bounds)))
	for _, bound := range r.Bounds {
		b.Text(bound.Fact)
		b.Float(bound.Most)
		b.Text(bound.Class)
		b.Text(bound.Reason)
	}
	return 1 + place(f.rules, &f.ruleList, string(b), func(all *wire.Buffer) { *all = append(*all, b...) })
}

func (f *freezer) order(ids []graph.NodeID) uint64 {
	var b wire.Buffer
	b.Uint(uint64(len(ids)))
	for _, id := range ids {
		b.Uint(uint64(id))
	}
	return place(f.orders, &f.orderList, string(b), func(all *wire.Buffer) { *all = append(*all, b...) })
}

func (f *freezer) facts(facts []key.Fact) {
	f.factList.Uint(uint64(len(facts)))
	for _, x := range facts {
		f.factList.Uint(f.text(x.Name))
		f.factList.Uint(f.text(x.Label))
		f.factList.Uint(uint64(x.Type))
		f.factList.Text(x.Value)
	}
}

func (f *freezer) action(a *Action, row []uint32) {
	b := &f.actions
	b.Text(a.Addr)
	b.Uint(f.kind(a.Kind))
	b.Uint(f.text(a.Block))
	b.Uint(f.text(a.Batch))
	b.Uint(f.text(a.Skip))
	b.Uint(f.text(a.Resources.Host))
	b.Bool(a.Resources.Quiet)
	b.Uint(uint64(len(a.Resources.GPUs)))
	for _, gpu := range a.Resources.GPUs {
		b.Uint(f.text(gpu))
	}
	b.Int(int64(a.Timeout))
	b.Int(int64(a.Turn))
	b.Uint(f.rule(a.Accept))
	b.Uint(uint64(len(a.Data)))
	for i, from := range a.Data {
		b.Uint(f.text(a.Inputs[i].Name))
		b.Uint(f.text(a.Inputs[i].Output))
		b.Uint(uint64(from))
	}
	b.Uint(f.order(a.Orders))
	b.Uint(uint64(len(row)))
	for _, at := range row {
		b.Uint(uint64(at))
	}
}

// Frozen is what Freeze wrote, whole.
type Frozen struct {
	About []byte // the caller's
	body  []byte // what follows it
}

// OpenFrozen reads what a frozen graph is about, and whether its bytes are whole.
func OpenFrozen(b []byte) (Frozen, error) {
	rest, ok := strings.CutPrefix(string(b[:min(len(b), len(frozenHead))]), frozenHead)
	if !ok || rest != "" || len(b) < len(frozenHead)+8 {
		return Frozen{}, errors.New("reading frozen graph: it does not begin like one")
	}
	b = b[len(frozenHead):]
	if binary.LittleEndian.Uint64(b) != xxhash.Sum64(b[8:]) {
		return Frozen{}, errors.New("reading frozen graph: its checksum does not fit")
	}
	n, size := binary.Uvarint(b[8:])
	body := b[8+max(size, 0):]
	if size <= 0 || n > uint64(len(body)) {
		return Frozen{}, errors.New("reading frozen graph: its bytes make no sense")
	}
	return Frozen{body[:n:n], body[n:]}, nil
}

// Thaw makes the graph again. kinds are those that its actions may be of. The
// graph can be planned and looked at; it has no specs and no environment, and
// what has no specs cannot run. The frozen bytes may be changed afterwards.
func (f Frozen) Thaw(kinds []*Kind) (*Graph, error) {
	t := thawer{r: wire.NewReader(f.body)}
	for range t.r.Count(1) {
		t.texts = append(t.texts, t.r.Text())
	}
	for range t.r.Count(2) {
		t.kind(kinds)
	}
	for range t.r.Count(4) {
		t.rule()
	}
	for range t.r.Count(1) {
		t.orders = append(t.orders, t.ids())
	}
	g, err := t.graph()
	if err = errors.Join(err, t.err, t.r.End()); err != nil {
		return nil, fmt.Errorf("reading frozen graph: %w", err)
	}
	return g.lazily(), nil
}

// thawer reads what a freezer wrote. What makes no sense is told at the end.
type thawer struct {
	r      *wire.Reader
	err    error
	texts  []string
	kinds  []*Kind
	rules  []*samples.Rule
	orders [][]graph.NodeID
	// What all actions have together is taken in one piece.
	inputs []Input
	data   []graph.NodeID
	places []uint32
}

// part takes the next n of what all have together.
func part[T any](t *thawer, all *[]T, n int) []T {
	if n > len(*all) {
		t.err = errors.New("its actions have more than it says")
		return nil
	}
	mine := (*all)[:n:n]
	*all = (*all)[n:]
	return mine
}

// row is the row of a table that comes next; the zero value where there is none.
func row[T any](t *thawer, table []T) (v T) {
	at := t.r.Uint()
	if at >= uint64(len(table)) {
		t.err = errors.New("it names a row that its table does not have")
		return v
	}
	return table[at]
}

func (t *thawer) text() string { return row(t, t.texts) }

func (t *thawer) kind(kinds []*Kind) {
	name, version := t.r.Text(), int(t.r.Int())
	for _, k := range kinds {
		if k.Name == name && k.Version == version {
			t.kinds = append(t.kinds, k)
			return
		}
	}
	t.err = fmt.Errorf("there is no kind %q of version %d", name, version)
	t.kinds = append(t.kinds, nil)
}

func (t *thawer) rule() {
	r := &samples.Rule{Samples: int(t.r.Int()), MaxAge: time.Duration(t.r.Int()), Wanting: t.r.Text()}
	for range t.r.Count(11) {
		r.Bounds = append(r.Bounds, samples.Bound{Fact: t.r.Text(), Most: t.r.Float(), Class: t.r.Text(), Reason: t.r.Text()})
	}
	t.rules = append(t.rules, r)
}

// node is an id, which is negative where it makes no sense.
func (t *thawer) node() graph.NodeID {
	id := t.r.Uint()
	if id > math.MaxInt32 {
		return -1
	}
	return graph.NodeID(id)
}

func (t *thawer) ids() []graph.NodeID {
	n := t.r.Count(1)
	if n == 0 {
		return nil
	}
	ids := make([]graph.NodeID, n)
	for i := range ids {
		ids[i] = t.node()
	}
	return ids
}

// graph reads facts and actions.
func (t *thawer) graph() (*Graph, error) {
	facts := make([]key.Fact, t.r.Count(4))
	for i := range facts {
		facts[i] = key.Fact{Name: t.text(), Label: t.text(), Type: key.Type(t.r.Uint()), Value: t.r.Text()}
	}
	table, err := key.TableOf(facts)
	if err != nil {
		return nil, err
	}
	t.inputs = make([]Input, t.r.Count(3))
	t.data = make([]graph.NodeID, len(t.inputs))
	t.places = make([]uint32, t.r.Count(1))
	n := t.r.Count(14)
	g := &Graph{Actions: make([]Action, n), table: table, rows: make([][]uint32, n)}
	for i := range g.Actions {
		t.action(g, graph.NodeID(i))
		if t.err == nil && !table.Has(g.rows[i]) {
			t.err = errors.New("it names a fact that it does not have")
		}
		if t.err != nil {
			return nil, t.err
		}
	}
	return g, nil
}

func (t *thawer) action(g *Graph, id graph.NodeID) {
	a := &g.Actions[id]
	a.ID, a.Addr = id, t.r.Text()
	a.Kind = row(t, t.kinds)
	a.Block, a.Batch, a.Skip = t.text(), t.text(), t.text()
	a.Resources = Resources{Host: t.text(), Quiet: t.r.Bool()}
	for range t.r.Count(1) {
		a.Resources.GPUs = append(a.Resources.GPUs, t.text())
	}
	a.Timeout, a.Turn = time.Duration(t.r.Int()), int(t.r.Int())
	if at := t.r.Uint(); at > uint64(len(t.rules)) {
		t.err = errors.New("it names a rule that it does not have")
	} else if at > 0 {
		a.Accept = t.rules[at-1]
	}
	if n := t.r.Count(3); n > 0 {
		a.Inputs, a.Data = part(t, &t.inputs, n), part(t, &t.data, n)
		for i := range a.Inputs {
			a.Inputs[i] = Input{Name: t.text(), Output: t.text()}
			a.Data[i] = t.node()
			if 0 <= a.Data[i] && a.Data[i] < id {
				a.Inputs[i].From = g.Actions[a.Data[i]].Addr
			}
		}
	}
	a.Orders = row(t, t.orders)
	g.rows[id] = part(t, &t.places, t.r.Count(1))
	for i := range g.rows[id] {
		g.rows[id][i] = uint32(min(t.r.Uint(), math.MaxUint32))
	}
	for _, from := range [][]graph.NodeID{a.Data, a.Orders} {
		for _, f := range from {
			if f < 0 || f >= id {
				t.err = errors.New("it has an edge that does not go forward")
				return
			}
		}
	}
}
