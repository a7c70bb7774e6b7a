package diff_test

import (
	"math"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace/diff"
	"github.com/sotabuild/sotabuild/stdlib/trace/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/trace/layers"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

func side(tr *read.Trace) diff.Side {
	p := profile.Build(tr)
	l, err := layers.Build(p, layers.Config{})
	if err != nil {
		l = nil
	}
	return diff.Side{Profile: p, Layers: l}
}

// model is passes of eight layers; each kernel takes its microseconds.
func model(t *testing.T, passes int, kernels ...sample.Kernel) *read.Trace {
	t.Helper()
	var out []sample.Kernel
	var steps []sample.Step
	at := int64(10_000)
	for range passes {
		from := at
		for range 8 {
			for _, k := range kernels {
				k.Start = at
				at += k.Dur
				out = append(out, k)
			}
		}
		steps = append(steps, sample.Step{Name: "step[DECODE bs=1]", Start: from - 2000, End: at - 1500})
		at += 20_000
	}
	return sample.Make(t, steps, out)
}

// By hand, a pass: A has 8 · (2 + 10 + 5 + 10) = 216 µs; B has no norm (−16),
// a slower attention (+24) and a new kernel (+8): gap +16 µs.
func TestByHand(t *testing.T) {
	norm := sample.Kernel{Name: "rms_norm_kernel", Dur: 2000, Op: "aten::rms_norm"}
	gemm := sample.Kernel{Name: "nvjet_q", Dur: 10_000, Op: "aten::mm"}
	fast := sample.Kernel{Name: "flash_fwd_kernel", Dur: 5000, Op: "attn"}
	slow := sample.Kernel{Name: "flash_fwd_kernel", Dur: 8000, Op: "attn"}
	silu := sample.Kernel{Name: "silu_kernel", Dur: 1000, Op: "aten::silu"}
	a := side(model(t, 2, norm, gemm, fast, gemm))
	b := side(model(t, 3, gemm, slow, gemm, silu))
	stages := diff.Build(a, b)
	if len(stages) != 1 {
		t.Fatalf("%d stages", len(stages))
	}
	s := stages[0]
	if !s.PerPass || s.A.Passes != 2 || s.B.Passes != 3 || s.Gap != 16_000 || !s.Sums() {
		t.Errorf("gap %f, per pass %v, passes %d and %d, sums %v; want 16 µs a pass", s.Gap, s.PerPass, s.A.Passes, s.B.Passes, s.Sums())
	}
	want := map[string]struct {
		delta, explained float64
		only             string
	}{
		"attention": {24_000, 1.5, ""}, "norm": {-16_000, -1, "A"}, "activation": {8_000, 0.5, "B"}, "gemm": {0, 0, ""},
	}
	for _, r := range s.Tables[0].Rows {
		w := want[r.Key]
		if r.Delta != w.delta || r.Explained != w.explained || r.OnlyIn != w.only {
			t.Errorf("%s: %f, %f, %q; want %+v", r.Key, r.Delta, r.Explained, r.OnlyIn, w)
		}
	}
	if first := s.Tables[0].Rows[0].Key; first != "attention" {
		t.Errorf("the largest difference is %s", first)
	}
}

// On real servers every table sums to the gap, to the nanosecond; a trace
// against itself has none.
func TestSumsOnRealTraces(t *testing.T) {
	a := side(sample.Load(t, "h200/sglang_dense_extend.TP-0-EXTEND.trace.json.gz"))
	b := side(sample.Load(t, "h200/vllm_dense_prefill.rank0.pt.trace.json.gz"))
	c := side(sample.Load(t, "traces/dlrm_pair_rank-0.json.gz"))
	for _, pair := range [][2]diff.Side{{a, b}, {b, a}, {a, c}, {c, b}} {
		for _, s := range diff.Build(pair[0], pair[1]) {
			if !s.Sums() {
				t.Errorf("%s: a table leaves a rest", s.Stage)
			}
			for _, table := range s.Tables {
				sum := 0.0
				for _, r := range table.Rows {
					sum += r.Explained
				}
				if s.Gap != 0 && math.Abs(sum-1) > 1e-6 {
					t.Errorf("%s by %s: shares sum to %f", s.Stage, table.By, sum)
				}
			}
		}
	}
	for _, s := range diff.Build(a, a) {
		if s.Gap != 0 {
			t.Errorf("a trace differs from itself by %f", s.Gap)
		}
	}
}

func TestStageInOneTraceOnly(t *testing.T) {
	a := side(sample.Load(t, "h200/vllm_dense_decode.rank0.pt.trace.json.gz"))
	b := side(sample.Load(t, "h200/vllm_dense_prefill.rank0.pt.trace.json.gz"))
	for _, s := range diff.Build(a, b) {
		if s.Stage == "decode" && (s.PerPass || s.Gap != -float64(s.A.Time) || s.Note == "") {
			t.Errorf("decode is in A only: %+v", s.Note)
		}
	}
}
