package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestRoundsOfCampaignThatIsEdited: a plan that was begun is of the files as they
// were read; saving one meanwhile costs nobody an error.
func TestRoundsOfCampaignThatIsEdited(t *testing.T) {
	dir := t.TempDir()
	text := `campaign "edited" {
  target  = "one"
  compare = []
  smoke   = true
}
model "m" {
  path         = "model"
  precision    = "fp32"
  quantization = "none"
  vocab        = [0, 512]
  max_context  = 1024
}
sla {
  min_success_rate = 1
}
noise {
  threshold = 0.05
}
workload {
  concurrency = [1]
}
scenario "chat" {
  input_len   = 8
  output_len  = 8
  num_prompts = 4
}
framework "one" {
  use     = "own"
  program = "/bin/true"
}
`
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("campaign.hcl", text)
	write("model/weights.bin", "x")
	write("own.framework.hcl", `definition "own" {
  help "server" {
    command = ["{program}", "--help"]
  }
  server {
    command    = ["{program}", "--model", "{model}", "--served-model-name", "{served_name}", "--host", "{host}", "--port", "{port}", "{flags}"]
    flag_style = "kebab"
  }
}
`)
	var out, errText bytes.Buffer
	if code := (&app{out: &out, err: &errText}).run(t.Context(), []string{"-C", dir, "plan"}); code != 0 {
		t.Fatalf("plan ends with %d:\n%s", code, errText.String())
	}
	a := &app{out: &out, err: &errText, dir: dir, stale: true}
	o, err := a.outline(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write("campaign.hcl", text+"# a word\n")
	if _, err := o.loops(nil); err != nil {
		t.Error(err)
	}
}
