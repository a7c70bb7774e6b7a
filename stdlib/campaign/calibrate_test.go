package campaign

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/stdlib/bench/calibrate"
	"github.com/sotabuild/sotabuild/stdlib/campaign/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// TestCalibrationIsRecorded: its numbers become facts of every measurement, a
// load without a number says why, and a flow check is not calibrated.
func TestCalibrationIsRecorded(t *testing.T) {
	b, err := json.Marshal(calibrate.Result{When: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Cores: 2, Good: 5000, PerCore: 80000, Stolen: .03, Points: []calibrate.Point{
		{Offered: 5000, ReadP50: 1e-4, ReadP99: 9e-4, SendP99: 2e-3}, {Offered: 40000, Class: result.ClientLimited, Reason: "busy"}}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Calibrated(b)
	if err != nil {
		t.Fatal(err)
	}
	want := []cache.Observed{
		{Name: "client.calibrated", Value: "2026-11-30T12:00:00Z"}, {Name: "client.good_events_per_s", Value: "5000"},
		{Name: "client.events_per_s_per_core", Value: "80000"}, {Name: "client.cpu_share_at_good", Value: "0.03"},
		{Name: "client.at_5000_events_per_s", Value: "read error p50 0.100 ms, p99 0.900 ms; send lag p99 2.000 ms"},
		{Name: "client.at_40000_events_per_s", Value: "no number: client_limited: busy"},
	}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	if v, ok := GoodLoad(got); !ok || v != 5000 {
		t.Errorf("good load %v, %v", v, ok)
	}
	if _, ok := GoodLoad(nil); ok {
		t.Error("nothing recorded is no load")
	}
	c := sample.Load(t, sample.Text)
	if len(ClientCalibration(c, facts(c))) != 0 {
		t.Error("a flow check is calibrated")
	}
	c.Smoke = false
	d := Declare(c, facts(c))
	if d.Decls[0].Addr != ClientAddr {
		t.Errorf("first is %s", d.Decls[0].Addr)
	}
}

// TestPowerCapIsJudgedAtPlanTime: the same samples, by what quality.power_cap
// says; one of which it is not known does not pass.
func TestPowerCapIsJudgedAtPlanTime(t *testing.T) {
	record := func(capped string) *cache.Record {
		r := &cache.Record{Outcome: cache.Outcome{State: cache.OK}}
		if capped != "" {
			r.Observed = []cache.Observed{{Name: cappedFact, Value: capped}}
		}
		return r
	}
	for _, tc := range []struct {
		capped string
		reject bool
		want   bool
	}{{"0.5", false, true}, {"0.5", true, false}, {"0.01", true, true}, {"", true, false}, {"", false, true}} {
		s := BenchSpec{}
		s.Life.Look.PowerCap = tc.reject
		r := record(tc.capped)
		if got, why := accepted(s).Judge([]*cache.Record{r}, time.Now()); (got == r) != tc.want {
			t.Errorf("%+v: %+v, %q", tc, got, why)
		}
		if r.Outcome.State != cache.OK {
			t.Error("the sample itself was changed")
		}
	}
}
