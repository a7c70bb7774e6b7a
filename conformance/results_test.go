package conformance

import (
	"bytes"
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
// examples with one scenario and no search, so that a run is short.
var compared = []struct {
	name string
	site func(*testing.T) *site
}{
	{"quickstart", quickstartWithImage},
	{"llamacpp", llamacppWithImage},
}

// TestResultsByExecutor measures the examples by local, docker and slurm, in
// turns, and writes how their throughputs compare into docs/executors.md. It
// needs a quiet machine, so it is run by hand: make compare-executors.
func TestResultsByExecutor(t *testing.T) {
	repeats, err := strconv.Atoi(os.Getenv("SOTABUILD_REPEATS"))
	if err != nil || repeats < 3 {
		t.Skip("SKIPPED: SOTABUILD_REPEATS gives no number of repeats from 3: `make compare-executors` does")
	}
	kinds := []string{"local", "docker", "slurm"}
	for _, k := range kinds[1:] {
		there(t, k)
	}
	plan, err := stats.NewPlan(stats.Standard(repeats))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range compared {
		t.Run(c.name, func(t *testing.T) {
			runs, frameworks := throughputs(t, func(t *testing.T) *site {
				s := c.site(t)
				shorten(s)
				return s
			}, kinds, repeats)
			var b bytes.Buffer
			fmt.Fprintf(&b, "| %s | executor | tokens/s | spread | ratio to local | interval | verdict |\n| --- | --- | --- | --- | --- | --- | --- |\n", c.name)
			for _, fw := range frameworks {
				for _, kind := range kinds {
					judged, err := plan.Judge(runs[[2]string{fw, kind}], runs[[2]string{fw, "local"}], true)
					if err != nil {
						t.Fatal(err)
					}
					sorted := slices.Sorted(slices.Values(runs[[2]string{fw, kind}]))
					fmt.Fprintf(&b, "| %s | %s | %.0f | %.1f %% |", fw, kind, sorted[repeats/2], 100*judged.SpreadA)
					if kind == "local" {
						b.WriteString(" | | |\n")
						continue
					}
					fmt.Fprintf(&b, " %.3f | %.3f to %.3f | %s after %d |\n", judged.Ratio, judged.Low, judged.High, judged.Verdict, judged.Repeats)
				}
			}
			t.Logf("\n%s%v", b.String(), runs)
			if os.Getenv("SOTABUILD_UPDATE") == "" {
				return
			}
			head, _, tail := part(t, executorsPage, c.name)
			if err := os.WriteFile(executorsPage, []byte(head+b.String()+tail), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// throughputs measures a campaign by each kind in turns, each time in a new
// store, and returns the output tokens per second by framework and kind.
func throughputs(t *testing.T, site func(*testing.T) *site, kinds []string, repeats int) (runs map[[2]string][]float64, frameworks []string) {
	t.Helper()
	runs = map[[2]string][]float64{}
	for i := range repeats {
		order := slices.Clone(kinds)
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, kind := range order {
			s := site(t)
			s.must(0, "apply", "--executor", kind)
			for _, r := range s.rows() {
				v, err := strconv.ParseFloat(r.get("output_token_throughput"), 64)
				if err != nil || r.get("status") != "ok" {
					t.Fatalf("row %v: %v", r, err)
				}
				name := r.get("framework")
				if !slices.Contains(frameworks, name) {
					frameworks = append(frameworks, name)
				}
				runs[[2]string{name, kind}] = append(runs[[2]string{name, kind}], v)
			}
		}
	}
	return runs, frameworks
}

// shorten leaves one scenario and no search.
func shorten(s *site) {
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
}
