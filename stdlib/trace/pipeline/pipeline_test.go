package pipeline_test

import (
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/trace/layers"
	"github.com/sotabuild/sotabuild/stdlib/trace/pipeline"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
)

func report(t *testing.T, file string) (pipeline.Report, *layers.Result) {
	t.Helper()
	r, err := layers.Build(profile.Build(sample.Load(t, file)), layers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return pipeline.Build(r, ""), r
}

// The parts agree with each other: kernels of the flow are the layer's, hot
// kernels stand in it, ranges are real and inside the pass.
func TestPartsAgree(t *testing.T) {
	for _, f := range []string{
		"traces/vllm_prefill_eager_b200.json.gz", "traces/vllm_decode_fullgraph_mi300x.json.gz",
		"h200/vllm_moe_prefill.dp0_pp0_tp0_dcp0_ep0_rank0.pt.trace.json.gz", "traces/xdit_flux_hipgraph_63MB.json.gz",
	} {
		p, r := report(t, f)
		if p.Chosen.Reason == "" || p.Conclusion == "" || len(p.Clusters) == 0 || len(p.Flows) < len(p.Clusters) {
			t.Errorf("%s: a part is missing: %+v", f, p.Chosen)
		}
		for _, flow := range p.Flows {
			layer := r.Passes[r.Chosen].Layers[flow.Layer]
			var sum int64
			for i, s := range flow.Steps {
				sum += s.Dur
				if s.Number != i+1 || s.At < 0 || i > 0 && s.Half == "attention" && flow.Steps[i-1].Half == "ffn" {
					t.Errorf("%s: layer %d step %+v", f, flow.Layer, s)
				}
			}
			if sum != layer.Times.Sum || len(flow.Steps) != len(layer.Events) {
				t.Errorf("%s: the flow of layer %d has %d ns, the layer %d", f, flow.Layer, sum, layer.Times.Sum)
			}
		}
		for _, c := range p.Clusters {
			inside := map[string]bool{}
			for _, s := range p.Flows {
				for _, step := range s.Steps {
					inside[step.Kernel] = true
				}
			}
			for _, h := range c.Hot {
				if !inside[h.Kernel] {
					t.Errorf("%s: hot kernel %s is in no flow", f, h.Kernel)
				}
			}
		}
		pass := p.Ranges[0]
		for _, x := range p.Ranges {
			if x.From >= x.To || x.From < pass.From || x.To > pass.To || x.From < 0 {
				t.Errorf("%s: range %+v", f, x)
			}
		}
	}
}

// The B200's layers have an attention half of 11 events (norm, product, rope,
// cast, quantization, cache, attention, product, copy, all-reduce, copy), then
// the norm that begins the MoE half.
func TestHalves(t *testing.T) {
	p, _ := report(t, "traces/vllm_prefill_eager_b200.json.gz")
	steps := p.Flows[0].Steps
	if len(steps) != 25 || steps[10].Half != "attention" || steps[11].Half != "ffn" || steps[11].Family != "norm" || steps[6].Family != "attention" {
		t.Errorf("halves: %+v", steps)
	}
	if steps[1].Dims == "" {
		t.Errorf("shapes were recorded, yet the first product has none")
	}
}

func TestWhatIsNotKnownIsSaid(t *testing.T) {
	p, _ := report(t, "traces/xdit_flux_hipgraph_63MB.json.gz")
	notes := strings.Join(p.Notes, "\n")
	for _, want := range []string{"No model configuration", "uncertain", "replays a graph"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes do not say %q:\n%s", want, notes)
		}
	}
}

// Perfetto's zero is the first time of any event, not of the first kernel.
func TestOrigin(t *testing.T) {
	p, r := report(t, "traces/sglang_Qwen3-8B_extend_mi300x.json.gz")
	first := r.Profile.Trace.Meta.First
	if first >= r.Profile.Trace.GPU[0].Start {
		t.Fatalf("origin %d is not before the first kernel", first)
	}
	if p.Ranges[0].From != r.Passes[0].Times.Start-first || p.Ranges[0].Start != r.Profile.Trace.Meta.Base+r.Passes[0].Times.Start {
		t.Errorf("range %+v", p.Ranges[0])
	}
}
