package executor

import (
	"os"
	"strconv"
	"testing"
)

// TestEnginesKilledAnywhere kills SOTABUILD_SOAK engines, shared among the
// executors; without it, a few.
func TestEnginesKilledAnywhere(t *testing.T) {
	kills := 4 * len(fixtures)
	if n, err := strconv.Atoi(os.Getenv("SOTABUILD_SOAK")); err == nil {
		kills = n
	}
	seed, _ := strconv.ParseUint(os.Getenv("SOTABUILD_SEED"), 10, 64) // none is 0
	var here []Fixture
	for _, f := range fixtures {
		if f.Missing() == "" { // its own test fails where it is required
			here = append(here, f)
		}
	}
	for i, f := range here {
		share := kills / len(here)
		if i < kills%len(here) {
			share++
		}
		t.Run(f.Name, func(t *testing.T) {
			if f.Name != "local" && f.Name != "slurm" {
				f.Image = scratch(t)
			}
			ran, broken := Soak(t, f, share, seed)
			t.Logf("%d engines killed, or some more: the programs of %d tasks had run, of which %d were broken off with their engine; 0 ran twice, 0 finished ones unknown, nothing was left, unless it failed", share, ran, broken)
			if ran == 0 {
				t.Error("no task ever ran: the kills come too early to show anything")
			}
		})
	}
}
