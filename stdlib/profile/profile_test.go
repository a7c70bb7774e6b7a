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
		decls, err := Declare(c, f, subject(c, i), Stages, false)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range decls {
			s, ok := d.Spec.(Spec)
			if !ok {
				continue
			}
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
	decls, err := Declare(c, f, subject(c, 0), Stages, true)
	if err != nil {
		t.Fatal(err)
	}
	argv := strings.Join(decls[0].Spec.(Spec).process("/t").Argv, " ")
	if want := `--profiler-config {"profiler":"torch","torch_profiler_dir":"/t",`; !strings.Contains(argv, want) {
		t.Errorf("vLLM is started with %s", argv)
	}
	if decls, err = Declare(c, f, subject(c, 1), Stages, false); err != nil {
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

// TestPair: a formal and a mapping server, each with both stages; the second
// has graphs off, stacks and shapes on, and all else as the candidate has it.
func TestPair(t *testing.T) {
	c, f := loaded(t)
	for i, want := range []struct{ formal, mapping string }{
		{`"torch_profiler_with_stack":false`, `--enforce-eager --profiler-config {"profiler":"torch","torch_profiler_dir":"/t","torch_profiler_with_stack":true,"torch_profiler_record_shapes":true}`},
		{"", "--cuda-graph-backend-decode disabled --cuda-graph-backend-prefill disabled"},
	} {
		s := subject(c, i)
		decls, err := Declare(c, f, s, Stages, true)
		if err != nil {
			t.Fatal(err)
		}
		if len(decls) != 6 || decls[0].Batch == decls[2].Batch || decls[2].Batch != decls[3].Batch {
			t.Fatalf("%d nodes, batches %q %q %q", len(decls), decls[0].Batch, decls[2].Batch, decls[3].Batch)
		}
		formal, mapping := decls[0].Spec.(Spec), decls[2].Spec.(Spec)
		if argv := strings.Join(formal.process("/t").Argv, " "); !strings.Contains(argv, want.formal) || strings.Contains(argv, "eager") || strings.Contains(argv, "disabled") {
			t.Errorf("the formal server is started with %s", argv)
		}
		argv := strings.Join(mapping.process("/t").Argv, " ")
		if !strings.Contains(argv, want.mapping) || strings.Count(argv, "--profiler-config") > 1 {
			t.Errorf("the mapping server is started with %s", argv)
		}
		if i == 0 && !strings.Contains(argv, "--max-model-len 9000") {
			t.Errorf("the candidate's own flags are missing in %s", argv)
		}
		if strings.Contains(formal.Start.Body, `"with_stack":true`) || i == 1 && !strings.Contains(mapping.Start.Body, `"with_stack":true,"record_shapes":true`) {
			t.Errorf("bodies %s and %s", formal.Start.Body, mapping.Start.Body)
		}
		var inputs []string
		for _, in := range decls[4].Inputs {
			inputs = append(inputs, in.From+" "+in.Output)
		}
		p := s.Addr(Prefill, Formal)
		if got := strings.Join(inputs, ", "); got != p+" summary, "+p+" trace, "+p+".mapping summary, "+p+".mapping trace" {
			t.Errorf("the tables are made of %s", got)
		}
	}
}

// TestOneLife: a mapping that only asks the profiler for more, and turns
// nothing off at the start, is taken in the formal one's life.
func TestOneLife(t *testing.T) {
	c, f := loaded(t)
	s := subject(c, 1)
	d := *s.Framework.Definition
	p := *d.Profiler
	p.Mapping = &lang.Mapping{Body: `{"record_shapes":true}`}
	d.Profiler, s.Framework.Definition = &p, &d
	decls, err := Declare(c, f, s, []Stage{Decode}, true)
	if err != nil || len(decls) != 3 || decls[0].Batch != decls[1].Batch {
		t.Errorf("%v, %d nodes", err, len(decls))
	}
}

// TestAKnownFlagIsReplaced: the candidate itself turns graphs off in another
// spelling; the server gets the flag once.
func TestAKnownFlagIsReplaced(t *testing.T) {
	d := &lang.Definition{Flags: lang.FlagRules{Aliases: map[string]string{"eager": "enforce_eager"}}}
	no, yes := lang.Value{Kind: lang.Bool}, lang.Value{Kind: lang.Bool, Bool: true}
	given := []lang.Flag{{Name: "eager", Value: no}}
	cand, armed := over(d, given, nil, []lang.Flag{{Name: "enforce-eager", Value: yes}})
	if len(cand) != 1 || !cand[0].Value.Bool || len(armed) > 0 || given[0].Value.Bool {
		t.Errorf("candidate %v, arming %v, given %v", cand, armed, given)
	}
}

// TestOfflineIsNoLiveProfile: no live endpoint is invented, and it is said how
// a trace is made (R140).
func TestOfflineIsNoLiveProfile(t *testing.T) {
	c, f := loaded(t)
	_, err := Declare(c, f, subject(c, 2), Stages, true)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"R140", "--trace or a trace block", "TLLM_PROFILE_START_STOP=10-15", "TLLM_TORCH_PROFILE_TRACE=DIR/STAGE.json"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
}

// TestKey: what is done is keyed, what it is called is not.
func TestKey(t *testing.T) {
	c, f := loaded(t)
	f.Software["x"] = f.Software["mine"]
	of := func(change func(*Subject)) string {
		s := subject(c, 0)
		change(&s)
		decls, err := Declare(c, f, s, Stages, true)
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
		d.Profiler = &lang.Profiler{Start: d.Profiler.Start, Stop: d.Profiler.Stop, Mapping: d.Profiler.Mapping}
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
	if b, err := os.ReadFile(filepath.Join(out, traceFile)); err != nil || !strings.Contains(string(b), "gemm_kernel") {
		t.Errorf("trace: %v\n%s", err, b)
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
