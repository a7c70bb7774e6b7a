package conformance

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAnApplyThatNobodyReadsDrains: the reader of an apply's output goes in the
// middle of a cell, as tee does at a Ctrl-C and as head does; or the terminal
// goes. The cell is measured and recorded, no other begins, and the next apply
// runs the rest.
func TestAnApplyThatNobodyReadsDrains(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal syscall.Signal // beside the end of the output; 0 is none
		keeps  bool           // the output is read to its end
	}{
		"Head": {}, "Tee": {signal: syscall.SIGINT}, "Terminal": {signal: syscall.SIGHUP}, "Told": {signal: syscall.SIGHUP, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			campaign := strings.Replace(head(1, "slow"), "concurrency = [2]", "concurrency = [1, 2, 4]", 1) +
				framework("good", map[string]any{"mode": "none", "pace_us": 30000}, noSearch) +
				framework("slow", map[string]any{"mode": "none", "pace_us": 25000}, noSearch)
			s := newSite(t, fake(campaign))
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := s.command(ctx, "apply")
			cmd.Stdout, cmd.Stderr = w, w
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(r)
			for lines.Scan() && !strings.HasPrefix(lines.Text(), "▶ bench.") {
			}
			_, logs, _ := strings.Cut(lines.Text(), "logs in ")
			waitFor(t, "the first cell", func() bool {
				begun, err := filepath.Glob(filepath.Join(s.dir, ".sotabuild/tasks", filepath.Base(filepath.Dir(logs)), "logs/[0-9a-f]*.log"))
				return err == nil && len(begun) > 0
			})
			if !c.keeps {
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if c.signal != 0 {
				if err := cmd.Process.Signal(c.signal); err != nil {
					t.Fatal(err)
				}
			}
			for c.keeps && lines.Scan() {
			}
			err = cmd.Wait()
			if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 130 {
				t.Errorf("%v, want exit code 130", err)
			}
			waitGone(t, s, time.Second)
			cached, left := 0, 0
			for _, verdict := range kinds(s.plan(), "bench") {
				if verdict == "cached" {
					cached++
				} else {
					left++
				}
			}
			if cached == 0 || left == 0 {
				t.Errorf("%d cells are kept and %d are left, want some of both", cached, left)
			}
			s.must(0, "apply")
		})
	}
}
