package conformance

import (
	"bufio"
	"context"
	"encoding/csv"
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
	"time"
)

// unsteady serves as the simulated server does, with a prefill that its lives
// take in turns from its list: what is measured again is another one.
const unsteady = `#!/bin/sh
case "$*" in
*--help*) exec %[1]q "$@";;
esac
lives=$(cat %[2]q 2>/dev/null || echo 0)
echo $((lives + 1)) > %[2]q
shift
case $lives in
0|3) exec %[1]q simserve --prefill 400ms "$@";;
1) exec %[1]q simserve --prefill 240ms "$@";;
*) exec %[1]q simserve --prefill 640ms "$@";;
esac
`

// steadyCampaign compares servers whose schedules say: one and two are equal, at
// 400 + 1 and 398 + 3 ms for all answers at once, slow takes 619 + 1 ms, which is
// 35 % less.
// The band of 20 % is above what neighbours do to such a run, and below 35 %.
// Without a cap of concurrency no request is due, so that a busy machine rejects
// no sample as client_limited.
func steadyCampaign(names ...string) string {
	var servers []simulated
	for _, n := range names {
		servers = append(servers, map[string]simulated{
			"one":      {n, "", `prefill = "400ms", step = "1ms"`},
			"two":      {n, "", `prefill = "398ms", step = "3ms"`},
			"slow":     {n, "", `prefill = "619ms", step = "1ms"`},
			"unsteady": {n, "unsteady.sh", `step = "1ms"`},
		}[n])
	}
	return simCampaign(repeatedBlocks, servers...)
}

// repeatedBlocks ask for three repeats of a scenario.
const repeatedBlocks = `sla {
  min_success_rate = 1
}
noise {
  threshold   = 0.2
  max_repeats = 3
}
workload {
  concurrency = [null]
  warmup      = 1
}
scenario "chat" {
  input_len   = 8
  output_len  = 2
  num_prompts = 12
}
`

func steadySite(t *testing.T, names ...string) *site {
	t.Helper()
	return simSite(t, steadyCampaign(names...))
}

// repeated is what a report's JSON says of repeats.
type repeated struct {
	Scenarios []struct {
		Ranking struct {
			Best, Unresolved []string
			Cells            []struct {
				Places []struct {
					Rank     int
					Row      string
					Repeated *struct {
						Verdict          string
						Ratio, Low, High float64
						Samples          int
					}
				}
			}
		}
		Repeats struct {
			Over  bool
			Sides []struct {
				Framework, Row string
				Rejected       []string
				Said           struct{ Verdict string }
				Repeats        []struct {
					Address string
					Row     struct {
						Server struct {
							Life string `json:"life"`
						}
					}
				}
			}
		}
	}
}

func (s *site) repeated() (r repeated) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.must(0, "report", "--json").out), &r); err != nil {
		s.t.Fatal(err)
	}
	return r
}

// verdicts are by framework, with the rank that follows.
func (r repeated) verdicts() map[string]string {
	out := map[string]string{}
	for _, side := range r.Scenarios[0].Repeats.Sides {
		for _, p := range r.Scenarios[0].Ranking.Cells[0].Places {
			if p.Row == side.Row {
				out[side.Framework] = fmt.Sprintf("%s %d", side.Said.Verdict, p.Rank)
			}
		}
	}
	return out
}

// TestRepeatsUntilStable: two equal servers are tied and share the first place, a
// slower one is behind, whatever one run of each said; rounds are planned, run
// and replayed; another bound or threshold measures nothing; a server whose lives
// differ leaves its comparison unresolved, and then nobody wins (R122, R123).
func TestRepeatsUntilStable(t *testing.T) {
	s := steadySite(t, "one", "two", "slow")
	if out := s.must(0, "plan").out; !strings.Contains(out, "? repeat.chat.round[…]  possible; winners.chat decides of which candidates") {
		t.Errorf("the plan does not show the repeats:\n%s", out)
	}
	if r := s.must(0, "apply", "--target", "winners.chat"); !strings.Contains(r.err, "the rounds of noise are not run") || strings.Contains(r.out, "repeat.") {
		t.Errorf("with a target:\n%s%s", r.out, r.err)
	} else if !strings.Contains(r.out, "\nFirst step: 3 new; ") || !strings.Contains(r.out, "= help.two.server  has the result of help.one.server: the same inputs") {
		t.Errorf("a first apply does not say what its first step is:\n%s", r.out)
	}
	for _, less := range [][]string{{"--target", "winners.chat"}, {"--out", filepath.Join(t.TempDir(), "saved")}, {"--deadline", "1h"}} {
		if r := s.must(0, append([]string{"plan", "--detailed-exitcode"}, less...)...); !strings.Contains(r.err, "the rounds of noise are not run") || strings.Contains(r.out, "repeat.") {
			t.Errorf("%v plans rounds that its apply does not run:\n%s%s", less, r.out, r.err)
		}
	}
	plan := s.must(2, "plan", "--detailed-exitcode").out
	for _, want := range []string{"+ repeat.chat.round[1].one[1]", "+ repeat.chat.round[1].slow[3]"} {
		if !strings.Contains(plan, want) {
			t.Errorf("the plan does not say %q:\n%s", want, plan)
		}
	}
	if r := s.must(6, "apply", "--deadline", "1h"); strings.Contains(r.out, "✓ repeat.") {
		t.Errorf("a round began under a budget:\n%s", r.out)
	} else if !strings.Contains(r.err, "no round of repeat.chat was started") || !strings.Contains(r.err, "without --deadline") || strings.Contains(r.err, "did not fit") {
		t.Errorf("the rounds that a budget leaves are not told from nodes that do not fit:\n%s", r.err)
	}
	s.must(0, "apply")
	// The path leads through the servers in their turns.
	if out := s.must(0, "show", "--timeline").out; !regexp.MustCompile(`repeat\.chat\.round\[1\]\.(two|slow|one)\[2\]  .*its turn came; .* until its server was up\n(?s:.*)decision  .*its input was there\n$`).MatchString(out) {
		t.Errorf("the path of repeats does not say what was waited for:\n%s", out)
	}
	// Of rounds that are over nobody is told that they are not run.
	for _, args := range [][]string{{"plan", "--deadline", "1h"}, {"plan", "--target", "winners.chat"}, {"apply", "--target", "help.one.server"}} {
		if r := s.must(0, args...); strings.Contains(r.err, "are not run") {
			t.Errorf("%v: %s", args, r.err)
		}
	}
	r := s.repeated()
	first, tied := "first 1", "tied 1"
	if got := r.verdicts(); len(got) != 3 || got["slow"] != "behind 2" || !(got["one"] == first && got["two"] == tied || got["one"] == tied && got["two"] == first) || len(r.Scenarios[0].Ranking.Best) != 2 {
		t.Fatalf("%v, %+v; want one and two tied, slow behind", got, r.Scenarios[0].Ranking)
	}
	lives := map[string]bool{}
	for _, side := range r.Scenarios[0].Repeats.Sides {
		for _, x := range side.Repeats {
			lives[x.Row.Server.Life] = true
		}
	}
	if len(lives) != 9 {
		t.Errorf("9 repeats are %d server lives", len(lives))
	}
	for _, p := range r.Scenarios[0].Ranking.Cells[0].Places {
		if x := p.Repeated; x != nil && x.Verdict == "behind" && (math.Abs(x.Ratio-401./620) > 0.1 || x.Low > x.Ratio || x.High < x.Ratio || x.Samples != 3) {
			t.Errorf("%+v; the schedules say %.3f", *x, 401./620)
		}
	}
	// A round is taken again as a whole: nobody chooses among its samples.
	if r := s.must(7, "apply", "--replace", "repeat.chat.round[1].one[1]"); !strings.Contains(r.err, "write repeat.chat.round[1], which takes all of them again") {
		t.Errorf("one sample may be taken again:\n%s", r.err)
	}
	if out := s.must(2, "plan", "--detailed-exitcode", "--replace", "repeat.chat.round[1]").out; !strings.Contains(out, "[1]  is to be replaced  +8 alike") {
		t.Errorf("a whole round cannot be taken again:\n%s", out)
	}
	shownByRepeats(t, s)
	if out := s.must(0, "show", "repeat.chat.round[1]").out; !strings.HasPrefix(out, "{\n  \"stop\": true,\n  \"why\": ") || !strings.HasSuffix(out, "\n}\n") {
		t.Errorf("a round is shown as\n%s", out)
	}
	if out := s.must(0, "show", "repeat.chat.round[1].slow[3]").out; !strings.HasPrefix(out, "ok; 12 of 12 requests succeeded; ") || strings.Index(out, "--- row") > strings.Index(out, "--- requests") {
		t.Errorf("a sample is not shown by its numbers first:\n%.600s", out)
	}
	md := s.must(0, "report", "--format", "md").out
	for _, want := range []string{"`one` (tied)", "`two` (tied)", "## Repeated runs", "by 3 repeats of each", "% (tied"} {
		if !strings.Contains(md, want) {
			t.Errorf("the report does not say %q:\n%s", want, md)
		}
	}
	dir := runDir(t, s)
	lines, err := os.ReadFile(filepath.Join(dir, "benchmark", "repeats.jsonl"))
	if n := strings.Count(string(lines), "\n"); err != nil || n != 9 {
		t.Errorf("%d rows of repeats in the run directory, want 9 (%v)", n, err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	for _, want := range []string{"are tied by 3 repeats of each", "<h3>Repeated runs</h3>", "<th>Repeats<th>tok/s of the machine<th>"} {
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("the page does not say %q (%v)", want, err)
		}
	}
	if records, err := os.ReadFile(filepath.Join(dir, "records", "records.txt")); err != nil || strings.Count(string(records), `"repeat.chat.round[1].slow[`) < 3 {
		t.Errorf("the run directory does not hold the records of repeats (%v)", err)
	}
	s.idle()
	if out := s.must(0, "plan", "--detailed-exitcode").out; !strings.Contains(out, "Loop repeat.chat is over after 1 of at most 1 round.") {
		t.Errorf("the plan does not show the end:\n%s", out)
	}
	if out := s.must(0, "explain", "repeat.chat.round[1].two[2]").out; !strings.Contains(out, "repeat") || !strings.Contains(out, "cell.load") {
		t.Errorf("explaining a repeat:\n%s", out)
	}
	if out := s.must(0, "cache", "gc", "--dry-run", "--max-age", "1s").out; strings.Contains(out, "repeat.chat") {
		t.Errorf("repeats that the campaign uses are garbage:\n%s", out)
	}
	t.Run("other_bounds", func(t *testing.T) { otherBounds(t, s) })
	t.Run("unresolved", func(t *testing.T) { leftUnresolved(t, s) })
}

// shownByRepeats checks that the line of a repeated row has the middle one of its
// three samples, and stands above the one of the run that it was chosen by.
func shownByRepeats(t *testing.T, s *site) {
	t.Helper()
	samples := map[string][]float64{}
	lines, err := os.ReadFile(filepath.Join(runDir(t, s), "benchmark", "repeats.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		var x struct {
			Framework string
			Row       struct {
				Metrics []struct {
					ID    string
					Value float64
				}
			}
		}
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatal(err)
		}
		for _, m := range x.Row.Metrics {
			if m.ID == "request_throughput" {
				samples[x.Framework] = append(samples[x.Framework], m.Value)
			}
		}
	}
	out := s.must(0, "report", "--format", "csv").out
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 7 {
		t.Fatalf("%d lines, %v; want two of each framework:\n%s", len(rows), err, out)
	}
	at := func(row []string, name string) string { return row[slices.Index(rows[0], name)] }
	for i := 1; i < len(rows); i += 2 {
		decided, run := rows[i], rows[i+1]
		name := at(decided, "framework")
		slices.Sort(samples[name])
		got, err := strconv.ParseFloat(at(decided, "request_throughput"), 64)
		if err != nil || len(samples[name]) != 3 || got != samples[name][1] || at(decided, "numbers") != "median of repeats" || at(decided, "repeats") != "3" || at(decided, "rank") == "" {
			t.Errorf("%s of samples %v is shown as %v", name, samples[name], decided)
		}
		if at(run, "framework") != name || at(run, "numbers") != "one run" || at(run, "rank") != "" || at(run, "row") != at(decided, "row") {
			t.Errorf("the run that %s was chosen by is shown as %v", name, run)
		}
	}
}

// idle checks that an apply runs nothing.
func (s *site) idle() {
	s.t.Helper()
	if out := s.must(0, "apply").out; !strings.Contains(out, "Applied: 0 nodes run") {
		s.t.Errorf("a second apply ran something:\n%s", out)
	}
}

// otherBounds: a band of 99 % ties what is 35 % behind; nothing of the campaign's
// graph is stale and no server is started.
func otherBounds(t *testing.T, s *site) {
	s.edit("campaign.hcl", "threshold   = 0.2", "threshold   = 0.99")
	if out := s.must(2, "plan", "--detailed-exitcode").out; !regexp.MustCompile(`(?m)^Plan: \d+ cached; in rounds 1 stale\.$`).MatchString(out) {
		t.Errorf("another threshold makes something stale:\n%s", out)
	}
	if out := s.must(0, "apply").out; strings.Contains(out, "▶") || !strings.Contains(out, "✓ repeat.chat.round[1].decision") {
		t.Errorf("another threshold:\n%s", out)
	}
	if got := s.repeated().verdicts(); !strings.HasPrefix(got["slow"], "tied") {
		t.Errorf("%v; want slow tied within 99 %%", got)
	}
	s.edit("campaign.hcl", "threshold   = 0.99", "threshold   = 0.2")
	s.idle()
}

// leftUnresolved has a server with 400, 240, 640 and 400 ms: one life for its cell,
// three for its repeats. Against it, the other one is measured anew, in turns.
func leftUnresolved(t *testing.T, s *site) {
	s.write("unsteady.sh", fmt.Sprintf(unsteady, filepath.Join(bin, "sotabuild"), filepath.Join(t.TempDir(), "lives")))
	if err := os.Chmod(filepath.Join(s.dir, "unsteady.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("campaign.hcl", steadyCampaign("one", "unsteady"))
	s.must(0, "apply", "--target", "winners.chat")
	// The sum says of both what may run, and the reason has no digests.
	if out := s.must(2, "plan", "--detailed-exitcode").out; !regexp.MustCompile(`(?m)^Plan: \d+ cached; in rounds 6 stale, 1 later\.$`).MatchString(out) ||
		!strings.Contains(out, "~ repeat.chat.round[1].one[1]  the set of sides that are measured in turns is another  +2 alike") {
		t.Errorf("stale repeats below an idle graph:\n%s", out)
	}
	out := s.must(0, "apply").out
	if !strings.Contains(out, "✓ repeat.chat.round[1].one[1]") || !strings.Contains(out, "✓ repeat.chat.round[1].unsteady[3]") {
		t.Errorf("against another framework the repeats are not taken in turns:\n%s", out)
	}
	r := s.repeated()
	if got := r.verdicts(); len(got) != 2 || r.Scenarios[0].Ranking.Best != nil || len(r.Scenarios[0].Ranking.Unresolved) != 2 || got["one"] == "unresolved 1" == (got["unsteady"] == "unresolved 1") {
		t.Errorf("%v, %+v; want no winner, and one of them unresolved against the other", got, r.Scenarios[0].Ranking)
	}
	if !strings.Contains(out, "chat: unresolved between ") {
		t.Errorf("the table does not say that nobody can say:\n%s", out)
	}
	if md := s.must(0, "report", "--format", "md").out; !strings.Contains(md, "`unsteady` (unresolved)") || !strings.Contains(md, "`one` (unresolved)") {
		t.Errorf("the report does not say it:\n%s", md)
	}
	s.idle()
}

// fragile serves as the simulated server does until a file is there.
const fragile = `#!/bin/sh
case "$*" in
*--help*) ;;
*) test ! -e %[2]q || exit 1;;
esac
exec %[1]q "$@"
`

// TestRepeatsLeaveNobody: where no side comes through its repeats nobody wins the
// scenario, and no apply calls that done, the next one neither; taken again, the
// side that comes through wins.
func TestRepeatsLeaveNobody(t *testing.T) {
	s := simSite(t, simCampaign(repeatedBlocks, simulated{"one", "one.sh", `prefill = "200ms", step = "1ms"`}, simulated{"two", "two.sh", `prefill = "200ms", step = "1ms"`}))
	broken := func(name string) string { return filepath.Join(s.dir, name+".broken") }
	for _, name := range []string{"one", "two"} {
		s.write(name+".sh", fmt.Sprintf(fragile, filepath.Join(bin, "sotabuild"), broken(name)))
		if err := os.Chmod(filepath.Join(s.dir, name+".sh"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if r := s.must(7, "show", "repeat.chat.round[1]"); !strings.Contains(r.err, "repeat.chat has no round yet: winners.chat decides of which candidates") {
		t.Errorf("showing a round that nobody knows yet: %s", r.err)
	}
	s.must(0, "apply", "--target", "winners.chat")
	if r := s.must(1, "show", "repeat.chat.round[1].one[1]"); !strings.Contains(r.err, "repeat.chat.round[1].one[1] has no result yet") {
		t.Errorf("showing a sample that is not there yet: %s", r.err)
	}
	s.write("one.broken", "")
	s.write("two.broken", "")
	for _, want := range []string{"▶ repeat.chat.round[1].two[3]", "Applied: 0 nodes run"} {
		r := s.must(5, "apply")
		if !strings.Contains(r.out, want) {
			t.Errorf("apply does not say %q:\n%s", want, r.out)
		}
		for _, want := range []string{"sotabuild: chat: no winner: ", "one is out: repeat 1: server_died: ", "two is out: repeat 1: server_died: ", "--replace 'repeat.chat.round[1]'"} {
			if !strings.Contains(r.err, want) {
				t.Errorf("apply does not say %q:\n%s", want, r.err)
			}
		}
	}
	if out := s.must(0, "show").out; !strings.Contains(out, "chat: no winner: ") {
		t.Errorf("show names a winner:\n%s", out)
	}
	t.Run("shown", func(t *testing.T) { roundsAreShown(t, s) })
	if err := os.Remove(broken("two")); err != nil {
		t.Fatal(err)
	}
	if out := s.must(0, "apply", "--replace", "repeat.chat.round[1]").out; !strings.Contains(out, "chat: two (baseline, concurrency unlimited) wins by 3 repeats, without one, which did not come through its own") {
		t.Errorf("the side that came through does not win:\n%s", out)
	}
}

// roundsAreShown: whatever address the plan prints of a round is shown and
// explained as any node is; the round itself by its decision. What is none is
// answered with the nearest one.
func roundsAreShown(t *testing.T, s *site) {
	for addr, want := range map[string]string{
		"repeat.chat.round[1].one[2]":   `"class": "server_died"`,
		"repeat.chat.round[1].decision": "one is out: repeat 1: server_died",
		"repeat.chat.round[1]":          "one is out: repeat 1: server_died",
	} {
		if out := s.must(0, "show", addr).out; !strings.Contains(out, want) && !strings.Contains(out, strings.ReplaceAll(want, `": "`, `":"`)) {
			t.Errorf("show %s does not say %q:\n%s", addr, want, out)
		}
		if out := s.must(0, "explain", addr).out; !strings.Contains(out, addr) {
			t.Errorf("explain %s says nothing of it:\n%s", addr, out)
		}
	}
	for addr, want := range map[string]string{
		"repeat.chat.round[1].on[1]":  "(did you mean repeat.chat.round[1].one[1]?)",
		"repeat.chat.round[1].one":    "is a block of 3 nodes; write one of them, such as repeat.chat.round[1].one[1]",
		"repeat.chat.round[2].one[4]": "repeat.chat has no such round; its last one is repeat.chat.round[1]",
		"repeat.chat":                 "repeat.chat is a loop; write one of its rounds, such as repeat.chat.round[1]",
		"repeat.chta.round[1]":        "the campaign's loops are repeat.chat",
		"winers.chat":                 "(did you mean winners.chat?)",
		"bench.one[baseline].chat":    `(did you mean bench.one["baseline"].chat?)`,
	} {
		for _, command := range []string{"show", "explain"} {
			if r := s.must(7, command, addr); !strings.Contains(r.err, want) {
				t.Errorf("%s %s does not say %q: %s", command, addr, want, r.err)
			}
		}
	}
}

// TestRepeatsKilled kills the engine in the middle of a round: every repeat that
// had finished is found by the next apply, and only the others are run.
func TestRepeatsKilled(t *testing.T) {
	s := steadySite(t, "one", "two")
	s.edit("campaign.hcl", `prefill = "400ms"`, `prefill = "200ms"`) // nobody reads its verdict, and four repeats are time for the kill
	s.edit("campaign.hcl", `prefill = "398ms"`, `prefill = "200ms"`)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := s.command(ctx, "apply", "--json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errText strings.Builder
	cmd.Stderr = &errText
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var finished []string
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if node, ok := finishedNode(lines.Bytes()); ok && strings.HasPrefix(node, "repeat.") {
			if finished = append(finished, node); len(finished) == 2 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := cmd.Wait(); err == nil || len(finished) < 2 {
		t.Fatalf("the engine ended by itself after %v\n%s", finished, errText.String())
	}
	waitGone(t, s, 5*time.Second)
	again := s.must(0, "apply").out
	for _, node := range finished {
		if strings.Contains(again, "▶ "+node) {
			t.Errorf("%s was finished and ran again:\n%s", node, again)
		}
	}
	if !strings.Contains(again, "▶ repeat.chat.round[1].two[3]") || slices.Contains(finished, "repeat.chat.round[1].two[3]") {
		t.Errorf("the rest of the round was not run:\n%s", again)
	}
	if got := s.repeated().verdicts(); len(got) != 2 {
		t.Errorf("%v", got)
	}
	s.idle()
}
