package profile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/stdlib/trace"
)

// folder holds objects as files by their digest.
type folder string

func (f folder) put(t *testing.T, text string) key.Digest {
	t.Helper()
	d := key.Sum([]byte(text))
	if err := os.WriteFile(filepath.Join(string(f), d.Short()), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

func (f folder) Path(d key.Digest) (string, error) { return filepath.Join(string(f), d.Short()), nil }
func (f folder) Bytes(d key.Digest) ([]byte, error) {
	return os.ReadFile(filepath.Join(string(f), d.Short()))
}

// pair is one step as a graph and as single launches: the times are the first
// one's, the operators and shapes the second one's.
func pair() (formal, mapping string) {
	const step = `{"ph":"X","cat":"user_annotation","name":"execute_context_0(0)_generation_8(8)","pid":1,"tid":1,"ts":0,"dur":900}`
	const graph = `{"traceEvents":[` + step + `,
{"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":1,"tid":1,"ts":5,"dur":2,"args":{"correlation":9}},
{"ph":"X","cat":"kernel","name":"nvjet_tst_64x8","pid":0,"tid":7,"ts":10,"dur":40,"args":{"stream":7,"correlation":9}},
{"ph":"X","cat":"kernel","name":"flash_fwd_kernel","pid":0,"tid":7,"ts":60,"dur":60,"args":{"stream":7,"correlation":9}}]}`
	const eager = `{"traceEvents":[` + step + `,
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":4,"dur":5,"args":{"External id":1,"Input Dims":[[8,4096],[4096,6144]],"Input type":["c10::BFloat16","c10::BFloat16"]}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":5,"dur":2,"args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"nvjet_tst_64x8","pid":0,"tid":7,"ts":10,"dur":70,"args":{"stream":7,"correlation":1}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":90,"dur":2,"args":{"correlation":2}},
{"ph":"X","cat":"kernel","name":"flash_fwd_kernel","pid":0,"tid":7,"ts":95,"dur":90,"args":{"stream":7,"correlation":2}}]}`
	return graph, eager
}

func TestTables(t *testing.T) {
	dir := folder(t.TempDir())
	formal, mapping := pair()
	input := func(name, text string) compile.InputValue {
		return compile.InputValue{Name: name, Addr: name, Digest: dir.put(t, text)}
	}
	job := compile.Job{Spec: TablesSpec{Framework: "mine", Stage: Decode}, Objects: dir, Inputs: []compile.InputValue{
		input("formal summary", `{"trace":"rank0.json"}`), input("formal trace", formal),
		input("mapping summary", `{"trace":"mapping.rank0.json"}`), input("mapping trace", mapping),
	}}
	r := tables(t.Context(), job)
	if r.Outcome.State != cache.OK || len(r.Outputs) != 3 {
		t.Fatalf("%+v", r.Outcome)
	}
	md := string(r.Outputs[0].Bytes)
	for _, want := range []string{"## mine, rank 0", "Input: rank0.json", "Mapping trace: mapping.rank0.json", "joined to the mapping 100.0 %",
		"| flash_fwd_kernel | attention | 60.0 µs | 60.00 % |", "aten::mm", "8×4096 · 4096×6144"} {
		if !strings.Contains(md, want) {
			t.Errorf("no %q in\n%s", want, md)
		}
	}
	if strings.Contains(md, string(dir)) {
		t.Error("the tables hold a path of this machine")
	}
	var res trace.TriageResult
	if err := json.Unmarshal(r.Outputs[1].Bytes, &res); err != nil || res.Reports[0].Stages[0].Times.Sum != 100_000 {
		t.Errorf("%v, %+v", err, res.Reports)
	}
	// A trace that names no step is all of the stage that was loaded.
	plain := job
	plain.Inputs = []compile.InputValue{input("formal summary", `{"trace":"rank0.json","whole":true,"stage":"decode"}`),
		input("formal trace", strings.Replace(formal, "execute_context_0(0)_generation_8(8)", "a step", 1))}
	if r = tables(t.Context(), plain); r.Outcome.State != cache.OK || !strings.Contains(string(r.Outputs[0].Bytes), "### decode") {
		t.Errorf("without steps: %+v", r.Outcome)
	}
	job.Inputs = job.Inputs[:2]
	if r = tables(t.Context(), job); r.Outcome.State != cache.OK || strings.Contains(string(r.Outputs[0].Bytes), "aten::mm") {
		t.Errorf("without a mapping: %+v", r.Outcome)
	}
	job.Inputs[1] = input("formal trace", "{")
	if r = tables(t.Context(), job); r.Outcome.Class != string(executors.ClassNoOutput) {
		t.Errorf("a broken trace: %+v", r.Outcome)
	}
}

// imports runs the import of a folder of files.
func imports(t *testing.T, i Import, files map[string]string) (compile.Result, Summary) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	i.Paths = []string{dir}
	c, _ := loaded(t)
	decls, err := DeclareImported(subject(c, 2), []Import{i}, true, func(path string) (key.Digest, error) {
		b, err := os.ReadFile(path)
		return key.Sum(b), err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(decls) != 2 || decls[1].Inputs[1].From != decls[0].Addr {
		t.Fatalf("%d nodes", len(decls))
	}
	r := importTrace(t.Context(), compile.Job{Spec: decls[0].Spec})
	var sum Summary
	if r.Outcome.State == cache.OK {
		if err := json.Unmarshal(r.Outputs[0].Bytes, &sum); err != nil {
			t.Fatal(err)
		}
	}
	return r, sum
}

// TestImport: of a folder the lowest rank that holds the stage is taken.
func TestImport(t *testing.T) {
	decode, _ := pair()
	prefill := strings.Replace(decode, "execute_context_0(0)_generation_8(8)", "execute_context_1(64)_generation_0(0)", 1)
	r, sum := imports(t, Import{Stage: Decode}, map[string]string{"rank0.json": prefill, "rank1.json": decode, "rank2.json": decode, "config.json": "{}"})
	if r.Outcome.State != cache.OK || sum.Trace != "rank1.json" || sum.Rank != 1 || !sum.Imported || len(sum.SetAside) != 2 {
		t.Errorf("%+v %+v", r.Outcome, sum)
	}
	if r, _ = imports(t, Import{Stage: Decode}, map[string]string{"rank0.json": prefill}); r.Outcome.Class != "no_output" || !strings.Contains(r.Outcome.Reason, "no GPU time in the decode stage") {
		t.Errorf("a trace of the other stage: %+v", r.Outcome)
	}
}

// TestImportWithoutSteps: a trace that names no step is of a stage only if
// somebody says so.
func TestImportWithoutSteps(t *testing.T) {
	text, _ := pair()
	plain := map[string]string{"rank0.json": strings.Replace(text, "execute_context_0(0)_generation_8(8)", "a step", 1)}
	if r, _ := imports(t, Import{Stage: Decode}, plain); r.Outcome.State != cache.Failed {
		t.Errorf("nobody said: %+v", r.Outcome)
	}
	if r, sum := imports(t, Import{Stage: Decode, Said: true}, plain); r.Outcome.State != cache.OK || !sum.Whole || !strings.Contains(fmt.Sprint(sum.Warnings), "taken as decode") {
		t.Errorf("said: %+v %+v", r.Outcome, sum)
	}
}

// TestImportHost: without a device the host's operators are the work.
func TestImportHost(t *testing.T) {
	text := `{"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"execute_context_0(0)_generation_2(2)","pid":1,"tid":1,"ts":0,"dur":50},
{"ph":"X","cat":"cpu_op","name":"_C::onednn_mm","pid":1,"tid":1,"ts":10,"dur":10,"args":{"External id":2}}]}`
	r, sum := imports(t, Import{Stage: Decode}, map[string]string{"rank0.json": text})
	if r.Outcome.State != cache.OK || !sum.Host || !strings.Contains(fmt.Sprint(r.Warnings), "host's operators") {
		t.Errorf("%+v %+v", r.Outcome, sum)
	}
}

// TestImportChanged: a file that is not what was declared is not taken.
func TestImportChanged(t *testing.T) {
	text, _ := pair()
	path := filepath.Join(t.TempDir(), "rank0.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := importTrace(t.Context(), compile.Job{Spec: ImportSpec{Stage: Decode, Role: Formal, Files: []File{{Path: path, Name: "rank0.json"}}}})
	if r.Outcome.Class != string(executors.ClassChanged) {
		t.Errorf("%+v", r.Outcome)
	}
}
