package page_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/ncu/page"
)

// TestPublicSamples holds what the samples' own notes say of them.
func TestPublicSamples(t *testing.T) {
	const (
		sm  = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
		mem = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
		ns  = "gpu__time_duration.sum"
		hz  = "gpc__cycles_elapsed.avg.per_second"
		dr  = "dram__bytes.sum.per_second"
	)
	for _, c := range []struct {
		file, cc string
		grid     page.Dim
		block    page.Dim
		want     map[string]float64
		unit     map[string]string
	}{
		{"rtx5090_dsocr_kernel_0001.details.csv", "12.0", page.Dim{224, 1, 1}, page.Dim{32, 4, 1},
			map[string]float64{sm: 9.15, mem: 19.66, ns: 6750, dr: 345.14e9, "dram__bytes_read.sum": 2.33e6, "dram__bytes_write.sum": 0, "gpc__cycles_elapsed.max": 13485},
			map[string]string{ns: "ns", dr: "byte/s", hz: "hz", mem: "%", "dram__bytes_read.sum": "byte"}},
		{"rtx5090_dsocr_kernel_0005.details.csv", "12.0", page.Dim{332, 1, 1}, page.Dim{256, 1, 1},
			map[string]float64{sm: 32.1, mem: 27.74, ns: 111810, hz: 2e9, "launch__occupancy_limit_registers": 1}, nil},
		{"rtx5090_dsocr_kernel_0009.details.csv", "12.0", page.Dim{4, 12, 54}, page.Dim{32, 4, 1},
			map[string]float64{sm: 36.75, mem: 37.26, ns: 160740}, nil},
		{"rtx5090_dsocr_kernel_0010.details.csv", "12.0", page.Dim{14400, 1, 1}, page.Dim{128, 1, 1},
			map[string]float64{sm: 12.07, mem: 93.99, ns: 94910, "dram__bytes_write.sum": 1280}, nil},
		{"t4_copy_blocked.full_baseunits.details.csv", "7.5", page.Dim{1024, 1, 1}, page.Dim{256, 1, 1},
			map[string]float64{sm: 1.30, mem: 61.84, ns: 21058944, hz: 584998877.44, dr: 196456177859.63, "launch__shared_mem_config_size": 32768},
			map[string]string{ns: "ns", hz: "hz", dr: "byte/s"}},
		{"rtx5090_dsocr_kernel_0001.section_SpeedOfLight.csv", "12.0", page.Dim{224, 1, 1}, page.Dim{32, 4, 1},
			map[string]float64{sm: 9.15, mem: 19.66, ns: 6750}, nil},
	} {
		r := read(t, "public/"+c.file)
		if len(r.Launches) != 1 || len(r.Notes) != 0 {
			t.Errorf("%s: %d launches, notes %v, want 1 and none", c.file, len(r.Launches), r.Notes)
			continue
		}
		l := r.Launches[0]
		if l.CC != c.cc || l.Grid != c.grid || l.Block != c.block {
			t.Errorf("%s: CC %s grid %v block %v, want %s %v %v", c.file, l.CC, l.Grid, l.Block, c.cc, c.grid, c.block)
		}
		for name, want := range c.want {
			if got, ok := l.Metrics.Number(name); !ok || math.Abs(got-want) > 1e-9*math.Abs(want) {
				t.Errorf("%s: %s = %v %v, want %v", c.file, name, got, ok, want)
			}
		}
		for name, want := range c.unit {
			if got := l.Metrics[name].Unit; got != want {
				t.Errorf("%s: unit of %s is %q, want %q", c.file, name, got, want)
			}
		}
		if _, ok := l.Metrics["flop_count_hp.sum"]; ok {
			t.Errorf("%s: n/a was read as a value", c.file)
		}
	}
}

func TestOriginalsAreKept(t *testing.T) {
	m := read(t, "public/rtx5090_dsocr_kernel_0001.details.csv").Launches[0].Metrics["gpu__time_duration.sum"]
	if m.Text != "6.75" || m.TextUnit != "us" {
		t.Errorf("original of 6750 ns is %q %q, want 6.75 us", m.Text, m.TextUnit)
	}
}

func TestFindings(t *testing.T) {
	l := read(t, "public/t4_copy_blocked.full_baseunits.details.csv").Launches[0]
	i := slices.IndexFunc(l.Findings, func(f page.Finding) bool { return f.Rule == "UncoalescedGlobalAccess" })
	if i < 0 || l.Findings[i].Estimate == nil || *l.Findings[i].Estimate != 74.14 || l.Findings[i].Scope != "global" {
		t.Fatalf("findings %+v, want UncoalescedGlobalAccess with a global estimate of 74.14", l.Findings)
	}
	i = slices.IndexFunc(l.Findings, func(f page.Finding) bool { return f.Kind == "WRN" })
	if i < 0 || l.Findings[i].Estimate != nil {
		t.Errorf("a warning without estimate has one: %+v", l.Findings)
	}
}

// TestLiveRun reads what ncu printed around the output of a program, on an
// H200, and what it printed when no kernel matched.
func TestLiveRun(t *testing.T) {
	r := read(t, "ladder/live.csv")
	if len(r.Launches) != 2 || r.Launches[0].Grid != (page.Dim{1320, 1, 1}) || r.Launches[1].Grid != (page.Dim{32, 1, 1}) {
		t.Fatalf("launches %+v, want the two of fma_loop", r.Launches)
	}
	if ns, _ := r.Launches[0].Metrics.Number("gpu__time_duration.sum"); ns != 698144 {
		t.Errorf("duration %v, want 698144 ns", ns)
	}
	f, err := os.Open("../testdata/ladder/nomatch.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = page.Read(f)
	var refused *page.Refusal
	if !errors.As(err, &refused) || refused.Code != page.NoKernel || !strings.Contains(refused.Text, "4. stream_copy") {
		t.Errorf("error %v, want no_kernel_matched with the kernels there are", err)
	}
}

const (
	head = `"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description","Estimated Speedup Type","Estimated Speedup"` + "\n"
	id   = `"0","1","app","127.0.0.1","k(int)","1","7","(128, 1, 1)","(64, 1, 1)","0","9.0",`
	sol  = id + `"GPU Speed Of Light Throughput",`
	good = head + sol + `"Duration","us","6.75",` + "\n"
	wide = `"ID","Process ID","Kernel Name","Block Size","Grid Size","CC","gpu__time_duration.sum"` + "\n"
	unit = `"","","","","","","us"` + "\n"
	one  = `"0","1","k(int)","(128, 1, 1)","(64, 1, 1)","9.0","6.75"` + "\n"
)

// malformed are inputs that are wrong in one way each.
var malformed = []struct {
	name, in string
	err      string // part of the error; empty when a partial result is due
	note     string // part of a note
	launches int
}{
	{name: "empty", in: "", err: "the file is empty"},
	{name: "blank", in: " \n\n", err: "the file is empty"},
	{name: "prose", in: "hello\nworld\n", err: `the first line is "hello"`},
	{name: "binary report", in: "NVR\x00\x02\x00", err: "binary .ncu-rep"},
	{name: "utf16", in: "\xff\xfe\"\x00I\x00D\x00", err: "UTF-16"},
	{name: "semicolons", in: "ID;Process ID;Kernel Name\n0;1;k\n", err: "not separated by commas"},
	{name: "tabs", in: "ID\tKernel Name\n", err: "not separated by commas"},
	{name: "header only", in: head, err: "no launch below it"},
	{name: "header and refusal", in: head + "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", err: "no_permission"},
	{name: "permission", in: "==PROF== Connected to process 5 (/a)\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0.\n", err: "no_permission"},
	{name: "other error", in: "==ERROR== Option '--section x' did not match any section.\n", err: "ncu_error"},
	{name: "no metric value", in: `"ID","Kernel Name","Section Name","Metric Name","Metric Unit"` + "\n" + `"0","k","s","m","u"` + "\n", err: `no column "Metric Value"`},
	{name: "no kernel column", in: `"ID","Section Name","Metric Name","Metric Unit","Metric Value"` + "\n", err: `no column "Kernel Name"`},
	{name: "summary", in: `"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Minimum","Maximum","Average"` + "\n", err: "--print-summary"},
	{name: "neither page", in: `"ID","Kernel Name","Colour"` + "\n" + `"0","k","red"` + "\n", err: "neither"},
	{name: "raw without units", in: wide + one, err: "no unit row"},
	{name: "two locales", in: good + sol + `"Elapsed Cycles","cycle","1.234.567",` + "\n", err: "decimal comma"},
	{name: "cut in a quote", in: good + sol + `"SM Frequency","Gh`, note: "cut off inside a quoted field", launches: 1},
	{name: "cut row then more", in: good + sol + `"SM Freq` + "\n" + sol + `"Elapsed Cycles","cycle","13,485",` + "\n", note: "cut off inside a quoted field", launches: 1},
	{name: "cut before value", in: good + sol + `"Elapsed Cycles"` + "\n", note: "cut off before the metric value", launches: 1},
	{name: "bad quoting", in: good + `"0","1"x,"app"` + "\n", note: "broken quoting", launches: 1},
	{name: "no id", in: good + strings.Replace(sol, `"0"`, `"99999999999999999999"`, 1) + `"Duration","us","1.00",` + "\n", note: "without a launch id", launches: 1},
	{name: "no kernel name", in: good + strings.Replace(sol, "k(int)", "", 1) + `"Duration","us","1.00",` + "\n", note: "without a kernel name", launches: 1},
	{name: "no shape", in: strings.Replace(good, "(64, 1, 1)", "64", 1), note: "without a grid and block size", launches: 1},
	{name: "unknown unit", in: good + sol + `"Speed","furlong/day","3.00",` + "\n", note: "units that are not known", launches: 1},
	{name: "bad grouping", in: good + sol + `"Elapsed Cycles","cycle","13,48",` + "\n", err: "decimal comma"},
	{name: "many marks", in: good + sol + `"Elapsed Cycles","cycle","1,3,4",` + "\n", note: "no numbers in this file's locale", launches: 1},
	{name: "said twice", in: good + sol + `"Duration","us","6.76",` + "\n", note: "printed twice", launches: 1},
	{name: "neither metric nor rule", in: good + id + `"SpeedOfLight","","","","","","","",""` + "\n", note: "neither metric nor rule", launches: 1},
	{name: "estimate no number", in: good + id + `"SpeedOfLight","","","","SOLBottleneck","OPT","text","global","lots"` + "\n", note: "estimates that are no numbers", launches: 1},
	{name: "noise in the table", in: good + "Segmentation fault\n", note: "lines that are no rows", launches: 1},
	{name: "error after the table", in: good + "==ERROR== The application returned an error code (11).\n", note: "ncu reported an error", launches: 1},
	{name: "raw short row", in: wide + unit + one + `"1","1","k(int)"` + "\n", note: "length is not the header's", launches: 2},
	{name: "raw long row", in: wide + unit + strings.TrimSuffix(one, "\n") + `,"8"` + "\n", note: "length is not the header's", launches: 1},
	{name: "cut gzip", in: "\x1f\x8b\x08", err: "reading ncu page"},
	{name: "undecided locale", in: head + sol + `"Duration","us","6,750",` + "\n", note: "read as English", launches: 1},
}

// TestMalformed: each is refused in words that help, or read in part with a
// count of what was lost.
func TestMalformed(t *testing.T) {
	for _, c := range malformed {
		r, err := page.Read(strings.NewReader(c.in))
		switch {
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.err)
		case c.err == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.err == "" && len(r.Launches) != c.launches:
			t.Errorf("%s: %d launches, want %d", c.name, len(r.Launches), c.launches)
		case c.err == "" && !slices.ContainsFunc(r.Notes, func(n page.Note) bool { return strings.Contains(n.Text, c.note) && n.Count == 1 }):
			t.Errorf("%s: notes %+v, want one with %q", c.name, r.Notes, c.note)
		}
		if ns, ok := first(r); c.launches > 0 && ok && ns != 6750 && c.name != "undecided locale" {
			t.Errorf("%s: duration %v, want 6750 ns in spite of the flaw", c.name, ns)
		}
	}
}

func first(r page.Report) (float64, bool) {
	if len(r.Launches) == 0 {
		return 0, false
	}
	return r.Launches[0].Metrics.Number("gpu__time_duration.sum")
}

// TestLocales: the same launch as different users' ncu prints it.
func TestLocales(t *testing.T) {
	rows := func(kv ...string) string {
		s := head
		for i := 0; i < len(kv); i += 3 {
			s += sol + `"` + kv[i] + `","` + kv[i+1] + `","` + kv[i+2] + `",` + "\n"
		}
		return s
	}
	for _, c := range []struct {
		name, in string
		ns       float64
		cycles   float64
	}{
		{"both marks, comma decimal", rows("Duration", "us", "1.234,50", "Elapsed Cycles", "cycle", "13.485"), 1234500, 13485},
		{"both marks, point decimal", rows("Duration", "us", "1,234.50", "Elapsed Cycles", "cycle", "13,485"), 1234500, 13485},
		{"repeated point groups", rows("Duration", "ns", "27.595.520", "Elapsed Cycles", "cycle", "13.485"), 27595520, 13485},
		{"not three digits", rows("Duration", "us", "65,77", "Elapsed Cycles", "cycle", "13.485"), 65770, 13485},
		{"spaces group", rows("Duration", "us", "1\u202f234,5", "Elapsed Cycles", "cycle", "13\u00a0485"), 1234500, 13485},
		{"apostrophes group", rows("Duration", "us", "1'234.5", "Elapsed Cycles", "cycle", "13’485"), 1234500, 13485},
		{"a count is whole", rows("Duration", "us", "117.344", "Elapsed Cycles", "cycle", "13.485"), 117344000, 13485},
		// 117.344 us × 1.500 Ghz = 176,016 cycles; read the other way it is far off.
		{"cross-check", rows("Duration", "us", "117.344", "SM Frequency", "Ghz", "1.500", "Elapsed Cycles", "cycle", "176016"), 117344, 176016},
		{"a version is no number", rows("Driver", "", "580.159.04", "Duration", "us", "6.75", "Elapsed Cycles", "cycle", "13,485"), 6750, 13485},
		{"exponent", rows("Duration", "s", "1.5e-05", "Elapsed Cycles", "cycle", "1.3485E+4"), 15000, 13485},
	} {
		r, err := page.Read(strings.NewReader(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		m := r.Launches[0].Metrics
		ns, _ := m.Number("gpu__time_duration.sum")
		cycles, _ := m.Number("gpc__cycles_elapsed.max")
		if math.Abs(ns-c.ns) > 1e-6*c.ns || math.Abs(cycles-c.cycles) > 1e-6*c.cycles {
			t.Errorf("%s: %v ns and %v cycles, want %v and %v", c.name, ns, cycles, c.ns, c.cycles)
		}
	}
}

// TestCommaLocaleOfARealPage swaps the marks of a real page, as ncu prints it
// under a comma-decimal locale, and expects the same numbers.
func TestCommaLocaleOfARealPage(t *testing.T) {
	for _, name := range []string{"h200/rmsnorm_details.csv", "public/t4_copy_blocked.full_baseunits.details.csv"} {
		data, err := os.ReadFile("../testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for line := range strings.Lines(string(data)) {
			fields := strings.Split(line, `","`)
			if len(fields) > 14 && fields[14] != "Metric Value" {
				fields[14] = strings.NewReplacer(",", ".", ".", ",").Replace(strings.TrimRight(fields[14], "\",\r\n")) + fields[14][len(strings.TrimRight(fields[14], "\",\r\n")):]
			}
			if n := len(fields); n > 19 && fields[14] != "Metric Value" {
				fields[19] = strings.Replace(fields[19], ".", ",", 1)
			}
			out.WriteString(strings.Join(fields, `","`))
		}
		if out.String() == string(data) {
			t.Fatal("nothing was swapped")
		}
		want := read(t, name)
		got, err := page.Read(strings.NewReader(out.String()))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, l := range want.Launches {
			for n, m := range l.Metrics {
				if g := got.Launches[i].Metrics[n]; g.Value != m.Value || g.Unit != m.Unit || g.Words != m.Words {
					t.Errorf("%s %s: %v %s, in the C locale %v %s", name, n, g.Value, g.Unit, m.Value, m.Unit)
				}
			}
			for j, f := range l.Findings {
				if g := got.Launches[i].Findings[j]; (f.Estimate == nil) != (g.Estimate == nil) || f.Estimate != nil && *f.Estimate != *g.Estimate {
					t.Errorf("%s: estimate of %s differs between locales", name, f.Rule)
				}
			}
		}
	}
}

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		text, unit string
		want       float64
		base       string
	}{
		{"1.31", "ms", 1.31e6, "ns"}, {"6.75", "usecond", 6750, "ns"}, {"2.00", "second", 2e9, "ns"}, {"7.00", "nsecond", 7, "ns"},
		{"1.98", "Ghz", 1.98e9, "hz"}, {"32.77", "Kbyte", 32770, "byte"}, {"1.02", "Kbyte/block", 1020, "byte/block"},
		{"3.92", "Tbyte/s", 3.92e12, "byte/s"}, {"96.07", "sector/ns", 96.07e9, "sector/s"}, {"1.00", "sector/us", 1e6, "sector/s"},
		{"1.50", "Kbyte/cycle", 1500, "byte/cycle"}, {"1.59", "%/Kbyte", 0.00159, "%/byte"}, {"12.50", "%", 12.5, "%"},
		{"3.00", "sectors", 3, "sector"}, {"0.05", "inst/cycle", 0.05, "inst/cycle"}, {"24.00", "register/thread", 24, "register/thread"},
	} {
		r, err := page.Read(strings.NewReader(head + sol + fmt.Sprintf("\"x\",%q,%q,\n", c.unit, c.text)))
		if err != nil {
			t.Errorf("%s %s: %v", c.text, c.unit, err)
			continue
		}
		m := r.Launches[0].Metrics["GPU Speed Of Light Throughput/x"]
		if math.Abs(m.Value-c.want) > 1e-9*c.want || m.Unit != c.base || m.Text != c.text || m.TextUnit != c.unit {
			t.Errorf("%s %s is %v %s, want %v %s", c.text, c.unit, m.Value, m.Unit, c.want, c.base)
		}
	}
}

// TestOlderHeaders: columns are found by name, so that dropped and inserted
// ones do not matter.
func TestOlderHeaders(t *testing.T) {
	in := `"ID","Process ID","Process Name","Host Name","Kernel Name","Kernel Time","Context","Stream","NVTX Range","Section Name","Metric Name","Metric Unit","Metric Value"` + "\n" +
		`"0","1","app","h","k","2020-Jan-01 10:00:00","1","7","step","GPU Speed Of Light Throughput","Duration","usecond","6.75"` + "\n"
	r, err := page.Read(strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	if ns, _ := first(r); ns != 6750 || r.Launches[0].Grid != (page.Dim{}) {
		t.Errorf("launch %+v, want 6750 ns and no grid", r.Launches[0])
	}
}

// TestMerge joins both pages of one report and keeps the raw page's digits.
func TestMerge(t *testing.T) {
	m := page.Merge(read(t, "h200/rmsnorm_details.csv"), read(t, "h200/rmsnorm_raw.csv"))
	if len(m.Launches) != 4 {
		t.Fatalf("%d launches, want the 4 of the report", len(m.Launches))
	}
	l := m.Launches[0]
	if ns, _ := l.Metrics.Number("gpu__time_duration.sum"); ns != 1314848 {
		t.Errorf("duration %v, want the raw page's 1314848 ns and not 1.31 ms", ns)
	}
	if len(l.Findings) == 0 || !slices.Equal(l.Pages, []page.Kind{page.Details, page.Raw}) {
		t.Errorf("pages %v with %d findings, want both pages and the rules of details", l.Pages, len(l.Findings))
	}
	// The same page twice is two reports, not one.
	if m := page.Merge(read(t, "h200/rmsnorm_raw.csv"), read(t, "h200/rmsnorm_raw.csv")); len(m.Launches) != 8 {
		t.Errorf("%d launches of two raw pages, want 8", len(m.Launches))
	}
}

func TestTwoTablesInOneFile(t *testing.T) {
	r, err := page.Read(strings.NewReader(good + strings.Replace(good, `"0","1"`, `"0","2"`, 1)))
	if err != nil || len(r.Launches) != 2 {
		t.Errorf("%d launches, %v; want one of each process", len(r.Launches), err)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ kernel, canonical, family string }{
		{"void rmsnorm_v1<64>(float const*)", "rmsnorm_v1<64>(float const*)", "rmsnorm"},
		{"rmsnorm_v0(const float *, int)", "rmsnorm_v0(const float *, int)", "rmsnorm"},
		{"_Z10rmsnorm_v1PK6float4", "_Z10rmsnorm_v1PK6float4", "rmsnorm"},
		{"_ZN4vllm15rms_norm_kernelIfEEvPT_", "_ZN4vllm15rms_norm_kernelIfEEvPT_", "rms_norm_kernel"},
		{"void (anonymous namespace)::softmax_warp<float>(float*)", "<unnamed>::softmax_warp<float>(float*)", "softmax_warp"},
		{"void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, std::array<char*, 3ul> >(int)", "at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, std::array<char*, 3ul>>(int)", "vectorized_elementwise_kernel"},
		{"enable_if<!T7, void>::type kernel<int>(T13)", "enable_if<!T7, void>::type kernel<int>(T13)", "kernel"},
		{"nvjet_sm90_tst_256x128_64x4", "nvjet_sm90_tst_256x128_64x4", "nvjet_sm90_tst_256x128_64x4"},
		{"fused_moe_kernel", "fused_moe_kernel", "fused_moe_kernel"},
		{"copy_blocked[v1,cw51](Array<long long, 1>)", "copy_blocked[v1,cw51](Array<long long, 1>)", "copy_blocked"},
		{"_v1", "_v1", "_v1"},
		{"_Z", "_Z", "_Z"},
		{"", "", ""},
	} {
		if got := page.Canonical(c.kernel); got != c.canonical {
			t.Errorf("Canonical(%q) = %q, want %q", c.kernel, got, c.canonical)
		}
		if got := page.Family(c.kernel); got != c.family {
			t.Errorf("Family(%q) = %q, want %q", c.kernel, got, c.family)
		}
	}
}

// FuzzRead: no input panics; what is read is finite, and a report without
// launches is an error.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"", good, wide + unit + one, head, "==ERROR== ERR_NVGPUCTRPERM\n", good + good, head + sol + "\"Duration\",\"us\",\"1.234,5\",\n"} {
		f.Add([]byte(s))
	}
	for _, c := range malformed {
		f.Add([]byte(c.in))
	}
	for _, name := range []string{"public/edge_error_text_instead_of_csv.csv", "ladder/live.csv"} {
		data, err := os.ReadFile("../testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := page.Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		if len(r.Launches) == 0 {
			t.Fatal("no launch and no error")
		}
		for _, l := range r.Launches {
			_ = page.Family(l.Kernel)
			for n, m := range l.Metrics {
				if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) || m.Text == "" {
					t.Fatalf("%s = %+v", n, m)
				}
			}
		}
		for _, n := range r.Notes {
			if n.Count < 1 || n.Text == "" {
				t.Fatalf("empty note %+v", n)
			}
		}
	})
}
