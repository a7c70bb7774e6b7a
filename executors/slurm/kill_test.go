package slurm

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sotabuild/sotabuild/executors/slurm/job"
)

// TestJobThatStopsSlowlyIsNotKilled: on a busy node a job needs longer for its
// stop than was reckoned with. Killed in the middle of it, it would leave alive
// what its program has started. Only one that gives no sign of life is killed.
func TestJobThatStopsSlowlyIsNotKilled(t *testing.T) {
	for name, beats := range map[string]bool{"beating": true, "silent": false} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, nil)
			f.says("RUNNING", "None", "0:0")
			p := place(t.TempDir())
			beat := filepath.Join(p.folder(), "beat")
			if err := os.Mkdir(p.folder(), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(beat, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { // 40 s of its clock
				go func() {
					for range 20 {
						time.Sleep(job.BeatEvery)
						if now := time.Now(); beats {
							if err := os.Chtimes(beat, now, now); err != nil {
								t.Error(err)
							}
						}
					}
					f.says("COMPLETED", "None", "0:0")
				}()
				known, err := f.e.kill(context.Background(), p, "17", false, 5*time.Second)
				if !known || err != nil {
					t.Errorf("known %t, %v", known, err)
				}
			})
			told := f.calls("scancel")
			has := func(flag string) bool {
				return slices.ContainsFunc(told, func(line string) bool { return strings.Contains(line, flag) })
			}
			if !has("--signal=TERM") || has("--signal=KILL") == beats {
				t.Errorf("Slurm was told %q", told)
			}
		})
	}
}
