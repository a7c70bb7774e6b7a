package show

import (
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/campaign/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
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

// TestABusyCalibrationIsSaidBelowTheTable, and a good one in the report alone.
func TestABusyCalibrationIsSaidBelowTheTable(t *testing.T) {
	for good, doubts := range map[string]int{"0": 1, "20000": 0} {
		c := sample.Load(t, sample.Text)
		f := facts(c)
		f.Env.Recorded = []cache.Observed{{Name: "client.good_events_per_s", Value: good}}
		d := campaign.Declare(c, f)
		g, problems := compile.Build(d.Decls, f.Env)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		p := &prepare.Prepared{Outline: prepare.Outline{Graph: g}, Campaign: c, Facts: f, Declared: d}
		v, err := View(p, empty(t), "test", time.Unix(0, 0), time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		if table := v.Table(0); len(v.Doubts) != doubts || strings.Contains(table, "Calibrate again") != (doubts > 0) || !strings.Contains(strings.Join(v.Notes, "\n"), "was calibrated") {
			t.Errorf("good up to %s: doubts %q, notes %q, table\n%s", good, v.Doubts, v.Notes, table)
		}
	}
}
