package conformance

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// oneOfMany is a one before what looks like a plural.
var oneOfMany = regexp.MustCompile(`(^|[^0-9.,:/…-])1 (further |new |more |other )?[a-z]{2,}s\b`)

// TestOneIsSingular: of a campaign that has one of everything, and of a search
// bound that cuts one candidate off, no command says "1 nodes".
func TestOneIsSingular(t *testing.T) {
	s := simSite(t, simCampaign(`sla {
  max_p50_ttft_ms  = 10000
  min_success_rate = 1
}
rate_search {
  start       = 40
  rounds      = 1
  num_prompts = 20
}
workload {
  concurrency = [1]
  warmup      = 1
}
scenario "chat" {
  input_len   = 8
  output_len  = 2
  num_prompts = 1
}
`, simulated{"one", "", "prefill = \"1ms\", step = \"1ms\" }\n  search {\n    max_candidates = 1\n    space = { max_num_seqs = [4] }\n  "}))
	check := func(code int, args ...string) {
		t.Helper()
		r := s.must(code, args...)
		for line := range strings.Lines(r.out + r.err) {
			if at := oneOfMany.FindString(line); at != "" {
				t.Errorf("%v says %q: %s", args, at, line)
			}
		}
	}
	check(0, "validate")
	check(0, "show")
	check(0, "apply", "--target", "select.one.chat")
	check(2, "plan", "--detailed-exitcode")
	check(0, "plan", "--replace", "help.one.server", "--format", "markdown")
	s.decided()
	check(0, "apply", "--replace", "winners.chat")
	for _, args := range [][]string{{"plan"}, {"plan", "--all"}, {"show"}, {"report", "--format", "md"}, {"explain", "winners.chat"}, {"cache", "verify"}, {"cache", "gc", "--dry-run"}} {
		check(0, args...)
	}
	for _, name := range []string{"benchmark/summary.md", "host_state.md", "manifest.md", "report.html"} {
		b, err := os.ReadFile(filepath.Join(runDir(t, s), name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		if name == "report.html" { // what people read of it
			text = regexp.MustCompile(`(?s)<(script|style).*?</(script|style)>`).ReplaceAllString(text, "")
		}
		for line := range strings.Lines(text) {
			if at := oneOfMany.FindString(line); at != "" {
				t.Errorf("%s says %q: %s", name, at, line)
			}
		}
	}
}
