package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/stdlib/stats"
)

// askAnswers adds a gate on greedy answers to a campaign, so that they are
// recorded.
func askAnswers(s *site) {
	s.write("answers.campaign.hcl", "accuracy {\n  prompts       = 2\n  min_agreement = 0.98\n}\n")
}

// counted is what the measurements of a campaign come to whoever runs it: by
// cell the program's and the prompts' digests with requests, tokens and lengths,
// and by framework the digest of the greedy answers. No time is in it, nor
// cached tokens: which of llama-server's slots gets a request, and so what it
// finds there, is a matter of time.
func counted(t *testing.T, s *site) map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(runDir(t, s), "benchmark", "candidates.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(b)) {
		var r struct {
			Framework, Software, Status string
			Candidate                   string `json:"candidate_id"`
			Workload                    struct {
				Scenario string
				Dataset  string `json:"dataset_digest"`
			}
			Requests map[string]json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Status != "ok" {
			t.Errorf("%s: %s in %s is %s", r.Framework, r.Candidate, r.Workload.Scenario, line)
		}
		cell := r.Software + "\n" + r.Workload.Dataset
		for _, name := range []string{"ok", "failed", "input_tokens", "output_tokens", "lengths"} {
			value, ok := r.Requests[name]
			if !ok {
				t.Fatalf("the row counts no %q: %s", name, line)
			}
			cell += "\n" + name + " " + string(value)
		}
		out[strings.Join([]string{r.Framework, r.Candidate, r.Workload.Scenario}, " ")] = cell
		if _, known := out[r.Framework]; known {
			continue
		}
		var rec struct {
			Outputs []struct{ Name, Digest string }
		}
		if err := json.Unmarshal([]byte(s.must(0, "show", "bench."+r.Framework+`["baseline"].answers`, "--json").out), &rec); err != nil {
			t.Fatal(err)
		}
		for _, o := range rec.Outputs {
			if o.Name == "requests" {
				out[r.Framework] = o.Digest
			}
		}
		if out[r.Framework] == "" {
			t.Errorf("%s has no answers: %+v", r.Framework, rec)
		}
	}
	if len(out) == 0 {
		t.Error("the campaign measured nothing")
	}
	return out
}

// everywhere applies a campaign with local and then, each in a store of its own,
// with the other executors: what local measured is up to date for each of them,
// each of them counts what local counted, and local has nothing to do after it.
// check looks further at what a kind left.
func everywhere(t *testing.T, make func(*testing.T) *site, kinds []string, check func(t *testing.T, kind string, s *site)) {
	t.Helper()
	asked := func(t *testing.T) *site {
		s := make(t)
		askAnswers(s)
		return s
	}
	here := asked(t)
	here.must(0, "apply", "--executor", "local")
	want := counted(t, here)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			there(t, kind)
			if out := here.must(0, "plan", "--executor", kind).out; !strings.HasPrefix(out, "Plan: nothing to run, ") {
				t.Errorf("what local measured is stale for %s:\n%s", kind, out)
			}
			s := asked(t)
			s.must(0, "apply", "--executor", kind)
			if diff := cmp.Diff(want, counted(t, s)); diff != "" {
				t.Errorf("%s counts otherwise (-local +%s):\n%s", kind, kind, diff)
			}
			if out := s.must(0, "plan", "--executor", "local").out; !strings.HasPrefix(out, "Plan: nothing to run, ") {
				t.Errorf("what %s measured is stale for local:\n%s", kind, out)
			}
			nothingLeft(t, s)
			check(t, kind, s)
		})
	}
}

// executorsPage has tables that tests keep, each between comments with its name.
const executorsPage = "../docs/executors.md"

// part is what stands in a page between the comments NAME and NAME end, with
// what is before and after.
func part(t *testing.T, path, name string) (head, text, tail string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	from, to := "<!-- "+name+" -->\n\n", "\n<!-- "+name+" end -->"
	head, rest, ok := strings.Cut(string(b), from)
	text, tail, closed := strings.Cut(rest, to)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table %s", path, name)
	}
	return head + from, text, to + tail
}

// compared are the campaigns whose results docs/executors.md compares: the
// examples with one scenario and no search. prompts makes a measurement some
// seconds long: a quarter of a second is as noisy as a machine's timer.
var compared = []struct {
	name    string
	site    func(*testing.T) *site
	prompts int
}{
	{"quickstart", quickstartWithImage, 64},
	{"llamacpp", llamacppWithImage, 128},
}

// columns are what is compared. The last is the first once more: how far it
// seems to be from itself is the noise that the others are seen through.
var columns = []struct{ name, kind string }{
	{"local", "local"}, {"docker", "docker"}, {"slurm", "slurm"}, {"local again", "local"},
}

// equalBand is how far two executors may differ and count as equal.
const equalBand = 0.05

// measured is one run of one framework, a line of the file of runs.
type measured struct {
	Example, Framework, Column string
	Round                      int
	TokensPerSecond            float64
}

// TestResultsByExecutor measures the examples by local, docker, slurm and local
// again, in turns whose order is reversed each time (ABBA), and writes how their
// throughputs compare into docs/executors.md. SOTABUILD_RUNS is a file that the
// runs are added to: the rounds of several calls are judged together, and no
// round more judges those that are there. It needs a
// quiet machine, so it is run by hand: make compare-executors.
func TestResultsByExecutor(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("SOTABUILD_REPEATS"))
	if err != nil || rounds < 0 {
		t.Skip("SKIPPED: SOTABUILD_REPEATS gives no number of rounds: `make compare-executors` does")
	}
	for _, c := range columns {
		if c.kind != "local" {
			there(t, c.kind)
		}
	}
	file := os.Getenv("SOTABUILD_RUNS")
	if file == "" {
		file = filepath.Join(t.TempDir(), "runs.jsonl")
	}
	for _, c := range compared {
		t.Run(c.name, func(t *testing.T) {
			for range rounds {
				round := 0
				for _, m := range readRuns(t, file) {
					if m.Example == c.name {
						round = max(round, m.Round+1)
					}
				}
				addRuns(t, file, measureRound(t, c.name, func() *site {
					s := c.site(t)
					lengthen(s, c.prompts)
					return s
				}, round))
			}
			text := resultsTable(t, c.name, readRuns(t, file))
			t.Logf("\n%s", text)
			if os.Getenv("SOTABUILD_UPDATE") == "" {
				return
			}
			head, _, tail := part(t, executorsPage, c.name)
			if err := os.WriteFile(executorsPage, []byte(head+text+tail), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// measureRound measures a campaign once by each column, each time in a new
// store. What broke off half-way is not kept: a round is whole.
func measureRound(t *testing.T, example string, site func() *site, round int) (out []measured) {
	t.Helper()
	order := slices.Clone(columns)
	if round%2 == 1 {
		slices.Reverse(order)
	}
	for _, c := range order {
		s := site()
		s.must(0, "apply", "--executor", c.kind)
		for _, r := range s.rows() {
			v, err := strconv.ParseFloat(r.get("output_token_throughput"), 64)
			if err != nil || r.get("status") != "ok" {
				t.Fatalf("row %v: %v", r, err)
			}
			out = append(out, measured{example, r.get("framework"), c.name, round, v})
		}
	}
	return out
}

func readRuns(t *testing.T, file string) (out []measured) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var m measured
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, m)
	}
	return out
}

func addRuns(t *testing.T, file string, runs []measured) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, m := range runs {
		if err := json.NewEncoder(f).Encode(m); err != nil {
			t.Fatal(err)
		}
	}
}

// resultsTable judges all runs of an example: one look, after all of them, with
// equalBand as the margin of the equivalence test. What it cannot show is within
// noise where the ratio lies in the interval of local against itself.
func resultsTable(t *testing.T, example string, all []measured) string {
	t.Helper()
	runs := map[[2]string][]float64{}
	var frameworks []string
	for _, m := range all {
		if m.Example != example {
			continue
		}
		if !slices.Contains(frameworks, m.Framework) {
			frameworks = append(frameworks, m.Framework)
		}
		cell := [2]string{m.Framework, m.Column}
		runs[cell] = append(runs[cell], m.TokensPerSecond)
	}
	slices.Sort(frameworks)
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | executor | runs | tokens/s | spread | ratio to local | interval | verdict |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n", example)
	judge := func(mine, local []float64) stats.Comparison {
		plan, err := stats.NewPlan(stats.Rule{Band: equalBand, Error: 0.05, Looks: []int{len(mine)}})
		if err != nil {
			t.Fatal(err)
		}
		judged, err := plan.Judge(mine, local, true)
		if err != nil {
			t.Fatal(err)
		}
		return judged
	}
	for _, fw := range frameworks {
		local := runs[[2]string{fw, "local"}]
		for _, c := range columns {
			mine := runs[[2]string{fw, c.name}]
			if len(mine) != len(local) || len(mine) < 2 {
				t.Logf("%s by %s has %d runs, local %d: nothing is judged of fewer than 2", fw, c.name, len(mine), len(local))
				return ""
			}
			judged := judge(mine, local)
			sorted := slices.Sorted(slices.Values(mine))
			fmt.Fprintf(&b, "| %s | %s | %d | %.0f | %.1f %% |", fw, c.name, len(mine), (sorted[(len(sorted)-1)/2]+sorted[len(sorted)/2])/2, 100*judged.SpreadA)
			if c.name == "local" {
				b.WriteString(" | | |\n")
				continue
			}
			word := map[stats.Verdict]string{stats.Tied: "equal", stats.Ahead: "faster", stats.Behind: "slower", stats.Unresolved: "unresolved"}[judged.Verdict]
			if noise := judge(runs[[2]string{fw, "local again"}], local); judged.Verdict == stats.Unresolved && noise.Low <= judged.Ratio && judged.Ratio <= noise.High {
				word = "within noise"
			}
			fmt.Fprintf(&b, " %.3f | %.3f to %.3f | %s |\n", judged.Ratio, judged.Low, judged.High, word)
		}
	}
	return b.String()
}

// TestResultsTable: equal runs are equal, a gap of 20 % is one, and noise
// decides nothing.
func TestResultsTable(t *testing.T) {
	var all []measured
	for i, v := range []float64{100, 101, 99, 100, 102, 98} {
		for column, w := range map[string]float64{"local": v, "docker": v + float64(i%3-1)/2, "slurm": v * 0.8, "local again": v * []float64{0.7, 1.4, 1, 0.8, 1.3, 1}[i]} {
			all = append(all, measured{"x", "f", column, i, w})
		}
	}
	got := resultsTable(t, "x", all)
	for _, want := range []string{"| f | local | 6 | 100 |", "| f | docker | 6 |", "| equal |", "| f | slurm | 6 | 80 |", "| slower |", "| within noise |"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// lengthen leaves one scenario, of so many prompts, and no search.
func lengthen(s *site, prompts int) {
	s.t.Helper()
	text := s.read("campaign.hcl")
	for _, block := range []string{"scenario \"summarization\" {\n", "  search {\n"} {
		end := "\n" + block[:len(block)-len(strings.TrimLeft(block, " "))] + "}\n"
		for {
			before, rest, ok := strings.Cut(text, block)
			if !ok {
				break
			}
			_, after, _ := strings.Cut(rest, end)
			text = before + after
		}
	}
	s.write("campaign.hcl", text)
	s.edit("campaign.hcl", "num_prompts = 16", fmt.Sprintf("num_prompts = %d", prompts))
}
