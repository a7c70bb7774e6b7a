package winners

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

func p(f float64) *float64 { return &f }

// row makes an ok row of 80 requests. Its digest follows from its name alone.
func row(name string, concurrency int, metrics map[string]float64) Input {
	r := result.Row{
		Version: 1, Status: result.OK,
		Workload: result.Workload{Kind: "random", Dataset: "sha256:d", InputLen: 1000, OutputLen: 1000, NumPrompts: 80, Arrival: "inf"},
		Requests: result.Requests{OK: 80},
	}
	r.Subject.Hardware.GPUCount = 1
	if concurrency > 0 {
		r.Workload.Concurrency = &concurrency
	}
	for _, d := range result.Definitions {
		if v, ok := metrics[d.ID]; ok {
			r.Metrics = append(r.Metrics, result.Metric{ID: d.ID, Value: v, Unit: d.Unit, N: 80})
		}
	}
	return Input{key.Sum([]byte(name)), r}
}

// fast is the usual set of metrics; req and out are throughputs, ttft and tpot
// milliseconds.
func fast(req, out, ttft, tpot float64) map[string]float64 {
	return map[string]float64{"request_throughput": req, "output_throughput": out,
		"ttft/send:p50": ttft / 1e3, "tpot/excl-first:p50": tpot / 1e3}
}

func without(m map[string]float64, id string) map[string]float64 { delete(m, id); return m }

func failed(name string, concurrency int, s result.Status, c result.Class) Input {
	e := row(name, concurrency, nil)
	e.Row.Status, e.Row.Class, e.Row.Reason = s, c, "said so"
	return e
}

var seeds = SLA{MaxP50TTFT: p(2), MaxP50TPOT: p(0.08), MinSuccess: 0.99}

// names turns digests back into the names that rows were made with.
func names(ds []key.Digest, of ...string) []string {
	var out []string
	for _, d := range ds {
		i := slices.IndexFunc(of, func(n string) bool { return key.Sum([]byte(n)) == d })
		out = append(out, of[i])
	}
	slices.Sort(out)
	return out
}

// against ranks a target and its rivals.
func against(target Selection, rivals ...Selection) Ranking {
	in := []SelectionInput{{key.Sum([]byte("target")), target}}
	for i, r := range rivals {
		in = append(in, SelectionInput{key.Sum([]byte{byte(i)}), r})
	}
	rand.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
	return Rank(key.Sum([]byte("target")), in, Rules{})
}

func TestJudge(t *testing.T) {
	few := row("x", 0, fast(1, 1, 1, 1))
	few.Row.Requests = result.Requests{OK: 79, Failed: 1}
	short := row("x", 0, fast(1, 1, 1, 1))
	short.Row.Requests = result.Requests{OK: 79}
	lying := row("x", 0, map[string]float64{"ttft/send:p50": 0.001, "tpot/excl-first:p50": 0.001, "success_rate": 1})
	lying.Row.Requests = result.Requests{OK: 1, Failed: 79}
	for _, c := range []struct {
		name string
		row  Input
		sla  SLA
		want string // reasons; "" passes
	}{
		{"at the limits", row("x", 0, fast(1, 1, 2000, 80)), seeds, ""},
		{"above", row("x", 0, fast(1, 1, 2000.5, 90)), seeds, "TTFT p50 of 2000.5 ms is above 2000 ms; TPOT p50 of 90 ms is above 80 ms"},
		{"no limits", row("x", 0, nil), SLA{}, ""},
		{"missing is not zero", row("x", 0, without(fast(1, 1, 1, 1), "tpot/excl-first:p50")), seeds, "TPOT p50 is missing, the limit is 80 ms"},
		{"e2e", row("x", 0, map[string]float64{"e2e:p50": 3}), SLA{MaxP50E2E: p(2.5)}, "E2E p50 of 3000 ms is above 2500 ms"},
		{"79 of 80", few, seeds, "success rate 0.9875 (79 of 80) is below 0.99"},
		{"79 of 80 is enough for less", few, SLA{MinSuccess: 0.9875}, ""},
		{"never sent", short, seeds, "success rate 0.9875 (79 of 80) is below 0.99"},
		{"its own success rate is not believed", lying, seeds, "success rate 0.0125 (1 of 80) is below 0.99"},
		{"failed", failed("x", 0, result.OOM, "oom"), SLA{}, "oom: said so"},
		{"skipped", failed("x", 0, result.Skipped, result.UnknownFlag), SLA{}, "skipped: unknown_flag: said so"},
		{"rejected", failed("x", 0, result.Failed, result.Throttled), SLA{}, "rejected: throttled: said so"},
	} {
		got := Judge(&c.row.Row, c.sla)
		if words := strings.Join(got.Reasons, "; "); words != c.want || got.Passed != (c.want == "") {
			t.Errorf("%s: %v %q, want %q", c.name, got.Passed, words, c.want)
		}
	}
}

// Each step of the seeds' ranking decides only what the steps before it leave
// open.
func TestRankingKey(t *testing.T) {
	gpus := func(e Input, n int) Input { e.Row.Subject.Hardware.GPUCount = n; return e }
	best := []Input{ // in this order
		row("throughput", 0, fast(10, 1, 1999, 79)),
		row("output", 0, fast(9, 900, 1000, 50)),
		row("ttft", 0, fast(9, 800, 100, 60)),
		row("tpot", 0, fast(9, 800, 200, 20)),
		gpus(row("one gpu", 0, fast(9, 800, 200, 30)), 1),
		gpus(row("two gpus", 0, fast(9, 800, 200, 30)), 2),
		row("no ttft limit kept", 0, fast(99, 9999, 2500, 1)), // faster, but fails the SLA
		row("no throughput", 0, without(fast(0, 9999, 1, 1), "request_throughput")),
		failed("oom", 0, result.OOM, "oom"),
	}
	for range 50 {
		shuffled := slices.Clone(best)
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		s := Select(shuffled, seeds)
		if len(s.Cells) != 1 || len(s.Cells[0].Rows) != len(best) {
			t.Fatalf("%d cells", len(s.Cells))
		}
		for i, j := range s.Cells[0].Rows {
			if j.Row != best[i].Digest {
				t.Fatalf("place %d is not %d", i, i)
			}
		}
		if len(s.Best) != 1 || s.Best[0] != best[0].Digest {
			t.Fatalf("best %v", s.Best)
		}
	}
}

// A number that is missing ranks behind the worst number, whichever direction
// is better.
func TestMissingRanksLast(t *testing.T) {
	for _, id := range []string{"output_throughput", "ttft/send:p50", "tpot/excl-first:p50"} {
		bad := fast(9, 1, 1e9, 1e9)
		with, lacks := row("with", 0, bad), row("lacks", 0, without(fast(9, 1, 1e9, 1e9), id))
		s := Select([]Input{lacks, with}, SLA{})
		if s.Cells[0].Rows[0].Row != with.Digest || len(s.Best) != 1 {
			t.Errorf("without %s it ranks first", id)
		}
	}
	s := Select([]Input{row("a", 0, map[string]float64{"output_throughput": 5})}, SLA{})
	if s.Best != nil || !s.Cells[0].Rows[0].Passed {
		t.Error("a row without request throughput cannot win, though it breaks no limit")
	}
}

func TestSelectOverCells(t *testing.T) {
	rows := []Input{
		row("unlimited", 0, fast(12, 900, 3000, 40)), // fails the SLA
		row("8", 8, fast(7, 700, 900, 30)),
		row("8 slower", 8, fast(6, 600, 500, 20)),
		row("4", 4, fast(4, 400, 100, 10)),
		failed("16", 16, result.Timeout, result.Stalled),
	}
	s := Select(rows, seeds)
	var order []int
	for _, c := range s.Cells {
		n := 0
		if c.Workload.Concurrency != nil {
			n = *c.Workload.Concurrency
		}
		order = append(order, n)
	}
	if d := cmp.Diff([]int{4, 8, 16, 0}, order); d != "" {
		t.Error(d)
	}
	if got := names(s.Best, "8"); !slices.Equal(got, []string{"8"}) {
		t.Errorf("best %v", got)
	}
	if slow := Select(rows[:1], seeds); slow.Best != nil || !slow.Measured() {
		t.Error("a row that fails the SLA is measured and not best")
	}
	if none := Select(rows[4:], seeds); none.Best != nil || none.Measured() {
		t.Error("a failed row gave no number")
	}
}

func TestTiesStay(t *testing.T) {
	a, b, c := row("a", 0, fast(5, 5, 5, 5)), row("b", 0, fast(5, 5, 5, 5)), row("c", 0, fast(4, 5, 5, 5))
	s := Select([]Input{a, b, c, a}, SLA{})
	if got := names(s.Best, "a", "b"); !slices.Equal(got, []string{"a", "b"}) || len(s.Cells[0].Rows) != 3 {
		t.Errorf("best %v of %d rows", got, len(s.Cells[0].Rows))
	}
	if slices.Compare(s.Best[0][:], s.Best[1][:]) >= 0 {
		t.Error("ties are not in the order of digests")
	}
	r := against(Select([]Input{a}, SLA{}), Select([]Input{c}, SLA{}), Select([]Input{b}, SLA{}))
	var ranks []int
	for _, p := range r.Cells[0].Places {
		ranks = append(ranks, p.Rank)
	}
	if d := cmp.Diff([]int{1, 1, 2}, ranks); d != "" || *r.Share != 0 {
		t.Errorf("gap %v, ranks %s", *r.Share, d)
	}
}

func TestGap(t *testing.T) {
	good, better := Select([]Input{row("good", 0, fast(8, 1, 1, 1))}, seeds), Select([]Input{row("better", 0, fast(10, 1, 1, 1))}, seeds)
	late := Select([]Input{row("late", 0, fast(20, 1, 9000, 1))}, seeds)
	zero := Select([]Input{row("zero", 0, fast(0, 1, 1, 1))}, seeds)
	elsewhere := Select([]Input{row("elsewhere", 4, fast(5, 1, 1, 1))}, seeds)
	for _, c := range []struct {
		name   string
		target Selection
		rivals []Selection
		want   *float64
		none   string
	}{
		{"behind", good, []Selection{better}, p(0.2), ""}, // (10 − 8) / 10
		{"ahead", better, []Selection{good}, p(0), ""},
		{"alone", good, nil, p(0), ""},
		{"a faster rival that fails the SLA is no bar", good, []Selection{late}, p(0), ""},
		{"target fails the SLA", late, []Selection{good}, nil, "the target has no row in the cell that passes the SLA"},
		{"nobody passes", late, nil, nil, "no row of the scenario passes the SLA"},
		{"no rows at all", Selection{}, nil, nil, "no row of the scenario has a result"},
		{"other cell", elsewhere, []Selection{good}, nil, "the target has no row in the cell"},
		{"division by zero", zero, nil, nil, "the best request throughput is not above zero"},
	} {
		got := against(c.target, c.rivals...)
		if d := cmp.Diff(Gap{c.want, c.none}, got.Gap); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

// Only equal cells are compared: other concurrency, other prompts and a smoke
// run are other cells, however fast.
func TestCellsAreNotMixed(t *testing.T) {
	target := Select([]Input{row("t", 4, fast(4, 1, 1, 1)), row("t8", 8, fast(6, 1, 1, 1))}, seeds)
	other := row("other prompts", 4, fast(50, 1, 1, 1))
	other.Row.Workload.Dataset = "sha256:e"
	smoke := row("smoke", 4, fast(60, 1, 1, 1))
	smoke.Row.Workload.Smoke = true
	r := against(target, Select([]Input{row("r", 4, fast(5, 1, 1, 1)), other, smoke}, seeds))
	if len(r.Cells) != 4 {
		t.Fatalf("%d cells", len(r.Cells))
	}
	for _, c := range r.Cells {
		if c.Workload.Dataset == "sha256:d" && !c.Workload.Smoke && *c.Workload.Concurrency == 4 {
			if len(c.Places) != 2 || *c.Share != 0.2 {
				t.Errorf("%+v", c)
			}
		} else if len(c.Places) != 1 {
			t.Errorf("%+v", c)
		}
	}
}

// Two frameworks that are the same program with the same flags share a record.
func TestSharedRow(t *testing.T) {
	e := row("one", 0, fast(3, 3, 3, 3))
	r := against(Select([]Input{e}, seeds), Select([]Input{e}, seeds))
	if len(r.Cells[0].Places) != 1 || len(r.Best) != 1 || *r.Share != 0 {
		t.Errorf("%+v", r)
	}
}

// The order of input changes no byte of the output.
func TestInputOrderDoesNotMatter(t *testing.T) {
	pool := func(prefix string) []Input {
		var out []Input
		for i, c := range []int{0, 4, 8} {
			for k := range 4 {
				out = append(out, row(prefix+string(rune('a'+i))+string(rune('0'+k)), c, fast(float64(k/2), 7, float64(100*k), 5)))
			}
			out = append(out, failed(prefix+string(rune('a'+i)), c, result.OOM, "oom"))
		}
		return out
	}
	all := [][]Input{pool("t"), pool("x"), pool("y")}
	build := func() string {
		target := Select(all[0], seeds)
		b, err := json.Marshal([]any{target, against(target, Select(all[1], seeds), Select(all[2], seeds))})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	want := build()
	for range 100 {
		for _, rows := range all {
			rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		}
		if d := cmp.Diff(want, build()); d != "" {
			t.Fatal(d)
		}
	}
}

func TestJSONForm(t *testing.T) {
	target := Select([]Input{row("t", 4, fast(4, 40, 100, 10)), failed("f", 4, result.OOM, "oom")}, seeds)
	r := against(target, Select([]Input{row("r", 4, fast(5, 50, 100, 10))}, seeds))
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(b, &tree); err != nil {
		t.Fatal(err)
	}
	first := tree["cells"].([]any)[0].(map[string]any)["places"].([]any)[0].(map[string]any)
	want := map[string]any{
		"rank": 1.0, "row": key.Sum([]byte("r")).String(), "status": "ok", "passed": true,
		"score": map[string]any{"request_throughput": 5.0, "output_throughput": 50.0, "p50_ttft_s": 0.1, "p50_tpot_s": 0.01, "gpu_count": 1.0},
	}
	if d := cmp.Diff(want, first); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(0.2, tree["gap"]); d != "" {
		t.Error(d)
	}
	var back Ranking
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, back); d != "" {
		t.Error(d)
	}
}

// Every field of the SLA says what it is to the key.
func TestSLAIsKeyed(t *testing.T) {
	manifest := func(s SLA) string {
		var b key.Builder
		b.Struct(s)
		return b.Finish().Key().String()
	}
	seen := map[string]bool{}
	for _, s := range []SLA{{}, {MaxP50TTFT: p(0)}, {MaxP50TPOT: p(0)}, {MaxP50E2E: p(0)}, {MinSuccess: 1}} {
		seen[manifest(s)] = true
	}
	if len(seen) != 5 {
		t.Errorf("%d keys of 5 limits", len(seen))
	}
}
