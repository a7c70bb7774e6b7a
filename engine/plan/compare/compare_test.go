package compare

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
)

func record(serial uint64, driver string, size int64) *cache.Record {
	var b key.Builder
	b.Text("env.driver", "", driver)
	b.Int("flag", "threads", 4)
	m := b.Finish()
	return &cache.Record{Serial: serial, Node: "bench.a", Key: m.Key(), Manifest: m.Text(), Outcome: cache.Outcome{State: cache.OK},
		Outputs:  []cache.Output{{Name: "row", Digest: key.Sum([]byte(driver)), Size: size}},
		Time:     cache.Span{Started: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Seconds: 2.5},
		Origin:   cache.Origin{Host: "node1", Tool: "1.0", Attempt: 1},
		Observed: []cache.Observed{{Name: "env.kernel", Value: "6.1"}},
	}
}

func TestRecords(t *testing.T) {
	a, b := record(3, "580", 10), record(9, "590", 12)
	b.Outcome = cache.Outcome{State: cache.Rejected, Class: "throttled", Reason: "12 % of the time"}
	b.Observed = append(b.Observed, cache.Observed{Name: "env.ecc", Value: "on"})
	b.Origin.Host = "node2"
	d, err := Records(a, b)
	if err != nil {
		t.Fatal(err)
	}
	want := "3  bench.a  2026-11-30T12:00:00Z  " + a.Key.Short() + "  ok in 2.5 s\n" +
		"9  bench.a  2026-11-30T12:00:00Z  " + b.Key.Short() + "  rejected in 2.5 s  throttled: 12 % of the time\n" +
		"facts\n  env.driver 580 → 590\n" +
		"outputs\n  row: sha256:" + a.Outputs[0].Digest.Short() + " (10 bytes) → sha256:" + b.Outputs[0].Digest.Short() + " (12 bytes)\n" +
		"observed\n  env.ecc: (none) → on\n" +
		"origin\n  host: node1 → node2\n"
	if diff := cmp.Diff(want, d.Text()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	d.A, d.B = nil, nil
	got, err := json.Marshal(d.Document())
	if err != nil {
		t.Fatal(err)
	}
	want = `{"v":1,"a":null,"b":null,"facts":[{"name":"env.driver","old":{"type":"s","value":"580"},"new":{"type":"s","value":"590"}}],` +
		`"outputs":[{"name":"row","old":"sha256:` + a.Outputs[0].Digest.Short() + ` (10 bytes)","new":"sha256:` + b.Outputs[0].Digest.Short() + ` (12 bytes)"}],` +
		`"observed":[{"name":"env.ecc","old":null,"new":"on"}],"origin":[{"name":"host","old":"node1","new":"node2"}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("as JSON (-want +got):\n%s", diff)
	}
}

func TestTwoSamplesOfOneKey(t *testing.T) {
	d, err := Records(record(1, "580", 1), record(2, "580", 1))
	if err != nil || len(d.Facts)+len(d.Outputs)+len(d.Seen)+len(d.Origin) > 0 {
		t.Errorf("%+v, %v: nothing differs", d, err)
	}
}

func TestOtherScheme(t *testing.T) {
	a := record(1, "580", 1)
	if _, err := Records(a, &cache.Record{Manifest: "scheme i \"9\"\n"}); err == nil {
		t.Error("records of two schemes were compared")
	}
}
