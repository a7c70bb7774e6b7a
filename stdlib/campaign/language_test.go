package campaign

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign/internal/sample"
)

// TestFormattingKeepsManifests takes the layout from a campaign and formats it
// again: every node keeps its key.
func TestFormattingKeepsManifests(t *testing.T) {
	loose := regexp.MustCompile(`(?m)^ +| +=| +$`).ReplaceAllStringFunc(sample.Text, func(s string) string {
		return strings.Trim(s, " ")
	})
	tight, diags := lang.Format("campaign.hcl", []byte(loose))
	if diags.HasErrors() || string(tight) == loose {
		t.Fatalf("formatting changed nothing (%v)", diags)
	}
	want := keys(t, sample.Text, nil)
	for name, src := range map[string]string{"loose": loose, "formatted": string(tight)} {
		if got := keys(t, src, nil); !maps.Equal(got, want) {
			t.Errorf("%s: %s", name, cmp.Diff(want, got))
		}
	}
}

// TestEnvironmentIsKeyed changes a framework's environment: all that runs its
// program is new, and nothing of the other framework.
func TestEnvironmentIsKeyed(t *testing.T) {
	src := strings.Replace(sample.Text, `flags   = { kernel = "naive"`, "env     = { MODE = \"1\" }\n  "+`flags   = { kernel = "naive"`, 1)
	for _, addr := range changed(keys(t, sample.Text, nil), keys(t, src, nil)) {
		if !strings.Contains(addr, ".slow") && !strings.HasPrefix(addr, "winners.") {
			t.Errorf("%s is new", addr)
		}
	}
	before, after := keys(t, sample.Text, nil), keys(t, src, nil)
	for addr := range before {
		if strings.HasPrefix(addr, "bench.slow") && before[addr] == after[addr] {
			t.Errorf("%s is not new", addr)
		}
	}
}

// TestOtherGPUCountIsSkipped searches parallelism with one value that does not
// use the campaign's GPUs (R055).
func TestOtherGPUCountIsSkipped(t *testing.T) {
	c := sample.Load(t, `
campaign "c" {
  target  = "vllm"
  compare = []
  smoke   = true
}
model "tiny" {
  vocab = [0, 512]
}
gpus {
  model = "NVIDIA H200"
  ids   = [0, 1]
}
scenario "s" {
  input_len  = 8
  output_len = 4
}
framework "vllm" {
  program = "server"
  flags   = { tensor_parallel_size = 2, max_model_len = 64 }
  search {
    max_candidates = 9
    space = {
      tensor_parallel_size   = [1, 2]
      pipeline_parallel_size = [1, 2]
    }
  }
}
`)
	f := facts(c)
	f.Helps = nil
	skipped := map[string]string{}
	for _, cell := range Declare(c, f).Cells {
		skipped[cell.Candidate.Name] = string(cell.SkipClass)
	}
	// Points of the product: 1×1, 1×2, 2×1, 2×2 GPUs, and the baseline of 2.
	want := map[string]string{
		"baseline": "",
		"tensor_parallel_size=1,pipeline_parallel_size=1": "bad_flag_value",
		"tensor_parallel_size=1,pipeline_parallel_size=2": "",
		"pipeline_parallel_size=1":                        "",
		"pipeline_parallel_size=2":                        "bad_flag_value",
	}
	if diff := cmp.Diff(want, skipped); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
