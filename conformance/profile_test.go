package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/profile"
	"github.com/sotabuild/sotabuild/stdlib/trace"
)

// TestProfile profiles a real server: tinyserve is armed and driven over HTTP as
// vLLM is, and its own traces give tables for both stages (R141–R146).
func TestProfile(t *testing.T) {
	s := example(t, "quickstart")
	r := s.must(7, "profile", "blocked")
	if !strings.Contains(r.err, "--scenario, one of chat, summarization") {
		t.Errorf("without a scenario:\n%s", r.err)
	}
	r = s.must(7, "profile", "blocked", "--scenario", "chat", "--candidate", "fast")
	if !strings.Contains(r.err, `no candidate "fast"; write one of baseline, max_num_seqs=2`) {
		t.Errorf("an unknown candidate:\n%s", r.err)
	}
	out := t.TempDir()
	first := s.must(0, "profile", "blocked", "--scenario", "summarization", "--out", out)
	for stage, lens := range map[string][2]int{"prefill": {256, 1}, "decode": {1, 32}} {
		dir := filepath.Join(out, "blocked", "summarization", stage)
		checkPair(t, dir, stage)
		if !strings.Contains(first.out, stage+": ") {
			t.Errorf("the screen does not say where the tables of %s are:\n%s", stage, first.out)
		}
		checkProfile(t, dir, stage, lens)
	}
	again := s.must(0, "profile", "blocked", "--scenario", "summarization", "--out", out)
	if strings.Contains(again.out, "started") || !strings.Contains(again.out, "decode: ") {
		t.Errorf("a second profile ran something, or printed no path:\n%s", again.out)
	}
	// The same traces, imported: nothing is started, and the tables agree.
	made := filepath.Join(out, "blocked", "summarization", "decode")
	imported := filepath.Join(t.TempDir(), "imported")
	r = s.must(0, "profile", "naive", "--scenario", "summarization", "--stage", "decode", "--out", imported,
		"--trace", filepath.Join(made, "trace.json.gz"), "--mapping", filepath.Join(made, "mapping.trace.json.gz"))
	if strings.Contains(r.out, "/logs") || strings.Contains(r.out, "prefill: ") {
		t.Errorf("an import started something:\n%s", r.out)
	}
	var live, read trace.TriageResult
	readJSON(t, filepath.Join(made, "tables.json"), &live)
	readJSON(t, filepath.Join(imported, "naive", "summarization", "decode", "tables.json"), &read)
	if a, b := live.Reports[0].Stages, read.Reports[0].Stages; len(a) == 0 || len(a) != len(b) || a[0].Times != b[0].Times {
		t.Errorf("imported tables %+v, live ones %+v", b, a)
	}
}

// TestProfileOfTraceBlocks: a system that gives no live profile is profiled by
// the traces that the campaign names (R140).
func TestProfileOfTraceBlocks(t *testing.T) {
	s := example(t, "quickstart")
	s.edit("campaign.hcl", "framework \"naive\" {\n  use     = \"tinyserve\"", "framework \"naive\" {\n  use     = \"offline\"")
	b, err := os.ReadFile("../stdlib/frameworks/tinyserve.hcl")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(b), `definition "tinyserve"`, `definition "offline"`, 1)
	from, to := strings.Index(text, "  profiler {"), strings.Index(text, "  sources =")
	s.write("offline.framework.hcl", text[:from]+"  profiler {\n    offline = true\n  }\n"+text[to:])
	r := s.must(7, "profile", "naive", "--scenario", "chat")
	if !strings.Contains(r.err, "cannot be started and stopped while it serves (R140)") {
		t.Errorf("without a trace:\n%s", r.err)
	}
	s.write("traces/rank0.json", `{"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"execute_context_0(0)_generation_8(8)","pid":1,"tid":1,"ts":0,"dur":900},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":5,"dur":2,"args":{"correlation":9}},
{"ph":"X","cat":"kernel","name":"flash_fwd_kernel","pid":0,"tid":7,"ts":60,"dur":60,"args":{"stream":7,"correlation":9}}]}`)
	s.edit("campaign.hcl", "workload {", "trace \"mine\" {\n  framework = \"naive\"\n  path      = \"traces\"\n  stage     = \"decode\"\n}\n\nworkload {")
	out := t.TempDir()
	s.must(0, "profile", "naive", "--scenario", "chat", "--out", out)
	md, err := os.ReadFile(filepath.Join(out, "naive", "chat", "decode", "tables.md"))
	if err != nil || !strings.Contains(string(md), "| flash_fwd_kernel | attention | 60.0 µs | 100.00 % | 1 |") || !strings.Contains(string(md), "## offline, rank 0") {
		t.Errorf("%v\n%s", err, md)
	}
	if _, err := os.Stat(filepath.Join(out, "naive", "chat", "prefill")); err == nil {
		t.Error("a stage without a trace has a folder")
	}
}

// checkPair checks the two traces of a stage: the formal one has no operator,
// the mapping one lends them with their shapes.
func checkPair(t *testing.T, dir, stage string) {
	t.Helper()
	var sum profile.Summary
	readJSON(t, filepath.Join(dir, "mapping.summary.json"), &sum)
	if sum.Role != profile.Mapping || string(sum.Stage) != stage || sum.Trace == "" {
		t.Errorf("%s: mapping %+v", stage, sum)
	}
	var tables trace.TriageResult
	readJSON(t, filepath.Join(dir, "tables.json"), &tables)
	if tables.Mapping == nil || tables.Mapping.Path != sum.Trace {
		t.Fatalf("%s: the tables have no mapping", stage)
	}
	rep := tables.Reports[0]
	if rep.Framework != "tinyserve" {
		t.Errorf("%s: the framework is called %s", stage, rep.Framework)
	}
	if rep.Coverage.Joined < 0.5 || rep.Coverage.Op < 0.5 {
		t.Errorf("%s: coverage with a mapping %+v", stage, rep.Coverage)
	}
	b, err := os.ReadFile(filepath.Join(dir, "tables.md"))
	if err != nil || !strings.Contains(string(b), "tinyserve::") {
		t.Errorf("%s: no operators in the tables: %v", stage, err)
	}
}

// TestProfileFailure: a server that is not armed has no route to start the
// profiler; that is said, with exit code 5, and is tried again the next time.
func TestProfileFailure(t *testing.T) {
	s := example(t, "quickstart")
	s.edit("campaign.hcl", "framework \"naive\" {\n  use     = \"tinyserve\"", "framework \"naive\" {\n  use     = \"other\"")
	b, err := os.ReadFile("../stdlib/frameworks/tinyserve.hcl")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(b), `definition "tinyserve"`, `definition "other"`, 1)
	armed := "    flags = {\n      profiler_dir = \"{dir}\"\n    }\n"
	if !strings.Contains(text, armed) {
		t.Fatal("the definition is armed in another way")
	}
	s.write("other.framework.hcl", strings.Replace(text, armed, "", 1))
	for range 2 {
		r := s.must(5, "profile", "naive", "--scenario", "chat")
		for _, stage := range []string{"prefill", "decode"} {
			if want := `profile.naive["baseline"].chat.` + stage + " failed: http_status: starting the profiler: POST /start_profile: HTTP 404"; !strings.Contains(r.err, want) {
				t.Errorf("no %q in\n%s", want, r.err)
			}
		}
	}
}

func checkProfile(t *testing.T, dir, stage string, lens [2]int) {
	t.Helper()
	var sum profile.Summary
	readJSON(t, filepath.Join(dir, "summary.json"), &sum)
	if sum.InputLen != lens[0] || sum.OutputLen != lens[1] || sum.Warmup < 10 || sum.Active < 5 || sum.Rank != 0 {
		t.Errorf("%s: %+v", stage, sum)
	}
	var tables trace.TriageResult
	readJSON(t, filepath.Join(dir, "tables.json"), &tables)
	if len(tables.Reports) != 1 {
		t.Fatalf("%s: %d reports", stage, len(tables.Reports))
	}
	rep := tables.Reports[0]
	if rep.Coverage.Staged < 0.999 || rep.Coverage.Launch < 0.999 || len(rep.Coverage.Rules) == 0 {
		t.Errorf("%s: coverage %+v", stage, rep.Coverage)
	}
	found := false
	for _, st := range rep.Stages {
		if string(st.Stage) != stage {
			continue
		}
		found = true
		// One thread: nothing runs beside another, so the sum is the union.
		if st.Times.Busy <= 0 || st.Times.Busy != st.Times.Sum {
			t.Errorf("%s: times %+v", stage, st.Times)
		}
		// A product of matrices is most of a small transformer's work.
		if len(st.Kernels) == 0 || st.Families[0].Family != "gemm" || st.Families[0].Share < 0.5 {
			t.Errorf("%s: families %+v", stage, st.Families)
		}
	}
	if !found {
		t.Errorf("%s: no such stage in %s", stage, dir)
	}
	for _, f := range []string{"tables.md", "tables.csv", "trace.json.gz"} {
		if st, err := os.Stat(filepath.Join(dir, f)); err != nil || st.Size() == 0 {
			t.Errorf("%s: %s: %v", stage, f, err)
		}
	}
	md, err := os.ReadFile(filepath.Join(dir, "tables.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"#### Kernel Table", "#### Overlap Opportunity Table", "#### Fuse Opportunity Table"} {
		if !strings.Contains(string(md), table) {
			t.Errorf("%s: no %s", stage, table)
		}
	}
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
