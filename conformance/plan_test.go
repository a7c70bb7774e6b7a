package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestSavedPlan saves a plan, applies it once, and has it refused with its own
// exit code whenever anything moved, naming what.
func TestSavedPlan(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair("none"))
	file := filepath.Join(s.dir, "p.plan")
	refused := func(args []string, want ...string) {
		t.Helper()
		r := s.must(3, append(args, file)...)
		for _, w := range want {
			if !strings.Contains(r.err, w) {
				t.Errorf("%v: the refusal does not say %q:\n%s", args, w, r.err)
			}
		}
	}
	s.must(0, "plan", "--out", file)
	s.edit("campaign.hcl", "input_len   = 16", "input_len   = 17")
	refused([]string{"apply"}, "file campaign.hcl: its bytes changed", "input_len 16 → 17")
	s.edit("campaign.hcl", "input_len   = 17", "input_len   = 16")
	refused([]string{"apply", "--store", t.TempDir()}, "store: it is another one")
	s.must(7, "apply", "--target", "winners", file)

	s.must(0, "apply", file)
	refused([]string{"apply"}, "applied before")
	s.must(0, "plan", "--detailed-exitcode", "--out", file)
	s.must(0, "apply", file)
	refused([]string{"apply"}, "applied before")

	s.must(0, "plan", "--out", file, "--replace", "winners")
	s.must(0, "apply")
	s.must(0, "apply", file) // nothing ran in between, so nothing moved
	s.write("p.plan", strings.Replace(s.read("p.plan"), "winners", "losers", 1))
	s.must(7, "apply", file)
}

// TestPlanForms prints one plan in every form.
func TestPlanForms(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair("none"))
	md := s.must(0, "plan", "--format", "markdown").out
	if !strings.HasPrefix(md, "### Plan for `") || !strings.Contains(md, "new") || utf8.RuneCountInString(md) > 65_536 {
		t.Errorf("markdown:\n%s", md)
	}
	if !strings.Contains(md, "\nThe help of 2 programs is not known yet") {
		t.Errorf("markdown does not say what apply asks first:\n%s", md)
	}
	budgeted := s.must(0, "plan", "--format", "markdown", "--deadline", "1h").out
	if !strings.Contains(budgeted, "what tells most first:\n\n```\n   1. help.good.server") || utf8.RuneCountInString(budgeted) > 65_536 {
		t.Errorf("markdown of a plan with a budget:\n%s", budgeted)
	}
	s.must(2, "plan", "--detailed-exitcode")
	for _, args := range [][]string{{"graph"}, {"graph", "--actions"}, {"graph", "--format", "mermaid"}, {"graph", "--target", "framework.good"}} {
		if out := s.must(0, args...).out; !strings.Contains(out, "good") {
			t.Errorf("%v draws no framework:\n%s", args, out)
		}
	}
	if out := s.must(0, "graph", "--target", "framework.good").out; strings.Contains(out, "slow") {
		t.Errorf("graph --target draws what is not needed:\n%s", out)
	}
	s.must(7, "graph", "--target", "framework.none")
	s.must(7, "explain", "1", "2")
}

// TestRefresh changes a program behind the plan's back: --refresh=false does not
// look, the default does.
func TestRefresh(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair("none"))
	program, err := os.ReadFile(filepath.Join(bin, "badserve"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "badserve"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("campaign.hcl", strings.ReplaceAll(s.read("campaign.hcl"), filepath.Join(bin, "badserve"), "badserve"))
	if r := s.must(0, "plan", "--refresh=false"); !strings.Contains(r.err, "reads them now") {
		t.Errorf("the first plan does not say that it read the facts: %s", r.err)
	}
	key := func(args ...string) string {
		t.Helper()
		var p struct {
			Nodes []struct{ Node, Key string }
		}
		if err := json.Unmarshal([]byte(s.must(0, append([]string{"plan", "--json"}, args...)...).out), &p); err != nil {
			t.Fatal(err)
		}
		return p.Nodes[0].Key
	}
	before := key()
	if err := os.WriteFile(filepath.Join(s.dir, "badserve"), append(program, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	if key("--refresh=false") != before {
		t.Error("--refresh=false read the program")
	}
	if key() == before {
		t.Error("a changed program changed no key")
	}
	s.must(7, "plan", "--refresh=false", "--out", filepath.Join(s.dir, "p"))
}

// TestBudgetAndTimeline leaves what does not fit to the next apply, with exit
// code 6, and reads the apply as time.
func TestBudgetAndTimeline(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair("none"))
	trace := filepath.Join(s.dir, "trace.json")
	s.must(1, "show", "--timeline")
	s.must(0, "apply", "--trace", trace)
	var chrome struct {
		TraceEvents []struct{ Name, Ph string } `json:"traceEvents"`
	}
	if err := json.Unmarshal([]byte(s.read("trace.json")), &chrome); err != nil || len(chrome.TraceEvents) < 10 {
		t.Errorf("trace: %v, %d events", err, len(chrome.TraceEvents))
	}
	for _, want := range []string{`"server start"`, `"queue: `, `"until":"the host was free"`, `bench.good`, `winners.`} {
		if !strings.Contains(s.read("trace.json"), want) {
			t.Errorf("the trace has no %s", want)
		}
	}
	for _, want := range []string{`"critical": [`, `"waited_ns": `, `"until": "its input was there"`, `"up": "20`, `"state": "ok"`} {
		if out := s.must(0, "show", "--timeline", "--json").out; !strings.Contains(out, want) {
			t.Errorf("show --timeline --json has no %s:\n%s", want, out)
		}
	}
	if out := s.must(0, "show", "--timeline").out; !strings.Contains(out, "Critical path:\n") || !strings.Contains(out, "winners.") || !strings.Contains(out, " until its server was up\n") {
		t.Errorf("show --timeline:\n%s", out)
	}
	s.edit("campaign.hcl", "input_len   = 16", "input_len   = 17")
	// The base candidates of both sides come before the others of any.
	var order struct {
		Order []struct {
			Nodes []string
			Left  int
			Why   string
		}
	}
	if err := json.Unmarshal([]byte(s.must(0, "plan", "--json", "--deadline", "1ms").out), &order); err != nil || len(order.Order) != 6 {
		t.Fatalf("plan --deadline --json: %v, %+v", err, order)
	}
	for i, want := range []string{`bench.good["baseline"]`, `bench.slow["baseline"]`} {
		if o := order.Order[i]; !strings.HasPrefix(o.Nodes[0], want) || o.Left != 1 || !strings.Contains(o.Why, "over the deadline") {
			t.Errorf("start %d is %+v, want all of %s left", i, o, want)
		}
	}
	if out := s.must(0, "plan", "--deadline", "1ms").out; !strings.Contains(out, "what tells most first:\n   1. bench.good") || !strings.Contains(out, "left: over the deadline") {
		t.Errorf("plan --deadline:\n%s", out)
	}
	if r := s.must(6, "apply", "--deadline", "1ms"); !strings.Contains(r.err, "did not fit into the budget") {
		t.Errorf("a deadline that has passed: %s", r.err)
	} else if !strings.Contains(r.out, `○ bench.good["baseline"].chat.c2  left by the budget: over the deadline`) || strings.Contains(r.out, "cancelled") {
		t.Errorf("what a budget leaves has no word of its own:\n%s", r.out)
	}
	if out := s.must(0, "plan").out; strings.Contains(out, "nothing to run") {
		t.Errorf("what is left is no plan:\n%s", out)
	}
	s.must(0, "apply")
	s.must(0, "apply", "--deadline", "1h")
	// No server of this campaign has a GPU: hours of them would bound nothing.
	for _, command := range []string{"plan", "apply"} {
		if r := s.must(7, command, "--deadline", "1h", "--max-gpu-hours", "1"); !strings.Contains(r.err, "bounds nothing here") || !strings.Contains(r.err, "--deadline") {
			t.Errorf("%s with hours of no GPU: %s", command, r.err)
		}
	}
	s.must(7, "apply", "--deadline", "soon")
	for _, hours := range []string{"-1", "0", "NaN", "Inf", "much", ""} { // neither 0 nor an unset variable must read as no bound
		s.must(7, "apply", "--max-gpu-hours", hours)
	}
	s.must(7, "apply", "--deadline", "")
	s.must(7, "plan", "--deadline", "")
}
