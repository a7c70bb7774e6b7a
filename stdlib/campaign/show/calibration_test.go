package show

import (
	"strings"
	"testing"
)

// TestWhatACalibrationIsWorth: a client that was late at the lightest load is no
// bound of zero events, but a machine that was busy.
func TestWhatACalibrationIsWorth(t *testing.T) {
	for _, c := range []struct {
		good  float64
		above int
		want  string
		not   string
	}{
		{20000, 0, "below 1 ms up to 20000 events/s.", "row"},
		{20000, 1, "1 row with more output tokens a second than that may show", "--replace"},
		{0, 18, "busy. Latencies may be late by more than that in 18 rows. Calibrate again when it is quiet: `sotabuild apply --replace calibrate.client`.", "0 events/s"},
	} {
		if got := calibrationNote(c.good, c.above); !strings.Contains(got, c.want) || strings.Contains(strings.ReplaceAll(got, "20000 events/s", ""), c.not) {
			t.Errorf("good up to %v, %d above: %q, want %q and not %q", c.good, c.above, got, c.want, c.not)
		}
	}
}
