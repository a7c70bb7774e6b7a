package trace_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace"
	"github.com/sotabuild/sotabuild/stdlib/trace/internal/sample"
)

// Two steps' worth of one kernel: by a graph, and by an operator in eager mode,
// where a second operator launches less of it.
const (
	replay = `{"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"step[DECODE bs=4]","pid":1,"tid":1,"ts":0,"dur":900},
{"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":1,"tid":1,"ts":5,"dur":2,"args":{"correlation":9}},
{"ph":"X","cat":"kernel","name":"void ns::(anonymous namespace)::gemm_kernel<float, 4>(float*)","pid":0,"tid":7,"ts":10,"dur":40,"args":{"stream":7,"correlation":9}}]}`
	eager = `[{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":4,"dur":5,"args":{"External id":1,"Input Dims":[[8,4],[4,6]],"Input type":["float","float"],"Input Strides":[[4,1],[1,4]],"Concrete Inputs":["",""]}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":5,"dur":2,"args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"void ns::(anonymous namespace)::gemm_kernel<float, 4>(float*)","pid":0,"tid":7,"ts":10,"dur":70,"args":{"stream":7,"correlation":1}},
{"ph":"X","cat":"cpu_op","name":"aten::addmm","pid":1,"tid":1,"ts":84,"dur":5,"args":{"External id":"2","Input Dims":[[1]],"Input type":["float"]}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":85,"dur":2,"args":{"correlation":2}},
{"ph":"X","cat":"kernel","name":"void ns::(anonymous namespace)::gemm_kernel<float, 4>(float*)","pid":0,"tid":7,"ts":90,"dur":7,"args":{"stream":7,"correlation":2}}]`
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rank0.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFindRecorded(t *testing.T) {
	o := trace.RecordedOptions{Path: file(t, eager), Kernel: "gemm"}
	r, err := trace.FindRecorded(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Op != "aten::mm" || r.Dims != "[[8,4],[4,6]]" || r.Strides != "[[4,1],[1,4]]" || r.Concrete != `["",""]` ||
		r.Function != "gemm_kernel" || r.Launches != 2 || r.Time != 77_000 || r.Trace != "rank0.json" || len(r.Notes) > 0 {
		t.Errorf("%+v", r)
	}
	// A replay knows no operator; the mapping trace does.
	o = trace.RecordedOptions{Path: file(t, replay), Kernel: "gemm", Stage: "decode"}
	if r, err = trace.FindRecorded(context.Background(), o); err != nil || r.Op != "" || r.Launches != 1 {
		t.Errorf("without a mapping: %v, %+v", err, r)
	}
	o.Mapping = file(t, eager)
	if r, err = trace.FindRecorded(context.Background(), o); err != nil || r.Op != "aten::mm" || r.Launches != 1 || r.Strides == "" {
		t.Errorf("with a mapping: %v, %+v", err, r)
	}
	// Cut after the operator: what was read stays, and what was not is said.
	cut := file(t, strings.Split(eager, `"Input Strides"`)[0]+`"x":`+strings.SplitAfterN(eager, `["",""]`, 2)[1])
	if r, err = trace.FindRecorded(context.Background(), trace.RecordedOptions{Path: cut, Kernel: "gemm"}); err == nil && r.Strides != "" {
		t.Errorf("a broken operator: %v, %+v", err, r)
	}
	for want, o := range map[string]trace.RecordedOptions{
		"write a regular expression": {Path: o.Path, Kernel: "("},
		"no kernel matches \"nothing\"; the largest are ns::(anonymous namespace)::gemm_kernel<float, 4>": {Path: o.Path, Kernel: "nothing"},
		"in the stage prefill":      {Path: o.Path, Kernel: "gemm", Stage: "prefill"},
		"reading the mapping trace": {Path: o.Path, Kernel: "gemm", Mapping: o.Path + ".none"},
	} {
		if _, err := trace.FindRecorded(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestRecordedOnH200: a real PyTorch trace has all that a harness needs, by the
// shapes of its model: 1024 wide, with products of transposed weights.
func TestRecordedOnH200(t *testing.T) {
	path := sample.Path(t, "h200/dense_decode.trace.json.gz")
	r, err := trace.FindRecorded(context.Background(), trace.RecordedOptions{Path: path, Kernel: "nvjet.*8x64_64x16_2x1_v_bz_TNN", Stage: "decode"})
	if err != nil || r.Op != "aten::mm" || r.Dims != "[[4,1024],[1024,1024]]" ||
		!strings.HasPrefix(r.Strides, "[[1024, 1], [1, 1024]]") || r.Concrete != `["", ""]` || r.Launches != 80 {
		t.Errorf("%v, %+v", err, r)
	}
}
