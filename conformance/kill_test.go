package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// killPoints is how many seeded points a run is broken at.
const killPoints = 10

// TestKilledAnywhere breaks a run at seeded points: the engine killed, the
// runner killed, or Ctrl-C. Nothing finished is lost, nothing is left running
// after five seconds, and the next apply ends with the same table (DESIGN
// 11.4, 11.7; R008, R077).
func TestKilledAnywhere(t *testing.T) {
	whole := newSite(t, pair("none"))
	events := countEvents(t, whole)
	want := blanked(t, whole)
	if events < killPoints {
		t.Fatalf("a whole run has only %d events", events)
	}
	rng := rand.New(rand.NewPCG(11, 4))
	for i := range killPoints {
		victim := []string{"engine", "runner", "interrupt"}[i%3]
		at := 1 + rng.IntN(events-1)
		t.Run(fmt.Sprintf("Point%dOf%dKills%s", at, events, victim), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, pair("none"))
			finished := breakAt(t, s, at, victim)
			waitGone(t, s, 5*time.Second)
			second := s.run("apply", "--json")
			if second.code != 0 && victim == "runner" {
				// The cell whose runner died may have been recorded as lost by
				// the first run; one more apply tries it again.
				second = s.run("apply", "--json")
			}
			if second.code != 0 {
				t.Fatalf("apply after the break: exit code %d\n%s\n%s", second.code, second.out, second.err)
			}
			for _, n := range startedNodes(second.out) {
				if slices.Contains(finished, n) {
					t.Errorf("%s had finished and was run again", n)
				}
			}
			waitGone(t, s, 5*time.Second)
			if got := blanked(t, s); got != want {
				t.Errorf("the final table differs\n--- got\n%s--- want\n%s", got, want)
			}
		})
	}
}

func countEvents(t *testing.T, s *site) int {
	t.Helper()
	return strings.Count(s.must(0, "apply", "--json").out, "\n")
}

// breakAt starts an apply, breaks it after so many events, and returns the
// nodes that had finished well by then.
func breakAt(t *testing.T, s *site, at int, victim string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := s.command(ctx, "apply", "--json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errText bytes.Buffer
	cmd.Stderr = &errText
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var finished []string
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if node, ok := finishedNode(lines.Bytes()); ok && n <= at {
			finished = append(finished, node)
		}
		if n != at {
			continue
		}
		switch victim {
		case "engine":
			err = cmd.Process.Kill()
		case "interrupt":
			err = cmd.Process.Signal(syscall.SIGINT)
		case "runner":
			err = killRunner(s)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait() // a killed or interrupted run has no exit code to check
	return finished
}

type eventLine struct {
	Type  string `json:"type"`
	Node  string `json:"node"`
	State string `json:"state"`
}

func finishedNode(line []byte) (string, bool) {
	var e eventLine
	if json.Unmarshal(line, &e) != nil {
		return "", false
	}
	return e.Node, e.Type == "node_finished" && e.State == "ok"
}

func startedNodes(out string) []string {
	var nodes []string
	for line := range strings.Lines(out) {
		var e eventLine
		if json.Unmarshal([]byte(line), &e) == nil && e.Type == "node_started" {
			nodes = append(nodes, e.Node)
		}
	}
	return nodes
}

// processesOf lists live processes whose environment or working folder lies in
// the site, by pid with their command.
func processesOf(s *site) map[int]string {
	found := map[int]string{}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		pid, _ := strconv.Atoi(filepath.Base(p))
		cwd, _ := os.Readlink(p + "/cwd")
		env, _ := os.ReadFile(p + "/environ")
		if !strings.HasPrefix(cwd, s.dir) && !bytes.Contains(env, []byte(s.dir+"/.sotabuild/tasks")) {
			continue
		}
		stat, err := os.ReadFile(p + "/stat")
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			continue
		}
		cmd, _ := os.ReadFile(p + "/cmdline")
		found[pid] = string(bytes.ReplaceAll(cmd, []byte{0}, []byte(" ")))
	}
	return found
}

// killRunner kills the runner of the site, if one runs now.
func killRunner(s *site) error {
	for pid, cmd := range processesOf(s) {
		if strings.Contains(cmd, " runner ") {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				return err
			}
		}
	}
	return nil
}

// waitGone waits until nothing of the site runs, at most so long.
func waitGone(t *testing.T, s *site, limit time.Duration) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		left := processesOf(s)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still running after %s: %v", limit, left)
		}
		time.Sleep(20 * time.Millisecond) // polling the process table: there is nothing to wait on
	}
}

// blanked is the table of all cells without what was measured.
func blanked(t *testing.T, s *site) string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(s.must(0, "report", "--format", "csv").out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	keep := []string{"scenario", "framework", "candidate_id", "status", "sla_passed"}
	var lines []string
	for _, r := range rows[1:] {
		var cells []string
		for _, name := range keep {
			i := slices.Index(rows[0], name)
			if i < 0 {
				t.Fatalf("no column %q in %v", name, rows[0])
			}
			cells = append(cells, r[i])
		}
		lines = append(lines, strings.Join(cells, ","))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}
