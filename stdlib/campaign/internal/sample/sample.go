// Package sample is the small campaign that the tests of this room share, with
// the facts of a host on which everything is there.
package sample

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/frameworks"
)

// Help is what the campaign's program prints as its help.
const Help = `usage: tinyserve [flags]
  --kernel {naive,blocked}   kernel (default: blocked)
  --max-model-len N          tokens (default: 1024)
  --max-num-seqs N           sequences (default: 8)
  --threads N                threads (default: 1)
`

// Text has two frameworks with 3 and 2 candidates, two scenarios and two
// concurrencies.
const Text = `
campaign "c" {
  target  = "fast"
  compare = ["slow"]
  smoke   = true
}
model "tiny" {
  path         = "model"
  precision    = "fp32"
  quantization = "none"
  vocab        = [0, 512]
}
sla {
  min_success_rate = 1
}
scenario "short" {
  input_len   = 8
  output_len  = 4
  num_prompts = 3
}
scenario "long" {
  input_len   = 32
  output_len  = 4
  num_prompts = 2
}
workload {
  arrival     = "inf"
  concurrency = [null, 2]
  warmup      = 1
  seed        = 1
}
framework "fast" {
  use     = "tinyserve"
  program = "server"
  flags   = { kernel = "blocked", max_model_len = 64 }
  search {
    max_candidates = 3
    space          = { max_num_seqs = [2, 4] }
  }
}
framework "slow" {
  use     = "tinyserve"
  program = "server"
  flags   = { kernel = "naive", max_model_len = 64 }
  search {
    max_candidates = 2
    space          = { max_num_seqs = [2] }
  }
}
`

// Load reads a campaign from a folder with a program and a model.
func Load(t *testing.T, src string) *lang.Campaign {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"campaign.hcl": src, "server": "#!/bin/true\n", "model/config.json": `{"vocab_size":512}`} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c, diags := lang.Load(lang.Input{Dir: dir, Definitions: frameworks.FS})
	if diags.HasErrors() {
		t.Fatal(diags.Text(false))
	}
	return c
}

// Binding are the facts of a host.
func Binding() []key.Fact {
	var b key.Builder
	b.Text("env.cpu", "", "test")
	return b.Finish().Facts()
}
