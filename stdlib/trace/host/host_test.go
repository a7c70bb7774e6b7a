package host

import (
	"errors"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// Two threads: linear calls mm and add_ on the first, with a microsecond of its
// own between; relu runs on the second. By hand: work is 10 + 5 + 7 µs.
const nested = `{"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"execute_context_0(0)_generation_2(2)","pid":1,"tid":1,"ts":0,"dur":50},
{"ph":"X","cat":"cpu_op","name":"aten::linear","pid":1,"tid":1,"ts":10,"dur":17,"args":{"External id":1}},
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":10,"dur":10,"args":{"External id":2,"Input Dims":[[2,8],[8,4]],"Input type":["float","float"]}},
{"ph":"X","cat":"cpu_op","name":"aten::add_","pid":1,"tid":1,"ts":21,"dur":5,"args":{"External id":3}},
{"ph":"X","cat":"cpu_op","name":"aten::relu","pid":1,"tid":2,"ts":12,"dur":7,"args":{"External id":4}}]}`

func TestWork(t *testing.T) {
	tr, err := read.Read(strings.NewReader(nested), "t.json")
	if err != nil {
		t.Fatal(err)
	}
	w, err := Work(tr)
	if err != nil {
		t.Fatal(err)
	}
	p := profile.Build(w)
	got := map[string]int64{}
	for i, g := range w.GPU {
		got[w.Name(g.Name)] = g.Dur
		if op := p.Op(int32(i)); op != w.Name(g.Name) {
			t.Errorf("%s was launched by %q", w.Name(g.Name), op)
		}
		if stage := p.Links.Events[i].Stage; stage != launch.Decode {
			t.Errorf("%s is of the stage %s", w.Name(g.Name), stage)
		}
	}
	if len(got) != 3 || got["aten::mm"] != 10_000 || got["aten::add_"] != 5_000 || got["aten::relu"] != 7_000 {
		t.Errorf("work %v", got)
	}
	if w.GPU[0].Stream == w.GPU[1].Stream {
		t.Error("two threads are one stream")
	}
	if len(tr.GPU) > 0 || len(tr.Calls) > 0 {
		t.Error("the given trace was changed")
	}
}

func TestNoWork(t *testing.T) {
	device := sample.Make(t, nil, []sample.Kernel{{Name: "k", Start: 2000, Dur: 10}})
	if _, err := Work(device); !errors.Is(err, ErrDevice) {
		t.Errorf("a trace of a device: %v", err)
	}
	none, err := read.Read(strings.NewReader(`{"traceEvents":[]}`), "t.json")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Work(none); !errors.Is(err, ErrNone) {
		t.Errorf("a trace of nothing: %v", err)
	}
}
