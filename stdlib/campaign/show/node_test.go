package show

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// TestNodeOutputs: a row stands first with its numbers in front, documents are
// indented, lines of JSON and texts are left as they are, and every output ends
// its line.
func TestNodeOutputs(t *testing.T) {
	store, err := cache.OpenLocal(filepath.Join(t.TempDir(), "store"), cache.Options{Command: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	record := func(outputs ...string) *cache.Record {
		rec := &cache.Record{Node: "bench.one"}
		for i := 0; i < len(outputs); i += 2 {
			d, size, err := store.Object(strings.NewReader(outputs[i+1]))
			if err != nil {
				t.Fatal(err)
			}
			rec.Outputs = append(rec.Outputs, cache.Output{Name: outputs[i], Digest: d, Size: size})
		}
		return rec
	}
	row, err := json.Marshal(result.Row{Version: result.RowVersion, Status: result.OK, Workload: result.Workload{NumPrompts: 4}, Requests: result.Requests{OK: 3, Failed: 1},
		Time:    result.Times{Started: time.Date(2026, 11, 2, 3, 4, 5, 0, time.UTC), Seconds: 2},
		Metrics: []result.Metric{{ID: "ttft/send:p50", Value: 0.25, Unit: result.Seconds, N: 3}, {ID: "request_throughput", Value: 1.5, N: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	requests := "{\"id\":0}\n{\"id\":1}"
	for _, tc := range []struct {
		name string
		rec  *cache.Record
		want []string
	}{
		{"a_decision", record("decision", `{"stop":true,"why":"a < b","n":1.50}`), []string{"{", `  "stop": true,`, `  "why": "a < b",`, `  "n": 1.50`, "}"}},
		{"a_text", record("text", "usage: x"), []string{"usage: x"}},
		{"nothing", record("text", ""), nil},
		{"a_number", record("version", "12"), []string{"12"}},
	} {
		got, err := Node(store, tc.rec)
		want := ""
		for _, l := range tc.want {
			want += l + "\n"
		}
		if d := cmp.Diff(want, string(got)); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", tc.name, err, d)
		}
	}
	got, err := Node(store, record("requests", requests, "row", string(row), "seen", `{"gpus":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	text := string(got)
	if want := "ok; 3 of 4 requests succeeded; started 2026-11-02 03:04:05 UTC, took 2.000 s\n" +
		"Req/s          1.500  request_throughput\nTTFT p50 (ms)  250.0  ttft/send:p50\n--- row, "; !strings.HasPrefix(text, want) {
		t.Errorf("begins with\n%.300s\nwant\n%s", text, want)
	}
	if a, b, c := strings.Index(text, "--- row"), strings.Index(text, "--- seen"), strings.Index(text, "--- requests"); a < 0 || a > b || b > c || !strings.HasSuffix(text, requests+"\n") {
		t.Errorf("the order of outputs:\n%s", text)
	}
	failed, err := json.Marshal(result.Row{Version: result.RowVersion, Status: result.OOM, Class: "oom", Reason: "out of memory"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Node(store, record("row", string(failed))); err != nil || !strings.HasPrefix(string(got), "oom: out of memory\n{\n") {
		t.Errorf("a failed row: %v\n%s", err, got)
	}
	if _, err := Node(store, record("row", "not JSON")); err == nil {
		t.Error("a row that is none is shown")
	}
}
