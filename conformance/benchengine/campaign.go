package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// campaigns measures `sotabuild plan` of a campaign of 1,000 cells that was
// never run, and `sotabuild validate`, which reads and checks the file and
// compiles nothing. sotabuild stands beside this program and is the program of
// both frameworks: a plan fingerprints it and starts nothing.
func (t *table) campaigns(dir, self string) error {
	sotabuild := filepath.Join(filepath.Dir(self), "sotabuild")
	if err := os.MkdirAll(filepath.Join(dir, "model"), 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{"campaign.hcl": campaign(sotabuild), "model/config.json": `{"architectures": ["TinyserveForCausalLM"], "model_type": "tinyserve",
"vocab_size": 512, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
"intermediate_size": 320, "max_position_embeddings": 2048, "seed": 1}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	var plan, validate times
	for range rounds {
		if err := plan.process("1056 later", sotabuild, "-C", dir, "plan"); err != nil {
			return err
		}
		if err := validate.process("", sotabuild, "-C", dir, "validate"); err != nil {
			return err
		}
	}
	t.line("a plan of 1,000 cells", fmt.Sprintf("%s (CPU %s, %d MB), reading and checking the file and starting %s of it (CPU %s)",
		ms(plan.best()), ms(plan.bestCPU()), plan.memory>>20, ms(validate.best()), ms(validate.bestCPU())), "≤ 1 s", plan.best() <= time.Second)
	return nil
}

// campaign is two frameworks, 25 candidates, two scenarios, ten concurrencies.
func campaign(program string) string {
	var b strings.Builder
	b.WriteString(`campaign "cells" {
  target  = "a"
  compare = ["b"]
  smoke   = true
}
model "tiny" {
  path         = "model"
  precision    = "fp32"
  quantization = "none"
  max_context  = 1024
}
sla {
  max_p50_ttft_ms = 20000
}
scenario "chat" {
  input_len   = 64
  output_len  = 64
  num_prompts = 16
}
scenario "summarization" {
  input_len   = 256
  output_len  = 32
  num_prompts = 8
}
workload {
  arrival     = "inf"
  concurrency = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
  seed        = 1
}
`)
	var values []string
	for i := range 24 {
		values = append(values, fmt.Sprint(i+1))
	}
	for _, name := range []string{"a", "b"} {
		fmt.Fprintf(&b, `framework %q {
  use     = "tinyserve"
  program = %q
  flags   = { max_model_len = 1024 }
  search {
    max_candidates = 25
    space          = { max_num_seqs = [%s] }
  }
}
`, name, program, strings.Join(values, ", "))
	}
	return b.String()
}
