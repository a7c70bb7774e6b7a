package read_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// kern is one kernel event of 2.5 µs at 1.5 µs, with the given extra fields.
const kern = `{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1.5,"dur":2.5,"args":{"device":0,"stream":7,"correlation":3}}`

func object(events ...string) string {
	return `{"schemaVersion":1,"traceEvents":[` + strings.Join(events, ",") + `]}`
}

func pack(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What is odd but legal, or broken but useful: read as far as it goes, and
// said. What is no trace: an error.
func TestOddFiles(t *testing.T) {
	packed := pack(t, object(kern, kern, kern))
	long := strings.Repeat("x", 17<<20)
	for _, c := range []struct {
		name, in string
		gpu      int    // GPU events read
		partial  bool   //
		warning  string // part of some warning, "" for none at all
		err      string // part of the error, "" for none
	}{
		{"empty file", "", 0, false, "", "file is empty"},
		{"only white space", " \n ", 0, false, "", "holds no JSON"},
		{"one byte", "{", 0, false, "", "ends before traceEvents"},
		{"text", "hello", 0, false, "", `begins with 'h'`},
		{"a number", "17", 0, false, "", `begins with '1'`},
		{"perfetto protobuf", "\x0a\x10\x08\x01", 0, false, "", "Perfetto"},
		{"other object", `{"a":1}`, 0, false, "", "no traceEvents"},
		{"traceEvents is a number", `{"traceEvents":5}`, 0, false, "", "no array"},
		{"traceEvents is null", `{"traceEvents":null}`, 0, false, "", "no array"},
		{"key without value", `{"traceEvents"}`, 0, false, "", "has no value"},
		{"cut inside a key", `{"trace`, 0, false, "", "inside a key"},
		{"cut in metadata before events", `{"deviceProperties":[{"id":0`, 0, false, "", "before traceEvents"},
		{"metadata is no key", `{5}`, 0, false, "", "a key is expected"},
		{"array of numbers", `[1,2,3]`, 0, false, "", "none of"},
		{"array of other objects", `[{"a":1},{"b":2}]`, 0, false, "", "none of 2 elements"},
		{"gzip of nothing", pack(t, ""), 0, false, "", "holds no JSON"},
		{"gzip of text", pack(t, "hello"), 0, false, "", "begins with"},
		{"gzip header only", "\x1f\x8b", 0, false, "", "gzip header"},
		{"gzip header broken", "\x1f\x8bxxxxxxxxxxxx", 0, false, "", "gzip header"},

		{"no events", object(), 0, false, "", ""},
		{"array form", "[" + kern + "]", 1, false, "", ""},
		{"array form without bracket", "[" + kern + ",\n" + kern, 2, false, "", ""},
		{"array form with trailing comma", "[" + kern + ",]", 1, false, "", ""},
		{"byte order mark", "\xef\xbb\xbf" + object(kern), 1, false, "", ""},
		{"metadata after events", `{"traceEvents":[` + kern + `],"with_stack":1,"x":{"a":[1,"]}"]}}`, 1, false, "", ""},
		{"odd trace name", `{"traceEvents":[` + kern + `],"traceName":"a]}b\\\"c"}`, 1, false, "", ""},
		{"missing comma", object(kern + kern), 2, false, "", ""},
		{"two gzip members", packed[:0] + pack(t, `{"traceEvents":[`+kern+`,`) + pack(t, kern+`]}`), 2, false, "", ""},

		{"object cut between events", `{"traceEvents":[` + kern + `,`, 1, true, "Partial: the file ends inside traceEvents", ""},
		{"object cut inside an event", `{"traceEvents":[` + kern + `,{"ph":"X","ca`, 1, true, "Partial: the file ends inside an event", ""},
		{"cut in metadata after events", `{"traceEvents":[` + kern + `],"deviceProp`, 1, true, "", "inside a key"},
		{"cut in a value after events", `{"traceEvents":[` + kern + `],"with_stack":[1,`, 1, true, "Partial", ""},
		{"truncated gzip", packed[:len(packed)-9], 3, true, "Partial", ""},
		{"gzip with a wrong checksum", packed[:len(packed)-8] + "\x00\x00\x00\x00" + packed[len(packed)-4:], 3, true, "Partial: reading stopped (gzip", ""},
		{"unescaped quote in a name", object(kern, `{"ph":"X","cat":"python_function","name":"a "b" c","pid":1,"tid":1,"ts":1,"dur":1}`, kern), 2, false, "1 elements were no events", ""},
		{"raw newline in a name", object(`{"ph":"X","cat":"kernel","name":"a` + "\n" + `b","pid":0,"tid":7,"ts":1,"dur":1}`), 1, false, "", ""},
		{"invalid escape in a name", object(`{"ph":"X","cat":"kernel","name":"C:\Users\_x","pid":0,"tid":7,"ts":1,"dur":1}`), 1, false, "", ""},
		{"bad UTF-8 in a name", object(`{"ph":"X","cat":"kernel","name":"a` + "\xff" + `b","pid":0,"tid":7,"ts":1,"dur":1}`), 1, false, "", ""},
		{"bare tokens in args", object(`{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{"a":N/A,"b":nan,"c":inf,"stream":9}}`), 1, false, "", ""},
		{"numbers as strings", object(`{"ph":"X","cat":"kernel","name":"k","pid":"0","tid":"7","ts":"1.5","dur":"2.5","args":{"stream":"7"}}`), 1, false, "", ""},
		{"number between events", object(kern, "5", kern), 2, false, "1 elements were no events", ""},
		{"null between events", object(kern, "null", kern), 2, false, "1 elements were no events", ""},
		{"nested array between events", object(kern, "[1]", kern), 2, false, "1 elements were no events", ""},
		{"event without phase", object(kern, `{"cat":"kernel","name":"k"}`), 1, false, "1 elements were no events", ""},
		{"phase of two letters", object(kern, `{"ph":"XX","cat":"kernel","name":"k","ts":1,"dur":1}`), 1, false, "", ""},
		{"unknown phase", object(kern, `{"ph":"Q","cat":"kernel","name":"k","ts":1,"dur":1}`), 1, false, "", ""},
		{"phase is a number", object(kern, `{"ph":5,"cat":"kernel","name":"k","ts":1,"dur":1}`), 1, false, "", ""},
		{"unknown category", object(kern, `{"ph":"X","cat":"quantum","name":"k","ts":1,"dur":1,"args":{"stream":1}}`), 1, false, "", ""},
		{"no duration", object(kern, `{"ph":"X","cat":"kernel","name":"k","ts":1}`), 1, false, "1 events had no usable ts or dur", ""},
		{"no time", object(kern, `{"ph":"X","cat":"kernel","name":"k","dur":1}`), 1, false, "1 events had no usable ts or dur", ""},
		{"duration is an object", object(kern, `{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":{}}`), 1, false, "1 events had no usable ts or dur", ""},
		{"negative duration", object(`{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":-4}`), 1, false, "1 negative durations", ""},
		{"negative time", object(`{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":-1.5,"dur":1}`), 1, false, "", ""},
		{"huge time", object(kern, `{"ph":"X","cat":"kernel","name":"k","ts":1e300,"dur":1}`), 1, false, "1 events had no usable ts or dur", ""},
		{"huge digits", object(kern, `{"ph":"X","cat":"kernel","name":"k","ts":99999999999999999999999,"dur":1}`), 1, false, "1 events had no usable ts or dur", ""},
		{"hostile exponent", object(kern, `{"ph":"X","cat":"kernel","name":"k","ts":1e999999999,"dur":1}`), 1, false, "1 events had no usable ts or dur", ""},
		{"overflowed duration", object(`{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":0,"dur":9000000000}`, kern), 2, false, "1 durations over an hour", ""},
		{"device properties of a wrong type", `{"deviceProperties":{"a":1},"traceEvents":[` + kern + `]}`, 1, false, `"deviceProperties" is not what a profiler writes`, ""},
		{"base time is text", `{"baseTimeNanoseconds":"soon","traceEvents":[` + kern + `]}`, 1, false, `"baseTimeNanoseconds" is not`, ""},
		{"garbage after traceEvents", `{"traceEvents":[` + kern + `] oops`, 1, false, "broken at byte", ""},
		{"event longer than the limit", object(kern, `{"ph":"X","cat":"cpu_op","name":"`+long+`","ts":1,"dur":1}`, kern), 2, false, "1 events were longer than 16 MiB", ""},
		{"metadata longer than the limit", `{"x":"` + long + `","traceEvents":[` + kern + `]}`, 1, false, `"x" is longer`, ""},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			tr, err := read.Read(strings.NewReader(c.in), "f")
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				if !errors.Is(err, read.ErrNoTrace) {
					t.Errorf("%v is not ErrNoTrace", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(tr.GPU) != c.gpu || tr.Counts.Partial != c.partial {
				t.Errorf("%d GPU events, partial %v; want %d, %v", len(tr.GPU), tr.Counts.Partial, c.gpu, c.partial)
			}
			if c.warning == "" && len(tr.Counts.Warnings) > 0 {
				t.Errorf("warned without reason: %q", tr.Counts.Warnings)
			}
			if !strings.Contains(strings.Join(tr.Counts.Warnings, "\n"), c.warning) {
				t.Errorf("warnings %q, want %q", tr.Counts.Warnings, c.warning)
			}
		})
	}
}

func TestFieldsOfAnEvent(t *testing.T) {
	tr, err := read.Read(strings.NewReader(`{"deviceProperties":[{"id":2,"name":"G","numSms":9}],"distributedInfo":{"rank":3,"world_size":8},
	"record_shapes":1,"baseTimeNanoseconds":1775078550000000000,"traceEvents":[
	{"args":{"correlation":5,"stream":0,"device":2,"grid":[3,2,1],"block":[128,1,1],"registers per thread":40,"shared memory":1024,
	 "External id":77,"Collective name":"allreduce","dtype":"BFloat16","In msg nelems":10,"Out msg nelems":20,"Group size":8,"Seq":4},
	 "dur":0.001,"ts":4026150081635.2147,"name":"a\tb\u00e9","cat":"kernel","ph":"X","pid":2,"tid":0},
	{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":"x","ts":1,"dur":2,"name":"aten::addmm","args":{"Input Dims":[[1, 2],
	  [3]],"Input type":["long int", ""],"External id":77}}]}`), "f")
	if err != nil {
		t.Fatal(err)
	}
	g := tr.GPU[0]
	want := read.GPU{Start: 4026150081635215, Dur: 1, Correlation: 5, External: 77, Name: g.Name, Track: g.Track, Config: 1, Device: 2}
	if d := cmp.Diff(want, g); d != "" {
		t.Errorf("GPU event (-want +got):\n%s", d)
	}
	if n := tr.Name(g.Name); n != "a\tb\u00e9" {
		t.Errorf("name %q", n)
	}
	if d := cmp.Diff(read.Config{Grid: [3]int32{3, 2, 1}, Block: [3]int32{128, 1, 1}, Registers: 40, Shared: 1024}, tr.Configs[1]); d != "" {
		t.Error(d)
	}
	if c := tr.Collectives[0]; tr.Name(c.Name) != "allreduce" || c.In != 10 || c.Out != 20 || c.Size != 8 || c.Seq != 4 {
		t.Errorf("collective %+v", c)
	}
	o := tr.Ops[0]
	if tr.Name(o.Name) != "aten::addmm" || tr.Name(o.Dims) != "[[1,2],[3]]" || tr.Name(o.Types) != `["long int",""]` {
		t.Errorf("op %q %q %q: the last of duplicate keys counts, white space does not", tr.Name(o.Name), tr.Name(o.Dims), tr.Name(o.Types))
	}
	if m := tr.Meta; m.Rank != 3 || m.World != 8 || m.Devices[0].SMs != 9 || m.Base != 1775078550000000000 || !m.WithShapes || m.First != 1000 {
		t.Errorf("meta %+v", m)
	}
}

// An object address in a Python name must not make a new name.
func TestAddressesInFrames(t *testing.T) {
	var events []string
	for i := range 100 {
		events = append(events, fmt.Sprintf(`{"ph":"X","cat":"python_function","name":"<built-in method m of T object at 0x7f00000%04d>","pid":1,"tid":1,"ts":%d,"dur":1}`, i, i))
	}
	tr, err := read.Read(strings.NewReader(object(events...)), "f")
	if err != nil {
		t.Fatal(err)
	}
	if tr.Frames.Len() != 100 || tr.Names.Len() != 2 {
		t.Errorf("%d frames with %d names, want 100 with 2 (one of them empty)", tr.Frames.Len(), tr.Names.Len())
	}
}

// However a file is spelled and packed, the same events come out.
func TestSpellingsAgree(t *testing.T) {
	edge := edgeFiles(t)
	for _, file := range edge {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := summary(t, data)
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		if got := summary(t, raw); got != want {
			t.Errorf("%s: unpacked %s, packed %s", file, got, want)
		}
		half := len(raw) / 2
		if got := summary(t, []byte(pack(t, string(raw[:half]))+pack(t, string(raw[half:])))); got != want {
			t.Errorf("%s: in two members %s, in one %s", file, got, want)
		}
		if got := summary(t, []byte(strings.Join(strings.Split(string(raw), "\n"), " "))); got != want {
			t.Errorf("%s: on one line %s, else %s", file, got, want)
		}
	}
}

func edgeFiles(t testing.TB) []string {
	t.Helper()
	list, err := filepath.Glob("testdata/edge/*.json.gz")
	if err != nil || len(list) < 7 {
		t.Fatalf("edge files: %v, %v", list, err)
	}
	return list
}

func summary(t testing.TB, data []byte) string {
	t.Helper()
	tr, err := read.Read(bytes.NewReader(data), "f")
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, g := range tr.GPU {
		sum += g.Dur
	}
	return fmt.Sprintf("%v %d GPU %d ns %d calls %d ops %d frames", tr.Counts.ByKind, len(tr.GPU), sum, len(tr.Calls), len(tr.Ops), tr.Frames.Len())
}

// A file cut anywhere is never taken for a whole one, and never has more than
// the whole one has.
func TestCutAnywhere(t *testing.T) {
	data, err := os.ReadFile("testdata/edge/torch_compile_triton.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	end := bytes.LastIndexByte(raw, ']')
	for cut := 1; cut < end; cut += 97 {
		tr, err := read.Read(bytes.NewReader(raw[:cut]), "f")
		if err != nil {
			if !errors.Is(err, read.ErrNoTrace) {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			continue
		}
		if !tr.Counts.Partial || len(tr.GPU) > 12 || len(tr.Counts.Warnings) == 0 {
			t.Fatalf("cut at %d of %d: partial %v with %d GPU events, warnings %q", cut, end, tr.Counts.Partial, len(tr.GPU), tr.Counts.Warnings)
		}
	}
}

// Events may come in any order.
func TestShuffledEvents(t *testing.T) {
	var events []string
	for i := range 50 {
		events = append(events, fmt.Sprintf(`{"ph":"X","cat":"kernel","name":"k%d","pid":0,"tid":7,"ts":%d,"dur":%d.%03d}`, i%7, i*10, i, i))
	}
	want := ordered(t, events)
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		if got := ordered(t, events); !slices.Equal(got, want) {
			t.Fatalf("the order of the file shows in the result:\n%v\n%v", got, want)
		}
	}
}

func ordered(t *testing.T, events []string) []string {
	t.Helper()
	tr, err := read.Read(strings.NewReader(object(events...)), "f")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, g := range tr.GPU {
		out = append(out, fmt.Sprint(tr.Name(g.Name), g.Start, g.Dur))
	}
	return out
}

// A reader that gives one byte at a time changes nothing.
type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:1]) }

func TestSlowReader(t *testing.T) {
	text := object(kern, `{"ph":"X","cat":"kernel","name":"x\"y","pid":0,"tid":7,"ts":1,"dur":1,"args":{"a":{"b":"}"}}}`)
	tr, err := read.Read(oneByte{strings.NewReader(text)}, "f")
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.GPU) != 2 || tr.Name(tr.GPU[0].Name) != `x"y` {
		t.Errorf("%d events", len(tr.GPU))
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := read.File(ctx, edgeFiles(t)[0], read.Options{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
}

func TestFolderIsNoTrace(t *testing.T) {
	if _, err := read.File(context.Background(), t.TempDir(), read.Options{}); err == nil || !strings.Contains(err.Error(), "folder") {
		t.Errorf("error %v", err)
	}
}
