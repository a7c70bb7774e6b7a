package ncu_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/stdlib/ncu"
	"github.com/sotabuild/sotabuild/stdlib/ncu/diagnosis"
)

const (
	rawPage     = "testdata/h200/rmsnorm_raw.csv"
	detailsPage = "testdata/h200/rmsnorm_details.csv"
)

// rmsnorm asks for v0 against v1 of the pages.
func rmsnorm(pages ...string) ncu.Options {
	return ncu.Options{
		Baseline:  ncu.Source{Pages: pages, Kernel: "rmsnorm_v0", Commit: "1111111"},
		Candidate: ncu.Source{Pages: pages, Kernel: "rmsnorm_v1", Commit: "2222222"},
	}
}

func mustMake(t *testing.T, o ncu.Options) ncu.Digest {
	t.Helper()
	d, err := ncu.Make(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRmsnorm: an uncoalesced and a vectorised version of one kernel, doing the
// same work, twice each. Whatever page is given, the digest names the access
// pattern of the first, the measured speed-up, and one edit for the second.
func TestRmsnorm(t *testing.T) {
	for name, c := range map[string]struct {
		pages   []string
		v0, v1  float64 // ns, medians of two
		speedup float64
	}{
		// 1.314848 and 1.321664 ms against 135.200 and 134.496 µs.
		"raw": {[]string{rawPage}, 1318256, 134848, 9.77587},
		// 1.31 and 1.32 ms against 135.20 and 134.50 µs.
		"details": {[]string{detailsPage}, 1315000, 134850, 9.75158},
		"both":    {[]string{detailsPage, rawPage}, 1318256, 134848, 9.77587},
	} {
		t.Run(name, func(t *testing.T) {
			d := mustMake(t, rmsnorm(c.pages...))
			if d.Baseline.Result.Class != diagnosis.AccessPattern {
				t.Errorf("v0 is bound by %s, want its memory access pattern", d.Baseline.Result.Class)
			}
			// 203,423,744 sectors where 27,262,976 would do.
			if f := d.Baseline.Result.Deciders[0]; !strings.HasPrefix(f.Metric, "memory_l2_theoretical_sectors_global") || math.Abs(f.Value-86.598) > 0.001 {
				t.Errorf("v0 was decided by %+v, want 86.598 %% excess sectors", f)
			}
			if f := d.Baseline.Result.Deciders[1]; f.Value != 4 || f.Unit != "byte/sector" {
				t.Errorf("v0 was also decided by %+v, want 4 of 32 bytes a sector", f)
			}
			if d.Candidate.Result.Class != diagnosis.DRAM || d.NextEdit == nil || d.NextEdit.ID != "fuse" {
				t.Errorf("v1 is bound by %s with edit %+v, want DRAM bandwidth and fuse", d.Candidate.Result.Class, d.NextEdit)
			}
			old, now := *d.Delta.Rows[0].Baseline, *d.Delta.Rows[0].Candidate
			if old != c.v0 || now != c.v1 || math.Abs(d.Delta.Speedup-c.speedup) > 1e-4 || d.Delta.Verdict != "faster" {
				t.Errorf("%v ns → %v ns, %.5f× %s; want %v, %v, %.5f× faster", old, now, d.Delta.Speedup, d.Delta.Verdict, c.v0, c.v1, c.speedup)
			}
			// 266,559 of 2,610,080 cycles; 27,525,120 of 17,106,944 instructions.
			if s := d.Delta.Split; math.Abs(s.Cycles-0.102127) > 1e-6 || math.Abs(s.Instructions-1.609003) > 1e-6 || math.Abs(s.Cycles-s.Instructions*s.PerInst) > 1e-12 {
				t.Errorf("cycles split %+v, want 0.102127 = 1.609003 × the rest", s)
			}
			// L2 is at 90.96 % already, so the same work cannot gain more than 9.04 %.
			if math.Abs(d.NextEdit.GainPct-9.04) > 0.01 {
				t.Errorf("the edit's bound is %.2f %%, want 9.04 %%", d.NextEdit.GainPct)
			}
			if d.Pairing.How != "family" || d.Baseline.Launches != 2 || d.Candidate.Launches != 2 {
				t.Errorf("paired %s, %d and %d launches, want by family with 2 each", d.Pairing.How, d.Baseline.Launches, d.Candidate.Launches)
			}
			md := d.Markdown()
			if n := strings.Count(md, "Next edit: "); n != 1 || !strings.Contains(md, "**9.7") {
				t.Errorf("%d next edits, want one, and the speed-up on top:\n%s", n, md)
			}
		})
	}
}

// TestGolden pins both files of the digest, as a reader gets them.
func TestGolden(t *testing.T) {
	o := rmsnorm(rawPage, detailsPage)
	o.Subject = ncu.Subject{Round: 2, Stage: "decode", SharePct: 4.2, Shapes: "kernel/shapes/rmsnorm.json"}
	o.Neighbour = "fused_add_kernel"
	o.Baseline.Shape, o.Candidate.Shape = "16384x4096 fp32", "16384x4096 fp32"
	o.Candidate.File = "csrc/layernorm_kernels.cu"
	dir, err := ncu.Write(t.TempDir(), "v001", mustMake(t, o))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"digest.md", "digest.json"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata/golden", name)
		if os.Getenv("SOTABUILD_UPDATE") == "1" {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s changed (SOTABUILD_UPDATE=1 rewrites it):\n%s", name, diff)
		}
	}
}

// TestRegression: the other way round the edit is to go back.
func TestRegression(t *testing.T) {
	o := rmsnorm(rawPage)
	o.Baseline.Kernel, o.Candidate.Kernel = o.Candidate.Kernel, o.Baseline.Kernel
	d := mustMake(t, o)
	if d.Delta.Verdict != "slower" || math.Abs(d.Delta.DurationPct-877.587) > 0.001 || d.NextEdit.ID != "revert" {
		t.Errorf("%s by %.3f %% with edit %s, want slower by 877.587 %% and revert", d.Delta.Verdict, d.Delta.DurationPct, d.NextEdit.ID)
	}
	if !strings.Contains(d.NextEdit.Change, "global sectors over ideal (+646 %)") {
		t.Errorf("edit %q does not name what grew worse by most", d.NextEdit.Change)
	}
}

// TestPublicTable holds every number of testdata/public/README.md.
func TestPublicTable(t *testing.T) {
	text, err := os.ReadFile("testdata/public/README.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile("(?m)^\\| `([^`]+)` .*\\| ([0-9,]+) \\| `([0-9a-f]{64})` \\|")
	rows := line.FindAllStringSubmatch(string(text), -1)
	if len(rows) != 7 {
		t.Fatalf("%d rows, want 7", len(rows))
	}
	for _, r := range rows {
		data, err := os.ReadFile(filepath.Join("testdata/public", r[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		size, err := strconv.Atoi(strings.ReplaceAll(r[2], ",", ""))
		if err != nil {
			t.Error(err)
		}
		sum := sha256.Sum256(data)
		if len(data) != size || hex.EncodeToString(sum[:]) != r[3] {
			t.Errorf("%s has %d bytes and sum %x, want %d and %s", r[1], len(data), sum, size, r[3])
		}
	}
}

// TestBlockers: what keeps counters from us is written down, not failed on
// (R177), and ends the digest.
func TestBlockers(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	t.Setenv("PATH", dir)
	denied := write("denied.csv", "==PROF== Connected to process 7 (/bin/app)\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0.\n")
	for name, c := range map[string]struct {
		candidate ncu.Source
		code      string
		detail    string
	}{
		"permission":        {ncu.Source{Pages: []string{denied}}, "no_permission", "ERR_NVGPUCTRPERM"},
		"no kernel in run":  {ncu.Source{Pages: []string{"testdata/ladder/nomatch.txt"}}, "no_kernel_matched", "strided_copy"},
		"no kernel in page": {ncu.Source{Pages: []string{rawPage}, Kernel: "softmax"}, "no_kernel_matched", "rmsnorm_v1(const float4 *"},
		"section error":     {ncu.Source{Pages: []string{"testdata/public/edge_error_text_instead_of_csv.csv"}}, "ncu_error", "did not match any section"},
		"no ncu":            {ncu.Source{Pages: []string{write("k.ncu-rep", "NVR\x00")}}, "ncu_missing", `"ncu"`},
	} {
		t.Run(name, func(t *testing.T) {
			o := rmsnorm(rawPage)
			o.Candidate = c.candidate
			d := mustMake(t, o)
			if d.Blocker == nil || d.Blocker.Code != c.code || d.Blocker.Side != "candidate" || !strings.Contains(d.Blocker.Detail, c.detail) || d.Blocker.Remedy == "" {
				t.Fatalf("blocker %+v, want %s with %q", d.Blocker, c.code, c.detail)
			}
			out, err := ncu.Write(filepath.Join(t.TempDir(), "kernel/ncu-digests"), "v001", d)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(out, "blocker"))
			if err != nil || !strings.HasPrefix(string(text), c.code+" (candidate): ") {
				t.Errorf("file blocker has %q, %v", text, err)
			}
			back, err := ncu.Read(out)
			if err != nil || back.NextEdit != nil || back.Delta != nil {
				t.Errorf("read back %+v, %v; want a blocker and nothing else", back, err)
			}
		})
	}
}

// TestBlockerWithFallback: an edit chosen from other evidence is still the
// one and last.
func TestBlockerWithFallback(t *testing.T) {
	o := rmsnorm(rawPage)
	o.Candidate.Kernel = "softmax"
	o.Fallback = &diagnosis.Edit{Symbol: "rmsnorm", Change: "fuse it with the residual add", Why: "the kernel table shows both side by side", Expect: "1 % of the stage", Refuted: "the add stays in the trace"}
	d := mustMake(t, o)
	dir, err := ncu.Write(t.TempDir(), "v001", d)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ncu.Read(dir)
	if err != nil || back.Blocker == nil || back.NextEdit == nil {
		t.Fatalf("%+v, %v; want blocker and edit", back, err)
	}
	lines := strings.Split(strings.TrimSpace(d.Markdown()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "Next edit: fuse it with the residual add in rmsnorm because") {
		t.Errorf("last line %q", last)
	}
}

func TestQuestionsThatAreWrong(t *testing.T) {
	for name, c := range map[string]struct {
		o    ncu.Options
		want string
	}{
		"no candidate":   {ncu.Options{Baseline: ncu.Source{Pages: []string{rawPage}}}, "both need a report"},
		"bad expression": {ncu.Options{Baseline: ncu.Source{Pages: []string{rawPage}, Kernel: "("}, Candidate: ncu.Source{Pages: []string{rawPage}}}, "no regular expression"},
		"no file":        {rmsnorm("testdata/none.csv"), "no such file"},
		"no page":        {rmsnorm("testdata/public/README.md"), "README.md: reading ncu page"},
		"several pairs":  {ncu.Options{Baseline: ncu.Source{Pages: []string{rawPage}}, Candidate: ncu.Source{Pages: []string{rawPage}}}, "2 pair up"},
		"itself":         {ncu.Options{Kernel: "v1", Baseline: ncu.Source{Pages: []string{rawPage}}, Candidate: ncu.Source{Pages: []string{rawPage}}}, "not compared with itself"},
	} {
		_, err := ncu.Make(t.Context(), c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// csvPage writes a details page of one launch of kernel k.
func csvPage(t *testing.T, cc, grid string, metrics map[string][2]string) ncu.Source {
	t.Helper()
	var b strings.Builder
	b.WriteString(`"ID","Process ID","Kernel Name","Block Size","Grid Size","CC","Section Name","Metric Name","Metric Unit","Metric Value"` + "\n")
	for name, v := range metrics {
		fmt.Fprintf(&b, "\"0\",\"1\",\"k(int)\",\"(128, 1, 1)\",\"(%s, 1, 1)\",\"%s\",\"Command line profiler metrics\",\"%s\",\"%s\",\"%s\"\n", grid, cc, name, v[1], v[0])
	}
	p := filepath.Join(t.TempDir(), "page.csv")
	if err := os.WriteFile(p, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return ncu.Source{Pages: []string{p}}
}

func metrics(us, ghz, cycles, sm, mem string) map[string][2]string {
	return map[string][2]string{
		"gpu__time_duration.sum":                                           {us, "us"},
		"gpc__cycles_elapsed.avg.per_second":                               {ghz, "Ghz"},
		"gpc__cycles_elapsed.max":                                          {cycles, "cycle"},
		"sm__throughput.avg.pct_of_peak_sustained_elapsed":                 {sm, "%"},
		"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": {mem, "%"},
	}
}

// TestGate: what cannot be compared is said, and the edit is to measure again.
func TestGate(t *testing.T) {
	base := metrics("100.50", "1.50", "150,750", "50.00", "50.00")
	for name, c := range map[string]struct {
		candidate func(t *testing.T) ncu.Source
		verdict   string
		by        string
		said      string
	}{
		"same": {func(t *testing.T) ncu.Source {
			return csvPage(t, "9.0", "64", metrics("99.50", "1.50", "149,250", "50.00", "50.00"))
		}, "no change", "duration", ""},
		"faster": {func(t *testing.T) ncu.Source {
			return csvPage(t, "9.0", "64", metrics("90.50", "1.50", "135,750", "50.00", "50.00"))
		}, "faster", "duration", ""},
		"another GPU": {func(t *testing.T) ncu.Source {
			return csvPage(t, "8.0", "64", metrics("90.50", "1.50", "135,750", "50.00", "50.00"))
		}, "not comparable", "", "compute capability 9.0 against 8.0"},
		"another shape": {func(t *testing.T) ncu.Source {
			s := csvPage(t, "9.0", "64", metrics("90.50", "1.50", "135,750", "50.00", "50.00"))
			s.Shape = "8x8"
			return s
		}, "not comparable", "", "shape 4x4 against 8x8"},
		"no duration": {func(t *testing.T) ncu.Source {
			m := metrics("", "1.50", "135,750", "50.00", "50.00")
			return csvPage(t, "9.0", "64", m)
		}, "not comparable", "", "duration was not collected"},
		// Faster in time only because the clock was: 100.5 → 80.5 µs at 1.5 → 1.88 GHz is 150,750 → 151,340 cycles.
		"another clock": {func(t *testing.T) ncu.Source {
			return csvPage(t, "9.0", "64", metrics("80.50", "1.88", "151,340", "50.00", "50.00"))
		}, "no change", "cycles", "cycles are compared"},
		"another grid": {func(t *testing.T) ncu.Source {
			return csvPage(t, "9.0", "32", metrics("90.50", "1.50", "135,750", "50.00", "50.00"))
		}, "faster", "duration", "8192 threads against 4096"},
		"fewer sections": {func(t *testing.T) ncu.Source {
			m := metrics("90.50", "1.50", "135,750", "50.00", "50.00")
			delete(m, "gpc__cycles_elapsed.max")
			return csvPage(t, "9.0", "64", m)
		}, "faster", "duration", "not compared: elapsed cycles"},
	} {
		t.Run(name, func(t *testing.T) {
			o := ncu.Options{Baseline: csvPage(t, "9.0", "64", base), Candidate: c.candidate(t)}
			if o.Candidate.Shape != "" {
				o.Baseline.Shape = "4x4"
			}
			d := mustMake(t, o)
			by := ""
			if d.Delta.Change != nil {
				by = d.Delta.By
			}
			if d.Delta.Verdict != c.verdict || by != c.by {
				t.Errorf("%s by %q, want %s by %q", d.Delta.Verdict, by, c.verdict, c.by)
			}
			if said := strings.Join(append(d.Delta.Reasons, d.Delta.Warnings...), "; "); !strings.Contains(said, c.said) {
				t.Errorf("said %q, want %q among it", said, c.said)
			}
			if wrong := (c.verdict == "not comparable") != (d.NextEdit.ID == "reprofile-pair"); wrong {
				t.Errorf("next edit %s after %s", d.NextEdit.ID, c.verdict)
			}
			if _, err := ncu.Write(t.TempDir(), "v001", d); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMissingIsNotZero: a counter that one side lacks has no value, no change
// and no verdict.
func TestMissingIsNotZero(t *testing.T) {
	m := metrics("90.50", "1.50", "135,750", "50.00", "50.00")
	m["lts__t_sector_hit_rate.pct"] = [2]string{"0", "%"}
	o := ncu.Options{Baseline: csvPage(t, "9.0", "64", metrics("100.50", "1.50", "150,750", "50.00", "50.00")), Candidate: csvPage(t, "9.0", "64", m)}
	d := mustMake(t, o)
	i := slices.IndexFunc(d.Delta.Rows, func(r ncu.Row) bool { return r.Label == "L2 hit rate" })
	r := d.Delta.Rows[i]
	if r.Baseline != nil || r.Candidate == nil || *r.Candidate != 0 || r.Delta != nil || r.Verdict != "not compared" {
		t.Errorf("row %+v, want no baseline, a candidate of 0 and no comparison", r)
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"baseline":null,"candidate":0,"delta":null`) {
		t.Errorf("row in JSON %s, %v", text, err)
	}
	if !strings.Contains(d.Markdown(), "| L2 hit rate | – | 0.00 % | – | not compared |") {
		t.Error("the table does not show the missing value as missing")
	}
}

// TestDocsExample: what docs/ncu.md shows is what the digest says.
func TestDocsExample(t *testing.T) {
	doc, err := os.ReadFile("../../docs/ncu.md")
	if err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile("testdata/golden/digest.md")
	if err != nil {
		t.Fatal(err)
	}
	have := strings.Split(string(golden), "\n")
	shown := 0
	for _, block := range regexp.MustCompile("(?s)```markdown\n(.*?)```").FindAllStringSubmatch(string(doc), -1) {
		for line := range strings.SplitSeq(strings.TrimSpace(block[1]), "\n") {
			shown++
			if !slices.Contains(have, line) {
				t.Errorf("docs/ncu.md shows a line that the digest has not: %s", line)
			}
		}
	}
	if shown < 10 {
		t.Errorf("only %d lines compared", shown)
	}
}
