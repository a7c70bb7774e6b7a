package match_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/ncu/match"
	"github.com/sotabuild/sotabuild/stdlib/ncu/page"
)

// launch is kernel k in a grid of blocks, taking ns.
func launch(id int, kernel string, blocks int, ns float64) page.Launch {
	return page.Launch{ID: id, Process: "1", Kernel: kernel, Grid: page.Dim{blocks, 1, 1}, Block: page.Dim{128, 1, 1}, Metrics: page.Metrics{
		"gpu__time_duration.sum":                           {Value: ns, Unit: "ns", Text: "x"},
		"sm__throughput.avg.pct_of_peak_sustained_elapsed": {Value: 50, Unit: "%", Text: "50"},
		"launch__func_cache_config":                        {Text: "CachePreferNone", Words: true},
	}}
}

func groups(launches ...page.Launch) []match.Group {
	return match.Groups(page.Report{Launches: launches}, regexp.MustCompile(""))
}

func TestPair(t *testing.T) {
	for _, c := range []struct {
		name      string
		b, c      []match.Group
		named     bool
		how       string
		candidate string
		unpaired  int
		err       string
	}{
		{name: "exact", b: groups(launch(0, "k(int)", 8, 10)), c: groups(launch(0, "void k(int)", 8, 9)), how: "exact", candidate: "k(int) grid (8"},
		{name: "exact before family", b: groups(launch(0, "k_v1(int)", 8, 10)), c: groups(launch(0, "k_v2(int)", 8, 9), launch(1, "k_v1(int)", 8, 9)), how: "exact", candidate: "k_v1", unpaired: 1},
		{name: "family by version", b: groups(launch(0, "k_v1(int)", 8, 10)), c: groups(launch(0, "k_v2(float4)", 8, 9)), how: "family", candidate: "k_v2"},
		{name: "family by shape", b: groups(launch(0, "k(int)", 8, 10)), c: groups(launch(0, "k(int)", 16, 9)), how: "family", candidate: "k(int) grid (16"},
		{name: "family, mangled", b: groups(launch(0, "_Z4k_v1i", 8, 10)), c: groups(launch(0, "k_v2(float4)", 8, 9)), how: "family", candidate: "k_v2"},
		{name: "named", b: groups(launch(0, "norm(int)", 8, 10)), c: groups(launch(0, "rms(int)", 8, 9)), named: true, how: "named", candidate: "rms"},
		{name: "merged", b: groups(launch(0, "norm(int)", 8, 10), launch(1, "add(int)", 8, 5)), c: groups(launch(0, "fused(int)", 8, 9)), named: true, how: "merged", candidate: "fused"},
		{name: "strangers", b: groups(launch(0, "norm(int)", 8, 10)), c: groups(launch(0, "rms(int)", 8, 9)), err: "name one on each side"},
		{name: "two pairs", b: groups(launch(0, "a", 8, 10), launch(1, "b", 8, 10)), c: groups(launch(0, "a", 8, 9), launch(1, "b", 8, 9)), err: "2 pair up"},
		{name: "itself", b: groups(launch(0, "a", 8, 10)), c: groups(launch(0, "a", 8, 10)), err: "not compared with itself"},
	} {
		m, err := match.Pair(c.b, c.c, c.named)
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want one with %q", c.name, err, c.err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case m.How != c.how || !strings.HasPrefix(m.Candidate[0].String(), c.candidate) || len(m.Unpaired) != c.unpaired:
			t.Errorf("%s: paired %s with %v, left out %v; want %s with %s and %d left out", c.name, m.How, m.Candidate, m.Unpaired, c.how, c.candidate, c.unpaired)
		}
	}
}

// TestMedians: by hand. 10, 30, 11 has median 11 and spreads over 20 of it.
func TestMedians(t *testing.T) {
	g := groups(launch(0, "k", 8, 10), launch(1, "k", 8, 30), launch(2, "k", 8, 11))
	if ns, _ := match.Metrics(g).Number("gpu__time_duration.sum"); ns != 11 {
		t.Errorf("median %v, want 11", ns)
	}
	if s := match.Spread(g[0]); s != 100*20.0/11 {
		t.Errorf("spread %v, want %v", s, 100*20.0/11)
	}
	if s := match.Spread(groups(launch(0, "k", 8, 10))[0]); s != 0 {
		t.Errorf("spread of one launch %v, want 0", s)
	}
	even := groups(launch(0, "k", 8, 10), launch(1, "k", 8, 30))
	if ns, _ := match.Metrics(even).Number("gpu__time_duration.sum"); ns != 20 {
		t.Errorf("median of two %v, want 20", ns)
	}
}

// TestMetricsOfUnlikeLaunches: what one launch lacks, or has in another unit,
// has no median.
func TestMetricsOfUnlikeLaunches(t *testing.T) {
	other := launch(1, "k", 8, 30)
	delete(other.Metrics, "sm__throughput.avg.pct_of_peak_sustained_elapsed")
	other.Metrics["gpu__time_duration.sum"] = page.Metric{Value: 1, Unit: "parsec", Text: "1"}
	m := match.Metrics(groups(launch(0, "k", 8, 10), other))
	if len(m) != 1 || !m["launch__func_cache_config"].Words {
		t.Errorf("metrics %v, want only the words both launches agree in", m)
	}
}

// TestMerged: times of merged kernels add up, shares of peak do not.
func TestMerged(t *testing.T) {
	m := match.Metrics(groups(launch(0, "norm", 8, 10), launch(1, "add", 8, 5), launch(2, "add", 8, 7)))
	if ns, _ := m.Number("gpu__time_duration.sum"); ns != 16 || len(m) != 1 {
		t.Errorf("metrics %v, want 10 + median(5, 7) ns and nothing else", m)
	}
}

// A kernel is named as a person reads it in the report, or as ncu itself is told
// it: by its function alone. The long name is of a real run.
func TestGroupsByName(t *testing.T) {
	r := page.Report{Launches: []page.Launch{
		launch(0, "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4>>(T3)", 1, 10),
		launch(1, "k_v1(int)", 8, 10),
	}}
	for name, want := range map[string]int{"^reduce_kernel$": 1, "MeanOps": 1, "^k_v1$": 1, "^k_v1\\(int\\)$": 1, "^k$": 0, "^native$": 0, "^MeanOps$": 0, "": 2} {
		if got := match.Groups(r, regexp.MustCompile(name)); len(got) != want {
			t.Errorf("%q names %d kernels, want %d", name, len(got), want)
		}
	}
}
