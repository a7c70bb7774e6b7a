package editor_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sourcegraph/jsonrpc2"
	"go.uber.org/goleak"

	"github.com/sotabuild/sotabuild/stdlib/editor"
	"github.com/sotabuild/sotabuild/stdlib/frameworks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is a scripted editor at the other end of a pipe.
type client struct {
	t    *testing.T
	conn *jsonrpc2.Conn
	told chan published
	end  chan error
	dir  string
}

type published struct {
	URI         string `json:"uri"`
	Diagnostics []struct {
		Range    span   `json:"range"`
		Severity int    `json:"severity"`
		Code     string `json:"code"`
		Message  string `json:"message"`
	} `json:"diagnostics"`
}

type position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

type span struct{ Start, End position }

type items []struct {
	Label, Detail, InsertText string
	Kind                      int
}

func (list items) labels() []string {
	var out []string
	for _, x := range list {
		out = append(out, x.Label)
	}
	return out
}

const smallest = `campaign "x" {
  target  = "vllm"
  compare = []
  smoke   = true
}
model "m" {
  vocab = [0, 9]
}
framework "vllm" {
  program = "/opt/vllm"
  flags = {
    max_model_len = 9000
  }
}
`

func start(t *testing.T, files map[string]string) *client {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ours, theirs := net.Pipe()
	c := &client{t: t, told: make(chan published, 100), end: make(chan error, 1), dir: dir}
	go func() {
		c.end <- editor.Serve(context.Background(), theirs, editor.Options{
			Definitions: frameworks.FS,
			Flags: func(_, framework string) []editor.Flag {
				if framework != "vllm" {
					return nil
				}
				return []editor.Flag{{Name: "max_num_seqs", Doc: "Sequences in one step."}, {Name: "kv_cache_dtype", Doc: "Type of the cache.", Choices: []string{"auto", "fp8"}}}
			},
			Builtin: func(name string) string { return "/definitions/" + name + ".hcl" },
		})
	}()
	c.conn = jsonrpc2.NewConn(context.Background(), jsonrpc2.NewBufferedStream(ours, jsonrpc2.VSCodeObjectCodec{}),
		jsonrpc2.HandlerWithError(func(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
			var p published
			if err := json.Unmarshal(*r.Params, &p); err != nil || r.Method != "textDocument/publishDiagnostics" {
				t.Errorf("%s: %v", r.Method, err)
			}
			c.told <- p
			return nil, nil
		}))
	var hello struct{ Capabilities map[string]any }
	c.call("initialize", map[string]any{}, &hello)
	for _, want := range []string{"completionProvider", "hoverProvider", "definitionProvider", "documentFormattingProvider"} {
		if hello.Capabilities[want] == nil {
			t.Errorf("the server does not say %s", want)
		}
	}
	c.notify("initialized", map[string]any{})
	return c
}

func (c *client) uri(name string) string {
	return (&url.URL{Scheme: "file", Path: filepath.Join(c.dir, name)}).String()
}

func (c *client) call(method string, params, result any) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.conn.Call(ctx, method, params, result); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
}

func (c *client) notify(method string, params any) {
	c.t.Helper()
	if err := c.conn.Notify(context.Background(), method, params); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
}

// next is the next set of diagnostics of a file.
func (c *client) next(name string) published {
	c.t.Helper()
	for {
		select {
		case p := <-c.told:
			if p.URI == c.uri(name) {
				return p
			}
		case <-time.After(time.Minute):
			c.t.Fatalf("no diagnostics of %s", name)
		}
	}
}

func (c *client) open(name, text string) published {
	c.t.Helper()
	c.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": c.uri(name), "languageId": "hcl", "version": 1, "text": text}})
	return c.next(name)
}

func (c *client) change(name, text string) published {
	c.t.Helper()
	c.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": c.uri(name), "version": 2}, "contentChanges": []any{map[string]any{"text": text}}})
	return c.next(name)
}

// at opens a text with the mark ‸ and returns the parameters of a request there.
func (c *client) at(name, text string) map[string]any {
	c.t.Helper()
	before, after, ok := strings.Cut(text, "‸")
	if !ok {
		c.t.Fatalf("%q has no mark", text)
	}
	c.open(name, before+after)
	lines := strings.Split(before, "\n")
	last := lines[len(lines)-1]
	n := 0
	for _, r := range last { // UTF-16, counted without the code under test
		n++
		if r > 0xffff {
			n++
		}
	}
	return map[string]any{"textDocument": map[string]any{"uri": c.uri(name)}, "position": position{len(lines) - 1, n}}
}

// stop leaves as editors do and wants a clean end.
func (c *client) stop() {
	c.t.Helper()
	c.call("shutdown", nil, nil)
	c.notify("exit", nil)
	if err := <-c.end; err != nil {
		c.t.Errorf("the server ended with %v", err)
	}
	c.close()
}

func (c *client) close() {
	if err := c.conn.Close(); err != nil && !errors.Is(err, jsonrpc2.ErrClosed) {
		c.t.Error(err)
	}
	<-c.conn.DisconnectNotify()
}

func TestDiagnosticsFollowTheText(t *testing.T) {
	c := start(t, map[string]string{"campaign.hcl": smallest})
	defer c.stop()
	if p := c.open("campaign.hcl", smallest); len(p.Diagnostics) != 0 {
		t.Errorf("a good campaign has %v", p.Diagnostics)
	}
	p := c.change("campaign.hcl", strings.Replace(smallest, `target  = "vllm"`, `/*🦊*/ taget = "vllm"`, 1))
	if len(p.Diagnostics) != 1 {
		t.Fatalf("%v", p.Diagnostics)
	}
	// The fox is one column for people and two units for the protocol.
	want := span{position{1, 9}, position{1, 14}}
	if d := p.Diagnostics[0]; d.Code != "unknown_attribute" || d.Severity != 1 || d.Range != want || !strings.Contains(d.Message, `Did you mean "target"?`) {
		t.Errorf("%+v", d)
	}
	if p := c.change("campaign.hcl", smallest); len(p.Diagnostics) != 0 {
		t.Errorf("solved problems stay: %v", p.Diagnostics)
	}
}

// TestDiagnosticsOfOtherFiles changes one file and is told of another.
func TestDiagnosticsOfOtherFiles(t *testing.T) {
	more := "scenario \"short\" {\n  input_len  = local.n\n  output_len = 4\n}\n"
	c := start(t, map[string]string{"campaign.hcl": smallest + "locals {\n  n = 8\n}\n", "more.campaign.hcl": more})
	defer c.stop()
	c.open("more.campaign.hcl", more)
	c.open("campaign.hcl", smallest)
	if p := c.next("more.campaign.hcl"); len(p.Diagnostics) != 1 || p.Diagnostics[0].Code != "unknown_name" {
		t.Errorf("%+v", p)
	}
	c.change("campaign.hcl", smallest+"locals {\n  n = 8\n}\n")
	if p := c.next("more.campaign.hcl"); len(p.Diagnostics) != 0 {
		t.Errorf("solved problems stay: %+v", p)
	}
	c.notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": c.uri("campaign.hcl")}})
	if p := c.next("campaign.hcl"); len(p.Diagnostics) != 0 {
		t.Errorf("a closed file's problems stay: %+v", p)
	}
}

func TestCompletion(t *testing.T) {
	c := start(t, map[string]string{"campaign.hcl": smallest, "mine.framework.hcl": "definition \"mine\" {\n  server {}\n}\n"})
	defer c.stop()
	for _, tt := range []struct {
		name, text string
		has, not   string // names with spaces between
	}{
		{"a.campaign.hcl", "‸", "campaign framework scenario locals", "search process"},
		{"a.campaign.hcl", "framework \"vllm\" {\n  image = \"x\"\n  ‸\n}", "flags search process env", "image campaign"},
		{"a.campaign.hcl", "workload {\n  endpoint = ‸\n}", "completions chat min", ""},
		{"a.campaign.hcl", "workload {\n  endpoint = \"‸\"\n}", "completions chat", "min"},
		{"a.campaign.hcl", "executor \"‸", "docker slurm", ""},
		{"a.campaign.hcl", "framework \"‸", "vllm sglang", ""},
		{"a.campaign.hcl", "framework \"f\" {\n  use = \"‸\"\n}", "vllm mine", "docker"},
		{"a.campaign.hcl", "framework \"vllm\" {\n  flags = {\n    ma‸\n  }\n}", "max_num_seqs kv_cache_dtype", "flags"},
		{"a.campaign.hcl", "framework \"vllm\" {\n  search {\n    space = {\n      kv_cache_dtype = [\"‸\n", "auto fp8", ""},
		{"a.campaign.hcl", "framework \"sglang\" {\n  flags = {\n    ‸\n", "context_length tp_size mem_fraction_static", "max_num_seqs"},
		{"a.campaign.hcl", "locals {\n  batch = 3\n}\nscenario \"s\" {\n  input_len = local.‸\n}", "batch", "min completions"},
		{"a.campaign.hcl", "scenario \"s\" {\n  input_len = ‸\n}", "max duration", "round.index"},
		{"a.campaign.hcl", "loop \"rlcr\" {\n  stop \"s\" {\n    when = ‸\n", "round.index loop.gpu_hours", ""},
		{"a.campaign.hcl", "campaign \"x\" {\n  target = \"‸\"\n}", "vllm", "mine"},
		{"a.campaign.hcl", "campaign \"x\" {\n  smoke = ‸\n}", "true false", ""},
		{"b.framework.hcl", "definition \"b\" {\n  ‸\n}", "help server flags profiler sources", "campaign"},
		{"a.campaign.hcl", "nonsense {\n  ‸\n}", "", "campaign"},
	} {
		var got items
		c.call("textDocument/completion", c.at(tt.name, tt.text), &got)
		for _, w := range strings.Fields(tt.has) {
			if !slices.Contains(got.labels(), w) {
				t.Errorf("%q: no %s in %v", tt.text, w, got.labels())
			}
		}
		for _, w := range strings.Fields(tt.not) {
			if slices.Contains(got.labels(), w) {
				t.Errorf("%q: %s in %v", tt.text, w, got.labels())
			}
		}
	}
}

func TestHover(t *testing.T) {
	c := start(t, map[string]string{"campaign.hcl": smallest})
	defer c.stop()
	for _, tt := range []struct{ text, says string }{
		{"framework \"vllm\" {\n  search {\n    max_cand‸idates = 3", "whole number ≥ 1, candidates. Default `10`"},
		{"framework \"vllm\" {\n  search {\n    max_cand‸idates = 3", "Rules: R054"},
		{"sla {\n  max_p50_ttft_ms‸ = 3", "number > 0, ms"},
		{"wor‸kload {\n}", "How the requests are sent"},
		{"framework \"vllm\" {\n  flags = { max_num_s‸eqs = 3 }", "Sequences in one step."},
		{"framework \"vllm\" {\n  flags = { kv_cache_dt‸ype = 3 }", "One of auto, fp8."},
		{"framework \"vllm\" {\n  flags = { t‸p = 3 }", "Another spelling of `tensor_parallel_size`."},
		{"framework \"vllm\" {\n  search {\n    space = { dt‸ype = [3] }", "Not searched"},
		{"locals {\n  a = m‸in(1, 2)\n}", "The smallest number."},
		{"locals {\n  n = 1\n  a = local.n‸\n}", "n = 1"},
		{"loop \"rlcr\" {\n  stop \"s\" {\n    when = round.worst_‸gap > 0", "The largest gap of all scenarios."},
		{"locals {\n  a = ‸ 1\n}", ""},
		{"nonsense {\n  a‸ = 1\n}", ""},
	} {
		var got *struct{ Contents struct{ Kind, Value string } }
		c.call("textDocument/hover", c.at("a.campaign.hcl", tt.text), &got)
		switch {
		case tt.says == "" && got != nil:
			t.Errorf("%q: %q", tt.text, got.Contents.Value)
		case tt.says != "" && (got == nil || !strings.Contains(got.Contents.Value, tt.says)):
			t.Errorf("%q: %+v does not say %q", tt.text, got, tt.says)
		}
	}
}

func TestGoToDefinition(t *testing.T) {
	c := start(t, map[string]string{
		"campaign.hcl":       smallest + "variable \"n\" {\n  default = 3\n}\nlocals {\n  é = 1\n  len = 2\n}\nscenario \"chat\" {\n  input_len = 1\n  output_len = 1\n}\n",
		"mine.framework.hcl": "# own\ndefinition \"mine\" {\n  server {}\n}\n",
	})
	defer c.stop()
	for _, tt := range []struct{ text, file, line string }{
		{"locals {\n  a = var.n‸ + 1\n}", "campaign.hcl", "variable \"n\" {"},
		{"locals {\n  a = local.le‸n + 1\n}", "campaign.hcl", "  len = 2"},
		{"framework \"f\" {\n  use = \"mi‸ne\"\n}", "mine.framework.hcl", "definition \"mine\" {"},
		{"framework \"mine‸\" {\n}", "mine.framework.hcl", "definition \"mine\" {"},
		{"trace \"t\" {\n  framework = \"vl‸lm\"\n}", "campaign.hcl", "framework \"vllm\" {"},
		{"loop \"rlcr\" {\n  stop \"s\" {\n    when = round.gap[\"ch‸at\"] > 0\n  }\n}", "campaign.hcl", "scenario \"chat\" {"},
		{"framework \"f\" {\n  use = \"sgla‸ng\"\n}", "/definitions/sglang.hcl", ""},
		{"locals {\n  a = var.unknown‸\n}", "", ""},
	} {
		var got []struct {
			URI   string
			Range span
		}
		c.call("textDocument/definition", c.at("a.campaign.hcl", tt.text), &got)
		if tt.file == "" {
			if len(got) > 0 {
				t.Errorf("%q leads to %v", tt.text, got)
			}
			continue
		}
		want := c.uri(tt.file)
		if filepath.IsAbs(tt.file) {
			want = "file://" + tt.file
		}
		if len(got) != 1 || got[0].URI != want {
			t.Errorf("%q leads to %v, want %s", tt.text, got, want)
			continue
		}
		if tt.line != "" {
			b, err := os.ReadFile(filepath.Join(c.dir, tt.file))
			if err != nil {
				t.Fatal(err)
			}
			if line := strings.Split(string(b), "\n")[got[0].Range.Start.Line]; line != tt.line {
				t.Errorf("%q leads to %q, want %q", tt.text, line, tt.line)
			}
		}
	}
}

func TestFormatting(t *testing.T) {
	c := start(t, nil)
	defer c.stop()
	format := func(text string) []struct {
		Range   span
		NewText string
	} {
		c.open("campaign.hcl", text)
		var got []struct {
			Range   span
			NewText string
		}
		c.call("textDocument/formatting", map[string]any{"textDocument": map[string]any{"uri": c.uri("campaign.hcl")}, "options": map[string]any{"tabSize": 4}}, &got)
		return got
	}
	got := format("locals {\n a=1 # 🦊\n  long = 2\n}")
	if len(got) != 1 {
		t.Fatalf("%v", got)
	}
	if diff := cmp.Diff("locals {\n  a    = 1 # 🦊\n  long = 2\n}", got[0].NewText); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if want := (span{position{0, 0}, position{3, 1}}); got[0].Range != want {
		t.Errorf("the edit is of %v, want %v", got[0].Range, want)
	}
	for _, text := range []string{"locals {\n  a = 1\n}\n", "locals {\n a=1"} { // nothing to do; cannot be done
		if got := format(text); len(got) != 0 {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestSymbolsOfAFile(t *testing.T) {
	c := start(t, nil)
	defer c.stop()
	c.open("campaign.hcl", smallest)
	var got []struct{ Name, Detail string }
	c.call("textDocument/documentSymbol", map[string]any{"textDocument": map[string]any{"uri": c.uri("campaign.hcl")}}, &got)
	text := ""
	for _, s := range got {
		text += s.Detail + " " + s.Name + "\n"
	}
	if diff := cmp.Diff("campaign x\nmodel m\nframework vllm\n", text); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWrongRequests(t *testing.T) {
	c := start(t, nil)
	for method, params := range map[string]any{
		"textDocument/hover":      map[string]any{"textDocument": map[string]any{"uri": "file:///not/open.hcl"}},
		"textDocument/completion": map[string]any{"textDocument": map[string]any{"uri": "http://h/x"}},
		"textDocument/definition": []int{1},
		"textDocument/rename":     map[string]any{},
	} {
		var rpc *jsonrpc2.Error
		if err := c.conn.Call(context.Background(), method, params, nil); !errors.As(err, &rpc) {
			t.Errorf("%s: %v", method, err)
		}
	}
	c.stop()
}

// TestEditorThatDies ends the stream without a word: the server ends with an
// error and nothing of it stays.
func TestEditorThatDies(t *testing.T) {
	c := start(t, nil)
	c.close()
	if err := <-c.end; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the server ended with %v", err)
	}
}
