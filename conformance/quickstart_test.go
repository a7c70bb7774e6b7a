package conformance

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestQuickstart is the main job from beginning to end, on the campaign that
// `make demo` applies: apply, apply again, and each kind of edit (R008, R051,
// R053, R081–R083, R085).
func TestQuickstart(t *testing.T) {
	s := example(t, "quickstart")
	checkEmptyPlan(t, s)
	first := s.must(0, "apply")
	checkWinners(t, s, first.out)

	again := s.must(0, "apply")
	if !strings.Contains(again.out, "Applied: 0 nodes run, 30 cached") {
		t.Errorf("a second apply ran something:\n%s", again.out)
	}
	if again.cpu > time.Second {
		t.Errorf("a second apply took %s of a CPU, want less than a second", again.cpu)
	}
	t.Run("NothingIsStaleAfterACosmeticEdit", func(t *testing.T) { cosmetic(t, s) })
	t.Run("OneFlagValueTouchesItsOwnCandidates", func(t *testing.T) { flagValue(t, s) })
	t.Run("AScenarioAddsItsOwnCells", func(t *testing.T) { newScenario(t, s) })
	t.Run("ANewBinaryWithTheSameHelp", func(t *testing.T) { newBinary(t, s) })
}

// checkEmptyPlan: without a help snapshot, helps are new and what needs them is
// decided later; nothing is started (DESIGN 6, 11.2).
func checkEmptyPlan(t *testing.T, s *site) {
	t.Helper()
	p := s.plan()
	for _, n := range p.Nodes {
		want := "later"
		if n.Kind == "help" || n.Kind == "version" || n.Kind == "dataset" {
			want = "new"
		}
		if n.Verdict != want {
			t.Errorf("empty store: %s is %s, want %s", n.Node, n.Verdict, want)
		}
	}
	if p.Counts["new"] != 6 || p.Counts["later"] != 24 {
		t.Errorf("empty store: counts %v; want 2 helps, 2 versions, 2 datasets new and the other 24 later", p.Counts)
	}
	if _, err := os.Stat(filepath.Join(s.dir, ".sotabuild", "tasks")); err == nil {
		t.Error("plan started something")
	}
}

// checkWinners reads the CSV, not the screen: blocked wins both scenarios and
// every number is there.
func checkWinners(t *testing.T, s *site, screen string) {
	t.Helper()
	if !strings.Contains(screen, "blocked") {
		t.Errorf("no winner table on the screen:\n%s", screen)
	}
	all := s.rows()
	if len(all) != 12 {
		t.Errorf("%d rows, want 2 frameworks × 3 candidates × 2 scenarios", len(all))
	}
	for _, r := range all {
		if r.get("status") != "ok" || r.get("request_throughput") == "" || r.get("p50_ttft_ms") == "" {
			t.Errorf("row %v is not ok or lacks a number", r)
		}
		if r.get("rank") == "1" && r.get("framework") != "blocked" {
			t.Errorf("%s wins %s; the blocked kernel is many times as fast", r.get("framework"), r.get("scenario"))
		}
	}
	dir := runDir(t, s)
	for _, f := range []string{"manifest.md", "benchmark/candidates.jsonl", "benchmark/summary.md", "benchmark/winning-commands.md", "final_report.md"} {
		if st, err := os.Stat(filepath.Join(dir, f)); err != nil || st.Size() == 0 {
			t.Errorf("run directory: %s: %v", f, err)
		}
	}
	helps, err := os.ReadDir(filepath.Join(dir, "help"))
	if err != nil || len(helps) < 2 {
		t.Errorf("help folder: %v, %v", helps, err)
	}
}

func cosmetic(t *testing.T, s *site) {
	text := s.read("campaign.hcl")
	defer s.write("campaign.hcl", text)
	blocks := strings.Split(text, "\nframework ")
	if len(blocks) != 3 {
		t.Fatalf("the example has %d framework blocks", len(blocks)-1)
	}
	// Another order of the blocks, a comment, and another label for a
	// framework and a scenario.
	moved := blocks[0] + "\n# a remark\nframework " + blocks[2] + "\nframework " + blocks[1]
	moved = strings.Replace(moved, `framework "naive"`, `framework "plain"`, 1)
	moved = strings.Replace(moved, `compare = ["naive"]`, `compare = ["plain"]`, 1)
	moved = strings.Replace(moved, `scenario "chat"`, `scenario "talk"`, 1)
	s.write("campaign.hcl", moved)
	if v := s.plan().verdicts(); len(v) != 0 {
		t.Errorf("stale after a cosmetic edit: %v", v)
	}
	if r := s.run("plan", "--detailed-exitcode"); r.code != 0 {
		t.Errorf("plan --detailed-exitcode: %d\n%s", r.code, r.out)
	}
	if out := s.must(0, "show").out; !strings.Contains(out, "plain") || !strings.Contains(out, "talk") {
		t.Errorf("show does not use the new labels:\n%s", out)
	}
}

func flagValue(t *testing.T, s *site) {
	text := s.read("campaign.hcl")
	defer s.write("campaign.hcl", text)
	i := strings.Index(text, `framework "naive"`)
	s.write("campaign.hcl", text[:i]+strings.Replace(text[i:], "max_num_seqs = [2, 4]", "max_num_seqs = [2, 3]", 1))
	p := s.plan()
	got := slices.Sorted(maps.Keys(p.verdicts()))
	want := []string{
		`bench.naive["max_num_seqs=3"].chat.c4`, `bench.naive["max_num_seqs=3"].summarization.c4`,
		`check.naive["max_num_seqs=3"]`, "select.naive.chat", "select.naive.summarization", "winners.chat", "winners.summarization",
	}
	if !slices.Equal(got, want) {
		t.Errorf("one flag value touched\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	check := p.node(t, `check.naive["max_num_seqs=3"]`)
	if !slices.ContainsFunc(check.Changes, func(c change) bool { return c.from("4") && c.to("3") }) {
		t.Errorf("no reason of the check says 4 → 3: %+v", check)
	}
}

func newScenario(t *testing.T, s *site) {
	text := s.read("campaign.hcl")
	defer s.write("campaign.hcl", text)
	s.edit("campaign.hcl", "workload {", "scenario \"short\" {\n  input_len = 16\n  output_len = 16\n  num_prompts = 8\n}\n\nworkload {")
	for node := range s.plan().verdicts() {
		if !strings.Contains(node, "short") {
			t.Errorf("a new scenario touched %s", node)
		}
	}
	ran := startedNodes(s.must(0, "apply", "--json").out)
	for _, node := range ran {
		if !strings.Contains(node, "short") {
			t.Errorf("a new scenario ran %s", node)
		}
	}
	if len(ran) != 10 {
		t.Errorf("a new scenario ran %v; want its prompts, 6 cells, 2 selections and the ranking", ran)
	}
}

// newBinary changes the server's bytes but not what it says: bytes after the
// end of an ELF file change nothing but its digest.
func newBinary(t *testing.T, s *site) {
	path := filepath.Join(s.dir, "..", "..", "bin", "tinyserve")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("another build"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for node, v := range s.plan().verdicts() {
		switch {
		case strings.HasPrefix(node, "help."), strings.HasPrefix(node, "version."):
			if v != "stale" {
				t.Errorf("%s is %s, want stale", node, v)
			}
		case strings.HasPrefix(node, "check."):
			if v != "later" {
				t.Errorf("%s is %s, want later", node, v)
			}
		}
	}
	out := s.must(0, "apply", "--target", "help.naive.server", "--target", `check.naive["baseline"]`).out
	if !strings.Contains(out, "help.naive.server") {
		t.Errorf("the help node did not run:\n%s", out)
	}
	measured := 0
	for node, v := range s.plan().verdicts() {
		if strings.HasPrefix(node, "check.") {
			t.Errorf("%s is %s although the help text is the same", node, v)
		}
		if strings.HasPrefix(node, "bench.") && v == "stale" {
			measured++
		}
	}
	if measured != 12 {
		t.Errorf("%d cells are stale, want all 12: they were measured with the other program", measured)
	}
}
