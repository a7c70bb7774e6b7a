package profile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/frameworks"
	"github.com/sotabuild/sotabuild/stdlib/search"
)

const campaignText = `
campaign "c" {
  target  = "mine"
  compare = ["yours", "offline"]
  smoke   = true
}
model "m" {
  path         = "model"
  precision    = "bf16"
  quantization = "none"
  max_context  = 16384
  vocab        = [0, 512]
}
sla {
  min_success_rate = 1
}
scenario "summarization" {
  input_len   = 8000
  output_len  = 1000
  num_prompts = 3
}
workload {
  arrival     = "inf"
  concurrency = [null, 6]
  warmup      = 1
  seed        = 1
}
framework "mine" {
  use     = "vllm"
  program = "vllm"
  flags   = { max_model_len = 9000 }
}
framework "yours" {
  use     = "sglang"
  program = "sglang"
}
framework "offline" {
  use     = "tensorrt_llm"
  program = "trtllm-serve"
  flags   = { max_seq_len = 9000 }
}
`

func loaded(t *testing.T) (*lang.Campaign, campaign.Facts) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "campaign.hcl"), []byte(campaignText), 0o600); err != nil {
		t.Fatal(err)
	}
	c, diags := lang.Load(lang.Input{Dir: dir, Definitions: frameworks.FS})
	if diags.HasErrors() {
		t.Fatal(diags.Text(false))
	}
	f := campaign.Facts{Software: map[string]campaign.Software{}, Weights: key.Sum([]byte("weights")), Self: "/sotabuild"}
	for _, fw := range c.Frameworks {
		f.Software[fw.Label] = campaign.Software{Digest: key.Sum([]byte(fw.Label))}
	}
	return c, f
}

func subject(c *lang.Campaign, i int) Subject {
	fw := c.Frameworks[i]
	return Subject{fw, search.Candidate{Name: "baseline", Flags: fw.Flags, Base: true}, c.Load.Scenarios[0]}
}

// TestShapes: R142, R143; and 10 warm-up and 5 active steps for everyone.
func TestShapes(t *testing.T) {
	c, f := loaded(t)
	for i := range 2 {
		decls, err := Declare(c, f, subject(c, i))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range decls {
			s := d.Spec.(Spec)
			got = append(got, fmt.Sprintf("%s %d→%d c%d: %d then %d", s.Stage, s.Prompts.InputLen, s.Prompts.OutputLen, s.Concurrency, s.Warmup, s.Active))
		}
		if want := "prefill 8000→1 c1: 10 then 5, decode 1→1000 c6: 10 then 5"; strings.Join(got, ", ") != want {
			t.Errorf("%s: %s, want %s", c.Frameworks[i].Label, strings.Join(got, ", "), want)
		}
		if decls[0].Batch != decls[1].Batch {
			t.Errorf("%s: two server lives, although it is armed once", c.Frameworks[i].Label)
		}
	}
}

// TestArming: vLLM is armed by a flag that names the folder, SGLang by the
// body of the call.
func TestArming(t *testing.T) {
	c, f := loaded(t)
	decls, err := Declare(c, f, subject(c, 0))
	if err != nil {
		t.Fatal(err)
	}
	argv := strings.Join(decls[0].Spec.(Spec).process("/t").Argv, " ")
	if want := `--profiler-config {"profiler":"torch","torch_profiler_dir":"/t",`; !strings.Contains(argv, want) {
		t.Errorf("vLLM is started with %s", argv)
	}
	if decls, err = Declare(c, f, subject(c, 1)); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := task([]compile.Job{{Addr: decls[1].Addr, Spec: decls[1].Spec}}, dir); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "steps", "*", specFile))
	if err != nil || len(found) != 1 {
		t.Fatalf("specs %v, %v", found, err)
	}
	s, err := readSpec(found[0])
	if err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(s.Start.Body), &body); err != nil {
		t.Fatal(err)
	}
	if body["output_dir"] != s.Traces || body["profile_prefix"] != "decode" || !strings.HasPrefix(s.Traces, dir) {
		t.Errorf("SGLang is asked for %v", body)
	}
}

// TestOfflineIsNoLiveProfile: no live endpoint is invented (R140).
func TestOfflineIsNoLiveProfile(t *testing.T) {
	c, f := loaded(t)
	if _, err := Declare(c, f, subject(c, 2)); err == nil || !strings.Contains(err.Error(), "R140") || !strings.Contains(err.Error(), "trace block") {
		t.Errorf("error %v", err)
	}
}

// TestKey: what is done is keyed, what it is called is not.
func TestKey(t *testing.T) {
	c, f := loaded(t)
	f.Software["x"] = f.Software["mine"]
	of := func(change func(*Subject)) string {
		s := subject(c, 0)
		change(&s)
		decls, err := Declare(c, f, s)
		if err != nil {
			t.Fatal(err)
		}
		var b key.Builder
		b.Struct(decls[0].Spec)
		return b.Finish().Key().String()
	}
	same := of(func(*Subject) {})
	if same != of(func(s *Subject) { s.Framework.Label, s.Scenario.Name, s.Candidate.Name = "x", "y", "z" }) {
		t.Error("a label is in the key")
	}
	if same != of(func(s *Subject) { s.Scenario.NumPrompts = 99 }) {
		t.Error("the benchmark's number of prompts is in the profile's key")
	}
	if same == of(func(s *Subject) { s.Scenario.InputLen = 9 }) {
		t.Error("the input's length is not in the key")
	}
	if same == of(func(s *Subject) {
		d := *s.Framework.Definition
		d.Profiler = &lang.Profiler{Start: d.Profiler.Start, Stop: d.Profiler.Stop}
		s.Framework.Definition = &d
	}) {
		t.Error("how the profiler is armed is not in the key")
	}
}

// server is a small endpoint that counts what it is asked for and writes a
// trace of one step when its profiler is stopped.
type server struct {
	step, dir string // annotation of the step; folder
	mu        sync.Mutex
	log       []string
	pair      chan struct{}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.log = append(s.log, r.URL.Path)
	s.mu.Unlock()
	switch r.URL.Path {
	case "/start":
	case "/stop":
		trace := fmt.Sprintf(`{"traceEvents":[
{"ph":"X","cat":"user_annotation","name":%q,"pid":1,"tid":1,"ts":100,"dur":900},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":200,"dur":5,"args":{"correlation":7}},
{"ph":"X","cat":"kernel","name":"gemm_kernel","pid":0,"tid":7,"ts":300,"dur":250,"args":{"device":0,"stream":7,"correlation":7}}]}`, s.step)
		if err := os.WriteFile(filepath.Join(s.dir, "rank0.pt.trace.json"), []byte(trace), 0o600); err != nil {
			http.Error(w, err.Error(), 500)
		}
	case "/v1/completions":
		s.answer(w, r)
	default:
		http.NotFound(w, r)
	}
}

// answer streams tokens; a long answer waits after its 16th token until the
// client has gone, so that what the client does is not a matter of speed.
func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Prompt []int `json:"prompt"`
		Max    int   `json:"max_tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	if q.Max == 1000 { // two that are answered in one batch
		select {
		case s.pair <- struct{}{}:
		case <-s.pair:
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range q.Max {
		if i == 16 {
			<-r.Context().Done()
			return
		}
		finish := "null"
		if i == q.Max-1 {
			finish = `"length"`
		}
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":%s}]}\n\n", finish)
		w.(http.Flusher).Flush()
	}
	fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", len(q.Prompt), q.Max)
}

// client runs the client against a server whose trace has one step.
func client(t *testing.T, stage Stage, step string, p dataset.Spec) (*server, runner.StepOutcome, string) {
	t.Helper()
	out, traces := t.TempDir(), t.TempDir()
	s := &server{step: step, dir: traces, pair: make(chan struct{})}
	web := httptest.NewServer(s)
	defer web.Close()
	p.Kind, p.VocabHi, p.Stream = "random", 512, "t"
	prompts, err := dataset.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(out, promptsFile)
	if err := os.WriteFile(file, prompts, 0o600); err != nil {
		t.Fatal(err)
	}
	spec := filepath.Join(out, specFile)
	err = writeJSON(spec, ClientSpec{Version: clientVersion, Stage: stage, Start: Call{Path: "/start"}, Stop: Call{Path: "/stop"},
		Send:    Send{Path: "/v1/completions", API: wire.Completions, Model: "m", Concurrency: p.Prompts},
		Prompts: file, Warmup: WarmupSteps, Active: ActiveSteps, Traces: traces, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	if code := Main(spec, web.URL); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	o, err := runner.ReadOutcome(out)
	if err != nil {
		t.Fatal(err)
	}
	return s, o, out
}

func TestClientPrefill(t *testing.T) {
	s, o, out := client(t, Prefill, "execute_context_1(64)_generation_0(0)", dataset.Spec{InputLen: 64, OutputLen: 1, Warmup: 10, Prompts: 5})
	if o.Class != "" {
		t.Fatal(o)
	}
	want := strings.Repeat("/v1/completions ", 10) + "/start " + strings.Repeat("/v1/completions ", 5) + "/stop"
	if got := strings.Join(s.log, " "); got != want {
		t.Errorf("the server saw %s\nwant %s", got, want)
	}
	md, err := os.ReadFile(filepath.Join(out, "tables.md"))
	if err != nil || !strings.Contains(string(md), "| gemm_kernel | gemm | 250.0 µs | 100.00 % | 1 |") {
		t.Errorf("tables: %v\n%s", err, md)
	}
	sum, err := readSummary(filepath.Join(out, summaryFile))
	if err != nil || sum.Warmup != 10 || sum.Active != 5 || sum.Rank != 0 || sum.Trace != "rank0.pt.trace.json" || len(sum.SetAside) > 0 {
		t.Errorf("summary %+v, %v", sum, err)
	}
}

// TestClientDecode: long answers are given up as soon as the profiler has been
// stopped; the server would hold them for ever.
func TestClientDecode(t *testing.T) {
	s, o, out := client(t, Decode, "execute_context_0(0)_generation_2(2)", dataset.Spec{InputLen: 1, OutputLen: 1000, Warmup: 2, Prompts: 2})
	if o.Class != "" {
		t.Fatal(o)
	}
	const both = "/v1/completions /v1/completions "
	if got := strings.Join(s.log, " "); got != both+"/start "+both+"/stop" {
		t.Errorf("the server saw %s", got)
	}
	if sum, err := readSummary(filepath.Join(out, summaryFile)); err != nil || sum.Warmup < 10 || sum.Active < 5 || sum.Active > 15 {
		t.Errorf("summary %+v, %v", sum, err)
	}
}

// TestClientWantsItsStage: a trace of prefill is no profile of decode.
func TestClientWantsItsStage(t *testing.T) {
	_, o, _ := client(t, Decode, "execute_context_1(64)_generation_0(0)", dataset.Spec{InputLen: 1, OutputLen: 4, Warmup: 1, Prompts: 1})
	if o.Class != "no_output" || !strings.Contains(o.Reason, "no GPU time in the decode stage") {
		t.Errorf("outcome %+v", o)
	}
}
