package launch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

func event(cat, name, pid, tid string, ts, dur int, args string) string {
	return fmt.Sprintf(`{"ph":"X","cat":%q,"name":%q,"pid":%s,"tid":%s,"ts":%d,"dur":%d,"args":{%s}}`, cat, name, pid, tid, ts, dur, args)
}

func links(t *testing.T, name string, events ...string) (*read.Trace, *launch.Links) {
	t.Helper()
	tr, err := read.Read(strings.NewReader(`{"traceEvents":[`+strings.Join(events, ",")+`]}`), name)
	if err != nil {
		t.Fatal(err)
	}
	return tr, launch.Build(tr)
}

func kern(ts, corr int) string {
	return event("kernel", "k", "0", "7", ts, 5, fmt.Sprintf(`"device":0,"stream":7,"correlation":%d`, corr))
}

func call(tid string, ts, corr int) string {
	return event("cuda_runtime", "cudaLaunchKernel", "1", tid, ts, 1, fmt.Sprintf(`"correlation":%d`, corr))
}

func note(tid, name string, ts, dur int) string {
	return event("user_annotation", name, "1", tid, ts, dur, "")
}

// Each rule of attribution, alone.
func TestStageRules(t *testing.T) {
	const decode, prefill = "step[DECODE bs=1]", "step[EXTEND bs=1 toks=9]"
	for _, c := range []struct {
		name   string
		file   string
		events []string
		stage  launch.Stage
		rule   launch.Rule
	}{
		{"the launch counts, not the kernel's own time", "f", []string{
			note("1", prefill, 10, 20), note("1", decode, 100, 20), call("1", 15, 3), kern(105, 3)}, launch.Prefill, launch.ByLaunch},
		{"the innermost step counts", "f", []string{
			note("1", prefill, 10, 100), note("1", decode, 50, 10), call("1", 55, 3), kern(60, 3)}, launch.Decode, launch.ByLaunch},
		{"a step on another thread", "f", []string{note("2", decode, 10, 20), call("1", 15, 3), kern(60, 3)}, launch.Decode, launch.ByStep},
		{"steps on other threads that disagree", "f", []string{
			note("2", decode, 10, 20), note("3", prefill, 10, 20), call("1", 15, 3), kern(60, 3)}, launch.None, launch.Ambiguous},
		{"an idle step is no stage", "a-DECODE.json", []string{
			note("1", "execute_context_0(0)_generation_0(0)", 10, 20), call("1", 15, 3), kern(60, 3)}, launch.None, launch.ByLaunch},
		{"no launch, but a projected step", "f", []string{
			event("gpu_user_annotation", decode, "0", "7", 50, 30, ""), kern(60, 3)}, launch.Decode, launch.ByGPUNote},
		{"no launch and an annotation that is no step", "f", []string{
			event("gpu_user_annotation", "decoder", "0", "7", 50, 30, ""), kern(60, 3)}, launch.None, launch.Unstaged},
		{"only the file's name", "x-EXTEND.trace.json", []string{call("1", 15, 3), kern(60, 3)}, launch.Prefill, launch.ByFile},
		{"nothing", "f", []string{call("1", 15, 3), kern(60, 3)}, launch.None, launch.Unstaged},
	} {
		_, l := links(t, c.file, c.events...)
		if e := l.Events[0]; e.Stage != c.stage || e.Rule != c.rule {
			t.Errorf("%s: %s by %q, want %s by %q", c.name, e.Stage, e.Rule, c.stage, c.rule)
		}
	}
}

// An event without launch between two of one stage has that stage; between two
// stages it has none.
func TestNeighbours(t *testing.T) {
	_, l := links(t, "f",
		note("1", "step[DECODE bs=1]", 10, 20), note("1", "step[EXTEND bs=1 toks=9]", 40, 20),
		call("1", 11, 1), call("1", 12, 2), call("1", 45, 3),
		kern(100, 1), kern(110, 98), kern(120, 2), kern(130, 99), kern(140, 3))
	want := []launch.Stage{launch.Decode, launch.Decode, launch.Decode, launch.None, launch.Prefill}
	for i, w := range want {
		if l.Events[i].Stage != w {
			t.Errorf("event %d: %s by %s, want %s", i, l.Events[i].Stage, l.Events[i].Rule, w)
		}
	}
	if l.Orphans != 2 {
		t.Errorf("%d orphans, want 2", l.Orphans)
	}
}

// An annotation beats the file's name, and that is said.
func TestFileNameContradicted(t *testing.T) {
	_, l := links(t, "x-EXTEND.json", note("1", "step[DECODE bs=1]", 10, 20), call("1", 15, 3), kern(60, 3))
	if l.Events[0].Stage != launch.Decode || len(l.Warnings) != 1 {
		t.Errorf("%s, warnings %q", l.Events[0].Stage, l.Warnings)
	}
}

// The innermost operator around the launch; External id only where no
// operator is around and one has that id.
func TestOperators(t *testing.T) {
	tr, l := links(t, "f",
		event("cpu_op", "aten::linear", "1", "1", 10, 20, `"External id":5`),
		event("cpu_op", "aten::mm", "1", "1", 11, 10, `"External id":6`),
		event("cpu_op", "aten::add", "1", "1", 40, 5, `"External id":7`),
		call("1", 12, 1), call("1", 25, 2), call("1", 35, 3), call("2", 12, 4),
		kern(50, 1), kern(60, 2),
		event("kernel", "k", "0", "7", 70, 5, `"correlation":3,"External id":7`),
		event("kernel", "k", "0", "7", 80, 5, `"correlation":4,"External id":4`))
	for i, want := range []string{"aten::mm", "aten::linear", "aten::add", ""} {
		got := ""
		if op := l.Events[i].Op; op >= 0 {
			got = tr.Name(tr.Ops[op].Name)
		}
		if got != want {
			t.Errorf("event %d: operator %q, want %q", i, got, want)
		}
	}
	if p := l.Parents; p[1] != 0 || p[0] != -1 || p[2] != -1 {
		t.Errorf("parents %v", p)
	}
}

// In a merged file correlation ids are unique inside one rank only.
func TestMergedRanks(t *testing.T) {
	tr, l := links(t, "f",
		event("cuda_runtime", "cudaLaunchKernel", `"[TP00] 9"`, "1", 10, 1, `"correlation":3`),
		event("cuda_runtime", "cudaLaunchKernel", `"[TP01] 9"`, "1", 20, 1, `"correlation":3`),
		event("kernel", "k", `"[TP01] 0"`, "7", 50, 5, `"device":1,"stream":7,"correlation":3`))
	if c := l.Events[0].Call; c != 1 || tr.Tracks[tr.Calls[c].Track].Group != "[TP01]" {
		t.Errorf("the kernel of rank 1 was linked to call %d", c)
	}
}

// Python frames may cross without nesting; the telling one is the innermost of
// a known framework.
func TestSites(t *testing.T) {
	frame := func(name string, ts, dur int) string { return event("python_function", name, "1", "1", ts, dur, "") }
	_, l := links(t, "f",
		frame("threading.py(10): run", 0, 100),
		frame("/usr/lib/python3/dist-packages/vllm/worker.py(20): execute", 1, 90),
		frame("nn.Module: Linear_4", 5, 50),
		frame("/x/site-packages/torch/nn/modules/linear.py(30): forward", 6, 40),
		frame("<built-in method mm of type object at 0x7f0000000001>", 7, 30),
		frame("vllm/gone.py(1): over", 2, 3), // ended before the launch
		call("1", 12, 1), kern(50, 1))
	if len(l.Sites) != 1 {
		t.Fatalf("sites %+v", l.Sites)
	}
	s := l.Sites[0]
	if s.Location != "vllm/worker.py:20 execute" || s.Module != "Linear_4" || s.Stack != "vllm/worker.py:20 execute → torch/nn/modules/linear.py:30 forward" {
		t.Errorf("%+v", s)
	}
}

// A graph launch has many kernels; one without any is suspect.
func TestGraphs(t *testing.T) {
	_, l := links(t, "f",
		event("cuda_runtime", "cudaGraphLaunch", "1", "1", 10, 1, `"correlation":1`),
		event("cuda_runtime", "cuGraphLaunch_ptsz", "1", "1", 20, 1, `"correlation":2`),
		kern(50, 1), kern(60, 1))
	if len(l.Graphs) != 2 || l.Graphs[0].Events != 2 || l.Graphs[1].Events != 0 || !l.UnderRecorded() || len(l.Warnings) != 1 {
		t.Errorf("graphs %+v, warnings %q", l.Graphs, l.Warnings)
	}
	if !l.Events[0].Graph {
		t.Error("a replayed kernel does not say so")
	}
}
