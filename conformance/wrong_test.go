package conformance

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// wrong is a framework with something wrong, and what has to become of it.
// Status and class are those of the table of classes (package result).
type wrong struct {
	name   string
	mode   string   // of badserve; "" is the healthy one
	flags  []string // further lines of the framework block
	warmup int
	status string // of the row
	class  string
	says   string // stands in the reason and on stderr
}

var wrongs = []wrong{
	{name: "Die", mode: "die", status: "failed", class: "server_died", says: "exited with code 3"},
	{name: "OutOfMemory", mode: "oom", status: "oom", class: "oom", says: "CUDA out of memory"},
	{name: "DieMidway", mode: "die-midway", status: "failed", class: "server_died", says: "exited with code 4"},
	{name: "DieAfterItsConnections", mode: "die-late", status: "failed", class: "server_died", says: "exited with code 4"},
	{name: "Hang", mode: "hang", flags: []string{`start_timeout = "2s"`}, status: "timeout", class: "unhealthy", says: "nobody listens"},
	{name: "Unhealthy", mode: "unhealthy", flags: []string{`start_timeout = "5s"`}, status: "timeout", class: "unhealthy", says: "GET /health answers 503"},
	{name: "HTTPError", mode: "http500", status: "failed", class: "http_status", says: "4 of 4 requests failed"},
	{name: "HTTPErrorInWarmup", mode: "http500", warmup: 1, status: "failed", class: "http_status", says: "warm-up request"},
	{name: "ErrorInStream", mode: "stream-error", status: "failed", class: "stream_error", says: "EngineCore died"},
	{name: "NoDone", mode: "no-done", status: "failed", class: "truncated", says: "4 truncated"},
	{name: "NoUsage", mode: "no-usage", status: "failed", class: "count_mismatch", says: "usage"},
	{name: "LiesAboutOutput", mode: "lies-output", status: "failed", class: "long_output", says: "16 output tokens, 8 were asked for"},
	{name: "LiesAboutPrompt", mode: "lies-prompt", status: "failed", class: "prompt_mismatch", says: "15"},
	{name: "Short", mode: "short", status: "failed", class: "short_output", says: "7 output tokens"},
	{name: "Cut", mode: "cut", status: "failed", class: "truncated", says: "4 truncated"},
	{name: "WrongModel", mode: "wrong-model", status: "failed", class: "wrong_model", says: "another-model"},
	{name: "Empty", mode: "empty", status: "failed", class: "no_tokens", says: "4 no_tokens"},
	{name: "Deaf", mode: "deaf", status: "ok"},
	{name: "Orphans", mode: "orphans", status: "ok"},
}

// TestWrongServers starts every kind of wrong server beside a good one. The
// wrong one is a failed row with its class and never a number; the good one is
// ranked all the same; nothing is left running (R075, R077).
func TestWrongServers(t *testing.T) {
	for _, w := range wrongs {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			more := append([]string{noSearch}, w.flags...)
			s := newSite(t, fake(strings.Replace(head(1, "bad"), "warmup      = 1", fmt.Sprintf("warmup = %d", w.warmup), 1)+
				framework("good", map[string]any{"pace_us": 200}, noSearch)+
				framework("bad", map[string]any{"mode": w.mode}, more...)))
			w.check(t, s, s.run("apply"))
		})
	}
}

// check reads every form in which a result leaves sotabuild.
func (w wrong) check(t *testing.T, s *site, r result) {
	t.Helper()
	waitGone(t, s, time.Second)
	want := 5
	if w.status == "ok" {
		want = 0
	}
	if r.code != want {
		t.Errorf("exit code %d, want %d\n%s\n%s", r.code, want, r.out, r.err)
	}
	rows := s.rows()
	good, bad := rows.of("good"), rows.of("bad")
	if len(good) != 1 || good[0].get("status") != "ok" || good[0].get("rank") == "" || good[0].get("request_throughput") == "" {
		t.Errorf("the good framework is not ranked: %v", good)
	}
	if len(bad) != 1 {
		t.Fatalf("rows of the wrong framework: %v, want one\n%s\n%s", bad, r.out, r.err)
	}
	if w.status == "ok" {
		if bad[0].get("status") != "ok" || bad[0].get("rank") == "" {
			t.Errorf("row %v, want a ranked one", bad[0])
		}
		if w.mode == "orphans" {
			orphansGone(t, s)
		}
		return
	}
	if got := bad[0].get("status") + " " + bad[0].get("failure_class"); got != w.status+" "+w.class {
		t.Errorf("the row is %q, want %q; reason: %s", got, w.status+" "+w.class, bad[0].get("failure_reason"))
	}
	if reason := bad[0].get("failure_reason"); !strings.Contains(reason, w.says) {
		t.Errorf("reason %q does not say %q", reason, w.says)
	}
	if !strings.Contains(r.err, w.says) || !strings.Contains(r.err, w.class) {
		t.Errorf("stderr does not say %s and %q:\n%s", w.class, w.says, r.err)
	}
	noNumber(t, s, bad[0])
}

// orphansGone looks for the two children that the server says it left behind,
// by the pids in its log.
func orphansGone(t *testing.T, s *site) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(runDir(t, s), "benchmark", "logs", "*-server.log"))
	if err != nil {
		t.Fatal(err)
	}
	left := 0
	for _, log := range logs {
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range leftBehind.FindAllSubmatch(b, -1) {
			left++
			cmd, err := os.ReadFile(filepath.Join("/proc", string(m[1]), "cmdline"))
			if err == nil && strings.Contains(string(cmd), "badserve") {
				t.Errorf("process %s is still there: %q", m[1], cmd)
			}
		}
	}
	if left != 2 {
		t.Errorf("the server's log names %d children, want 2", left)
	}
}

var leftBehind = regexp.MustCompile(`left behind: (\d+)`)

// measuredColumns are the cells of the CSV that only a measurement may fill.
var measuredColumns = []string{
	"request_throughput", "output_token_throughput", "total_token_throughput", "p50_ttft_ms", "p50_tpot_ms", "mean_ttft_ms", "mean_tpot_ms",
	"p99_ttft_ms", "p99_tpot_ms", "p50_e2e_ms", "success_rate", "mean_accept_length", "rank",
}

// noNumber looks for a metric of the failed row in every form of the report.
func noNumber(t *testing.T, s *site, csv row) {
	t.Helper()
	for _, c := range measuredColumns {
		if v := csv.get(c); v != "" {
			t.Errorf("CSV: %s is %q in a failed row", c, v)
		}
	}
	dir := runDir(t, s)
	for _, f := range []string{"manifest.md", "benchmark/summary.md", "benchmark/winning-commands.md", "final_report.md", "final_report.json", "campaign.json", "help/good_server.txt"} {
		if st, err := os.Stat(filepath.Join(dir, f)); err != nil || st.Size() == 0 {
			t.Errorf("run directory: %s is missing or empty: %v", f, err)
		}
	}
	candidate := badLine(t, filepath.Join(dir, "benchmark", "candidates.jsonl"))
	for name, v := range candidate.Metrics {
		if v != nil {
			t.Errorf("candidates.jsonl: %s is %v in a failed row", name, v)
		}
	}
	if len(candidate.Metrics) == 0 || candidate.Status != csv.get("status") || candidate.Class != csv.get("failure_class") {
		t.Errorf("candidates.jsonl: %+v is not the row of the CSV", candidate)
	}
	var doc struct {
		Scenarios []struct {
			Cells []struct {
				Framework string `json:"framework"`
				Row       struct {
					Metrics []any `json:"metrics"`
				} `json:"row"`
			} `json:"cells"`
		} `json:"scenarios"`
	}
	if err := json.Unmarshal([]byte(s.must(0, "report", "--format", "json").out), &doc); err != nil {
		t.Fatal(err)
	}
	for _, c := range doc.Scenarios[0].Cells {
		if c.Framework == "bad" && len(c.Row.Metrics) > 0 {
			t.Errorf("JSON: a failed row has metrics: %v", c.Row.Metrics)
		}
	}
	noNumberInMarkdown(t, s.must(0, "report", "--format", "md").out)
}

// noNumberInMarkdown reads the tables: in a line of the wrong framework the
// columns of numbers hold a dash.
func noNumberInMarkdown(t *testing.T, text string) {
	t.Helper()
	var columns []string
	seen := false
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) > 1 && slices.Contains(cells, "Framework") {
			columns = cells
			continue
		}
		if !slices.Contains(cells, "`bad`") || len(cells) != len(columns) {
			continue
		}
		for i, c := range columns {
			if unit := strings.Contains(c, "/s") || strings.Contains(c, "(ms)") || c == "Rank" || c == "Success rate"; unit {
				seen = true
				if cells[i] != "–" {
					t.Errorf("Markdown: %s is %q in a failed row", c, cells[i])
				}
			}
		}
	}
	if !seen {
		t.Errorf("Markdown: no table of numbers has a line of the failed row\n%s", text)
	}
}

type candidateLine struct {
	Framework string         `json:"framework"`
	Status    string         `json:"status"`
	Class     string         `json:"failure_class"`
	Metrics   map[string]any `json:"metrics"`
}

func badLine(t *testing.T, path string) candidateLine {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var c candidateLine
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatalf("candidates.jsonl: %v in %s", err, line)
		}
		if c.Framework == "bad" {
			return c
		}
	}
	t.Fatalf("candidates.jsonl has no line of the wrong framework:\n%s", b)
	return candidateLine{}
}

// TestWrongPrograms: what cannot be started at all. A file that is no program
// is an error of the campaign, before anything starts; one that only the kernel
// can refuse is a failed row.
func TestWrongPrograms(t *testing.T) {
	elf := append([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, make([]byte, 57)...)
	elf[16], elf[18] = 2, 0xb7 // an executable for aarch64, and nothing in it
	for _, p := range []struct {
		wrong
		content string
		mode    os.FileMode
		code    int
	}{
		{wrong{name: "NotExecutable", says: "chmod +x"}, "#!/bin/sh\n", 0o644, 7},
		{wrong{name: "Missing", says: "there is no such"}, "", 0, 7},
		{wrong{name: "Garbage", status: "failed", class: "start_failed", says: "exec format error"}, "this is no program", 0o755, 5},
		{wrong{name: "OtherArchitecture", status: "failed", class: "start_failed", says: "exec format error"}, string(elf), 0o755, 5},
		{wrong{name: "NoInterpreter", status: "failed", class: "start_failed", says: "no such file"}, "#!/no/such/interpreter\n", 0o755, 5},
		{wrong{name: "NoHelp", status: "failed", class: "no_help", says: "exit code 2"}, "#!/bin/sh\necho usage >&2; exit 2\n", 0o755, 5},
		{wrong{name: "NoServer", status: "failed", class: "no_help", says: "lists no flag but --help and --version"}, "#!/bin/sh\nexec /bin/true \"$@\"\n", 0o755, 5},
		{wrong{name: "KilledWhileHelping", status: "failed", class: "no_help", says: "killed"}, "#!/bin/sh\nkill -9 $$\n", 0o755, 5},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, nil)
			program := filepath.Join(s.dir, "server")
			for name, text := range fake(head(1, "bad") + framework("good", map[string]any{"pace_us": 200}, noSearch) +
				strings.Replace(framework("bad", map[string]any{"mode": "none"}, noSearch), filepath.Join(bin, "badserve"), program, 1)) {
				s.write(name, text)
			}
			if p.mode != 0 {
				if err := os.WriteFile(program, []byte(p.content), p.mode); err != nil {
					t.Fatal(err)
				}
			}
			r := s.run("apply")
			if p.code == 5 {
				p.check(t, s, r)
				p.saidOnce(t, s, r)
				// A program without a help is asked once in an apply, not in each of
				// its two steps.
				if n := askedFor(s, "help.bad.server"); len(n) != 1 {
					t.Errorf("its help was asked for %d times: %q", len(n), n)
				}
				return
			}
			if r.code != p.code || !strings.Contains(r.err, p.says) || !strings.Contains(r.err, "campaign.hcl:") || !strings.Contains(r.err, program) {
				t.Errorf("exit code %d, want %d, a place in campaign.hcl and the path\n%s", r.code, p.code, r.err)
			}
			if _, err := os.Stat(filepath.Join(s.dir, "runs")); err == nil {
				t.Error("something was written although nothing could start")
			}
		})
	}
}

// saidOnce: why a program gave no help stands where it ended and in the last
// words of an apply, and once for all of its candidates in what show lists; the
// apply's plan and its sum count the same.
func (w wrong) saidOnce(t *testing.T, s *site, r result) {
	t.Helper()
	all := r.out + r.err
	if n := strings.Count(all, w.class+": "); n != 2 {
		t.Errorf("an apply says %q %d times, want twice:\n%s", w.class, n, all)
	}
	if n := strings.Count(s.must(0, "show").out, w.class+": "); n != 1 {
		t.Errorf("show says %q %d times, want once", w.class, n)
	}
	if w.class == "no_help" && w.name != "KilledWhileHelping" && (!strings.Contains(all, `write program = "PATH"`) || !strings.Contains(all, `use = "NAME"`)) {
		t.Errorf("what to write is not said:\n%s", all)
	}
	_, after, _ := strings.Cut(r.out, "✗ help.bad.server")
	for _, wrong := range []string{"not known yet", "help.bad.server  blocked"} {
		if strings.Contains(after, wrong) {
			t.Errorf("after it was asked an apply says %q:\n%s", wrong, after)
		}
	}
	sums := regexp.MustCompile(`(?m)^(?:Plan|Applied): .*\b1 failed, (\d+) blocked\b`).FindAllStringSubmatch(r.out, -1)
	if len(sums) != 2 || sums[0][1] != sums[1][1] {
		t.Errorf("plan and apply count what is blocked as %q:\n%s", sums, r.out)
	}
	if out := s.must(0, "plan").out; !strings.Contains(out, "1 program gave no help when asked") || strings.Contains(out, "not known yet") {
		t.Errorf("a plan after it was asked:\n%s", out)
	}
}

// TestOccupiedPort: a fixed port that belongs to somebody else fails the
// candidate, and the other one's process lives on (R077).
func TestOccupiedPort(t *testing.T) {
	t.Parallel()
	foreign, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	go func() {
		for {
			c, err := foreign.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			c.Close()
		}
	}()
	port := foreign.Addr().(*net.TCPAddr).Port
	s := newSite(t, fake(head(1, "bad")+framework("good", map[string]any{"pace_us": 200}, noSearch)+
		framework("bad", map[string]any{"mode": "none"}, noSearch, fmt.Sprintf("port = %d", port))))
	held := fmt.Sprintf("its fixed port %d is held by pid %d ", port, os.Getpid())
	if r := s.must(0, "plan"); !strings.Contains(r.err, `warning: "bad": `+held) || !strings.Contains(r.err, "write port = 0 (or leave port out)") {
		t.Errorf("plan does not say who holds the port, and what to write:\n%s", r.err)
	}
	if r := s.must(1, "doctor"); !strings.Contains(r.out, "bad      framework bad: "+held) || !strings.Contains(r.out, "write port = 0") {
		t.Errorf("doctor does not say who holds the port, and what to write:\n%s", r.out)
	}
	wrong{status: "failed", class: "port_in_use", says: fmt.Sprint(port)}.check(t, s, s.run("apply"))
	c, err := net.Dial("tcp", foreign.Addr().String())
	if err != nil {
		t.Fatalf("the foreign listener is gone: %v", err)
	}
	defer c.Close()
	answer := make([]byte, 15)
	if _, err := c.Read(answer); err != nil || string(answer) != "HTTP/1.1 200 OK" {
		t.Errorf("the foreign listener answers %q, %v", answer, err)
	}
}

// askedFor are the events of a node's starts, in the log of the only apply.
func askedFor(s *site, node string) (found []string) {
	logs, err := filepath.Glob(filepath.Join(s.dir, ".sotabuild", "events", "*.jsonl"))
	if err != nil || len(logs) != 1 {
		s.t.Fatalf("logs of applies: %q, %v", logs, err)
	}
	for line := range strings.Lines(s.read(strings.TrimPrefix(logs[0], s.dir+"/"))) {
		if strings.Contains(line, `"node_started"`) && strings.Contains(line, node) {
			found = append(found, line)
		}
	}
	return found
}
