package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sotabuild/sotabuild/engine/key"
)

// opener opens one store again and again; what was closed must be found.
type opener func(t *testing.T) Store

// stores are the implementations that pass the suite below.
var stores = map[string]func(t *testing.T) opener{
	"local": func(t *testing.T) opener {
		dir := t.TempDir() + "/store"
		return func(t *testing.T) Store {
			t.Helper()
			l, err := OpenLocal(dir, Options{Command: "test"})
			must(t, err)
			return l
		}
	},
}

// suite is what every store must do.
var suite = map[string]func(t *testing.T, open opener){
	"EmptyStore":             testEmptyStore,
	"ObjectsRoundTrip":       testObjectsRoundTrip,
	"BrokenSourceIsNoObject": testBrokenSource,
	"RecordsRoundTrip":       testRecordsRoundTrip,
	"RecordsThatAreRefused":  testRefusedRecords,
	"SamplesOfOneKey":        testSamples,
	"HistoryAndKind":         testHistoryAndKind,
	"Intents":                testIntents,
	"ManyGoroutines":         testManyGoroutines,
}

// TestSpans: what servers took comes beside what a node took; where nothing of the
// node ran it is all that there is.
func TestSpans(t *testing.T) {
	for want, s := range map[string]Span{
		"0s": {}, "1.6s": {Seconds: 1.62}, "2m5s": {Seconds: 124.6}, "1.6s (server start 1m14s)": {Seconds: 1.6, Setup: 74.2}, "10m0s": {Setup: 600},
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

func TestStores(t *testing.T) {
	for name, make := range stores {
		for rule, test := range suite {
			t.Run(name+"/"+rule, func(t *testing.T) {
				t.Parallel()
				test(t, make(t))
			})
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func closing(t testing.TB, c io.Closer) {
	t.Helper()
	must(t, c.Close())
}

// object stores text.
func object(t testing.TB, s Store, text string) key.Digest {
	t.Helper()
	d, n, err := s.Object(strings.NewReader(text))
	must(t, err)
	if n != int64(len(text)) || d != key.Sum([]byte(text)) {
		t.Fatalf("%q stored as %s of %d bytes", text, d, n)
	}
	return d
}

// named is a record of a node whose key is made of name.
func named(name string, outputs ...Output) Record {
	return Record{Key: key.Key(key.Sum([]byte(name))), Node: "bench." + name, Kind: "bench",
		Manifest: "scheme i \"1\"\n", Outcome: Outcome{State: OK}, Outputs: outputs,
		Time:   Span{Started: time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.FixedZone("odd", 5*3600+45*60)), Seconds: 1.5, Setup: 0.5},
		Origin: Origin{Host: "h", Tool: "0.1"}}
}

func put(t testing.TB, s Store, r Record) *Record {
	t.Helper()
	out, err := s.Put(context.Background(), r)
	must(t, err)
	return out
}

func testEmptyStore(t *testing.T, open opener) {
	for range 2 { // new, and opened again
		s := open(t)
		if s.Serial() != 0 || s.Lookup(key.Key{1}) != nil || s.History("x") != nil || s.Kind("x") != nil ||
			len(s.Intents()) != 0 || len(s.Defects()) != 0 {
			t.Errorf("an empty store is not empty: serial %d, defects %q", s.Serial(), s.Defects())
		}
		if _, err := s.Open(key.Sum(nil)); !errors.Is(err, ErrMissing) {
			t.Errorf("opening what is not there: %v", err)
		}
		if _, err := s.Bytes(key.Sum(nil)); !errors.Is(err, ErrMissing) {
			t.Errorf("reading what is not there: %v", err)
		}
		closing(t, s)
	}
}

func testObjectsRoundTrip(t *testing.T, open opener) {
	s := open(t)
	texts := []string{"", "a", "a\x00\xff\n", strings.Repeat("0123456789abcdef", 100_000)}
	for _, text := range append(texts, texts...) { // the second time they are there
		object(t, s, text)
	}
	closing(t, s)
	s = open(t)
	for _, text := range texts {
		got, err := s.Bytes(key.Sum([]byte(text)))
		if err != nil || string(got) != text {
			t.Errorf("%d bytes: read %d, %v", len(text), len(got), err)
		}
		r, err := s.Open(key.Sum([]byte(text)))
		must(t, err)
		if err := iotest.TestReader(r, []byte(text)); err != nil {
			t.Errorf("%d bytes: %v", len(text), err)
		}
		closing(t, r)
	}
	closing(t, s)
}

func testBrokenSource(t *testing.T, open opener) {
	s := open(t)
	broken := errors.New("the disk fell out")
	d, n, err := s.Object(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || !d.IsZero() || n != 0 {
		t.Errorf("stored %s of %d bytes, error %v", d, n, err)
	}
	if _, err := s.Bytes(key.Sum([]byte("half"))); !errors.Is(err, ErrMissing) {
		t.Errorf("half an object can be read: %v", err)
	}
	closing(t, s)
}

func testRecordsRoundTrip(t *testing.T, open opener) {
	s := open(t)
	r := named("full")
	// Names as odd as UTF-8 allows, in another order than they are kept in.
	for _, name := range []string{"z", "a b\n\t\"\\/..\x00", "🜚 größe", "row.json"} {
		text := "content of " + name
		r.Outputs = append(r.Outputs, Output{name, object(t, s, text), int64(len(text))})
	}
	r.Outcome = Outcome{Failed, "oom", "a log line \xff\xfe of bytes", true}
	r.Observed = []Observed{{"env.driver", "580.1"}}
	r.Warnings = []string{"first", "second"}
	r.Origin = Origin{"host", "0.1", "task-1", 2, "run-1"}
	given := append([]Output(nil), r.Outputs...)
	got := put(t, s, r)
	if diff := cmp.Diff(given, r.Outputs); diff != "" {
		t.Errorf("Put changed its caller's slice:\n%s", diff)
	}
	want := r
	want.Version, want.Serial = RecordVersion, 1
	want.Time.Started = time.Date(2026, 11, 30, 6, 15, 0, 123456789, time.UTC)
	want.Outputs = []Output{given[1], given[3], given[0], given[2]} // by bytes: "a", "row.json", "z", "🜚"
	want.Outcome.Reason = "a log line \uFFFD of bytes"
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("Put returned:\n%s", diff)
	}
	closing(t, s)
	s = open(t)
	if diff := cmp.Diff([]*Record{&want}, s.Lookup(r.Key)); diff != "" {
		t.Errorf("Lookup after opening again:\n%s", diff)
	}
	if s.Serial() != 1 {
		t.Errorf("serial %d, want 1", s.Serial())
	}
	closing(t, s)
}

func testRefusedRecords(t *testing.T, open opener) {
	s := open(t)
	there := object(t, s, "there")
	for name, c := range map[string]struct {
		change func(*Record)
		want   string
	}{
		"no key":          {func(r *Record) { r.Key = key.Key{} }, "no key"},
		"no node":         {func(r *Record) { r.Node = "" }, "node"},
		"no state":        {func(r *Record) { r.Outcome.State = "" }, "state"},
		"missing output":  {func(r *Record) { r.Outputs[0].Digest = key.Sum([]byte("not there")) }, "not in the store"},
		"other size":      {func(r *Record) { r.Outputs[0].Size = 4 }, "4 bytes"},
		"unnamed output":  {func(r *Record) { r.Outputs[0].Name = "" }, "empty"},
		"bytes as name":   {func(r *Record) { r.Outputs[0].Name = "\xff" }, "UTF-8"},
		"output twice":    {func(r *Record) { r.Outputs = append(r.Outputs, r.Outputs[0]) }, "twice"},
		"node not UTF-8":  {func(r *Record) { r.Node = "a\xff" }, "UTF-8"},
		"huge":            {func(r *Record) { r.Manifest = strings.Repeat("x", 65<<20) }, "bound"},
		"host is no text": {func(r *Record) { r.Origin.Host = "\xfe" }, "UTF-8"},
	} {
		r := named("refused", Output{"row", there, 5})
		c.change(&r)
		if _, err := s.Put(context.Background(), r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Put(ctx, named("late")); !errors.Is(err, context.Canceled) {
		t.Errorf("after cancelling: %v", err)
	}
	if s.Serial() != 0 || s.History("bench.refused") != nil {
		t.Error("a refused record is in the store")
	}
	// Asking with a wrong size must not have cost the right object.
	if got, err := s.Bytes(there); err != nil || string(got) != "there" {
		t.Errorf("object after wrong records: %q, %v", got, err)
	}
	put(t, s, named("accepted", Output{"row", there, 5}))
	closing(t, s)
}

func testSamples(t *testing.T, open opener) {
	s := open(t)
	for i, state := range []State{OK, Rejected, Failed, OK} {
		r := named("sample")
		r.Outcome.State = state
		if got := put(t, s, r).Serial; got != uint64(i+1) {
			t.Errorf("serial %d, want %d", got, i+1)
		}
		put2 := s.Lookup(r.Key)
		if len(put2) != i+1 {
			t.Errorf("%d records of one key, want %d", len(put2), i+1)
		}
	}
	closing(t, s)
	s = open(t)
	var states []State
	for _, r := range s.Lookup(named("sample").Key) {
		states = append(states, r.Outcome.State)
	}
	if diff := cmp.Diff([]State{OK, Rejected, Failed, OK}, states); diff != "" {
		t.Errorf("oldest first:\n%s", diff)
	}
	closing(t, s)
}

func testHistoryAndKind(t *testing.T, open opener) {
	s := open(t)
	for _, c := range []struct{ key, node, kind string }{
		{"k1", "n1", "bench"}, {"k2", "n1", "bench"}, {"k3", "n2", "help"}, {"k1", "renamed", "bench"},
	} {
		r := named(c.key)
		r.Node, r.Kind = c.node, c.kind
		put(t, s, r)
	}
	for range 2 {
		serials := func(rs []*Record) (out []uint64) {
			for _, r := range rs {
				out = append(out, r.Serial)
			}
			return out
		}
		for what, c := range map[string]struct{ got, want []uint64 }{
			"history of n1":      {serials(s.History("n1")), []uint64{1, 2}},
			"history of n2":      {serials(s.History("n2")), []uint64{3}},
			"history of nobody":  {serials(s.History("n")), nil},
			"newest of bench":    {serials(s.Kind("bench")), []uint64{2, 4}},
			"newest of help":     {serials(s.Kind("help")), []uint64{3}},
			"newest of no kind":  {serials(s.Kind("hel")), nil},
			"lookup of k1":       {serials(s.Lookup(named("k1").Key)), []uint64{1, 4}},
			"lookup of the zero": {serials(s.Lookup(key.Key{})), nil},
		} {
			if diff := cmp.Diff(c.want, c.got); diff != "" {
				t.Errorf("%s:\n%s", what, diff)
			}
		}
		closing(t, s)
		s = open(t)
	}
	closing(t, s)
}

func testIntents(t *testing.T, open opener) {
	s := open(t)
	at := time.Date(2026, 11, 30, 1, 2, 3, 4, time.UTC)
	intent := func(id, note string) Intent { return Intent{ID: id, Kind: "task", Note: note, At: at} }
	for _, in := range []Intent{intent("a", "1"), intent("b", "2"), intent("c", "3")} {
		must(t, s.Intend(in))
	}
	must(t, s.Settle("b"))
	must(t, s.Settle("b"))
	must(t, s.Settle("never"))
	must(t, s.Intend(intent("a", "4"))) // replaces, and is now the youngest
	if err := s.Intend(Intent{Kind: "task"}); err == nil {
		t.Error("an intent without id was taken")
	}
	want := []Intent{intent("c", "3"), intent("a", "4")}
	for range 2 {
		if diff := cmp.Diff(want, s.Intents()); diff != "" {
			t.Error(diff)
		}
		closing(t, s)
		s = open(t)
	}
	if s.Serial() != 0 {
		t.Errorf("intents count as records: serial %d", s.Serial())
	}
	must(t, s.Settle("c"))
	must(t, s.Settle("a"))
	closing(t, s)
	s = open(t)
	if got := s.Intents(); len(got) != 0 {
		t.Errorf("left after settling: %v", got)
	}
	closing(t, s)
}

func testManyGoroutines(t *testing.T, open opener) {
	s := open(t)
	const workers, each = 8, 10
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range each {
				text := fmt.Sprintf("shared %d", i) // all workers store the same objects
				d, n, err := s.Object(bytes.NewReader([]byte(text)))
				if err != nil {
					t.Error(err)
					return
				}
				r := named(fmt.Sprintf("%d-%d", w, i), Output{"row", d, n})
				got, err := s.Put(context.Background(), r)
				if err != nil {
					t.Error(err)
					return
				}
				// What was put is seen at once, and by whoever put it as it was.
				if diff := cmp.Diff([]*Record{got}, s.Lookup(r.Key), cmpopts.EquateEmpty()); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	all.Wait()
	if s.Serial() != workers*each {
		t.Errorf("serial %d, want %d", s.Serial(), workers*each)
	}
	serials := map[uint64]bool{}
	for _, r := range s.Kind("bench") {
		serials[r.Serial] = true
	}
	if len(serials) != workers*each || len(s.Defects()) != 0 {
		t.Errorf("%d serials, defects %q", len(serials), s.Defects())
	}
	closing(t, s)
}
