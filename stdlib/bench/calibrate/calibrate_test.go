package calibrate

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/simserve"
)

// TestMain lets this test program be the simserve that Run starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "simserve" {
		os.Exit(simserve.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// TestErrorsByHand: reads 1 and 3 ms after the writes.
func TestErrorsByHand(t *testing.T) {
	at := time.Unix(100, 0)
	rep := bench.Report{Row: result.Row{Time: result.Times{Started: at}}, Reads: [][]time.Duration{{5e6, 9e6}, {1}}}
	var p Point
	p.errors(rep, [][]int64{{at.UnixNano() + 4e6, at.UnixNano() + 6e6}, {1, 2}})
	if p.Events != 2 || math.Abs(p.ReadP99-.003) > 1e-12 || math.Abs(p.ReadP50-.003) > 1e-12 {
		t.Errorf("%+v; a request whose writes and reads differ in number is left out", p)
	}
}

// TestRealServerIsCompared measures one small load against a real process: no
// event can be read before it was written.
func TestRealServerIsCompared(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := measure(t.Context(), self, Step{4, 10 * time.Millisecond}, 300*time.Millisecond, t.TempDir())
	if err != nil || p.Class == "" && p.Events != 120 {
		t.Fatalf("%+v, error %v", p, err)
	}
	// A microsecond allows for the two clocks.
	if p.Class == "" && (p.ReadP50 < -1e-6 || p.ReadP99 < p.ReadP50 || p.ClientCPU <= 0 || p.ServerCPU <= 0 || p.Offered != 400) {
		t.Errorf("%+v", p)
	}
}

func TestResultIsKept(t *testing.T) {
	r := Result{Cores: 2, Good: 1000, PerCore: 50000, Points: []Point{{Step: Step{20, 20e6}, Offered: 1000, ReadP99: .0005, Events: 9, ClientCPU: 2e-5}, {Class: result.Stalled, Reason: "silence"}}}
	path := filepath.Join(t.TempDir(), "c.json")
	if err := r.Write(path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(b), `"good_events_per_s": 1000`) {
		t.Errorf("%s, %v", b, err)
	}
	if s := r.Table(); !strings.Contains(s, "up to 1000 events/s") || !strings.Contains(s, "no number: stalled: silence") {
		t.Error(s)
	}
	if _, _, err := start(context.Background(), "/nonexistent"); err == nil {
		t.Error("a program that is not there starts")
	}
}
