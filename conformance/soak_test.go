package conformance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// soaking is how often something random is tried – SOTABUILD_SOAK instead of n –
// and its source of chance, which SOTABUILD_SEED moves on.
func soaking(n int, stream uint64) (int, *rand.Rand) {
	if v, err := strconv.Atoi(os.Getenv("SOTABUILD_SOAK")); err == nil {
		n = v
	}
	seed, _ := strconv.ParseUint(os.Getenv("SOTABUILD_SEED"), 10, 64) // none is 0
	return n, rand.New(rand.NewPCG(11+seed, stream))
}

// undisturbed is the table that an apply of pair comes to, and how many events
// it says.
func undisturbed(t *testing.T) (table string, events int) {
	t.Helper()
	quiet.Do(func() {
		whole := newSite(t, pair("none"))
		quiet.events = strings.Count(whole.must(0, "apply", "--json").out, "\n")
		quiet.table = blanked(t, whole)
	})
	return quiet.table, quiet.events
}

// quiet is what an undisturbed run came to, once a process.
var quiet struct {
	sync.Once
	table  string
	events int
}

// recovers says that after a run that was disturbed the next apply finishes it:
// none of what had finished runs again, nothing is left running or half-written,
// the store is sound, and the table is that of an undisturbed run.
func recovers(t *testing.T, s *site, finished []string, want string) {
	t.Helper()
	r := s.run("apply", "--json")
	if r.code != 0 {
		t.Fatalf("apply afterwards: exit code %d\n%s\n%s", r.code, r.out, r.err)
	}
	waitGone(t, s, time.Second)
	for _, n := range startedNodes(r.out) {
		if slices.Contains(finished, n) {
			t.Errorf("%s had finished and was run again", n)
		}
	}
	if again := s.must(0, "apply", "--json"); len(startedNodes(again.out)) > 0 {
		t.Errorf("one more apply ran %v", startedNodes(again.out))
	}
	if out := s.must(0, "cache", "verify").out; !strings.Contains(out, " 0 defects") {
		t.Errorf("cache verify:\n%s", out)
	}
	for _, folder := range []string{"tmp", "quarantine"} {
		if left, err := os.ReadDir(filepath.Join(s.dir, ".sotabuild", folder)); err != nil || len(left) > 0 {
			t.Errorf("%s holds %v, %v", folder, left, err)
		}
	}
	if got := blanked(t, s); got != want {
		t.Errorf("the final table differs\n--- got\n%s--- want\n%s", got, want)
	}
}

// interruptedBy starts an apply, does something to it after so many events, and
// returns how it ended and the nodes that had finished.
func interruptedBy(s *site, at int, strike func()) (r result, finished []string) {
	a := s.start()
	for n := 1; ; n++ {
		line := a.line()
		if line == "" {
			break
		}
		if node, ok := finishedNode([]byte(line)); ok {
			finished = append(finished, node)
		}
		if n == at {
			strike()
		}
	}
	return a.wait(), finished
}

// TestDiskFullAnywhere fills the store's disk at seeded points of an apply: it
// ends with an error of the machine that says so, and once there is room the
// next one finishes.
func TestDiskFullAnywhere(t *testing.T) {
	want, events := undisturbed(t)
	points, rng := soaking(3, 5)
	for range points {
		at := 1 + rng.IntN(events*3/4)
		t.Run(fmt.Sprintf("AtEvent%dOf%d", at, events), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, pair("none"))
			store := filepath.Join(s.dir, ".sotabuild")
			if err := os.Mkdir(store, 0o700); err != nil {
				t.Fatal(err)
			}
			mountSmall(t, store, "size=8m,mode=700")
			ballast := filepath.Join(store, "tmp", "ballast")
			r, finished := interruptedBy(s, at, func() { fill(t, ballast) })
			waitGone(t, s, 10*time.Second)
			if r.code != 0 && (r.code != 1 || !strings.Contains(r.err, "no space left") || !strings.Contains(r.err, "hint: make room")) {
				t.Errorf("exit code %d, want 1, no space left and what to do\n%s", r.code, r.err)
			}
			if err := os.Remove(ballast); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			recovers(t, s, finished, want)
		})
	}
}

// fill writes until nothing more fits.
func fill(t *testing.T, path string) {
	f, err := os.Create(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close() // what it holds is of no interest
	for _, n := range []int{1 << 16, 512, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, n))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Error(err)
		}
	}
}

// TestReadOnlyAnywhere takes the right to write new outputs from the store at
// seeded points of an apply.
func TestReadOnlyAnywhere(t *testing.T) {
	want, events := undisturbed(t)
	points, rng := soaking(3, 6)
	for range points {
		at := 1 + rng.IntN(events*3/4)
		t.Run(fmt.Sprintf("AtEvent%dOf%d", at, events), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, pair("none"))
			tmp := filepath.Join(s.dir, ".sotabuild", "tmp")
			lift := func() {}
			r, finished := interruptedBy(s, at, func() { lift = mountReadOnly(t, tmp) })
			waitGone(t, s, 10*time.Second)
			if r.code != 0 && (r.code != 1 || !strings.Contains(r.err, "read-only file system") || !strings.Contains(r.err, "mounted read-only")) {
				t.Errorf("exit code %d, want 1, a read-only file system and what to do\n%s", r.code, r.err)
			}
			lift()
			recovers(t, s, finished, want)
		})
	}
}

// TestTwoApplies starts two applies of one campaign at once: one may be told who
// holds the store, none measures what the other does, and both end in one table.
func TestTwoApplies(t *testing.T) {
	want, _ := undisturbed(t)
	points, _ := soaking(3, 7)
	for i := range points {
		t.Run(fmt.Sprint("Pair", i), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, pair("none"))
			var results [2]result
			var both sync.WaitGroup
			for i := range results {
				both.Go(func() { results[i] = s.start().wait() })
			}
			both.Wait()
			var started []string
			well := 0
			for _, r := range results {
				switch {
				case r.code == 0:
					well++
				case r.code != 4 || !strings.Contains(r.err, "in use by"):
					t.Errorf("exit code %d, want 0, or 4 and who holds the store\n%s", r.code, r.err)
				}
				started = append(started, startedNodes(r.out)...)
			}
			if well == 0 {
				t.Error("neither apply went through")
			}
			slices.Sort(started)
			if n := len(slices.Compact(slices.Clone(started))); n != len(started) {
				t.Errorf("a node ran twice: %v", started)
			}
			waitGone(t, s, time.Second)
			recovers(t, s, started, want)
		})
	}
}
