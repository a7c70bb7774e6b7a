package gpu

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

// TestFiveServerLives reads a real file of an H200. Energy, busy samples and
// power-capped ones were counted by another program.
func TestFiveServerLives(t *testing.T) {
	f, err := os.Open("testdata/nvidia-smi_500ms.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := Read(f)
	if err != nil || len(all) != 1175 {
		t.Fatalf("%d samples, error %v", len(all), err)
	}
	first, last := all[0].At, all[len(all)-1].At
	s := Summarize(all, first, last)
	near := func(name string, got *float64, want float64) {
		if got == nil || math.Abs(*got-want) > 1e-6*math.Max(want, 1e-6) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	near("energy", s.Joules, 88793.362215)
	near("power", s.Watts, 88793.362215/587.452)
	near("throttled", s.Throttled, 0)
	near("capped", s.Capped, 62./131)
	near("clock", s.SMClock, 1831.9465648854962)
	near("memory", s.MemoryMiB, 133517)
	if s.GPUs != 1 || math.Abs(s.Coverage-1) > 1e-9 {
		t.Errorf("summary is %+v", s)
	}
	if j, ok := s.PerToken(last.Sub(first), 100000); !ok || math.Abs(j-.8879336) > 1e-6 {
		t.Errorf("%v J a token, %v", j, ok)
	}
	// Half of the asked time has no samples: no energy of a token.
	if s := Summarize(all, first, last.Add(last.Sub(first))); math.Abs(s.Coverage-.5) > 1e-9 {
		t.Errorf("coverage is %v", s.Coverage)
	} else if _, ok := s.PerToken(time.Minute, 1); ok {
		t.Error("half of the time is enough for an energy")
	}
}

const two = `timestamp, index, power.draw [W], utilization.gpu [%], clocks_event_reasons.active
2026/01/01 00:00:00.000, 0, 100.00 W, 90 %, 0x0000000000000040
2026/01/01 00:00:00.000, 1, 300.00 W, 90 %, 0x0000000000000000
2026/01/01 00:00:01.000, 0, 200.00 W, 5 %, 0x0000000000000040
2026/01/01 00:00:01.000, 1, [N/A], 90 %, [N/A]
2026/01/01 00:00:02.000, 0, 200.00 W, 90 %, 0x0000000000000004
2026/01/01 00:00:02.000, 1, 300.00 W, 90 %, 0x0000000000000000
`

// TestTwoGPUsByHand: GPU 0 has 150 + 200 J in 2 s, GPU 1 no known interval;
// one of four busy samples with known reasons is throttled.
func TestTwoGPUsByHand(t *testing.T) {
	all, err := Read(strings.NewReader(two))
	if err != nil {
		t.Fatal(err)
	}
	s := Summarize(all, all[0].At, all[0].At.Add(2*time.Second))
	if *s.Joules != 350 || *s.Throttled != .25 || *s.Capped != .25 || s.Coverage != .5 || s.GPUs != 2 || s.SMClock != nil || s.MemoryMiB != nil {
		t.Errorf("summary is %+v", s)
	}
}

func TestBadFiles(t *testing.T) {
	for want, text := range map[string]string{
		"header":              "",
		"no column timestamp": "a, b\n",
		"line 2":              "timestamp, power.draw [W]\nyesterday, 3 W\n",
		"power.draw is":       "timestamp, power.draw [W]\n2026/01/01 00:00:00.000, much\n",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
