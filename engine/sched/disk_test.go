package sched_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/cache/durable"
	"github.com/sotabuild/sotabuild/engine/event"
)

// soak is how often something random is tried: n, or SOTABUILD_SOAK if more.
func soak(n int) int {
	if v, err := strconv.Atoi(os.Getenv("SOTABUILD_SOAK")); err == nil {
		return max(n, v)
	}
	return n
}

// reference is what an undisturbed run of crashing comes to.
func reference(t *testing.T) (want []string) {
	synctest.Test(t, func(t *testing.T) {
		w := crashing(t)
		w.must()
		want = w.finals()
	})
	slices.Sort(want)
	return want
}

// finished adds the nodes that the last apply finished well, and says which of
// those of earlier ones it ran again.
func (w *world) finished(done map[string]bool) {
	w.t.Helper()
	for _, e := range w.events {
		if e.Type == event.NodeStarted && done[e.Node] {
			w.t.Errorf("%s had finished and runs again\n%s", e.Node, w.transcript())
		}
	}
	for _, e := range w.events {
		if e.Type == event.NodeFinished && e.State == "ok" {
			done[e.Node] = true
		}
	}
}

// TestApplyOnANetworkDisk applies again and again on a store whose file system
// fails in seeded ways – renames that fail, that were done although they say an
// error, files that are not seen at once – with the wall clock put back and
// forward by up to a year between the applies. No finished node runs again, the
// results are those of a quiet run, and nothing is left.
func TestApplyOnANetworkDisk(t *testing.T) {
	want := reference(t)
	faults := 0
	for seed := range uint64(soak(30)) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			calm, hidden := false, map[string]int{}
			var mu sync.Mutex // of r, hidden and faults
			disk := durable.Disk{
				Rename: func(from, to string) error {
					mu.Lock()
					defer mu.Unlock()
					what := r.IntN(8)
					if calm || what > 3 {
						return os.Rename(from, to)
					}
					faults++
					switch what {
					case 0:
						return syscall.EIO
					case 1:
						return errors.Join(os.Rename(from, to), syscall.ESTALE)
					case 2:
						hidden[to] = 1 + r.IntN(3)
					case 3:
						return syscall.ESTALE
					}
					return os.Rename(from, to)
				},
				See: func(path string) error {
					mu.Lock()
					defer mu.Unlock()
					if calm || hidden[path] == 0 {
						return nil
					}
					hidden[path]--
					return syscall.ENOENT
				},
			}
			w := crashing(t)
			dir := filepath.Join(t.TempDir(), "store")
			done := map[string]bool{}
			for try := 0; ; try++ {
				calm = try > 40
				w.shift = time.Duration(r.Int64N(int64(2*365*24*time.Hour))) - 365*24*time.Hour
				l, err := cache.OpenLocal(dir, cache.Options{Command: "test", Disk: disk, Now: w.now})
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				w.store, w.interrupt = l, make(chan struct{}, 3)
				sum, err := w.apply()
				w.finished(done)
				if err == nil && sum.Failed+sum.Blocked+sum.Cancelled == 0 {
					break
				}
				if err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ESTALE) && !errors.Is(err, cache.ErrMissing) || calm {
					t.Fatalf("seed %d: apply said %v, %+v\n%s", seed, err, sum, w.transcript())
				}
				if n := w.machine.alive(); n != 0 {
					t.Errorf("seed %d: %d tasks left running", seed, n)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
			calm = true
			got := w.finals()
			slices.Sort(got)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("seed %d: results (-want +got):\n%s", seed, d)
			}
			w.noneTwice()
			if lost := w.lostSteps(); len(lost) > 0 {
				t.Errorf("seed %d: finished and not recorded: %q", seed, lost)
			}
			l := w.store.(*cache.Local)
			if len(l.Intents()) != 0 || len(w.machine.tasks) != 0 {
				t.Errorf("seed %d: left %v, %d tasks not reaped", seed, l.Intents(), len(w.machine.tasks))
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if rep, err := cache.Verify(dir); err != nil || len(rep.Defects) > 0 {
				t.Errorf("seed %d: %+v, %v", seed, rep, err)
			}
			if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) > 0 {
				t.Errorf("seed %d: left in tmp: %v, %v", seed, left, err)
			}
		})
		if t.Failed() {
			t.Fatal(fmt.Sprint("seed ", seed))
		}
	}
	if faults < 100 {
		t.Errorf("%d faults were played: the test no longer tests it", faults)
	}
}
