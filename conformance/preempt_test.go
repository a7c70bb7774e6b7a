package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ownCluster starts a Slurm of one test and returns its SLURM_CONF.
func ownCluster(t *testing.T, node, port string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "slurm-") // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	do := func(word string) {
		cmd := exec.Command("../.ci/start-slurm", word)
		cmd.Env = append(os.Environ(), "SLURM_TEST_DIR="+dir, "SLURM_TEST_PORT="+port, "SLURM_TEST_NODE="+node)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("start-slurm %s: %v\n%s", word, err, out)
		}
	}
	t.Cleanup(func() {
		do("stop")
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	do("start")
	return filepath.Join(dir, "etc", "slurm.conf")
}

// TestPreemptedApply: a job of a higher priority takes the nodes in the middle
// of a server's life. Apply goes on by itself with what had not finished, and
// nothing that had finished runs again.
func TestPreemptedApply(t *testing.T) {
	t.Parallel()
	there(t, "slurm")
	conf := ownCluster(t, "giveway", "16947")
	// A cell takes 10 s by its schedule: Slurm preempts within 3.
	campaign := strings.ReplaceAll(head(2, "slow"), "output_len  = 8", "output_len  = 160") +
		framework("good", map[string]any{"mode": "none", "pace_us": 200}, noSearch) +
		framework("slow", map[string]any{"mode": "none", "pace_us": 20000}, noSearch) +
		fmt.Sprintf("executor \"slurm\" {\n  options = { conf = %q, partition = \"spare\", poll = \"2s\" }\n}\n", conf)
	s := newSite(t, fake(campaign))
	a := s.start()
	a.until(`"node_finished"`, `bench.slow`, `"state":"ok"`)
	for _, node := range []string{"giveway1", "giveway2"} {
		cmd := exec.Command("sbatch", "--exclusive", "--partition=urgent", "--nodelist="+node, "--output=/dev/null")
		cmd.Env = append(os.Environ(), "SLURM_CONF="+conf)
		cmd.Stdin = strings.NewReader("#!/bin/sh\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("sbatch: %v %s", err, out)
		}
	}
	r := a.wait()
	if r.code != 0 || !strings.Contains(r.out, `"node_retry"`) || !strings.Contains(r.out, `"class":"preempted"`) {
		t.Errorf("exit code %d, want 0 after a retry of class preempted\n%s\n%s", r.code, r.out, r.err)
	}
	ok := map[string]bool{}
	for line := range strings.Lines(r.out) {
		var e eventLine
		if json.Unmarshal([]byte(line), &e) != nil {
			continue
		}
		if e.Type == "node_started" && ok[e.Node] {
			t.Errorf("%s had finished and ran again", e.Node)
		}
		ok[e.Node] = ok[e.Node] || e.Type == "node_finished" && e.State == "ok"
	}
	if out := s.must(0, "plan").out; !strings.HasPrefix(out, "Plan: nothing to run, ") {
		t.Errorf("something is left to run:\n%s", out)
	}
	cmd := exec.Command("squeue", "--noheader")
	cmd.Env = append(os.Environ(), "SLURM_CONF="+conf)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("jobs are left: %s %v", out, err)
	}
	nothingLeft(t, s)
}
