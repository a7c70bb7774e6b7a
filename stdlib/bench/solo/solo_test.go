package solo

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/imports"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/simserve"
	"github.com/sotabuild/sotabuild/stdlib/stats"
)

const ms = time.Millisecond

func sim(t *testing.T, c simserve.Config) string {
	t.Helper()
	c.Model = "sim"
	h, err := simserve.Handler(c)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// options asks for ten short random prompts. The machine may be crowded: lag is
// judged elsewhere.
func options(url string) Options {
	o := Options{URL: url, API: bench.Completions, Set: Set{Name: "random", Prompts: 10, In: 16, Out: 4},
		Load: bench.Load{Arrival: bench.Inf, Warmup: 3}, Rules: bench.Rules{MinSuccess: 1, IgnoreEOS: true, MaxSendLag: time.Hour}, Look: bench.Look{Metrics: "/metrics"}}
	o.Set.Ids.Lo = 100
	return o
}

// quietCPU hides the client's CPU share, which a crowded machine makes a verdict
// of.
func quietCPU() bench.Host {
	h := bench.ThisHost()
	h.CPU = nil
	return h
}

func TestRunWritesWhatItFound(t *testing.T) {
	o := options(sim(t, simserve.Config{Prefill: 5 * ms, Step: ms, Engine: simserve.Engine{CacheBlock: 4}}))
	o.Out = filepath.Join(t.TempDir(), "results")
	out, err := Run(t.Context(), quietCPU(), o)
	if err != nil || out.Row.Status != result.OK || out.Row.Requests.OK != 10 || out.Row.Subject.Model != "sim" {
		t.Fatalf("%+v, error %v", out.Row, err)
	}
	// The nonce keeps warm-up prompts and a second run apart from this one.
	again, err := Run(t.Context(), quietCPU(), o)
	if err != nil || again.Row.Facts.CacheHitShare == nil || *again.Row.Facts.CacheHitShare != 0 || again.Dataset == out.Dataset {
		t.Errorf("second run: cached share %v, error %v", again.Row.Facts.CacheHitShare, err)
	}
	if v := out.Server; v == nil || v.TTFTMean == nil || *v.TTFTMean < .005 || v.OverTTFT == nil || v.CachedShare == nil {
		t.Errorf("the server's view is %+v", out.Server)
	}
	row, err := bench.ReadRow(filepath.Join(o.Out, bench.RowFile))
	if err != nil || row.Workload.Dataset != again.Dataset || row.Validate() != nil {
		t.Errorf("row comes back as %+v, error %v", row, err)
	}
	b, err := os.ReadFile(filepath.Join(o.Out, "vllm.json"))
	if err != nil {
		t.Fatal(err)
	}
	if runs, err := imports.Read(b); err != nil || runs[0].Tool != "vllm" || runs[0].Requests.OK != 10 {
		t.Errorf("vLLM's form reads as %+v, error %v", runs, err)
	}
	for _, name := range []string{"report.html", "server.json", "prompts.jsonl", bench.RequestsFile} {
		if info, err := os.Stat(filepath.Join(o.Out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if table := out.Table(); !strings.Contains(table, "10 requests ok, 0 failed") || !strings.Contains(table, "needs 100 samples") {
		t.Errorf("table is\n%s", table)
	}
}

// TestTextIsAsLongAsAsked lets the server count bytes; each prompt is confirmed
// by the usage of its answer.
func TestTextIsAsLongAsAsked(t *testing.T) {
	o := options(sim(t, simserve.Config{Prefill: ms}))
	o.API, o.Set.Prompts, o.Set.In = bench.Chat, 3, 40
	out, err := Run(t.Context(), quietCPU(), o)
	if err != nil || out.Row.Status != result.OK || out.Row.Requests.Input != 120 {
		t.Errorf("%+v, error %v", out.Row, err)
	}
}

// TestIdsThatTheServerDoesNotHave: what to write is said where the range of ids
// was a guess, and not where the person gave it or the server told it.
func TestIdsThatTheServerDoesNotHave(t *testing.T) {
	for name, c := range map[string]struct {
		list string
		high int
		want string
	}{
		"guessed": {`{"data":[{"id":"m"}]}`, 0, "token ids from 100 to 9999 were drawn: write --vocab LO:HI, or --dataset-name random-text"},
		"told":    {`{"data":[{"id":"m","meta":{"n_vocab":512}}]}`, 0, ""},
		"given":   {`{"data":[{"id":"m"}]}`, 300, ""},
	} {
		web := httptest.NewServer(refusingHandler(c.list))
		t.Cleanup(web.Close)
		o := options(web.URL)
		o.Set.Ids.Hi = c.high
		out, err := Run(t.Context(), quietCPU(), o)
		if err != nil || out.Row.Class != result.HTTPStatus {
			t.Errorf("%s: %+v, error %v", name, out.Row, err)
		}
		if helped := strings.Contains(out.Row.Reason, "--vocab"); helped != (c.want != "") || !strings.Contains(out.Row.Reason, c.want) {
			t.Errorf("%s: reason %q, want %q in it", name, out.Row.Reason, c.want)
		}
	}
}

// TestTheURLOfOtherClients ends with /v1, where ours does not.
func TestTheURLOfOtherClients(t *testing.T) {
	url := sim(t, simserve.Config{Prefill: ms})
	if _, err := Run(t.Context(), quietCPU(), options(url+"/v1")); err == nil || !strings.HasSuffix(err.Error(), "write "+url) {
		t.Errorf("error %v, want one that ends with the URL to write", err)
	}
}

func TestAModelThatIsNotServed(t *testing.T) {
	o := options(sim(t, simserve.Config{Prefill: ms}))
	o.Model = "other"
	if out, err := Run(t.Context(), quietCPU(), o); err != nil || out.Row.Class != result.WrongModel || !strings.HasSuffix(out.Row.Reason, `has ["sim"], not "other"; give --model one that is served`) {
		t.Errorf("%s: %s, error %v; want what to give", out.Row.Class, out.Row.Reason, err)
	}
}

// TestSpeculationOnRandomIdsCannotWin: bursts of three tokens are accepted
// speculation by the server's counters.
func TestSpeculationOnRandomIdsCannotWin(t *testing.T) {
	o := options(sim(t, simserve.Config{Prefill: ms, Step: ms, Engine: simserve.Engine{Bursts: []int{3}}}))
	o.Set.Out = 9
	out, err := Run(t.Context(), quietCPU(), o)
	if err != nil || out.Row.Class != result.SpecUnrepresent || len(out.Row.Metrics) > 0 {
		t.Fatalf("%+v, error %v", out.Row, err)
	}
	if a := out.Row.Facts.SpecAccept; a == nil || *a != 3 {
		t.Errorf("accepted length is %v, want 3", a)
	}
	file := filepath.Join(t.TempDir(), "custom.jsonl")
	if err := os.WriteFile(file, []byte(`{"prompt":"real text","output_len":9}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Set.Name, o.Set.Path, o.Set.Prompts = "custom", file, 0
	if out, err = Run(t.Context(), quietCPU(), o); err != nil || out.Row.Status != result.OK || *out.Row.Facts.SpecAccept != 3 {
		t.Errorf("%+v, error %v", out.Row, err)
	}
}

// TestBusyServerIsRefused has somebody else's request in flight.
func TestBusyServerIsRefused(t *testing.T) {
	busy := scrapePage(t, "vllm:num_requests_running 2\nvllm:num_requests_waiting 1\n")
	o := options(busy)
	o.Model = "sim"
	if _, err := Run(t.Context(), quietCPU(), o); err == nil || !strings.Contains(err.Error(), "2 requests running and 1 waiting") {
		t.Errorf("error is %v", err)
	}
}

// TestCompareFindsTheFasterServer: 40 and 160 ms of prefill, one request at a
// time. A crowded machine adds to both.
func TestCompareFindsTheFasterServer(t *testing.T) {
	a, b := options(sim(t, simserve.Config{Prefill: 40 * ms})), options(sim(t, simserve.Config{Prefill: 160 * ms}))
	one := 1
	for _, o := range []*Options{&a, &b} {
		o.Set.Prompts, o.Load.Warmup, o.Load.Concurrency = 3, 0, &one
	}
	var order string
	d, err := Compare(t.Context(), quietCPU(), a, b, "e2e:p50", stats.Standard(10), func(who int, _ result.Row) { order += "AB"[who : who+1] })
	if err != nil || d.Result.Verdict != stats.Ahead || !strings.HasPrefix(order, "ABBAAB") {
		t.Errorf("%+v in the order %s, error %v", d, order, err)
	}
	if _, err := Compare(t.Context(), quietCPU(), a, b, "concurrency/mean", stats.Standard(10), nil); err == nil {
		t.Error("a metric without a better direction is compared")
	}
}

func TestCompareRowsRefusesUnlikeOnes(t *testing.T) {
	row := func(n int, v float64) result.Row {
		return result.Row{Workload: result.Workload{NumPrompts: n}, Metrics: []result.Metric{{ID: "output_throughput", Value: v}}}
	}
	a := []result.Row{row(10, 100), row(10, 101), row(10, 100)}
	b := []result.Row{row(10, 80), row(10, 81), row(10, 80)}
	d, err := CompareRows(a, b, "output_throughput", stats.Standard(3))
	if err != nil || d.Result.Verdict != stats.Ahead {
		t.Errorf("%+v, error %v", d, err)
	}
	b[1].Workload.NumPrompts = 20
	if _, err := CompareRows(a, b, "output_throughput", stats.Standard(3)); err == nil || !strings.Contains(err.Error(), "number of prompts 10 against 20") {
		t.Errorf("error %v", err)
	}
	if _, err := CompareRows(a, []result.Row{{Class: result.Stalled}}, "output_throughput", stats.Standard(3)); err == nil || !strings.Contains(err.Error(), "stalled") {
		t.Errorf("error %v", err)
	}
}

func scrapePage(t *testing.T, text string) string {
	t.Helper()
	srv := httptest.NewServer(pageHandler(text))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestSetsAreChecked(t *testing.T) {
	for want, s := range map[string]Set{
		`"nope" is not known`: {Name: "nope"},
		"a file belongs to":   {Name: "sharegpt"},
		"each is at least 1":  {Name: "random"},
		"spread of lengths":   {Name: "random", Prompts: 1, In: 1, Out: 1, Spread: 1},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", s, err, want)
		}
	}
	if b, err := json.Marshal(Kinds()); err != nil || len(Kinds()) != 8 {
		t.Errorf("kinds are %s, error %v", b, err)
	}
	if _, err := Run(context.Background(), quietCPU(), options("ftp://x")); err == nil || !strings.Contains(err.Error(), `url is "ftp://x"`) {
		t.Errorf("error %v", err)
	}
}
