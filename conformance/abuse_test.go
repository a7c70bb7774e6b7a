package conformance

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// applying is an apply that runs while a test does something to it.
type applying struct {
	t    *testing.T
	s    *site
	wait func() result
	line func() string // the next event; "" at the end
	proc *os.Process
}

// start begins an apply with --json and more arguments.
func (s *site) start(more ...string) *applying {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	cmd := s.command(ctx, append([]string{"apply", "--json"}, more...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	var errText strings.Builder
	cmd.Stderr = &errText
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	var all strings.Builder
	a := &applying{t: s.t, s: s, proc: cmd.Process}
	a.line = func() string {
		if !lines.Scan() {
			return ""
		}
		all.WriteString(lines.Text() + "\n")
		return lines.Text()
	}
	a.wait = func() result {
		defer cancel()
		for a.line() != "" {
		}
		_ = cmd.Wait() // the exit code says it
		return result{code: cmd.ProcessState.ExitCode(), out: all.String(), err: errText.String()}
	}
	return a
}

// until reads events up to one that holds all the texts.
func (a *applying) until(texts ...string) {
	a.t.Helper()
	for {
		line := a.line()
		if line == "" {
			r := a.wait()
			a.t.Fatalf("no event holds %q\n%s\n%s", texts, r.out, r.err)
		}
		found := true
		for _, t := range texts {
			found = found && strings.Contains(line, t)
		}
		if found {
			return
		}
	}
}

// ownProgram is a site with a copy of the server of its own, at path.
func ownProgram(t *testing.T, campaign string) (s *site, path string) {
	t.Helper()
	s = newSite(t, nil)
	path = filepath.Join(s.dir, "server")
	copyFile(t, filepath.Join(bin, "badserve"), path)
	for name, text := range fake(strings.ReplaceAll(campaign, filepath.Join(bin, "badserve"), path)) {
		s.write(name, text)
	}
	return s, path
}

func copyFile(t *testing.T, from, to string, more ...byte) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	// By rename: a program that runs cannot be written.
	if err := os.WriteFile(to+".new", append(b, more...), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(to+".new", to); err != nil {
		t.Fatal(err)
	}
}

// A cell of slow takes more than two seconds by its schedule: what happens to it
// after its task has started happens before its end.

// TestProgramReplacedWhileMeasured: a number that another program may have
// given is recorded for neither. With the old program back, nothing of that
// cell is cached (DESIGN 4).
func TestProgramReplacedWhileMeasured(t *testing.T) {
	t.Parallel()
	s, path := ownProgram(t, head(1, "slow")+
		framework("good", map[string]any{"pace_us": 200}, noSearch)+
		framework("slow", map[string]any{"pace_us": 100000}, noSearch))
	a := s.start()
	a.until(`"task_started"`, `bench.slow`)
	copyFile(t, filepath.Join(bin, "badserve"), path, []byte("another build")...)
	r := a.wait()
	if r.code != 5 || !strings.Contains(r.err, "changed") || !strings.Contains(r.err, path) {
		t.Errorf("exit code %d, want 5 and the program that changed\n%s", r.code, r.err)
	}
	if rows := s.rows(); len(rows) != 0 {
		t.Errorf("rows of a program that is not there any more: %v", rows)
	}
	copyFile(t, filepath.Join(bin, "badserve"), path)
	p := s.plan()
	if got := p.node(t, `bench.good["baseline"].chat.c2`); got.Verdict != "cached" {
		t.Errorf("what was measured before is %s: %s", got.Verdict, got.Reason)
	}
	if got := p.node(t, `bench.slow["baseline"].chat.c2`); got.Verdict == "cached" {
		t.Errorf("what was measured with another program is %s: %s", got.Verdict, got.Reason)
	}
	if r := s.must(0, "apply"); !strings.Contains(r.out, "✓ bench.slow") || strings.Contains(r.out, "✓ bench.good") {
		t.Errorf("an apply with the old program back:\n%s", r.out)
	}
}

// TestModelChangedWhileMeasured is the same for the weights.
func TestModelChangedWhileMeasured(t *testing.T) {
	t.Parallel()
	s, _ := ownProgram(t, head(1, "slow")+
		framework("good", map[string]any{"pace_us": 200}, noSearch)+
		framework("slow", map[string]any{"pace_us": 100000}, noSearch))
	a := s.start()
	a.until(`"task_started"`, `bench.slow`)
	s.write("model/weights.bin", "other weights")
	r := a.wait()
	if r.code != 5 || !strings.Contains(r.err, "changed") || !strings.Contains(r.err, filepath.Join(s.dir, "model")) {
		t.Errorf("exit code %d, want 5 and the model that changed\n%s", r.code, r.err)
	}
	if err := os.Remove(filepath.Join(s.dir, "model", "weights.bin")); err != nil {
		t.Fatal(err)
	}
	if got := s.plan().node(t, `bench.slow["baseline"].chat.c2`); got.Verdict == "cached" {
		t.Errorf("what was measured with other weights is %s: %s", got.Verdict, got.Reason)
	}
}

// TestCampaignEditedWhileApplied: an apply runs what it read. The edit is the
// next plan's business.
func TestCampaignEditedWhileApplied(t *testing.T) {
	t.Parallel()
	s := newSite(t, fake(head(1, "slow")+
		framework("good", map[string]any{"pace_us": 200}, noSearch)+
		framework("slow", map[string]any{"pace_us": 30000}, noSearch)))
	a := s.start()
	a.until(`"task_started"`, `bench.good`)
	s.edit("campaign.hcl", "pace_us = 30000", "pace_us = 20000")
	if r := a.wait(); r.code != 0 {
		t.Fatalf("exit code %d\n%s", r.code, r.err)
	}
	verdicts := s.plan().verdicts()
	if len(verdicts) == 0 {
		t.Error("the edit is not seen")
	}
	for node := range verdicts {
		if strings.Contains(node, ".good") {
			t.Errorf("%s is stale after an edit of the other framework", node)
		}
	}
	s.edit("campaign.hcl", "pace_us = 20000", "pace_us = 30000")
	if v := s.plan().verdicts(); len(v) != 0 {
		t.Errorf("what was applied is not what was read: %v", v)
	}
}

// TestStoreDeletedWhileApplied: whoever removes the store's folder during an
// apply gets an error of the machine, not a success without results.
func TestStoreDeletedWhileApplied(t *testing.T) {
	t.Parallel()
	s := newSite(t, fake(head(1, "slow")+
		framework("good", map[string]any{"pace_us": 200}, noSearch)+
		framework("slow", map[string]any{"pace_us": 100000}, noSearch)))
	a := s.start()
	a.until(`"task_started"`, `bench.slow`)
	// The task writes while its folder is emptied; a person would repeat rm, too.
	err := os.RemoveAll(filepath.Join(s.dir, ".sotabuild"))
	for try := 0; err != nil && try < 1000; try++ {
		err = os.RemoveAll(filepath.Join(s.dir, ".sotabuild"))
	}
	if err != nil {
		t.Fatal(err)
	}
	r := a.wait()
	waitGone(t, s, 10*time.Second)
	if r.code == 0 {
		t.Errorf("exit code 0 although the store is gone\n%s", r.err)
	}
	if r := s.must(0, "apply"); !strings.Contains(r.out, "✓ bench.good") || !strings.Contains(r.out, "✓ bench.slow") {
		t.Errorf("an apply after it:\n%s", r.out)
	}
}

// TestFullDisk applies on a file system that fills up: an error of the machine
// that says so, nothing left running, and no half result once there is room.
func TestFullDisk(t *testing.T) {
	s := newSite(t, pair("none"))
	disk := t.TempDir()
	mountSmall(t, disk, "size=300k")
	r := s.run("--store", filepath.Join(disk, "store"), "apply")
	waitGone(t, s, 10*time.Second)
	if r.code != 1 || !strings.Contains(r.err, "no space left") {
		t.Errorf("exit code %d, want 1 and no space left\n%s\n%s", r.code, r.out, r.err)
	}
	mountSmall(t, disk, "remount,size=64m")
	r = s.must(0, "--store", filepath.Join(disk, "store"), "apply")
	r = s.must(0, "--store", filepath.Join(disk, "store"), "apply")
	if !strings.Contains(r.out, "Applied: 0 nodes run") {
		t.Errorf("the second apply with room:\n%s", r.out)
	}
}

// TestReadOnlyFolder: reading commands work in a folder that cannot be written,
// and apply says by its path what it cannot write.
func TestReadOnlyFolder(t *testing.T) {
	s := &site{t, t.TempDir()}
	mountSmall(t, s.dir, "size=16m")
	for name, text := range pair("none") {
		s.write(name, text)
	}
	mountSmall(t, s.dir, "remount,ro")
	for _, command := range []string{"validate", "plan", "show"} {
		if r := s.must(0, command); !strings.HasPrefix(r.err, "warning:") && r.err != "" {
			t.Errorf("%s complains:\n%s", command, r.err)
		}
	}
	if r := s.must(1, "apply"); !strings.Contains(r.err, filepath.Join(s.dir, ".sotabuild")) || !strings.Contains(r.err, "read-only") {
		t.Errorf("apply does not say what it cannot write:\n%s", r.err)
	}
}
