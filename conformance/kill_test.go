package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
const killPoints = 12

// victims are the ways in which a run is broken, in turn.
var victims = []string{"Engine", "Runner", "Interrupt", "InterruptTwice", "InterruptThrice", "EngineAndRunner"}

// TestKilledAnywhere breaks a run at seeded points: the engine killed, the
// runner killed, both, or Ctrl-C up to three times. Nothing finished is lost, nothing is left
// running after five seconds – or after the next apply, where both were killed –
// and the next apply ends with the same table (DESIGN 11.4, 11.7; R008, R077).
func TestKilledAnywhere(t *testing.T) {
	want, events := undisturbed(t)
	if events < 2*killPoints {
		t.Fatalf("a whole run has only %d events", events)
	}
	points, rng := soaking(killPoints, 4)
	for i := range points {
		b := &breaking{victim: victims[i%len(victims)], at: 1 + rng.IntN(events*3/4)}
		t.Run(fmt.Sprintf("%sAtEvent%dOf%d", b.victim, b.at, events), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, pair("none"))
			b.run(t, s)
			if b.victim != "EngineAndRunner" {
				waitGone(t, s, 5*time.Second)
			}
			recovers(t, s, b.finished, want)
		})
	}
}

// breaking is an apply that is broken after so many events.
type breaking struct {
	victim   string
	at       int
	finished []string // nodes that had finished well by then
}

func (b *breaking) run(t *testing.T, s *site) {
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
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	broken := false
	for n := 1; lines.Scan(); n++ {
		if node, ok := finishedNode(lines.Bytes()); ok && !broken {
			b.finished = append(b.finished, node)
		}
		if n >= b.at && !broken {
			broken = b.strike(t, s, cmd.Process)
		}
		b.again(t, lines.Text(), cmd.Process)
	}
	_ = cmd.Wait() // its exit code is looked at below
	if !broken {
		t.Fatalf("the run ended before there was something to break\n%s", errText.String())
	}
	want := map[string]int{"Engine": -1, "EngineAndRunner": -1, "Runner": 0, "Interrupt": 130, "InterruptTwice": 130, "InterruptThrice": 130}[b.victim]
	if code := cmd.ProcessState.ExitCode(); code != want && !(b.victim == "Runner" && code == 5) {
		t.Errorf("the broken run ended with %d, want %d\n%s", code, want, errText.String())
	}
}

// strike breaks the run; false when its victim is not there yet.
func (b *breaking) strike(t *testing.T, s *site, engine *os.Process) bool {
	t.Helper()
	var err error
	switch b.victim {
	case "Engine":
		err = engine.Kill()
	case "Interrupt", "InterruptTwice", "InterruptThrice":
		err = engine.Signal(syscall.SIGINT)
	case "Runner":
		return killRunner(t, s)
	case "EngineAndRunner":
		if !killRunner(t, s) {
			return false
		}
		err = engine.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

// again is the next Ctrl-C, once the engine has said that it heard the last one.
func (b *breaking) again(t *testing.T, line string, engine *os.Process) {
	t.Helper()
	drains, kills := strings.Contains(line, `"type":"draining"`), strings.Contains(line, `"type":"killing"`)
	if b.victim == "InterruptTwice" && drains || b.victim == "InterruptThrice" && (drains || kills) {
		if err := engine.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
	}
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

// killRunner kills the runner of the site; false if there is none now.
func killRunner(t *testing.T, s *site) bool {
	t.Helper()
	killed := false
	for pid, cmd := range processesOf(s) {
		if !strings.Contains(cmd, " runner ") {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			t.Fatal(err)
		}
		killed = true
	}
	return killed
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

// blanked is the table of all cells without what was measured, and who wins
// (DESIGN 11.7).
func blanked(t *testing.T, s *site) string {
	t.Helper()
	var lines []string
	for _, r := range s.rows() {
		var cells []string
		for _, name := range []string{"scenario", "framework", "candidate_id", "status", "sla_passed", "requests_ok"} {
			cells = append(cells, r.get(name))
		}
		lines = append(lines, strings.Join(cells, ","))
		if r.get("rank") == "1" {
			lines = append(lines, "winner of "+r.get("scenario")+": "+r.get("framework"))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}
