package conformance

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// missing skips a test whose part is not on this machine, or fails it where
// SOTABUILD_REQUIRE names the part.
func missing(t *testing.T, part, how string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("SOTABUILD_REQUIRE"), ","), part) {
		t.Fatalf("%s is required here and missing: %s", part, how)
	}
	t.Skipf("SKIPPED, %s is not on this machine: %s", part, how)
}

// llamacpp is the example with what prepare.sh made, in a folder of its own.
func llamacpp(t *testing.T) *site {
	t.Helper()
	const prepared = "../examples/llamacpp/prepared"
	server, err := filepath.EvalSymlinks(prepared + "/server")
	if err == nil {
		_, err = os.Stat(filepath.Join(server, "llama-server"))
	}
	if err != nil {
		missing(t, "llamacpp", "`examples/llamacpp/prepare.sh` makes it: "+err.Error())
	}
	root := t.TempDir()
	dir := filepath.Join(root, "examples", "llamacpp")
	copyTree(t, bin, filepath.Join(root, "bin"))
	copyTree(t, prepared+"/model", filepath.Join(dir, "prepared", "model"))
	if err := os.Symlink(server, filepath.Join(dir, "prepared", "server")); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"campaign.hcl", "llamacpp_tiny.framework.hcl"} {
		b, err := os.ReadFile("../examples/llamacpp/" + f)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, f), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return &site{t, dir}
}

// TestLlamacpp runs the example: a real llama-server against tinyserve, four
// candidates each, in two scenarios; then it runs nothing; and the report
// names versions, commands, flags and the prompts' digest (R008, R056, R058,
// R075, R081–R086).
func TestLlamacpp(t *testing.T) {
	t.Parallel()
	s := llamacpp(t)
	for _, image := range []string{`image   = "docker-archive:../../bin/tinyserve.tar"`, `image   = "docker-archive:prepared/image.tar"`} {
		s.edit("campaign.hcl", image, "")
	}
	s.must(0, "apply")
	if out := s.must(0, "apply").out; !strings.Contains(out, "Applied: 0 nodes run") {
		t.Errorf("a second apply ran something:\n%s", out)
	}
	table, err := csv.NewReader(strings.NewReader(s.must(0, "report", "--format", "csv").out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	status := slices.Index(table[0], "status")
	if len(table)-1 != 2*4*2 || status < 0 {
		t.Fatalf("%d rows with columns %v, want 2 frameworks × 4 candidates × 2 scenarios", len(table)-1, table[0])
	}
	for _, r := range table[1:] {
		if r[status] != "ok" {
			t.Errorf("row %v is not ok", r)
		}
	}

	report := s.must(0, "report", "--format", "md").out
	prompts := promptDigests(t, s)
	for what, want := range map[string]string{
		"tinyserve's version":     "| `tinyserve` | `tinyserve` | target | selected | – | 0.1.0 |",
		"llama-server's version":  "| `llamacpp` | `llamacpp_tiny` | competitor | selected | – | " + llamaVersion(t, s) + " |",
		"a tinyserve command":     "bin/tinyserve --model " + s.dir + "/prepared/model --served-model-name tiny ",
		"a llama-server command":  "prepared/server/llama-server --model " + s.dir + "/prepared/model/model.gguf --alias tiny ",
		"a candidate's flags":     "Flags: `--cache-type-k = f32`, `--cache-type-v = f32`, `--ctx-size = 2048`, `--parallel = 4`, `--sse-ping-interval = 1`, `--threads = 1`",
		"the chat prompts":        prompts["dataset.chat.c4"],
		"the other prompts":       prompts["dataset.summarization.c4"],
		"that none failed":        "## Failed requests\n\nNone.",
		"that it decides nothing": "Flow check",
	} {
		if want == "" || !strings.Contains(report, want) {
			t.Errorf("the report does not say %s: %q", what, want)
		}
	}
	t.Run("EveryFailedRequestIsNamed", func(t *testing.T) { failedRequests(t, s) })
}

// llamaVersion is what the program itself prints, asked without sotabuild.
func llamaVersion(t *testing.T, s *site) string {
	t.Helper()
	out := shell(t, filepath.Join(s.dir, "prepared/server/llama-server"), "--version")
	m := regexp.MustCompile(`version: (.+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("llama-server --version printed %q", out)
	}
	return m[1]
}

// promptDigests reads the digests of the frozen prompts from the store's own
// records.
func promptDigests(t *testing.T, s *site) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, node := range []string{"dataset.chat.c4", "dataset.summarization.c4"} {
		var rec struct {
			Outputs []struct{ Name, Digest string }
		}
		if err := json.Unmarshal([]byte(s.must(0, "show", node, "--json").out), &rec); err != nil || len(rec.Outputs) != 1 {
			t.Fatalf("%s: %v, %+v", node, err, rec)
		}
		out[node] = rec.Outputs[0].Digest
	}
	return out
}

// failedRequests gives llama-server a shared cache that two requests of the
// longer scenario fit into (the warm-up) and four do not: 4 × (256 + 32) tokens
// into 768. It then answers with an error in the middle of a stream. The report
// counts these requests by class and quotes some, the run directory has each of
// them, and there is no number of that cell.
func failedRequests(t *testing.T, s *site) {
	text := s.read("campaign.hcl")
	before, after, ok := strings.Cut(text, "ctx_size     = 2048")
	flags, _, searched := strings.Cut(after, "  search {")
	if !ok || !searched {
		t.Fatal("the example gives llamacpp no ctx_size, or does not search it")
	}
	s.write("campaign.hcl", before+"ctx_size     = 768\n    kv_unified   = true"+flags+"}\n")
	if r := s.run("apply"); r.code != 5 || !strings.Contains(r.err, "no result for llamacpp in summarization") {
		t.Errorf("exit code %d, want 5 with the reason\n%s\n%s", r.code, r.out, r.err)
	}
	report := s.must(0, "report", "--format", "md").out
	m := regexp.MustCompile("(?m)^\\| `llamacpp` \\| `baseline` \\| summarization \\| 4 \\| `stream_error` \\| (\\d+) \\| 8 \\|.*Context size has been exceeded").FindStringSubmatch(report)
	if m == nil {
		_, part, _ := strings.Cut(report, "## Failed requests\n")
		t.Fatalf("the failed requests are not in the report:\n%.2000s", part)
	}
	if got := strconv.Itoa(rawFailures(t, s)); got != m[1] {
		t.Errorf("the run directory has %s failed requests, the report says %s", got, m[1])
	}
}

// rawFailures counts the requests that the run directory's logs call failed.
func rawFailures(t *testing.T, s *site) int {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(s.dir, "runs", "*", "benchmark", "raw", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range logs {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			var r struct{ Class, Reason string }
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if r.Class != "" && r.Reason != "" {
				n++
			}
		}
	}
	return n
}

func shell(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}
