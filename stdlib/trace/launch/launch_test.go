package launch_test

import (
	"math"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

func TestParseStep(t *testing.T) {
	for name, want := range map[string]launch.Step{
		"step[EXTEND bs=15 toks=15360]":                 {Stage: launch.Prefill, Requests: 15, Tokens: 15360},
		"step[DECODE bs=32]":                            {Stage: launch.Decode, Requests: 32, Tokens: -1},
		"step[DECODE bs=4 c_sq=3]":                      {Stage: launch.Decode, Requests: 4, Tokens: -1},
		"step[MIXED bs=4 toks=90]":                      {Stage: launch.Mixed, Requests: 4, Tokens: 90},
		"step[TARGET_VERIFY bs=2]":                      {Stage: launch.Decode, Requests: 2, Tokens: -1},
		"step[IDLE bs=0]":                               {Stage: launch.None, Requests: 0, Tokens: -1},
		"execute_context_1(2048)_generation_0(0)":       {Stage: launch.Prefill, Requests: 1, Tokens: 2048},
		"execute_context_0(0)_generation_16(16)":        {Stage: launch.Decode, Requests: 16, Tokens: 16},
		"execute_context_15(240)_generation_1(1)":       {Stage: launch.Mixed, Requests: 16, Tokens: 241},
		"execute_context_0(0)_generation_0(0)":          {Stage: launch.None, Requests: 0, Tokens: 0},
		"execute_context_1(888_788544)_generation_0(0)": {Stage: launch.Prefill, Requests: 1, Tokens: 888},
		"execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)": {Stage: launch.Decode, Requests: 32, Tokens: 32},
		"[Executor] _forward_step 7: 2 ctx reqs, 3 gen reqs":                               {Stage: launch.Mixed, Requests: 5, Tokens: -1},
		"capture_32_FULL": {Stage: launch.None, Requests: -1, Tokens: -1, Capture: true},
	} {
		want.Name = name
		got, ok := launch.ParseStep(name)
		if !ok || got != want {
			t.Errorf("ParseStep(%q) = %+v, %v; want %+v", name, got, ok, want)
		}
	}
	for _, name := range []string{"decoder", "decode_image", "ProfilerStep#3", "## backward ##", "nccl:all_reduce", "step", "execute_context_1"} {
		if s, ok := launch.ParseStep(name); ok {
			t.Errorf("ParseStep(%q) = %+v, want no step", name, s)
		}
	}
}

func TestFileStage(t *testing.T) {
	for path, want := range map[string]launch.Stage{
		"a/1790-TP-0-EXTEND.trace.json.gz":  launch.Prefill,
		"a/1790-TP-0-DECODE.trace.json.gz":  launch.Decode,
		"run/decode/rank0.pt.trace.json":    launch.Decode,
		"run/prefill/x/rank0.pt.trace.json": launch.Prefill,
		"decoder/rank0.json":                launch.None,
		"vllm_dense_decode.rank0.json":      launch.None,
	} {
		if got := launch.FileStage(path); got != want {
			t.Errorf("FileStage(%q) = %s, want %s", path, got, want)
		}
	}
}

// Kernel time by stage of the recorded servers, counted independently from the
// annotations (microseconds; the decode row is the sum of two rounded values).
func TestKernelTimeByStage(t *testing.T) {
	for _, c := range []struct {
		file                         string
		prefill, mixed, decode, none float64
	}{
		{"h200/vllm_dense_decode.rank0.pt.trace.json.gz", 4753.2, 6850.3, 51819.9, 1267.6},
		{"h200/vllm_dense_prefill.rank0.pt.trace.json.gz", 266767.3, 0, 0, 611.4},
		{"h200/vllm_moe_prefill.dp0_pp0_tp0_dcp0_ep0_rank0.pt.trace.json.gz", 70529.5, 0, 0, 115.2},
	} {
		tr := sample.Load(t, c.file)
		got := map[launch.Stage]int64{}
		for i, e := range launch.Build(tr).Events {
			if tr.GPU[i].Kind == read.Kernel {
				got[e.Stage] += tr.GPU[i].Dur
			}
		}
		for stage, want := range map[launch.Stage]float64{
			launch.Prefill: c.prefill, launch.Mixed: c.mixed, launch.Decode: c.decode, launch.None: c.none,
		} {
			if us := float64(got[stage]) / 1000; math.Abs(us-want) > 0.1 {
				t.Errorf("%s: %s %.3f µs, want %.1f", c.file, stage, us, want)
			}
		}
	}
}

// SGLang's projected annotations overlap; by launch the steps are exact. What
// lies outside any step has the file name as its only evidence.
func TestSGLangStepsByLaunch(t *testing.T) {
	tr := sample.Load(t, "h200/sglang_dense_extend.TP-0-EXTEND.trace.json.gz")
	l := launch.Build(tr)
	type sum struct {
		kernels int
		ns      int64
	}
	got := map[string]sum{}
	for i, e := range l.Events {
		if tr.GPU[i].Kind != read.Kernel {
			continue
		}
		key := e.Rule.String()
		if e.Step >= 0 {
			key = l.Steps[e.Step].Name
		}
		got[key] = sum{got[key].kernels + 1, got[key].ns + tr.GPU[i].Dur}
	}
	want := map[string]sum{
		"step[EXTEND bs=1 toks=501]":  {530, 11699890},
		"step[EXTEND bs=7 toks=3507]": {530, 77359419},
		"file name":                   {59, 148990},
	}
	for k, w := range want {
		if got[k] != w {
			t.Errorf("%s: %+v, want %+v", k, got[k], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("attribution %+v", got)
	}
}
