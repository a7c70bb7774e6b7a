package trace_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/stdlib/trace/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/trace/interval"
	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// fact is what an independent program counted in one recorded trace. Times are
// microseconds as decimal text.
type fact struct {
	Gz         int64          `json:"gz_bytes"`
	Raw        int64          `json:"raw_bytes"`
	Events     int            `json:"events"`
	ByKind     map[string]int `json:"by_cat_ph"`
	Base       *int64         `json:"baseTimeNanoseconds"`
	GPU        int            `json:"gpu_events"`
	Kernels    int            `json:"kernels"`
	GPUSum     json.Number    `json:"gpu_sum_us"`
	KernelSum  json.Number    `json:"kernel_sum_us"`
	Busy       json.Number    `json:"gpu_busy_union_us"`
	Window     json.Number    `json:"gpu_window_us"`
	Streams    map[string]int `json:"streams"`
	CommUnion  json.Number    `json:"comm_union_us"`
	CommHidden json.Number    `json:"comm_hidden_by_comp_us"`
	Stages     map[string]struct {
		Events int         `json:"gpu_events"`
		Sum    json.Number `json:"sum_us"`
	} `json:"stage_by_launch_annotation"`
	Annotations []string `json:"stage_annotations"`
	Graphs      int      `json:"graph_launches"`
	PerGraph    []int    `json:"graph_kernels_per_launch"`
	Orphans     int      `json:"gpu_events_without_launch_in_trace"`
	Top         []struct {
		Name  string      `json:"name"`
		Sum   json.Number `json:"sum_us"`
		Count int         `json:"count"`
	} `json:"top5_exact_names"`
}

func facts(t *testing.T) map[string]fact {
	t.Helper()
	b, err := os.ReadFile(sample.Path(t, "traces/facts.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]fact
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	if len(out) != 17 {
		t.Fatalf("%d facts, want 17: the file has changed, look at it", len(out))
	}
	return out
}

// ns turns decimal microseconds into nanoseconds. The facts' sums went through
// floating point, so the last digit of long sums is rounded here.
func ns(t *testing.T, n json.Number) int64 {
	t.Helper()
	if n == "" {
		return 0
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil {
		t.Fatal(err)
	}
	return int64(f*1000 + 0.5)
}

func TestFactsOfEveryRecordedTrace(t *testing.T) {
	for name, want := range facts(t) {
		t.Run(strings.NewReplacer("/", "-", ".", "-").Replace(name), func(t *testing.T) {
			tr := sample.Load(t, "traces/"+name)
			checkReading(t, tr, want)
			checkTimes(t, tr, want)
			checkLinks(t, tr, want)
		})
	}
}

// exact is where the facts' own program lost nanoseconds: it added float64
// times of 13 digits, whose last bit is worth half a nanosecond. These values
// come from a second independent program in exact decimal arithmetic.
var exact = map[string]struct{ busy, window, comm, hidden int64 }{
	"ddp_resnet_nccl_args":           {157500014, 660551005, 46876493, 7317025},
	"sglang_Qwen3-8B_decode_capture": {11015, 11016, 0, 0},
	"sglang_Qwen3-8B_decode_graph":   {9772926, 473749943, 0, 0},
	"sglang_Qwen3-8B_extend_mi300x":  {492806877, 987288887, 0, 0},
	"vllm_decode_fullgraph_mi300x":   {10717708, 10743181, 0, 0},
	"vllm_prefill_eager_b200":        {11596482, 84487178, 2141501, 0},
	"xdit_flux_hipgraph_63MB":        {201351762, 226595684, 0, 0},
	"gpu_only_no_cpu_op":             {5343422, 5979503, 0, 0},
}

func checkReading(t *testing.T, tr *read.Trace, want fact) {
	t.Helper()
	same(t, "gz bytes", tr.Meta.Packed, want.Gz)
	same(t, "raw bytes", tr.Meta.Raw, want.Raw)
	same(t, "events", tr.Counts.Events, want.Events)
	base := int64(0)
	if want.Base != nil {
		base = *want.Base
	}
	same(t, "base", tr.Meta.Base, base)
	kinds := map[string]int{}
	for _, k := range tr.Counts.ByKind {
		kinds[k.Cat+"/"+k.Phase] = k.N
	}
	if d := cmp.Diff(want.ByKind, kinds); d != "" {
		t.Errorf("kinds (-want +got):\n%s", d)
	}
	if tr.Counts.Partial || len(tr.Counts.Warnings) > 0 {
		t.Errorf("a whole file is partial or warned about: %q", tr.Counts.Warnings)
	}
}

func checkTimes(t *testing.T, tr *read.Trace, want fact) {
	t.Helper()
	var kernels int
	var gpuSum, kernelSum, first, last int64
	streams := map[string]int{}
	type top struct{ sum, count int64 }
	names := map[string]top{}
	var all, comm, compute []interval.Span
	for i, g := range tr.GPU {
		gpuSum += g.Dur
		if i == 0 {
			first = g.Start
		}
		last = max(last, g.End())
		streams[fmt.Sprintf("%d/%d", g.Device, g.Stream)]++
		s := interval.Span{Start: g.Start, End: g.End()}
		all = append(all, s)
		n := names[tr.Name(g.Name)]
		names[tr.Name(g.Name)] = top{n.sum + g.Dur, n.count + 1}
		if g.Kind != read.Kernel {
			continue
		}
		kernels++
		kernelSum += g.Dur
		if kernel.Parse(tr.Name(g.Name)).Class.Family == kernel.Comm {
			comm = append(comm, s)
		} else {
			compute = append(compute, s)
		}
	}
	same(t, "GPU events", len(tr.GPU), want.GPU)
	same(t, "kernels", kernels, want.Kernels)
	same(t, "GPU sum", gpuSum, ns(t, want.GPUSum))
	same(t, "kernel sum", kernelSum, ns(t, want.KernelSum))
	checkUnions(t, tr, want, [4]int64{
		interval.Union(all), last - first,
		interval.Union(comm), interval.Intersect(interval.Merge(comm), interval.Merge(compute)),
	})
	if len(want.Streams)+len(streams) > 0 {
		if d := cmp.Diff(want.Streams, streams); d != "" {
			t.Errorf("streams (-want +got):\n%s", d)
		}
	}
	for _, w := range want.Top {
		// The facts cut names at 110 characters, so several can share one.
		found := false
		for name, got := range names {
			if strings.HasPrefix(name, w.Name) && got == (top{ns(t, w.Sum), int64(w.Count)}) {
				found = true
			}
		}
		if !found {
			t.Errorf("no kernel %q with %s µs in %d calls", w.Name, w.Sum, w.Count)
		}
	}
}

// checkUnions wants busy time, window, communication and its hidden part.
func checkUnions(t *testing.T, tr *read.Trace, want fact, got [4]int64) {
	t.Helper()
	told := [4]int64{ns(t, want.Busy), ns(t, want.Window), ns(t, want.CommUnion), ns(t, want.CommHidden)}
	for key, e := range exact {
		if strings.Contains(tr.Meta.Path, key) {
			right := [4]int64{e.busy, e.window, e.comm, e.hidden}
			for i := range told {
				if d := told[i] - right[i]; d < -int64(want.GPU) || d > int64(want.GPU) {
					t.Errorf("the facts' %d is not a rounding of %d", told[i], right[i])
				}
			}
			told = right
		}
	}
	if got != told {
		t.Errorf("busy, window, communication, hidden: %v, want %v", got, told)
	}
}

func checkLinks(t *testing.T, tr *read.Trace, want fact) {
	t.Helper()
	l := launch.Build(tr)
	if strings.Contains(tr.Meta.Path, "old_kineto") {
		// The facts know today's categories only; the four launches are there,
		// under the category Runtime, and link.
		same(t, "facts' orphans of the old file", want.Orphans, 4)
		want.Orphans = 0
	}
	same(t, "orphans", l.Orphans, want.Orphans)
	same(t, "graph launches", len(l.Graphs), want.Graphs)
	var per []int
	for _, g := range l.Graphs {
		per = append(per, g.Events)
	}
	if len(per)+len(want.PerGraph) > 0 && !slices.Equal(per, want.PerGraph) {
		t.Errorf("kernels a graph launch: %v, want %v", per, want.PerGraph)
	}
	type sum struct {
		events int
		ns     int64
	}
	stages, wantStages := map[launch.Stage]sum{}, map[launch.Stage]sum{}
	for i, e := range l.Events {
		s := stages[e.Stage]
		stages[e.Stage] = sum{s.events + 1, s.ns + tr.GPU[i].Dur}
	}
	names := map[string]launch.Stage{"extend": launch.Prefill, "decode": launch.Decode, "unattributed": launch.None}
	for name, s := range want.Stages {
		stage, ok := names[name]
		if !ok {
			t.Fatalf("stage %q is new", name)
		}
		wantStages[stage] = sum{s.Events, ns(t, s.Sum)}
	}
	if d := cmp.Diff(wantStages, stages, cmp.AllowUnexported(sum{})); d != "" {
		t.Errorf("stages (-want +got):\n%s", d)
	}
	var annotations []string
	for _, s := range l.Steps {
		if !s.Capture {
			annotations = append(annotations, s.Name)
		}
	}
	slices.Sort(annotations)
	annotations = slices.Compact(annotations)
	if len(annotations)+len(want.Annotations) > 0 && !slices.Equal(annotations, want.Annotations) {
		t.Errorf("step annotations %q, want %q", annotations, want.Annotations)
	}
}

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
