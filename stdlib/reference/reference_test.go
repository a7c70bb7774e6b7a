package reference

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/frameworks"
	"github.com/sotabuild/sotabuild/stdlib/stops"
)

// TestPagesAreGenerated compares the committed page with what the table says.
func TestPagesAreGenerated(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "language.md")
	got := Markdown(string(stops.HCL))
	if os.Getenv("SOTABUILD_UPDATE") == "1" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("docs/language.md is not what the table says; rewrite it with SOTABUILD_UPDATE=1 (-file +table):\n%s", diff)
	}
}

// TestEveryExampleLoads completes the example of every block, formats it, and
// loads it.
func TestEveryExampleLoads(t *testing.T) {
	used := 0
	for _, row := range lang.Schema() {
		text, ok := Example(row.Path)
		if !ok {
			t.Errorf("%s has no example", row.Path)
			continue
		}
		used++
		if !strings.Contains(text, shown(row)) {
			t.Errorf("the example of %s does not show it", row.Path)
		}
		if formatted, diags := lang.Format("example.hcl", []byte(text)); string(formatted) != text {
			t.Errorf("%s is not formatted (%v):\n%s", row.Path, diags, formatted)
		}
		dir := t.TempDir()
		for name, b := range Complete(row.Path, text) {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if c, diags := lang.Load(lang.Input{Dir: dir, Definitions: frameworks.FS}); c == nil {
			t.Errorf("the example of %s does not load:\n%s", row.Path, diags.Text(false))
		}
	}
	if files, err := examples.ReadDir("examples"); err != nil || len(files) != used {
		t.Errorf("%d examples of %d belong to a block (%v)", used, len(files), err)
	}
}

// TestSchemaTakesWhatLoads checks the JSON Schema with files that load, and with
// files that do not.
func TestSchemaTakesWhatLoads(t *testing.T) {
	campaign, definition := parsed(t, Campaign), parsed(t, Definition)
	for _, tt := range []struct {
		schema object
		text   string
		valid  bool
	}{
		{campaign, `{"//": "c", "campaign": {"x": {"target": "vllm", "compare": [], "smoke": true}}, "model": {"m": {"vocab": [0, 9]}}}`, true},
		{campaign, `{"framework": {"vllm": {"program": "p", "flags": {"a": 1, "b": null}, "search": {"space": {"a": [1, "x"]}}}}}`, true},
		{campaign, `{"scenario": {"s": {"input_len": "${var.n}", "output_len": 3}}, "locals": {"anything": {"a": [1]}}, "variable": {"n": {"type": "number"}}}`, true},
		{campaign, `{"gpus": [{"model": "H", "ids": [0, "GPU-1"]}], "sla": {"max_p50_ttft_ms": null}, "loop": {"rlcr": {"max_rounds": 1, "agent": {"manual": {"allowed_paths": ["a"]}}}}}`, true},
		{campaign, `{"campaign": {"x": {"goal": 1}}}`, false},
		{campaign, `{"campaign": {"x": {"target": 3}}}`, false},
		{campaign, `{"scenario": {"s": {"input_len": 0, "output_len": 3}}}`, false},
		{campaign, `{"scenario": {"s": {"output_len": 3}}}`, false},
		{campaign, `{"executor": {"podman": {}}}`, false},
		{campaign, `{"workload": {"endpoint": "responses"}}`, false},
		{campaign, `{"quality": {"max_age": "30"}}`, false},
		{campaign, `{"speed": 1}`, false},
		{definition, `{"definition": {"mine": {"server": {"command": ["a"], "stop": {"first": "2s", "second": "1s"}}, "help": {"server": {"command": ["a"]}}}}}`, true},
		{definition, `{"definition": {"mine": {"server": {"booleans": "maybe"}}}}`, false},
		{definition, `{"campaign": {}}`, false},
	} {
		var v any
		if err := json.Unmarshal([]byte(tt.text), &v); err != nil {
			t.Fatal(err)
		}
		if why := check(tt.schema, v); (why == "") != tt.valid {
			t.Errorf("%s: valid = %t, want %t (%s)", tt.text, why == "", tt.valid, why)
		}
	}
}

func parsed(t *testing.T, kind string) object {
	t.Helper()
	b, err := JSONSchema(kind)
	if err != nil {
		t.Fatal(err)
	}
	again, err := JSONSchema(kind)
	if err != nil || !bytes.Equal(b, again) {
		t.Fatalf("the schema is not the same twice (%v)", err)
	}
	var s object
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	return s
}
