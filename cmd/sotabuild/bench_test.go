package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/simserve"
)

// call runs a command line and returns its code and outputs.
func call(t *testing.T, args ...string) (c code, out, errOut string) {
	t.Helper()
	return callUntil(t, context.Background(), args...)
}

// callUntil is call whose user ends it with ctx.
func callUntil(t *testing.T, ctx context.Context, args ...string) (c code, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &o, err: &e}
	c = a.run(ctx, append([]string{"bench"}, args...))
	return c, o.String(), e.String()
}

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

// TestBenchExitCodes: every request must succeed unless less is allowed, and a
// fault of each kind ends with 5.
func TestBenchExitCodes(t *testing.T) {
	good := sim(t, simserve.Config{Prefill: time.Millisecond})
	for _, c := range []struct {
		name string
		code code
		says string
		args []string
	}{
		{"good", codeOK, "5 requests ok, 0 failed", []string{good}},
		{"no_server", codeError, "refused", []string{"http://127.0.0.1:1"}},
		{"one_of_five", codeNodeFailed, "no numbers: truncated", []string{sim(t, simserve.Config{Fault: simserve.Cut, Every: 100, After: 6})}},
		{"one_of_five_allowed", codeOK, "4 requests ok, 1 failed", []string{sim(t, simserve.Config{Fault: simserve.Cut, Every: 100, After: 6}), "--min-success-rate", "0.8"}},
		{"wrong_model", codeNodeFailed, "wrong_model", []string{good, "--model", "other"}},
		{"bad_flag", codeUsage, "unknown flag", []string{good, "--nope"}},
		{"bad_values", codeUsage, `--request-rate "much"`, []string{good, "--request-rate", "much"}},
		{"bad_goodput", codeUsage, "write ttft:MS", []string{good, "--goodput", "speed:3"}},
		{"bad_url", codeUsage, "write http://HOST:PORT", []string{"ftp://127.0.0.1"}},
		{"no_url", codeUsage, "takes the URL of one server", nil},
	} {
		got, out, errOut := call(t, append(c.args, "--num-prompts", "5", "--output-len", "4", "--input-len", "8")...)
		if limited := strings.Contains(out, string(result.ClientLimited)); got != c.code && !limited || !strings.Contains(out+errOut, c.says) && !limited {
			t.Errorf("%s: code %d, want %d with %q:\n%s%s", c.name, got, c.code, c.says, out, errOut)
		}
	}
	for _, f := range simserve.Faults {
		if f.Fault == simserve.StallHead || f.Fault == simserve.StallFirst || f.Fault == simserve.Stall || f.Fault == simserve.StallEnd {
			continue // minutes of patience; they are tried in virtual time
		}
		got, out, _ := call(t, sim(t, simserve.Config{Fault: f.Fault}), "--num-prompts", "2", "--num-warmups", "0", "--output-len", "4", "--input-len", "8", "--ignore-eos", "--model", "sim")
		if got != codeNodeFailed || !strings.Contains(out, "no numbers: ") {
			t.Errorf("%s: code %d: %s", f.Fault, got, out)
		}
	}
}

// TestBenchInterrupted ends each command that measures while its first requests
// are answered, and while the server is asked for its models: none of it is the
// server's failure.
func TestBenchInterrupted(t *testing.T) {
	for _, at := range []string{"/v1/models", "/v1/completions"} {
		for name, args := range map[string][]string{
			"bench":   {"URL"},
			"rate":    {"rate", "URL", "--request-rate", "1000", "--limit", "e2e:p50=1"},
			"compare": {"compare", "URL", "URL"},
			"answers": {"answers", "URL"},
		} {
			ctx, interrupt := context.WithCancel(t.Context())
			h, err := simserve.Handler(simserve.Config{Model: "sim", Prefill: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == at {
					interrupt()
				}
				h.ServeHTTP(w, r)
			}))
			for i := range args {
				if args[i] == "URL" {
					args[i] = srv.URL
				}
			}
			if name != "answers" {
				args = append(args, "--num-warmups", "0")
			}
			c, out, errOut := callUntil(t, ctx, append(args, "--num-prompts", "3")...)
			srv.Close()
			if c != codeInterrupted || strings.Contains(errOut, "canceled") {
				t.Errorf("%s, ended at %s: code %d:\n%s%s", name, at, c, out, errOut)
			}
			if name == "bench" && strings.HasSuffix(at, "completions") && (!strings.Contains(out, "0 requests ok, 0 failed, ") || !strings.Contains(out, " cut off ")) {
				t.Errorf("requests in flight are counted as something else:\n%s", out)
			}
		}
	}
}

// TestBenchJSONIsARow reads the machine-readable output and the folder.
func TestBenchJSONIsARow(t *testing.T) {
	dir := t.TempDir()
	c, out, errOut := call(t, sim(t, simserve.Config{Prefill: time.Millisecond}), "--json", "--num-prompts", "3", "--output-len", "2", "--result-dir", dir)
	var got struct{ Row result.Row }
	if err := json.Unmarshal([]byte(out), &got); err != nil || c != codeOK && got.Row.Class != result.ClientLimited || got.Row.Requests.OK != 3 {
		t.Fatalf("code %d, %v: %s%s", c, err, out, errOut)
	}
	row, err := bench.ReadRow(filepath.Join(dir, bench.RowFile))
	if err != nil || row.Requests.OK != 3 {
		t.Errorf("%+v, %v", row, err)
	}
}

// TestBenchMixture: of eight prompts a quarter has 40 tokens in and 3 out, the
// others 8 and 2: 6·8 + 2·40 and 6·2 + 2·3 tokens by the server's count, whose
// 95th percentile is a long one (R144). The same seed gives the same set.
func TestBenchMixture(t *testing.T) {
	url := sim(t, simserve.Config{Prefill: time.Millisecond})
	args := []string{url, "--json", "--ignore-eos", "--num-prompts", "8", "--input-len", "8", "--output-len", "2", "--mix", "0.25:40:3", "--seed", "4"}
	order := ""
	for _, want := range []string{"", "same"} {
		dir := t.TempDir()
		c, out, errOut := call(t, append(args, "--result-dir", dir)...)
		var got struct{ Row result.Row }
		if err := json.Unmarshal([]byte(out), &got); err != nil || c != codeOK && got.Row.Class != result.ClientLimited {
			t.Fatalf("code %d, %v: %s%s", c, err, out, errOut)
		}
		if r := got.Row.Requests; r.OK != 8 || r.Input != 6*8+2*40 || r.Output != 6*2+2*3 || r.Lengths.InputP50 != 8 || r.Lengths.InputP95 != 40 || r.Lengths.OutputP95 != 3 {
			t.Errorf("%+v, %+v", r, r.Lengths)
		}
		lines, err := os.ReadFile(filepath.Join(dir, "prompts.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		lengths := ""
		for line := range bytes.Lines(lines) {
			var p dataset.Prompt
			if err := json.Unmarshal(line, &p); err != nil {
				t.Fatal(err)
			}
			if !p.Warmup {
				lengths += strconv.Itoa(len(p.Tokens)) + " "
			}
		}
		if want == "same" && lengths != order {
			t.Errorf("one seed gave lengths %s and %s", order, lengths)
		}
		order = lengths
	}
	for says, mix := range map[string][]string{
		"write SHARE:IN:OUT": {"--mix", "0.2:8"}, "write less than 1": {"--mix", "0.5:8:1", "--mix", "0.5:9:1"},
		"write at least 50 prompts": {"--mix", "0.02:8:1", "--num-prompts", "49"},
		"write a share above 0":     {"--mix", "0:8:1"}, "belongs to random": {"--mix", "0.5:8:1", "--dataset-name", "prefix"},
	} {
		if c, _, errOut := call(t, append([]string{url}, mix...)...); c != codeUsage || !strings.Contains(errOut, says) {
			t.Errorf("%v: code %d: %s; want %q", mix, c, errOut, says)
		}
	}
}

// TestBenchImportRanks the real rows of one GPU.
func TestBenchImportRanks(t *testing.T) {
	files, err := filepath.Glob("../../stdlib/imports/testdata/h200/dense8b.[dems]*.json")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	c, out, errOut := call(t, append([]string{"import", "--limit", "tpot/excl-first:p50=0.012"}, files...)...)
	if c != codeOK || !strings.Contains(out, "1  dense8b.seqs32.json") || !strings.Contains(out, "another request rate") {
		t.Errorf("code %d:\n%s%s", c, out, errOut)
	}
	if c, out, _ := call(t, "import", "../../stdlib/imports/testdata/vllm_failing.json"); c != codeNodeFailed || !strings.Contains(out, "all 10 requests failed") {
		t.Errorf("code %d: %s", c, out)
	}
	bad := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(bad, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, _, errOut := call(t, "import", bad); c != codeUsage || !strings.Contains(errOut, "form of none of") {
		t.Errorf("code %d: %s", c, errOut)
	}
}

// TestBenchAnswersAgree: the simulated server always says the same; another
// length is another prompt set.
func TestBenchAnswersAgree(t *testing.T) {
	url, file := sim(t, simserve.Config{}), filepath.Join(t.TempDir(), "a.json")
	args := []string{"answers", url, "--num-prompts", "4", "--input-len", "8", "--output-len", "4"}
	if c, out, errOut := call(t, append(args, "--out", file)...); c != codeOK || !strings.Contains(out, "4 answers of sim") {
		t.Fatalf("code %d: %s%s", c, out, errOut)
	}
	if c, out, errOut := call(t, append(args, "--baseline", file, "--min-agreement", "1")...); c != codeOK || !strings.Contains(out, "4 of 4 answers are equal") {
		t.Errorf("code %d: %s%s", c, out, errOut)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(b, []byte("116,"), []byte("120,"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, out, _ := call(t, append(args, "--baseline", file, "--min-agreement", "1")...); c != codeGate || !strings.Contains(out, "3 of 4 answers are equal") {
		t.Errorf("code %d: %s", c, out)
	}
	if c, _, errOut := call(t, append(args, "--baseline", file, "--seed", "9")...); c != codeUsage || !strings.Contains(errOut, "other prompts") {
		t.Errorf("code %d: %s", c, errOut)
	}
}

func TestBenchFrontierIsAPage(t *testing.T) {
	dir := t.TempDir()
	if c, out, errOut := call(t, sim(t, simserve.Config{Prefill: time.Millisecond, Step: 10 * time.Millisecond}), "--num-prompts", "3", "--output-len", "16", "--result-dir", dir); c != codeOK && !strings.Contains(out, "client_limited") {
		t.Fatalf("code %d: %s%s", c, out, errOut)
	}
	if c, out, errOut := call(t, "frontier", dir); c != codeOK || !strings.Contains(out, "data-figure") && !strings.Contains(out, "client_limited") {
		t.Errorf("code %d: %s%s", c, out, errOut)
	}
}

// TestBenchRateFindsTheKnee: one request at a time of 40 ms is 25 a second; at 5
// the queue is short, at a limit of 1 ms no rate is slow enough.
func TestBenchRateFindsTheKnee(t *testing.T) {
	url := sim(t, simserve.Config{Prefill: 40 * time.Millisecond, Slots: 1})
	args := []string{"rate", url, "--num-prompts", "8", "--output-len", "1", "--request-rate", "40", "--burstiness", "inf", "--rounds", "2"}
	c, out, errOut := call(t, append(args, "--limit", "ttft/send:p50=0.001")...)
	if c != codeGate && !strings.Contains(errOut, "client_limited") {
		t.Errorf("code %d: %s%s", c, out, errOut)
	}
	if c, _, errOut := call(t, append(args, "--limit", "ttft/send:p99=1")...); c != codeNodeFailed || !strings.Contains(errOut, "it needs 100") && !strings.Contains(errOut, "client_limited") {
		t.Errorf("code %d: %s", c, errOut)
	}
	if c, _, errOut := call(t, "rate", url); c != codeUsage || !strings.Contains(errOut, "rate of the first round") {
		t.Errorf("code %d: %s", c, errOut)
	}
}
