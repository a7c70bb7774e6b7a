package mapping_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
	"github.com/sotabuild/sotabuild/stdlib/trace/layers"
	"github.com/sotabuild/sotabuild/stdlib/trace/mapping"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
)

// The capture of the decode graph names the source of (nearly) every replayed
// kernel, shapes included: Qwen3-8B at batch 32 has 4096-wide hidden states.
func TestCaptureExplainsReplay(t *testing.T) {
	capture := profile.Build(sample.Load(t, "traces/sglang_Qwen3-8B_decode_capture_bs32_mi300x.json.gz"))
	replay := profile.Build(sample.Load(t, "traces/sglang_Qwen3-8B_decode_graph_mi300x.json.gz"))
	r, err := layers.Build(replay, layers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var graph []int32
	for _, e := range r.Passes[0].Events {
		if replay.Links.Events[e].Graph {
			graph = append(graph, e)
		}
	}
	j := mapping.Build(capture).Apply(replay, [][]int32{graph})
	if j.Joined < 0.9 {
		t.Fatalf("only %.0f %% of the replayed kernels are joined", 100*j.Joined)
	}
	products := map[string]int{}
	for _, e := range graph {
		if replay.Classes[e].Family == kernel.GEMM {
			products[j.Sources[e].Op+" "+j.Sources[e].Dims]++
			if !strings.Contains(j.Sources[e].Location, ".py:") {
				t.Errorf("no Python line for %s", replay.Symbol(e).Canonical)
			}
		}
	}
	for want, n := range map[string]int{
		"aten::mm [[32,4096],[4096,6144]]":   36, // queries, keys and values
		"aten::mm [[32,4096],[4096,4096]]":   36, // output projection
		"aten::mm [[32,4096],[4096,24576]]":  36, // gate and up
		"aten::mm [[32,12288],[12288,4096]]": 36, // down
	} {
		if products[want] != n {
			t.Errorf("%s: %d times, want %d (have %v)", want, products[want], n, products)
		}
	}
}

// Without any common kernel nothing is claimed.
func TestUnrelatedTraces(t *testing.T) {
	a := profile.Build(sample.Load(t, "traces/edge/triton_cuLaunchKernel.json.gz"))
	b := profile.Build(sample.Load(t, "traces/edge/cuda_sync_multi_stream.json.gz"))
	all := []int32{0, 1, 2, 3, 4, 5}
	j := mapping.Build(a).Apply(b, [][]int32{all})
	for i, how := range j.How {
		if how != mapping.No {
			t.Errorf("event %d is joined by %d", i, how)
		}
	}
}

// A mapping of two steps, the second with a larger batch: the places are lent
// in order, and only the shapes that both steps have.
func TestStepsWithOtherBatches(t *testing.T) {
	step := func(at int64, batch string) []sample.Kernel {
		return []sample.Kernel{
			{Name: "gemm", Start: at + 2000, Dur: 500, Op: "model::query", Dims: "[[" + batch + ",8],[8,8]]", Types: `["float"]`},
			{Name: "norm", Start: at + 4000, Dur: 500, Op: "model::norm", Dims: "[[" + batch + ",8]]"},
			{Name: "gemm", Start: at + 6000, Dur: 500, Op: "model::up", Dims: "[[4,8],[8,8]]", Types: `["float"]`},
		}
	}
	eager := func(kernels ...sample.Kernel) *profile.Profile {
		return profile.Build(sample.Make(t, nil, kernels))
	}
	var bare []sample.Kernel
	for _, k := range step(0, "1") {
		k.Op, k.Dims, k.Types = "", "", ""
		bare = append(bare, k)
	}
	j := mapping.Build(eager(append(step(0, "1"), step(20000, "2")...)...)).Apply(eager(bare...), [][]int32{{0, 1, 2}})
	want := []mapping.Source{
		{Op: "model::query", Types: `["float"]`},
		{Op: "model::norm"},
		{Op: "model::up", Dims: "[[4,8],[8,8]]", Types: `["float"]`},
	}
	how := []mapping.How{mapping.ByOrder, mapping.ByName, mapping.ByOrder}
	if !slices.Equal(j.Sources, want) || !slices.Equal(j.How, how) || j.Joined != 1 {
		t.Errorf("joined %v of %+v by %v, want %+v by %v", j.Joined, j.Sources, j.How, want, how)
	}
}
