package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// campaigns measures `sotabuild plan` of campaigns of 1,000 and 10,000 cells that
// were never run, compiled anew and in the compiled form of the plan before, and
// `sotabuild validate`, which reads and checks the file and compiles nothing. sotabuild stands beside this program and is the program of
// both frameworks: a plan fingerprints it and starts nothing.
func (t *table) campaigns(dir, self string) error {
	sotabuild := filepath.Join(filepath.Dir(self), "sotabuild")
	time.Sleep(2100 * time.Millisecond) // a program that was just built is read again by each plan
	for _, size := range []struct {
		candidates, scenarios int
		cells, says           string
		bound                 time.Duration
	}{{25, 2, "1,000", "1056 later", time.Second}, {50, 10, "10,000", "10130 later", 0}} {
		at := filepath.Join(dir, size.cells)
		if err := os.MkdirAll(filepath.Join(at, "model"), 0o755); err != nil {
			return err
		}
		for name, text := range map[string]string{"campaign.hcl": campaign(sotabuild, size.candidates, size.scenarios), "model/config.json": `{"architectures": ["TinyserveForCausalLM"], "model_type": "tinyserve",
"vocab_size": 512, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
"intermediate_size": 320, "max_position_embeddings": 2048, "seed": 1}`} {
			if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o644); err != nil {
				return err
			}
		}
		var anew, plan, unread, validate times
		for range rounds {
			if err := anew.without(filepath.Join(at, ".sotabuild", "compiled"), size.says, sotabuild, "-C", at, "plan"); err != nil {
				return err
			}
			if err := plan.process(size.says, sotabuild, "-C", at, "plan"); err != nil {
				return err
			}
			if err := unread.process(size.says, sotabuild, "-C", at, "plan", "--refresh=false"); err != nil {
				return err
			}
			if err := validate.process("", sotabuild, "-C", at, "validate"); err != nil {
				return err
			}
		}
		bound, held := "none", true
		if size.bound > 0 {
			bound, held = "≤ "+size.bound.String(), anew.best() <= size.bound
		}
		figure := func(t times) string {
			return fmt.Sprintf("%s (CPU %s, %d MB)", ms(t.best()), ms(t.bestCPU()), t.memory>>20)
		}
		t.line("a plan of "+size.cells+" cells, compiled anew", figure(anew), bound, held)
		t.line("the same again", figure(plan), bound, held)
		t.line("the same with --refresh=false", figure(unread), bound, held)
		t.line("reading and checking that file, and starting", figure(validate), "none", true)
	}
	return nil
}

// campaign is two frameworks with so many candidates each, some scenarios, ten
// concurrencies.
func campaign(program string, candidates, scenarios int) string {
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
workload {
  arrival     = "inf"
  concurrency = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
  seed        = 1
}
`)
	for i := range scenarios {
		fmt.Fprintf(&b, "scenario \"chat%d\" {\n  input_len   = %d\n  output_len  = 64\n  num_prompts = 16\n}\n", i, 64+i)
	}
	var values []string
	for i := range candidates - 1 {
		values = append(values, fmt.Sprint(i+1))
	}
	for _, name := range []string{"a", "b"} {
		fmt.Fprintf(&b, `framework %q {
  use     = "tinyserve"
  program = %q
  flags   = { max_model_len = 1024 }
  search {
    max_candidates = %d
    space          = { max_num_seqs = [%s] }
  }
}
`, name, program, candidates, strings.Join(values, ", "))
	}
	return b.String()
}
