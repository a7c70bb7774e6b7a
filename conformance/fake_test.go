package conformance

import (
	_ "embed"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// definition describes badserve to a campaign, as a user would describe a
// server of their own.
//
//go:embed badserve/badserve.framework.hcl
var definition string

// fakeModel is all that a campaign needs to know of a model that nobody loads.
const fakeModel = `{"vocab_size": 512, "max_position_embeddings": 1024}`

// head begins a campaign with small scenarios of badserve: a flow check.
func head(scenarios int, compare ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `campaign "fake" {
  target  = "good"
  compare = ["%s"]
  smoke   = true
}
model "m" {
  path         = "model"
  precision    = "fp32"
  quantization = "none"
  max_context  = 1024
}
sla {
  max_p50_ttft_ms  = 20000
  max_p50_tpot_ms  = 5000
  min_success_rate = 0.99
}
workload {
  concurrency = [2]
  warmup      = 1
}
`, strings.Join(compare, `", "`))
	for i, name := range []string{"chat", "summarization"}[:scenarios] {
		fmt.Fprintf(&b, "scenario %q {\n  input_len   = %d\n  output_len  = 8\n  num_prompts = 4\n}\n", name, 16*(1+3*i))
	}
	return b.String()
}

// framework is a block that serves with badserve. more are further lines.
func framework(label string, flags map[string]any, more ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "framework %q {\n  use     = \"badserve\"\n  program = %q\n  flags = {\n", label, filepath.Join(bin, "badserve"))
	for _, name := range sorted(flags) {
		fmt.Fprintf(&b, "    %s = %#v\n", name, flags[name])
	}
	b.WriteString("  }\n")
	for _, line := range more {
		b.WriteString("  " + line + "\n")
	}
	b.WriteString("}\n")
	return b.String()
}

const twoSlots = `search {
    max_candidates = 3
    space = { slots = [1, 2] }
  }`

// noSearch leaves the baseline alone.
const noSearch = `search {
    max_candidates = 1
    space = {}
  }`

// fake are the files of a campaign.
func fake(campaign string) map[string]string {
	return map[string]string{"campaign.hcl": campaign, "badserve.framework.hcl": definition, "model/config.json": fakeModel}
}

// pair compares two paces of a server in two scenarios, three candidates each;
// the slower one takes at
// least 160 ms a cell by its schedule, so that no rank can flip (DESIGN 11.7).
func pair(mode string) map[string]string {
	return fake(head(2, "slow") +
		framework("good", map[string]any{"mode": mode, "pace_us": 200}, twoSlots) +
		framework("slow", map[string]any{"mode": mode, "pace_us": 10000}, twoSlots))
}

func sorted(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
